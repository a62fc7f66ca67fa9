"""The threads and blocks that fill a GPU, and the reductions that fill it."""

from __future__ import annotations

import math

from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, at_most
from schedlang.autotune.tactics.tactic import Applicable

# threads of a block
# a search decides among them
THREADS = (64, 128, 256, 512)
# fewer results than this do not fill a GPU with one thread each
# nobody has measured this value
FEW = 1 << 14
# fewer results than this leave multiprocessors idle with one block each
# nobody has measured this value
FEW_BLOCKS = 128
# a descent starts from at most this many threads along an axis of a tile
THREADS_MOVE = Moves(rank=15, start=at_most(16))
BLOCK_THREADS = Knob(
    "C.threads", "32, 64, 128, 256, 512, or the number of elements",
    "the number of threads in a block", THREADS_MOVE,
)  # fmt: skip


def results(stage: StageFacts) -> int:
    """Return the number of results, in one time step of a scan."""
    return math.prod(stage.lengths)


def needs_parts(stage: StageFacts, others: Applicable) -> bool:
    """Return whether a block or a thread for each result would leave most of a GPU idle.

    A tile, which reads operands again, may still be worth it.
    """
    return results(stage) < FEW_BLOCKS and "parts" in others
