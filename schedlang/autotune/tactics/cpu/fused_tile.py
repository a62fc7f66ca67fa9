"""A reduction in the loops of its elementwise reader, a register tile at a time."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.blocked_product import is_large_product
from schedlang.autotune.tactics.cpu.gram_product import is_large_gram_product
from schedlang.autotune.tactics.cpu.ragged_rows import has_read_ends
from schedlang.autotune.tactics.cpu.register_tile import compute_tiles
from schedlang.autotune.tactics.cpu.tile_sizes import lane_axes
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Fusion
from schedlang.schedule.schedule import Schedule


def fits(reader: StageFacts, reduction: StageFacts, last: int) -> bool:
    """Return whether a reduction has a tile inside its reader, with ``last`` contiguous."""
    # both or neither must be computed in each time step of a scan
    same = reader.time_axes == reduction.time_axes
    # the ranges of several results would become one box, and the sums of a large product wait in
    # memory between blocks of its steps
    apart = has_read_ends(reduction) or any(
        large(reduction) for large in (is_large_product, is_large_gram_product)
    )
    return same and not apart and not reader.is_scan_step and bool(lane_axes(reduction, last))


def apply(
    s: Schedule, reader: StageFacts, reduction: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute a tile of the sums, and then the same tile of the reader."""
    return compute_tiles(s, reduction, reader, positions, knobs)


FUSION = Fusion(fits, apply)
