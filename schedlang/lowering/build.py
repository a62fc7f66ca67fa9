"""The loops of a stage around its body, from the inside out.

The innermost statement is made first. On the way out each loop adds its guard and the stages
attached to it, whose boxes are what the statements made so far read; a loop that is left
widens those boxes by its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from schedlang.compute.bounds import facts_of
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import explain
from schedlang.expr.interval import Ranges
from schedlang.expr.lazy import is_both
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder, rewrite
from schedlang.ir.nodes import Alloc, For, If
from schedlang.lowering.instantiate import instantiate
from schedlang.lowering.placement import Placement, Problem
from schedlang.lowering.plan import Guard, Peel, Plan, Threads, make_plan, thread_tag
from schedlang.lowering.prefetch import prefetch, written_box
from schedlang.lowering.private import rounded_up
from schedlang.lowering.puts import Draft, Put, block, loop_extent
from schedlang.lowering.region import (
    Box,
    Dim,
    Pending,
    add,
    merge,
    point,
    realize,
    realize_past,
    relax_all,
    relax_box,
    union,
)  # fmt: skip
from schedlang.lowering.sliding import Slide, find_slide, new_rows_only
from schedlang.lowering.storage import allocate, box_scope, scope_of
from schedlang.lowering.tails import cut_at, lost_cuts, rest_of_cut
from schedlang.lowering.threads import fetched, thread_variables, too_few_threads, wrong_threads
from schedlang.lowering.trampoline import Task
from schedlang.stage.state import At, Stage, State


@dataclass(frozen=True, eq=False)
class Job:
    """What every pass over one schedule shares.

    ``alias`` maps the tensors of a scan to the output they are parts of; ``given`` are the
    tensors that exist outside the nest, ``prefetched`` those that some loop asks for ahead.
    """

    state: State
    placement: Placement
    given: frozenset[Tensor]
    alias: Mapping[Tensor, Tensor]
    names: Mapping[str, str] = field(default_factory=dict)
    prefetched: frozenset[Tensor] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    unclipped: set[Tensor] = field(default_factory=set)
    clipped: set[Tensor] = field(default_factory=set)

    def needs_box(self, tensor: Tensor) -> bool:
        """Whether what is read of ``tensor`` decides what is computed of it."""
        name = self.state.defined.get(tensor)
        if name is None or tensor in self.alias:
            return False
        return tensor not in self.given or isinstance(self.placement.attach[name], At)

    def storage(self, stage: Stage, dims: Sequence[Dim], scope: str) -> list[Alloc]:
        """Storage for what ``stage`` computes; arguments bring theirs."""
        made = allocate(stage, dims, scope, self.names.get(stage.name, stage.name))
        return [a for a in made if a.buffer.tensor not in self.given]


@dataclass(frozen=True)
class Loop:
    """A loop in scope around a stage."""

    var: Axis
    extent: Lin
    tag: str


@dataclass(frozen=True)
class Scope:
    """What is known where a stage is placed."""

    ranges: Ranges
    loops: tuple[Loop, ...] = ()
    threads: Threads = Threads()


@dataclass(frozen=True, eq=False)
class Nesting:
    """One stage being nested: its box, its plan, the loops still to make."""

    job: Job
    stage: Stage
    dims: tuple[Dim, ...]
    scope: Scope
    peel: Peel
    plan: Plan
    leaf: tuple[Axis, ...]
    slide: Slide | None = None
    init: bool = False

    def planned(self, peel: Peel) -> Nesting:
        plan = make_plan(self.stage, self.dims, self.scope.ranges, peel, self.scope.threads)
        return replace(self, peel=peel, plan=plan)


Made = tuple[list[Draft], Pending]


def nest_stage(
    job: Job, stage: Stage, dims: tuple[Dim, ...], scope: Scope, slide: Slide | None = None
) -> Task:
    """The statements that compute ``dims`` of ``stage``, and the boxes they read."""
    plan = make_plan(stage, dims, scope.ranges, Peel(), scope.threads)
    nesting = Nesting(job, stage, dims, scope, Peel(), plan, stage.leaf, slide)
    if any(d.extent.const == 0 for d in dims):
        return [], {}
    job.problems.extend(Problem(why, stage.name) for why in lost_cuts(stage, plan))
    few = too_few_threads(stage, plan, scope.threads)
    job.problems.extend(Problem(why, stage.name) for why in few)
    drafts, pending = yield _level(nesting, 0, scope)
    return _guarded(nesting, -1, drafts), pending


def _level(n: Nesting, depth: int, scope: Scope) -> Task:
    """Loops from ``depth`` inwards; a reduction's init comes before its first loop."""
    if depth == len(n.leaf):
        return _statement(n, scope)
    axis = n.leaf[depth]
    first = next((k for k, a in enumerate(n.leaf) if a.is_reduce), None)
    if n.init or first != depth:
        return (yield _cut_or_loop(n, depth, axis, scope))
    data = tuple(a for a in n.leaf[depth:] if not a.is_reduce)
    start, _ = yield _level(replace(n, leaf=data, init=True), 0, scope)
    drafts, pending = yield _cut_or_loop(n, depth, axis, scope)
    return [*start, *drafts], pending


def _cut_or_loop(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    children = {} if n.init else n.job.placement.at
    cut = cut_at(n.stage, n.plan, n.peel, n.leaf, axis, children)
    if isinstance(cut, str):
        n.job.problems.append(Problem(cut, n.stage.name))
        cut = None
    if cut is None:
        return (yield _loop(n, depth, axis, scope))
    drafts: list[Draft] = []
    pending: Pending = {}
    for peel, tests in ((cut.main, []), (cut.tail, [] if cut.test is None else [cut.test])):
        part = n.planned(peel)
        known = replace(scope, ranges=scope.ranges.assuming(tuple(g.fact for g in tests)))
        made, more = yield _part(part, depth, axis, known)
        if _row_depth(part) < depth <= _row_depth(n):
            # the loop that was to hold the test stands still in this part
            made = _new_rows(part, made)
        drafts += _wrapped(tests, made)
        merge(pending, more, scope.ranges)
    return drafts, pending


def _part(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    """One part of a loop that was cut, with the tests that speak of outer loops only here."""
    outer = [g for k in range(-1, depth) for g in _guards_at(n, k)]
    late = [g for g in outer if not scope.ranges.nonneg(-g.fact)]
    known = replace(scope, ranges=scope.ranges.assuming(tuple(g.fact for g in late)))
    drafts, pending = yield _loop(n, depth, axis, known)
    return _wrapped(late, drafts), pending


def _loop(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    """One loop with what is attached to it, its guards, and everything further in."""
    extent = n.plan.extents[axis]
    if extent.const == 0 and axis not in dict(n.peel.fixed):
        return [], {}
    var = n.plan.variables.get(axis)
    kind = n.stage.kinds.get(axis, "")
    if kind in ("vectorize", "unroll") and extent.const is None:
        why = explain(
            f"{kind}({axis.name}) on stage {n.stage.name}",
            f"the loop runs {extent} times, which is known at the call only",
            rest_of_cut(n.stage, n.peel, axis, kind)
            or f"Split it first, and {kind} the inner part.",
        )
        n.job.problems.append(Problem(why, n.stage.name))
    guards = _guards_at(n, depth)
    inner = _enter(n, scope, var, extent, kind, guards)
    drafts, pending = yield _level(n, depth + 1, inner)
    if not n.init:
        drafts, pending = yield attach_children(n, axis, drafts, pending, inner)
        drafts = [*_prefetches(n, axis, pending, inner), *drafts]
    drafts = _guarded(n, depth, drafts)
    pragmas = tuple((name, value) for a, name, value in n.stage.pragmas if a is axis)
    if var is None or scope.threads.find(kind) is not None:
        return _noted(n.stage, pragmas, drafts), pending
    loop = For(
        var, loop_extent(extent), "thread" if thread_tag(kind) else kind or "serial",
        block(drafts), n.stage.name, kind if thread_tag(kind) else "", pragmas,
    )  # fmt: skip
    return [loop], relax_all(pending, var, extent, inner.ranges)


def _noted(stage: Stage, pragmas: tuple[Any, ...], drafts: list[Draft]) -> list[Draft]:
    """The pragmas of a loop that runs once, on the loops inside of it."""
    if not pragmas:
        return drafts
    return [
        replace(d, pragmas=(*pragmas, *d.pragmas))
        if isinstance(d, For) and d.stage == stage.name else d for d in drafts
    ]  # fmt: skip


def _enter(
    n: Nesting,
    scope: Scope,
    var: Axis | None,
    extent: Lin,
    kind: str,
    guards: list[Guard],
) -> Scope:
    """The scope inside the loop over ``var``."""
    ranges = Ranges(n.plan.ranges.known, scope.ranges.facts)
    ranges = ranges.assuming(tuple(g.fact for g in guards))
    loops, threads = scope.loops, scope.threads
    if var is not None and threads.find(kind) is None:
        loops = (*loops, Loop(var, extent, kind if thread_tag(kind) or kind == "vthread" else ""))
        if thread_tag(kind):
            threads = threads.with_(kind, var, extent)
    return Scope(ranges, loops, threads)


def _guards_at(n: Nesting, depth: int) -> list[Guard]:
    """The guards that depend on loop ``depth`` and on no loop further in."""
    variables = [n.plan.variables.get(a) for a in n.leaf]
    reduce = {n.plan.variables.get(a) for a in n.stage.leaf if a.is_reduce} - {None}
    found = []
    for guard in n.plan.guards:
        if (n.init and guard.axes & reduce) or _waits(n, guard):
            continue
        deepest = max((k for k, v in enumerate(variables) if v in guard.axes), default=-1)
        if deepest == depth:
            found.append(guard)
    return found


def _waits(n: Nesting, guard: Guard) -> bool:
    """Whether a guard stands at the statement alone, since threads it keeps away help inside.

    What is attached inside thread loops is fetched by all threads of the block together.
    """
    if not guard.axes & thread_variables(n.stage, n.plan, n.scope.threads):
        return False
    return any((n.stage.name, axis) in n.job.placement.at for axis in n.stage.leaf)


def _late(n: Nesting) -> list[Guard]:
    """The guards that stand at the statement alone."""
    reduce = {n.plan.variables.get(a) for a in n.stage.leaf if a.is_reduce} - {None}
    waiting = (g for g in n.plan.guards if _waits(n, g))
    return [g for g in waiting if not (n.init and g.axes & reduce)]


def _guarded(n: Nesting, depth: int, drafts: list[Draft]) -> list[Draft]:
    if n.init and depth < 0:
        return drafts
    if n.slide is not None and depth == _row_depth(n):
        drafts = _new_rows(n, drafts)
    return _wrapped(_guards_at(n, depth), drafts)


def _row(n: Nesting) -> Lin:
    """Where a sliding stage stands in the dimension that slides."""
    assert n.slide is not None
    return n.dims[n.slide.dim].lo + n.plan.values[n.stage.op.axis[n.slide.dim]]


def _row_depth(n: Nesting) -> int:
    """The innermost loop that moves along the sliding dimension, -1 for none."""
    moving = set() if n.slide is None else set(_row(n).leaves())
    spots = (k for k, a in enumerate(n.leaf) if n.plan.variables.get(a) in moving)
    return max(spots, default=-1)


def _new_rows(n: Nesting, drafts: list[Draft]) -> list[Draft]:
    if n.slide is None or not drafts:
        return drafts
    return new_rows_only(n.stage, n.slide, _row(n), drafts)


def _wrapped(guards: Sequence[Guard], drafts: list[Draft]) -> list[Draft]:
    for guard in reversed(guards if drafts else ()):
        drafts = [If(guard.cond, block(drafts), guard.note)]
    return drafts


def _statement(n: Nesting, scope: Scope) -> Made:
    """The store of one point, under the guards that stand here alone."""
    drafts, pending = _point(n, scope)
    return _wrapped(_late(n), drafts), pending


def _point(n: Nesting, scope: Scope) -> Made:
    """The store of one point: the body, the init, or one update of a reduction."""
    stage, op, plan = n.stage, n.stage.op, n.plan
    assert isinstance(op, ComputeOp)
    at = {a: d.lo + plan.values[a] for a, d in zip(op.axis, n.dims)}
    indices = tuple(at[a] for a in op.axis)
    values: dict[Axis, Lin] = dict(at)
    for axis in op.reduce_axis:
        values[axis] = to_lin(axis.lo) + plan.values[axis]
    pending: Pending = {}
    reducer = op.reducer
    if reducer is not None and n.init:
        roots: tuple[Expr, ...] = op.init or reducer.identity
        made = instantiate(roots, values, {}, scope.ranges).roots
        return _predicated(n, scope, [Put(op.outputs, indices, made, None, stage.name)]), pending
    tests: list[Expr] = []
    ranges = scope.ranges
    for cond in _conditions(op.where):
        test = instantiate((cond,), values, n.job.placement.inline, ranges)
        if isinstance(test.roots[0], Const):
            if not test.roots[0].value:
                return [], {}
            continue
        _collect(n.job, test.reads, pending, ranges)
        ranges = ranges.assuming(facts_of(test.roots[0], True, ranges))
        tests.append(test.roots[0])
    body = instantiate(op.body, values, n.job.placement.inline, ranges)
    _collect(n.job, body.reads, pending, scope.ranges)
    drafts: list[Draft] = [Put(op.outputs, indices, body.roots, reducer, stage.name)]
    for cond in reversed(tests):
        drafts = [If(cond, block(drafts), stage.where_note)]
    return _predicated(n, scope, drafts), pending


def _conditions(where: Expr | None) -> list[Expr]:
    """The tests of ``where``, each asked only where those before it hold."""
    found: list[Expr] = []
    while where is not None and is_both(where):
        found.append(where.cond)
        where = where.a
    return found if where is None else [*found, where]


def _predicated(n: Nesting, scope: Scope, drafts: list[Draft]) -> list[Draft]:
    """The store under ``set_store_predicate``, its thread axes those in scope."""
    if n.stage.predicate is None or (n.init and _mentions_reduction(n)):
        return drafts
    if any(thread_tag(n.stage.kinds.get(a, "")) for a in n.stage.reduce_leaves):
        # it chooses the threads that store the sum; every thread adds its part
        return drafts

    def bound(node: Expr) -> Expr | None:
        if isinstance(node, Axis) and node.tag:
            found = scope.threads.find(node.tag)
            return None if found is None else found[0]
        if isinstance(node, Axis) and (node in at or node in n.plan.values):
            return to_expr(at[node] if node in at else n.plan.values[node])
        return None

    # a dimension is where the element stands in its tensor, a loop counts from 0
    op = n.stage.op
    at = {a: d.lo + n.plan.values[a] for a, d in zip(op.axis, n.dims)}
    at.update({a: to_lin(a.lo) + n.plan.values[a] for a in op.reduce_axis})
    cond = rewrite(n.stage.predicate, bound)
    return [If(cond, block(drafts), "store predicate", predicate=True)]


def _mentions_reduction(n: Nesting) -> bool:
    """Whether the store predicate speaks of loops that the init stands outside of."""
    assert n.stage.predicate is not None
    return any(isinstance(a, Axis) and a.is_reduce for a in postorder([n.stage.predicate]))


def _collect(job: Job, reads: list[Any], pending: Pending, ranges: Ranges) -> None:
    for tensor, indices in reads:
        if job.needs_box(tensor) or tensor in job.prefetched:
            add(pending, tensor, point(indices, ranges), ranges)


def attach_children(
    n: Nesting, axis: Axis, drafts: list[Draft], pending: Pending, scope: Scope
) -> Task:
    """The stages computed (or stored) at this loop, ahead of the statements that read them."""
    job, here = n.job, (n.stage.name, axis)
    for child in reversed(job.placement.at.get(here, ())):
        slide = None
        if child.name in job.placement.store and _monotone(n, axis):
            box = take(child, pending, scope.ranges, keep=True)
            slide = find_slide(child, box, n.plan.variables.get(axis), n.stage.kinds.get(axis))
        drafts, pending = yield place_child(job, child, drafts, pending, scope, slide)
    for child in job.placement.kept.get(here, ()):
        drafts = store_child(job, child, drafts, pending, scope)
    return drafts, pending


def _monotone(n: Nesting, axis: Axis) -> bool:
    """Whether the guards at this loop let iterations through from the first up to some last one."""
    var = n.plan.variables.get(axis)
    depth = next((k for k, a in enumerate(n.leaf) if a is axis), 0)
    if var is None or (n.slide is not None and _row_depth(n) == depth):
        return False
    for guard in _guards_at(n, depth):
        step = (guard.fact.substitute({var: Lin.of(var) + 1}) - guard.fact).const
        if step is None or step < 0:
            return False
    return True


def take(stage: Stage, pending: Pending, ranges: Ranges, keep: bool = False) -> Box | None:
    """The box of ``stage`` that the statements so far read: one for all its outputs."""
    box: Box | None = None
    for tensor in stage.outputs:
        found = pending.get(tensor) if keep else pending.pop(tensor, None)
        if found is not None:
            box = found if box is None else union(box, found, ranges)
    return box


def place_child(
    job: Job,
    child: Stage,
    drafts: list[Draft],
    pending: Pending,
    scope: Scope,
    slide: Slide | None = None,
) -> Task:
    """``drafts`` with the nest of ``child``, and its storage, in front."""
    stored_here = child.name not in job.placement.store
    box = take(child, pending, scope.ranges, keep=not stored_here)
    if box is None:
        return drafts, pending
    scope_name = scope_of(child, scope.loops)
    shared = box_scope(scope_name, scope.loops)
    wrong = wrong_threads(child, scope_name, scope.threads, {loop.tag for loop in shared})
    job.problems.extend(Problem(why, child.name) for why in wrong)
    for loop in shared:
        box = relax_box(box, loop.var, loop.extent, scope.ranges)
    sizes = [to_lin(e) for e in child.op.outputs[0].shape]
    dims = realize(box, sizes, scope.ranges, child.name in job.placement.steps)
    if not job.unclipped.isdisjoint(child.outputs):
        past = realize_past(box, sizes, scope.ranges)
        job.clipped.update(child.outputs if past is None else ())
        dims = past or dims
    if stored_here and scope_name != "global":
        whole = job.given | job.clipped
        boxed = partial(fetched, job.state, job.placement.attach, whole)
        known = boxed if scope.threads.known else None
        dims, read = rounded_up(child, dims, job.placement.inline, scope.ranges, known)
        job.unclipped.update(read)
    made, more = yield nest_stage(job, child, dims, scope, slide)
    merge(pending, more, scope.ranges)
    storage: list[Draft] = []
    if stored_here:
        storage = [*job.storage(child, dims, scope_name)]
    else:
        # storage further out must hold all that is computed, which may be more than is read
        computed = Box(tuple(d.lo for d in dims), tuple(d.lo + d.extent - 1 for d in dims))
        pending.update((t, computed) for t in child.outputs)
    return [*storage, *made, *drafts], pending


def store_child(
    job: Job, child: Stage, drafts: list[Draft], pending: Pending, scope: Scope
) -> list[Draft]:
    """Storage at a loop outside the one that computes: as large as all iterations need."""
    box = take(child, pending, scope.ranges)
    if box is None:
        return drafts
    dims = realize(box, [to_lin(e) for e in child.op.outputs[0].shape], scope.ranges)
    return [*job.storage(child, dims, scope_of(child, scope.loops)), *drafts]


def _prefetches(n: Nesting, axis: Axis, pending: Pending, scope: Scope) -> list[Draft]:
    """What is asked for ahead of this loop's later iterations.

    What is computed inside the loop has left ``pending``: it has no storage yet, and is near.
    """
    made: list[Draft] = []
    inside = n.leaf[n.leaf.index(axis) + 1 :]
    for hint in n.stage.prefetches:
        if hint.axis is axis and n.plan.variables.get(axis) is not None:
            if any(n.plan.extents[a].const == 0 for a in inside):
                continue
            box = pending.get(hint.tensor)
            if hint.tensor in n.stage.outputs:
                box = written_box(n.stage, n.plan, n.dims, inside, n.plan.ranges)
            found = prefetch(hint, n.stage, n.plan, box, scope.ranges)
            if isinstance(found, str):
                asked = f"prefetch({hint.tensor.name}, {axis.name}, {hint.offset})"
                why = explain(
                    f"{asked} on stage {n.stage.name}", found, "Prefetch at another loop."
                )
                n.job.problems.append(Problem(why, n.stage.name))
            else:
                made += found
    return made
