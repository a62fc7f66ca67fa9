"""Dot products of the processor: instructions that multiply and add several steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.autotune.knobs import Knobs, divisors
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.cpu.tile_sizes import (
    ONE_EACH,
    Lane,
    Registers,
    is_side_by_side,
)
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.known_instructions import (
    PLAIN,
    TILES,
    factors,
    in_the_box,
    is_whole_dimension,
    lacks,
    without_needless_shifts,
)
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import axes_in, postorder
from schedlang.instructions.box import named, steps_of
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.python_function import PythonFunction
from schedlang.ir.nodes import Load, Store
from schedlang.state.primitives.products import OTHER_SIGN
from schedlang.target import Target

KNOB = Knob(
    "C.local.instruction",
    "instructions of the processor, and `none`",
    "the instruction that computes the products of a tile: it takes several steps of the last "
    "reduction loop at once, and `B` is packed with these steps side by side",
    Moves(rank=2, structure=True, dependent=True, start=last),
)


PAD = Knob(
    "C.local.pad",
    (True, False),
    "fill the operands of an instruction up with zeros, so that whole tiles and whole steps "
    "remain; otherwise the rest runs without the instruction",
    Moves(rank=7),
)


# the most steps of a call that computes a tile
# nobody has measured this value
MOST_STEPS = 1 << 12
STEPS = Knob(
    "C.local.call_steps",
    "multiples of the steps of a tile",
    "the steps that a call takes which computes a tile by an instruction, and keeps it meanwhile",
    # all of them, as a call begins and ends with the tile in memory
    Moves(rank=18, start=last),
)


@dataclass(frozen=True)
class Dot:
    """An instruction for the sums of a tile.

    It takes steps of the reduction axis ``along``, by position. ``operand`` is the tensor whose
    elements differ between lanes, and ``packed`` says that its steps stand side by side already.
    All lanes read the same elements of ``fixed``, whose steps are ``adjacent`` or must be copied.
    ``shift`` is the dtype that the operand gets by a shift, if it needs one. ``padded`` are the
    positions of the axes, data axes first, that zeros may lengthen to whole tiles and steps.
    An instruction that computes a tile has the data axis ``rows``, by position, in its rows.
    """

    declared: Instruction
    along: int
    operand: Tensor
    fixed: Tensor
    packed: bool = False
    adjacent: bool = True
    shift: str = ""
    padded: tuple[int, ...] = ()
    rows: int = -1

    @property
    def steps(self) -> int:
        """The steps that one instruction takes."""
        return steps_of(self.declared)

    @property
    def lanes(self) -> int:
        """The lanes of the instruction, in each row of a tile."""
        return int(self.declared.output.shape[-1])

    @property
    def height(self) -> int:
        """The rows of the tile that the instruction computes; 1 if it computes no tile."""
        return self.declared.lanes // self.lanes

    @property
    def registers(self) -> Registers:
        """The registers of its operands in a tile of sums."""
        emission = self.declared.emit.get("llvm")
        if not isinstance(emission, PythonFunction):
            return ONE_EACH
        # a product is in a register of its own until it is added
        return Registers(emission.parts, min(emission.operations - 1, 1))

    @property
    def group(self) -> int:
        """The steps that stand side by side for each lane."""
        return int(self.declared.op.reduce_axis[-1].extent)


def choose(stage: StageFacts, lane: Lane, knobs: Knobs) -> Dot | None:
    """Choose an instruction for the sums of ``stage`` with a knob, if there is any."""
    dots = {dot.declared.name: dot for dot in dot_products(stage, lane)}
    if not dots:
        return None
    # a kernel by other instructions would have to part the steps again
    plain = [] if all(dot.packed for dot in dots.values()) else [PLAIN]
    dot = dots.get(knobs.choice(f"{stage.name}.local.instruction", [*plain, *dots]))
    if dot is not None and dot.rows >= 0:
        return _with_more_steps(stage, dot, knobs)
    if dot is not None and dot.padded:
        # without zeros, fewer steps than an instruction takes would be left out of all of them
        few = stage.extents([stage.op.reduce_axis[dot.along]])[0] < dot.steps
        if not few and not knobs.choice(f"{stage.name}.local.pad", [True, False]):
            return replace(dot, padded=())
    return dot


def dot_products(stage: StageFacts, lane: Lane) -> list[Dot]:
    """Return the instructions that compute the products of a stage, with ``lane`` in lanes."""
    target, op = stage.problem.target, stage.op
    axis = op.axis[lane.at]
    fixed: list[Access] = []
    moving: list[Access] = []
    for read in factors(stage) if target.facts.instructions else ():
        (fixed if read.fixed(axis, stage.width) else moving).append(read)
    if len(fixed) != 1 or len(moving) != 1:
        return []
    left, right = fixed[0], moving[0]
    packed = is_side_by_side(op, right, axis)
    if not packed and not _may_be_packed(stage, right, axis):
        return []
    known = [
        dot
        for declared in in_the_box(target)
        if (dot := _dot(declared, stage, lane, left, right, packed)) is not None
    ]
    # the most lanes that the axis fills
    most = max((dot.lanes for dot in known), default=0)
    known = without_needless_shifts([dot for dot in known if dot.lanes == most])
    tiled = [] if packed or lane.transposed else _tiles(stage, lane, left, right)
    return [*known, *tiled]


def _tiles(stage: StageFacts, lane: Lane, left: Access, right: Access) -> list[Dot]:
    """Return the instructions that compute a tile of the products of a stage, in memory."""
    target, kinds = stage.problem.target, (left.tensor.dtype, right.tensor.dtype)
    return [
        dot
        for declared in in_the_box(target, TILES)
        if kinds == tuple(tensor.dtype for tensor in declared.operands)
        if stage.tensor.dtype == declared.output.dtype and not lacks(declared, target)
        for along in _step_axes(declared, stage, left, right, False)[:1]
        if (dot := _tile(declared, stage, lane, left, right, along)) is not None
    ]


def _tile(
    declared: Instruction, stage: StageFacts, lane: Lane, left: Access, right: Access, along: int
) -> Dot | None:
    """Return how an instruction computes tiles of whole rows, lanes and steps, if it does."""
    axes, step = stage.op.axis, stage.op.reduce_axis[along]
    dot = Dot(declared, along, right.tensor, left.tensor, adjacent=left.contiguous(step))
    other = (at for at in range(len(axes)) if at != lane.at and stage.lengths[at] > 1)
    own = [at for at in other if right.fixed(axes[at]) and None not in left.steps(axes[at])]
    for rows in sorted(own, key=lambda at: (stage.lengths[at] % dot.height != 0, -at)):
        padded, whole = [], True
        for at, axis, count, reads in (
            (lane.at, axes[lane.at], dot.lanes, [right]),
            (rows, axes[rows], dot.height, [left]),
            (len(axes) + along, step, dot.steps, [left, right]),
        ):
            constant = isinstance(axis.extent, int) and bool(axis.lo == 0)
            size = stage.extents([axis])[0]
            filled_up = constant and all(is_whole_dimension(read, axis) for read in reads)
            whole = whole and constant and 2 * size >= count
            whole = whole and (filled_up or size % count == 0)
            padded += [at] if size % count else []
        if whole:
            return replace(dot, rows=rows, padded=tuple(padded))
    return None


def _with_more_steps(stage: StageFacts, dot: Dot, knobs: Knobs) -> Dot:
    """Choose with a knob how many steps a call takes that computes a tile."""
    tiles = -(-stage.extents([stage.op.reduce_axis[dot.along]])[0] // dot.steps)
    counts = [n * dot.steps for n in divisors(tiles) if n * dot.steps <= MOST_STEPS]
    count = knobs.choice(f"{stage.name}.local.call_steps", counts)
    longer = named(dot.declared.name if count == dot.steps else f"{dot.declared.name}_{count}")
    assert longer is not None
    return replace(dot, declared=longer)


def _may_be_packed(stage: StageFacts, right: Access, axis: Axis) -> bool:
    """Return whether a copy of an operand serves, whose elements are read more than once."""
    others = [a for a in stage.op.axis if a is not axis and is_long(a)]
    own = right.tensor in stage.op.input_tensors and right.own_dimension(axis) is not None
    return own and any(right.fixed(a) for a in others)


def _dot(
    declared: Instruction, stage: StageFacts, lane: Lane, left: Access, right: Access, packed: bool
) -> Dot | None:
    """Return how an instruction computes the products of a stage, if it does."""
    width, size = stage.width, stage.lengths[lane.at]
    target = stage.problem.target
    shift = _shift(declared, stage, left, right)
    # a few elements, which fill no vector, may fill a shorter one
    fills = declared.lanes <= size and (declared.lanes == width or size < width)
    if shift is None or (shift and packed) or not fills or lacks(declared, target):
        return None
    axes = _step_axes(declared, stage, left, right, packed)
    dots = (_along(declared, stage, lane, left, right, packed, along) for along in axes)
    dot = next((dot for dot in dots if dot is not None), None)
    return None if dot is None else replace(dot, shift=shift)


def _along(
    declared: Instruction, stage: StageFacts, lane: Lane, left: Access, right: Access, packed: bool,
    along: int,
) -> Dot | None:  # fmt: skip
    """Return how an instruction takes steps ``along`` a reduction axis, if there are enough."""
    axis, step = stage.op.axis[lane.at], stage.op.reduce_axis[along]
    padded = [] if packed else [
        at
        for at, a, count, reads in (
            (lane.at, axis, declared.lanes, [right]),
            (len(stage.op.axis) + along, step, steps_of(declared), [left, right]),
        )
        if isinstance(a.extent, int) and a.extent % count
        if a.lo == 0 and all(is_whole_dimension(read, a) for read in reads)
    ]  # fmt: skip
    if stage.extents([step])[0] < steps_of(declared) and len(stage.op.axis) + along not in padded:
        return None
    return Dot(
        declared, along, right.tensor, left.tensor, packed, left.contiguous(step),
        padded=tuple(padded),
    )  # fmt: skip


def _shift(declared: Instruction, stage: StageFacts, left: Access, right: Access) -> str | None:
    """Return the dtype to which ``right`` is shifted for an instruction, which may be none: "".

    Return ``None`` if the instruction has other dtypes.
    """
    a, b = declared.operands
    if (left.tensor.dtype, stage.tensor.dtype) != (a.dtype, declared.output.dtype):
        return None
    if right.tensor.dtype == b.dtype:
        return ""
    return b.dtype if OTHER_SIGN.get(right.tensor.dtype) == b.dtype else None


def _step_axes(
    declared: Instruction, stage: StageFacts, left: Access, right: Access, packed: bool = False
) -> list[int]:
    """Return the reduction axes, by position, whose steps an instruction can take, best first.

    If ``right`` is ``packed``, they are the axis of its last dimension, if that is long enough.
    Otherwise, the steps of ``left`` should be adjacent elements, or it is copied, too.
    """
    last, count = len(right.indices) - 1, steps_of(declared)
    possible = []
    for at, axis in enumerate(stage.op.reduce_axis):
        extent = stage.extents([axis])[0]
        own = right.own_dimension(axis)
        if own is None or (packed and (own != last or axis.extent != count)):
            continue
        copied = (
            not packed and is_whole_dimension(left, axis) and left.tensor in stage.op.input_tensors
        )
        if not left.contiguous(axis) and not copied:
            continue
        if 2 * extent >= count:
            possible.append((not left.contiguous(axis), -extent % count / extent, at))
    return [at for *_, at in sorted(possible)]


def instructions(target: Target, kinds: tuple[str, str, str]) -> list[Instruction]:
    """Return the instructions of a target and of this processor for a sum of products.

    ``kinds`` are the dtypes of the operands, and of the sum.
    """
    return [
        declared
        for declared in in_the_box(target)
        if declared.lanes == target.vector_width(kinds[2])
        and kinds == (*(t.dtype for t in declared.operands), declared.output.dtype)
        and not lacks(declared, target)
    ]


def of_dtypes(store: Store, target: Target) -> list[tuple[Instruction, str]]:
    """Return the instructions of this processor for an update by a product of two elements.

    With each stands the dtype that a shift gives one of the elements first, or "". Those that
    compute tiles are first.
    """
    values = [read for read in postorder(store.values) if isinstance(read, Load)]
    result, *others = store.buffers
    if others or len(values) != 2 or store.reducer is None or store.reducer.name != "sum":
        return []
    kinds = sorted(read.buffer.dtype for read in values)
    # each thread of a GPU computes an instruction by itself
    width = 1 if target.facts.binds_threads else target.vector_width(result.dtype)
    fitting = [(d, "") for d in in_the_box(target, TILES) if _fits(d, kinds, result.dtype)]
    if any(_own_axes(*order) == 0 for order in (values, values[::-1])):
        # a product without rows, or without columns, has no tiles
        fitting = []
    for declared in in_the_box(target):
        b = declared.operands[1].dtype
        shifted = sorted((declared.operands[0].dtype, OTHER_SIGN.get(b, b)))
        if declared.lanes != width or declared.output.dtype != result.dtype:
            continue
        if _fits(declared, kinds, result.dtype):
            fitting.append((declared, ""))
        elif kinds == shifted and not target.facts.binds_threads:
            # GPUs have one for each pair of signs
            fitting.append((declared, b))
    return [pair for pair in fitting if not lacks(pair[0], target)]


def _fits(declared: Instruction, kinds: Sequence[str], result: str) -> bool:
    """Return whether an instruction has the dtypes of a product, in any order."""
    own = sorted(tensor.dtype for tensor in declared.operands)
    return own == [*kinds] and declared.output.dtype == result


def _own_axes(read: Load, other: Load) -> int:
    """Return the number of data axes that move one element of a product and not the other one."""
    own, others = (axes_in(load.indices) for load in (read, other))
    return len([axis for axis in own if axis not in others and not axis.is_reduce])
