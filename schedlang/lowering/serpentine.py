"""The check that a serpentine loop has a loop around it, with which it turns around."""

from __future__ import annotations

from schedlang.errors import explain, subscript
from schedlang.lowering.nesting import Scope
from schedlang.state.serpentine import serpentine_axes
from schedlang.state.state import SERPENTINE, Stage


def loops_that_never_turn(stage: Stage, scope: Scope) -> list[str]:
    """Return a refusal for each serpentine loop that no serial loop is around.

    A serial loop of the stage may have a single iteration, such as a batch of 1. ``scope`` has the
    loops around the stage.
    """
    refusals = []
    for axis in serpentine_axes(stage):
        outer = stage.leaf[: stage.leaf.index(axis)]
        if scope.loops or any(a not in stage.kinds for a in outer):
            continue
        view = subscript(stage.name)
        refusals.append(
            explain(
                f'pragma({axis.name}, "{SERPENTINE}") on stage {stage.name}',
                f"{axis.name} goes backwards in every odd iteration of the serial loop next around "
                "it, and there is none",
                f"Split or reorder the loops of {stage.name}, so that a serial one is around "
                f"{axis.name}, or compute it in a loop of its reader: {view}.compute_at(...).",
            )
        )
    return refusals
