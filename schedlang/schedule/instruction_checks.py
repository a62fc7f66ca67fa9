"""The check, at the call of tensorize, that the loops compute the instruction."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.ir.instruction_match import Mismatch, match
from schedlang.ir.nodes import For, If, walk
from schedlang.lowering.instructions import computes, movable
from schedlang.lowering.lower import lower_state
from schedlang.state.plan import runs_over
from schedlang.state.primitives.refusal import refuse
from schedlang.state.state import State


def check_instruction(before: State, after: State, name: str, axis: Axis) -> None:
    """Refuse a step that asks for an instruction which the loops of the stage do not compute.

    The message shows the loops of the stage, then of the declaration. What stages will be attached
    later is checked when the schedule is lowered.
    """
    nest = lower_state(after, strict=False)
    chosen = after.stages[name].instructions[axis]
    own = [s for s, _ in walk(nest.body) if isinstance(s, For) and s.stage == name]
    tensorized = [s for s in own if s.instruction is chosen and runs_over(s.axis, axis)]
    for loop in tensorized:
        result = match(loop, chosen, movable(after))
        if isinstance(result, Mismatch):
            # only messages load it
            from schedlang.ir.instruction_text import declared_nest

            refuse(result.why, result.hint, before, axis, declared_nest(chosen))
    if not tensorized and computes(nest.body, after.stages[name]):
        from schedlang.ir.instruction_text import declared_nest

        tests = [s for s, _ in walk(nest.body) if isinstance(s, If) and s.where and not s.note]
        if any(computes(test.body, after.stages[name]) for test in tests):
            refuse(
                f"{name} leaves out terms of its sum, and {chosen} adds all of them",
                "Add zeros in their place: let the sum have its whole range, without where=, and "
                "read a factor from a stage that computes sl.if_then_else(condition, x, 0).",
                before,
                axis,
                declared_nest(chosen),
            )
        if chosen.of_warp:
            extents = [str(a.extent) for a in (*chosen.op.axis, *chosen.op.reduce_axis)]
            multiples = ", ".join(extents)
            refuse(
                f"no part of {name} computes all {' x '.join(extents)} terms of {chosen} without "
                "a test",
                f"Split by {multiples}. If sizes are not multiples, first fill the operands up by "
                f"s.pad_einsum({name}, [{multiples}]), and let threads fetch them in tiles with "
                'set_scope("shared").',
                before,
                axis,
                declared_nest(chosen),
            )
        refuse(
            f"no part of {name} computes all elements of {chosen} without a test",
            'Split by factors that are no longer than the extents, and with tail="cut" where they '
            "do not divide them: the rest then has loops of its own.",
            before,
            axis,
            declared_nest(chosen),
        )
