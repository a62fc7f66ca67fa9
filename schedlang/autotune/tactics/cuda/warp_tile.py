"""A product on the matrix units of a GPU: a tile of each block, whose warps hold its sums.

A convolution is such a product without a matrix of its windows: an instruction multiplies the
weights of 16 channels with the data of 8 adjacent pixels, for one tap of the window after the
other. The data of a tile are in shared memory once for all taps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves, at_most
from schedlang.autotune.tactics.known_instructions import WARPS, factors, in_the_box, lacks, rounds
from schedlang.autotune.tactics.loops import first, fuse_loops
from schedlang.autotune.tactics.scheduled import OuterLoops, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import FRAGMENT, WARP, MatrixLoad
from schedlang.schedule.schedule import Schedule

# instructions of a warp along an axis, and warps of a block along it: a search decides
TILES, ALONG = (1, 2, 4), (1, 2, 4)
# the most instructions whose sums a warp holds: 4 registers each
# nobody has measured this value
MOST_TILES = 16
# how many times the terms of an instruction are in shared memory at once: a search decides
DEPTHS = (1, 2, 4)
# the bytes of shared memory that a block has without asking for more, and the largest share of them
# that weights of all taps take
# by definition: CUDA's limit; nobody has measured the share
SHARED, MOST_WEIGHTS = 48 * 1024, 24 * 1024
# the largest error of sums in any order, relative to the sum of magnitudes; by definition: rounding
# factors to TF32, which nobody asked of float32, may err by 2**-11
MOST_ERROR = 2.0**-16
# bytes that a thread writes at once to shared memory; by definition: a row of ldmatrix
ROW = 16


@dataclass(frozen=True)
class Units:
    """The use of an instruction for the products of a stage.

    Its rows are along the data axis ``row``, its columns along ``column``, and its terms along the
    reduction axis ``step``, all by position. ``beside`` is another axis of the columns' operand, -1
    if there is none. ``operands`` are the reads that have the rows and the columns.
    """

    declared: Instruction
    row: int
    column: int
    beside: int
    step: int
    operands: tuple[Access, Access]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The rows, the columns and the terms of the instruction."""
        (rows, terms), (_, columns) = (t.shape for t in self.declared.operands)
        return int(rows), int(columns), int(terms)


def units(stage: StageFacts) -> Units | None:
    """Return how matrix units compute a stage: ``None`` if they cannot.

    The stage sums products of two operands in the dtypes of an instruction. Its rows and columns
    are adjacent along dimensions of one operand each, and no axis is shorter than the instruction;
    the terms are a multiple of its terms.
    """
    return stage.flow.once(("units", stage.op, stage.tensor), lambda: _units(stage))


def _units(stage: StageFacts) -> Units | None:
    target, reads = stage.problem.target, factors(stage)
    if len(reads) != 2 or stage.time_axes or len(stage.op.outputs) > 1:
        return None
    for declared in in_the_box(target, WARPS):
        own = {operand.dtype for operand in declared.operands}
        fits = own == {read.tensor.dtype for read in reads} and declared.op.reducer is not None
        if not fits or rounds(declared.op) != rounds(stage.op) or declared.tolerance > MOST_ERROR:
            continue
        if declared.output.dtype != "float32" or stage.tensor.dtype != "float32":
            continue
        if lacks(declared, target):
            continue
        ways = [_roles(declared, stage, pair) for pair in permutations(reads)]
        known = [way for way in ways if way is not None]
        # rows of the result are written in order
        return max(known, key=lambda way: way.column == stage.last, default=None)
    return None


def _roles(declared: Instruction, stage: StageFacts, reads: Sequence[Access]) -> Units | None:
    """Return the use of an instruction whose rows are of the first read, if it has one."""
    left, right = reads
    (rows, terms), (_, columns) = ([int(n) for n in t.shape] for t in declared.operands)
    op = stage.op
    row = _longest(stage, left, right, rows)
    column = _longest(stage, right, left, columns)
    steps = [
        at
        for at, axis in enumerate(op.reduce_axis)
        if isinstance(axis.extent, int)
        and axis.lo == 0
        and axis.extent % terms == 0
        and all(_adjacent(read, axis) for read in reads)
    ]
    if row is None or column is None or not steps:
        return None
    step = max(steps, key=lambda at: int(op.reduce_axis[at].extent))
    others = [
        at
        for at, axis in enumerate(op.axis)
        if at != column and is_long(axis) and left.fixed(axis) and _length(axis) > 1
    ]
    beside = others[-1] if others else -1
    return Units(declared, row, column, beside, step, (left, right))


def _longest(stage: StageFacts, read: Access, other: Access, least: int) -> int | None:
    """Return the axis that ``read`` alone has, of ``least`` elements or more, that is best.

    It is the contiguous axis of the stage, or else the longest one.
    """
    possible = [
        at
        for at, axis in enumerate(stage.op.axis)
        if other.fixed(axis) and _adjacent(read, axis) and _length(axis) >= least
    ]

    def preferred(at: int) -> tuple[bool, int]:
        return at == stage.last, _length(stage.op.axis[at])

    return max(possible, key=preferred, default=None)


def _adjacent(read: Access, axis: Axis) -> bool:
    """Return whether steps of an axis read one element after the other along one dimension."""
    steps = [step for step in read.steps(axis) if step != 0]
    return steps == [1]


def _length(axis: Axis) -> int:
    return axis.extent if isinstance(axis.extent, int) else 0


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether matrix units compute a stage at root."""
    return stage.is_reduction and stage.attached is None and units(stage) is not None


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute one tile per block, by its warps."""
    return compute_by_warps(s, stage, stage, range(len(stage.op.axis)), knobs)


def compute_by_warps(
    s: Schedule, stage: StageFacts, head: StageFacts, positions: Sequence[int], knobs: Knobs
) -> Scheduled:
    """Compute one tile of a stage per block, inside ``head``: its reader, or the stage itself.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of the stage, or -1.
    """
    use = units(stage)
    assert use is not None
    rows, columns, terms = use.shape
    sizes = _sizes(stage, use, knobs)
    depth = _depth(stage, use, sizes, knobs)
    operands = [read.tensor for read in use.operands]
    local = first(s.cache_write(stage.tensor, FRAGMENT)) if head is stage else stage.tensor
    shared = [s.cache_read(t, "shared", [local]) for t in operands]
    fragments = [s.cache_read(t, FRAGMENT, [local]) for t in shared]
    inlined = [t for t in operands if _is_inlined_here(stage, t)]
    for tensor in inlined:
        s[tensor].compute_inline()
    reader = head.after(s)
    warp, warps = _loops(s, reader, positions, sizes, {use.row: rows, use.column: columns})
    if head is not stage:
        s[local].set_scope(FRAGMENT)
    s[local].compute_at(s[head.tensor], warp)
    op = stage.after(s, local).op
    outer, inner = s[local].split(op.reduce_axis[use.step], factor=depth)
    instructions, step = s[local].split(inner, factor=terms)
    down, i = s[local].split(op.axis[use.row], factor=rows)
    across, j = s[local].split(op.axis[use.column], factor=columns)
    taps = [a for at, a in enumerate(op.reduce_axis) if at != use.step]
    others = [a for at, a in enumerate(op.axis) if at not in (use.row, use.column)]
    s[local].reorder(outer, *taps, instructions, *others, down, across, i, j, step)
    for axis in (*others, down, across):
        s[local].unroll(axis)
    every = _bytes(stage, use, 0, sizes, depth, taps) <= MOST_WEIGHTS
    for tile, fragment, read in zip(shared, fragments, use.operands):
        s[fragment].compute_at(s[local], instructions)
        # weights of one tap at a time, if the weights of all are too large; data serve all taps
        at = outer if every or read is use.operands[1] or not taps else taps[-1]
        s[tile].compute_at(s[local], at)
        _fetch(s, tile, stage, use, read, warps)
        _load(s, fragment, stage, use, read)
    s[local].tensorize(i, use.declared)
    scheduled = Scheduled(frozenset({local, *fragments, *shared}), frozenset(inlined))
    return reader.placed(OuterLoops(head.tensor, (), WARP * warps)).join(scheduled)


def _is_inlined_here(stage: StageFacts, tensor: Tensor) -> bool:
    """Return whether the fetch of an operand computes it: padding, or a light function of it."""
    flow = stage.flow
    if tensor not in flow.stages or tensor in flow.decided.stages | flow.decided.inlined:
        return False
    producer = flow.stage(tensor)
    plain = not (producer.is_reduction or producer.stays or producer.math_calls)
    return plain and producer.consumers == [stage.tensor] and len(producer.op.outputs) == 1


def _sizes(stage: StageFacts, use: Units, knobs: Knobs) -> dict[int, tuple[int, int]]:
    """Choose for each axis of the tile the elements of a warp and the number of warps."""
    rows, columns, _ = use.shape
    sizes: dict[int, tuple[int, int]] = {}
    tiles = 1
    for at, unit in ((use.row, rows), (use.beside, 1), (use.column, columns)):
        if at < 0:
            continue
        length, name = _length(stage.op.axis[at]), f"{stage.name}.{stage.axis_name(at)}"
        # the last tile is whole, too, unless the axis is one tile: no test may be in it
        each = [n for n in TILES if n * unit <= length and n * tiles <= MOST_TILES]
        own = int(knobs.choice(f"{name}.tiles", each)) if len(each) > 1 else each[0]
        tiles *= own
        most = -(-length // (own * unit))
        along = [n for n in ALONG if n <= most]
        warps = int(knobs.choice(f"{name}.warps", along)) if len(along) > 1 else along[0]
        sizes[at] = own * unit, warps
    return sizes


def _depth(stage: StageFacts, use: Units, sizes: dict[int, tuple[int, int]], knobs: Knobs) -> int:
    """Choose how many steps are in shared memory at once."""
    axes, terms = stage.op.reduce_axis, use.shape[2]
    taps = [a for at, a in enumerate(axes) if at != use.step]
    possible = [
        n * terms
        for n in DEPTHS
        if int(axes[use.step].extent) % (n * terms) == 0
        and sum(_held(stage, use, sizes, n * terms, taps)) <= SHARED
    ]
    knobs.require(bool(possible), "no tile of matrix units fits shared memory")
    return int(knobs.choice(f"{stage.name}.steps", possible))


def _held(
    stage: StageFacts, use: Units, sizes: dict[int, tuple[int, int]], depth: int,
    taps: Sequence[Axis],
) -> tuple[int, int]:  # fmt: skip
    """Return the bytes of the operands that a block has in shared memory."""
    weights = _bytes(stage, use, 0, sizes, depth, taps)
    if weights > MOST_WEIGHTS:
        weights = _bytes(stage, use, 0, sizes, depth, ())
    return weights, _bytes(stage, use, 1, sizes, depth, taps)


def _bytes(
    stage: StageFacts, use: Units, operand: int, sizes: dict[int, tuple[int, int]], depth: int,
    taps: Sequence[Axis],
) -> int:  # fmt: skip
    """Return the bytes of a tile of an operand in shared memory, with padded rows."""
    read, op = use.operands[operand], stage.op
    lengths = {op.axis[at]: each * warps for at, (each, warps) in sizes.items()}
    lengths |= {axis: _length(axis) for axis in taps}
    lengths[op.reduce_axis[use.step]] = depth
    size = itemsize(read.tensor.dtype)
    count = 1
    for dimension in range(len(read.indices)):
        moves = (abs(read.steps(a)[dimension] or 0) * (n - 1) for a, n in lengths.items())
        count *= 1 + sum(moves)
    return count // depth * (depth * size + ROW)


def _loops(
    s: Schedule, head: StageFacts, positions: Sequence[int], sizes: dict[int, tuple[int, int]],
    within: dict[int, int],
) -> tuple[Axis, int]:  # fmt: skip
    """Split a stage into blocks and warps; return the loop over the warps of a block.

    ``within`` has the elements of an instruction along each axis of it. Other loops are unrolled,
    since registers have no addresses.
    """
    tensor, blocks, warps, each, inside_each = head.tensor, [], [], [], []
    for axis, at in zip(head.op.axis, positions):
        if at not in sizes:
            blocks.append(axis)
            continue
        own, along = sizes[at]
        block, inside = s[tensor].split(axis, factor=own * along)
        warp, inside = s[tensor].split(inside, factor=own)
        blocks.append(block)
        warps.append(warp)
        if at in within:
            inside, element = s[tensor].split(inside, factor=within[at])
            inside_each.append(element)
        each.append(inside)
    s[tensor].reorder(*blocks, *warps, *each, *inside_each)
    for axis in each:
        s[tensor].unroll(axis)
    s[tensor].bind(fuse_loops(s, tensor, blocks), "blockIdx.x")
    warp = fuse_loops(s, tensor, warps)
    s[tensor].bind(warp, "threadIdx.y")
    return warp, math.prod(along for _, along in sizes.values())


def _fetch(
    s: Schedule, tile: Tensor, stage: StageFacts, use: Units, read: Access, warps: int
) -> None:
    """Make all threads of a block fetch a tile, in which the terms of a product are adjacent."""
    step = stage.op.reduce_axis[use.step]
    dimension = next(d for d, n in enumerate(read.steps(step)) if n == 1)
    axes, size = list(s[tile].op.axis), itemsize(tile.dtype)
    if dimension != len(axes) - 1:
        s[tile].transform_layout(
            lambda *dims: (*(d for n, d in enumerate(dims) if n != dimension), dims[dimension])
        )
    # rows of an odd number of pieces of 16 bytes: 8 of them are in banks of their own
    before = [axis for n, axis in enumerate(axes) if n != dimension]
    s[tile].storage_align(before[-1], 2 * ROW // size, ROW // size)
    rest, lane = s[tile].split(fuse_loops(s, tile, axes), factor=WARP)
    _, warp = s[tile].split(rest, factor=warps)
    s[tile].bind(lane, "threadIdx.x")
    s[tile].bind(warp, "threadIdx.y")


def _load(s: Schedule, fragment: Tensor, stage: StageFacts, use: Units, read: Access) -> None:
    """Load a fragment by ``ldmatrix``, whose rows are the terms that are adjacent in its tile."""
    own = use.operands.index(read)
    shape = use.declared.operands[own].shape
    chosen = next(
        (
            declared
            for declared in in_the_box(stage.problem.target, WARPS)
            if isinstance(form := declared.emit["cuda"], MatrixLoad)
            and not form.transposed
            and (declared.output.shape, declared.output.dtype) == (shape, fragment.dtype)
        ),
        None,
    )
    if chosen is None:
        return
    axes = list(s[fragment].op.axis)
    step, along = stage.op.reduce_axis[use.step], stage.op.axis[(use.row, use.column)[own]]
    terms = next(d for d, n in enumerate(read.steps(step)) if n == 1)
    across = next(d for d, n in enumerate(read.steps(along)) if n == 1)
    outer, inner = s[fragment].split(axes[across], factor=use.shape[own])
    rest = [axis for n, axis in enumerate(axes) if n not in (terms, across)]
    pair = (inner, axes[terms]) if own == 0 else (axes[terms], inner)
    s[fragment].reorder(*rest, outer, *pair)
    for axis in (*rest, outer):
        s[fragment].unroll(axis)
    s[fragment].tensorize(pair[0], chosen)


TACTIC = Tactic(
    "units", "the warps of a block compute a tile by matrix units", applies, apply,
    knobs=(
        Knob(
            "C.i.tiles", TILES, "along `i`: the number of instructions of a warp",
            Moves(rank=7, start=at_most(2)),
        ),
        Knob(
            "C.i.warps", ALONG, "along `i`: the number of warps of a block",
            Moves(rank=6, start=at_most(2)),
        ),
        Knob(
            "C.steps", "1, 2 or 4 times the terms of the instruction",
            "the number of steps of the longest reduction axis that are in shared memory at once",
            Moves(rank=12),
        ),
    ),
    alone=True,
)  # fmt: skip
