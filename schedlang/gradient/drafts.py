"""Drafts: what a stage of a gradient computes, by the inverse of the index map of a read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import Shape
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import axes_in, postorder
from schedlang.gradient.algebra import same, times
from schedlang.gradient.invert import Inverse, invert
from schedlang.gradient.pieces import Piece, cut, whole
from schedlang.gradient.ragged import conjuncts, number_rows, range_conditions
from schedlang.gradient.simplify import index_of, scope, substitute
from schedlang.gradient.site import Site
from schedlang.gradient.stage_sites import Walk
from schedlang.gradient.support import on_data
from schedlang.index.conjunctions import narrow
from schedlang.index.linear import Extreme, Lin, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary, cast

# the most iterations of a quotient or remainder that become terms of a sum
_MOST_TERMS = 9


@dataclass(frozen=True, eq=False)
class Draft:
    """The gradient of the elements of ``piece`` by one site, before its stage is made.

    ``shifts`` are ranges of indices of the adjoint ``site.head``, by dimension: the adjoint is to
    have zeros there, in place of a condition. ``ranges`` are the ``conditions`` that are the ranges
    of ragged axes. ``chosen`` are the conditions among ``conditions`` and the site's ``chosen``
    without which the gradient is 0, if data decide.
    """

    site: Site
    piece: Piece
    inverse: Inverse
    value: Expr
    conditions: tuple[Expr, ...]
    free: tuple[Axis, ...]
    shifts: dict[int, tuple[int, int]]
    ranges: tuple[Expr, ...] = ()
    chosen: tuple[Expr, ...] = ()

    @property
    def searches(self) -> bool:
        """Return whether each element tests all ranges of a tensor for being in one."""
        free = set(self.free)
        tests = [
            cond
            for cond in self.ranges
            if any(
                isinstance(node, Axis) and node in free
                for read in reads([cond])
                for node in postorder(read.indices)
            )
        ]
        return len(tests) > 1


def drafts_of(walk: Walk, site: Site, names: Sequence[str], shape: Shape) -> list[Draft]:
    """Return the drafts of one site: one for each piece of the tensor that it reads."""
    piece = whole(names, shape)
    first = _draft(walk, site, piece)
    if first is None:
        return []
    if not first.free:
        return [first]
    if first.free and set(first.free) <= first.inverse.digits:
        unrolled = _unrolled(first)
        if unrolled is not None:
            return unrolled
    own = set(site.axes)
    points = {
        dim: lin
        for dim, lin in enumerate(to_lin(index) for index in site.indices)
        if not lin.depends_on(own)
        and to_lin(shape[dim]).const != 1
        and not any(isinstance(leaf, Opaque) for leaf in lin.leaves())
    }
    moduli, spans = dict(first.inverse.splits), _spans(first)
    if walk.by_row:
        for dimensions in (moduli, points, spans):
            dimensions.pop(0, None)
    if not points and not moduli and not spans:
        return [first]
    pieces = cut(names, shape, moduli, points, spans)
    drafts = [_draft(walk, site, part) for part in pieces]
    return [draft for draft in drafts if draft is not None]


def _spans(draft: Draft) -> dict[int, tuple[Lin, Lin]]:
    """Return the ranges of dimensions in which only some elements have iterations."""
    held = [(cond, True) for cond in draft.conditions if not any(True for _ in reads([cond]))]
    inside = narrow(Ranges(), held)
    spans: dict[int, tuple[Lin, Lin]] = {}
    for dim, axis in enumerate(draft.piece.axes):
        if inside is None or dim in draft.inverse.splits:
            continue
        low, high = inside.of(axis)
        whole_range = Ranges().of(axis)
        simple = high is not None and not any(
            isinstance(atom, Extreme) for lin in (low, high) for atom in lin.atoms()
        )
        if simple and high is not None and (low, high) != whole_range:
            spans[dim] = low, high + 1
    return spans


def _draft(walk: Walk, site: Site, piece: Piece) -> Draft | None:
    row = site.axes[0] if walk.by_row else None
    inverse = invert(site.axes, site.indices, piece.element, site.held, row)
    if inverse is None:
        return None
    names = [axis.name for axis in piece.axes]
    renamed: dict[Axis | Var, Lin] = {}
    free: list[Axis] = []
    for axis in inverse.free:
        axis_copy = Axis(unused_name(axis.name, names), axis.extent, "reduce", axis.lo)
        names.append(axis_copy.name)
        renamed[axis] = Lin.of(axis_copy)
        free.append(axis_copy)
    digits = frozenset(m for a, m in zip(inverse.free, free) if a in inverse.digits)
    points = scope((*piece.axes, *free))
    values = {axis: lin.substitute(renamed) for axis, lin in inverse.values.items()}
    moved = [(cond, substitute(cond, values, points)) for cond in conjuncts(site.held)]
    conditions = [now for _, now in moved]
    open_conditions = [cond for cond, now in moved if not isinstance(now, Const)]
    shifts, padded = _shifts(site, open_conditions, inverse, values, points)
    conditions += [substitute(cond, renamed, points) for cond in inverse.conditions]
    conditions += [
        cond
        for axis in inverse.bounds
        if axis not in padded
        for cond in _in_range(axis, values[axis], points)
    ]
    own_conditions: list[Expr] = []
    for cond in sorted(conditions, key=_reads_floats):
        if isinstance(cond, Const):
            if not cond.value:
                return None
        elif not any(same(cond, known) for known in own_conditions):
            own_conditions.append(cond)
    # zeros around the adjoint stand for these
    inside = [cond for axis in padded for cond in _in_range(axis, values[axis], points)]
    support = _support(site, (*own_conditions, *inside), values, points)
    value = substitute(site.value, values, points)
    ragged = [axis for axis in site.axes if axis.bounds is not None]
    while ragged:
        numbering = number_rows(walk.rows, free, own_conditions, ragged)
        if numbering is None:
            break
        axis, number, rest = numbering
        rest = tuple(sorted(rest, key=_reads_floats))
        free.remove(axis)
        value = substitute(value, {axis: number}, points)
        values = {a: lin.substitute({axis: number}) for a, lin in values.items()}
        own_conditions = [substitute(cond, {axis: number}, points) for cond in rest]
    ranges = [substitute(cond, values, points) for cond in range_conditions(ragged)]
    ranges = [
        cond for cond in conjuncts(own_conditions) if any(same(cond, known) for known in ranges)
    ]
    used = set(axes_in([value, *own_conditions]))
    for axis in free:
        if axis not in used:
            value = times(value, cast(axis.extent, value.dtype))
    used_free = tuple(axis for axis in free if axis in used)
    if not used_free:
        # only a stage of its own can have zeros
        own_conditions += [
            cond for axis in padded for cond in _in_range(axis, values[axis], points)
        ]
        shifts = {}
    plain = Inverse(values, used_free, inverse.bounds, (), digits, inverse.splits)
    return Draft(
        site, piece, plain, value, tuple(own_conditions), used_free, shifts, tuple(ranges), support
    )


def _support(
    site: Site, first: Sequence[Expr], values: dict[Axis, Lin], points: Ranges
) -> tuple[Expr, ...]:
    """Return the conditions on data without which a draft is 0, after those on indices."""
    if not site.chosen or any(axis.bounds is not None for axis in site.axes):
        return ()
    support = list(first)
    for cond in site.chosen:
        moved = substitute(cond, values, points)
        if not isinstance(moved, Const) and not any(same(moved, known) for known in support):
            support.append(moved)
    return tuple(sorted(support, key=lambda cond: (bool(on_data([cond])), _reads_floats(cond))))


def _reads_floats(cond: Expr) -> bool:
    """Return whether a condition reads floats: conditions on indices keep these reads in bounds."""
    return any(dtypes.is_float(read.dtype) for read in reads([cond]))


def _in_range(axis: Axis, value: Lin, points: Ranges) -> Iterator[Expr]:
    """Yield the conditions under which ``value`` is in the range of ``axis``."""
    low = to_lin(axis.lo)
    high = low + to_lin(axis.extent)
    # the constant goes to the right: i >= 3, and not i - 3 >= 0
    varying = index_of(value - value.offset)
    if not points.le(low, value):
        yield binary(">=", varying, index_of(low - value.offset))
    if not points.nonneg(high - value - 1):
        yield binary("<", varying, index_of(high - value.offset))


def _shifts(
    site: Site, held: Sequence[Expr], inverse: Inverse, values: dict[Axis, Lin], points: Ranges
) -> tuple[dict[int, tuple[int, int]], set[Axis]]:
    """Return how far indices of the adjoint leave their ranges, and the axes that cause it.

    Zeros around the adjoint take the place of a condition on an axis that the value uses only as an
    index of the adjoint, and none of the conditions ``held`` uses. How far it leaves its range must
    be a number.
    """
    shifts: dict[int, tuple[int, int]] = {}
    padded: set[Axis] = set()
    if site.head is None or not inverse.free or any(True for _ in reads(inverse.conditions)):
        # a condition on data reads them at indices that zeros do not keep in bounds
        return shifts, padded
    uses = [read for read in reads([site.value]) if read.tensor is site.head]
    others = axes_in(held)
    inside = [read for read in reads([site.value]) if read.tensor is not site.head]
    others += axes_in([i for r in inside for i in r.indices])
    others += _plain_axes(site.value)
    for axis in inverse.bounds:
        at = {k for read in uses for k, index in enumerate(read.indices) if index is axis}
        if len(at) != 1 or any(axis is other for other in others):
            continue
        (dim,) = at
        ends = _ends(values[axis], points)
        over = _excess(ends, to_lin(axis.extent), points)
        if over is not None:
            shifts[dim] = over
            padded.add(axis)
    return shifts, padded


def _plain_axes(value: Expr) -> list[Axis]:
    """Return the axes in ``value`` outside of the indices of reads."""
    axes: list[Axis] = []
    stack, visited = [value], set()
    while stack:
        node = stack.pop()
        if id(node) in visited or isinstance(node, Read):
            continue
        visited.add(id(node))
        if isinstance(node, Axis):
            axes.append(node)
        stack += node.children
    return axes


def _ends(value: Lin, points: Ranges) -> tuple[Lin | None, Lin | None]:
    low, high = points.interval(value)
    return (
        lower(value, points) if low is None else Lin.of(low),
        upper(value, points) if high is None else Lin.of(high),
    )


def _excess(
    ends: tuple[Lin | None, Lin | None], extent: Lin, points: Ranges
) -> tuple[int, int] | None:
    """Return by how much values between ``ends`` leave ``0..extent`` on each side, if known."""
    low, high = ends
    if low is None or high is None:
        return None
    widths = []
    for over in (-low, high - extent + 1):
        if over.const is None and not points.nonneg(-over):
            return None
        widths.append(max(over.const or 0, 0))
    return widths[0], widths[1]


def _unrolled(draft: Draft) -> list[Draft] | None:
    """Return a draft for each value of the free axes, if they are few."""
    counts = [axis.extent for axis in draft.free if isinstance(axis.extent, int)]
    if len(counts) < len(draft.free) or prod(counts) > _MOST_TERMS:
        return None
    points = scope(draft.piece.axes)
    drafts: list[Draft] = []
    for values in product(*(range(n) for n in counts)):
        at = {axis: to_lin(axis.lo) + k for axis, k in zip(draft.free, values)}
        conditions = [substitute(cond, at, points) for cond in _all_conditions(draft)]
        if any(isinstance(cond, Const) and not cond.value for cond in conditions):
            continue
        rest = tuple(cond for cond in conditions if not isinstance(cond, Const))
        value = substitute(draft.value, at, points)
        drafts.append(Draft(draft.site, draft.piece, draft.inverse, value, rest, (), {}))
    return drafts


def _all_conditions(draft: Draft) -> list[Expr]:
    """Return the conditions of a draft, including those that zeros could replace."""
    points = scope((*draft.piece.axes, *draft.free))
    bounds = draft.inverse.bounds if draft.shifts else ()
    values = draft.inverse.values
    extra = (cond for axis in bounds for cond in _in_range(axis, values[axis], points))
    return [*draft.conditions, *extra]


def unused_name(name: str, used: Sequence[str]) -> str:
    candidate, count = name, 1
    while candidate in used:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
