"""The outer loops of a stage: tiles, blocks of tiles, their order, and threads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.autotune.knobs import divisors
from schedlang.autotune.rules.sketch import Level, Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# the fewest evaluations of a body that are worth starting threads for
LEAST_STEPS = 1 << 13


@dataclass(frozen=True)
class Loop:
    """A loop along the data axis at position ``along``; ``cut``: its last tile is peeled off."""

    axis: Axis
    along: int
    extent: int
    cut: bool = False


def split_tile(
    sketch: Sketch, head: Tensor, tile: Mapping[int, int], joined: Sequence[int] = ()
) -> tuple[list[Loop], dict[int, Axis]]:
    """Split the data axes of ``head``; return the loops over tiles and those inside a tile.

    The adjacent axes ``joined`` are fused first, into one at the place of the last.
    """
    s = sketch.s
    axes = list(s[head].op.axis)
    sizes = list(sketch.extents(axes))
    if len(joined) > 1:
        sizes[joined[-1]] = math.prod(sizes[at] for at in joined)
        axes[joined[-1]] = fused(s, head, [axes[at] for at in joined])
    outer, inner = [], {}
    for at, (axis, extent) in enumerate(zip(axes, sizes)):
        if at < sketch.time_axes(head) or at in joined[:-1]:
            continue
        factor = tile.get(at)
        if factor is None:
            outer.append(Loop(axis, at, extent))
        elif factor >= extent and isinstance(axis.extent, int):
            inner[at] = axis
        else:
            rest = extent % factor != 0 or not isinstance(axis.extent, int)
            over, inner[at] = s[head].split(axis, factor=factor, tail="cut" if rest else "auto")
            outer.append(Loop(over, at, -(-extent // factor), rest))
    return outer, inner


def blocks(sketch: Sketch, head: Tensor, outer: list[Loop]) -> list[Loop]:
    """Split the ``outer`` loops into blocks, with sizes and loop orders from knobs."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(head)
    outside, inside, units = [], [], []
    for loop in outer:
        label = f"{name}.{sketch.axis_name(head, loop.along)}"
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
            over, inner = s[head].split(loop.axis, factor=size)
            outside.append(Loop(over, loop.along, loop.extent // size))
            inside.append(Loop(inner, loop.along, size))
    order = list(knobs.permutation(f"{name}.order", outer)) if len(outer) > 1 else outer
    place = {loop.along: n for n, loop in enumerate(order)}
    within = list(knobs.permutation(f"{name}.inner_order", outer)) if len(inside) > 1 else outer
    place_inside = {loop.along: n for n, loop in enumerate(within)}
    # a cut loop goes behind the loops that threads share, or before them if these are too few
    few = math.prod(loop.extent for loop in outside if not loop.cut) < sketch.threads
    outside.sort(key=lambda loop: (loop.cut != few, place[loop.along]))
    inside.sort(key=lambda loop: place_inside[loop.along])
    # last, as a loop of one iteration would end the fusion of parallel loops
    return [*outside, *inside, *units]


def in_threads(sketch: Sketch, head: Tensor, loops: list[Loop], work: int) -> list[Level]:
    """Fuse outermost loops until every thread has work, and make the result parallel.

    ``work`` is the number of evaluations in all loops. Returns the levels of the nest.
    """
    s = sketch.s
    first = next((n for n, loop in enumerate(loops) if loop.cut or loop.extent == 1), len(loops))
    # a cut loop cannot be fused with others
    alone = first == 0 and bool(loops) and loops[0].extent > 1
    real = loops[: 1 if alone else first]
    counts = [math.prod(loop.extent for loop in real[:n]) for n in range(1, len(real) + 1)]
    enough = [n for n, count in enumerate(counts, 1) if count >= sketch.threads]
    if not enough:
        enough = [len(real)] if real else []
    # stop at some tens of tasks per thread, as each fused loop costs index arithmetic
    useful = [n for n in enough if n == enough[0] or counts[n - 2] < 16 * sketch.threads]
    # a short stage, or one time step of a scan, may be too little work to start threads for
    if useful and (work < LEAST_STEPS or sketch.time_axes(head)):
        useful = [0, *useful]
    many = sketch.knobs.choice(f"{sketch.name(head)}.parallel", useful) if useful else 0
    if not many:
        return [Level(loop.axis, (loop.along,), loop.extent) for loop in loops]
    together, rest = loops[:many], loops[many:]
    loop = s[head].fuse(*(u.axis for u in together)) if many > 1 else together[0].axis
    s[head].parallel(loop)
    along = tuple(u.along for u in together)
    return [
        Level(loop, along, counts[many - 1], tuple(u.extent for u in together)),
        *(Level(r.axis, (r.along,), r.extent) for r in rest),
    ]


def in_order(s: Schedule, tensor: Tensor, loops: Sequence[Axis]) -> None:
    """Reorder loops from outer to inner; a single loop needs no step."""
    if len(loops) > 1:
        s[tensor].reorder(*loops)


def fused(s: Schedule, tensor: Tensor, axes: Sequence[Axis]) -> Axis:
    """Fuse adjacent loops into one; without any, make a loop of a single iteration."""
    if not axes:
        return s[tensor].fuse()
    whole = axes[0]
    for axis in axes[1:]:
        whole = s[tensor].fuse(whole, axis)
    return whole


__all__ = ["LEAST_STEPS", "Loop", "blocks", "fused", "in_order", "in_threads", "split_tile"]
