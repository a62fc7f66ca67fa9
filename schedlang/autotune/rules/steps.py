"""The rule for sums that are accumulated in memory, a block of reduction steps at a time.

Each block of steps visits all tiles of a row, so that an operand larger than a cache is read once
and in order. The rule also serves reductions whose steps depend on a remainder, such as a
transposed convolution. There, all points whose indices leave the same remainder form a phase, which
takes the same steps (the polyphase form: Vaidyanathan, Multirate Systems and Filter Banks, 4.3).
The points of a phase are not a box, so that they have no local copy of their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from schedlang.autotune.knobs import divisors
from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.nest import Loop, in_order, in_threads
from schedlang.autotune.rules.registers import (
    Lane,
    Tile,
    choose_tile,
    lane_axes,
    row_axes,
    sums,
    tiles,
)
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Binary, Const
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder

# steps of the longest reduction loop in a block, during which a tile's sums stay in registers and
# the data that adjacent tiles share stay in a cache
BLOCKS = (8, 16, 32, 64)
# numbers of groups of tiles along the lanes, which threads share
GROUPS = (1, 2, 4, 8, 16)
# bytes of an operand that is too large for the caches of a core
LARGE = 2 << 20
# the most copies of a multiply-add where taps are unrolled
MOST_TAPS = 512
# by position of a data axis: the reduction axis and the modulus of a test on both
Phases = dict[int, tuple[Axis, int]]


def phases(sketch: Sketch, tensor: Tensor) -> Phases:
    """Return the phases of a reduction: for a data axis, by position, a reduction axis and modulus.

    The condition of the reduction tests the remainder of their sum or difference, and the modulus
    divides both extents.
    """
    op = sketch.op(tensor)
    found: Phases = {}
    for node in postorder([op.where] if op.where is not None else []):
        if not (isinstance(node, Binary) and node.op == "%" and isinstance(node.b, Const)):
            continue
        modulus = node.b.value
        if not isinstance(modulus, int) or modulus < 2:
            continue
        terms = {p: n for p, n in to_lin(node.a).terms.items() if p}
        axes = list(enumerate(op.axis))[sketch.time_axes(tensor) :]
        data = [at for at, axis in axes if terms.get((axis,)) in (1, -1)]
        reduce = [axis for axis in op.reduce_axis if terms.get((axis,)) in (1, -1)]
        if len(terms) != 2 or len(data) != 1 or len(reduce) != 1:
            continue
        extents = (op.axis[data[0]].extent, reduce[0].extent)
        whole = all(isinstance(n, int) and n % modulus == 0 for n in extents)
        taken = data[0] in found or any(axis is reduce[0] for axis, _ in found.values())
        if whole and not taken:
            found[data[0]] = (reduce[0], modulus)
    return found


def step_lane(sketch: Sketch, tensor: Tensor) -> Lane | None:
    """Return the lanes of a reduction that this rule serves, or ``None``.

    The lanes are contiguous and nothing is packed. The reduction must have phases or a large
    operand.
    """
    op, found = sketch.op(tensor), phases(sketch, tensor)
    last = sketch.last(tensor)
    lane = next((x for x in lane_axes(sketch, tensor, last) if x.at == last), None)
    if lane is None or lane.packed or last in found:
        return None
    large = any(sketch.bytes(read.tensor) > LARGE for read in _streamed(sketch, tensor, lane))
    if not found and not (large and _block_sizes(sketch, op.reduce_axis)):
        return None
    return lane if _tiles(sketch, tensor, lane, found) else None


def _streamed(sketch: Sketch, tensor: Tensor, lane: Lane) -> Sequence[Access]:
    """Return the reads of operands that are worth streaming, in order and once.

    If a tile has rows, these are the reads that its rows share. Otherwise they are all reads that
    are contiguous along the lanes.
    """
    if row_axes(sketch, tensor, lane.at):
        return lane.packable
    axis = sketch.op(tensor).axis[lane.at]
    lanes = min(sketch.width(tensor), *sketch.extents([axis]))
    return [read for read in sketch.reads(tensor) if read.contiguous(axis, lanes)]


def stepped(sketch: Sketch, tensor: Tensor, lane: Lane, root: bool) -> None:
    """Schedule a reduction that accumulates in memory, vectorized along ``lane``.

    Phases, groups of tiles along the lanes and other tiles are shared among threads. Inside of
    these, the reduction is split into blocks of steps.
    """
    s, width = sketch.s, sketch.width(tensor)
    found = phases(sketch, tensor)
    sizes = _points_of_phase(sketch, tensor, found)
    tile = choose_tile(sketch, tensor, _tiles(sketch, tensor, lane, found))
    inside = {lane.at: tile.vectors * width, **dict(tile.rows)}
    cut = _phased(sketch, tensor, found)
    inner = {at: cut.axes[at] for at in inside}
    ragged = {at for at, size in inside.items() if size < sizes[at] and sizes[at] % size}
    for at, size in inside.items():
        if size < sizes[at]:
            tail = "cut" if at in ragged else "auto"
            cut.axes[at], inner[at] = s[tensor].split(cut.axes[at], factor=size, tail=tail)
    counts = {at: -(-sizes[at] // inside.get(at, 1)) for at in range(len(sizes))}
    moving = list(enumerate(cut.axes))[sketch.time_axes(tensor) :]
    past = {
        at: Loop(axis, at, counts[at], at in ragged)
        for at, axis in moving if axis is not inner.get(at)
    }  # fmt: skip
    across = _threads(sketch, tensor, cut.loops, past, lane.at)
    blocks, steps = _blocks(sketch, tensor, cut.steps)
    rows = [inner[at] for at, _ in tile.rows]
    order = [*cut.remainders, *blocks, *across, *steps, *cut.taps, *rows, inner[lane.at]]
    in_order(s, tensor, [*(loop.axis for loop in cut.loops), *order])
    if root:
        in_threads(sketch, tensor, cut.loops, sketch.evaluations(tensor))
    unrolled = cut.taps if prod(sketch.extents(cut.taps)) * sums(tile) <= MOST_TAPS else []
    for axis in (*unrolled, *rows):
        s[tensor].unroll(axis)
    s[tensor].vectorize(inner[lane.at])
    sketch.done.add(tensor)


@dataclass
class _Cut:
    """The axes of a reduction after the phases are split off.

    * ``axes``: the data axes, over the points of a phase. ``loops``: the loops over phases.
    * ``remainders``, ``taps``: the two parts of each reduction axis that is split by a modulus.
    * ``steps``: the other reduction axes.
    """

    axes: list[Axis]
    steps: list[Axis]
    loops: list[Loop] = field(default_factory=list)
    remainders: list[Axis] = field(default_factory=list)
    taps: list[Axis] = field(default_factory=list)


def _phased(sketch: Sketch, tensor: Tensor, found: Phases) -> _Cut:
    op, view = sketch.op(tensor), sketch.s[tensor]
    cut = _Cut(list(op.axis), list(op.reduce_axis))
    for at, (reduce, modulus) in found.items():
        cut.axes[at], phase = view.split(cut.axes[at], factor=modulus)
        tap, remainder = view.split(reduce, factor=modulus)
        cut.steps.remove(reduce)
        cut.loops.append(Loop(phase, at, modulus))
        cut.remainders.append(remainder)
        cut.taps.append(tap)
    return cut


def _threads(
    sketch: Sketch, tensor: Tensor, loops: list[Loop], past: dict[int, Loop], lane: int
) -> list[Axis]:
    """Add the loops that threads share to ``loops``; return the others, which go inside blocks."""
    knobs, name, across = sketch.knobs, sketch.name(tensor), []
    if lane in past:
        tiles_there = past.pop(lane)
        fitting = [n for n in GROUPS if tiles_there.extent % n == 0]
        groups = knobs.choice(f"{name}.groups", fitting)
        group, rest = sketch.s[tensor].split(tiles_there.axis, nparts=groups)
        loops.append(Loop(group, lane, groups))
        across.append(rest)
    if knobs.choice(f"{name}.past", ["lanes", "all"]) == "lanes":
        loops += past.values()
    else:
        across += [loop.axis for loop in past.values()]
    # last, as loops of one iteration cannot be shared
    loops.sort(key=lambda loop: loop.extent == 1)
    return across


def _points_of_phase(sketch: Sketch, tensor: Tensor, found: Phases) -> tuple[int, ...]:
    """Return the points of one phase along each data axis."""
    sizes = sketch.sizes_of(tensor)
    return tuple(n // found[at][1] if at in found else n for at, n in enumerate(sizes))


def _tiles(sketch: Sketch, tensor: Tensor, lane: Lane, found: Phases) -> list[Tile]:
    """Return the tiles of whole vectors; with phases, a tile divides the points of a phase."""
    sizes, width = _points_of_phase(sketch, tensor, found), sketch.width(tensor)
    fitting = tiles(sketch, tensor, lane, lane.at, sizes if found else ())
    return [
        t for t in fitting
        if sizes[lane.at] % (t.vectors * width) == 0
        and not (found and any(sizes[at] % n for at, n in t.rows))
    ]  # fmt: skip


def _block_sizes(sketch: Sketch, steps: Sequence[Axis]) -> list[int]:
    """Return the block sizes that divide the longest loop."""
    length = max(sketch.extents(steps), default=1)
    return [n for n in BLOCKS if n < length and n in divisors(length)]


def _blocks(
    sketch: Sketch, tensor: Tensor, steps: list[Axis]
) -> tuple[list[Axis], list[Axis]]:  # fmt: skip
    """Split the longest reduction loop into blocks; return the loop over blocks and the others."""
    if not steps:
        return [], []
    lengths = sketch.extents(steps)
    at = lengths.index(max(lengths))
    sizes = [*_block_sizes(sketch, steps), lengths[at]]
    size = sketch.knobs.choice(f"{sketch.name(tensor)}.steps", sizes)
    if size == lengths[at]:
        return [], steps
    outer, within = sketch.s[tensor].split(steps[at], factor=size)
    return [outer], [*steps[:at], *steps[at + 1 :], within]
