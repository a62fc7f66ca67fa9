"""The outer loops of a stage: tiles, blocks of tiles, their order, and threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.cpu import serpentine
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import fuse_loops, in_order
from schedlang.autotune.tactics.scheduled import Level, OuterLoops
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# the fewest evaluations of a body that are worth starting threads for
# nobody has measured this value
LEAST_STEPS = 1 << 13
# the most time of the busiest thread, as a multiple of what it is if all have as much work
# nobody has measured this value
UNEVEN = 1.25
PARALLEL = Knob(
    "C.parallel",
    "0 to the number of loops",
    "the number of outermost loops that the threads share; 0 means one thread",
    Moves(rank=27),
)
KNOBS = (
    Knob(
        "C.i.block",
        "divisors of the number of tiles",
        "the number of tiles (or elements) of a block along `i`. 1 puts the loop outside all "
        "blocks; the whole extent puts it inside every block",
        Moves(rank=28, blocks=True),
    ),
    Knob(
        "C.order",
        "permutations",
        "the order of the loops over blocks. `[1, 0]` makes the second loop the outer one. A loop "
        'with `tail="cut"` is inside the others, or outside of them if they have too few '
        "iterations for the threads",
        Moves(rank=23),
    ),
    Knob("C.inner_order", "permutations", "the order of the loops inside a block", Moves(rank=29)),
    PARALLEL,
)


@dataclass(frozen=True)
class Loop:
    """A loop along the data axis at position ``along``; ``cut``: its last tile is peeled off."""

    axis: Axis
    along: int
    extent: int
    cut: bool = False


def split_tile(
    s: Schedule, stage: StageFacts, tile: Mapping[int, int], joined: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> tuple[list[Loop], dict[int, Axis]]:  # fmt: skip
    """Split the data axes of a stage; return the loops over tiles and those inside a tile.

    The adjacent axes ``joined`` are fused first, into one at the place of the last. Along the axes
    ``whole``, the last tile is as large as the others, and stores fewer elements.
    """
    head = stage.tensor
    axes = list(stage.op.axis)
    sizes = list(stage.extents(axes))
    if len(joined) > 1:
        sizes[joined[-1]] = math.prod(sizes[at] for at in joined)
        axes[joined[-1]] = fuse_loops(s, head, [axes[at] for at in joined])
    outer, inner = [], {}
    for at, (axis, extent) in enumerate(zip(axes, sizes)):
        if at < stage.time_axes or at in joined[:-1]:
            continue
        factor = tile.get(at)
        if factor is None:
            outer.append(Loop(axis, at, extent))
        elif factor >= extent and isinstance(axis.extent, int):
            inner[at] = axis
        else:
            rest = extent % factor != 0 or not isinstance(axis.extent, int)
            rest = rest and at not in whole
            tail = "guard" if at in whole else "cut" if rest else "auto"
            over, inner[at] = s[head].split(axis, factor=factor, tail=tail)
            outer.append(Loop(over, at, -(-extent // factor), rest))
    return outer, inner


def blocks(s: Schedule, stage: StageFacts, outer: list[Loop], knobs: Knobs) -> list[Loop]:
    """Split the ``outer`` loops into blocks, with sizes and loop orders from knobs."""
    name = stage.name
    outside, inside, units = [], [], []
    for loop in outer:
        label = f"{name}.{stage.axis_name(loop.along)}"
        if loop.extent == 1:
            units.append(loop)
            continue
        # a cut loop is not split further
        sizes = [1, loop.extent] if loop.cut else list(divisors(loop.extent))
        size = knobs.choice(f"{label}.block", sizes)
        if size == 1:
            outside.append(loop)
        elif size == loop.extent:
            inside.append(loop)
        else:
            over, inner = s[stage.tensor].split(loop.axis, factor=size)
            outside.append(Loop(over, loop.along, loop.extent // size))
            inside.append(Loop(inner, loop.along, size))
    order = list(knobs.permutation(f"{name}.order", outer)) if len(outer) > 1 else outer
    place = {loop.along: n for n, loop in enumerate(order)}
    within = list(knobs.permutation(f"{name}.inner_order", outer)) if len(inside) > 1 else outer
    place_inside = {loop.along: n for n, loop in enumerate(within)}
    # a cut loop goes behind the loops that threads share, or before them if these are too few, or
    # leave one of the threads waiting
    whole = math.prod(loop.extent for loop in outside if not loop.cut)
    few = stage.problem.threads * -(-whole // stage.problem.threads) > UNEVEN * whole
    outside.sort(key=lambda loop: (loop.cut != few, place[loop.along]))
    inside.sort(key=lambda loop: place_inside[loop.along])
    # last, as a loop of one iteration would end the fusion of parallel loops
    return [*outside, *inside, *units]


def nest_of(
    s: Schedule, stage: StageFacts, tile: Mapping[int, int], inside: Sequence[Axis], work: int,
    knobs: Knobs, joined: Sequence[int] = (),
) -> tuple[OuterLoops, dict[int, Axis]]:  # fmt: skip
    """Schedule the loops of a stage at root: blocks of tiles, threads, ``inside``, then a tile.

    ``inside`` are its reduction loops. ``tile`` and ``joined`` mean the same as in
    :func:`split_tile`, and ``work`` the same as in :func:`in_threads`. Return the outer loops, and
    those inside a tile.
    """
    outer, inner = split_tile(s, stage, tile, joined)
    loops = blocks(s, stage, outer, knobs)
    in_order(s, stage.tensor, [*(loop.axis for loop in loops), *inside, *inner.values()])
    levels = in_threads(s, stage, loops, work, knobs)
    return OuterLoops(stage.tensor, tuple(levels)), inner


def in_threads(
    s: Schedule, stage: StageFacts, loops: list[Loop], work: int, knobs: Knobs,
    reread: int = 0, along: int = -1,
) -> list[Level]:  # fmt: skip
    """Fuse outermost loops until every thread has work, and make the result parallel.

    ``work`` is the number of evaluations in all loops. Each time step reads ``reread`` bytes again;
    blocks ``along`` that axis read different parts of them. If the caches do not hold them, a knob
    may let the blocks of a thread go back and forth. Return the levels of the nest.
    """
    head, threads = stage.tensor, stage.problem.threads
    first = next((n for n, loop in enumerate(loops) if loop.cut or loop.extent == 1), len(loops))
    # a cut loop cannot be fused with others
    alone = first == 0 and bool(loops) and loops[0].extent > 1
    real = loops[: 1 if alone else first]
    counts = [math.prod(loop.extent for loop in real[:n]) for n in range(1, len(real) + 1)]
    enough = [n for n, count in enumerate(counts, 1) if count >= threads]
    if not enough:
        enough = [len(real)] if real else []
    # stop at some tens of tasks per thread, as each fused loop costs index arithmetic
    useful = [n for n in enough if n == enough[0] or counts[n - 2] < 16 * threads]
    # a short stage, or one time step of a scan, may be too little work to start threads for
    if useful and (work < LEAST_STEPS or stage.time_axes):
        steps = max(1, math.prod(stage.extents(stage.op.axis[: stage.time_axes])))
        useful = [*useful, 0] if work // steps >= LEAST_STEPS else [0, *useful]
    many = knobs.choice(f"{stage.name}.parallel", useful) if useful else 0
    levels = [Level(loop.axis, (loop.along,), loop.extent) for loop in loops]
    if many > 1:
        together = loops[:many]
        pieces, axes = tuple(u.extent for u in together), tuple(u.along for u in together)
        loop = s[head].fuse(*(u.axis for u in together))
        levels = [Level(loop, axes, counts[many - 1], pieces), *levels[many:]]
    parallel, whole = many > 0, bool(loops) and not loops[0].cut
    if whole and serpentine.chosen(stage, levels[0], along, reread, parallel, knobs):
        levels[:1] = serpentine.back_and_forth(s, stage, levels[0], parallel)
    if parallel:
        s[head].parallel(levels[0].loop)
    return levels
