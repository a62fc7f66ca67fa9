"""Samples of images at places that a grid gives, for models of any library.

Sources: Jaderberg et al., Spatial Transformer Networks (2015); the operators GridSample of ONNX and
``grid_sample`` of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from schedlang.compute.math import all as every
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, select
from schedlang.tvm.topi.stages import compute

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    x: Tensor, grid: Tensor, mode: str, padding: str, align: bool, alpha: float = -0.75
) -> Tensor:
    """Return ``x[n, c, ...]`` at ``grid[n, ..., d]``, whose places are between -1 and 1.

    The last dimension of ``grid`` has the places in the last dimension of ``x`` first. ``align``
    puts -1 and 1 at the centres of the outer elements, not at their edges. Outside, there are
    zeros, the elements at the border, or a reflection. A place that is NaN gives 0.
    """
    count = x.ndim - 2
    sizes, wide = x.shape[2:], grid.dtype

    def place(*at: Axis) -> Expr:
        # the dimensions of the grid are in reverse order
        options = [_place(grid.element((*at[:-1], count - 1 - k)), sizes[k], align, wide)
                   for k in range(count)]  # fmt: skip
        if mode != "cubic":
            options = [_padded(p, sizes[k], padding, align, wide) for k, p in enumerate(options)]
        chosen = options[-1]
        for k in range(count - 2, -1, -1):
            chosen = select(at[-1] == k, options[k], chosen)
        return chosen

    places = compute("place", grid.shape, place)

    def element(*at: Axis) -> Expr:
        own = [places.element((at[0], *at[2:], k)) for k in range(count)]
        taps = [_taps(p, mode, alpha) for p in own]
        total = as_expr(0)
        for corner in product(*taps):
            spots = [spot for spot, _ in corner]
            if mode == "cubic":
                spots = [_padded(s, n, padding, align, wide) for s, n in zip(spots, sizes)]
            value = cast(_element(x, at[:2], spots, wide), wide)
            weights = [w for _, w in corner if w is not None]
            total = total + (value * prod(weights[1:], start=weights[0]) if weights else value)
        return cast(total, x.dtype)

    return compute("sample", (*x.shape[:2], *grid.shape[1:-1]), element)


def _place(value: Expr, size: Extent, align: bool, wide: str) -> Expr:
    """Return where a number between -1 and 1 is, counted in elements."""
    extent = cast(size, wide)
    if align:
        return (value + 1) / 2 * (extent - 1)
    return ((value + 1) * extent - 1) / 2


def _padded(place: Expr, size: Extent, padding: str, align: bool, wide: str) -> Expr:
    """Return ``place`` inside of a dimension, if its padding continues the elements."""
    if padding == "zeros":
        return place
    last = cast(size, wide) - 1
    if padding == "reflection":
        low = as_expr(0.0 if align else -0.5)
        span = last if align else last + 1
        away = call("abs", place - low)
        # of one aligned element, the span is 0
        period = call("max", span, cast(1, wide))
        turns = call("floor", away / period)
        rest = away - turns * period
        odd = turns - call("floor", turns / 2) * 2 > 0
        place = select(span > 0, select(odd, span - rest, rest) + low, cast(0, wide))
    return call("max", call("min", place, last), cast(0, wide))


def _taps(place: Expr, mode: str, alpha: float) -> list[tuple[Expr, Expr | None]]:
    """Return the elements that a sample reads in one dimension, and their weights."""
    if mode == "nearest":
        return [(call("round", place), None)]
    first = call("floor", place)
    part = place - first
    if mode == "linear":
        return [(first, 1 - part), (first + 1, part)]
    far = [part + 1, 2 - part]
    near = [part, 1 - part]
    outer = [((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha for t in far]
    inner = [((alpha + 2) * t - (alpha + 3)) * t * t + 1 for t in near]
    weights = (outer[0], inner[0], inner[1], outer[1])
    return [(first + (k - 1), weight) for k, weight in enumerate(weights)]


def _element(x: Tensor, lead: Sequence[Axis], spots: Sequence[Expr], wide: str) -> Any:
    """Return the element at ``spots``, integers that are floats; 0 outside of ``x``."""
    sizes = x.shape[2:]
    tests = []
    for spot, size in zip(spots, sizes):
        tests += [spot >= 0, spot <= cast(size, wide) - 1]
    inside = every(*tests)
    places = []
    for spot, size in zip(spots, sizes):
        # the number that is converted is one of the dimension, whatever the grid has
        index = cast(select(inside, spot, cast(0, wide)), "int64")
        places.append(call("max", call("min", index, as_expr(size) - 1), 0))
    return select(inside, x.element((*lead, *places)), cast(0, x.dtype))
