"""The stages of a scan, which compute one step of its time axis at a time."""

from __future__ import annotations

from schedlang.autotune.tactics.facts import Dataflow, StageFacts
from schedlang.compute.tensor import ScanOp, Tensor


def scan_stages(flow: Dataflow) -> frozenset[Tensor]:
    """Return the stages whose first axis is the time axis of a scan.

    These are its start, its update, and the stages that are computed in each time step. They may be
    read in the same step or in a later one.
    """
    stages: set[Tensor] = set()
    if any(stage.is_scan for stage in flow.state.stages.values()):
        each_step = _computed_each_step(flow)
        for tensor in reversed(flow.stages):
            stage = flow.stage(tensor)
            own = tensor in each_step and _read_by_time(stage, stages)
            if own or stage.is_scan_step:
                stages.add(tensor)
    return frozenset(stages)


def _read_by_time(stage: StageFacts, later: set[Tensor]) -> bool:
    """Return whether a stage of ``later`` reads this one at an index that depends on its time."""
    readers = [stage.flow.stage(reader) for reader in stage.consumers if reader in later]
    return any(
        read.depends(0, [reader.op.axis[0]])
        for reader in readers
        for read in reader.reads
        if read.tensor in stage.stage.outputs and read.indices
    )


def _computed_each_step(flow: Dataflow) -> set[Tensor]:
    """Return the tensors computed in each time step: those that depend on a state of a scan."""
    stages = flow.state.stages.values()
    tensors = {t for stage in stages if isinstance(stage.op, ScanOp) for t in stage.op.state}
    for stage in stages:
        # not the results of other scans, which are complete before the first step
        if not stage.is_scan and any(t in tensors for t in stage.op.input_tensors):
            tensors.update(stage.outputs)
    return tensors
