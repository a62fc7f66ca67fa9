"""Means and variances of whole arrays, as NumPy computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.reductions import fold
from schedlang.arrays.shapes import reduced_axes, size_of
from schedlang.arrays.shaping import broadcast_to, reshape
from schedlang.arrays.stages import tensor_of
from schedlang.compute import reduce
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Const, Expr
from schedlang.language.calls import call
from schedlang.language.composed import norm_of
from schedlang.language.construct import as_expr, binary, cast


def mean(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None
) -> Tensor:
    """Return ``np.mean``: the sum, then its division by the number of elements.

    Integers are summed in float64, and short floats in float32.
    """
    source = tensor_of(a, "np.mean")
    result, wide = _dtypes(source.dtype, dtype, "np.mean")
    axes = reduced_axes(axis, source.ndim, "np.mean")
    return _mean(source, axes, wide, result, keepdims, where, "np.mean")


def _mean(
    source: Tensor,
    axes: Sequence[int],
    wide: str,
    result: str,
    keepdims: bool,
    where: Any,
    asked: str,
) -> Tensor:
    total = fold(
        "sum",
        [source],
        axes,
        lambda k, c, x: reduce.sum(cast(x, wide), k, c),
        keepdims,
        where,
        asked,
    )
    count = _count(source, axes, keepdims, where, asked)
    return array("mean", lambda s, n: cast(_divided(s, n, wide), result), total, count)


def _dtypes(dtype: str, given: Any, asked: str) -> tuple[str, str]:
    """Return the dtype of a mean or variance, and the dtype that accumulates it."""
    if given is not None:
        chosen = dtypes.canonical(given)
        if not _inexact(chosen):
            raise ComputeTypeError(
                f"{asked}(dtype={chosen!r}): the result is a float; give a float dtype, and round "
                "and cast the result"
            )
        return chosen, chosen
    if not _inexact(dtype):
        return "float64", "float64"
    return dtype, "float32" if dtype in dtypes.SHORT_FLOATS else dtype


def _inexact(dtype: str) -> bool:
    return dtypes.is_float(dtype) or dtypes.is_complex(dtype)


def _real(dtype: str) -> str:
    """Return the dtype of magnitudes of ``dtype``."""
    return dtypes.part_of(dtype) if dtypes.is_complex(dtype) else dtype


def _count(
    source: Tensor, axes: Sequence[int], keepdims: bool, where: Any, asked: str
) -> Tensor | Expr:
    """Return the number of elements that are reduced to one."""
    if where is None:
        return as_expr(size_of(source.shape[k] for k in axes))
    return fold(
        "count",
        [source],
        axes,
        lambda k, c, _: reduce.sum(cast(1, "int64"), k, c),
        keepdims,
        where,
        asked,
    )


def _divided(total: Expr, count: Expr, dtype: str) -> Expr:
    divisor = count if isinstance(count, Const) and count.weak else cast(count, dtype)
    return binary("/", total, divisor)


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    correction: Any = None,
    root: bool = False,
) -> Tensor:
    """Return ``np.var``, or ``np.std`` if ``root``: the mean first, then the squared deviations.

    The sum of squares is divided by the number of elements less ``ddof``.
    """
    asked = "np.std" if root else "np.var"
    if correction is not None:
        if ddof != 0:
            raise ComputeTypeError(f"{asked}: ddof and correction are one; give one of them")
        ddof = correction
    source = tensor_of(a, asked)
    result, wide = _dtypes(source.dtype, dtype, asked)
    axes = reduced_axes(axis, source.ndim, asked)
    middle = _mean(source, axes, wide, wide, True, where, asked)
    squares = fold(
        "squares",
        [source, middle],
        axes,
        lambda k, c, x, m: reduce.sum(square(binary("-", cast(x, wide), m)), k, c),
        keepdims,
        where,
        asked,
    )
    count = _count(source, axes, keepdims, where, asked)

    def value(total: Expr, n: Expr) -> Expr:
        quotient = _divided(total, _without(n, ddof, asked), _real(wide))
        return cast(norm_of(quotient) if root else quotient, _real(result))

    return array("std" if root else "var", value, squares, count)


def square(value: Expr) -> Expr:
    """Return the square of a number, or of the magnitude of a complex one."""
    if not dtypes.is_complex(value.dtype):
        return binary("*", value, value)
    real, imag = (call(part, value) for part in ("real", "imag"))
    return binary("+", binary("*", real, real), binary("*", imag, imag))


def _without(count: Expr, ddof: Any, asked: str) -> Expr:
    """Return ``max(count - ddof, 0)``."""
    if isinstance(ddof, bool) or not isinstance(ddof, (int, float, np.integer, np.floating)):
        raise ComputeTypeError(f"{asked}: ddof={ddof!r} must be a number")
    if isinstance(count, Const):
        return as_expr(max(count.value - ddof, 0))
    return call("max", binary("-", count, ddof), 0) if ddof else count


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Return ``np.average``: the mean, weighted by ``weights`` of the shape of ``a``.

    1-d weights belong to the dimension ``axis``.
    """
    source = tensor_of(a, "np.average")
    if returned:
        raise ComputeTypeError(
            "np.average(returned=True): only the average is computed; the sum of weights is "
            "np.sum(weights, axis)"
        )
    if weights is None:
        return mean(source, axis, keepdims=keepdims)
    scale = tensor_of(weights, "np.average")
    axes = reduced_axes(axis, source.ndim, "np.average")
    if scale.ndim != source.ndim:
        if scale.ndim != 1 or len(axes) != 1:
            raise ComputeError(
                f"np.average: weights of shape {shape_text(scale.shape)} fit neither "
                f"{source.name} of shape {shape_text(source.shape)} nor one dimension of it; give "
                "weights of that shape, or 1-d weights and axis="
            )
        scale = reshape(scale, [-1 if k in axes else 1 for k in range(source.ndim)])
    dtype, _ = dtypes.promote(source.dtype, False, scale.dtype, False)
    if not _inexact(dtype):
        dtype = "float64"
    scale = broadcast_to(scale, source.shape)
    _, wide = _dtypes(dtype, None, "np.average")
    weighted = fold(
        "sum",
        [source, scale],
        axes,
        lambda k, c, x, w: reduce.sum(binary("*", cast(x, wide), cast(w, wide)), k, c),
        keepdims,
    )
    sums = fold("sum", [scale], axes, lambda k, c, w: reduce.sum(cast(w, wide), k, c), keepdims)
    return array("average", lambda s, w: cast(binary("/", s, w), dtype), weighted, sums)
