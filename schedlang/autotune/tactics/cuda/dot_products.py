"""Dot products of a GPU: instructions by which a thread adds several products of bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import permutations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.known_instructions import (
    PLAIN,
    factors,
    in_the_box,
    is_whole_dimension,
    lacks,
)
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.instructions.box import steps_of
from schedlang.instructions.declaration import Instruction
from schedlang.schedule.schedule import Schedule

KNOB = Knob(
    "C.local.instruction",
    "instructions of the GPU, and `none`",
    "the instruction that computes the products of a thread: it takes several steps of the longest "
    "reduction axis at once, which copies in shared memory have side by side",
    Moves(rank=2, structure=True, dependent=True, start=last),
)


@dataclass(frozen=True)
class Dot:
    """An instruction that takes several steps of the reduction axis ``along``, by position.

    The steps of the operands in ``apart`` are not adjacent elements, so copies have them side by
    side. If zeros must fill the steps up, ``padded``, all operands are copied.
    """

    declared: Instruction
    along: int
    apart: tuple[Tensor, ...] = ()
    padded: bool = False

    @property
    def steps(self) -> int:
        """The steps that one instruction takes."""
        return steps_of(self.declared)


def choose(stage: StageFacts, copied: Collection[Tensor], knobs: Knobs) -> Dot | None:
    """Choose an instruction for the sums of a stage with a knob, if there is any.

    ``copied`` are the operands that may be copied to shared memory.
    """
    dots = {dot.declared.name: dot for dot in dot_products(stage, copied)}
    return (
        dots.get(knobs.choice(f"{stage.name}.local.instruction", [PLAIN, *dots])) if dots else None
    )


def dot_products(stage: StageFacts, copied: Collection[Tensor]) -> list[Dot]:
    """Return the instructions that compute the products of a stage, along its longest steps."""
    target, reads = stage.problem.target, factors(stage)
    if len(reads) != 2:
        return []
    sizes = stage.extents(stage.op.reduce_axis)
    along = sizes.index(max(sizes))
    known = [
        declared
        for declared in in_the_box(target)
        if declared.lanes == 1 and takes(declared, stage, reads) and not lacks(declared, target)
    ]
    dots = (_along(declared, stage, reads, along, copied) for declared in known)
    return [dot for dot in dots if dot is not None]


def takes(declared: Instruction, stage: StageFacts, reads: Sequence[Access]) -> bool:
    """Return whether an instruction has the dtypes of a product, in either order."""
    own = [read.tensor.dtype for read in reads]
    wanted = tuple(tensor.dtype for tensor in declared.operands)
    return stage.tensor.dtype == declared.output.dtype and wanted in permutations(own)


def _along(
    declared: Instruction, stage: StageFacts, reads: Sequence[Access], along: int,
    copied: Collection[Tensor],
) -> Dot | None:  # fmt: skip
    axis, count = stage.op.reduce_axis[along], steps_of(declared)
    if not isinstance(axis.extent, int) or axis.lo != 0 or axis.extent < count:
        return None
    owns = [dimension_of(read, axis, count) for read in reads]
    padded = axis.extent % count != 0
    apart = tuple(read.tensor for read in reads if not read.contiguous(axis))
    needed = {read.tensor for read in reads} if padded else {*apart}
    if None in owns or not needed <= {*copied}:
        return None
    whole = all(is_whole_dimension(read, axis) for read in reads)
    return Dot(declared, along, apart, padded) if whole or not padded else None


def dimension_of(read: Access, axis: Axis, count: int) -> int | None:
    """Return the dimension along which an axis reads blocks of ``count`` elements, if one does.

    Its index is the axis, perhaps after whole blocks.
    """
    steps = read.steps(axis)
    moving = [d for d, step in enumerate(steps) if step != 0]
    if len(moving) != 1 or steps[moving[0]] != 1:
        return None
    start = to_lin(read.indices[moving[0]]) - Lin.of(axis)
    return None if any(times % count for times in start.terms.values()) else moving[0]


def pad(s: Schedule, stage: StageFacts, dot: Dot) -> list[Tensor]:
    """Fill the steps of a stage without other steps up with zeros; return the new operands."""
    loops = len(stage.op.axis), len(stage.op.reduce_axis)
    padding = [1] * sum(loops)
    padding[loops[0] + dot.along] = dot.steps
    return s.pad_einsum(stage.tensor, padding)


def side_by_side(
    s: Schedule, copy: Tensor, dimension: int, dot: Dot, first: bool, adjacent: bool
) -> tuple[list[Axis], Axis]:
    """Store the steps of an instruction side by side in a copy, along a dimension of it.

    ``first`` puts the blocks of steps before the other dimensions, otherwise behind them. Return
    the loops over blocks and others, the fastest last, which fetch ``adjacent`` blocks in order,
    and the loop over the steps of a block.
    """
    axes, count = list(s[copy].op.axis), dot.steps
    if first or dimension != len(axes) - 1:

        def layout(*dims: Axis) -> tuple[object, ...]:
            others = [d for n, d in enumerate(dims) if n != dimension]
            blocks = [dims[dimension] // count]
            order = [*blocks, *others] if first else [*others, *blocks]
            return (*order, dims[dimension] % count)

        s[copy].transform_layout(layout)
    block, step = s[copy].split(axes.pop(dimension), factor=count)
    loops = [*axes, block] if adjacent else [block, *axes]
    s[copy].reorder(*loops, step)
    return loops, step
