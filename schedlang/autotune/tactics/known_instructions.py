"""The instructions in the box that a target has, and the sums of products that they may compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Expr
from schedlang.instructions.box import IN_THE_BOX
from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.instructions.needs import unmet
from schedlang.target import Target, first_lacking
from schedlang.target_kinds import Facts

# the option of a knob that takes no instruction
PLAIN = "none"
# the forms of instructions, see form_of
LANES, ROWS, TILES, WARPS = "lanes", "rows", "tiles", "warps"


class _Use(Protocol):
    """The use of an instruction, on an operand that first gets the dtype ``shift``, if any."""

    @property
    def declared(self) -> Instruction: ...

    @property
    def shift(self) -> str: ...


U = TypeVar("U", bound=_Use)


def factors(stage: StageFacts) -> list[Access]:
    """Return the two reads whose products a stage sums; none if it computes something else.

    Both are of tensors of their own, and the sum has no condition and starts from 0.
    """
    op, reads = stage.op, {id(read.tensor): read for read in stage.reads}
    body, plain = op.body[0], op.where is None and op.init is None
    if not plain or op.reducer is None or op.reducer.name != "sum" or len(stage.reads) != 2:
        return []
    if not isinstance(body, Binary) or body.op != "*":
        return []
    sides = [
        side.children[0] if isinstance(side, Cast) or is_rounded(side) else side
        for side in (body.a, body.b)
    ]
    tensors = [id(side.tensor) for side in sides if isinstance(side, Read)]
    return [reads[t] for t in tensors] if sorted(tensors) == sorted(reads) else []


def is_rounded(value: Expr) -> bool:
    """Return whether a value is one rounded to TF32."""
    return isinstance(value, Call) and value.fn == "tf32"


def rounds(op: ComputeOp) -> bool:
    """Return whether the factors of a sum of products are rounded to TF32."""
    body = op.body[0]
    return isinstance(body, Binary) and is_rounded(body.a) and is_rounded(body.b)


def is_whole_dimension(read: Access, axis: Axis) -> bool:
    """Return whether an axis is the index of a whole dimension."""
    dimension = read.own_dimension(axis)
    return dimension is not None and bool(read.tensor.shape[dimension] == axis.extent)


def in_the_box(target: Target, form: str = LANES) -> list[Instruction]:
    """Return the instructions of a form in the box that a target can write."""
    return [d for d in IN_THE_BOX if form_of(d) == form and _written(d, target.facts)]


def form_of(declared: Instruction) -> str:
    """Return the form of an instruction in the box.

    Its lanes multiply by the same elements, ``LANES``, or each by its own, ``ROWS``; or it computes
    a tile, ``TILES``, as a function in memory, or ``WARPS``, by all threads of a warp.
    """
    if declared.of_warp:
        return WARPS
    if declared.output.ndim > 1:
        return TILES
    return ROWS if declared.operands[0].ndim > 1 else LANES


def _written(declared: Instruction, facts: Facts) -> bool:
    in_memory = MEMORY in declared.emit and not facts.binds_threads
    return bool(facts.instructions) and (facts.instructions in declared.emit or in_memory)


def lacks(declared: Instruction, target: Target) -> bool:
    """Return whether the processor, or the GPU of a target, lacks an instruction."""
    if target.arch:
        return bool(first_lacking(declared.needs, target.device))
    if target.features:
        return bool(unmet(declared.needs, target.features))
    # it loads numba, which other searches need only later
    from schedlang.runtime.processor import missing_features

    return bool(missing_features(declared.needs))


def without_needless_shifts(uses: Sequence[U]) -> list[U]:
    """Return uses of instructions without shifts that another instruction does not need.

    It is one of the same processors, which takes the operand as it is.
    """
    plain = {use.declared.needs for use in uses if not use.shift}
    return [use for use in uses if not use.shift or use.declared.needs not in plain]
