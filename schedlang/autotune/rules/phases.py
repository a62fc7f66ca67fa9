"""Sums whose steps a remainder selects, as those of a transposed convolution: a phase at a time.

Points whose indices leave the same remainder take the same steps, and share them with no others:
the polyphase form of a filter (Vaidyanathan, Multirate Systems and Filter Banks, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedlang.autotune.rules.nest import Loop, in_threads
from schedlang.autotune.rules.registers import Lane, Tile, asked, lane_axes, sums, tiles
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Binary, Const
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder

# steps of the longest reduction loop during which sums stay in registers, while what is read by
# neighbouring tiles stays in a cache
BLOCKS = (8, 16, 32, 64)
# copies of a multiply-add in the code
MOST_WRITTEN = 512


def phases(sketch: Sketch, tensor: Tensor) -> dict[int, tuple[Axis, int]]:
    """For data axes, by position, the reduction axis and the modulus of a test on both.

    The test is on the remainder of the two, added or subtracted, and a constant; the modulus
    divides both extents.
    """
    op = sketch.op(tensor)
    found: dict[int, tuple[Axis, int]] = {}
    for node in postorder([op.where] if op.where is not None else []):
        if not (isinstance(node, Binary) and node.op == "%" and isinstance(node.b, Const)):
            continue
        modulus = node.b.value
        if not isinstance(modulus, int) or modulus < 2:
            continue
        terms = {p: n for p, n in to_lin(node.a).terms.items() if p}
        data = [at for at, axis in enumerate(op.axis) if terms.get((axis,)) in (1, -1)]
        reduce = [axis for axis in op.reduce_axis if terms.get((axis,)) in (1, -1)]
        if len(terms) != 2 or len(data) != 1 or len(reduce) != 1:
            continue
        extents = (op.axis[data[0]].extent, reduce[0].extent)
        whole = all(isinstance(n, int) and n % modulus == 0 for n in extents)
        taken = data[0] in found or any(axis is reduce[0] for axis, _ in found.values())
        if whole and not taken:
            found[data[0]] = (reduce[0], modulus)
    return found


def phase_lane(sketch: Sketch, tensor: Tensor) -> Lane | None:
    """The lanes of such a sum: along memory, with nothing to pack, in tiles that divide a phase."""
    last, found = len(sketch.op(tensor).axis) - 1, phases(sketch, tensor)
    if not found or last in found:
        return None
    for lane in lane_axes(sketch, tensor, last):
        if lane.at == last and not lane.packed:
            return lane if _whole(sketch, tensor, lane, _points(sketch, tensor, found)) else None
    return None


def phased(sketch: Sketch, tensor: Tensor, lane: Lane, root: bool) -> None:
    """A phase and its steps' remainders outside; a block of steps goes past all tiles of a row.

    Sums are added up in the result, since a phase of it is no box that a buffer could hold.
    """
    s, found = sketch.s, phases(sketch, tensor)
    sizes = _points(sketch, tensor, found)
    tile = asked(sketch, tensor, _whole(sketch, tensor, lane, sizes))
    inside = {lane.at: tile.vectors * sketch.target.vector_width(tensor.dtype), **dict(tile.rows)}
    op = sketch.op(tensor)
    axes, others = list(op.axis), list(op.reduce_axis)
    loops, remainders, taps = [], [], []
    for at, (reduce, modulus) in found.items():
        axes[at], phase = s[tensor].split(axes[at], factor=modulus)
        tap, remainder = s[tensor].split(reduce, factor=modulus)
        others.remove(reduce)
        loops.append(Loop(phase, at, modulus))
        remainders.append(remainder)
        taps.append(tap)
    inner = {at: axes[at] for at in inside}
    for at, size in inside.items():
        if size < sizes[at]:
            axes[at], inner[at] = s[tensor].split(axes[at], factor=size)
    across = [axes[lane.at]] if axes[lane.at] is not inner[lane.at] else []
    for at, axis in enumerate(axes):
        if at != lane.at and axis is not inner.get(at):
            loops.append(Loop(axis, at, sizes[at] // inside.get(at, 1)))
    loops.sort(key=lambda loop: loop.extent == 1)
    blocks, others = _blocks(sketch, tensor, others)
    rows = [inner[at] for at, _ in tile.rows]
    steps = [*remainders, *blocks, *across, *others, *taps]
    s[tensor].reorder(*(loop.axis for loop in loops), *steps, *rows, inner[lane.at])
    if root:
        in_threads(sketch, tensor, loops)
    written = taps if prod(sketch.extents(taps)) * sums(tile) <= MOST_WRITTEN else []
    for axis in (*written, *rows):
        s[tensor].unroll(axis)
    s[tensor].vectorize(inner[lane.at])
    sketch.done.add(tensor)


def _points(
    sketch: Sketch, tensor: Tensor, found: dict[int, tuple[Axis, int]]
) -> tuple[int, ...]:  # fmt: skip
    """How many points of one phase there are along each data axis."""
    extents = sketch.extents(sketch.op(tensor).axis)
    return tuple(n // found[at][1] if at in found else n for at, n in enumerate(extents))


def _whole(sketch: Sketch, tensor: Tensor, lane: Lane, sizes: Sequence[int]) -> list[Tile]:
    """The tiles that divide a phase."""
    width = sketch.target.vector_width(tensor.dtype)
    return [
        t for t in tiles(sketch, tensor, lane, lane.at, sizes)
        if all(sizes[at] % n == 0 for at, n in ((lane.at, t.vectors * width), *t.rows))
    ]  # fmt: skip


def _blocks(
    sketch: Sketch, tensor: Tensor, steps: list[Axis]
) -> tuple[list[Axis], list[Axis]]:  # fmt: skip
    """The longest of some reduction loops in blocks, as a knob says, and what is inside."""
    lengths = sketch.extents(steps)
    if not steps:
        return [], []
    at = lengths.index(max(lengths))
    sizes = [n for n in BLOCKS if n < lengths[at] and lengths[at] % n == 0]
    size = sketch.knobs.choice(f"{sketch.name(tensor)}.steps", [*sizes, lengths[at]])
    if size == lengths[at]:
        return [], steps
    outer, inner = sketch.s[tensor].split(steps[at], factor=size)
    return [outer], [*steps[:at], inner, *steps[at + 1 :]]
