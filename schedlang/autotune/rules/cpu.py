"""The space of CPU schedules of a computation, as a template: rules over its stages."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.anchor import anchor
from schedlang.autotune.rules.inline import inline
from schedlang.autotune.rules.pack import place
from schedlang.autotune.rules.points import points
from schedlang.autotune.rules.registers import lane_axes
from schedlang.autotune.rules.rows import along_memory, rows
from schedlang.autotune.rules.sketch import Sketch, Spot
from schedlang.autotune.rules.tiled import tiled
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def schedule_cpu(
    s: Schedule, knobs: Knobs, target: Target, threads: int, sizes: Mapping[Var, int] | None = None
) -> None:
    """Steps on ``s`` for a CPU of ``threads`` cores, each choice asked of ``knobs``."""
    sketch = Sketch(s, knobs, target, threads, sizes or {})
    inline(sketch)
    for tensor in reversed(sketch.stages()):
        known = tensor in sketch.inlined or tensor in sketch.done
        # the steps of a scan follow each other: they stay as they are
        if not known and not sketch.steps_of_scan(tensor):
            _stage(sketch, tensor)


def _stage(sketch: Sketch, tensor: Tensor) -> None:
    """The loops of one stage whose readers have theirs; what is computed with it comes along."""
    op = sketch.op(tensor)
    spot = _spot(sketch, tensor)
    inner = anchor(sketch, tensor, _tileable) if op.reducer is None else None
    if inner is not None:
        tiled(sketch, inner[0], tensor, inner[1], root=spot is None)
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


def _tileable(sketch: Sketch, tensor: Tensor, last: int) -> bool:
    return bool(lane_axes(sketch, tensor, last))


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
