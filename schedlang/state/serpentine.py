"""The checks of loops that go back and forth, as the pragma ``"serpentine"`` asks for."""

from __future__ import annotations

from schedlang.expr.nodes import Axis
from schedlang.state.state import SERPENTINE, Stage, participle


def is_serpentine(stage: Stage, axis: Axis) -> bool:
    """Return whether every other run of the loop over ``axis`` goes backwards."""
    return any(a is axis and name == SERPENTINE for a, name, _ in stage.pragmas)


def out_of_order(stage: Stage) -> tuple[Axis, str, str] | None:
    """Return a serpentine loop that needs its order, why it does, and what to do instead.

    Return ``None`` if there is none.
    """
    for axis in (a for a, name, _ in stage.pragmas if name == SERPENTINE):
        kind = stage.kinds.get(axis)
        if kind is not None:
            why = f"{axis.name} is {participle(kind)}, and only a serial loop can turn around"
            return axis, why, f"Split {axis.name} first, and take one of the two for each."
        hint = next((hint for hint in stage.prefetches if hint.axis is axis), None)
        if hint is not None:
            why = (
                f"{axis.name} prefetches {hint.tensor.name} for its later iterations, and every "
                "other run goes the other way"
            )
            return axis, why, f"Prefetch along a loop around or inside of {axis.name}."
    return None


__all__ = ["is_serpentine", "out_of_order"]
