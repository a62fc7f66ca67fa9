"""The rule for a CPU reduction with reused operands: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedlang.autotune.rules.access import Access, labels
from schedlang.autotune.rules.nest import blocks, in_order, in_threads, split_tile
from schedlang.autotune.rules.pack import pack
from schedlang.autotune.rules.registers import Lane, Tile, choose_tile, lane_axes, sums, tiles
from schedlang.autotune.rules.sketch import Home, Level, OuterLoops, Sketch
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder

# the most steps of a reduction loop that may be unrolled, and the most multiply-adds then
SHORT, MOST_UPDATES = 8, 128
# the most unrolled steps with a condition: one that is false costs nothing there
MOST_TESTED = 512
# steps ahead of its use that an operand is prefetched
AHEAD = 16


def tiled(
    sketch: Sketch, tensor: Tensor, head: Tensor, positions: Sequence[int], root: bool
) -> None:
    """Compute ``tensor`` a tile at a time inside ``head``: its reader, or ``tensor`` itself.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of ``tensor``, or -1.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    last, work = positions[sketch.last(head)], sketch.evaluations(tensor)
    lanes = lane_axes(sketch, tensor, last)
    lane = lanes[knobs.choice(f"{name}.lane", list(range(len(lanes))))]
    tile = choose_tile(sketch, tensor, tiles(sketch, tensor, lane, last))
    width = sketch.width(tensor)
    inside = {lane.at: tile.vectors * width, **dict(tile.rows)}
    local = s.cache_write(tensor, "local") if head is tensor else tensor
    if head is not tensor:
        s[tensor].set_scope("local")
    nest = _outer(sketch, head, positions, inside, lane, work if root else None)
    if nest.levels:
        s[local].compute_at(s[head], nest.levels[-1].loop)
    axes = list(s[local].op.axis)
    home = Home(nest, {at: axes[p] for at, p in enumerate(positions) if p >= 0})
    sketch.home[local] = home
    sketch.done |= {head, local}
    _sums(sketch, local, lane, tile, inside[lane.at])
    must, may = ({r.tensor for r in some} for some in (lane.packed, lane.packable))
    reads = sketch.reads(local)
    label = labels(dict.fromkeys(r.tensor for r in reads))
    for read in reads:
        if read.fixed(axes[lane.at], width):
            continue
        if read.tensor in must or (
            read.tensor in may and knobs.choice(f"{name}.pack.{label[read.tensor]}", [False, True])
        ):
            _packed(sketch, read, local, axes[lane.at], inside[lane.at], home)


def _outer(
    sketch: Sketch, head: Tensor, positions: Sequence[int], inside: dict[int, int], lane: Lane,
    work: int | None,
) -> OuterLoops:  # fmt: skip
    """Schedule the loops of ``head``: blocks and threads outside, a tile inside.

    ``work`` is the number of evaluations in all loops, or ``None`` if the nest is not at root, so
    that it starts no threads. Returns the outer loops.
    """
    s = sketch.s
    tile = {at: inside[p] for at, p in enumerate(positions) if p in inside}
    outer, inner = split_tile(sketch, head, tile)
    loops = blocks(sketch, head, outer)
    in_tile = [inner[at] for at in sorted(inner)]
    lane_loop = next(inner[at] for at, p in enumerate(positions) if p == lane.at)
    in_tile.remove(lane_loop)
    order = [lane_loop, *in_tile] if lane.transposed else [*in_tile, lane_loop]
    in_order(s, head, [*(x.axis for x in loops), *order])
    if lane.transposed:
        s[head].unroll(lane_loop)
        s[head].vectorize(order[-1])
    else:
        s[head].vectorize(lane_loop)
    if work is not None:
        return sketch.set_nest(head, in_threads(sketch, head, loops, work))
    return sketch.set_nest(head, [Level(x.axis, (x.along,), x.extent) for x in loops])


def _sums(sketch: Sketch, local: Tensor, lane: Lane, tile: Tile, lanes: int) -> None:
    """Schedule the tile: the reduction loops outside, then unrolled rows, then lanes."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(local)
    op = s[local].op
    if lane.transposed:
        s[local].transform_layout(
            lambda *dims: (*(d for n, d in enumerate(dims) if n != lane.at), dims[lane.at])
        )
    reduce = list(op.reduce_axis)
    long = [a for a in reduce if sketch.long(a)]
    if len(long) > 1:
        order = knobs.permutation(f"{name}.reduce_order", long)
        reduce = [a for a in reduce if not sketch.long(a)] + list(order)
    tested = _tested(sketch, sketch.op(local), sums(tile))
    if tested and not knobs.choice(f"{name}.tested", [True, False]):
        tested = []
    reduce = [a for a in reduce if a not in tested] + tested
    inner = list(op.axis)
    outer = []
    for at, size in ((lane.at, lanes), *tile.rows):
        if not isinstance(op.axis[at].extent, int):
            # split, so that the tile of a symbolic axis has a constant extent
            over, inner[at] = s[local].split(op.axis[at], factor=size)
            outer.append(over)
    rows = [inner[at] for at, _ in tile.rows]
    across = inner[lane.at]
    rest = [*outer, *(a for a in inner if a is not across and a not in rows)]
    in_order(s, local, [*rest, *reduce, *rows, across])
    for row in rows:
        s[local].unroll(row)
    s[local].vectorize(across)
    for axis in tested:
        s[local].unroll(axis)
    steps = sketch.extents(reduce[-1:])[0] if isinstance(reduce[-1].extent, int) else 1
    if (
        not tested
        and 1 < steps <= SHORT
        and steps * sums(tile) <= MOST_UPDATES
        and knobs.choice(f"{name}.unroll", [False, True])
    ):
        s[local].unroll(reduce[-1])


def _tested(sketch: Sketch, op: ComputeOp, copies: int) -> list[Axis]:
    """Return the reduction axes in the condition of ``op``, if unrolling them is not too long."""
    if op.where is None:
        return []
    inside = set(postorder([op.where]))
    found = [a for a in op.reduce_axis if a in inside and isinstance(a.extent, int)]
    return found if prod(sketch.extents(found)) * copies <= MOST_TESTED else []


def _packed(
    sketch: Sketch, read: Access, local: Tensor, axis: Axis, lanes: int, home: Home
) -> None:
    """Pack an operand, and prefetch it if a knob chooses to."""
    packed = pack(sketch, read, local, axis, lanes, home)
    inner = sketch.op(local).reduce_axis[-1]
    if sketch.extents([inner])[0] >= 4 * AHEAD and sketch.knobs.choice(
        f"{sketch.name(packed)}.prefetch", [False, True]
    ):
        sketch.s[local].prefetch(packed, inner, AHEAD)
