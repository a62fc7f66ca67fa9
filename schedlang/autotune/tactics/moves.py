"""The moves of a descent: the order in which knobs change, and the values to try."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from schedlang.autotune.knobs import Decision, Decisions, Pick
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.errors import TuningError, explain

NOT_DECLARED = Moves()


class KnobMoves:
    """The moves of the knobs of a registry, by their names in candidates.

    A knob that is not declared, such as a knob of a user's template, moves as ``Moves()`` says.

    >>> from schedlang.autotune.tactics.driver import moves_of
    >>> from schedlang.autotune.tactics.registries import CPU
    >>> knobs = moves_of(CPU)
    >>> knobs.in_order({"C.order": [0, 1], "C.tile": [1, [0, 4]], "C.how": "tile"})
    ['C.how', 'C.tile', 'C.order']
    >>> knobs.start("C.unroll", [False, True]), knobs.start("C.vectors", [1, 2, 4, 8])
    (1, 2)
    >>> knobs.meaning("C.at"), knobs.meaning("mine")
    ('the loop of its reader at which the stage is computed', '')
    >>> knobs.meaning("C.x.block"), knobs.meaning("C.pack.W")
    ('the number of tiles (or elements) of a block along x', 'pack W')
    >>> knobs.of("S.at").places, knobs.of("A.global.at").places, knobs.of("C.pack.B").rank
    (True, False, 11)
    """

    def __init__(self, knobs: Iterable[Knob]) -> None:
        self._known: dict[str, Moves] = {}
        self._meanings: dict[str, str] = {}
        for knob in knobs:
            moves = self._known.setdefault(knob.key, knob.moves)
            if moves != knob.moves:
                why = f"two knobs {knob.name} move in different ways"
                fix = f"Give one of them a name that does not end with {knob.key}."
                raise TuningError(explain(f"the knob {knob.name}", why, fix))
            # ``C`` has the knobs of ``C.local`` if the sum has no stage of its own
            self._known.setdefault(knob.key.rpartition(".")[2] or knob.key, knob.moves)
            for key in (knob.key, knob.key.rpartition(".")[2] or knob.key):
                self._meanings.setdefault(key, knob.meaning)

    def of(self, name: str) -> Moves:
        """Return how the knob of that name moves."""
        return next((self._known[key] for key in _keys(name) if key in self._known), NOT_DECLARED)

    def depends(self, name: str, other: str) -> bool:
        """Return whether the best value of a knob depends on another one, of the same stage.

        >>> from schedlang.autotune.tactics.driver import moves_of
        >>> from schedlang.autotune.tactics.registries import CPU
        >>> knobs, instruction = moves_of(CPU), "C.local.instruction"
        >>> knobs.depends(instruction, "C.lane"), knobs.depends(instruction, "D.lane")
        (True, False)
        """
        return self.of(name).dependent and self._stage(name) == self._stage(other)

    def _stage(self, name: str) -> str:
        """Return the stage of a knob, by the end of its name that is declared."""
        return next((name.removesuffix(key) for key in _keys(name) if key in self._known), "")

    def meaning(self, name: str) -> str:
        """Return what the knob of that name decides, in brief; empty if it is not declared."""
        whole = next((self._meanings[key] for key in _keys(name) if key in self._meanings), "")
        # the rest explains the values
        brief = re.split(r"[:;]|\. ", whole)[0]
        parts = name.split(".")
        for letter in ("A", "B"):
            brief = brief.replace(f"`{letter}`", parts[-1])
        return brief.replace("`i`", parts[-2] if len(parts) > 1 else "i").replace("`", "")

    def in_order(self, decisions: Mapping[str, Decision]) -> list[str]:
        """Return the names of knobs, the most promising first."""
        return sorted(decisions, key=lambda name: self.of(name).rank)

    def start(self, name: str, options: Sequence[Decision]) -> int:
        """Return the position of the option to start from."""
        return self.of(name).start(options)

    def start_inside(self, name: str, options: Sequence[Decision]) -> int:
        """Return the position of :meth:`start`, but compute stages in the outermost loop that fits.

        So a block of rows goes through all stages while it is in a cache.
        """
        moves = self.of(name)
        return (moves.inside or moves.start)(options)

    def others(
        self, name: str, decision: Decision, options: Sequence[Decision] | None
    ) -> list[Decision]:
        """Return the values of a knob to try instead of ``decision``, the most promising first.

        ``options`` is ``None`` for the order of a permutation. Then each item goes first, the last
        one before others, as it is the contiguous one.
        """
        moves = self.of(name)
        if options is None:
            return _move_each(list(decision), moves.both_ends)
        distinct = [o for n, o in enumerate(options) if o not in options[:n]]
        return [o for o in moves.tried(distinct) if o != decision][: moves.most]

    def nearest(self, recorded: Decisions) -> Pick:
        """Return a function that picks the option nearest to the recorded decision of a knob.

        A knob that was not recorded starts as :meth:`start` says.
        """

        def pick(name: str, options: Sequence[Decision]) -> int:
            if name not in recorded:
                return self.start(name, options)
            distances = [self.of(name).apart(recorded[name], option) for option in options]
            return distances.index(min(distances))

        return pick


def _move_each(order: list[int], back: bool) -> list[Decision]:
    """Return an order with each item moved to the front, and then to the back if asked.

    >>> _move_each([0, 1, 2], False), _move_each([0, 1], True)
    ([[2, 0, 1], [1, 0, 2]], [[1, 0]])
    """
    orders: list[Decision] = []
    for front in (True, False) if back else (True,):
        for item in reversed(order) if front else order:
            rest = [n for n in order if n != item]
            moved = [item, *rest] if front else [*rest, item]
            if moved != order and moved not in orders:
                orders.append(moved)
    return orders


def _keys(name: str) -> tuple[str, ...]:
    """Return the keys under which the knob of that name may be declared."""
    *_, before, last = ("", *name.split("."))
    return f"{before}.{last}", last, f"{before}."
