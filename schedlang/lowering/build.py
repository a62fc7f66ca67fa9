"""Construction of the loops of a stage around its body, from the inside out.

The innermost statement is built first. On the way out, each loop adds its guards and the stages
attached to it. The box of an attached stage is the region that the statements built so far read.
Each enclosing loop then widens the boxes by its range.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.errors import explain
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, number_or_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import For
from schedlang.lowering.allocation import box_scope, scope_of
from schedlang.lowering.drafts import Draft, block
from schedlang.lowering.extern import call_of, dims_of_call, whole_box
from schedlang.lowering.folded_storage import fold_rows, window_of
from schedlang.lowering.guards import (
    guards_at,
    late_guards,
    new_rows,
    row_depth,
    sliding_axes,
    wrap,
    wrap_in_guards,
)
from schedlang.lowering.instructions import has_lanes, is_whole
from schedlang.lowering.known_nests import KnownNest, nest_key
from schedlang.lowering.nesting import Job, Loop, Made, Nesting, Scope
from schedlang.lowering.prefetch import prefetches
from schedlang.lowering.region import (
    Box,
    Pending,
    merge,
    realize,
    realize_past,
    relax_all,
    relax_box,
    union,
)
from schedlang.lowering.rounded_tiles import round_up
from schedlang.lowering.scan import (
    box_of_scan,
    extra_outputs,
    is_part,
    row_of,
    rows_of,
    rows_so_far,
    with_rolling_rows,
)
from schedlang.lowering.scattered import blocks_in_kernel, scattered_whole, scatters
from schedlang.lowering.serpentine import loops_that_never_turn
from schedlang.lowering.sliding_windows import Slide, find_slides
from schedlang.lowering.statement import statement
from schedlang.lowering.tails import cut_at, lost_cuts, rest_of_cut
from schedlang.lowering.thread_checks import threads_fetch, too_few_threads, wrong_threads
from schedlang.lowering.trampoline import Task
from schedlang.state.placement import Problem
from schedlang.state.plan import Dim, Guard, Peel, make_plan, thread_tag
from schedlang.state.relations import position
from schedlang.state.state import SERPENTINE, Stage


def nest_stage(
    job: Job, stage: Stage, dims: tuple[Dim, ...], scope: Scope, slides: tuple[Slide, ...] = ()
) -> Task:
    """Return the statements that compute ``dims`` of ``stage``, and the boxes they read."""
    key = nest_key(job, stage, dims, scope)
    known: KnownNest | None = None if key is None else job.findings.known.get(key)
    if known is not None:
        job.unclipped.update(known.unclipped)
        job.clipped.update(known.clipped)
        return [*known.drafts], dict(known.pending)
    if isinstance(stage.op, ExternOp):
        return call_of(job, stage, stage.op, dims, scope.ranges)
    if stage.is_scan:
        return (yield _nest_scan(job, stage, dims, scope))
    problems, unclipped, clipped = len(job.problems), set(job.unclipped), set(job.clipped)
    drafts, pending = yield _nest_stage(job, stage, dims, scope, slides)
    if key is not None and len(job.problems) == problems:
        added = frozenset(job.unclipped - unclipped), frozenset(job.clipped - clipped)
        job.findings.keep(key, KnownNest(tuple(drafts), dict(pending), *added))
    return drafts, pending


def _nest_stage(
    job: Job, stage: Stage, dims: tuple[Dim, ...], scope: Scope, slides: tuple[Slide, ...]
) -> Task:
    plan = make_plan(stage, dims, scope.ranges, Peel(), scope.threads)
    return (yield _nest(Nesting(job, stage, dims, scope, Peel(), plan, stage.leaf, slides)))


def _nest(nesting: Nesting) -> Task:
    """Return the loops of a stage, in their outermost guards."""
    job, stage, plan, scope = nesting.job, nesting.stage, nesting.plan, nesting.scope
    # a scan has the dimensions of its first state, beside which another one may have elements
    sizes = [[e for e in t.shape if isinstance(e, int)] for t in stage.outputs]
    is_empty = not stage.is_scan or all(0 in extents for extents in sizes)
    if is_empty and any(d.extent.const == 0 for d in nesting.dims):
        return [], {}
    job.problems.extend(Problem(why, stage.name) for why in lost_cuts(stage, plan))
    job.problems.extend(Problem(why, stage.name) for why in loops_that_never_turn(stage, scope))
    few = too_few_threads(stage, plan, scope.threads)
    job.problems.extend(Problem(why, stage.name) for why in few)
    drafts, pending = yield _level(nesting, 0, scope)
    return wrap_in_guards(nesting, -1, drafts), pending


def _nest_scan(job: Job, stage: Stage, dims: tuple[Dim, ...], scope: Scope) -> Task:
    """Return the loops of a scan: data axes, the first rows, and time, which holds the steps.

    Data axes among the loops over time are around the steps of a block of time.
    """
    plan = make_plan(stage, dims[1:], scope.ranges, Peel(), scope.threads)
    data = stage.leaf[: next(k for k, a in enumerate(stage.leaf) if a.kind == "scan")]
    nesting = Nesting(job, stage, dims[1:], scope, Peel(), plan, data, innermost=_start_scan)
    drafts, pending = yield _nest(nesting)
    parts = (child for child in job.state.stages.values() if is_part(stage, child))
    extra = [
        a for c in parts for a in extra_outputs(job, stage, c, dims, scope_of(stage, scope.loops))
    ]
    return [*extra, *drafts], pending


def _start_scan(n: Nesting, scope: Scope) -> Task:
    """Return the first rows of a scan, then its loops over time."""
    depth, leaf = len(n.leaf), n.stage.leaf[: position(n.stage.leaf, n.stage.time) + 1]
    drafts, pending = yield _level(replace(n, leaf=leaf, innermost=_step), depth, scope)
    for child in reversed(list(n.job.state.stages.values())):
        if is_part(n.stage, child, "init"):
            first, more = yield nest_stage(n.job, child, rows_of(n, child, scope.ranges), scope)
            merge(pending, more, scope.ranges)
            drafts = [*wrap(late_guards(n), first), *drafts]
    return drafts, pending


def _step(n: Nesting, scope: Scope) -> Task:
    """Return one step of a scan: the update of each state, and the stages computed in the step."""
    drafts: list[Draft] = []
    pending: Pending = {}
    stage, time = n.stage, n.stage.time
    row = row_of(n)
    inner = replace(scope, times={**scope.times, stage.name: row})
    steps = {child.name for child in n.job.placement.at.get((stage.name, time), ())}
    # within a row, an update may read other stages or another update, which come first
    for child in reversed(list(n.job.state.stages.values())):
        if is_part(stage, child, "update"):
            dims = rows_of(n, child, inner.ranges, row)
            child_drafts, more = yield nest_stage(n.job, child, dims, inner)
            merge(pending, more, inner.ranges)
            drafts = [*wrap(late_guards(n), child_drafts), *drafts]
        elif child.name in steps:
            drafts, pending = yield attach_child(n, time, child, drafts, pending, inner)
    return drafts, pending


def _level(n: Nesting, depth: int, scope: Scope) -> Task:
    """Return the loops from ``depth`` inwards.

    The initialization of a reduction comes before its first reduction loop, and before loops that
    an instruction replaces. The initialization of a scatter has loops over the scattered axes; its
    updates do not.
    """
    scattered = n.stage.scattered_leaves
    loops = () if n.init or n.updating else n.leaf
    first = next((k for k, a in enumerate(loops) if a.is_reduce or a in scattered), None)
    if first is not None:
        first = min([first, *(position(n.leaf, a) for a in n.stage.instructions)])
    if first != depth:
        if depth == len(n.leaf):
            return statement(n, scope) if n.innermost is None else (yield n.innermost(n, scope))
        return (yield _cut_or_loop(n, depth, n.leaf[depth], scope))
    if why := blocks_in_kernel(n.stage, scope.threads):
        n.job.problems.append(Problem(why, n.stage.name))
    data = tuple(a for a in n.leaf[depth:] if not a.is_reduce)
    start, ahead = yield _level(replace(n, leaf=data, init=True), 0, scope)
    rest = tuple(a for a in n.leaf if a not in scattered)
    drafts, pending = yield _level(replace(n, leaf=rest, updating=True), depth, scope)
    merge(pending, ahead, scope.ranges)
    return [*start, *drafts], pending


def _cut_or_loop(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    children = {} if n.init else n.job.placement.at
    leaf = n.stage.leaf if n.stage.is_scan else n.leaf
    cut = cut_at(n.stage, n.plan, n.peel, leaf, axis, children)
    if isinstance(cut, str):
        n.job.problems.append(Problem(cut, n.stage.name))
        cut = None
    if cut is None:
        return (yield _loop(n, depth, axis, scope))
    drafts: list[Draft] = []
    pending: Pending = {}
    if cut.inside is not None:
        for peel, test in zip((cut.main, cut.tail), cut.inside):
            part_drafts, more = yield _part_of_shared_loop(
                n.with_plan(peel), depth, axis, test, scope
            )
            drafts += part_drafts
            merge(pending, more, scope.ranges)
        return _as_loop(n, axis, drafts, pending, scope.ranges)
    for peel, tests in ((cut.main, []), (cut.tail, [] if cut.test is None else [cut.test])):
        part = n.with_plan(peel)
        inside = replace(scope, ranges=scope.ranges.assuming(tuple(g.fact for g in tests)))
        part_drafts, more = yield _part(part, depth, axis, inside)
        for slide in n.slides:
            if row_depth(part, slide) < depth <= row_depth(n, slide):
                # the loop that would hold the test has one iteration in this part
                part_drafts = new_rows(part, slide, part_drafts)
        drafts += wrap(tests, part_drafts)
        merge(pending, more, scope.ranges)
    return drafts, pending


def _part(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    """Build one part of a cut loop, under the guards of outer loops that only this part needs."""
    outer = [g for k in range(-1, depth) for g in guards_at(n, k)]
    late = [g for g in outer if not scope.ranges.nonneg(-g.fact)]
    inside = replace(scope, ranges=scope.ranges.assuming(tuple(g.fact for g in late)))
    drafts, pending = yield _loop(n, depth, axis, inside)
    return wrap(late, drafts), pending


def _loop(n: Nesting, depth: int, axis: Axis, scope: Scope) -> Task:
    """Return one loop with its guards, its attached stages, and everything inside it."""
    extent = n.plan.extents[axis]
    if extent.const == 0 and axis not in dict(n.peel.fixed):
        return [], {}
    var = n.plan.variables.get(axis)
    kind = n.stage.kinds.get(axis, "")
    if kind in ("vectorize", "unroll") and extent.const is None:
        why = explain(
            f"{kind}({axis.name}) on stage {n.stage.name}",
            f"the loop has {extent} iterations, which is known only at run time",
            rest_of_cut(n.stage, n.peel, axis, kind)
            or f"Split it first and {kind} the inner loop.",
        )
        n.job.problems.append(Problem(why, n.stage.name))
    guards = guards_at(n, depth)
    inner = _enter(n, scope, var, extent, kind, guards)
    drafts, pending = yield _body(n, depth, axis, inner)
    if var is None or scope.threads.find(kind) is not None:
        return _with_pragmas(n.stage, _pragmas(n, axis), drafts), pending
    return _as_loop(n, axis, drafts, pending, inner.ranges)


def _body(n: Nesting, depth: int, axis: Axis, inner: Scope) -> Task:
    """Build the body of the loop over ``axis``; ``inner`` is its scope."""
    drafts, pending = yield _level(n, depth + 1, inner)
    if not n.init:
        drafts, pending = yield attach_children(n, axis, drafts, pending, inner)
        drafts = [*prefetches(n, axis, pending, inner), *drafts]
    return wrap_in_guards(n, depth, drafts), pending


def _as_loop(n: Nesting, axis: Axis, drafts: list[Draft], pending: Pending, ranges: Ranges) -> Made:
    """Wrap ``drafts``, which use the variable of ``axis``, in the loop over ``axis``."""
    var, extent, kind = n.plan.variables[axis], n.plan.extents[axis], n.stage.kinds.get(axis, "")
    chosen = n.stage.instructions.get(axis)
    if chosen is not None and (n.init or not is_whole(n.stage, n.plan, axis, drafts)):
        chosen, kind = None, ""
    if has_lanes(n.stage, n.plan, axis, n.init):
        kind = "vectorize"
    loop = For(
        var,
        number_or_expr(extent),
        "thread" if thread_tag(kind) else kind or "serial",
        block(drafts),
        n.stage.name,
        kind if thread_tag(kind) else "",
        _pragmas(n, axis),
        instruction=chosen,
    )
    return [loop], relax_all(pending, var, extent, ranges)


def _pragmas(n: Nesting, axis: Axis) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for a, name, value in n.stage.pragmas if a is axis)


def _part_of_shared_loop(n: Nesting, depth: int, axis: Axis, test: Guard, scope: Scope) -> Task:
    """Build one part of a cut loop under its ``test``, if both parts share one loop."""
    outer = [g for k in range(-1, depth) for g in guards_at(n, k)]
    late = [g for g in outer if not scope.ranges.nonneg(-g.fact)]
    tests = [test, *late]
    guards = guards_at(n, depth)
    var, extent = n.plan.variables[axis], n.plan.extents[axis]
    inside = replace(scope, ranges=scope.ranges.assuming(tuple(g.fact for g in tests)))
    inner = _enter(n, inside, var, extent, n.stage.kinds.get(axis, ""), guards)
    drafts, pending = yield _body(n, depth, axis, inner)
    return wrap(tests, drafts), pending


def _with_pragmas(stage: Stage, pragmas: tuple[Any, ...], drafts: list[Draft]) -> list[Draft]:
    """Return ``drafts`` with the pragmas of a loop that runs once moved to the loops inside it."""
    # one iteration has one order
    pragmas = tuple((name, value) for name, value in pragmas if name != SERPENTINE)
    if not pragmas:
        return drafts
    return [
        replace(d, pragmas=(*pragmas, *d.pragmas))
        if isinstance(d, For) and d.stage == stage.name
        else d
        for d in drafts
    ]


def _enter(
    n: Nesting,
    scope: Scope,
    var: Axis | None,
    extent: Lin,
    kind: str,
    guards: list[Guard],
) -> Scope:
    """Return the scope inside the loop over ``var``."""
    ranges = Ranges(n.plan.ranges.known, scope.ranges.facts)
    ranges = ranges.assuming(tuple(g.fact for g in guards))
    loops, threads = scope.loops, scope.threads
    if var is not None and threads.find(kind) is None:
        loops = (*loops, Loop(var, extent, kind if thread_tag(kind) or kind == "vthread" else ""))
        if thread_tag(kind):
            threads = threads.with_(kind, var, extent)
    return Scope(ranges, loops, threads, times=scope.times)


def attach_children(
    n: Nesting, axis: Axis, drafts: list[Draft], pending: Pending, scope: Scope
) -> Task:
    """Add the stages computed or stored at this loop, before the statements that read them."""
    # the stages of a step of a scan are among its updates already
    of_step = n.stage.is_scan and axis is n.stage.time
    for child in () if of_step else reversed(n.job.placement.at.get((n.stage.name, axis), ())):
        drafts, pending = yield attach_child(n, axis, child, drafts, pending, scope)
    return store_kept(n, axis, drafts, pending, scope), pending


def attach_child(
    n: Nesting, axis: Axis, child: Stage, drafts: list[Draft], pending: Pending, scope: Scope
) -> Task:
    """Return ``drafts`` with ``child``, which is computed at this loop, in front."""
    slides: tuple[Slide, ...] = ()
    if child.name in n.job.placement.store and not scatters(child):
        box = take(child, pending, scope.ranges, keep=True)
        along = sliding_axes(n, child, axis)
        loops = [(n.plan.variables.get(a), n.stage.kinds.get(a, "")) for a in along]
        slides = find_slides(child, box, loops)
    return (yield place_child(n.job, child, drafts, pending, scope, slides))


def store_kept(
    n: Nesting, axis: Axis, drafts: list[Draft], pending: Pending, scope: Scope
) -> list[Draft]:
    """Return ``drafts`` with the storage of the stages stored at this loop in front."""
    for child in n.job.placement.kept.get((n.stage.name, axis), ()):
        drafts = store_child(n.job, child, drafts, pending, scope)
    return drafts


def take(stage: Stage, pending: Pending, ranges: Ranges, keep: bool = False) -> Box | None:
    """Return the box that the statements so far read, one for all outputs of ``stage``.

    Unless ``keep`` is set, remove it from ``pending``.
    """
    box: Box | None = None
    whole_call = isinstance(stage.op, ExternOp) and stage.op.boxes is None
    for tensor in stage.outputs:
        one = pending.get(tensor) if keep else pending.pop(tensor, None)
        if one is not None and whole_call:
            # its outputs may differ in shape
            box = whole_box(stage.outputs[0])
        elif one is not None:
            box = one if box is None else union(box, one, ranges)
    return box


def place_child(
    job: Job,
    child: Stage,
    drafts: list[Draft],
    pending: Pending,
    scope: Scope,
    slides: tuple[Slide, ...] = (),
) -> Task:
    """Return ``drafts`` with the storage and the nest of ``child`` in front."""
    stored_here = child.name not in job.placement.store
    box = take(child, pending, scope.ranges, keep=not stored_here)
    if box is None:
        return drafts, pending
    scope_name = scope_of(child, scope.loops)
    shared = box_scope(scope_name, scope.loops)
    read_at_once = box
    wrong = wrong_threads(child, scope_name, scope.threads, {loop.tag for loop in shared})
    job.problems.extend(Problem(why, child.name) for why in wrong)
    for loop in shared:
        box = relax_box(box, loop.var, loop.extent, scope.ranges)
    sizes = [to_lin(e) for e in child.op.outputs[0].shape]
    if child.is_scan:
        dims, why = box_of_scan(child, box, scope.ranges)
        job.problems.extend(Problem(text, child.name) for text in why)
    else:
        dims = realize(box, sizes, scope.ranges, rows_so_far(job, child, scope))
    if isinstance(child.op, ExternOp):
        dims = dims_of_call(child.op, dims, scope.ranges)
        job.clipped.update(child.outputs)
    elif scatters(child):
        dims = scattered_whole(child, dims)
        job.clipped.update(child.outputs)
    elif not job.unclipped.isdisjoint(child.outputs):
        past = realize_past(box, sizes, scope.ranges)
        job.clipped.update(child.outputs if past is None else ())
        dims = past or dims
    # a given tensor has no room past its end, nor has a scan rows after the last one computed
    exact = bool(job.given.intersection(child.outputs)) or any(
        dim.high and dim.size != size for dim, size in zip(dims, sizes)
    )
    movable = not (exact or scatters(child) or child.is_extern or child.is_scan)
    if stored_here and scope_name != "global" and movable:
        whole = job.given | job.clipped
        boxed = partial(threads_fetch, job.state, job.placement.attach, whole)
        shared_read = boxed if scope.threads.known else None
        dims, read = round_up(child, dims, job.placement.inline, scope.ranges, shared_read)
        job.unclipped.update(read)
    child_drafts, more = yield nest_stage(job, child, dims, scope, slides)
    merge(pending, more, scope.ranges)
    storage: list[Draft] = []
    if stored_here:
        storage_of = job.storage_at_root if scope.at_root else job.storage
        storage = [*storage_of(with_rolling_rows(job, child, box), dims, scope_name)]
    else:
        # storage further out must hold all that is computed, which may exceed what is read
        ends = tuple(d.lo + d.extent - 1 for d in dims)
        window = window_of(slides, read_at_once, dims)
        computed = Box(tuple(d.lo for d in dims), ends, frozenset({window}))
        pending.update((t, computed) for t in child.outputs)
    return [*storage, *child_drafts, *drafts], pending


def store_child(
    job: Job, child: Stage, drafts: list[Draft], pending: Pending, scope: Scope
) -> list[Draft]:
    """Return ``drafts`` with storage of ``child`` in front, for a stage computed further inside.

    The storage is as large as all iterations of the loops in between need, or a ring of the rows
    in use if a window slides along them.
    """
    box = take(child, pending, scope.ranges)
    if box is None:
        return drafts
    dims = realize(box, [to_lin(e) for e in child.op.outputs[0].shape], scope.ranges)
    if job.folds and not scope.threads.known and job.given.isdisjoint(child.outputs):
        child = fold_rows(job.state, child, dims, box.windows)
    return [*job.storage(child, dims, scope_of(child, scope.loops)), *drafts]
