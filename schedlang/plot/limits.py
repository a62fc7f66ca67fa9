"""Limits on the size of pictures: large spaces are drawn in part, by whole outer iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from schedlang.expr.nodes import Axis
from schedlang.expr.visit import axes_in
from schedlang.ir.accesses import stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, For
from schedlang.plot.timeline import points

# the most runs of statements that are followed, and the most elements of a panel
MOST_POINTS = 2**21
MOST_ELEMENTS = 128 * 128


@dataclass(frozen=True)
class Cut:
    """A loop; only the first ``kept`` of ``extent`` iterations are drawn."""

    loop: str
    kept: int
    extent: int


def cuts(
    nest: Nest,
    buffer: Buffer,
    sizes: Mapping[Any, int],
    most_points: int = MOST_POINTS,
    most_elements: int = MOST_ELEMENTS,
    elements_first: bool = False,
) -> tuple[dict[Axis, int], tuple[Cut, ...]]:
    """Return the limits of loops so that a picture of ``buffer`` is small, and what they cut.

    Loops that do not move through the buffer, such as reduction loops, are cut first. Then the
    outermost loop of the longest dimension is halved, so that whole tiles are left. With
    ``elements_first``, the picture is made small before other loops are cut, which keeps more of
    the operands of a reduction.
    """
    dims, rest, extents = _groups(nest, buffer)
    most: dict[Axis, int] = {}

    def span(loops: Sequence[For]) -> int:
        return prod(most.get(loop.axis, extents[loop.axis]) for loop in loops)

    def halve(loops: Sequence[For], least: int) -> bool:
        for loop in loops:
            now = most.get(loop.axis, extents[loop.axis])
            if now > least:
                most[loop.axis] = max(least, now // 2)
                return True
        return False

    def halve_longest() -> bool:
        """Halve a loop of the longest dimension; return whether there was one to halve."""
        longest = [max(dim, key=span) for dim in dims if dim]
        for loops in sorted(longest, key=span, reverse=True):
            if span(loops) > 1 and (halve(loops, 2) or halve(loops, 1)):
                return True
        return False

    def shrink() -> None:
        while prod(max(map(span, dim)) for dim in dims if dim) > most_elements:
            if not halve_longest():
                break

    if elements_first:
        shrink()
    while points(nest, sizes, most) > most_points:
        if span(rest) > 4 and halve(rest, 1):
            continue
        if not halve_longest() and not halve(rest, 1):
            break
    shrink()
    # a loop may stand several times in a nest, as in the start and the sum of a reduction
    stored_over = {loop.axis for site in stores(nest.body) for loop in site.loops}
    cut = tuple(
        Cut(nest.names.get(axis, axis.name), limit, extents[axis])
        for axis, limit in most.items()
        if axis in stored_over and limit < extents[axis]
    )
    return most, cut


def _groups(nest: Nest, buffer: Buffer) -> tuple[list[list[list[For]]], list[For], dict[Axis, int]]:
    """Return the loops that move through each dimension of ``buffer``, other loops, and extents.

    A dimension has a list of loops, outer to inner, for each access.
    """
    dims: list[list[list[For]]] = [[] for _ in buffer.shape]
    every: dict[Axis, For] = {}
    extents: dict[Axis, int] = {}
    for site in stores(nest.body):
        for loop in site.loops:
            size = loop.extent if isinstance(loop.extent, int) else MOST_ELEMENTS
            extents[loop.axis] = max(size, extents.get(loop.axis, 1))
        for access in site.accesses:
            if access.buffer is not buffer:
                continue
            for k, index in enumerate(access.indices):
                axes = set(axes_in([index]))
                dims[k].append([loop for loop in site.loops if loop.axis in axes])
        every.update({loop.axis: loop for loop in site.loops})
    moving = {loop.axis for dim in dims for loops in dim for loop in loops}
    return dims, [loop for axis, loop in every.items() if axis not in moving], extents


def cut_text(cut: tuple[Cut, ...]) -> str:
    """Return what is left out as a sentence, or an empty text.

    >>> cut_text((Cut("i.outer", 4, 32), Cut("k", 2, 1024)))
    'Drawn in part: the first 4 of 32 iterations of i.outer and 2 of 1,024 of k.'
    """
    if not cut:
        return ""
    first, *others = cut
    parts = [f"the first {first.kept:,} of {first.extent:,} iterations of {first.loop}"]
    parts += [f"{c.kept:,} of {c.extent:,} of {c.loop}" for c in others]
    joined = ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
    return f"Drawn in part: {joined}."
