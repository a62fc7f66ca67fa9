"""Memory layouts of stages: dimensions divided into parts, reordered, and swizzled.

A swizzle is the exclusive or of a part with another one. It moves elements within their row, so
that threads which read down a column meet different banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod


@dataclass(frozen=True)
class Part:
    """A part of dimension ``dim``: ``index // divisor % modulus``; modulus 0 means no ``%``.

    Memory has it at its exclusive or with the part ``swizzle``, if there is one.
    """

    dim: int
    divisor: int = 1
    modulus: int = 0
    swizzle: Optional[Part] = None


Layout = tuple[Part, ...]


@dataclass(frozen=True)
class Swizzle:
    """A swizzle between dimensions in memory: ``index[place] ^ (index[by] // divisor % modulus)``.

    ``place`` and ``by`` count from the end, so they stay true where a dimension comes in front.
    """

    place: int
    by: int
    divisor: int
    modulus: int


def choices_of(index: Expr, axes: Sequence[Axis]) -> list[Part]:
    """Return ``index`` as a part of one of ``axes``; a swizzle may be read in both directions."""
    if not (isinstance(index, Binary) and index.op == "^"):
        part = part_of(index, axes)
        return [] if part is None else [part]
    a, b = part_of(index.a, axes), part_of(index.b, axes)
    return [] if a is None or b is None else [replace(a, swizzle=b), replace(b, swizzle=a)]


def part_of(index: Expr, axes: Sequence[Axis]) -> Part | None:
    """Return ``index`` as a part of one of ``axes``; ``None`` if it is none."""
    steps: list[Binary] = []
    while isinstance(index, Binary) and index.op in ("//", "%"):
        steps.append(index)
        index = index.a
    dim = next((k for k, a in enumerate(axes) if a is index), None)
    if dim is None:
        return None
    divisor, modulus = 1, 0
    for step in reversed(steps):
        by = step.b.value if isinstance(step.b, Const) else None
        if type(by) is not int or by < 1 or (modulus and modulus % by):
            return None
        if step.op == "%":
            modulus = by
        else:
            divisor, modulus = divisor * by, modulus // by
            if modulus == 1:
                return None
    return Part(dim, divisor, modulus)


def incomplete(layout: Layout, dims: int) -> int | None:
    """Return the first dimension whose parts do not determine its index, or ``None``."""
    for dim in range(dims):
        parts = sorted((p for p in layout if p.dim == dim), key=lambda p: p.divisor)
        expected = 1
        for part in parts:
            if not expected or part.divisor != expected:
                return dim
            expected = part.divisor * part.modulus
        if expected:
            return dim
    return None


def source_of(swizzle: Part, layout: Layout) -> int | None:
    """Return the place of the part, itself not swizzled, from which ``swizzle`` follows."""
    first, end = swizzle.divisor, swizzle.divisor * swizzle.modulus
    for place, part in enumerate(layout):
        if part.dim != swizzle.dim or part.swizzle is not None or first % part.divisor:
            continue
        if not part.modulus or part.divisor * part.modulus % end == 0:
            return place
    return None


def swizzles_of(layout: Layout) -> tuple[Swizzle, ...]:
    """Return the swizzles between the dimensions in memory.

    >>> i, j = Part(0), Part(1, 1, 8, swizzle=Part(0, 2, 8))
    >>> swizzles_of((i, Part(1, 8), j))
    (Swizzle(place=-1, by=-3, divisor=2, modulus=8),)
    """
    swizzles = []
    for place, part in enumerate(layout):
        if part.swizzle is not None:
            by = source_of(part.swizzle, layout)
            assert by is not None
            divisor = part.swizzle.divisor // layout[by].divisor
            swizzles.append(
                Swizzle(place - len(layout), by - len(layout), divisor, part.swizzle.modulus)
            )
    return tuple(swizzles)


def whole_dims(layout: Layout, dims: int) -> list[int | None]:
    """Return the memory position of each dimension; ``None`` for a divided one."""
    whole = {p.dim: k for k, p in enumerate(layout) if p.divisor == 1 and not p.modulus}
    return [whole.get(dim) for dim in range(dims)]


def stored_extents(layout: Layout, extents: Sequence[Lin], ranges: Ranges) -> list[Lin]:
    """Return the extents in memory, rounded up if a factor does not divide a dimension."""
    sizes = []
    for part in layout:
        extent = extents[part.dim]
        rows = floordiv(extent + (part.divisor - 1), Lin.of(part.divisor), ranges)
        sizes.append(Lin.of(part.modulus) if part.modulus else rows)
    return sizes


def stored_index(layout: Layout, index: Sequence[Lin], ranges: Ranges) -> tuple[Lin, ...]:
    """Return the memory index of the element at ``index``, before its swizzles.

    Swizzles permute the elements, so a nest needs no look at them: the offset has them.
    """
    position = []
    for part in layout:
        at = floordiv(index[part.dim], Lin.of(part.divisor), ranges)
        position.append(mod(at, Lin.of(part.modulus), ranges) if part.modulus else at)
    return tuple(position)
