"""A long reduction with few results, in two kernels: partial results, and their combination."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cuda import cross_thread
from schedlang.autotune.tactics.cuda.block_tile import all_reused
from schedlang.autotune.tactics.cuda.occupancy import FEW, FEW_BLOCKS, results
from schedlang.autotune.tactics.cuda.per_thread import KNOBS, per_thread
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import first, fuse_loops
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.gpu_lowering.counters import WARP
from schedlang.schedule.schedule import Schedule

# numbers of partial results per result
# a search decides among them
COUNTS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
# the fewest and the most partial results in all, and the fewest steps of each: with a block per
# partial result, and with a thread per partial result
# nobody has measured this value
BLOCKS = (128, 1 << 12, 256)
# nobody has measured this value
COLUMNS = (1 << 13, 1 << 18, 16)


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether there are so few results that only partial results fill a GPU.

    A second kernel in each time step of a scan costs more than it gains. If a tile reads all
    operands again, it is better unless its blocks leave multiprocessors idle.
    """
    if not stage.is_reduction or stage.attached is not None:
        return False
    if results(stage) >= FEW or stage.time_axes or not partial_counts(stage):
        return False
    return results(stage) < FEW_BLOCKS or not ("tile" in others and all_reused(stage))


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Split a long reduction with few results by rfactor; a small second kernel combines the parts.

    Each block computes one partial result. If adjacent elements belong to different results, each
    thread does.
    """
    tensor = stage.tensor
    reduce = per_thread if _columns(stage) else cross_thread.apply
    count = knobs.choice(f"{stage.name}.count", partial_counts(stage))
    part, _ = s[tensor].split(fuse_loops(s, tensor, stage.op.reduce_axis), nparts=count)
    partial = first(s.rfactor(tensor, part))
    scheduled = reduce(s, stage.after(s, partial), knobs)
    combine = per_thread if count < WARP else cross_thread.apply
    return scheduled.join(combine(s, stage.after(s), knobs))


def partial_counts(stage: StageFacts) -> list[int]:
    """Return the numbers of partial results per result that fill a GPU, none if it is full."""
    least, most, each = COLUMNS if _columns(stage) else BLOCKS
    return [
        n
        for n in COUNTS
        if least <= n * stage.results <= most and n * each <= stage.reduction_steps
    ]


def _columns(stage: StageFacts) -> bool:
    """Return whether adjacent elements in memory belong to different results."""
    op = stage.op
    if not op.axis:
        return False
    last = op.axis[stage.last]
    if stage.extents([last])[0] < WARP:
        return False
    return any(
        read.contiguous(last) and not all(map(read.fixed, op.reduce_axis)) for read in stage.reads
    )


TACTIC = Tactic(
    "parts", "compute partial results; a small second kernel combines them", applies, apply,
    knobs=(
        Knob(
            "C.count", COUNTS,
            "the number of partial results per result; they are the stage `C.rf`",
            Moves(rank=14),
        ),
        *KNOBS,
    ),
)  # fmt: skip
