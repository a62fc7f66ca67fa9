"""The shapes of results of NumPy's functions, from the shapes of their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.arrays.shapes import (
    axis_numbers,
    broadcast,
    extent,
    reduced_axes,
    same,
    size_of,
    smallest,
)
from schedlang.compute.tensor import Extent, Shape, shape_text
from schedlang.errors import ComputeError
from schedlang.language.construct import as_expr


def like(name: str) -> Callable[..., Shape]:
    """Return the rule of a result that has the shape of the array, or the number, ``name``."""
    return lambda **given: given[name] if isinstance(given[name], tuple) else ()


def along(a: Shape, axis: Any = -1, **_: Any) -> Shape:
    """Return the shape of ``a``, or a vector of all its elements if ``axis`` is ``None``."""
    return (size_of(a),) if axis is None else a


def reduced(a: Shape, axis: Any = None, keepdims: bool = False, **_: Any) -> Shape:
    """Return the shape that is left of ``a`` after a reduction over ``axis``."""
    axes = reduced_axes(axis, len(a), "axis=")
    if keepdims:
        return tuple(1 if k in axes else e for k, e in enumerate(a))
    return tuple(e for k, e in enumerate(a) if k not in axes)


def quantiles(a: Shape, q: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Shape:
    """Return the shape of quantiles: the shape of ``q``, then what a reduction leaves."""
    return (*np.shape(q), *reduced(a, axis, keepdims))


def square(a: Shape, asked: str) -> Extent:
    """Return the number of rows of square matrices; raise for others."""
    if len(a) < 2 or not same(a[-1], a[-2]):
        raise ComputeError(
            f"{asked} of shape {shape_text(a)}: it takes square matrices, in the last two "
            "dimensions; slice the array to one"
        )
    return a[-1]


def of_square(name: str, result: Callable[[Shape], Any]) -> Callable[..., Any]:
    """Return the rule of ``np.linalg.<name>``, which takes square matrices as the array ``a``."""

    def shape(a: Shape, **_: Any) -> Any:
        square(a, f"np.linalg.{name}")
        return result(a)

    return shape


def solved(a: Shape, b: Shape, **_: Any) -> Shape:
    """Return the shape of the solution of a linear system, or of several."""
    rows = square(a, "np.linalg.solve")
    if len(b) == 1:
        return (*broadcast([a[:-2], ()], "np.linalg.solve"), *_rows(rows, b[0], a, b))
    batch = broadcast([a[:-2], b[:-2]], "np.linalg.solve")
    return (*batch, *_rows(rows, b[-2], a, b), b[-1])


def _rows(rows: Extent, given: Extent, a: Shape, b: Shape) -> Shape:
    if not same(rows, given):
        raise ComputeError(
            f"np.linalg.solve of shapes {shape_text(a)} and {shape_text(b)}: the matrix has {rows} "
            f"rows, and the right side {given}; they must be equal"
        )
    return (rows,)


def factors(a: Shape, mode: str = "reduced", **_: Any) -> Any:
    """Return the shapes of the factors of a QR decomposition."""
    m, n = a[-2:]
    k = smallest(m, n)
    if mode == "complete":
        return [(*a[:-2], m, m), a]
    if mode == "r":
        return (*a[:-2], k, n)
    if mode == "raw":
        return [(*a[:-2], n, m), (*a[:-2], k)]
    return [(*a[:-2], m, k), (*a[:-2], k, n)]


def singular(a: Shape, full_matrices: bool = True, compute_uv: bool = True, **_: Any) -> Any:
    """Return the shapes of a singular value decomposition."""
    m, n = a[-2:]
    k = smallest(m, n)
    if not compute_uv:
        return (*a[:-2], k)
    left, right = (m, n) if full_matrices else (k, k)
    return [(*a[:-2], m, left), (*a[:-2], k), (*a[:-2], right, n)]


def transformed(
    last: Callable[[Extent], Extent] | None, count: Callable[[Extent], Extent] | None
) -> Callable[..., Shape]:
    """Return the rule of a Fourier transform along ``axis``, of ``n`` points.

    Without ``n``, ``count`` of the extent is the number of points. ``last`` of it is the extent of
    the result.
    """

    def shape(a: Shape, n: Any = None, axis: Any = -1, **_: Any) -> Shape:
        (k,) = axis_numbers(axis, len(a), "axis=")
        points = a[k] if n is None else n
        if n is None and count is not None:
            points = count(points)
        return (*a[:k], points if last is None else last(points), *a[k + 1 :])

    return shape


def transformed_axes(
    last: Callable[[Extent], Extent] | None,
    count: Callable[[Extent], Extent] | None,
    default: tuple[int, ...] | None,
) -> Callable[..., Shape]:
    """Return the rule of a Fourier transform along several ``axes``, of ``s`` points in each."""

    def shape(a: Shape, s: Any = None, axes: Any = default, **_: Any) -> Shape:
        if axes is None:
            axes = range(len(a)) if s is None else range(len(a) - len(s), len(a))
        result = list(a)
        numbers = [axis_numbers(axis, len(a), "axes=")[0] for axis in axes]
        for at, k in enumerate(numbers):
            points = a[k] if s is None or s[at] in (None, -1) else s[at]
            if at == len(numbers) - 1:
                if count is not None and (s is None or s[at] is None):
                    points = count(points)
                points = points if last is None else last(points)
            result[k] = points
        return tuple(result)

    return shape


def half(points: Extent) -> Extent:
    """Return how many of the frequencies of real data differ: ``points // 2 + 1``."""
    return extent(as_expr(points) // 2 + 1)


def doubled(points: Extent) -> Extent:
    """Return how many real numbers ``points`` frequencies describe: ``2 * (points - 1)``."""
    return extent((as_expr(points) - 1) * 2)
