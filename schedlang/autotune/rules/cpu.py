"""The space of CPU schedules of a computation, as a template: rules over its stages."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.inline import inline
from schedlang.autotune.rules.pack import place
from schedlang.autotune.rules.points import points
from schedlang.autotune.rules.registers import lane_axes
from schedlang.autotune.rules.rows import along_memory, rows
from schedlang.autotune.rules.sketch import Sketch, Spot
from schedlang.autotune.rules.tiled import tiled
from schedlang.compute.tensor import Tensor
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def schedule_cpu(s: Schedule, knobs: Knobs, target: Target, threads: int) -> None:
    """Steps on ``s`` for a CPU of ``threads`` cores, each choice asked of ``knobs``."""
    sketch = Sketch(s, knobs, target, threads)
    inline(sketch)
    for tensor in reversed(sketch.stages()):
        if tensor in sketch.inlined or tensor in sketch.done:
            continue
        _stage(sketch, tensor)


def _stage(sketch: Sketch, tensor: Tensor) -> None:
    """The loops of one stage whose readers have theirs; what is computed with it comes along."""
    op = sketch.op(tensor)
    spot = _spot(sketch, tensor)
    anchor = _anchor(sketch, tensor) if op.reducer is None else None
    if anchor is not None:
        tiled(sketch, anchor[0], tensor, anchor[1], root=spot is None)
        sketch.attach(tensor, spot)
        return
    way = sketch.knobs.choice(f"{sketch.name(tensor)}.how", _ways(sketch, tensor))
    if way == "tile":
        tiled(sketch, tensor, tensor, range(len(op.axis)), root=spot is None)
    elif way == "rows":
        rows(sketch, tensor, spot)
        return
    else:
        points(sketch, tensor, root=spot is None)
    sketch.attach(tensor, spot)


def _ways(sketch: Sketch, tensor: Tensor) -> list[str]:
    """How a stage may be computed."""
    op = sketch.op(tensor)
    if op.reducer is None or len(op.outputs) > 1:
        return ["points"]
    ways = []
    if op.axis and lane_axes(sketch, tensor, len(op.axis) - 1):
        ways.append("tile")
    if along_memory(sketch, tensor):
        ways.append("rows")
    return ways or ["points"]


def _anchor(sketch: Sketch, head: Tensor) -> tuple[Tensor, list[int]] | None:
    """A reduction that ``head`` alone reads, one element a point: computed a tile at a time."""
    axes = sketch.op(head).axis
    for read in sketch.reads(head):
        tensor = read.tensor
        if tensor not in sketch.stages() or tensor in sketch.done or tensor in sketch.s.outputs:
            continue
        op = sketch.op(tensor)
        if op.reducer is None or len(op.outputs) > 1 or sketch.consumers(tensor) != [head]:
            continue
        positions = _positions(read, axes, op.axis)
        if positions is None or not lane_axes(sketch, tensor, positions[-1]):
            continue
        if sketch.knobs.choice(f"{sketch.name(tensor)}.fuse", [True, False]):
            return tensor, positions
    return None


def _positions(read: Access, axes: tuple[Axis, ...], own: tuple[Axis, ...]) -> list[int] | None:
    """For each axis of the reader the dimension that it alone indexes; all must be."""
    found = [-1] * len(axes)
    for dimension, index in enumerate(read.indices):
        lin = to_lin(index)
        at = next((n for n, axis in enumerate(axes) if lin == Lin.of(axis)), None)
        if at is None:
            if own[dimension].extent == 1:
                continue
            return None
        if found[at] >= 0 or axes[at].extent != own[dimension].extent:
            return None
        found[at] = dimension
    return found if found[-1] >= 0 else None


def _spot(sketch: Sketch, tensor: Tensor) -> Spot | None:
    """A loop of the one nest that reads ``tensor``, as a knob says; ``None`` is the root."""
    readers = sketch.consumers(tensor)
    homes = [sketch.home[r] for r in readers if r in sketch.home]
    nests = {id(home.nest) for home in homes}
    if tensor in sketch.s.outputs or len(homes) < len(readers) or len(nests) != 1:
        return None
    reads = [
        (read, home)
        for reader, home in zip(readers, homes) for read in sketch.reads(reader)
        if read.tensor is tensor and (home.along or not home.nest.levels)
    ]  # fmt: skip
    return place(sketch, tensor, reads, homes[0].nest)
