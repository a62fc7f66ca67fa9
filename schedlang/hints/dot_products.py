"""The step that computes a product by an instruction of the processor, and products without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.tactics.cpu.dot_products import Dot, dot_products
from schedlang.autotune.tactics.cpu.tile_sizes import lane_axes
from schedlang.autotune.tactics.facts import Dataflow, StageFacts
from schedlang.compute.tensor import ComputeOp
from schedlang.hints.steps import Steps, Take
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.state import TENSORIZE
from schedlang.target import Target


def dot_product_steps(s: Schedule, view: StageView, target: Target) -> Iterator[Steps]:
    """Yield the steps that pack an operand of a product and use an instruction for its loops."""
    if s.state.stages[view.name].kinds or not isinstance(view.op, ComputeOp):
        return
    stage = Dataflow(problem_of(list(s.outputs), target, {}), s.state).stage(view.outputs[0])
    plain = set(view.leaf_axes)
    for dot in _choices(stage):
        lane, along = stage.op.axis[stage.last], stage.op.reduce_axis[dot.along]
        if lane in plain and along in plain:
            yield Steps(TENSORIZE, view.name, _tensorized(view.name, stage, dot))


def beyond_steps(s: Schedule, target: Target) -> Iterator[str]:
    """Yield the stages that an instruction computes, and whose loops are too split for the step."""
    if target.facts.binds_threads:
        return
    for view in s.stages:
        if not isinstance(view.op, ComputeOp) or any(dot_product_steps(s, view, target)):
            continue
        stage = Dataflow(problem_of(list(s.outputs), target, {}), s.state).stage(view.outputs[0])
        if _choices(stage):
            yield view.name


def _choices(stage: StageFacts) -> list[Dot]:
    """Return the instructions that compute a product with its contiguous axis in the lanes."""
    if not stage.is_reduction or not stage.op.axis or len(stage.op.outputs) != 1:
        return []
    lanes = (lane for lane in lane_axes(stage, stage.last) if lane.at == stage.last)
    return [dot for lane in lanes for dot in dot_products(stage, lane)]


def _tensorized(name: str, stage: StageFacts, dot: Dot) -> Take:
    lane, along = stage.op.axis[stage.last], stage.op.reduce_axis[dot.along]
    count, group, terms = dot.lanes, dot.group, dot.steps
    reads = {read.tensor: read for read in stage.reads}
    moving, fixed = reads[dot.operand], reads[dot.fixed]
    across, stepped = moving.own_dimension(lane), moving.own_dimension(along)
    apart = fixed.own_dimension(along)
    assert across is not None and stepped is not None

    def panels(*dims: Any) -> tuple[object, ...]:
        parts = [
            d // count if n == across else d // group if n == stepped else d
            for n, d in enumerate(dims)
        ]
        return (*parts, dims[across] % count, dims[stepped] % group)

    def side_by_side(*dims: Any) -> tuple[object, ...]:
        assert apart is not None
        parts = [d // terms if n == apart else d for n, d in enumerate(dims)]
        return (*parts, dims[apart] % terms)

    def take(s: Schedule) -> None:
        packed = dot.operand
        if dot.shift:
            packed, _ = s.shift_operand(stage.tensor, packed, dot.shift)
        else:
            packed = s.cache_read(packed, "global", [stage.tensor])
        s[packed].transform_layout(panels)
        if not dot.adjacent:
            copy = s.cache_read(dot.fixed, "global", [stage.tensor])
            s[copy].transform_layout(side_by_side)
        outer, lanes = s[name].split(lane, factor=count, tail="cut")
        over, step = s[name].split(along, factor=terms, tail="cut")
        inner = [lanes, step]
        if dot.rows >= 0:
            tiles, row = s[name].split(stage.op.axis[dot.rows], factor=dot.height, tail="cut")
            inner = [row, lanes, *s[name].split(step, factor=group)]
        others = [a for a in s[name].leaf_axes if a not in (*inner, over, outer)]
        data = [a for a in others if not a.is_reduce]
        sums = [a for a in others if a.is_reduce]
        s[name].reorder(*data, outer, *sums, over, *inner)
        s[name].tensorize(inner[0], dot.declared)

    return take
