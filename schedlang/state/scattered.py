"""The loops of a scatter's updates: which of them may run concurrently, or in another order."""

from __future__ import annotations

from typing import TypeGuard

from schedlang.compute.tensor import ComputeOp, Operation
from schedlang.expr.nodes import Axis
from schedlang.index.accesses import Access
from schedlang.index.iterations import SecondIteration, always_differ
from schedlang.index.linear import Lin, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.state.order import loops_in_order
from schedlang.state.plan import Peel, Threads, make_plan, whole
from schedlang.state.state import Stage


def scatters(op: Operation) -> TypeGuard[ComputeOp]:
    """Return whether ``op`` is a scatter."""
    return isinstance(op, ComputeOp) and op.destination is not None


def overwrites(stage: Stage) -> bool:
    """Return whether ``stage`` is a scatter that keeps the last update of each element."""
    op = stage.op
    return scatters(op) and op.reducer is not None and op.reducer.overwrites


def update_loops(stage: Stage) -> tuple[Axis, ...]:
    """Return the loops around the updates of a scatter, outer to inner."""
    return tuple(a for a in stage.leaf if a not in stage.scattered_leaves)


def apart(stage: Stage, axis: Axis) -> bool:
    """Return whether different iterations of a loop of updates provably update different elements.

    The loops around it are in the same iteration, those inside of it in any.
    """
    op = stage.op
    assert scatters(op) and op.destination is not None
    plan = make_plan(stage, whole(op.shape), Ranges(), Peel(), Threads())
    var = plan.variables.get(axis)
    if var is None or plan.extents[axis].const == 1:
        return True
    values = {a: to_lin(a.lo) + plan.values[a] for a in (*op.axis, *op.reduce_axis)}
    indices = [to_lin(i, values, plan.ranges) for i in op.destination]
    # an index that depends on data tells nothing about which elements are different
    certain = tuple(i for i in indices if not any(isinstance(x, Opaque) for x in i.leaves()))
    order = update_loops(stage)
    loops = tuple((v, plan.extents[a]) for a in order if (v := plan.variables.get(a)) is not None)
    around = order[: next(k for k, a in enumerate(order) if a is axis)]
    outside = {plan.variables.get(a) for a in around}
    access = Access(
        certain, loops, tuple(g.cond for g in plan.guards if _seen(g.axes, loops)), plan.ranges
    )
    free = {v for v, _ in loops if v not in outside}
    if not certain:
        return False
    return bool(always_differ(SecondIteration(var, access, access, free), counting=False))


def _seen(axes: frozenset[Axis], loops: tuple[tuple[Axis, Lin], ...]) -> bool:
    own = {axis for axis, _ in loops}
    return axes <= own


def keeps_result(stage: Stage) -> bool:
    """Return whether a scatter that overwrites leaves the last update in its element.

    Its loops must be in the order of the domain, unless no two updates reach the same element.
    """
    return loops_in_order(stage) or all(apart(stage, a) for a in update_loops(stage))
