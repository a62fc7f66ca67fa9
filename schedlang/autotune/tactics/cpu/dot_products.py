"""Dot products of the processor: instructions that multiply and add several steps at once."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.tile_sizes import Lane, is_side_by_side
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Binary, Cast, Expr
from schedlang.expr.visit import postorder
from schedlang.instructions.box import IN_THE_BOX
from schedlang.instructions.declaration import Instruction
from schedlang.ir.nodes import Load, Store
from schedlang.target import Target

PLAIN = "none"
KNOB = Knob(
    "C.local.instruction",
    "instructions of the processor, and `none`",
    "the instruction that computes the products of a tile: it takes several steps of the last "
    "reduction loop at once, and `B` is packed with these steps side by side",
    Moves(rank=2, structure=True, start=last),
)


@dataclass(frozen=True)
class Dot:
    """An instruction for the sums of a tile.

    It takes steps of the reduction axis ``along``, by position. ``operand`` is the tensor whose
    elements differ between lanes, and ``packed`` says that its steps stand side by side already.
    """

    declared: Instruction
    along: int
    operand: Tensor
    packed: bool = False

    @property
    def steps(self) -> int:
        """The steps that one instruction takes."""
        return length(self.declared)


def choose(stage: StageFacts, lane: Lane, knobs: Knobs) -> Dot | None:
    """Choose an instruction for the sums of ``stage`` with a knob, if there is any."""
    dots = {dot.declared.name: dot for dot in dot_products(stage, lane)}
    if not dots:
        return None
    # a kernel by other instructions would have to part the steps again
    plain = [] if all(dot.packed for dot in dots.values()) else [PLAIN]
    return dots.get(knobs.choice(f"{stage.name}.local.instruction", [*plain, *dots]))


def dot_products(stage: StageFacts, lane: Lane) -> list[Dot]:
    """Return the instructions that compute the products of a stage, with ``lane`` in lanes."""
    target, op = stage.problem.target, stage.op
    language = target.facts.instructions
    operands = _operands(op.body[0]) if language and op.where is None and op.init is None else None
    if operands is None or op.reducer is None or op.reducer.name != "sum" or lane.transposed:
        return []
    axis = op.axis[lane.at]
    reads = {id(read.tensor): read for read in stage.reads}
    if len(stage.reads) != 2 or any(id(read.tensor) not in reads for read in operands):
        return []
    fixed: list[Access] = []
    moving: list[Access] = []
    for read in (reads[id(r.tensor)] for r in operands):
        (fixed if read.fixed(axis, stage.width) else moving).append(read)
    if len(fixed) != 1 or len(moving) != 1:
        return []
    left, right = fixed[0], moving[0]
    packed = is_side_by_side(op, right, axis)
    if not packed and all(right is not read for read in (*lane.packed, *lane.packable)):
        return []
    return [
        Dot(declared, along, right.tensor, packed)
        for declared in IN_THE_BOX
        if language in declared.emit and _fits(declared, stage, left, right)
        for along in _step_axes(declared, stage, left, right, packed)[:1]
        if not lacks(declared)
    ]


def _operands(body: Expr) -> tuple[Read, Read] | None:
    """Return the elements that a body multiplies, in its own dtype; ``None`` for another body."""
    if not isinstance(body, Binary) or body.op != "*":
        return None
    left, right = (side.a if isinstance(side, Cast) else side for side in (body.a, body.b))
    return (left, right) if isinstance(left, Read) and isinstance(right, Read) else None


def _fits(declared: Instruction, stage: StageFacts, left: Access, right: Access) -> bool:
    """Return whether an instruction has the dtypes and the lanes of a stage."""
    a, b = declared.operands
    kinds = left.tensor.dtype, right.tensor.dtype, stage.tensor.dtype
    return kinds == (a.dtype, b.dtype, declared.output.dtype) and declared.lanes == stage.width


def _step_axes(
    declared: Instruction, stage: StageFacts, left: Access, right: Access, packed: bool
) -> list[int]:
    """Return the reduction axes, by position, whose steps an instruction can take.

    If ``right`` is ``packed``, they are the axis of its last dimension, if that is long enough.
    """
    last = len(right.indices) - 1
    return [
        at
        for at, axis in enumerate(stage.op.reduce_axis)
        if stage.extents([axis])[0] >= length(declared)
        and left.contiguous(axis)
        and right.own_dimension(axis) is not None
        and (not packed or (right.own_dimension(axis) == last and axis.extent == length(declared)))
    ]


def length(declared: Instruction) -> int:
    """Return the steps that one instruction takes."""
    (axis,) = declared.op.reduce_axis
    assert isinstance(axis.extent, int)
    return axis.extent


def instructions(target: Target, kinds: tuple[str, str, str]) -> list[Instruction]:
    """Return the instructions of a target and of this processor for a sum of products.

    ``kinds`` are the dtypes of the operands, and of the sum.
    """
    language = target.facts.instructions
    return [
        declared
        for declared in IN_THE_BOX
        if language in declared.emit
        and declared.lanes == target.vector_width(kinds[2])
        and kinds == (*(t.dtype for t in declared.operands), declared.output.dtype)
        and not lacks(declared)
    ]


def of_dtypes(store: Store, target: Target) -> list[Instruction]:
    """Return the instructions with the dtypes of an update by a product of two elements."""
    values = [read for read in postorder(store.values) if isinstance(read, Load)]
    kinds = sorted(read.buffer.dtype for read in values)
    (result, *others), language = store.buffers, target.facts.instructions
    if others or len(values) != 2 or store.reducer is None or store.reducer.name != "sum":
        return []
    return [
        declared
        for declared in IN_THE_BOX
        if language in declared.emit
        and declared.lanes == target.vector_width(result.dtype)
        and (kinds, result.dtype)
        == (sorted(t.dtype for t in declared.operands), declared.output.dtype)
    ]


def lacks(declared: Instruction) -> bool:
    """Return whether the processor lacks an instruction."""
    # it loads numba, which other searches need only later
    from schedlang.runtime.processor import missing_features

    return bool(missing_features(declared.needs))

