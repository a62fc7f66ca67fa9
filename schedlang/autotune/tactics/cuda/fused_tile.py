"""A reduction in the loops of its elementwise reader, a tile of each block at a time."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cuda.block_tile import blocked, has_tile
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Fusion
from schedlang.schedule.schedule import Schedule


def fits(reader: StageFacts, reduction: StageFacts, last: int) -> bool:
    """Return whether a reduction has a tile, and its reader is at root, where blocks are."""
    return reader.attached is None and has_tile(reduction)


def apply(
    s: Schedule, reader: StageFacts, reduction: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute a tile of the sums in each block, and then the same tile of the reader."""
    return blocked(s, reduction, reader, positions, knobs)


FUSION = Fusion(fits, apply)
