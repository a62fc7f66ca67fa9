"""Loop plans: the ranges of a stage's leaf loops, and the point that each iteration computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.index.linear import ZERO, Lin, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import to_lin
from schedlang.state.relations import (
    Fuse,
    Split,
    Unit,
    parts,
    sources,
    split_extents,
    unclamped_extents,
)
from schedlang.state.state import THREADS, Stage


@dataclass(frozen=True)
class Dim:
    """One dimension of the region that a stage computes: ``extent`` elements from ``lo`` on.

    ``low`` and ``high`` are true if points may lie outside the tensor at that end.
    """

    lo: Lin
    extent: Lin
    low: bool = False
    high: bool = False
    size: Lin = ZERO


def whole(shape: Sequence[int | Expr]) -> tuple[Dim, ...]:
    """Return the dimensions of a whole tensor of ``shape``."""
    sizes = [to_lin(e) for e in shape]
    return tuple(Dim(ZERO, size, size=size) for size in sizes)


@dataclass(frozen=True)
class Guard:
    """A condition under which a point is computed.

    ``fact`` is a linear form that is 0 or less exactly if ``cond`` holds. ``tail`` marks the guard
    of a split, whose tail may be cut.
    """

    cond: Expr
    fact: Lin
    note: str
    axes: frozenset[Axis]
    tail: bool = False


@dataclass(frozen=True)
class Peel:
    """The loop ranges of one part of a cut loop.

    ``extents`` replace the extents of axes, and ``fixed`` gives axes a single value. ``shared``
    maps a loop that both parts share to its variable, and to the first iteration of this part.
    """

    extents: tuple[tuple[Axis, Lin], ...] = ()
    fixed: tuple[tuple[Axis, Lin], ...] = ()
    shared: tuple[tuple[Axis, tuple[Axis, Lin]], ...] = ()

    def with_(self, extents: dict[Axis, Lin], fixed: dict[Axis, Lin]) -> Peel:
        extended = (*self.extents, *extents.items())
        return replace(self, extents=extended, fixed=(*self.fixed, *fixed.items()))

    def from_(self, axis: Axis, var: Axis, first: Lin) -> Peel:
        return replace(self, shared=(*self.shared, (axis, (var, first))))

    @property
    def copies(self) -> int:
        return len(self.fixed) + len(self.extents)


@dataclass(frozen=True)
class Plan:
    """The loops of a stage: the extent of each axis, and its value over the loop variables.

    ``strides`` maps a split to the distance between two iterations of its outer axis.
    ``variables`` maps a leaf axis to its loop variable, if it has a loop.
    """

    extents: Mapping[Axis, Lin]
    values: Mapping[Axis, Lin]
    strides: Mapping[Split, Lin]
    variables: Mapping[Axis, Axis]
    guards: tuple[Guard, ...]
    ranges: Ranges


@dataclass(frozen=True)
class Threads:
    """The thread axes in scope: the variable and the extent for each name."""

    known: tuple[tuple[str, Axis, Lin], ...] = ()

    def find(self, tag: str) -> tuple[Axis, Lin] | None:
        return next(((var, extent) for name, var, extent in self.known if name == tag), None)

    def with_(self, tag: str, var: Axis, extent: Lin) -> Threads:
        return replace(self, known=(*self.known, (tag, var, extent)))


def thread_tag(kind: str) -> bool:
    return kind in THREADS


_VARIABLES: WeakKeyDictionary[Axis, dict[Lin | None, Axis]] = WeakKeyDictionary()


def loop_variable(axis: Axis, extent: Lin, ranges: Ranges) -> Axis:
    """Return the variable of a loop over ``axis``; the axis itself if the ranges agree.

    A loop starts at 0 and may run further than its axis declares: a block keeps all its threads
    even if a stage needs fewer. One loop has the same variable in every plan.
    """
    from_zero = isinstance(axis.lo, int) and axis.lo == 0
    within = ranges.nonneg(to_lin(axis.extent) - extent)
    if from_zero and within:
        return axis
    by_extent = _VARIABLES.setdefault(axis, {})
    key = None if within else extent
    if key not in by_extent:
        declared = axis.extent if within else number_or_expr(extent)
        by_extent[key] = replace(axis, lo=0, extent=declared)
    return by_extent[key]


def runs_over(var: Axis, axis: Axis) -> bool:
    """Return whether ``var`` is the variable of some loop over ``axis``."""
    return var is axis or any(var is v for v in _VARIABLES.get(axis, {}).values())


def make_plan(
    stage: Stage, dims: Sequence[Dim], base: Ranges, peel: Peel, threads: Threads
) -> Plan:
    """Return the plan of a stage that computes ``dims`` over its whole reduction axes.

    ``dims`` of a scan are about its data axes.
    """
    extents, strides = _extents(stage, dims, peel)
    guards: list[Guard] = []
    values, variables, ranges = _leaves(stage, extents, base, peel, threads, guards)
    _parents(stage, extents, strides, values, ranges)
    for relation in stage.relations:
        if isinstance(relation, Split):
            parent = relation.parent
            _guard(guards, values[parent], extents[parent], relation.note, ranges, tail=True)
    for axis, dim in zip(stage.op.axis, dims):
        if axis not in values:
            # a scan has no loop over it
            continue
        _domain_guards(guards, axis, dim, values[axis], ranges)
    return Plan(extents, values, strides, variables, _without_implied(guards, ranges), ranges)


def _extents(
    stage: Stage, dims: Sequence[Dim], peel: Peel
) -> tuple[dict[Axis, Lin], dict[Split, Lin]]:
    """Return the extent of every axis, and the stride of each split's outer axis."""
    extents = {axis: dim.extent for axis, dim in zip(stage.op.axis, dims)}
    whole_axes = (*stage.op.reduce_axis, *(a for a in stage.roots if a.kind == "scan"))
    extents |= {axis: to_lin(axis.extent) for axis in whole_axes}
    strides: dict[Split, Lin] = {}
    chosen = dict(peel.extents)
    for relation in stage.relations:
        if isinstance(relation, Split):
            outer, inner = split_extents(extents[relation.parent], relation.factor, relation.nparts)
            if thread_part(stage, relation):
                # a block keeps all its threads; a guard excludes those that a stage does not need
                outer, inner = unclamped_extents(
                    extents[relation.parent], relation.factor, relation.nparts
                )
            strides[relation] = inner
            extents[relation.outer] = chosen.get(relation.outer, outer)
            extents[relation.inner] = chosen.get(relation.inner, inner)
        elif isinstance(relation, Unit):
            extents[relation.axis] = Lin.of(1)
        else:
            extents[relation.fused] = extents[relation.outer] * extents[relation.inner]
    return extents, strides


def _leaves(
    stage: Stage,
    extents: Mapping[Axis, Lin],
    base: Ranges,
    peel: Peel,
    threads: Threads,
    guards: list[Guard],
) -> tuple[dict[Axis, Lin], dict[Axis, Axis], Ranges]:
    """Return the values of the leaf axes, their loop variables, and the variables' ranges."""
    ranges, fixed, parts = Ranges(base.known, base.facts), dict(peel.fixed), dict(peel.shared)
    values: dict[Axis, Lin] = {}
    variables: dict[Axis, Axis] = {}
    for axis in stage.leaf:
        extent = extents[axis]
        kind = stage.kinds.get(axis, "")
        shared = threads.find(kind) if thread_tag(kind) else None
        if axis in fixed:
            values[axis] = fixed[axis]
        elif shared is not None:
            variables[axis], room = shared
            values[axis] = Lin.of(shared[0])
            ranges.known[shared[0]] = (ZERO, room - 1)
            note = f"{axis.name} uses {extent} of {room} {kind}"
            _guard(guards, values[axis], extent, note, ranges, shared[0])
        elif extent.const == 1 and not thread_tag(kind) and axis not in parts:
            values[axis] = ZERO
        else:
            # the loop of both parts may run further than this one
            var, first = parts.get(axis) or (loop_variable(axis, extent, base), ZERO)
            variables[axis] = var
            values[axis] = Lin.of(var)
            ranges.known[var] = (first, extent - 1)
    return values, variables, ranges


def _parents(
    stage: Stage,
    extents: Mapping[Axis, Lin],
    strides: Mapping[Split, Lin],
    values: dict[Axis, Lin],
    ranges: Ranges,
) -> None:
    """Add the values of the axes that were split or fused."""
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            values[relation.parent] = (
                values[relation.outer] * strides[relation] + values[relation.inner]
            )
        elif isinstance(relation, Fuse):
            fused, inner = values[relation.fused], extents[relation.inner]
            if extents[relation.outer].const == 1:
                # no ``//``: a guard excludes all points past the only row
                values[relation.outer], values[relation.inner] = ZERO, fused
                continue
            values[relation.outer] = floordiv(fused, inner, ranges)
            values[relation.inner] = mod(fused, inner, ranges)


def thread_part(stage: Stage, split: Split) -> bool:
    """Return whether the part whose extent the split gives is bound to ``threadIdx``.

    That is the inner axis for ``factor``, and the outer one for ``nparts``. An ``idle`` split has
    such a part, too, if a later split or fuse makes a loop from it that is bound.
    """
    axes = {split.inner if split.factor is not None else split.outer}
    for relation in stage.relations if split.idle else ():
        if axes & {*sources(relation)}:
            axes |= {*parts(relation)}
    return any(stage.kinds.get(axis, "").startswith("threadIdx") for axis in axes)


def _guard(
    guards: list[Guard],
    value: Lin,
    extent: Lin,
    note: str,
    ranges: Ranges,
    also: Axis | None = None,
    tail: bool = False,
) -> None:
    """Add the guard ``value < extent`` unless it is proven."""
    fact = value - extent + 1
    if ranges.assuming(tuple(g.fact for g in guards)).nonneg(-fact):
        return
    cond = Binary("<", to_expr(value), to_expr(extent), "bool")
    axes = {leaf for leaf in fact.leaves() if isinstance(leaf, Axis)}
    if also is not None:
        axes.add(also)
    guards.append(Guard(cond, fact, note, frozenset(axes), tail))


def _without_implied(guards: Sequence[Guard], ranges: Ranges) -> tuple[Guard, ...]:
    """Return ``guards`` without those implied by others whose loops are a subset of theirs."""
    remaining = list(guards)
    for guard in guards:
        others = [g for g in remaining if g is not guard]
        facts = tuple(g.fact for g in others if g.axes <= guard.axes)
        if facts and ranges.assuming(facts).nonneg(-guard.fact):
            remaining = others
    return tuple(remaining)


def _domain_guards(guards: list[Guard], axis: Axis, dim: Dim, value: Lin, ranges: Ranges) -> None:
    """Add guards that exclude the points of a box outside the tensor."""
    at = dim.lo + value
    if dim.high:
        _guard(guards, at, dim.size, f"{axis.name} ends at {dim.size}", ranges)
    if dim.low and not ranges.assuming(tuple(g.fact for g in guards)).nonneg(at):
        cond = Binary(">=", to_expr(at), to_expr(ZERO), "bool")
        axes = frozenset(leaf for leaf in at.leaves() if isinstance(leaf, Axis))
        guards.append(Guard(cond, -at, f"{axis.name} begins at 0", axes))
