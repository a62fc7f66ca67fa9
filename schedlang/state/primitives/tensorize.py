"""The step that replaces loops by an instruction: what it needs of the loop and those inside."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import is_one
from schedlang.compute.tensor import ComputeOp
from schedlang.expr.nodes import Axis
from schedlang.instructions.declaration import MEMORY, Instruction
from schedlang.instructions.emission import MemoryFunction
from schedlang.state.primitives.annotate import with_kind
from schedlang.state.primitives.arguments import leaf_position, text_of
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.state import TENSORIZE, Result, Stage, State, participle


def tensorize(state: State, stage: Stage, axis: Axis, instruction: Any) -> Result:
    place = leaf_position(state, stage, axis)
    if not isinstance(instruction, Instruction):
        refuse(
            f"{text_of(instruction)} is not an instruction",
            "Declare one: sl.instruction(name, compute, emit=...).",
        )
    twin = next(
        (i for other in state.stages.values() for i in other.instructions.values()
         if i.name == instruction.name and i is not instruction),
        None,
    )  # fmt: skip
    if twin is not None:
        refuse(
            f"this schedule has another instruction {twin.name}",
            "Declare an instruction once, and give different ones different names.",
        )
    emission = instruction.emit.get(MEMORY)
    if isinstance(emission, MemoryFunction) and emission.whole:
        _refuse_other_terms(state, stage, place, instruction)
    inside = next((a for a in stage.leaf[place + 1 :] if a in stage.kinds), None)
    around = next((a for a in stage.leaf[:place] if a in stage.instructions), None)
    if around is not None or inside is not None:
        loop = inside if around is None else around
        assert loop is not None
        refuse(
            f"{loop.name} is already {participle(stage.kinds[loop])}, and the instruction "
            f"{'replaces' if around is None else 'there replaces'} all loops inside of it",
            "Annotate loops outside of the instruction alone.",
            state,
            loop,
        )
    chosen = stage.with_(instructions={**stage.instructions, axis: instruction})
    return with_kind(state, chosen, axis, TENSORIZE)


def _refuse_other_terms(state: State, stage: Stage, place: int, instruction: Instruction) -> None:
    """Refuse a function of all terms of a sum where the result has terms from elsewhere."""
    hint = (
        "Let it add to its result, without whole=True (in te, return a body, a reset and an update)"
    )
    outer = next((a for a in stage.leaf[:place] if a.is_reduce and not is_one(a.extent)), None)
    if outer is not None:
        refuse(
            f"{instruction} computes all terms of a sum at once, and {outer.name} is around them",
            f"{hint}, or leave the whole reduction inside.",
            state,
            outer,
        )
    if isinstance(stage.op, ComputeOp) and stage.op.init is not None:
        refuse(
            f"{instruction} computes all terms of a sum at once, and the sum begins with "
            f"{', '.join(map(str, stage.op.init))}",
            f"{hint}, or leave out init= and add it in a stage after.",
        )


PRIMITIVES = {TENSORIZE: Primitive(tensorize)}
