"""The template of CPU schedules, which applies the rules to each stage of a computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.anchor import anchor
from schedlang.autotune.rules.inline import inline
from schedlang.autotune.rules.parts import few_results, part_counts, parts, too_few
from schedlang.autotune.rules.points import points, scattered
from schedlang.autotune.rules.registers import lane_axes
from schedlang.autotune.rules.rows import along_memory, along_run, rows
from schedlang.autotune.rules.scan_steps import scan_stages
from schedlang.autotune.rules.sketch import Sketch, Spot
from schedlang.autotune.rules.spot import spot_of
from schedlang.autotune.rules.steps import step_lane, stepped
from schedlang.autotune.rules.tiled import tiled
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def schedule_cpu(
    s: Schedule, knobs: Knobs, target: Target, threads: int, sizes: Mapping[Var, int] | None = None
) -> None:
    """Schedule ``s`` for a CPU with ``threads`` cores, with each choice a knob."""
    sketch = Sketch(s, knobs, target, threads, sizes or {})
    inline(sketch)
    sketch.scan_stages |= scan_stages(sketch)
    for tensor in reversed(sketch.stages()):
        if tensor in sketch.inlined or tensor in sketch.done:
            continue
        if sketch.is_scan_step(tensor):
            _time_step(sketch, tensor)
        else:
            _stage(sketch, tensor)


def _time_step(sketch: Sketch, tensor: Tensor) -> None:
    """Schedule the start or the update of a scan, whose time steps run in order."""
    ways = _tile(sketch, tensor, root=True)
    ways["points"] = partial(points, sketch, tensor, root=True)
    ways[sketch.knobs.choice(f"{sketch.name(tensor)}.how", list(ways))]()


def _stage(sketch: Sketch, tensor: Tensor) -> None:
    """Schedule a stage whose readers are scheduled, with the stages that are computed with it."""
    op = sketch.op(tensor)
    spot = spot_of(sketch, tensor)
    fits = partial(_tileable, tensor)
    inner = anchor(sketch, tensor, fits) if op.reducer is None else None
    if inner is not None:
        tiled(sketch, inner[0], tensor, inner[1], root=spot is None)
        sketch.attach(tensor, spot)
        return
    ways = _ways(sketch, tensor, spot)
    way = sketch.knobs.choice(f"{sketch.name(tensor)}.how", list(ways))
    ways[way]()
    if way != "rows":
        sketch.attach(tensor, spot)


def _tileable(head: Tensor, sketch: Sketch, tensor: Tensor, last: int) -> bool:
    """Return whether a reduction has a tile inside the loops of ``head``."""
    # both or neither must be computed in each time step of a scan
    same = sketch.time_axes(head) == sketch.time_axes(tensor)
    return same and bool(lane_axes(sketch, tensor, last))


def _ways(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> dict[str, Callable[[], None]]:
    """Return the ways to compute a stage: for each, a function that applies its steps."""
    op, root = sketch.op(tensor), spot is None
    ways = _tile(sketch, tensor, root)
    lane = step_lane(sketch, tensor) if _is_reduction(op) else None
    if lane is not None:
        ways["steps"] = partial(stepped, sketch, tensor, lane, root=root)
    counts = op.reducer is not None and root and bool(part_counts(sketch, tensor))
    # short runs only if no other way has lanes
    if op.reducer is not None and (
        along_memory(sketch, tensor)
        or (not ways and not (counts and too_few(sketch, tensor)) and along_run(sketch, tensor))
    ):
        ways["rows"] = partial(rows, sketch, tensor, spot)
    if counts:
        shared = partial(parts, sketch, tensor)
        if "rows" in ways and too_few(sketch, tensor):
            # the name of this way in recorded decisions
            ways["rows"] = shared
        elif few_results(sketch, tensor):
            ways["parts"] = shared
    few_parts = list(ways) == ["parts"] and not too_few(sketch, tensor)
    # lanes over results are better if lanes over steps would read with a stride or a remainder
    either = list(ways) == ["rows"] and bool(op.axis) and not _contiguous_steps(sketch, tensor)
    if not ways or few_parts or (either and not scattered(sketch, tensor)):
        ways["points"] = partial(points, sketch, tensor, root=root)
    return ways


def _tile(sketch: Sketch, tensor: Tensor, root: bool) -> dict[str, Callable[[], None]]:
    """Return the way of a tile of sums in registers, if the stage has one."""
    op = sketch.op(tensor)
    if not (_is_reduction(op) and op.axis and lane_axes(sketch, tensor, sketch.last(tensor))):
        return {}
    return {"tile": partial(tiled, sketch, tensor, tensor, range(len(op.axis)), root=root)}


def _contiguous_steps(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether steps of the last reduction axis read adjacent elements or the same one."""
    axis = sketch.op(tensor).reduce_axis[-1]
    return all(r.fixed(axis) or r.contiguous(axis) for r in sketch.reads(tensor))


def _is_reduction(op: ComputeOp) -> bool:
    return op.reducer is not None and len(op.outputs) == 1
