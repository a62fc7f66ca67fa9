"""Curves at points: derivatives, integrals and values of polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array
from schedlang.arrays.joining import concatenate
from schedlang.arrays.operands import operand
from schedlang.arrays.rearranging import diff
from schedlang.arrays.reductions import total
from schedlang.arrays.shapes import axis_numbers, same
from schedlang.arrays.shaping import reshape
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.construct import binary, cast, const

# the most coefficients of a polynomial, each of which is a step in the expression of an element
MOST_COEFFICIENTS = 100


def gradient(f: Any, *spacings: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return ``np.gradient``: differences of neighbours on both sides, one-sided at the ends.

    ``spacings`` are distances, or vectors of coordinates, one for all axes or one for each.
    """
    source = tensor_of(f, "np.gradient")
    if not dtypes.is_float(source.dtype) and not dtypes.is_complex(source.dtype):
        source = array("astype", lambda v: cast(v, "float64"), source)
    axes = axis_numbers(axis, source.ndim, "np.gradient")
    if edge_order not in (1, 2):
        raise ComputeError(f"np.gradient: edge_order={edge_order!r} must be 1 or 2")
    given = list(spacings) or [1.0]
    if len(given) == 1 and (len(axes) == 1 or not _is_vector(given[0])):
        given *= len(axes)
    if len(given) != len(axes):
        raise ComputeTypeError(
            f"np.gradient: {len(spacings)} distances for {len(axes)} axes; give one for all, or "
            "one for each"
        )
    results = [_slope(source, k, step, edge_order) for k, step in zip(axes, given)]
    return results[0] if len(results) == 1 else tuple(results)


def _is_vector(step: Any) -> bool:
    return bool(np.ndim(step) if not isinstance(step, (Tensor, Expr)) else getattr(step, "ndim", 0))


def _slope(source: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    """Return the derivative along ``axis``."""
    extent = source.shape[axis]
    if isinstance(extent, int) and extent < edge_order + 1:
        raise ComputeError(
            f"np.gradient of shape {shape_text(source.shape)}: axis {axis} has {extent} elements, "
            f"but edge_order={edge_order} needs {edge_order + 1} or more"
        )

    part = partial(_part, source, axis)
    before, middle, after = part(None, -2), part(1, -1), part(2, None)
    if _is_vector(step):
        steps = _distances(step, source, axis)
        h, k = (steps[at] for at in (slice(None, -1), slice(1, None)))
        inner = _combined(
            [before, middle, after], [h, k],
            lambda f0, f1, f2, h, k: (
                -k / (h * (h + k)) * f0 + (k - h) / (h * k) * f1 + h / (k * (h + k)) * f2
            ),
        )  # fmt: skip
        ends = [_end(part, axis, steps, edge_order, last) for last in (False, True)]
    else:
        distance = operand(step, "np.gradient")
        inner = _combined([before, after], [distance], lambda f0, f2, h: (f2 - f0) / (2.0 * h))
        ends = [_even_end(part, distance, edge_order, last) for last in (False, True)]
    parts = [ends[0], inner, ends[1]]
    return concatenate([_as(p, source.dtype) for p in parts], axis=axis)


def _part(source: Tensor, axis: int, first: Any, stop: Any) -> Tensor:
    """Return the elements ``first:stop`` of ``source`` along ``axis``."""
    item = (*[slice(None)] * axis, slice(first, stop))
    return source[item]


def _distances(step: Any, source: Tensor, axis: int) -> Tensor:
    """Return the distances of coordinates along ``axis``, shaped to broadcast with ``source``."""
    places = tensor_of(step, "np.gradient")
    if places.ndim != 1 or not same(places.shape[0], source.shape[axis]):
        raise ComputeError(
            f"np.gradient: coordinates of shape {shape_text(places.shape)} for axis {axis} of "
            f"shape {shape_text(source.shape)}; give a vector of that extent"
        )
    if not dtypes.is_float(places.dtype):
        places = array("astype", lambda v: cast(v, "float64"), places)
    steps = diff(places)
    return reshape(steps, [-1, *[1] * (source.ndim - axis - 1)])


def _combined(parts: Sequence[Any], steps: Sequence[Any], formula: Any) -> Tensor:
    return array("gradient", formula, *parts, *steps)


def _even_end(part: Any, step: Any, edge_order: int, last: bool) -> Tensor:
    if edge_order == 1:
        f0, f1 = (part(-2, -1), part(-1, None)) if last else (part(0, 1), part(1, 2))
        return _combined([f0, f1], [step], lambda a, b, h: (b - a) / h)
    if last:
        parts = [part(-3, -2), part(-2, -1), part(-1, None)]
        return _combined(parts, [step], lambda a, b, c, h: 0.5 / h * a + -2.0 / h * b + 1.5 / h * c)
    parts = [part(0, 1), part(1, 2), part(2, 3)]
    return _combined(parts, [step], lambda a, b, c, h: -1.5 / h * a + 2.0 / h * b + -0.5 / h * c)


def _end(part: Any, axis: int, steps: Tensor, edge_order: int, last: bool) -> Tensor:
    """Return the derivative at the first or the last of unevenly spaced points."""
    if edge_order == 1:
        f0, f1 = (part(-2, -1), part(-1, None)) if last else (part(0, 1), part(1, 2))
        return _combined([f0, f1], [steps[-1:] if last else steps[:1]], lambda a, b, h: (b - a) / h)
    if last:
        parts = [part(-3, -2), part(-2, -1), part(-1, None)]
        return _combined(
            parts, [steps[-2:-1], steps[-1:]],
            lambda a, b, c, h, k: (
                k / (h * (h + k)) * a - (k + h) / (h * k) * b + (2.0 * k + h) / (k * (h + k)) * c
            ),
        )  # fmt: skip
    parts = [part(0, 1), part(1, 2), part(2, 3)]
    return _combined(
        parts, [steps[:1], steps[1:2]],
        lambda a, b, c, h, k: (
            -(2.0 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c
        ),
    )  # fmt: skip


def _as(value: Tensor, dtype: str) -> Tensor:
    if value.dtype == dtype:
        return value
    return array("astype", lambda v: cast(v, dtype), value)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Tensor:
    """Return ``np.trapezoid``: the integral of ``y`` at ``x``, or at places ``dx`` apart."""
    source = tensor_of(y, "np.trapezoid")
    (number,) = axis_numbers(axis, source.ndim, "np.trapezoid")
    steps: Any = operand(dx, "np.trapezoid")
    if x is not None:
        places = tensor_of(x, "np.trapezoid")
        steps = diff(places, axis=number if places.ndim > 1 else -1)
        if places.ndim == 1:
            steps = reshape(steps, [-1, *[1] * (source.ndim - number - 1)])
    low, high = _part(source, number, None, -1), _part(source, number, 1, None)
    areas = array("areas", lambda d, a, b: d * (b + a) / 2.0, steps, low, high)
    return total("sum", areas, number)


def polyval(p: Any, x: Any) -> Any:
    """Return ``np.polyval``: the polynomial with the coefficients ``p`` at ``x``, by Horner."""
    factors = _coefficients(p)
    if len(factors) > MOST_COEFFICIENTS:
        raise ComputeError(
            explain(
                f"np.polyval with {len(factors)} coefficients",
                f"each is a step in the expression of an element, and {MOST_COEFFICIENTS} is the "
                "limit",
                "Write a loop: sl.fori_loop(0, len(p), lambda k, y: y * x + p[k], y).",
            )
        )

    def value(at: Expr) -> Expr:
        result: Expr = const(0, at.dtype)
        for factor in factors:
            result = binary("+", binary("*", result, at), factor)
        return result

    return array("polyval", value, operand(x, "np.polyval"))


def _coefficients(p: Any) -> list[Expr]:
    if isinstance(p, Tensor):
        if p.ndim != 1 or not isinstance(p.shape[0], int):
            raise ComputeError(
                f"np.polyval: the coefficients {p.name} of shape {shape_text(p.shape)} must be a "
                "vector whose length is a number"
            )
        return [p[k] for k in range(p.shape[0])]
    if isinstance(p, (list, tuple)) and any(isinstance(v, (Tensor, Expr)) for v in p):
        return [tensor_of(v, "np.polyval")[()] for v in p]
    known = np.atleast_1d(np.asarray(p))
    return [const(v.item(), known.dtype.name) for v in known]
