"""Decisions for one size, made legal for another: the nearest option of each knob."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from schedlang.autotune.knobs import Decision, Decisions, Pick
from schedlang.autotune.model import moves

# the distance of two options that have nothing in common: more than that of any two sizes
UNLIKE = 64.0
# kinds of knobs whose first option leaves something out
NONE = ("step_block", "prefetch")


def nearest(recorded: Decisions) -> Pick:
    """Return a function that picks the option nearest to the recorded decision of a knob.

    A knob that was not recorded starts as in :func:`schedlang.autotune.model.moves.start`, but for
    blocks of steps and prefetches: without a decision, the recorded schedule had none.

    >>> pick = nearest({"C.tile": [2, [0, 11]], "C.i.block": 47, "C.how": "phases"})
    >>> pick("C.tile", [[4, [0, 6]], [2, [1, 11]], [2, [0, 10]]]), pick("C.i.block", [1, 25, 50])
    (2, 2)
    >>> pick("C.how", ["tile", "steps"]), pick("C.unroll", [False, True])
    (0, 1)
    >>> pick("C.prefetch", [0, 1, 2])
    0
    """

    def pick(name: str, options: Sequence[Decision]) -> int:
        if name not in recorded:
            return 0 if moves.kind_of(name) in NONE else moves.start(name, options)
        apart = _tiles_apart if moves.kind_of(name) == "tile" else _apart
        distances = [apart(recorded[name], option) for option in options]
        return distances.index(min(distances))

    return pick


def _apart(a: Decision, b: Decision) -> float:
    """Return the distance of two decisions: of numbers that of their logarithms."""
    if a == b and type(a) is type(b):
        return 0.0
    if isinstance(a, list) and isinstance(b, list):
        rest = UNLIKE * abs(len(a) - len(b))
        return rest + sum(_apart(x, y) for x, y in zip(a, b))
    if not (_is_number(a) and _is_number(b)) or (a < 0) != (b < 0):
        return UNLIKE
    return abs(log2((1 + abs(a)) / (1 + abs(b))))


def _tiles_apart(a: Decision, b: Decision) -> float:
    """Return the distance of two register tiles: vectors, then the rows of each axis."""
    try:
        mine, theirs = ({"vectors": t[0], **{str(at): n for at, n in t[1:]}} for t in (a, b))
        return sum(
            abs(log2(mine.get(at, 1) / theirs.get(at, 1)))
            * (UNLIKE if (at in mine) != (at in theirs) else 1)
            for at in {*mine, *theirs}
        )
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        # a recorded decision is data, of any form
        return UNLIKE


def _is_number(value: Decision) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


__all__ = ["nearest"]
