"""Limits on the size of pictures: large spaces are drawn in part, by whole outer iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, For, Store
from schedlang.plot.timeline import Access, Timed, points, stores_of

# the most runs of statements that are followed, and the most elements of a panel
MOST_POINTS = 2**21
MOST_ELEMENTS = 128 * 128


@dataclass(frozen=True)
class Cut:
    """A loop of which only the first ``kept`` of ``extent`` iterations are drawn."""

    loop: str
    kept: int
    extent: int


def cuts(
    nest: Nest, buffer: Buffer, known: Mapping[Any, int],
    most_points: int = MOST_POINTS, most_elements: int = MOST_ELEMENTS,
) -> tuple[dict[Axis, int], tuple[Cut, ...]]:  # fmt: skip
    """Return the limits of loops so that a picture of ``buffer`` is small, and what they cut.

    Loops that do not move through the buffer, such as those of a reduction, are cut first. Then the
    outermost loop of the longest dimension is halved, so that whole tiles are left.
    """
    groups, extents = _groups(nest, buffer)
    most: dict[Axis, int] = {}

    def span(group: list[For]) -> int:
        return prod(most.get(loop.axis, extents[loop.axis]) for loop in group)

    def halve(group: list[For], least: int) -> bool:
        for loop in group:
            now = most.get(loop.axis, extents[loop.axis])
            if now > least:
                most[loop.axis] = max(least, now // 2)
                return True
        return False

    *dims, rest = groups
    while points(nest, known, most) > most_points:
        if span(rest) > 4 and halve(rest, 1):
            continue
        if not _halve_longest(dims, span, halve) and not halve(rest, 1):
            break
    while prod(map(span, dims)) > most_elements and _halve_longest(dims, span, halve):
        pass
    # a loop may stand several times in a nest, as in the start and the sum of a reduction
    seen = {loop.axis: loop for _, loops in stores_of(nest.body) for loop in loops}
    cut = tuple(
        Cut(nest.names.get(axis, axis.name), kept, extents[axis])
        for axis, kept in most.items() if axis in seen and kept < extents[axis]
    )  # fmt: skip
    return most, cut


def _halve_longest(dims: list[list[For]], span: Any, halve: Any) -> bool:
    """Halve a loop of the longest dimension; return whether there was one to halve."""
    for group in sorted(dims, key=span, reverse=True):
        if span(group) > 1 and (halve(group, 2) or halve(group, 1)):
            return True
    return False


def _groups(nest: Nest, buffer: Buffer) -> tuple[list[list[For]], dict[Axis, int]]:
    """Return the loops of each dimension of ``buffer``, outer to inner, and the rest last."""
    dims: list[dict[Axis, For]] = [{} for _ in buffer.shape]
    rest: dict[Axis, For] = {}
    extents: dict[Axis, int] = {}
    for store, loops in stores_of(nest.body):
        for loop in loops:
            size = loop.extent if isinstance(loop.extent, int) else MOST_ELEMENTS
            extents[loop.axis] = max(size, extents.get(loop.axis, 1))
        for access in _shown(store, loops, buffer):
            for k, index in enumerate(access.indices):
                axes = _axes(index)
                dims[k].update({loop.axis: loop for loop in loops if loop.axis in axes})
        rest.update({loop.axis: loop for loop in loops})
    moving = {axis for dim in dims for axis in dim}
    others = [loop for axis, loop in rest.items() if axis not in moving]
    return [*(list(dim.values()) for dim in dims), others], extents


def _shown(store: Store, loops: tuple[For, ...], buffer: Buffer) -> list[Access]:
    timed = Timed(store, loops, (), (), (), 0, {})
    return [access for access in timed.accesses if access.buffer is buffer]


def _axes(index: Expr) -> set[Any]:
    return {node for node in postorder((index,)) if isinstance(node, Axis)}


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


__all__ = ["Cut", "MOST_ELEMENTS", "MOST_POINTS", "cut_text", "cuts"]
