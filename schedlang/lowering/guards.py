"""Placement of guards: at the innermost loop they depend on, or at the innermost statement."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expr.nodes import Axis
from schedlang.index.digits import step
from schedlang.index.linear import Lin
from schedlang.ir.nodes import If
from schedlang.lowering.drafts import Draft, block
from schedlang.lowering.nesting import Nesting
from schedlang.lowering.sliding_windows import Slide, new_rows_only
from schedlang.lowering.thread_checks import thread_variables
from schedlang.state.plan import Guard
from schedlang.state.state import At, Stage


def guards_at(n: Nesting, depth: int) -> list[Guard]:
    """Return the guards that depend on loop ``depth`` and on no loop inside it."""
    if not n.plan.guards:
        return []
    variables = [n.plan.variables.get(a) for a in n.leaf]
    hidden = n.hidden
    guards = []
    for guard in n.plan.guards:
        if guard.axes & hidden or _must_be_innermost(n, guard):
            continue
        deepest = max((k for k, v in enumerate(variables) if v in guard.axes), default=-1)
        if deepest == depth:
            guards.append(guard)
    return guards


def _must_be_innermost(n: Nesting, guard: Guard) -> bool:
    """Return whether ``guard`` must be at the innermost statement.

    All threads of a block compute an attached stage together, even those that fail the guard.
    """
    if not guard.axes & thread_variables(n.stage, n.plan, n.scope.threads):
        return False
    return any((n.stage.name, axis) in n.job.placement.at for axis in n.stage.leaf)


def late_guards(n: Nesting) -> list[Guard]:
    """Return the guards that must be at the innermost statement."""
    if not n.plan.guards:
        return []
    hidden = n.hidden
    waiting = (g for g in n.plan.guards if _must_be_innermost(n, g))
    return [g for g in waiting if not g.axes & hidden]


def wrap_in_guards(n: Nesting, depth: int, drafts: list[Draft]) -> list[Draft]:
    """Wrap the body of loop ``depth`` in its guards; depth -1 is outside all loops."""
    if n.init and depth < 0:
        return drafts
    for slide in n.slides:
        if depth == row_depth(n, slide):
            drafts = new_rows(n, slide, drafts)
    return wrap(guards_at(n, depth), drafts)


def _row(n: Nesting, slide: Slide) -> Lin:
    """Return the coordinate of a sliding stage along its sliding dimension."""
    return n.dims[slide.dim].lo + n.plan.values[n.stage.op.axis[slide.dim]]


def row_depth(n: Nesting, slide: Slide) -> int:
    """Return the depth of the innermost loop along the sliding dimension, or -1."""
    moving = set(_row(n, slide).leaves())
    positions = (k for k, a in enumerate(n.leaf) if n.plan.variables.get(a) in moving)
    return max(positions, default=-1)


def new_rows(n: Nesting, slide: Slide, drafts: list[Draft]) -> list[Draft]:
    """Guard ``drafts`` so that rows kept by the sliding window are not computed again."""
    return new_rows_only(n.stage, slide, _row(n, slide), drafts) if drafts else drafts


def wrap(guards: Sequence[Guard], drafts: list[Draft]) -> list[Draft]:
    """Wrap ``drafts`` in ``guards``, the first outermost."""
    for guard in reversed(guards if drafts else ()):
        drafts = [If(guard.cond, block(drafts), guard.note, tail=guard.tail)]
    return drafts


def sliding_axes(n: Nesting, child: Stage, axis: Axis) -> list[Axis]:
    """Return the loops along which ``child``, computed at the loop over ``axis``, may slide.

    They lie between its storage and its computation, and if an iteration runs, so did the one
    before it, with all that the loops inside it need of ``child``.
    """
    stored = n.job.placement.store[child.name]
    depth = n.leaf.index(axis)
    first = 0
    if isinstance(stored, At) and stored.stage == n.stage.name:
        first = n.leaf.index(stored.axis) + 1
    return [a for k, a in enumerate(n.leaf[: depth + 1]) if k >= first and _runs_on(n, k, depth)]


def _runs_on(n: Nesting, loop: int, depth: int) -> bool:
    """Return whether the iterations of a loop that reach depth ``depth`` are its first ones."""
    var = n.plan.variables.get(n.leaf[loop])
    if var is None or any(loop <= row_depth(n, slide) <= depth for slide in n.slides):
        return False
    for guard in (g for k in range(loop, depth + 1) for g in guards_at(n, k)):
        moved = step(guard.fact, var)
        if moved is None or moved < 0:
            return False
    return True
