"""Dot products of the processor along contiguous memory, with partial sums in the lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.lanes import VECTORS, whole_steps
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.known_instructions import (
    PLAIN,
    ROWS,
    factors,
    in_the_box,
    lacks,
    without_needless_shifts,
)
from schedlang.autotune.tactics.loops import in_order
from schedlang.compute.tensor import Tensor
from schedlang.instructions.box import steps_of
from schedlang.instructions.declaration import Instruction
from schedlang.schedule.schedule import Schedule
from schedlang.state.primitives.products import OTHER_SIGN

# a rest of fewer than this part of the steps, which runs without the instruction, costs little
# measured on one core with AVX-512: plain vectors took 1.1 to 3 times as long as an instruction
# without a rest, and half as long with one of a 27th
LITTLE = 1 / 32
# the fewest results with the same elements of an operand whose sums correct a shift
# nobody has measured this value
SHARED = 16
KNOB = Knob(
    "C.instruction",
    "instructions of the processor, and `none`",
    "the instruction that adds products along contiguous memory to partial sums in its lanes",
    Moves(rank=2, structure=True, dependent=True, start=last),
)


@dataclass(frozen=True)
class RowDot:
    """An instruction for sums of products along contiguous memory.

    ``operand`` gets the dtype ``shift`` first, in registers, if the instruction has no other.
    """

    declared: Instruction
    operand: Tensor
    shift: str = ""


def choose(stage: StageFacts, knobs: Knobs) -> RowDot | None:
    """Choose an instruction for the sums of ``stage`` with a knob, if there is any."""
    dots = {dot.declared.name: dot for dot in row_dots(stage)}
    if not dots:
        return None
    steps = stage.extents(stage.op.reduce_axis)[0]
    rest = max(steps % _steps(dot.declared) for dot in dots.values())
    plain = [] if rest <= LITTLE * steps else [PLAIN]
    return dots.get(knobs.choice(f"{stage.name}.instruction", [*plain, *dots]))


def row_dots(stage: StageFacts) -> list[RowDot]:
    """Return the instructions that compute the sums of a stage at root."""
    target, op = stage.problem.target, stage.op
    if not target.facts.instructions or stage.attached is not None or len(op.reduce_axis) != 1:
        return []
    (along,) = op.reduce_axis
    reads = factors(stage)
    fixed = isinstance(along.extent, int) and along.lo == 0
    if len(reads) != 2 or not fixed or not all(read.contiguous(along) for read in reads):
        return []
    steps = stage.extents([along])[0]
    known = (
        dot
        for declared in in_the_box(target, ROWS)
        if declared.lanes == stage.width and _serves(steps, _steps(declared))
        if (dot := _dot(declared, stage, reads)) is not None and not lacks(declared, target)
    )
    return without_needless_shifts([*known])


def _dot(declared: Instruction, stage: StageFacts, reads: Sequence[Access]) -> RowDot | None:
    """Return how an instruction computes the sums of a stage, if its operands have the dtypes."""
    if stage.tensor.dtype != declared.output.dtype:
        return None
    a, b = (tensor.dtype for tensor in declared.operands)
    # it may take the operands of a product in either order
    for (own, other), (wanted, rest) in product(permutations(reads), ((a, b), (b, a))):
        if other.tensor.dtype != rest:
            continue
        if own.tensor.dtype == wanted:
            return RowDot(declared, own.tensor)
        if OTHER_SIGN.get(own.tensor.dtype) == wanted and _is_shared(stage, other):
            return RowDot(declared, own.tensor, wanted)
    return None


def _is_shared(stage: StageFacts, read: Access) -> bool:
    """Return whether many results share the elements of a read, so that their sums cost little."""
    return prod(stage.extents([a for a in stage.op.axis if read.fixed(a)])) >= SHARED


def partial_sums(s: Schedule, stage: StageFacts, dot: RowDot, knobs: Knobs) -> StageFacts:
    """Add the steps of a reduction to partial sums, in some vectors of an instruction's lanes."""
    (along,), declared = stage.op.reduce_axis, dot.declared
    steps, own = stage.extents([along])[0], _steps(declared)
    fitting = [n for n in VECTORS if _serves(steps, n * own)]
    factor = own * knobs.choice(f"{stage.name}.vectors", fitting)
    _, inner = s[stage.tensor].split(along, factor=factor)
    lane, _ = s[stage.tensor].split(inner, factor=steps_of(declared))
    partial = s.rfactor(stage.tensor, lane, factor_axis=len(stage.op.axis))
    s[partial].set_scope("local")
    return stage.after(s, partial)


def tensorize(
    s: Schedule, partial: StageFacts, dot: RowDot, shifted: Tensor | None, steps: int
) -> None:
    """Compute partial sums of ``steps`` by an instruction, on an operand shifted in registers."""
    op, tensor, declared = partial.op, partial.tensor, dot.declared
    *data, lane = op.axis
    whole = steps // (partial.extents([lane])[0] * steps_of(declared))
    *outer, step = whole_steps(s, partial, {0: whole})
    vector, lane = s[tensor].split(lane, factor=declared.lanes)
    in_order(s, tensor, [*data, *outer, vector, lane, step])
    s[tensor].unroll(vector)
    s[tensor].tensorize(lane, declared)
    if shifted is not None:
        s[shifted].compute_at(s[tensor], outer[-1])
        s[shifted].set_scope("local")
        s[shifted].vectorize(s[shifted].op.axis[-1])


def _steps(declared: Instruction) -> int:
    """Return the steps that all lanes of an instruction take at once."""
    return declared.lanes * steps_of(declared)


def _serves(steps: int, factor: int) -> bool:
    """Return whether ``factor`` steps at a time are all steps, or make a loop before a rest."""
    return steps == factor or steps >= 2 * factor
