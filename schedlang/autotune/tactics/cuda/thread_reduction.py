"""A reduction whose threads compute whole results."""

from __future__ import annotations

from schedlang.autotune.tactics.cuda.occupancy import needs_parts
from schedlang.autotune.tactics.cuda.per_thread import KNOBS, per_thread
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.gpu_lowering.counters import WARP


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether each thread may compute a result: inside a block, only a short one."""
    if not stage.is_reduction or needs_parts(stage, others):
        return False
    return stage.attached is None or stage.reduction_steps < WARP


TACTIC = Tactic("threads", "each thread computes whole results", applies, per_thread, KNOBS)
