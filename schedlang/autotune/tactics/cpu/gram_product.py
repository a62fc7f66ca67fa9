"""A large matrix times its own transpose: one copy in panels serves as both operands.

Rows and lanes of the result read the same panels. A tile has a part of the rows of a panel, so that
all rows of one panel meet another panel while both stay in the first cache. Blocks of reduction
steps and of lanes stay in the second cache, as in ``blocked_product.py``. If the readers need only
one half of the result, the tiles of the other half are left out, like in BLAS's ``syrk``.
"""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.blocked_product import (
    AGAIN,
    KNOBS,
    LEAST_TILES,
    SQUARE,
    block_tile_counts,
    has_long_axes,
    tail_of,
)
from schedlang.autotune.tactics.cpu.halves import LOWER, needed_half
from schedlang.autotune.tactics.cpu.pack import is_contiguous, is_own_copy
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.loops import in_order
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.diagnostics.tiles import registers
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Binary
from schedlang.schedule.schedule import Schedule

# the bytes of a row along the shortest axis of a product in panels
# measured with float64 on one core with AVX2: np.cov of 500 by 600 was 1.9 times as fast as by
# register tiles
SHORTEST = 2048
# the vectors of a panel, the best number first, and the fewest rows of a tile
# measured with float64 on one core with AVX2: three vectors of products in blocks were as fast as
# two, with 4 instead of 6 rows; nobody has measured the fewest rows
VECTORS, LEAST_ROWS = (3, 2), 3
# the most of the first cache that two panels fill
# measured with float64 on one core with AVX2: 1400 by 1800 in 120 steps was as fast as in 180
MOST_PANELS = 0.75


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage at root is a large matrix times its own transpose."""
    return is_large_gram_product(stage)


def is_large_gram_product(stage: StageFacts) -> bool:
    """Return whether a stage at root is a large matrix times its own transpose.

    Each thread has a block of lanes.
    """
    if not has_long_axes(stage, SHORTEST) or not _operands(stage):
        return False
    lanes, rows = _panel(stage)
    return rows > 0 and stage.lengths[-1] >= LEAST_TILES * lanes * stage.problem.threads


def _panel(stage: StageFacts) -> tuple[int, int]:
    """Return the lanes of a panel, and the rows of a tile, which divide them; 0 rows for none.

    The registers also hold the sums of a last tile of fewer lanes.
    """
    most, width = stage.problem.target.vector_registers, stage.width
    for vectors in VECTORS:
        lanes = vectors * width
        rest = registers(stage.lengths[-1] % lanes, width)
        room = min((most - 1) // used - 1 for used in (vectors, rest) if used)
        rows = max((n for n in divisors(lanes) if n <= room), default=0)
        if rows >= LEAST_ROWS:
            return lanes, rows
    return VECTORS[0] * width, 0


def _operands(stage: StageFacts) -> list[Access]:
    """Return the reads that move along rows and along lanes, of one tensor; none of others."""
    op, body = stage.op, stage.op.body[0]
    plain = op.where is None and op.init is None
    if not plain or op.reducer is None or op.reducer.name != "sum" or len(stage.reads) != 2:
        return []
    if not isinstance(body, Binary) or body.op != "*":
        return []
    if not all(isinstance(side, Read) for side in (body.a, body.b)):
        return []
    first, second = stage.reads
    (row, lane), (step,) = op.axis, op.reduce_axis
    if first.own_dimension(row) is None:
        first, second = second, first
    at, across = first.own_dimension(row), first.own_dimension(step)
    same = first.tensor is second.tensor and first.tensor.dtype == stage.tensor.dtype
    direct = all(first.tensor in reader.op.input_tensors for reader in _readers(stage))
    whole = first.axes() == {row, step} and second.axes() == {lane, step}
    places = (second.own_dimension(lane), second.own_dimension(step)) == (at, across)
    matrix = len(first.indices) == 2 and None not in (at, across)
    return [first, second] if same and direct and whole and places and matrix else []


def _readers(stage: StageFacts) -> list[StageFacts]:
    """Return the stages that read the operand: this one, or views of it that are inlined here."""
    inlined = stage.flow.decided.inlined
    sides = dict.fromkeys(stage.op.input_tensors)
    views = [stage.flow.stage(t) for t in sides if t in inlined]
    return [*([stage] if len(views) < len(sides) else []), *views]


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Copy the operand in panels; threads share blocks of lanes."""
    tensor, threads = stage.tensor, stage.problem.threads
    (row, lane), (step,) = stage.op.axis, stage.op.reduce_axis
    read, (lanes, rows) = _operands(stage)[0], _panel(stage)
    half = needed_half(stage)
    steps = knobs.choice(f"{stage.name}.block_steps", _step_counts(stage, lanes))
    counts = _tile_counts(stage, half, lanes, steps)
    tiles = knobs.choice(f"{stage.name}.block_tiles", counts)
    packed = read.tensor
    if not is_own_copy(stage, packed):
        packed = s.cache_read(packed, "global", [x.tensor for x in _readers(stage)])
    over, within = s[tensor].split(step, factor=steps, tail=tail_of(stage, step, steps))
    panel, part = s[tensor].split(row, factor=lanes, tail=tail_of(stage, row, lanes))
    rest = stage.extents([row])[0] % lanes % rows
    tile, tile_row = s[tensor].split(part, factor=rows, tail="cut" if rest else "auto")
    length, groups, axis = tiles * lanes, [], lane
    if half and threads > 1:
        # blocks have unequal work, neighbours nearly the same: threads share groups of neighbours
        group, axis = s[tensor].split(lane, factor=threads * length, tail="cut")
        groups = [group]
    block, some = s[tensor].split(axis, factor=length, tail=tail_of(stage, lane, length))
    inner, vectors = s[tensor].split(some, factor=lanes, tail=tail_of(stage, lane, lanes))
    in_order(s, tensor, [*groups, block, over, panel, inner, tile, within, tile_row, vectors])
    s[tensor].unroll(tile_row)
    s[tensor].vectorize(vectors)
    s[tensor].parallel(block)
    if half:
        # by coordinates: readers of a part of the result may leave out its first rows or lanes
        first, start = row - tile * rows - tile_row, lane - vectors
        needed = first + (lanes - 1) >= start if half == LOWER else first < start + lanes
        s[tensor].set_store_predicate(needed)
    _pack(s, stage, read, packed, row, lanes)
    return Scheduled(frozenset({tensor, packed}))


def _tile_counts(stage: StageFacts, half: str, lanes: int, steps: int) -> list[int]:
    """Return numbers of tiles of a block that fits the second cache, the best one first.

    Blocks of one half are as long as their columns.
    """
    counts, threads = block_tile_counts(stage, lanes, steps), stage.problem.threads
    if not half or threads == 1:
        return counts
    length = stage.lengths[-1]

    def cost(tiles: int) -> float:
        group = threads * tiles * lanes
        starts = range(0, length - group + 1, group)
        longest = (length - start if half == LOWER else start + group for start in starts)
        rest = length % group
        # one thread computes the rest
        alone = rest * (rest if half == LOWER else length)
        return (sum(longest) * tiles * lanes + alone) * (1 + AGAIN / tiles)

    most = min(max(counts), length // (threads * lanes))
    return sorted(range(LEAST_TILES, max(LEAST_TILES, most) + 1), key=cost)[:2]


def _step_counts(stage: StageFacts, lanes: int) -> list[int]:
    """Return numbers of steps of which two panels fit the first cache, the largest first."""
    cache, size = stage.problem.target.caches[0], itemsize(stage.tensor.dtype)
    most = max(1, int(cache.size * MOST_PANELS) // (2 * lanes * size))
    length = stage.extents(stage.op.reduce_axis)[0]
    whole = [n for n in reversed(list(divisors(length))) if most // 2 <= n <= most]
    return whole[:2] or [most]


def _pack(
    s: Schedule, stage: StageFacts, read: Access, packed: Tensor, row: Axis, lanes: int
) -> None:
    """Lay out the copy as panels of rows, one for each step."""
    at = read.own_dimension(row)
    assert at is not None, "a dimension of the operand"
    s[packed].transform_layout(lambda *dims: (dims[at] // lanes, dims[1 - at], dims[at] % lanes))
    copy = stage.after(s, packed)
    axes = copy.op.axis
    panel, lane = s[packed].split(axes[at], factor=lanes)
    order = [panel, axes[1 - at], lane]
    if not is_contiguous(copy, axes[at]):
        over, few = s[packed].split(axes[1 - at], factor=SQUARE, tail="cut")
        order = [panel, over, few, lane]
        s[packed].unroll(few)
    in_order(s, packed, order)
    s[packed].vectorize(lane)
    s[packed].parallel(panel)


TACTIC = Tactic(
    "gram", "copy a large matrix in panels, once for its product with its own transpose",
    applies, apply, knobs=KNOBS, alone=True,
)  # fmt: skip
