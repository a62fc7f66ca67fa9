"""Candidates that add a stage: copies of operands, packed or not, buffers and partial results."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from schedlang.autotune.tactics.loops import innermost
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.hints.factors import dividing
from schedlang.hints.steps import Steps, Take, of_schedule
from schedlang.runtime.environment import threads_of
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.relations import Split
from schedlang.state.state import Stage
from schedlang.target import Target

# vectors of partial sums that a core adds at the same time, and parts of a sum for the threads
VECTORS, PARTS = 4, 16


def new_stages(s: Schedule, view: StageView, target: Target) -> Iterator[Steps]:
    """Yield candidates that add a stage for ``view``, whose schedule is ``s``."""
    name = view.name
    yield from _copies(s, view)
    if not any(step.stage == name for step in s.steps):
        yield of_schedule("cache_write", name, view.outputs[0], "global")
        # parts of a sum on threads of their own, unless the elements are many, which threads share
        count = _elements(view)
        several = len(view.outputs) == 1 and threads_of(target) > 1
        for axis in view.op.reduce_axis if several else ():
            if type(axis.extent) is int and not axis.extent % PARTS and count <= axis.extent:
                yield Steps("rfactor", name, _in_parts(name, axis, axis.extent // PARTS))
    kinds = s.state.stages[name].kinds
    steps = [a for a in view.leaf_axes if a.is_reduce and a not in kinds]
    if steps and len(view.outputs) == 1 and "vectorize" not in kinds.values():
        lanes = target.vector_width(view.outputs[0].dtype)
        length = steps[-1].extent
        widths = (lanes, 2 * lanes, VECTORS * lanes)
        # beyond the length, most lanes would add nothing
        fitting = [w for w in widths if not isinstance(length, int) or w <= length]
        for width in dividing(steps[-1], fitting):
            take = _in_lanes(name, steps[-1], width)
            yield Steps("rfactor", name, take, (name, steps[-1]))


def _elements(view: StageView) -> float:
    """Return the number of elements of a stage, infinity if a size decides it."""
    extents = [axis.extent for axis in view.op.axis]
    return prod([extent if isinstance(extent, int) else inf for extent in extents])


def _copies(s: Schedule, view: StageView) -> Iterator[Steps]:
    """Yield the copies of operands that a stage reads more than once."""
    name, op, stage = view.name, view.op, s.state.stages[view.name]
    lanes = [a for a, kind in stage.kinds.items() if kind == "vectorize"]
    reads: dict[Tensor, list[Read]] = {}
    for node in postorder(getattr(op, "body", ())):
        if isinstance(node, Read):
            reads.setdefault(node.tensor, []).append(node)
    for tensor, same in reads.items():
        if not op.reduce_axis or len(tensor.shape) < 2:
            # each element is read once
            continue
        yield Steps("cache_read", name, _copy(name, tensor))
        last = same[0].indices[-1]
        if len(same) == 1 and len(tensor.shape) == 2 and lanes and isinstance(last, Axis):
            width = lanes[0].extent
            if isinstance(width, Expr) or last not in view.op.axis:
                continue
            if width < last.extent and _lanes_of(stage, last) is lanes[0]:
                yield Steps("pack", name, _pack_panels(name, tensor, width))


def _lanes_of(stage: Stage, root: Axis) -> Axis:
    """Return the innermost loop that splits of an axis made."""
    loop = root
    while isinstance(split := stage.made_from(loop), Split):
        loop = split.inner
    return loop


def _copy(name: str, tensor: Tensor) -> Take:
    return lambda s: s.cache_read(tensor, "global", [s[name].outputs[0]])


def _pack_panels(name: str, tensor: Tensor, width: int) -> Take:
    """Return the steps that copy a matrix in panels of ``width`` columns, row after row."""

    def take(s: Schedule) -> None:
        copy = s.cache_read(tensor, "global", [s[name].outputs[0]])
        s[copy].transform_layout(lambda i, j: (j // width, i, j % width))
        row, column = s[copy].op.axis
        panel, lane = s[copy].split(column, factor=width)
        s[copy].reorder(panel, row, lane)
        s[copy].vectorize(lane)
        s[copy].parallel(panel)

    return take


def _in_lanes(name: str, axis: Axis, width: int) -> Take:
    """Return the steps that add every ``width``-th element in a lane of its own."""

    def take(s: Schedule) -> None:
        _, inner = s[name].split(axis, factor=width)
        partial = s.rfactor(s[name].outputs[0], inner, factor_axis=len(s[name].op.axis))
        data = [a for a in s[name].leaf_axes if not a.is_reduce]
        if data:
            # partial results are added where they are made
            s[partial].compute_at(s[name], data[-1])
        lane = s[partial].op.axis[-1]
        innermost(s, partial, lane)
        s[partial].vectorize(lane)

    return take


def _in_parts(name: str, axis: Axis, length: int) -> Take:
    """Return the steps that add parts of ``length`` elements on threads of their own."""

    def take(s: Schedule) -> None:
        outer, _ = s[name].split(axis, factor=length)
        partial = s.rfactor(s[name].outputs[0], outer)
        s[partial].parallel(s[partial].op.axis[0])

    return take
