"""Checks of what operators are given; messages name the operator, the tensor and its layout."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.arrays.shapes import multiples_that_fit, same, unfit
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Const, Expr
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr

# the dimensions along which windows slide, in the order of their numbers
SPATIAL = "DHW"
MEANINGS = {
    "N": "batch", "C": "channels", "D": "depth", "H": "height", "W": "width",
    "M": "channel multiplier", "O": "output channels", "I": "input channels",
    "c": "block of channels",
    "i": "block of input channels", "o": "block of output channels",
}  # fmt: skip


def check_tensor(asked: str, value: Any, what: str, *dims: str) -> Tensor:
    """Return ``value`` if it is a tensor with a dimension for each of ``dims``, if any are given.

    Raises :class:`ComputeTypeError` for another value, :class:`ComputeError` for other dimensions.
    """
    if not isinstance(value, Tensor):
        raise ComputeTypeError(
            explain(
                f"{asked} with {what}={_shown(value)}",
                f"{what} must be a tensor, not a {type(value).__name__}",
                "Declare it by sl.placeholder(shape, dtype, name=...), and pass arrays to the "
                "kernel.",
            )
        )
    if dims and value.ndim != len(dims):
        raise ComputeError(
            explain(
                f"{asked} with {what} {value.name} of shape {shape_text(value.shape)}",
                f"{what} has {len(dims)} dimension{'s' * (len(dims) != 1)} ({', '.join(dims)}), "
                f"but {value.name} has {value.ndim}",
                "topi.expand_dims adds a dimension, topi.reshape and topi.squeeze change them.",
            )
        )
    return value


def check_layout(asked: str, layout: Any, letters: str, what: str = "layout") -> str:
    """Return ``layout`` if it has each of ``letters`` once, in any order."""
    if not isinstance(layout, str) or sorted(layout) != sorted(letters):
        meanings = ", ".join(f"{c} {MEANINGS[c]}" for c in letters)
        raise ComputeError(
            f"{asked}: {what}={layout!r} is not an order of the letters {letters} ({meanings})"
        )
    return layout


def laid_out(asked: str, value: Any, what: str, layout: str) -> Tensor:
    """Return ``value`` if it is a tensor with a dimension for each letter of ``layout``."""
    return check_tensor(asked, value, what, *(f"{c} {MEANINGS[c]}" for c in layout))


def dims_of(asked: str, data: Any, layout: Any, letters: str) -> list[str]:
    """Return the dimensions of ``data`` in ``layout``, such as ``N, C, H, W, c`` of ``NCHW16c``.

    Raises :class:`ComputeError` if one of the spatial ``letters`` is missing or in blocks, or if
    there is another one.
    """
    parts = re.findall(r"[A-Z]|\d+[a-z]", layout) if isinstance(layout, str) else []
    dims = [d[-1] for d in parts]
    spatial = [c for c in dims if c.upper() in SPATIAL]
    if "".join(parts) != layout or len(set(dims)) < len(dims) or sorted(spatial) != sorted(letters):
        named = ", ".join(f"{c} {MEANINGS[c]}" for c in letters)
        raise ComputeError(
            f"{asked}: layout={layout!r} is not a layout with {named}, such as 'NC{letters}', "
            f"'N{letters}C' or 'NC{letters}16c'"
        )
    check_tensor(asked, data, "data", *(f"{c} {MEANINGS.get(c, '')}".strip() for c in dims))
    return dims


def check_numbers(
    asked: str, given: Any, what: str, counts: Sequence[int], least: int
) -> tuple[int, ...]:
    """Return ``given`` as integers of at least ``least``, as many as one of ``counts``.

    One integer stands for the first of ``counts``.
    """
    if isinstance(given, (tuple, list)):
        items = list(given)
    else:
        items = [given] * counts[0]
    if len(items) not in counts:
        allowed = " or ".join(str(c) for c in counts)
        raise ComputeError(
            f"{asked}: {what}={given} has {len(items)} number{'s' * (len(items) != 1)}, but must "
            f"have {allowed}, or be one integer"
        )
    items = [item.value if isinstance(item, Const) else item for item in items]
    for item in items:
        if isinstance(item, (bool, Expr)) or not hasattr(item, "__index__"):
            raise ComputeTypeError(f"{asked}: {what}={_shown(given)} must be made of integers")
        if item.__index__() < least:
            raise ComputeError(f"{asked}: {what}={given} must be {least} or more")
    return tuple(item.__index__() for item in items)


def check_whole(asked: str, value: Extent, what: str) -> int:
    """Return an extent that has to be a number."""
    if not isinstance(value, int):
        raise ComputeError(
            explain(
                f"{asked}: {what} is {value}",
                "it must be a number, since it decides the loops of the operator",
                "Only the batch and the dimensions that are kept may be symbolic.",
            )
        )
    return value


def check_divides(asked: str, value: Extent, number: int, what: str, parts: str) -> None:
    """Raise :class:`ComputeError` unless an extent is provably a multiple of ``number``."""
    rest = as_expr(value) % number
    if to_lin(rest).const != 0:
        is_static = isinstance(value, int)
        raise unfit(
            asked,
            f"{what} is {value}, which does not {'' if is_static else 'provably '}divide into "
            f"{parts}",
            "" if is_static else f'Declare it as a multiple: {number} * sl.var("n").',
            multiples_that_fit([rest], lambda left: left.const == 0),
        )


def check_same(asked: str, a: Extent, what_a: str, b: Extent, what_b: str) -> None:
    """Raise :class:`ComputeError` unless two extents are the same."""
    if not same(a, b):
        is_static = isinstance(a, int) and isinstance(b, int)
        raise unfit(
            asked,
            f"{what_a} is {a}, but {what_b} is {b}"
            + ("" if is_static else ", and they are not known to be equal"),
            "" if is_static else 'Declare both by one size, n = sl.var("n").',
            multiples_that_fit([a, b], operator.eq),
        )


def check_shape(asked: str, value: Tensor, what: str, shape: Sequence[Extent]) -> None:
    """Raise :class:`ComputeError` unless ``value`` has ``shape``."""
    if value.ndim != len(shape) or not all(map(same, value.shape, shape)):
        raise ComputeError(
            f"{asked}: {what} {value.name} has shape {shape_text(value.shape)}, but must have "
            f"{shape_text(shape)}"
        )


def check_float(asked: str, value: Tensor) -> None:
    """Raise :class:`ComputeTypeError` for a tensor that is not of floats."""
    if not dtypes.is_float(value.dtype):
        raise ComputeTypeError(
            explain(
                f"{asked} of {value.name}",
                f"{value.name} is {value.dtype}, but the operator computes with floats",
                'Cast it first: topi.cast(X, "float32").',
            )
        )


def check_scalar(asked: str, value: Any, what: str) -> None:
    """Raise :class:`ComputeTypeError` unless ``value`` is a number, or an expression of one."""
    number = isinstance(value, (int, float, np.number, Expr)) and not isinstance(value, bool)
    if not number and not (isinstance(value, Tensor) and not value.ndim):
        raise ComputeTypeError(f"{asked}: {what}={_shown(value)} must be a number")


def check_list(asked: str, value: Any, what: str) -> None:
    """Raise :class:`ComputeTypeError` unless ``value`` is a list or tuple."""
    if not isinstance(value, (list, tuple)):
        title = value.name if isinstance(value, Tensor) else _shown(value)
        raise ComputeTypeError(f"{asked}({title}): {what} must be a list of tensors")


def check_index(asked: str, value: Tensor, what: str) -> None:
    """Raise :class:`ComputeTypeError` for a tensor that is not of integers."""
    if value.dtype == "bool" or not dtypes.is_integer(value.dtype):
        raise ComputeTypeError(
            f"{asked}: {what} {value.name} is {value.dtype}, but must be of integers; "
            'topi.cast(X, "int32") converts it'
        )


def check_choice(asked: str, value: Any, what: str, known: Sequence[Any]) -> None:
    """Raise :class:`ComputeError` unless ``value`` is one of ``known``."""
    if not any(value is k or (isinstance(value, str) and value == k) for k in known):
        listed = ", ".join(repr(k) for k in known)
        raise ComputeError(f"{asked}: {what}={value!r} is none of {listed}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
