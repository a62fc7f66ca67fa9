"""Candidates that change how data are stored or fetched, and no loop."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.analysis.past_caches import bypasses_caches
from schedlang.expr.dtypes import itemsize
from schedlang.hints.steps import Steps, step
from schedlang.host import LINE
from schedlang.runtime.environment import threads_of
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.stage import StageView
from schedlang.state.state import NONTEMPORAL, Inline
from schedlang.target import Target

# iterations ahead that a tensor is fetched; bytes of a row from which on rows share cache sets
AHEAD, CONFLICTS = 1, 4096


def storage(s: Schedule, view: StageView, target: Target) -> Iterator[Steps]:
    """Yield the candidates for a stage of ``s``: padded rows, fetches ahead, streaming stores."""
    name, stage = view.name, s.state.stages[view.name]
    tensor = view.outputs[0]
    if not s.state.is_output(stage) and not isinstance(stage.attach, Inline):
        row, axes = tensor.shape[-1] if tensor.shape else 0, view.op.axis
        size = itemsize(tensor.dtype)
        if len(axes) > 1 and isinstance(row, int) and row and row * size % CONFLICTS == 0:
            line = LINE // size
            # then rows begin one cache line apart, modulo the sets of a cache
            yield step("storage_align", name, axes[-2], 2 * line, line)
    # a loop with loops inside gives a fetch the time to arrive
    outside = [a for a in view.leaf_axes[:-1] if stage.kinds.get(a) is None]
    for tensor in view.op.input_tensors:
        if outside and not any(
            step.primitive == "prefetch" and step.stage == name for step in s.steps
        ):
            yield step("prefetch", name, tensor, outside[-1], AHEAD)
    lanes = "vectorize" in stage.kinds.values() and not stage.op.reduce_axis
    streamed = any(name == NONTEMPORAL for _, name, _ in stage.pragmas)
    if (
        lanes
        and not streamed
        and s.state.is_output(stage)
        and bypasses_caches(view.outputs, view.op.input_tensors, target, threads_of(target))
    ):
        yield step("pragma", name, view.leaf_axes[0], NONTEMPORAL)
