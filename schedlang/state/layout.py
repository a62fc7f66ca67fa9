"""Memory layouts of stages: dimensions divided into parts, reordered, and swizzled.

A swizzle is the exclusive or of a part with another one. It moves elements within their row, so
that threads which read down a column meet different banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Optional

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import merge_div_mod


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


@dataclass(frozen=True)
class ArrayLayout:
    """The layout of an array that the caller passes: its dimensions hold the ``parts`` in order.

    ``extents`` has a tuple for each dimension of the array: the extents of its parts, of which the
    last one counts fastest.

    >>> packed = ArrayLayout((Part(0, 4), Part(1), Part(0, 1, 4)), ((2,), (3, 4)))
    >>> packed.shape, packed.text(("i", "j"))
    ((2, 12), '(i//4, j*4 + i%4)')
    """

    parts: Layout
    extents: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(extents) for extents in self.extents)

    def text(self, names: Sequence[str]) -> str:
        """Return the index in the array as Python, where the tensor's dimensions have ``names``."""
        places = iter(self.parts)
        index = []
        for extents in self.extents:
            terms = []
            for k in range(len(extents)):
                part, weight = next(places), prod(extents[k + 1 :])
                term = names[part.dim] + f"//{part.divisor}" * (part.divisor > 1)
                term += f"%{part.modulus}" * (part.modulus > 0)
                terms.append(term + f"*{weight}" * (weight > 1))
            index.append(" + ".join(terms))
        return f"({', '.join(index)}{',' * (len(index) == 1)})"

    def index(self, at: Sequence[Lin], ranges: Ranges) -> tuple[Lin, ...]:
        """Return the index in the array of the tensor's element ``at``."""
        positions = iter(stored_index(self.parts, at, ranges))
        index = []
        for extents in self.extents:
            position = Lin.of(0)
            for extent in extents:
                position = position * extent + next(positions)
            index.append(merge_div_mod(position))
        return tuple(index)


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


def parts_of(index: Expr, axes: Sequence[Axis]) -> list[Part]:
    """Return the parts of ``axes`` that ``index`` counts, as in ``i//4 * 32 + j``, outermost first.

    The list is empty if it counts anything else, leaves out a number, or counts symbolic extents.

    >>> i, j = Axis("i", 8), Axis("j", 32)
    >>> [(part.dim, part.divisor) for part in parts_of(i // 4 * 32 + j, (i, j))]
    [(0, 4), (1, 1)]
    >>> parts_of(i // 4 * 33 + j, (i, j))
    []
    """
    alone = part_of(index, axes)
    if alone is not None:
        return [alone]
    weighted: list[tuple[int, Part]] = []
    terms = [(1, index)]
    while terms:
        weight, term = terms.pop()
        part = part_of(term, axes)
        if part is not None:
            weighted.append((weight, part))
        elif isinstance(term, Binary) and term.op == "+":
            terms += [(weight, term.b), (weight, term.a)]
        elif isinstance(term, Binary) and term.op == "*":
            number, factor = (term.a, term.b) if isinstance(term.a, Const) else (term.b, term.a)
            if not isinstance(number, Const) or type(number.value) is not int or number.value < 1:
                return []
            terms.append((weight * number.value, factor))
        elif not (isinstance(term, Const) and type(term.value) is int and term.value == 0):
            return []
    if any(not isinstance(axes[part.dim].extent, int) for _, part in weighted):
        return []
    # of two equal weights, the inner part has a single value
    weighted.sort(key=lambda pair: (-pair[0], -extent_of(pair[1], axes)))
    expected = 1
    for weight, part in reversed(weighted):
        if weight != expected:
            return []
        expected *= extent_of(part, axes)
    return [part for _, part in weighted]


def extent_of(part: Part, axes: Sequence[Axis]) -> int:
    """Return the number of values of ``part``, where the extents of ``axes`` are numbers."""
    extent = axes[part.dim].extent
    assert isinstance(extent, int)
    return part.modulus or -(-extent // part.divisor)


def with_whole_ends(layout: Layout, axes: Sequence[Axis]) -> Layout:
    """Return ``layout`` without the moduli that end a dimension, as 6 in ``i//4%6`` of 24 rows.

    >>> with_whole_ends((Part(0, 4, 6), Part(0, 1, 4)), (Axis("i", 24),))[0]
    Part(dim=0, divisor=4, modulus=0, swizzle=None)
    """
    last = {p.dim: p for p in sorted(layout, key=lambda p: p.divisor)}

    def ends(part: Part) -> bool:
        extent = axes[part.dim].extent
        known = part is last[part.dim] and isinstance(extent, int)
        return known and part.divisor * part.modulus == extent

    return tuple(replace(part, modulus=0) if ends(part) else part for part in layout)


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
