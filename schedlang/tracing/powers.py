"""Powers in a traced function: of bool, and negative ones of integers, which NumPy refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from schedlang.compute.graph import operations
from schedlang.compute.read import reads
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.networks.element_ranges import ElementRanges
from schedlang.tracing.items import is_traced
from schedlang.tracing.trace import Value, current
from schedlang.tracing.unknown import line_text

REASON = "integers to negative integer powers are not allowed, as in NumPy"
HINT = "Convert the base to floats, x.astype('float64'), or divide by the positive power."


def check_power(ufunc: Any, inputs: Sequence[Any], named: Any) -> None:
    """Raise for a power of integers whose exponent may be negative.

    An exponent that is an argument is checked by each call. One that the function computes must be
    0 or more for all elements of the arguments, by the ranges of integers.
    """
    if ufunc is not np.power or named.get("dtype") is not None or len(inputs) != 2:
        return
    base, exponent = (np.asarray(v) if _is_numbers(v) else v for v in inputs)
    kinds = [getattr(getattr(v, "dtype", None), "kind", None) for v in (base, exponent)]
    if not all(kind in ("b", "i", "u") for kind in kinds):
        return
    value = _unknown(exponent)
    if value is None:
        if (exponent < 0).any():
            least = exponent.min()
            raise ComputeTypeError(
                explain(f"a power with exponents from {least} in {line_text()}", REASON, HINT)
            )
    elif kinds[1] == "i" and not _is_argument(exponent) and _may_be_negative(value):
        reason = "the exponent is neither a number nor a whole argument"
        refuse_exponent(f"a power in {line_text()}", reason)


def to_the_power(base: Any, exponent: Any) -> Any:
    """Return ``base ** exponent``. NumPy squares an array for ``** 2``: of bool, it is int8."""
    if type(exponent) is int and exponent == 2 and base.dtype == bool and not base.is_scalar:
        return np.square(base)
    return np.lib.mixins.NDArrayOperatorsMixin.__pow__(base, exponent)


def refuse_exponent(asked: str, reason: str) -> NoReturn:
    """Raise for a power of integers whose exponent may be negative, for a ``reason``."""
    raise ComputeTypeError(
        explain(
            asked,
            f"{reason}, so it may be negative, and {REASON}",
            "Where no exponent n is negative, write np.maximum(n, 0) in its place, or name a "
            "scalar n in static_argnames. Or convert the base to floats, x.astype('float64').",
        )
    )


def _is_numbers(value: Any) -> bool:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(v, (bool, int, float)) and not is_traced(v) for v in parts)


def _unknown(exponent: Any) -> Value | None:
    """Return the value of an exponent, also under a mask; ``None`` for an array of NumPy."""
    if is_traced(exponent):
        return exponent.value
    return exponent.whole if hasattr(type(exponent), "whole") else None


def _is_argument(exponent: Any) -> bool:
    """Return whether an exponent has all elements of an argument, which each call then checks."""
    if not is_traced(exponent):
        return False
    whole = current().read(exponent.storage)
    size = whole.size if isinstance(whole, Tensor) else 1
    return bool(exponent.size == size) and current().note_exponent(exponent.storage)


def _may_be_negative(value: Value) -> bool:
    """Return whether elements of an exponent may be negative, by the ranges of integers."""
    trace = current()
    tensors = [value] if isinstance(value, Tensor) else [r.tensor for r in reads([value])]
    ranges = ElementRanges(dict(trace.constants), variables=trace.indices())
    for op in operations(tensors):
        ranges.learn(op)
    least, _ = ranges.of_tensor(value) if isinstance(value, Tensor) else ranges.of(value)
    return least is None or least < 0
