"""Windows that slide over the last dimensions: their largest elements, sums, and images of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute import reduce
from schedlang.compute.math import all as every
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call as call_of
from schedlang.language.construct import as_expr, cast
from schedlang.tvm.topi.stages import compute

# of a dimension and an output: the first element of its window, and the end
Ends = Callable[[int, Expr], tuple[Any, Any]]


def largest_at(
    x: Tensor, shape: Sequence[Extent], taps: Sequence[int], dilation: Sequence[int], ends: Ends,
    columns: bool = False,
) -> Tensor:  # fmt: skip
    """Return the index of the largest element of each window, in the dimensions joined to one.

    Indices count along the last dimension first, or with ``columns`` along the first one.

    A window has ``taps`` elements, ``dilation`` apart; elements outside of ``x`` or of its ends are
    left out. The first of equal elements counts, and the first NaN.
    """
    lead = x.ndim - len(taps)
    outer = (*x.shape[:lead], *shape)

    def tap(*at: Axis) -> Any:
        over, value, inside = _read(x, at, lead, taps, dilation, ends)
        return reduce.argmax(value, over, inside)

    chosen = compute("tap", outer, tap)

    def place(*at: Axis) -> Expr:
        rest = call_of("max", chosen.element(at), 0)
        indices = []
        for k in reversed(range(len(taps))):
            at_tap, rest = rest % taps[k], rest // taps[k]
            indices.append(cast(ends(k, at[lead + k])[0], "int64") + at_tap * dilation[k])
        total, size = as_expr(0), as_expr(1)
        sizes = x.shape[: lead - 1 : -1]
        pairs = zip(indices, sizes)
        for index, own in reversed(list(pairs)) if columns else pairs:
            total, size = total + index * size, size * own
        return cast(total, "int64")

    return compute("index", outer, place)


def summed(
    x: Tensor, shape: Sequence[Extent], taps: Sequence[int], ends: Ends, dtype: str
) -> Tensor:
    """Return the sum of each window's elements, those inside of ``x``."""
    lead = x.ndim - len(taps)

    def total(*at: Axis) -> Any:
        over, value, inside = _read(x, at, lead, taps, [1] * len(taps), ends)
        return reduce.sum(cast(value, dtype), over, inside)

    return compute("sum", (*x.shape[:lead], *shape), total)


def folded(
    x: Tensor,
    size: Sequence[Extent],
    taps: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    blocks: Sequence[Extent],
) -> Tensor:
    """Return the image whose pixels are the sums of what all windows have there.

    ``x`` is ``[batch, channels * taps, blocks]``: the elements of windows at ``strides``, from
    ``before`` before the first pixel. The image is ``[batch, channels, *size]``.
    """
    per_channel = prod(taps)
    channels = extent(as_expr(x.shape[1]) // per_channel)

    def total(*at: Axis) -> Any:
        over = [reduce_axis(count, f"tap{k}") for k, count in enumerate(taps)]
        tests, tap, block = [], as_expr(0), as_expr(0)
        for k, axis in enumerate(over):
            start = at[2 + k] + before[k] - axis * dilations[k]
            place = start // strides[k]
            tests += [start >= 0, (start % strides[k]).equal(0), place < blocks[k]]
            inside = call_of("max", call_of("min", place, as_expr(blocks[k]) - 1), 0)
            tap, block = tap * taps[k] + axis, block * blocks[k] + inside
        value = x[at[0], at[1] * per_channel + tap, block]
        return reduce.sum(value, over, every(*tests))

    return compute("fold", (x.shape[0], channels, *size), total)


def _read(
    x: Tensor,
    at: Sequence[Axis],
    lead: int,
    taps: Sequence[int],
    dilation: Sequence[int],
    ends: Ends,
) -> tuple[list[Axis], Expr, Expr]:
    """Return the axes of a window, the element there, and whether it is inside."""
    over = [reduce_axis(count, f"tap{k}") for k, count in enumerate(taps)]
    places, inside = [], []
    for k, axis in enumerate(over):
        first, end = ends(k, at[lead + k])
        place = first + axis * dilation[k]
        inside += [place >= 0, place < end]
        last = as_expr(x.shape[lead + k]) - 1
        places.append(call_of("max", call_of("min", place, last), 0))
    return over, x.element((*at[:lead], *places)), every(*inside)
