"""A reduction with reused operands: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics import attach
from schedlang.autotune.tactics.access import labels
from schedlang.autotune.tactics.cpu import dot_operands, dot_products, serpentine, step_blocks
from schedlang.autotune.tactics.cpu import nest as outer_loops
from schedlang.autotune.tactics.cpu import pack as packing
from schedlang.autotune.tactics.cpu.dot_operands import copy_fixed
from schedlang.autotune.tactics.cpu.dot_products import Dot
from schedlang.autotune.tactics.cpu.nest import blocks, in_threads, split_tile
from schedlang.autotune.tactics.cpu.pack import pack
from schedlang.autotune.tactics.cpu.step_blocks import StepBlocks, split_steps, split_tiles
from schedlang.autotune.tactics.cpu.tile_sizes import (
    TILE,
    Lane,
    Tile,
    choose_tile,
    lane_axes,
    row_order,
    sums,
    tiles,
)
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves, last, yes
from schedlang.autotune.tactics.loops import in_order
from schedlang.autotune.tactics.scheduled import Level, OuterLoops, Placement, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.schedule.schedule import Schedule

# the most steps of a reduction loop that may be unrolled, and the most multiply-adds then
# nobody has measured these values
SHORT, MOST_UPDATES = 8, 128
# the most unrolled steps with a condition: one that is false costs nothing there
# nobody has measured this value
MOST_TESTED = 512
# steps ahead of its use that an operand is prefetched
# nobody has measured this value
AHEAD = 16


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether a data axis can be in lanes, with operands that are read again."""
    one = stage.is_reduction and len(stage.op.outputs) == 1 and bool(stage.op.axis)
    return one and bool(lane_axes(stage, stage.last))


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute a tile of sums at a time."""
    return compute_tiles(s, stage, stage, range(len(stage.op.axis)), knobs)


def compute_tiles(
    s: Schedule, stage: StageFacts, head: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute a stage a tile at a time inside ``head``: its reader, or the stage itself.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of the stage, or -1.
    """
    tensor, name = stage.tensor, stage.name
    last = positions[head.last]
    lanes = lane_axes(stage, last)
    lane = lanes[knobs.choice(f"{name}.lane", list(range(len(lanes))))]
    dot = dot_products.choose(stage, lane, knobs)
    shapes = _shapes(stage, lane, last, dot)
    tile = choose_tile(stage, shapes, knobs)
    width = stage.width if dot is None else dot.lanes
    inside = {lane.at: tile.vectors * width, **dict(tile.rows)}
    local = s.cache_write(tensor, "local") if head is stage else tensor
    if head is not stage:
        s[tensor].set_scope("local")
    # only a nest at root starts threads
    work = stage.evaluations if head.attached is None else None
    reader = head.after(s)
    reread = serpentine.reread_bytes(stage, lane)
    nest = _outer(s, reader, positions, inside, lane, work, reread, knobs, dot)
    sum_stage, changed = stage.after(s, local), Scheduled()
    if dot is not None:
        dot, changed = dot_operands.change_operands(s, sum_stage, lane, tile, dot, knobs)
        sum_stage = stage.after(s, local)
    reduce, tested = _reduce_order(sum_stage, tile, knobs)
    block = None
    if dot is None:
        block = step_blocks.choose(sum_stage, nest, positions, lane, tile, reduce, knobs)
    around = nest if block is None else replace(nest, levels=nest.levels[: -block.levels])
    attach.inside(s, local, around)
    axes = sum_stage.op.axis
    place = Placement(around, {at: axes[p] for at, p in enumerate(positions) if p >= 0})
    sum_stage = stage.after(s, local)
    if lane.transposed:
        s[local].transform_layout(
            lambda *dims: (*(d for n, d in enumerate(dims) if n != lane.at), dims[lane.at])
        )
    across: Axis | None = None
    if dot is not None:
        across = _dot_loops(s, sum_stage, lane, tile, inside[lane.at], reduce, dot)
    else:
        _sums(s, sum_stage, lane, tile, inside[lane.at], reduce, tested, block, knobs)
    packed = _pack_operands(s, sum_stage, name, lane, inside[lane.at], place, knobs, dot)
    if dot is not None and across is not None:
        # its operands are packed only now
        s[local].tensorize(across, dot.declared)
    placed = {head.tensor: Placement(nest, dict(enumerate(reader.op.axis))), local: place}
    return Scheduled(frozenset({head.tensor, local}), placements=placed).join(changed, packed)


def _shapes(stage: StageFacts, lane: Lane, last: int, dot: Dot | None) -> list[Tile]:
    """Return the tiles of sums, computed by an instruction if there is one."""
    if dot is None:
        return tiles(stage, lane, last)
    if not dot.packed:
        return dot_operands.fitting_tiles(stage, lane, last, dot)
    if stage.lengths[lane.at] == stage.width:
        # of one vector, which no tile cuts
        return tiles(stage, lane, last, room=dot.registers)
    # no copy fills up a tile that is larger than the operand
    sizes = [*stage.lengths]
    sizes[lane.at] = max(stage.width, sizes[lane.at] - sizes[lane.at] % stage.width)
    return tiles(stage, lane, last, sizes, dot.registers)


def _outer(
    s: Schedule, head: StageFacts, positions: Sequence[int], inside: Mapping[int, int], lane: Lane,
    work: int | None, reread: int, knobs: Knobs, dot: Dot | None,
) -> OuterLoops:  # fmt: skip
    """Schedule the loops of ``head``: blocks and threads outside, a tile inside.

    ``work`` is the number of evaluations in all loops, or ``None`` if the nest is not at root, so
    that it starts no threads. ``reread`` means the same as in :func:`in_threads`. Along the axes
    of ``dot`` that zeros fill up, all tiles are whole. Return the outer loops.
    """
    tensor = head.tensor
    tile = {at: inside[p] for at, p in enumerate(positions) if p in inside}
    filled_up = () if dot is None else dot.padded
    whole = [at for at, p in enumerate(positions) if p in filled_up]
    outer, inner = split_tile(s, head, tile, whole=whole)
    loops = blocks(s, head, outer, knobs)
    in_tile = [inner[at] for at in sorted(inner)]
    lane_loop = next(inner[at] for at, p in enumerate(positions) if p == lane.at)
    in_tile.remove(lane_loop)
    order = [lane_loop, *in_tile] if lane.transposed else [*in_tile, lane_loop]
    in_order(s, tensor, [*(x.axis for x in loops), *order])
    in_memory = dot is not None and dot.rows >= 0
    few = not in_memory and not lane.transposed and _written_out(head, in_tile)
    if len(in_tile) > 1 and few:
        # then no loop reads the sums, which stay in their registers to the end
        for row in in_tile:
            s[tensor].unroll(row)
    if lane.transposed:
        s[tensor].unroll(lane_loop)
        s[tensor].vectorize(order[-1])
    else:
        s[tensor].vectorize(lane_loop)
    if work is not None:
        along = list(positions).index(lane.at)
        levels = in_threads(s, head, loops, work, knobs, reread, along)
        return OuterLoops(tensor, tuple(levels))
    return OuterLoops(tensor, tuple(Level(x.axis, (x.along,), x.extent) for x in loops))


def _written_out(head: StageFacts, rows: Sequence[Axis]) -> bool:
    """Return whether the rows of a tile are few and constant, so that they may be unrolled."""
    long = [axis for axis in rows if is_long(axis)]
    fixed = all(isinstance(axis.extent, int) for axis in long)
    return fixed and prod(head.extents(long)) <= head.problem.target.vector_registers


def _reduce_order(stage: StageFacts, tile: Tile, knobs: Knobs) -> tuple[list[Axis], list[Axis]]:
    """Return the reduction axes in the order of their loops, and those unrolled for a condition."""
    reduce = list(stage.op.reduce_axis)
    long = [a for a in reduce if is_long(a)]
    if len(long) > 1:
        order = knobs.permutation(f"{stage.name}.reduce_order", long)
        reduce = [a for a in reduce if not is_long(a)] + list(order)
    tested = _tested_axes(stage, sums(tile))
    if tested and not knobs.choice(f"{stage.name}.tested", [True, False]):
        tested = []
    return [a for a in reduce if a not in tested] + tested, tested


def _sums(
    s: Schedule, stage: StageFacts, lane: Lane, tile: Tile, lanes: int, reduce: Sequence[Axis],
    tested: Sequence[Axis], block: StepBlocks | None, knobs: Knobs,
) -> None:  # fmt: skip
    """Schedule the tile: the reduction loops outside, then unrolled rows, then lanes."""
    local, name, op = stage.tensor, stage.name, stage.op
    inner = list(op.axis)
    outer = []
    for at, size in ((lane.at, lanes), *tile.rows):
        if not isinstance(op.axis[at].extent, int):
            # split, so that the tile of a symbolic axis has a constant extent
            over, inner[at] = s[local].split(op.axis[at], factor=size)
            outer.append(over)
    units, steps = (
        [a for a in reduce if is_long(a) == long and a not in tested] for long in (False, True)
    )
    first: Axis | None = next(iter(steps), None)
    group: list[Axis] = []
    if block is not None:
        group, split = split_tiles(s, stage, block, tile)
        for at, axis in split.items():
            inner[at] = axis
        first, steps = split_steps(s, stage, block, steps)
        units.append(first)
    rows = [inner[at] for at in row_order(stage, lane, tile)]
    across = inner[lane.at]
    rest = [*outer, *(a for a in inner if a is not across and a not in rows and a not in group)]
    in_order(s, local, [*rest, *units, *group, *steps, *tested, *rows, across])
    for row in rows:
        s[local].unroll(row)
    s[local].vectorize(across)
    for axis in tested:
        s[local].unroll(axis)
    last = next(iter(reversed(steps)), None)
    count = stage.extents([last])[0] if last is not None and isinstance(last.extent, int) else 1
    if (
        last is not None
        and not tested
        and 1 < count <= SHORT
        and count * sums(tile) <= MOST_UPDATES
        and knobs.choice(f"{name}.unroll", [False, True])
    ):
        s[local].unroll(last)
        steps = [a for a in steps if a is not last]
    if first is not None and steps and step_blocks.is_streamed(stage, lane, tile):
        step_blocks.prefetch_panels(s, stage, lane, first, steps[-1], knobs)


def _dot_loops(
    s: Schedule, stage: StageFacts, lane: Lane, tile: Tile, lanes: int, reduce: Sequence[Axis],
    dot: Dot,
) -> Axis:  # fmt: skip
    """Schedule the tile for an instruction, which takes several steps of one reduction loop.

    Return the outermost loop that it replaces.
    """
    local, op = stage.tensor, stage.op
    inner, outer = list(op.axis), []
    for at, size in ((lane.at, lanes), *tile.rows):
        if not isinstance(op.axis[at].extent, int):
            over, inner[at] = s[local].split(op.axis[at], factor=size)
            outer.append(over)
    along = op.reduce_axis[dot.along]
    over, terms = s[local].split(along, factor=dot.steps, tail="cut")
    steps = [*(a for a in reduce if a is not along), over]
    vectors, across = s[local].split(inner[lane.at], factor=dot.lanes)
    if dot.rows >= 0:
        tiles, row = s[local].split(inner[dot.rows], factor=dot.height)
        groups, terms = s[local].split(terms, factor=dot.group)
        rest = [a for at, a in enumerate(inner) if at not in (lane.at, dot.rows)]
        in_order(s, local, [*rest, *steps, tiles, vectors, row, across, groups, terms])
        return row
    rows = [inner[at] for at in row_order(stage, lane, tile)]
    rest = [a for a in inner if a is not inner[lane.at] and a not in rows]
    in_order(s, local, [*outer, *rest, *steps, *rows, vectors, across, terms])
    for row in (*rows, vectors):
        s[local].unroll(row)
    return across


def _tested_axes(stage: StageFacts, copies: int) -> list[Axis]:
    """Return the reduction axes in the stage's condition, if unrolling them is not too long."""
    op = stage.op
    if op.where is None:
        return []
    inside = set(postorder([op.where]))
    tested = [a for a in op.reduce_axis if a in inside and isinstance(a.extent, int)]
    return tested if prod(stage.extents(tested)) * copies <= MOST_TESTED else []


def _pack_operands(
    s: Schedule, local: StageFacts, name: str, lane: Lane, lanes: int, place: Placement,
    knobs: Knobs, dot: Dot | None,
) -> Scheduled:  # fmt: skip
    """Pack the operands that must be packed for the lanes, and those that knobs choose.

    ``local`` is the stage of the sums, ``name`` begins the names of the knobs.
    """
    scheduled = Scheduled()
    axis = local.op.axis[lane.at]
    must, may = ({r.tensor for r in some} for some in (lane.packed, lane.packable))
    must |= set() if dot is None or dot.packed else {dot.operand}
    label = labels(dict.fromkeys(r.tensor for r in local.reads))
    for read in local.reads:
        if read.fixed(axis, local.width):
            if dot is not None and not dot.packed and read.tensor is dot.fixed:
                reader = local.after(s)
                scheduled = scheduled.join(
                    copy_fixed(s, reader, read, place, dot, knobs, scheduled.recomputed)
                )
            continue
        if read.tensor in must or (
            read.tensor in may and knobs.choice(f"{name}.pack.{label[read.tensor]}", [False, True])
        ):
            # earlier copies have replaced operands
            reader = local.after(s)
            steps = None
            if dot is not None and read.tensor is dot.operand:
                steps = local.op.reduce_axis[dot.along], dot.group
            copy, packed = pack(
                s, reader, read, axis, lanes, place, knobs, scheduled.recomputed, steps
            )
            scheduled = scheduled.join(packed)
            if steps is None:
                _prefetch(s, local.after(s), copy, knobs)
    return scheduled


def _prefetch(s: Schedule, local: StageFacts, packed: Tensor, knobs: Knobs) -> None:
    """Prefetch a packed operand if a knob chooses to and the innermost loop is long."""
    inner = local.op.reduce_axis[-1]
    if local.extents([inner])[0] >= 4 * AHEAD and knobs.choice(
        f"{s[packed].name}.prefetch", [False, True]
    ):
        s[local.tensor].prefetch(packed, inner, AHEAD)


TACTIC = Tactic(
    "tile", "keep the sums of a tile in registers", applies, apply,
    knobs=(
        Knob(
            "C.lane", "numbers, from 0",
            "the data axis that is vectorized, numbered among those that can be",
            # along the last axis, the rows of a block stay whole
            Moves(rank=3, structure=True, start=last, inside=last),
        ),
        dot_products.KNOB,
        dot_products.PAD,
        dot_products.STEPS,
        TILE,
        *outer_loops.KNOBS,
        serpentine.KNOB,
        Knob(
            "C.local.reduce_order", "permutations", "the order of a tile's reduction loops",
            Moves(rank=22, both_ends=True),
        ),
        *step_blocks.KNOBS,
        Knob(
            "C.local.unroll", (False, True), "unroll the innermost of these loops",
            Moves(rank=34, start=yes),
        ),
        Knob(
            "C.local.tested", (True, False),
            "unroll the reduction loops that a condition depends on",
            Moves(rank=24),
        ),
        Knob(
            "C.pack.B", (False, True),
            "pack `B`: copy it into the order in which the tile reads it. The knob is left out if "
            "`B` must be packed",
            Moves(rank=11, start=yes),
        ),
        *packing.KNOBS,
        Knob("B.global.prefetch", (False, True), "prefetch the copy", Moves(rank=32)),
    ),
)  # fmt: skip
