"""Packing: copies of operands in the order in which a register tile reads them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.attach import attach, attach_inside
from schedlang.autotune.tactics.choosing import choosing_axes
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.loops import fuse_loops, in_order
from schedlang.autotune.tactics.scheduled import AttachPoint, Placement, Scheduled
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# rows that are transposed in registers at once
# nobody has measured this value
SQUARE = 16
# the most adjacent elements that are unrolled, of steps side by side
# nobody has measured this value
MOST_COLUMNS = 64
# the most adjacent panels that are filled together, to read each cache line once, and the most
# bytes of a row of them: the streams to more panels would share cache sets
# nobody has measured these values
MOST_PANELS, ROW_BYTES = 4, 256
KNOBS = (
    Knob(
        "B.global.at",
        "loops, from 0; −1",
        "the loop at which the copy is made; −1 is root. If `B` is a stage that is computed in "
        "that order itself, the knob is `B.at`",
        Moves(rank=8),
    ),
)


def pack(
    s: Schedule, reader: StageFacts, read: Access, axis: Axis, lanes: int, place: Placement,
    knobs: Knobs, recomputed: float, steps: tuple[Axis, int] | None = None,
) -> tuple[Tensor, Scheduled]:  # fmt: skip
    """Pack the operand of ``read`` for ``reader``, in panels of ``lanes`` elements along ``axis``.

    The dimensions that only data axes index come first, then the panels, then the dimensions that
    reduction axes index, then the lanes. The copy is computed at root. It may also be computed at a
    loop of its reader's nest, if the reader reads the tensor only once. Return the copy.
    ``recomputed`` counts operations that are repeated beside those that the decisions so far
    repeat. ``steps`` are a reduction axis and how many of its elements stand side by side in each
    lane.
    """
    once = sum(r.tensor is read.tensor for r in reader.reads) == 1
    dimension = read.own_dimension(axis)
    assert dimension is not None
    others = [d for d in range(len(read.indices)) if d != dimension]
    inner = [d for d in others if read.depends(d, reader.op.reduce_axis)]
    outer = [d for d in others if d not in inner]
    packed = read.tensor
    if not is_own_copy(reader, packed):
        packed = s.cache_read(packed, "global", [reader.tensor])
    stepped = -1
    if steps is not None:
        stepped = read.own_dimension(steps[0]) or 0
        s[packed].transform_layout(
            lambda *dims: (
                *(dims[d] for d in outer),
                dims[dimension] // lanes,
                *(dims[d] // steps[1] if d == stepped else dims[d] for d in inner),
                dims[dimension] % lanes,
                dims[stepped] % steps[1],
            )
        )
    elif dimension != len(read.indices) - 1 or lanes < reader.extents([axis])[0]:
        s[packed].transform_layout(
            lambda *dims: (
                *(dims[d] for d in outer),
                dims[dimension] // lanes,
                *(dims[d] for d in inner),
                dims[dimension] % lanes,
            )
        )
    stage = reader.after(s, packed)
    scheduled = Scheduled(frozenset({packed}))
    if once:
        scheduled = scheduled.join(
            attach_inside(stage, [(read, place)], place.nest, knobs, recomputed)
        )
    point = scheduled.attached.get(packed)
    attach(s, stage, point)
    axes = stage.op.axis
    panel, lane = s[packed].split(axes[dimension], factor=lanes)
    rows, front = [axes[d] for d in inner], [*(axes[d] for d in outer), panel]
    together = []
    contiguous = is_contiguous(stage, axes[dimension])
    if contiguous:
        along = [p for p, a in place.along.items() if a is axis]
        most = min(MOST_PANELS, ROW_BYTES // (lanes * itemsize(packed.dtype)))
        count = _panels_together(stage, front, along, point, most)
        if count > 1:
            front[-1], neighbour = s[packed].split(panel, factor=count)
            together = [neighbour]
    fixed = all(isinstance(axis.extent, int) for axis in rows)
    long = [a for a in rows if a.extent != 1] if fixed and not contiguous else []
    transposed = bool(long) and is_contiguous(stage, long[-1])
    if steps is not None:
        at = inner.index(stepped)
        before = [*front, *rows[:at]]
        _side_by_side(s, stage, before, rows[at:], together, lane, steps[1], transposed)
    else:
        in_order(s, packed, [*front, *rows, *together, lane])
        if transposed:
            row = fuse_loops(s, packed, rows)
            _, step = s[packed].split(row, factor=SQUARE, tail="cut")
            s[packed].unroll(step)
    s[packed].vectorize(lane)
    if point is None:
        s[packed].parallel(fuse_loops(s, packed, front))
    return packed, scheduled


def _side_by_side(
    s: Schedule, stage: StageFacts, front: Sequence[Axis], rows: Sequence[Axis],
    together: Sequence[Axis], lane: Axis, count: int, transposed: bool,
) -> None:  # fmt: skip
    """Order the loops of a copy in which ``count`` elements along ``rows[0]`` stand side by side.

    If it is ``transposed``, the rows of its source are adjacent elements.
    """
    along, *others = rows
    over, step = s[stage.tensor].split(along, factor=count)
    columns = count * prod(stage.extents(others)) if transposed else 0
    if 0 < columns <= MOST_COLUMNS:
        # then whole blocks are loaded and transposed in registers
        in_order(s, stage.tensor, [*front, over, *together, step, *others, lane])
        s[stage.tensor].unroll(fuse_loops(s, stage.tensor, [step, *others]))
        return
    in_order(s, stage.tensor, [*front, over, *others, *together, lane, step])
    s[stage.tensor].unroll(step)


def is_contiguous(packed: StageFacts, axis: Axis) -> bool:
    """Return whether the source of a copy is contiguous along ``axis``."""
    return any(read.contiguous(axis) for read in packed.reads)


def _panels_together(
    packed: StageFacts, front: Sequence[Axis], along: Sequence[int], point: AttachPoint | None,
    most: int,
) -> int:  # fmt: skip
    """Return how many adjacent panels are filled together: a divisor of the panels of one copy.

    ``front`` are the loops outside a panel; the last one, over panels, goes ``along`` these data
    axes of the nest's head.
    """
    panels = front[-1].extent
    if not isinstance(panels, int):
        return 1
    if point is None:
        # leave work for each thread that copies
        most = min(most, prod(packed.extents(front)) // packed.problem.threads)
    else:
        counts = point.nest.iterations(point.level)
        panels, cut = divmod(panels, prod(counts.get(p, 1) for p in along))
        if cut:
            return 1
    return max(n for n in divisors(panels) if n <= max(1, most))


def is_own_copy(reader: StageFacts, tensor: Tensor) -> bool:
    """Return whether ``tensor`` can serve as the packed copy itself.

    It must be an elementwise stage that only ``reader`` reads. A reduction has its own tile, and a
    stage that chooses between values loops of its own.
    """
    op = tensor.op
    if not isinstance(op, ComputeOp) or op.reducer is not None or len(op.outputs) > 1:
        return False
    stage = reader.flow.stage(tensor)
    own = not stage.is_output and stage.consumers == [reader.tensor]
    return own and not choosing_axes(stage)
