"""A reduction with reused operands: a tile of each block in shared memory, sums in each thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import labels
from schedlang.autotune.tactics.cuda import dot_products, tile_shapes
from schedlang.autotune.tactics.cuda.access_widths import LANES, LANES_MOVE, lanes_of_rows
from schedlang.autotune.tactics.cuda.dot_products import Dot
from schedlang.autotune.tactics.cuda.tile_shapes import Shape, choose_shape, is_reused, shapes
from schedlang.autotune.tactics.cuda.tile_shares import KNOB, add_shares, shares, split_sums
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, yes
from schedlang.autotune.tactics.loops import first, fuse_loops
from schedlang.autotune.tactics.scheduled import OuterLoops, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# steps of the longest reduction axis that are fetched at once: a search decides among them
DEPTHS = (4, 8, 16, 32)
# the most unrolled multiply-adds of a thread in one step of the outer reduction loop
# nobody has measured this value
MOST_UNROLLED = 1024
# how many times a tile is among the options if all operands are reused
# nobody has measured this value
WEIGHT = 3


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether a block at root has a tile."""
    return stage.is_reduction and stage.attached is None and has_tile(stage)


def has_tile(stage: StageFacts) -> bool:
    """Return whether a reduction has a tile."""
    whole = range(len(stage.op.axis))
    return len(stage.op.outputs) == 1 and bool(shapes(stage, stage, whole))


def all_reused(stage: StageFacts) -> bool:
    """Return whether all operands are read again."""
    return all(is_reused(stage, read) for read in stage.reads)


def weight(stage: StageFacts, others: Applicable) -> int:
    """Return how often a tile is listed: more often if it is likely the fastest."""
    return WEIGHT if all_reused(stage) and "parts" not in others else 1


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute one tile per block, or a share of its sums."""
    count = shares(stage, knobs)
    if count == 1:
        return compute_in_blocks(s, stage, stage, range(len(stage.op.axis)), knobs)
    scheduled = of_shares(s, stage.after(s, split_sums(s, stage, count)), knobs)
    local = first(s.cache_write(stage.tensor, "local"))
    return scheduled.join(add_shares(s, stage.after(s), local))


def of_shares(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute one tile per block of a stage at root, whose first axis goes over shares."""
    return compute_in_blocks(s, stage, stage, [-1, *range(1, len(stage.op.axis))], knobs)


def compute_in_blocks(
    s: Schedule, stage: StageFacts, head: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute one tile of a stage per block, inside ``head``: its reader, or the stage itself.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of the stage, or -1.
    """
    tensor, name = stage.tensor, stage.name
    reread = {r.tensor for r in stage.reads if is_reused(stage, r)}
    possible = shapes(stage, head, positions)
    knobs.require(bool(possible), "no tile has the number of threads of a block")
    parts = choose_shape(name, head, possible, knobs)
    operands = list(dict.fromkeys(
        r.tensor for r in stage.reads
        if r.tensor in reread and r.tensor in stage.op.input_tensors
    ))  # fmt: skip
    dot = dot_products.choose(stage, operands, knobs)
    shared = _copies(s, stage, operands, dot, knobs)
    local = s.cache_write(tensor, "local") if head is stage else tensor
    local_copies = []
    if bool(shared) and dot is None and knobs.choice(f"{name}.local", [True, False]):
        local_copies = [s.cache_read(t, "local", [local]) for t in shared]
    reader = head.after(s)
    thread, count = _loops(s, reader, parts)
    if head is not stage:
        s[local].set_scope("local")
    s[local].compute_at(s[head.tensor], thread)
    sums = stage.after(s, local)
    outer, inner = _reduction(s, sums, parts, dot, knobs)
    for copy in local_copies:
        s[copy].compute_at(s[local], inner)
        for axis in s[copy].op.axis:
            s[copy].unroll(axis)
    for tile in shared:
        s[tile].compute_at(s[local], outer)
        repeated = stage.extents([outer])[0] > 1
        if dot is None:
            _fetch(s, stage.after(s, tile), count, repeated, knobs)
        else:
            _fetch_steps(s, sums, tile, count, repeated, dot, knobs)
    if dot is not None:
        # its operands have their order only now
        s[local].tensorize(s[local].leaf_axes[-1], dot.declared)
    scheduled = Scheduled(frozenset({local, *local_copies, *shared}))
    return reader.placed(OuterLoops(head.tensor, (), count)).join(scheduled)


def _loops(s: Schedule, stage: StageFacts, parts: Shape) -> tuple[Axis, int]:
    """Split a stage into blocks, virtual threads and threads; return the thread loop."""
    head, moving = stage.tensor, stage.data_axes
    blocks: dict[int, Axis] = {n: a for n, a in enumerate(stage.op.axis) if a in moving}
    virtual, threads, each = [], [], []
    for part in parts:
        axis = blocks[part.at]
        blocks[part.at], inside = s[head].split(axis, factor=part.size)
        if part.virtual > 1:
            over, inside = s[head].split(inside, nparts=part.virtual)
            virtual.append(over)
        thread, mine = s[head].split(inside, factor=part.each)
        threads.append(thread)
        each.append(mine)
    s[head].reorder(*blocks.values(), *virtual, *threads, *each)
    block = fuse_loops(s, head, list(blocks.values()))
    thread = fuse_loops(s, head, threads)
    s[head].bind(block, "blockIdx.x")
    for axis in virtual:
        s[head].bind(axis, "vthread")
    s[head].bind(thread, "threadIdx.x")
    for axis in each:
        s[head].unroll(axis)
    return thread, math.prod(p.threads for p in parts)


def _copies(
    s: Schedule, stage: StageFacts, operands: Sequence[Tensor], dot: Dot | None, knobs: Knobs
) -> list[Tensor]:
    """Copy operands to shared memory: those that an instruction needs there, others by knobs."""
    if dot is not None and dot.padded:
        # the copies that are filled up with zeros
        copies = dot_products.pad(s, stage, dot)
        for copy in copies:
            s[copy].set_scope("shared")
        return copies
    must = () if dot is None else dot.apart
    return [
        s.cache_read(operand, "shared", [stage.tensor])
        for operand, label in labels(operands).items()
        if operand in must or knobs.choice(f"{stage.name}.shared.{label}", [True, False])
    ]


def _reduction(
    s: Schedule, stage: StageFacts, parts: Shape, dot: Dot | None, knobs: Knobs
) -> tuple[Axis, Axis]:
    """Split the longest reduction axis; return the outer loop and the inner loop.

    Shared tiles are computed at the outer loop, local copies at the inner one. The innermost loop
    of all has the steps that an instruction takes at once.
    """
    local, name, op = stage.tensor, stage.name, stage.op
    sizes = stage.extents(op.reduce_axis)
    longest = sizes.index(max(sizes)) if dot is None else dot.along
    along, at_once, rest = op.reduce_axis[longest], 1, []
    if dot is not None:
        along, step = s[local].split(along, factor=dot.steps)
        at_once, rest = dot.steps, [step]
    depths = [d for d in DEPTHS if d <= sizes[longest]] or [sizes[longest]]
    depth = knobs.choice(f"{name}.depth", depths)
    outer, inner = s[local].split(along, factor=depth // at_once)
    others = [a for n, a in enumerate(op.reduce_axis) if n != longest]
    s[local].reorder(outer, *others, inner, *op.axis, *rest)
    sums = math.prod(p.each * p.virtual for p in parts)
    for axis in op.axis:
        s[local].unroll(axis)
    unrolled = sums * depth // at_once
    if unrolled <= MOST_UNROLLED and knobs.choice(f"{name}.unroll", [True, False]):
        s[local].unroll(inner)
    return outer, inner


def _fetch(s: Schedule, stage: StageFacts, threads: int, repeated: bool, knobs: Knobs) -> None:
    """Make all threads of a block fetch a shared tile together.

    A ``repeated`` fetch may gain from double buffering.
    """
    tile, name, op = stage.tensor, stage.name, stage.op
    if len(op.axis) > 1 and knobs.choice(f"{name}.transposed", [False, True]):
        s[tile].transform_layout(lambda *dims: (*dims[1:], dims[0]))
    if repeated and knobs.choice(f"{name}.double_buffer", [False, True]):
        s[tile].double_buffer()
    element = fuse_loops(s, tile, list(op.axis))
    lanes = knobs.choice(f"{name}.lanes", lanes_of_rows([tile]))
    if lanes > 1:
        element, lane = s[tile].split(element, factor=lanes)
        s[tile].vectorize(lane)
    _, thread = s[tile].split(element, factor=threads)
    s[tile].bind(thread, "threadIdx.x")


def _fetch_steps(
    s: Schedule, sums: StageFacts, tile: Tensor, threads: int, repeated: bool, dot: Dot,
    knobs: Knobs,
) -> None:  # fmt: skip
    """Make all threads fetch a shared tile, each the steps that an instruction takes at once.

    ``sums`` is the stage that reads it. The knobs are as for :func:`_fetch`.
    """
    name = s[tile].name
    if dot.padded:
        # the names of the knobs of any shared copy
        name = f"{name.removesuffix('.pad')}.shared"
    axis = sums.op.reduce_axis[dot.along]
    read = next(r for r in sums.after(s).reads if r.tensor is tile)
    dimension = dot_products.dimension_of(read, axis, dot.steps)
    assert dimension is not None
    adjacent = dimension == read.innermost
    first = len(read.indices) > 1 and knobs.choice(f"{name}.transposed", [False, True])
    if repeated and knobs.choice(f"{name}.double_buffer", [False, True]):
        s[tile].double_buffer()
    loops, step = dot_products.side_by_side(s, tile, dimension, dot, first, adjacent)
    _, thread = s[tile].split(fuse_loops(s, tile, loops), factor=threads)
    s[tile].bind(thread, "threadIdx.x")
    s[tile].vectorize(step)


TACTIC = Tactic(
    "tile", "the threads of a block compute a tile together", applies, apply,
    knobs=(
        KNOB,
        *tile_shapes.KNOBS,
        dot_products.KNOB,
        Knob("C.shared.A", (True, False), "copy `A` to shared memory", Moves(rank=5)),
        Knob("C.local", (True, False), "copy shared operands to registers", Moves(rank=13)),
        Knob(
            "C.local.depth", "4, 8, 16, 32, or all",
            "the number of steps of the longest reduction axis that are fetched at once",
            Moves(rank=12),
        ),
        Knob("C.local.unroll", (True, False), "unroll these steps", Moves(rank=34, start=yes)),
        Knob(
            "A.shared.transposed", (False, True),
            "store the copy transposed, with its first dimension last",
            Moves(rank=33),
        ),
        Knob("A.shared.double_buffer", (False, True), "double-buffer the copy", Moves(rank=21)),
        Knob(
            "A.shared.lanes", LANES, "the number of elements in one access of the fetch",
            LANES_MOVE,
        ),
    ),
    weight=weight,
)  # fmt: skip
