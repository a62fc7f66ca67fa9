"""A scatter whose threads update elements atomically, or one thread after the other."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cuda.occupancy import BLOCK_THREADS, THREADS
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.loops import fuse_loops
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule
from schedlang.state.atomics import operation
from schedlang.state.scattered import overwrites


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage is a scatter."""
    return stage.is_scatter


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Share initialization and updates among threads; what is not atomic is left to one thread."""
    tensor, op = stage.tensor, stage.op
    scheduled = Scheduled(frozenset({tensor}))
    scattered, domain = list(op.scattered), list(op.reduce_axis)
    atomic = op.reducer is not None and operation(op.reducer) is not None
    if overwrites(stage.stage) or not atomic or not scattered or not domain:
        s[tensor].bind(s[tensor].fuse(), "blockIdx.x")
        return scheduled
    threads = knobs.choice(f"{stage.name}.threads", list(THREADS))
    first = op.axis.index(scattered[0])
    before = list(op.axis[:first])
    inside = not before
    if before:
        # a block initializes and updates its own rows, so that its threads can wait for each other
        s[tensor].bind(fuse_loops(s, tensor, before), "blockIdx.x")
    for axes in (scattered, domain):
        _in_threads(s, stage, axes, threads, inside)
    return scheduled


def _in_threads(
    s: Schedule, stage: StageFacts, axes: list[Axis], threads: int, blocks: bool
) -> None:
    block, thread = s[stage.tensor].split(fuse_loops(s, stage.tensor, axes), factor=threads)
    s[stage.tensor].bind(thread, "threadIdx.x")
    if blocks:
        s[stage.tensor].bind(block, "blockIdx.x")


TACTIC = Tactic(
    "atomics", "threads update the elements of a scatter, atomically", applies, apply,
    (BLOCK_THREADS,), implied=True, alone=True,
)  # fmt: skip
