"""Sums that several blocks share: each adds a part of the terms, and a second kernel adds these.

A tile of few results leaves multiprocessors idle: the 49 positions of a convolution's last layers
make fewer blocks than a large GPU runs at once.
"""

from __future__ import annotations

import math

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import first, in_blocks
from schedlang.autotune.tactics.scheduled import OuterLoops, Scheduled
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import Schedule

# numbers of blocks that share the sums of a tile, and the fewest terms along the split axis of each
# a search decides among the shares; nobody has measured the fewest terms
SHARES, LEAST = (1, 2, 4, 8, 16), 16
# with more results than this, whole sums are taken to make enough blocks
# nobody has measured this value
MANY = 1 << 18
# threads of a block that adds the sums of parts
# nobody has measured this value
ADDING = 128
KNOB = Knob(
    "C.shares",
    SHARES,
    "the number of blocks that share the sums of a tile, each along a part of the longest "
    "reduction axis; the sums of a part are the stage `C.rf`, and a second kernel adds them",
    Moves(rank=4, structure=True),
)


def shares(stage: StageFacts, knobs: Knobs) -> int:
    """Choose how many blocks share each sum; 1 without a knob if there are many results."""
    if stage.time_axes or stage.results > MANY:
        return 1
    longest = max(stage.extents(stage.op.reduce_axis))
    options = [n for n in SHARES if n == 1 or n * LEAST <= longest]
    return 1 if len(options) == 1 else int(knobs.choice(f"{stage.name}.shares", options))


def split_sums(s: Schedule, stage: StageFacts, count: int) -> Tensor:
    """Return the stage of the sums of each part, as many as ``count``."""
    axes = stage.op.reduce_axis
    sizes = stage.extents(axes)
    part, _ = s[stage.tensor].split(axes[sizes.index(max(sizes))], nparts=count)
    return first(s.rfactor(stage.tensor, part))


def add_shares(s: Schedule, head: StageFacts, sums: Tensor) -> Scheduled:
    """Compute an element of ``head`` per thread, and in it the sum that ``sums`` adds up."""
    tensor = head.tensor
    size = math.prod(head.extents(head.data_axes))
    thread = in_blocks(s, tensor, head.data_axes, min(ADDING, size))
    s[sums].compute_at(s[tensor], thread)
    for axis in s[sums].op.reduce_axis:
        s[sums].unroll(axis)
    return head.placed(OuterLoops(tensor, ())).join(Scheduled(frozenset({sums})))
