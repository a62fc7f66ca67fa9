"""The checks of loops that go back and forth, as the pragma ``"serpentine"`` asks for."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.state.state import SERPENTINE, Stage, participle


def serpentine_axes(stage: Stage) -> list[Axis]:
    """Return the axes of a stage whose loops go back and forth."""
    return [axis for axis, name, _ in stage.pragmas if name == SERPENTINE]


def is_serpentine(stage: Stage, axis: Axis) -> bool:
    """Return whether the loop over ``axis`` goes back and forth."""
    return any(a is axis for a in serpentine_axes(stage))


def out_of_order(stage: Stage) -> tuple[Axis, str, str] | None:
    """Return a serpentine loop that needs its order, why it does, and what to do instead.

    Return ``None`` if there is none.
    """
    for axis in serpentine_axes(stage):
        kind, asked = stage.kinds.get(axis), f'{axis.name} with the pragma "{SERPENTINE}"'
        if kind is not None:
            why = f"{asked} would be {participle(kind)}, and only a serial loop goes back and forth"
            hint = f"Split {axis.name}, and let only one of the two loops go back and forth."
            return axis, why, hint
        ahead = next((hint for hint in stage.prefetches if hint.axis is axis), None)
        if ahead is not None:
            why = (
                f"{asked} would prefetch {ahead.tensor.name} for its later iterations, which are "
                "the earlier ones wherever it goes backwards"
            )
            return axis, why, f"Prefetch along a loop around or inside of {axis.name}."
    return None
