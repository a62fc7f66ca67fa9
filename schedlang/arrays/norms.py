"""``np.linalg.norm`` and its parts, and 1-d convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.arrays.contraction import contract
from schedlang.arrays.elementwise import array
from schedlang.arrays.host.calls import on_host
from schedlang.arrays.host.linear import ROWS
from schedlang.arrays.moments import square
from schedlang.arrays.reductions import extreme, fold
from schedlang.arrays.shapes import at_least_0, axis_numbers, extent
from schedlang.arrays.shaping import expand_dims, permute, ravel, squeeze
from schedlang.arrays.stages import read, tensor_of
from schedlang.compute import reduce
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.composed import norm_of
from schedlang.language.construct import as_expr, binary, cast, const, select


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A002
    """Return ``np.linalg.norm`` of vectors, and of matrices.

    Without ``ord`` it is the root of the sum of squares, of all elements or over ``axis``.
    """
    asked = "np.linalg.norm"
    source = tensor_of(x, asked)
    if not dtypes.is_float(source.dtype) and not dtypes.is_complex(source.dtype):
        source = array("astype", lambda v: cast(v, "float64"), source)
    if axis is None and ord is not None and source.ndim > 2:
        raise ComputeError(f"{asked}: with ord=, give axis= for more than two dimensions")
    axes = axis_numbers(axis, source.ndim, asked)
    if len(axes) > 2 and axis is not None:
        raise ComputeError(f"{asked}: axis={axis} must name one or two dimensions")
    if ord is None or (len(axes) == 2 and ord in ("fro", "f")) or (len(axes) == 1 and ord == 2):
        return _root_of_squares(source, axes, keepdims)
    if len(axes) == 1:
        return _vector(source, ord, axes, keepdims, asked)
    return _matrix(source, ord, axes, keepdims, asked)


def vector_norm(
    x: Any,
    axis: Any = None,
    keepdims: bool = False,
    ord: Any = 2,  # noqa: A002
) -> Tensor:
    """Return ``np.linalg.vector_norm``: the norm of all elements, or of those along ``axis``."""
    source = tensor_of(x, "np.linalg.vector_norm")
    if axis is None and not keepdims:
        return norm(ravel(source), ord)
    axes = axis_numbers(axis, source.ndim, "np.linalg.vector_norm")
    if len(axes) == 1 or ord == 2:
        return norm(source, None if ord == 2 else ord, axes, keepdims)
    raise ComputeError("np.linalg.vector_norm: with ord=, give axis= as one dimension")


def _root_of_squares(source: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    wide = "float32" if source.dtype in dtypes.SHORT_FLOATS else source.dtype
    squares = fold(
        "squares",
        [source],
        axes,
        lambda k, c, v: reduce.sum(square(cast(v, wide)), k, c),
        keepdims,
    )
    result = dtypes.part_of(wide) if dtypes.is_complex(wide) else source.dtype
    return array("norm", lambda s: cast(norm_of(s), result), squares)


def _vector(source: Tensor, order: Any, axes: Sequence[int], keepdims: bool, asked: str) -> Tensor:
    size = array("absolute", lambda v: call("abs", v), source)
    if order in (np.inf, -np.inf):
        return extreme("max" if order > 0 else "min", size, tuple(axes), keepdims)
    if order == 0:
        kind = size.dtype
        return fold(
            "count",
            [source],
            axes,
            lambda k, c, v: reduce.sum(cast(binary("!=", v, 0), kind), k, c),
            keepdims,
        )
    if order == 1:
        return fold("norm", [size], axes, lambda k, c, v: reduce.sum(v, k, c), keepdims)
    if isinstance(order, str):
        raise ComputeError(f"{asked}: ord={order!r} is a norm of matrices; give a number")
    powers = fold(
        "powers",
        [size],
        axes,
        lambda k, c, v: reduce.sum(binary("**", v, float(order)), k, c),
        keepdims,
    )
    return array("norm", lambda s: norm_of(s, order), powers)


def _matrix(source: Tensor, order: Any, axes: Sequence[int], keepdims: bool, asked: str) -> Tensor:
    if order in (2, -2, "nuc"):
        return _of_singular_values(source, order, axes, keepdims)
    if order not in (1, -1, np.inf, -np.inf):
        raise ComputeError(
            explain(
                f"{asked}(ord={order!r}) of a matrix",
                "a matrix has no such norm",
                'Write ord=None, "fro", "nuc", 1, -1, 2, -2, np.inf or -np.inf.',
            )
        )
    # infinity sums the rows, 1 the columns
    summed, rest = (axes[1], axes[0]) if abs(order) != 1 else (axes[0], axes[1])
    size = array("absolute", lambda v: call("abs", v), source)
    sums = fold("sum", [size], (summed,), lambda k, c, v: reduce.sum(v, k, c), True)
    size_of_matrix = extreme("max" if order > 0 else "min", sums, (rest,), True)
    return size_of_matrix if keepdims else squeeze(size_of_matrix, tuple(axes))


def _of_singular_values(source: Tensor, order: Any, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Return the largest, least or summed singular values, which NumPy computes on the host."""
    rest = [k for k in range(source.ndim) if k not in axes]
    matrices = permute(source, [*rest, *axes])
    singular = on_host("linalg.svdvals", ROWS["linalg.svdvals"], x=matrices)
    if order == "nuc":
        result = fold("norm", [singular], (singular.ndim - 1,),
                      lambda k, c, v: reduce.sum(v, k, c), False)  # fmt: skip
    else:
        result = extreme("max" if order > 0 else "min", singular, -1, False)
    return expand_dims(result, tuple(axes)) if keepdims else result


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """Return ``np.convolve`` of two vectors in the modes ``full``, ``same`` and ``valid``."""
    return _convolve("convolve", *_vectors(a, v, "np.convolve"), mode, True)


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """Return ``np.correlate`` of two vectors, by default where they overlap whole."""
    return _convolve("correlate", *_vectors(a, v, "np.correlate"), mode, False)


def _vectors(a: Any, v: Any, asked: str) -> tuple[Tensor, Tensor]:
    pair = tensor_of(a, asked), tensor_of(v, asked)
    for side in pair:
        if side.ndim != 1:
            raise ComputeError(
                f"{asked} of {side.name}, which has {side.ndim} dimensions: it takes vectors; "
                "write a 2-d convolution with sl.compute and two reduction axes"
            )
    return pair


def _convolve(word: str, a: Tensor, v: Tensor, mode: str, turned: bool) -> Tensor:
    (n,), (m,) = a.shape, v.shape
    is_static = isinstance(n, int) and isinstance(m, int)
    if is_static and not (n and m):
        raise ComputeError(f"np.{word}: an operand is empty; give vectors of 1 element or more")
    if mode not in ("full", "same", "valid"):
        raise ComputeError(f"np.{word}(mode={mode!r}): the modes are 'full', 'same' and 'valid'")
    if not is_static and mode != "full":
        raise ComputeError(
            explain(
                f"np.{word}(mode={mode!r}) of {n} and {m} elements",
                "which of the two is longer is not known",
                'Write mode="full" and slice the result.',
            )
        )
    # in the full result, element p is the sum of a[p - q] times the kernel's q
    start = 0
    length = extent(as_expr(n) + m - 1)
    if isinstance(n, int) and isinstance(m, int) and mode != "full":
        short = min(n, m)
        length = max(n, m) if mode == "same" else max(n, m) - short + 1
        start = short - 1
        if mode == "same":
            # NumPy turns a correlation whose second operand is longer
            start = short // 2 if m > n and not turned else (short - 1) // 2
    i, k = Axis("i", at_least_0(length)), Axis("k", m, "reduce")
    at = i + start - k
    inside = (at >= 0) & (at < n)
    weight: Expr = read(v, [k if turned else as_expr(m) - 1 - k])
    # NumPy's correlation conjugates its second operand
    factor = weight if turned else call("conj", weight)
    value = select(inside, read(a, [at]), const(0, a.dtype), lazy=True)
    return contract(word, (i,), (k,), [value, factor])
