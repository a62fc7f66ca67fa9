"""Pieces: the elements of a tensor that one stage of its gradient computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from schedlang.compute.tensor import Shape
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.algebra import choose, conjunction
from schedlang.index.linear import ZERO, Lin, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import ceildiv, to_lin

# the most pieces into which the residues of strides cut a tensor
MOST_PIECES = 16


@dataclass(frozen=True, eq=False)
class Part:
    """The indices ``step*axis + start`` along one dimension; ``start`` alone without an axis.

    A ``lower`` or ``upper`` end says that elements below or above are not in the part.
    """

    axis: Axis | None
    step: int = 1
    start: Lin = ZERO
    lower: Lin | None = None
    upper: Lin | None = None

    @property
    def is_whole(self) -> bool:
        return self.axis is not None and self.step == 1 and self.lower is self.upper is None

    @property
    def index(self) -> Lin:
        return self.start if self.axis is None else Lin.of(self.axis) * self.step + self.start

    def contains(self, index: Expr) -> Expr | None:
        """Return the condition under which ``index`` is in the part; ``None`` if it always is."""
        start = to_expr(self.start)
        if self.axis is None:
            return Binary("==", index, start, "bool")
        if self.step > 1:
            remainder = to_expr(mod(to_lin(index), Lin.of(self.step), Ranges()))
            return Binary("==", remainder, start, "bool")
        ends = [] if self.lower is None else [Binary(">=", index, to_expr(self.lower), "bool")]
        if self.upper is not None:
            ends.append(Binary("<", index, to_expr(self.upper), "bool"))
        return conjunction(ends)

    def position(self, index: Expr) -> Expr:
        """Return the value of the axis at an ``index`` in the part."""
        if self.step > 1:
            return to_expr(floordiv(to_lin(index), Lin.of(self.step), Ranges()))
        return to_expr(to_lin(index) - self.start)


@dataclass(frozen=True, eq=False)
class Piece:
    """The elements whose index along each dimension is in a part of it."""

    parts: tuple[Part, ...]

    @property
    def element(self) -> list[Lin]:
        """The indices of an element of the piece."""
        return [part.index for part in self.parts]

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(part.axis for part in self.parts if part.axis is not None)

    @property
    def is_whole(self) -> bool:
        return all(part.is_whole for part in self.parts)

    @property
    def label(self) -> str:
        """A word for the name of its stage: its residues and points; "" for the whole."""
        starts = [part.start.const for part in self.parts if part.axis is None or part.step > 1]
        if starts and None not in starts:
            return "at" + "_".join(map(str, starts))
        return "" if self.is_whole else "part"

    def contains(self, indices: Sequence[Expr]) -> list[Expr]:
        """Return the conditions under which the element at ``indices`` is in the piece."""
        tests = [part.contains(index) for part, index in zip(self.parts, indices)]
        return [test for test in tests if test is not None]

    def position(self, indices: Sequence[Expr]) -> list[Expr]:
        """Return the values of the axes of the piece at the element at ``indices``."""
        return [
            part.position(index)
            for part, index in zip(self.parts, indices)
            if part.axis is not None
        ]


def whole(names: Sequence[str], shape: Shape) -> Piece:
    """Return the piece of all elements."""
    return Piece(tuple(Part(Axis(name, extent)) for name, extent in zip(names, shape)))


def cut(
    names: Sequence[str],
    shape: Shape,
    moduli: Mapping[int, int],
    points: Mapping[int, Lin],
    spans: Mapping[int, tuple[Lin, Lin]],
) -> Iterator[Piece]:
    """Yield pieces by dimension: of equal residues, at a point, or between two ends.

    If there were too many residues, the last dimensions are not split by them.

    >>> pieces = list(cut(["y", "x"], (5, 4), {0: 2}, {}, {}))
    >>> [(piece.element, piece.axes[0].extent) for piece in pieces]
    [([y*2, x], 3), ([y*2 + 1, x], 2)]
    """
    used: dict[int, int] = {}
    for dim, modulus in moduli.items():
        if dim not in points and prod(used.values()) * modulus <= MOST_PIECES:
            used[dim] = modulus
    for residues in product(*(range(modulus) for modulus in used.values())):
        residue = dict(zip(used, residues))
        parts: list[Part] = []
        for dim, (name, extent) in enumerate(zip(names, shape)):
            if dim in points:
                parts.append(Part(None, 0, points[dim]))
            elif dim in used:
                step, start = used[dim], residue[dim]
                count = ceildiv(to_lin(extent) - start, Lin.of(step))
                parts.append(Part(Axis(name, number_or_expr(count)), step, Lin.of(start)))
            elif dim in spans:
                parts.append(_between(name, to_lin(extent), *spans[dim]))
            else:
                parts.append(Part(Axis(name, extent)))
        extents = [part.axis.extent for part in parts if part.axis is not None]
        if not any(isinstance(extent, int) and extent == 0 for extent in extents):
            yield Piece(tuple(parts))


def _between(name: str, extent: Lin, low: Lin, high: Lin) -> Part:
    """Return the part of a dimension from ``low`` up to ``high``, which is excluded."""
    axis = Axis(name, number_or_expr(high - low))
    upper = None if high == extent else high
    return Part(axis, 1, low, low if low.terms else None, upper)


def assemble(pieces: Sequence[tuple[Piece, Expr]], indices: Sequence[Expr], zero: Expr) -> Expr:
    """Return the value at ``indices`` of the pieces of one cut; ``zero`` where there is none.

    Each piece comes with its value there, which only its own elements have.
    """
    return _assembled(list(pieces), indices, zero, 0)


def _assembled(
    pieces: list[tuple[Piece, Expr]], indices: Sequence[Expr], zero: Expr, dim: int
) -> Expr:
    if not pieces:
        return zero
    if dim == len(indices):
        ((_, value),) = pieces
        return value
    groups: dict[Lin, list[tuple[Piece, Expr]]] = {}
    for piece, value in pieces:
        groups.setdefault(piece.parts[dim].start, []).append((piece, value))
    cases = [
        (group[0][0].parts[dim], _assembled(group, indices, zero, dim + 1))
        for group in groups.values()
    ]
    # the last of all residues needs no test
    covered = cases[0][0].step > 1 and len(cases) == cases[0][0].step
    total = cases.pop()[1] if covered else zero
    for part, value in reversed(cases):
        cond = part.contains(indices[dim])
        total = value if cond is None else choose(cond, value, total, True)
    return total
