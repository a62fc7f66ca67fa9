"""Tactics, each one way to compute a stage, and the registry of those for a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.errors import TuningError, explain
from schedlang.ir.nest import Nest
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


@dataclass(frozen=True)
class Tactic:
    """One way to compute a stage.

    * ``name``: the value of the knob ``C.how`` that chooses it, in databases too.
    * ``meaning``: its row in ``docs/reference/knobs.md``.
    * ``applies``: whether it is an option, from the facts about the stage and from which other
      tactics apply.
    * ``apply``: asks knobs, applies steps, and returns what it decided. It changes nothing but the
      schedule.
    * ``knobs``: the knobs that it asks for.
    * ``weight``: how many times it is among the options.
    * ``implied``: it is taken without the knob ``C.how`` if no other tactic applies.
    * ``alone``: no other tactic is an option where it applies.
    """

    name: str
    meaning: str
    applies: Callable[[StageFacts, Applicable], bool]
    apply: Callable[[Schedule, StageFacts, Knobs], Scheduled]
    knobs: tuple[Knob, ...] = ()
    weight: Callable[[StageFacts, Applicable], int] = lambda stage, others: 1
    implied: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Fusion:
    """A way to compute a reduction inside the loops of its elementwise reader.

    ``fits`` takes the reader, the reduction, and the dimension of the reduction that is contiguous
    in the reader. ``apply`` takes the schedule, both stages, and for each axis of the reader the
    dimension of the reduction that it indexes, or -1.
    """

    fits: Callable[[StageFacts, StageFacts, int], bool]
    apply: Callable[[Schedule, StageFacts, StageFacts, Sequence[int], Knobs], Scheduled]


@dataclass(frozen=True)
class Registry:
    """The tactics for a kind of target, in the order of the options of ``C.how``.

    * ``fusion``: offered first, to stages without a reduction.
    * ``checks``: each takes the loop nest of a candidate and the target, and returns why the target
      does not want it, or an empty text. They judge what a search draws, the steps of the plain
      schedule of :func:`schedlang.autoschedule`, and each of :func:`schedlang.next_steps`.

    Raise :class:`~schedlang.errors.TuningError` for two tactics of one name.
    """

    kind: str
    tactics: tuple[Tactic, ...]
    fusion: Fusion | None = None
    checks: tuple[Callable[[Nest, Target], str], ...] = ()

    def __post_init__(self) -> None:
        names = [tactic.name for tactic in self.tactics]
        if len(set(names)) < len(names):
            raise TuningError(
                explain(
                    f"Registry({self.kind!r}, ...)",
                    f"names of tactics are not unique: {names}",
                    "Give each tactic a name of its own.",
                )
            )

    @property
    def knobs(self) -> dict[Knob, list[str]]:
        """The knobs that the tactics ask for, each with the names of these tactics."""
        askers: dict[Knob, list[str]] = {}
        for tactic in self.tactics:
            for knob in tactic.knobs:
                askers.setdefault(knob, []).append(tactic.name)
        return askers

    def options(self, stage: StageFacts) -> list[Tactic]:
        """Return the tactics that apply to a stage, each as often as its weight says."""
        known = Applicable(self.tactics, stage)
        alone = [t for t in self.tactics if t.alone and t.name in known]
        return [
            tactic
            for tactic in alone or self.tactics
            if tactic.name in known
            for _ in range(tactic.weight(stage, known))
        ]


class Applicable:
    """The tactics that apply to a stage; a tactic may ask for others by name.

    Each is asked at most once, when its answer is needed. A name that the registry does not have
    does not apply.
    """

    def __init__(self, tactics: Sequence[Tactic], stage: StageFacts) -> None:
        self._tactics = {tactic.name: tactic for tactic in tactics}
        self._stage = stage
        # None while a tactic is asked
        self._known: dict[str, bool | None] = {}

    def __contains__(self, name: str) -> bool:
        if name not in self._known:
            tactic = self._tactics.get(name)
            self._known[name] = None
            self._known[name] = tactic is not None and tactic.applies(self._stage, self)
        answer = self._known[name]
        if answer is None:
            why = f"tactic {name} depends on itself through another one"
            fix = "Let one of the two apply without asking for the other."
            raise TuningError(explain(f"{name!r} in others", why, fix))
        return answer

    def before(self, name: str) -> list[str]:
        """Return the names of the tactics listed before ``name`` that apply."""
        earlier = takewhile(lambda known: known != name, self._tactics)
        return [known for known in earlier if known in self]
