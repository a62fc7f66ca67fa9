"""A stage without a reduction: each thread computes one element, or a few adjacent ones."""

from __future__ import annotations

from schedlang.autotune.tactics.cuda.per_thread import KNOBS, per_thread
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.tactic import Applicable, Tactic


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage has no reduction."""
    return not stage.is_reduction


TACTIC = Tactic(
    "elements",
    "each thread computes whole elements; without this knob, for stages without a reduction",
    applies, per_thread, KNOBS, implied=True,
)  # fmt: skip
