"""Stages at vectorized loops, as te allows them: they are computed before the loop, for all lanes.

A schedule of ``sl.schedule`` refuses them, since the loop outside says it better.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.expr.nodes import Axis
from schedlang.state.relations import position
from schedlang.state.state import At, Stage, State


def loop_outside(
    state: State, parent: Stage, axis: Axis, lanes: Axis | None = None
) -> tuple[Stage, Axis] | None:
    """Return the innermost loop around the vectorized ``axis``, with its stage; ``None`` at root.

    A loop that is not vectorized is returned itself. ``lanes`` is a loop of ``parent`` that will be
    vectorized.
    """
    while axis in parent.leaf and (axis is lanes or parent.kinds.get(axis) == "vectorize"):
        place, around = position(parent.leaf, axis), parent.attach
        if place:
            axis = parent.leaf[place - 1]
        elif isinstance(around, At):
            parent, axis = state.stages[around.stage], around.axis
        else:
            return None
    return parent, axis


def attached_at(state: State, stage: Stage, axis: Axis) -> Iterator[Stage]:
    """Yield the stages that are computed at a loop of ``stage``."""
    for held in state.attached(stage):
        loop = held.attach
        if isinstance(loop, At) and loop.stage == stage.name and loop.axis is axis:
            yield held
