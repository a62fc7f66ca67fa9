"""A product of large matrices: blocks of both operands are copied, and fill the caches in turn.

The rows of the result read one operand, and its lanes the other. A block of reduction steps of some
lanes stays in the second cache while all rows meet it, and a panel of rows in the first cache while
all lanes of the block meet it. The sums wait in memory between blocks of steps. These are the loops
of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), with the
operands exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.known_instructions import factors
from schedlang.autotune.tactics.loops import in_order
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import Tensor
from schedlang.diagnostics.tiles import registers
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# the bytes of a row along the shortest axis of a product in blocks
# measured on cores with AVX2: float64 of 1500 1.19 times as fast as register tiles on one core,
# float32 of 2048 with a bias and a maximum 0.87 on two
SHORTEST = 10240
# the vectors of a tile: with two, each loaded operand serves the most multiply-adds
# measured with float64 on one core with AVX2: 0.86 of NumPy at 1500, where three had 0.82
VECTORS = 2
# the fewest rows of a tile, if the vectors of a last tile of fewer lanes need many registers
# nobody has measured this value
LEAST_ROWS = 4
# the most of the first cache that a panel of lanes fills, and of the second cache that a block does
# measured with float64 on one core with AVX2: 250 steps of 192 lanes were faster than 375 of 128
# and 188 of 248
MOST_PANEL, MOST_BLOCK = 0.5, 0.75
# the fewest tiles of a block, where many threads share few lanes
# nobody has measured this value
LEAST_TILES = 8
# the cost of reading a panel of rows again for a block, in tiles
# measured with float64 on one core with AVX2: 24 tiles were 1.04 times as fast as 16
AGAIN = 2
# steps that are transposed in registers at once
# nobody has measured this value
SQUARE = 16


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage at root is a product of two large matrices of floats."""
    return is_large_product(stage)


def is_large_product(stage: StageFacts) -> bool:
    """Return whether a stage at root is a product of two matrices of floats without short axes."""
    if not has_long_axes(stage, SHORTEST) or not _operands(stage):
        return False
    return _rows(stage) >= LEAST_ROWS and _has_block_for_each_thread(stage)


def has_long_axes(stage: StageFacts, shortest: int) -> bool:
    """Return whether a stage at root sums floats of two data axes over one reduction axis.

    Each axis has at least ``shortest`` bytes.
    """
    if not stage.is_reduction or stage.attached is not None or stage.is_scan_step:
        return False
    axes = (*stage.op.axis, *stage.op.reduce_axis)
    fixed = all(isinstance(axis.extent, int) for axis in axes)
    if len(axes) != 3 or len(stage.op.reduce_axis) != 1 or not fixed:
        return False
    if stage.tensor.dtype not in ("float32", "float64"):
        return False
    return min(stage.extents(axes)) * itemsize(stage.tensor.dtype) >= shortest


def _has_block_for_each_thread(stage: StageFacts) -> bool:
    """Return whether there are as many blocks as threads, which share nothing else."""
    lanes = VECTORS * stage.width
    tiles = block_tile_counts(stage, lanes, _step_counts(stage, lanes)[0])[0]
    return stage.lengths[-1] // (tiles * lanes) >= stage.problem.threads


def _rows(stage: StageFacts) -> int:
    """Return the most rows of a tile of ``VECTORS`` that fits the registers, like the last one."""
    most, width = stage.problem.target.vector_registers, stage.width
    rest = registers(stage.lengths[-1] % (VECTORS * width), width)
    return min((most - 1) // vectors - 1 for vectors in (VECTORS, rest) if vectors)


def _operands(stage: StageFacts) -> list[Access]:
    """Return the reads that move along rows and along lanes; none if the stage is another sum."""
    (row, lane), (step,) = stage.op.axis, stage.op.reduce_axis
    reads = sorted(factors(stage), key=lambda read: read.own_dimension(row) is None)
    pairs = ((row, step), (lane, step))
    whole = len(reads) == 2 and all(
        read.axes() == {*axes} and all(read.own_dimension(axis) is not None for axis in axes)
        for read, axes in zip(reads, pairs)
    )
    same = all(read.tensor.dtype == stage.tensor.dtype for read in reads)
    return reads if whole and same else []


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Copy the operand of the rows, and a block of the other one at a time; threads share lanes."""
    tensor = stage.tensor
    (row, lane), (step,) = stage.op.axis, stage.op.reduce_axis
    row_read, lane_read = _operands(stage)
    lanes = VECTORS * stage.width
    rows = _rows(stage)
    steps = knobs.choice(f"{stage.name}.block_steps", _step_counts(stage, lanes))
    tiles = knobs.choice(f"{stage.name}.block_tiles", block_tile_counts(stage, lanes, steps))
    packed_rows, packed_lanes = (
        s.cache_read(read.tensor, "global", [tensor]) for read in (row_read, lane_read)
    )
    over, within = s[tensor].split(step, factor=steps, tail=tail_of(stage, step, steps))
    outer, tile_row = s[tensor].split(row, factor=rows, tail=tail_of(stage, row, rows))
    length = tiles * lanes
    block, rest = s[tensor].split(lane, factor=length, tail=tail_of(stage, lane, length))
    # a last block of fewer lanes may end in part of a tile
    inner, vectors = s[tensor].split(rest, factor=lanes, tail=tail_of(stage, lane, lanes))
    in_order(s, tensor, [block, over, outer, inner, within, tile_row, vectors])
    s[tensor].unroll(tile_row)
    s[tensor].vectorize(vectors)
    s[tensor].parallel(block)
    s[tensor].prefetch(tensor, inner, 1)
    _pack(s, row_read, packed_rows, row, rows, in_block=False)
    s[packed_rows].parallel(s[packed_rows].leaf_axes[0])
    _pack(s, lane_read, packed_lanes, lane, lanes, in_block=True)
    s[packed_lanes].compute_at(s[tensor], over)
    return Scheduled(frozenset({tensor, packed_rows, packed_lanes}))


def tail_of(stage: StageFacts, axis: Axis, factor: int) -> str:
    """Return the tail of a split of an axis: cut off unless there is none."""
    return "cut" if stage.extents([axis])[0] % factor else "auto"


def _step_counts(stage: StageFacts, lanes: int) -> list[int]:
    """Return numbers of steps of a block whose panel fits the first cache, the largest first."""
    caches, size = stage.problem.target.caches, itemsize(stage.tensor.dtype)
    most = max(1, int(caches[0].size * MOST_PANEL) // (lanes * size))
    length = stage.extents(stage.op.reduce_axis)[0]
    whole = [n for n in reversed(list(divisors(length))) if most // 2 <= n <= most]
    return whole[:2] or [most]


def block_tile_counts(stage: StageFacts, lanes: int, steps: int) -> list[int]:
    """Return numbers of tiles of a block that fits the second cache, the best one first.

    Blocks should be large, divide among the threads, and leave few lanes over.
    """
    caches, size = stage.problem.target.caches, itemsize(stage.tensor.dtype)
    most = max(2, int(caches[:2][-1].size * MOST_BLOCK) // (lanes * steps * size))
    length, threads = stage.lengths[-1], stage.problem.threads
    each = length // (lanes * threads)
    counts = range(min(most, max(LEAST_TILES, min(most // 2, each))), most + 1)

    def cost(tiles: int) -> float:
        blocks, rest = divmod(length, tiles * lanes)
        # one thread computes the rest
        slowest = -(-blocks // threads) * tiles * lanes + rest
        return slowest * (1 + AGAIN / tiles)

    return sorted(counts, key=cost)[:2]


def _pack(s: Schedule, read: Access, packed: Tensor, axis: Axis, size: int, in_block: bool) -> None:
    """Lay out a copy as panels of ``size`` elements along ``axis``, one for each step."""
    at = read.own_dimension(axis)
    assert at is not None, "a dimension of the operand"
    contiguous = at == len(read.indices) - 1
    s[packed].transform_layout(lambda *dims: (dims[at] // size, dims[1 - at], dims[at] % size))
    axes = s[packed].op.axis
    panel, lane = s[packed].split(axes[at], factor=size)
    step = axes[1 - at]
    # the source of a block is read in order; a copy at root is shared by panels
    order: Sequence[Axis] = [step, panel, lane] if in_block else [panel, step, lane]
    if not contiguous:
        over, few = s[packed].split(step, factor=SQUARE, tail="cut")
        order = [panel, over, few, lane]
        s[packed].unroll(few)
    in_order(s, packed, order)
    s[packed].vectorize(lane)


KNOBS = (
    Knob(
        "C.block_steps",
        "numbers that fit the first cache",
        "the reduction steps of a block",
        Moves(rank=18),
    ),
    Knob(
        "C.block_tiles",
        "numbers that fit the second cache",
        "the tiles of a block along the lanes",
        Moves(rank=19),
    ),
)
TACTIC = Tactic(
    "blocks", "copy blocks of both operands of a large product, which stay in the caches",
    applies, apply, knobs=KNOBS, alone=True,
)  # fmt: skip
