"""The innermost statement of a stage: the store of one point, with the boxes that it reads."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import chain, repeat
from operator import and_
from typing import Any

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import explain
from schedlang.expr.lazy import conditions
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import axes_in, rewrite
from schedlang.index.conditions import compares_indices, facts_of
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import simplify, to_lin
from schedlang.ir.nodes import If
from schedlang.lowering.drafts import Draft, DraftStore, block
from schedlang.lowering.guards import late_guards, wrap
from schedlang.lowering.instantiate import instantiate
from schedlang.lowering.nesting import Job, Made, Nesting, Scope
from schedlang.lowering.region import Pending, add, point
from schedlang.state.atomics import is_atomic
from schedlang.state.placement import Problem
from schedlang.state.plan import thread_tag


def statement(n: Nesting, scope: Scope) -> Made:
    """Return the store of one point, under the guards that must be at the statement."""
    drafts, pending = _point(n, scope)
    return wrap(late_guards(n), drafts), pending


def _point(n: Nesting, scope: Scope) -> Made:
    """Return the store of one point: the body, the init, or one update of a reduction."""
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
        start = instantiate(roots, values, n.job.placement.inline, scope.ranges)
        _collect(n.job, start.reads, pending, scope.ranges)
        put = DraftStore(op.outputs, indices, start.roots, None, stage.name)
        return _predicated(n, scope, [put]), pending
    tests: list[tuple[Expr, str, int | Expr | None]] = []
    ranges = scope.ranges
    notes, limits = chain(stage.where_notes, repeat("")), chain(op.limits, repeat(None))
    for cond, note, limit in zip(conditions(op.where), notes, limits):
        test = instantiate((cond,), values, n.job.placement.inline, ranges)
        if isinstance(test.roots[0], Const):
            if not test.roots[0].value:
                return [], {}
            continue
        _collect(n.job, test.reads, pending, ranges)
        ranges = ranges.assuming(facts_of(test.roots[0], True, ranges))
        tests.append((test.roots[0], note, limit))
    body = instantiate(op.updates, values, n.job.placement.inline, ranges)
    _collect(n.job, body.reads, pending, scope.ranges)
    computed = op.destination is not None
    places, parts = body.roots[: len(op.destination or ())], body.roots[-len(op.body) :]
    if computed:
        indices = tuple(to_lin(place, ranges=ranges) for place in places)
    drafts: list[Draft] = [
        DraftStore(op.outputs, indices, parts, reducer, stage.name, computed, is_atomic(stage))
    ]
    for asked, note, limit in reversed(tests):
        # the condition of a scatter may keep its index in bounds, so no lane may access without it
        drafts = [If(asked, block(drafts), note, where=not computed, limit=limit)]
    return _predicated(n, scope, drafts), pending


def _predicated(n: Nesting, scope: Scope, drafts: list[Draft]) -> list[Draft]:
    """Return ``drafts`` under the store predicate, over the thread axes in scope."""
    if n.stage.predicate is None:
        return drafts
    tests = _conjuncts(n.stage.predicate)
    # threads that reduce together store once, so a condition that selects one of them is dropped
    tests = [t for t in tests if not _selects_reducing_thread(n, t)]
    if n.init:
        # the initialization is outside the reduction loops
        tests = [t for t in tests if not any(a.is_reduce for a in axes_in([t]))]

    def bound(node: Expr) -> Expr | None:
        if isinstance(node, Axis) and node.tag:
            thread = scope.threads.find(node.tag)
            return None if thread is None else thread[0]
        if isinstance(node, Axis) and (node in at or node in n.plan.values):
            return to_expr(at[node] if node in at else n.plan.values[node])
        return None

    # an axis in the predicate is a tensor coordinate, while its loop starts at 0
    op = n.stage.op
    at = {a: d.lo + n.plan.values[a] for a, d in zip(op.axis, n.dims)}
    at.update({a: to_lin(a.lo) + n.plan.values[a] for a in op.reduce_axis if a in n.plan.values})
    if not tests:
        return drafts
    cond = rewrite(rewrite(reduce(and_, tests), bound), _shorter)
    return [If(cond, block(drafts), "store predicate", predicate=True)]


def _shorter(cond: Expr) -> Expr | None:
    """Return a comparison without the axes that cancel out, which may then leave their loops."""
    if not isinstance(cond, Binary) or not compares_indices(cond):
        return None
    a, b = simplify(cond.a), simplify(cond.b)
    return replace(cond, a=a, b=b) if len(axes_in([a, b])) < len(axes_in([cond])) else None


def _conjuncts(cond: Expr) -> list[Expr]:
    """Return the conditions that ``cond`` joins by ``&``."""
    if isinstance(cond, Binary) and cond.op == "&":
        return [*_conjuncts(cond.a), *_conjuncts(cond.b)]
    return [cond]


def _selects_reducing_thread(n: Nesting, test: Expr) -> bool:
    """Return whether ``test`` depends on the threads that reduce together."""
    team = {a: k for a in n.stage.reduce_leaves if thread_tag(k := n.stage.kinds.get(a, ""))}
    axes = axes_in([test])
    own = [a for a in axes if a in team or a.tag in team.values()]
    others = [a for a in axes if a not in own]
    if own and others:
        why = explain(
            f"set_store_predicate({test}) on stage {n.stage.name}",
            f"it mixes {team.get(own[0], own[0].tag)}, whose threads reduce together so that only "
            f"one stores, with {others[0].tag or others[0].name}, which selects elements",
            "Write them as two conditions, joined by sl.all(a, b).",
        )
        n.job.problems.append(Problem(why, n.stage.name))
    return bool(own)


def _collect(job: Job, reads: list[Any], pending: Pending, ranges: Ranges) -> None:
    for tensor, indices in reads:
        if job.needs_box(tensor) or tensor in job.prefetched:
            add(pending, tensor, point(indices, ranges), ranges)
