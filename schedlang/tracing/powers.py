"""Integers to negative integer powers, which NumPy refuses, in a traced function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.items import is_traced
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text

REASON = "integers to negative integer powers are not allowed, as in NumPy"
HINT = "Convert the base to floats, x.astype('float64'), or divide by the positive power."


def check_power(ufunc: Any, inputs: Sequence[Any], named: Any) -> None:
    """Raise for a power of integers whose exponent is an array with a negative number.

    An exponent that is an argument is checked by each call.
    """
    if ufunc is not np.power or named.get("dtype") is not None or len(inputs) != 2:
        return
    base, exponent = inputs
    kinds = [getattr(v, "dtype", np.dtype(type(v)) if isinstance(v, (bool, int, float)) else None)
             for v in (base, exponent)]  # fmt: skip
    if any(kind is None or kind.kind not in "biu" for kind in kinds):
        return
    if is_traced(exponent):
        if not exponent.is_view:
            current().note_exponent(exponent.storage)
    elif isinstance(exponent, np.ndarray) and (exponent < 0).any():
        raise ComputeTypeError(
            explain(f"a power with exponents from {exponent.min()} in {line_text()}", REASON, HINT)
        )


__all__ = ["HINT", "REASON", "check_power"]
