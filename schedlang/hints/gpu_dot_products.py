"""The steps that compute a product on a GPU by an instruction of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.tactics.cuda.dot_products import Dot, dimension_of, dot_products
from schedlang.autotune.tactics.facts import Dataflow
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.hints.steps import Steps, Take
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.state import TENSORIZE
from schedlang.target import Target

# threads of a block that copies an operand
# nobody has measured this value
THREADS = 256


def gpu_dot_product_steps(s: Schedule, view: StageView, target: Target) -> Iterator[Steps]:
    """Yield the steps that make adjacent steps of a sum one instruction, such as ``dp4a``.

    Operands whose steps are apart get another layout: a copy that the schedule has already, or a
    new one in global memory.
    """
    op, kinds = view.op, s.state.stages[view.name].kinds
    if not isinstance(op, ComputeOp) or len(op.outputs) != 1 or not op.reduce_axis:
        return
    stage = Dataflow(problem_of(list(s.outputs), target, {}), s.state).stage(view.outputs[0])
    steps = [a for a in view.leaf_axes if a.is_reduce and a not in kinds]
    for dot in dot_products(stage, op.input_tensors):
        along = op.reduce_axis[dot.along]
        places = {r.tensor: dimension_of(r, along, dot.steps) for r in stage.reads}
        apart = [(tensor, places[tensor]) for tensor in dot.apart]
        # an instruction takes adjacent steps, which the innermost loop of the axis has
        for leaf in reversed(steps) if not dot.padded else ():
            yield Steps(TENSORIZE, view.name, _tensorized(view.name, leaf, dot, apart))


def _tensorized(
    name: str, leaf: Axis, dot: Dot, apart: Sequence[tuple[Tensor, int | None]]
) -> Take:
    def take(s: Schedule) -> None:
        for tensor, dimension in apart:
            assert dimension is not None
            _side_by_side(s, name, tensor, dimension, dot.steps)
        stage = s[name]
        others = [a for a in stage.leaf_axes if a is not leaf]
        at = stage.leaf_axes.index(leaf)
        inside = [leaf]
        if leaf.extent != dot.steps:
            over, step = stage.split(leaf, factor=dot.steps)
            others.insert(at, over)
            inside = [step]
        stage.reorder(*others, *inside)
        stage.tensorize(inside[0], dot.declared)

    return take


def _side_by_side(s: Schedule, name: str, tensor: Tensor, dimension: int, steps: int) -> None:
    """Store the steps of an instruction side by side in a copy of an operand."""
    is_copy = tensor.op in [view.op for view in s.stages] and isinstance(tensor.op, ComputeOp)
    copy = tensor if is_copy else s.cache_read(tensor, "global", [s[name].outputs[0]])

    def layout(*dims: Axis) -> tuple[object, ...]:
        parts = [d // steps if n == dimension else d for n, d in enumerate(dims)]
        return (*parts, dims[dimension] % steps)

    s[copy].transform_layout(layout)
    if not is_copy:
        block, thread = s[copy].split(s[copy].fuse(*s[copy].op.axis), factor=THREADS)
        s[copy].bind(block, "blockIdx.x")
        s[copy].bind(thread, "threadIdx.x")
