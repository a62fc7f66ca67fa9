"""A reduction whose sums are accumulated in memory, a block of reduction steps at a time.

Each block of steps visits all tiles of a row, so that an operand larger than a cache is read once
and in order. The tactic also serves reductions whose steps depend on a remainder, such as a
transposed convolution. There, all points whose indices leave the same remainder form a phase, which
takes the same steps (the polyphase form: Vaidyanathan, Multirate Systems and Filter Banks, 4.3).
The points of a phase are not a box, so that they have no local copy of their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.nest import PARALLEL, Loop, in_threads
from schedlang.autotune.tactics.cpu.tile_sizes import (
    TILE,
    Lane,
    Tile,
    choose_tile,
    lane_axes,
    row_axes,
    sums,
    tiles,
)
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import in_order
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.expr.nodes import Axis, Binary, Const
from schedlang.expr.visit import postorder
from schedlang.index.simplify import to_lin
from schedlang.schedule.schedule import Schedule

# steps of the longest reduction loop in a block, during which a tile's sums stay in registers and
# the data that adjacent tiles share stay in a cache
# a search decides among them
BLOCKS = (8, 16, 32, 64)
# numbers of groups of tiles along the lanes, which threads share
# a search decides among them
GROUPS = (1, 2, 4, 8, 16)
# the most steps of a block, where none of the numbers above divides
# nobody has measured this value
MOST_STEPS = 64
# numbers of groups of tiles that none of them divides: the last group has fewer tiles
# a search decides among them
UNEVEN = (1, 2, 4)
# bytes of an operand that is too large for the caches of a core
# nobody has measured this value
LARGE = 2 << 20
# the most copies of a multiply-add where taps are unrolled
# nobody has measured this value
MOST_TAPS = 512
# by position of a data axis: the reduction axis and the modulus of a test on both
Phases = dict[int, tuple[Axis, int]]


def phases(stage: StageFacts) -> Phases:
    """Return the phases of a reduction: for a data axis, by position, a reduction axis and modulus.

    The condition of the reduction tests the remainder of their sum or difference, and the modulus
    divides both extents.
    """
    op = stage.op
    phased: Phases = {}
    for node in postorder([op.where] if op.where is not None else []):
        if not (isinstance(node, Binary) and node.op == "%" and isinstance(node.b, Const)):
            continue
        modulus = node.b.value
        if not isinstance(modulus, int) or modulus < 2:
            continue
        terms = {p: n for p, n in to_lin(node.a).terms.items() if p}
        axes = list(enumerate(op.axis))[stage.time_axes :]
        data = [at for at, axis in axes if terms.get((axis,)) in (1, -1)]
        reduce = [axis for axis in op.reduce_axis if terms.get((axis,)) in (1, -1)]
        if len(terms) != 2 or len(data) != 1 or len(reduce) != 1:
            continue
        extents = (op.axis[data[0]].extent, reduce[0].extent)
        whole = all(isinstance(n, int) and n % modulus == 0 for n in extents)
        in_use = data[0] in phased or any(axis is reduce[0] for axis, _ in phased.values())
        if whole and not in_use:
            phased[data[0]] = (reduce[0], modulus)
    return phased


def step_lane(stage: StageFacts) -> Lane | None:
    """Return the lanes of a reduction that this tactic serves, or ``None``.

    The lanes are contiguous and nothing is packed. The reduction must have phases or a large
    operand.
    """
    phased, last = phases(stage), stage.last
    lane = next((x for x in lane_axes(stage, last) if x.at == last), None)
    if lane is None or lane.packed or last in phased:
        return None
    large = any(stage.problem.bytes(read.tensor) > LARGE for read in _worth_streaming(stage, lane))
    if not phased and not (large and _block_sizes(stage, stage.op.reduce_axis)):
        return None
    return lane if _tiles(stage, lane, phased) else None


def _worth_streaming(stage: StageFacts, lane: Lane) -> Sequence[Access]:
    """Return the reads of operands that are worth streaming, in order and once.

    If a tile has rows, these are the reads that its rows share. Otherwise they are all reads that
    are contiguous along the lanes, but for panels: a tile reads each panel in order by itself.
    """
    if row_axes(stage, lane.at):
        return lane.packable
    axis = stage.op.axis[lane.at]
    lanes = min(stage.width, *stage.extents([axis]))
    whole = (read for read in stage.reads if read.own_dimension(axis) is not None)
    return [read for read in whole if read.contiguous(axis, lanes)]


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the reduction has phases or a large operand, and contiguous lanes."""
    one = stage.is_reduction and len(stage.op.outputs) == 1 and not stage.is_scan_step
    return one and step_lane(stage) is not None


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Schedule a reduction that accumulates in memory, with its contiguous axis vectorized.

    Phases, groups of tiles along the lanes and other tiles are shared among threads. Inside of
    these, the reduction is split into blocks of steps.
    """
    tensor, width = stage.tensor, stage.width
    lane = step_lane(stage)
    assert lane is not None, "the tactic applies"
    phased = phases(stage)
    sizes = _points_of_phase(stage, phased)
    tile = choose_tile(stage, _tiles(stage, lane, phased), knobs)
    inside = {lane.at: tile.vectors * width, **dict(tile.rows)}
    cut = _split_phases(s, stage, phased)
    inner = {at: cut.axes[at] for at in inside}
    group = _group(s, stage, cut, lane.at, inside[lane.at], sizes[lane.at], knobs)
    ragged = {at for at, size in inside.items() if size < sizes[at] and sizes[at] % size}
    for at, size in inside.items():
        if size < sizes[at]:
            tail = "cut" if at in ragged else "auto"
            cut.axes[at], inner[at] = s[tensor].split(cut.axes[at], factor=size, tail=tail)
    counts = {at: -(-sizes[at] // inside.get(at, 1)) for at in range(len(sizes))}
    moving = list(enumerate(cut.axes))[stage.time_axes :]
    past = {
        at: Loop(axis, at, counts[at], at in ragged)
        for at, axis in moving
        if axis is not inner.get(at)
    }
    across = _threads(stage, cut.loops, past, lane.at, group, knobs)
    blocks, steps = _blocks(s, stage, cut.steps, knobs)
    rows = [inner[at] for at, _ in tile.rows]
    order = [*cut.remainders, *blocks, *across, *steps, *cut.taps, *rows, inner[lane.at]]
    in_order(s, tensor, [*(loop.axis for loop in cut.loops), *order])
    if stage.attached is None:
        in_threads(s, stage, cut.loops, stage.evaluations, knobs)
    unrolled = cut.taps if prod(stage.extents(cut.taps)) * sums(tile) <= MOST_TAPS else []
    for axis in (*unrolled, *rows):
        s[tensor].unroll(axis)
    s[tensor].vectorize(inner[lane.at])
    return Scheduled(frozenset({tensor}))


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


def _split_phases(s: Schedule, stage: StageFacts, phased: Phases) -> _Cut:
    op, view = stage.op, s[stage.tensor]
    cut = _Cut(list(op.axis), list(op.reduce_axis))
    for at, (reduce, modulus) in phased.items():
        cut.axes[at], phase = view.split(cut.axes[at], factor=modulus)
        tap, remainder = view.split(reduce, factor=modulus)
        cut.steps.remove(reduce)
        cut.loops.append(Loop(phase, at, modulus))
        cut.remainders.append(remainder)
        cut.taps.append(tap)
    return cut


def _group(
    s: Schedule, stage: StageFacts, cut: _Cut, lane: int, tile: int, size: int, knobs: Knobs
) -> Loop | None:
    """Split the lanes into groups of tiles; return the loop over groups, if there are tiles.

    The last group is smaller if the tiles do not divide into groups, or the lanes into tiles.
    """
    if tile >= size:
        return None
    count = -(-size // tile)
    even = [n for n in GROUPS if count % n == 0]
    options = even if len(even) > 1 or cut.loops else [n for n in UNEVEN if n <= count]
    if len(cut.axes) == 1:
        # no other loop has work for the threads
        options = [n for n in options if n >= stage.problem.threads] or options
    groups = knobs.choice(f"{stage.name}.groups", options)
    length = -(-count // groups) * tile
    uneven = size % length != 0
    how = "cut" if uneven else "auto"
    axis, cut.axes[lane] = s[stage.tensor].split(cut.axes[lane], factor=length, tail=how)
    return Loop(axis, lane, -(-size // length), uneven)


def _threads(
    stage: StageFacts, loops: list[Loop], past: dict[int, Loop], lane: int, group: Loop | None,
    knobs: Knobs,
) -> list[Axis]:  # fmt: skip
    """Add the loops that threads share to ``loops``; return the others, which go inside blocks."""
    across = []
    if group is not None:
        loops.append(group)
        across.append(past.pop(lane).axis)
    if knobs.choice(f"{stage.name}.past", ["lanes", "all"]) == "lanes":
        loops += past.values()
    else:
        across += [loop.axis for loop in past.values()]
    # last, as loops of one iteration cannot be shared
    loops.sort(key=lambda loop: loop.extent == 1)
    return across


def _points_of_phase(stage: StageFacts, phased: Phases) -> tuple[int, ...]:
    """Return the points of one phase along each data axis."""
    sizes = stage.lengths
    return tuple(n // phased[at][1] if at in phased else n for at, n in enumerate(sizes))


def _tiles(stage: StageFacts, lane: Lane, phased: Phases) -> list[Tile]:
    """Return the tiles of whole vectors. With phases, a tile divides the points of a phase."""
    sizes, width = _points_of_phase(stage, phased), stage.width
    fitting = tiles(stage, lane, lane.at, sizes if phased else ())
    return [
        t
        for t in fitting
        if not (phased and any(sizes[at] % n for at, n in ((lane.at, t.vectors * width), *t.rows)))
        and t.vectors * width <= sizes[lane.at]
    ]


def _block_sizes(stage: StageFacts, steps: Sequence[Axis]) -> list[int]:
    """Return the block sizes that divide the longest loop."""
    length = max(stage.extents(steps), default=1)
    fitting = [n for n in divisors(length) if min(BLOCKS) <= n < min(length, MOST_STEPS + 1)]
    return [n for n in BLOCKS if n in fitting] or fitting


def _blocks(
    s: Schedule, stage: StageFacts, steps: list[Axis], knobs: Knobs
) -> tuple[list[Axis], list[Axis]]:
    """Split the longest reduction loop into blocks; return the loop over blocks and the others."""
    if not steps:
        return [], []
    lengths = stage.extents(steps)
    at = lengths.index(max(lengths))
    sizes = [*_block_sizes(stage, steps), lengths[at]]
    size = knobs.choice(f"{stage.name}.steps", sizes)
    if size == lengths[at]:
        return [], steps
    outer, within = s[stage.tensor].split(steps[at], factor=size)
    return [outer], [*steps[:at], *steps[at + 1 :], within]


TACTIC = Tactic(
    "steps", "keep the sums in memory and add one block of reduction steps at a time",
    applies, apply,
    knobs=(
        TILE,
        Knob(
            "C.steps", "8, 16, 32, 64 or all",
            "the number of reduction steps in a block; all steps means no blocks. If none of these "
            "divides the steps, it is any divisor from 8 to 64",
            Moves(rank=18),
        ),
        Knob(
            "C.groups", GROUPS,
            "the number of groups of tiles along the lanes; threads share the groups. Without one "
            "of these that divides the number of tiles, it is 1, 2 or 4, and the last group is "
            "smaller",
            Moves(rank=16),
        ),
        Knob(
            "C.past", ("lanes", "all"),
            "the tiles that one block of steps updates before the next block starts: the tiles "
            "along the `lanes`, or along `all` axes",
            Moves(rank=17),
        ),
        PARALLEL,
    ),
)  # fmt: skip
