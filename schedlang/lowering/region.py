"""Boxes: the region of a tensor that some statements read, and the storage it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import ZERO, Atom, Div, Extreme, Lin, Mod, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.relax import largest, relax
from schedlang.index.rules import extreme
from schedlang.state.plan import Dim


class Window(NamedTuple):
    """The ``rows`` of dimension ``dim`` that are in use at once."""

    dim: int
    rows: int


@dataclass(frozen=True)
class Box:
    """The inclusive bounds of a region in each dimension; an unknown bound is ``None``.

    If the region is stored further out, ``windows`` are the windows of the nests that compute it. A
    nest without a window has ``None``.
    """

    lo: tuple[Optional[Lin], ...]
    hi: tuple[Optional[Lin], ...]
    windows: frozenset[Optional[Window]] = frozenset()


Pending = dict[Tensor, Box]


def point(indices: Sequence[Lin], ranges: Ranges) -> Box:
    """Return the box of the single element at ``indices``.

    An index that depends on data widens the box to the whole range of that index.
    """
    lo: list[Lin | None] = []
    hi: list[Lin | None] = []
    for index in indices:
        first: Lin | None = index
        last: Lin | None = index
        if any(isinstance(leaf, Opaque) for leaf in index.leaves()):
            low, high = ranges.interval(index)
            first = None if low is None else Lin.of(low)
            last = None if high is None else Lin.of(high)
        lo.append(first)
        hi.append(last)
    return Box(tuple(lo), tuple(hi))


def union(a: Box, b: Box, ranges: Ranges) -> Box:
    def join(op: str, x: Lin | None, y: Lin | None) -> Lin | None:
        if x is None or y is None:
            return None
        apart = (x - y).const
        if apart is not None:
            return x if (apart <= 0) == (op == "min") else y
        return extreme(op, (x, y), ranges)

    return Box(
        tuple(join("min", x, y) for x, y in zip(a.lo, b.lo)),
        tuple(join("max", x, y) for x, y in zip(a.hi, b.hi)),
        a.windows | b.windows,
    )


def add(pending: Pending, tensor: Tensor, box: Box, ranges: Ranges) -> None:
    old = pending.get(tensor)
    pending[tensor] = box if old is None else union(old, box, ranges)


def merge(into: Pending, other: Pending, ranges: Ranges) -> None:
    for tensor, box in other.items():
        add(into, tensor, box, ranges)


def relax_box(box: Box, var: Axis, extent: Lin, ranges: Ranges) -> Box:
    """Return the union of ``box`` over all iterations of ``var`` in ``0..extent``."""
    last = extent - 1

    def over(bound: Lin | None, up: bool) -> Lin | None:
        return None if bound is None else relax(bound, var, ZERO, last, ranges, up)

    lo, hi = (tuple(over(b, up) for b in ends) for up, ends in ((False, box.lo), (True, box.hi)))
    return Box(lo, hi, box.windows)


def relax_all(pending: Pending, var: Axis, extent: Lin, ranges: Ranges) -> Pending:
    return {t: relax_box(box, var, extent, ranges) for t, box in pending.items()}


def largest_extent(lo: Lin, hi: Lin, ranges: Ranges) -> Lin | None:
    """Return an upper bound of ``hi - lo + 1`` over all iterations of the enclosing loops."""
    return largest(hi - lo + 1, ranges)


def realize(
    box: Box, sizes: Sequence[Lin], ranges: Ranges, rows: Lin | None = None
) -> tuple[Dim, ...]:
    """Return the dimensions that a stage must compute to cover ``box``, clipped to the tensor.

    The extents do not depend on the enclosing loops, so that storage and loops have fixed sizes. A
    dimension whose box may exceed the tensor is marked, so that it gets a guard. A box as large as
    the tensor becomes the whole tensor, except for a stage in a scan's step, which computes no
    first rows. Such a stage has ``rows`` rows so far.
    """
    moves = rows is not None
    dims = tuple(_dim(lo, hi, size, ranges, moves) for lo, hi, size in zip(box.lo, box.hi, sizes))
    if rows is not None and dims and not ranges.le(dims[0].lo + dims[0].extent, rows):
        end = extreme("min", (rows, sizes[0]), ranges)
        dims = (replace(dims[0], high=True, size=end), *dims[1:])
    return dims


def realize_past(box: Box, sizes: Sequence[Lin], ranges: Ranges) -> tuple[Dim, ...] | None:
    """Return the dimensions that cover ``box`` without clipping to the tensor.

    Return ``None`` if the box has no fixed size.
    """
    dims = []
    for lo, hi, size in zip(box.lo, box.hi, sizes):
        extent = None if lo is None or hi is None else largest_extent(lo, hi, ranges)
        if lo is None or extent is None or extent.const is None:
            return None
        past = not ranges.le(lo + extent, size)
        dims.append(Dim(lo, extent, low=not ranges.nonneg(lo), high=past, size=size))
    return tuple(dims)


def _dim(lo: Lin | None, hi: Lin | None, size: Lin, ranges: Ranges, moves: bool) -> Dim:
    whole = Dim(ZERO, size, size=size)
    if lo is None or hi is None:
        return whole
    if lo.const is not None:
        lo = extreme("max", (lo, ZERO), ranges)
    if hi.const is not None and size.const is not None:
        hi = Lin.of(min(hi.const, size.const - 1))
    elif lo.const is not None and not ranges.le(hi, size - 1):
        hi = extreme("min", (hi, size - 1), ranges)
    if lo.const is not None and hi.const is not None:
        return Dim(lo, Lin.of(max(0, hi.const - lo.const + 1)), size=size)
    extent = largest_extent(lo, hi, ranges)
    if extent is None or (ranges.le(size, extent) and not (moves and lo.const is None)):
        return whole
    if size.const is not None and extent.const is None:
        # keep the extent constant, since the loop may be vectorized or unrolled
        return whole
    extent = avoid_zero_division(extent, ranges)
    return Dim(
        lo, extent, low=not ranges.nonneg(lo), high=not ranges.le(lo + extent, size), size=size
    )


def avoid_zero_division(extent: Lin, ranges: Ranges) -> Lin:
    """Return ``extent`` with divisions by zero avoided for sizes of 0.

    Extents are evaluated for allocations and loops even if nothing runs.
    """
    result = ZERO
    for product, coef in extent.terms.items():
        term = Lin.of(coef)
        for atom in product:
            term = term * _defined_atom(atom, ranges)
        result = result + term
    return result


def _defined_atom(atom: Atom, ranges: Ranges) -> Lin:
    if isinstance(atom, Extreme):
        return extreme(atom.op, [avoid_zero_division(arg, ranges) for arg in atom.args], ranges)
    if not isinstance(atom, (Div, Mod)):
        return Lin.of(atom)
    num, den = avoid_zero_division(atom.num, ranges), atom.den
    if den.const is None:
        den = extreme("max", (den, Lin.of(1)), ranges)
    return Lin.of(type(atom)(num, den))
