"""Blocks of reduction steps that the tiles of a group take in turn.

All tiles of a group read the same panel of an operand, such as the weights of some output channels.
If each tile takes all steps before the next one starts, the first tile waits for the panel, and
memory is idle while the others read it from a cache. If each takes one block of steps in turn, the
block stays in the first cache, and the next one can be prefetched at an even rate. The sums of the
group wait in memory. This is the order of loops in Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication" (2008), section 4, for a group of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.tile_sizes import Lane, Tile
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.scheduled import OuterLoops
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# the fewest bytes of a panel in a block: for less, a tile loads and stores its sums too often
# nobody has measured this value
LEAST_PANEL = 1 << 10
# the most of the first cache that the panel of a tile may fill, to stay there beside other data,
# and the most that the sums of a group may fill
# nobody has measured these values
MOST_PANEL, MOST_SUMS = 0.5, 0.5
# the most of the second cache that the tensors of panels may fill, to stay there
# measured: conv1 of ResNet-50 at batch 8 took 0.4 of its time without such a prefetch
MOST_KEPT = 0.5
# blocks ahead of its use that the panel is prefetched; steps ahead if there is one reduction loop
# a search decides among them
AHEAD, STEPS_AHEAD = (0, 1, 2), (0, 8, 16)
KNOBS = (
    Knob(
        "C.local.step_block",
        "divisors of the reduction loop's extent, and 0",
        "the iterations of the outermost reduction loop in a block of steps, which tiles that read "
        "the same panel take in turn; 0 lets each tile take all steps at once",
        Moves(rank=19),
    ),
    Knob(
        "C.local.prefetch",
        (*AHEAD, *STEPS_AHEAD[1:]),
        "the number of blocks of steps (or of iterations of the outermost reduction loop) ahead of "
        "its use that the panel is prefetched, spread over the steps: 1 or 2, or 8 or 16 steps of "
        "the only reduction loop; 0 means no prefetch",
        Moves(rank=32),
    ),
)


@dataclass(frozen=True)
class StepBlocks:
    """Blocks of ``size`` iterations of a tile's first reduction loop, for a group of tiles.

    ``levels`` are the innermost loops of the nest that a group consists of, and ``along`` the data
    axes of the sums, by position, that they iterate over, outermost first.
    """

    size: int
    levels: int
    along: tuple[int, ...]


def choose(
    sums: StageFacts, nest: OuterLoops, positions: Sequence[int], lane: Lane, tile: Tile,
    reduce: Sequence[Axis], knobs: Knobs,
) -> StepBlocks | None:  # fmt: skip
    """Choose a block of steps with a knob; return ``None`` for tiles that take all steps at once.

    ``sums`` are the sums of the tiles in ``nest``; ``positions`` gives for each data axis of its
    head the corresponding axis of the sums, or -1. ``reduce`` are the reduction axes in order.
    """
    sizes = _sizes(sums, lane, tile, reduce)
    group = _group(sums, nest, positions, lane, tile) if sizes else None
    if group is None:
        return None
    size = knobs.choice(f"{sums.name}.step_block", [0, *sizes])
    return StepBlocks(size, *group) if size else None


def _sizes(sums: StageFacts, lane: Lane, tile: Tile, reduce: Sequence[Axis]) -> list[int]:
    """Return block sizes whose panel fits the first cache, if the panel of all steps does not."""
    if not is_streamed(sums, lane, tile):
        return []
    first, *others = sums.extents([axis for axis in reduce if is_long(axis)])
    bytes_ = _panel_bytes(sums, lane, tile) * prod(others)
    largest = sums.problem.target.caches[0].size
    return [n for n in divisors(first) if n < first and LEAST_PANEL <= n * bytes_ <= largest]


def is_streamed(sums: StageFacts, lane: Lane, tile: Tile) -> bool:
    """Return whether tiles read panels that are not packed, and too large for the first cache."""
    op = sums.op
    fixed = all(isinstance(axis.extent, int) for axis in (*op.axis, *op.reduce_axis))
    if not fixed or op.where is not None or lane.transposed or lane.packed or lane.packable:
        return False
    axes = (*op.axis, *op.reduce_axis)
    if any(None in read.steps(axis) for read in _panels(sums, lane) for axis in axes):
        # the indices depend on data
        return False
    bytes_ = _panel_bytes(sums, lane, tile) * prod(sums.extents(op.reduce_axis))
    return bytes_ > MOST_PANEL * sums.problem.target.caches[0].size


def _panels(sums: StageFacts, lane: Lane) -> list[Access]:
    """Return the reads that move along the lanes."""
    axis = sums.op.axis[lane.at]
    return [read for read in sums.reads if not read.fixed(axis, sums.width)]


def _panel_bytes(sums: StageFacts, lane: Lane, tile: Tile) -> int:
    """Return the bytes of panels that a tile reads in a step."""
    axes = sums.op.axis
    return sum(
        tile.vectors
        * sums.width
        * itemsize(read.tensor.dtype)
        * prod(n for at, n in tile.rows if not read.fixed(axes[at]))
        for read in _panels(sums, lane)
    )


def _group(
    sums: StageFacts, nest: OuterLoops, positions: Sequence[int], lane: Lane, tile: Tile
) -> tuple[int, tuple[int, ...]] | None:
    """Return the innermost levels whose tiles read the same panels, and the axes along them.

    Their sums must leave room in the first cache.
    """
    panels, axes = _panels(sums, lane), sums.op.axis
    bytes_ = tile.vectors * sums.width * itemsize(sums.tensor.dtype)
    bytes_ *= prod(n for _, n in tile.rows)
    most = MOST_SUMS * sums.problem.target.caches[0].size / bytes_
    count, tiles = 0, 1
    along: list[int] = []
    for level in reversed(nest.levels[1:]):
        at = [positions[p] for p in level.along]
        same = all(p >= 0 and all(read.fixed(axes[p]) for read in panels) for p in at)
        if not same or tiles * level.extent > most:
            break
        count, tiles = count + 1, tiles * level.extent
        along = [*(p for p in at if p not in along), *along]
    return (count, tuple(along)) if tiles > 1 else None


def split_tiles(
    s: Schedule, sums: StageFacts, blocks: StepBlocks, tile: Tile
) -> tuple[list[Axis], dict[int, Axis]]:
    """Split the axes of a group's sums; return the loops over tiles, and the rows by position."""
    rows, loops, inner = dict(tile.rows), [], {}
    for at in blocks.along:
        axis, count = sums.op.axis[at], rows.get(at, 1)
        extent = sums.extents([axis])[0]
        if count == 1:
            loops.append(axis)
        elif count < extent:
            tail = "cut" if extent % count else "auto"
            over, inner[at] = s[sums.tensor].split(axis, factor=count, tail=tail)
            loops.append(over)
    return loops, inner


def split_steps(
    s: Schedule, sums: StageFacts, blocks: StepBlocks, reduce: Sequence[Axis]
) -> tuple[Axis, list[Axis]]:
    """Split the first of the axes ``reduce``; return the loop over blocks and the loops inside."""
    first, *others = reduce
    if blocks.size == 1:
        return first, others
    over, within = s[sums.tensor].split(first, factor=blocks.size)
    return over, [within, *others]


def prefetch_panels(
    s: Schedule, sums: StageFacts, lane: Lane, over: Axis, at: Axis, knobs: Knobs
) -> None:
    """Prefetch what later iterations of ``over`` read of panels, spread over the loops to ``at``.

    A knob chooses how far ahead. Its first value is the nearest distance if the second cache does
    not keep the tensors of the panels, otherwise 0. Panels that the kernel computes itself are not
    prefetched.
    """
    read = dict.fromkeys(r.tensor for r in _panels(sums, lane))
    given = [tensor for tensor in read if s.state.of(tensor) is None]
    none, near, far = STEPS_AHEAD if over is at else AHEAD
    kept = sums.problem.target.caches[:2][-1].size * MOST_KEPT
    stays = sum(map(sums.problem.bytes, given)) <= kept
    options = [none, near, far] if stays else [near, none, far]
    ahead = knobs.choice(f"{sums.name}.prefetch", options) if given else 0
    for tensor in given if ahead else ():
        s[sums.tensor].prefetch(tensor, over, ahead, at=None if over is at else at)
