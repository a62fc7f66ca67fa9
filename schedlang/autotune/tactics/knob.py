"""The description of a knob: its row in ``docs/reference/knobs.md``, and how a descent moves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

from schedlang.autotune.knobs import Decision

# the position of an option
Position = Callable[[Sequence[Decision]], int]
# the distance of two decisions that have nothing in common: more than any two sizes have
# by definition: sizes have fewer bits
UNLIKE = 64.0
# the rank of a knob that states none: it is changed last
# by definition: the greatest
LAST_RANK = 99
# the most values of a knob that are tried
# nobody has measured this value
MOST_VALUES = 4


def first(options: Sequence[Decision]) -> int:
    """Return the position of the first option, which tactics make the safest one."""
    return 0


def second(options: Sequence[Decision]) -> int:
    """Return the position of the second option, if there is one."""
    return min(1, len(options) - 1)


def third(options: Sequence[Decision]) -> int:
    """Return the position of the third option, or of the last one if there are fewer."""
    return min(2, len(options) - 1)


def last(options: Sequence[Decision]) -> int:
    """Return the position of the last option."""
    return len(options) - 1


def yes(options: Sequence[Decision]) -> int:
    """Return the position of ``True``, if it is an option."""
    return options.index(True) if True in options else 0


def at_most(number: int) -> Position:
    """Return a function that returns the position of the last option up to ``number``.

    >>> at_most(2)([1, 2, 4])
    1
    """

    def position(options: Sequence[Decision]) -> int:
        small = [at for at, o in enumerate(options) if isinstance(o, int) and o <= number]
        return max(small, default=0)

    return position


def spread(options: Sequence[Decision]) -> list[Decision]:
    """Return some of the options, from all of their range, if there are many.

    >>> spread([1, 2, 3, 4, 6, 8, 12, 16, 24, 48])
    [48, 3, 6, 12, 1]
    """
    if len(options) <= MOST_VALUES + 1:
        return list(options)
    end = len(options) - 1
    places = (end, end // 4, end // 2, 3 * end // 4, 0)
    return [options[at] for at in dict.fromkeys(places)]


def distance(a: Decision, b: Decision) -> float:
    """Return the distance of two decisions; for two numbers, the distance of their logarithms.

    >>> distance(3, 7), distance([1, 3], [1, 7]), distance("tile", "rows")
    (1.0, 1.0, 64.0)
    """
    if a == b and type(a) is type(b):
        return 0.0
    if isinstance(a, list) and isinstance(b, list):
        rest = UNLIKE * abs(len(a) - len(b))
        return rest + sum(distance(x, y) for x, y in zip(a, b))
    if not (_is_number(a) and _is_number(b)) or (a < 0) != (b < 0):
        return UNLIKE
    return abs(log2((1 + abs(a)) / (1 + abs(b))))


def _is_number(value: Decision) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Moves:
    """The moves of a descent along a knob, and the use of decisions for one size at another.

    We chose the ranks and the starting values of schedlang's tactics that lowered the estimate most
    in searches for the operator families of ``benchmarks/works/families.py``.

    * ``rank``: knobs of a lower rank are changed first.
    * ``structure``: the knob decides which other knobs there are, or what these mean.
    * ``dependent``: the best value differs with the other structure of the stage, so that all other
      values are tried with each change of it.
    * ``start``: the position of the option to start from. ``inside``: the position for candidates
      that compute stages inside the loops of others, if it differs.
    * ``tried``: the values to try, the most promising first, from options that are all different.
      ``most`` is how many of them are tried.
    * ``both_ends``: an item of a permutation also goes last, not only first.
    * ``apart``: the distance of a recorded decision from an option.
    * ``places``: the knob is the loop at which a stage is computed. ``blocks``: it is the number of
      elements of a block along an axis.
    """

    rank: float = LAST_RANK
    structure: bool = False
    dependent: bool = False
    start: Position = first
    inside: Position | None = None
    tried: Callable[[Sequence[Decision]], list[Decision]] = spread
    most: int = MOST_VALUES
    both_ends: bool = False
    apart: Callable[[Decision, Decision], float] = distance
    places: bool = False
    blocks: bool = False


@dataclass(frozen=True)
class Knob:
    """A knob that tactics ask for.

    * ``name``: its name in candidates. A capital letter stands for a stage or a tensor, ``i`` for
      an axis.
    * ``values``: the values that it can have; a text describes values that depend on the stage.
    * ``moves``: how a descent moves it.
    """

    name: str
    values: str | tuple[Any, ...]
    meaning: str
    moves: Moves = field(default=Moves(), compare=False)

    @property
    def key(self) -> str:
        """The end of its name in any candidate: ``"local.unroll"``; ``"pack."`` of an operand.

        >>> [Knob(name, (), "").key for name in ("C.i.block", "C.local.unroll", "C.pack.B")]
        ['block', 'local.unroll', 'pack.']
        """
        parts = self.name.split(".")
        named = [part for part in parts if not (len(part) == 1 and (part.isupper() or part == "i"))]
        return ".".join(named) + "." * (len(parts[-1]) == 1)
