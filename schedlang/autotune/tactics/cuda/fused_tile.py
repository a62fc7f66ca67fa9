"""A reduction in the loops of its elementwise reader, a tile of each block at a time."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cuda.block_tile import compute_in_blocks, has_tile, of_shares
from schedlang.autotune.tactics.cuda.tile_shares import add_shares, shares, split_sums
from schedlang.autotune.tactics.cuda.warp_tile import compute_by_warps, units
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Fusion
from schedlang.schedule.schedule import Schedule


def fits(reader: StageFacts, reduction: StageFacts, last: int) -> bool:
    """Return whether a reduction has a tile, and its reader is at root, where blocks are."""
    return reader.attached is None and (units(reduction) is not None or has_tile(reduction))


def apply(
    s: Schedule, reader: StageFacts, reduction: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute a tile of the sums in each block, and then the same tile of the reader.

    If blocks share the sums, the reader's kernel adds them.
    """
    if units(reduction) is not None:
        return compute_by_warps(s, reduction, reader, positions, knobs)
    count = shares(reduction, knobs)
    if count == 1:
        return compute_in_blocks(s, reduction, reader, positions, knobs)
    scheduled = of_shares(s, reduction.after(s, split_sums(s, reduction, count)), knobs)
    s[reduction.tensor].set_scope("local")
    return scheduled.join(add_shares(s, reader.after(s), reduction.tensor))


FUSION = Fusion(fits, apply)
