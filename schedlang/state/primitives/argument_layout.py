"""The primitive on the layout of an argument, whose array the caller passes."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.facts import facts_of
from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.state.layout import ArrayLayout, Part, extent_of, incomplete
from schedlang.state.primitives.arguments import count, text_of
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.state import Result, State


def dimensions(tensor: Tensor) -> tuple[Axis, ...]:
    """Return an axis for each dimension of ``tensor``, for index maps.

    The axes of a computed tensor have the names of its own.
    """
    named = [axis.name for axis in getattr(tensor.op, "axis", ())]
    if len(named) != tensor.ndim:
        named = [f"i{k}" for k in range(tensor.ndim)]
    return tuple(Axis(name, extent) for name, extent in zip(named, tensor.shape))


def transform_argument(
    state: State, tensor: Tensor, parts: Sequence[int], counts: Sequence[int]
) -> Result:
    """Give the array of ``tensor`` another layout.

    ``parts`` has a dimension, a divisor and a modulus for each part, one after the other, and
    ``counts`` the number of parts of each dimension of the array.
    """
    _check_argument(state, tensor)
    axes = dimensions(tensor)
    if any(not isinstance(axis.extent, int) for axis in axes):
        refuse(
            f"{tensor.name} has a symbolic size, which a call could not read from the array",
            "Compute a tensor of the other shape from it, and make that the argument.",
        )
    numbers = [count(n, "a number of a part", 0) for n in parts]
    lengths = [count(n, "the parts of a dimension") for n in counts]
    if len(numbers) != 3 * sum(lengths):
        refuse(f"{len(numbers)} numbers are not {sum(lengths)} parts of three")
    layout = tuple(map(Part, numbers[::3], numbers[1::3], numbers[2::3]))
    if any(part.dim >= len(axes) or part.divisor < 1 for part in layout):
        refuse(f"a part is none of {tensor.name}, which has {len(axes)} dimensions")
    for part in layout:
        axis = axes[part.dim]
        _check_divides(axis, part.divisor * (part.modulus or 1))
    missing = incomplete(layout, len(axes))
    if missing is not None:
        name = axes[missing].name
        refuse(
            f"its parts of {name} do not tell each value of {name} exactly once",
            f"Use {name} itself, or {name}//n and {name}%n with the same n.",
        )
    extents = iter([extent_of(part, axes) for part in layout])
    array = ArrayLayout(layout, tuple(tuple(next(extents) for _ in range(n)) for n in lengths))
    return state.with_array(tensor, array), None


def _check_divides(axis: Axis, number: int) -> None:
    assert isinstance(axis.extent, int)
    if axis.extent % number:
        refuse(
            f"{number} does not divide the extent {axis.extent} of {axis.name}, so the array would "
            "have elements of which the tensor knows nothing",
            f"Use a divisor of {axis.extent}.",
        )


def _check_argument(state: State, tensor: Tensor) -> None:
    """Refuse a tensor that is neither input nor output, or whose array other code knows."""
    if not isinstance(tensor, Tensor):
        refuse(f"{text_of(tensor)} is not a tensor", "Give an input or an output.")
    inputs = placeholders(state.outputs)
    if tensor not in inputs and tensor not in state.outputs:
        listed = ", ".join(t.name for t in [*inputs, *state.outputs])
        refuse(
            f"{tensor.name} is neither an input nor an output of this schedule: {listed}",
            "s[T].transform_layout(...) stores an intermediate in another order.",
        )
    if tensor in state.arrays:
        refuse(f"the array of {tensor.name} has another layout already", "Join the two steps.")
    if tensor in inputs and facts_of(tensor) is not None:
        refuse(
            f"sl.assume declares facts of {tensor.name}, which each call checks in its shape",
            "Leave out one of the two.",
        )
    stage = state.of(tensor)
    if stage is not None and stage.is_scan:
        refuse(
            f"{tensor.name} is a scan, whose rows are stored one after another",
            "Make a stage that copies it the output.",
        )
    if stage is not None and len(stage.outputs) > 1:
        refuse(
            f"{stage.name} stores its {len(stage.outputs)} tensors together",
            "Make a stage that copies one of them the output.",
        )
    for other in state.stages.values():
        if isinstance(other.op, ExternOp) and tensor in (*other.op.input_tensors, *other.outputs):
            refuse(
                f"{other.op.function.name} knows {tensor.name} as an array of its dimensions",
                "Let a stage copy it, and give that stage to the function.",
            )
        if isinstance(other.op, ScanOp) and tensor in (*other.op.init, *other.op.update):
            refuse(
                f"{tensor.name} is stored in scan {other.name}",
                "Make a stage that copies it the output.",
            )


PRIMITIVES = {
    "transform_argument": Primitive(transform_argument, keeps_loops=True, on_schedule=True),
}
