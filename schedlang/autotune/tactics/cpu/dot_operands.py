"""The operands of dot products: shifted, filled up with zeros, and copied side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.attach import attach, attach_inside
from schedlang.autotune.tactics.cpu import elementwise, vectorized_reduction
from schedlang.autotune.tactics.cpu.dot_products import Dot
from schedlang.autotune.tactics.cpu.pack import is_own_copy
from schedlang.autotune.tactics.cpu.tile_sizes import MOST_VECTORS, Lane, Tile, tiles
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.loops import fuse_loops, in_order
from schedlang.autotune.tactics.scheduled import Placement, Scheduled
from schedlang.autotune.tactics.tactic import Applicable
from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.host import LINE
from schedlang.schedule.schedule import Schedule

# the part of the lanes of all tiles that may be zeros
# nobody has measured this value
MOST_ZEROS = 0.1
# tiles of an instruction along an axis that are computed one after the other, in one tile of sums
# a search decides among them
TOGETHER = (4, 2, 1)


def fitting_tiles(stage: StageFacts, lane: Lane, last: int, dot: Dot) -> list[Tile]:
    """Return the tiles of sums whose operands are packed for an instruction, largest first."""
    if dot.rows >= 0:
        return _of_tiles(stage, lane, dot)
    if lane.at not in dot.padded:
        return _without_conflicts(stage, tiles(stage, lane, last, room=dot.registers), dot)
    sizes = [*stage.lengths]
    sizes[lane.at] = _with_zeros(stage.lengths[lane.at], dot.lanes)
    fitting = tiles(stage, lane, last, sizes, dot.registers)
    # a tile that is longer than the axis would be cut to it
    whole = [t for t in fitting if t.vectors * dot.lanes <= stage.lengths[lane.at]]
    if not whole:
        sizes[lane.at] = stage.width
        whole = tiles(stage, lane, last, sizes, dot.registers)
    return _without_conflicts(stage, whole, dot)


def _of_tiles(stage: StageFacts, lane: Lane, dot: Dot) -> list[Tile]:
    """Return the tiles of sums that consist of whole tiles of an instruction, largest first."""
    counts = [
        [n for n in TOGETHER if _whole(stage.lengths[at], n * size, size, at in dot.padded)]
        for at, size in ((lane.at, dot.lanes), (dot.rows, dot.height))
    ]
    pairs = sorted(product(*counts), key=lambda pair: (-prod(pair), pair))
    return [Tile(vectors, ((dot.rows, rows * dot.height),)) for vectors, rows in pairs]


def _whole(length: int, together: int, size: int, padded: bool) -> bool:
    """Return whether ``together`` elements at once are all of ``length``, with few zeros."""
    if not padded:
        return length % together == 0
    return together == size or -(-length // together) * together <= (1 + MOST_ZEROS) * length


def _with_zeros(length: int, lanes: int) -> int:
    """Return a length in whole vectors, and in whole tiles of several if few lanes are zeros."""
    vectors = -(-length // lanes)
    for count in range(MOST_VECTORS, 1, -1):
        more = -(-vectors // count) * count
        if 1 - length / (more * lanes) <= MOST_ZEROS:
            return more * lanes
    return vectors * lanes


def _without_conflicts(stage: StageFacts, shapes: Sequence[Tile], dot: Dot) -> list[Tile]:
    """Return the tiles whose rows of the operand that all lanes share stay in the first cache.

    Lines that are a multiple of the cache's sets apart compete for its ways. Return all tiles if
    none has so few rows.
    """
    (read,) = (read for read in stage.reads if read.tensor is dot.fixed)
    if len(stage.op.axis) + dot.along in dot.padded or not dot.adjacent:
        # a copy has rows of other lengths
        return list(shapes)
    cache = stage.problem.target.caches[0]

    def stays(tile: Tile) -> bool:
        places = {0}
        for at, count in tile.rows:
            step = _bytes_apart(read, stage.op.axis[at])
            places = {place + n * step for place in places for n in range(count)}
        in_set = Counter(line % cache.sets for line in {place // LINE for place in places})
        return max(in_set.values()) <= cache.ways

    return [tile for tile in shapes if stays(tile)] or list(shapes)


def _bytes_apart(read: Access, axis: Axis) -> int:
    """Return the bytes between elements that neighbouring steps of an axis read, 0 if unknown."""
    apart, stride = 0, itemsize(read.tensor.dtype)
    for step, extent in zip(reversed(read.steps(axis)), reversed(read.tensor.shape)):
        if step is None or not isinstance(extent, int):
            return 0
        apart, stride = apart + step * stride, stride * extent
    return apart


def change_operands(
    s: Schedule, sums: StageFacts, lane: Lane, tile: Tile, dot: Dot, knobs: Knobs
) -> tuple[Dot, Scheduled]:
    """Shift an operand and fill up with zeros, if ``dot`` says so; return the new operands.

    ``sums`` is the stage of the sums, on which no step was taken so far.
    """
    moving, fixed, scheduled = dot.operand, dot.fixed, Scheduled()
    if dot.shift:
        shifted, starts = s.shift_operand(sums.tensor, moving, dot.shift)
        if dot.padded:
            s[shifted].compute_inline()
            scheduled = scheduled.join(Scheduled(inlined=frozenset({shifted})))
        moving = shifted
        scheduled = scheduled.join(_plainly(s, sums.after(s, starts), knobs))
    if dot.padded:
        count = len(sums.op.axis)
        multiples = {lane.at: tile.vectors * dot.lanes, count + dot.along: dot.steps}
        multiples |= {at: rows for at, rows in tile.rows if at == dot.rows}
        padding = [multiples[at] if at in dot.padded else 1 for at in range(len(sums.op.loops))]
        copies = {_copied(new): new for new in s.pad_einsum(sums.tensor, padding)}
        moving, fixed = copies.get(moving, moving), copies.get(fixed, fixed)
    return replace(dot, operand=moving, fixed=fixed), scheduled


def _copied(copy: Tensor) -> Tensor:
    """Return the tensor that a copy reads."""
    assert isinstance(copy.op, ComputeOp)
    return next(reads(copy.op.body)).tensor


def _plainly(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Schedule a stage by itself, with vectors."""
    in_rows = vectorized_reduction.applies(stage, Applicable((), stage))
    return (vectorized_reduction if in_rows else elementwise).apply(s, stage, knobs)


def copy_fixed(
    s: Schedule, reader: StageFacts, read: Access, place: Placement, dot: Dot, knobs: Knobs,
    recomputed: float,
) -> Scheduled:  # fmt: skip
    """Schedule the copy of the operand that all lanes share, if it needs one.

    It is computed at root or at a loop of its reader's nest. ``recomputed`` counts operations as
    for :func:`~schedlang.autotune.tactics.cpu.pack.pack`.
    """
    filled_up = not {len(reader.op.axis) + dot.along, dot.rows}.isdisjoint(dot.padded)
    if dot.adjacent and not filled_up:
        return Scheduled()
    copy, along = read.tensor, read.own_dimension(reader.op.reduce_axis[dot.along])
    assert along is not None
    if not is_own_copy(reader, copy):
        copy = s.cache_read(copy, "global", [reader.tensor])
    if not dot.adjacent:
        s[copy].transform_layout(
            lambda *dims: (
                *(d // dot.steps if k == along else d for k, d in enumerate(dims)),
                dims[along] % dot.steps,
            )
        )
    stage = reader.after(s, copy)
    scheduled = attach_inside(stage, [(read, place)], place.nest, knobs, recomputed)
    stage = stage.flow.then(s, scheduled).stage(copy)
    attach(s, stage, scheduled.attached.get(copy))
    if dot.adjacent:
        return scheduled.join(elementwise.apply(s, stage, knobs))
    return scheduled.join(_side_by_side(s, stage, along, dot.steps))


def _side_by_side(s: Schedule, stage: StageFacts, along: int, count: int) -> Scheduled:
    """Schedule a copy in which ``count`` elements along a dimension stand side by side."""
    copy, axes, last = stage.tensor, [*stage.op.axis], stage.last
    axes[along], step = s[copy].split(axes[along], factor=count)
    lane = axes.pop(last)
    if stage.extents([lane])[0] > stage.width // count:
        over, lane = s[copy].split(lane, factor=stage.width // count)
        axes.append(over)
    in_order(s, copy, [*axes, lane, step])
    s[copy].unroll(step)
    s[copy].vectorize(lane)
    if stage.attached is None:
        s[copy].parallel(fuse_loops(s, copy, axes[:-1]))
    return Scheduled(frozenset({copy}))
