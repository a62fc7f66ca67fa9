"""Strategies: which candidate comes next. A new one is a class with ``propose`` and ``learn``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random as Generator
from typing import Any, Protocol

from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.record import Trial
from schedlang.autotune.space import Candidate, Space
from schedlang.errors import TuningError

# draws that are refused one after the other before a space is taken to have nothing (more); where
# few are valid, so many times as many as it takes for one
MOST_REFUSED, PATIENT = 2000, 20
# valid candidates that are compared by their estimate for each one that is measured, and the part
# of the proposals that are blind to it, which may be wrong
GLANCES, BLIND = 8, 0.25
# of a GPU, whose estimate was never held against measured times
GLANCES_OF_GPU, BLIND_OF_GPU = 4, 0.5
# of an evolution: candidates drawn afresh, parents that may have children, decisions that change
FRESH, PARENTS, CHANGED = 0.15, 12, 3


class Exhausted(Exception):
    """There is nothing left to propose; its text, if it has one, says why."""


class Strategy(Protocol):
    """A search strategy: proposes candidates, and learns how their trials ended.

    Any object with these methods is one; results show its ``name``, if it has one. :func:`valid`
    draws a candidate. This one takes the first that is drawn and learns nothing:

    >>> import random, tempfile, schedlang as sl
    >>> class Blind:
    ...     name = "blind"
    ...     def __init__(self, seed):
    ...         self.rng = random.Random(seed)
    ...     def propose(self, space):
    ...         return sl.autotune.search.valid(space, self.rng)
    ...     def learn(self, trial):
    ...         pass
    >>> A = sl.placeholder((64,), name="A")
    >>> B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sl.autotune(B, trials=1, search=Blind(0), database=folder + "/tuning.jsonl")
    >>> result.trials[0].strategy
    'blind'
    """

    def propose(self, space: Space) -> Candidate: ...
    def learn(self, trial: Trial) -> None: ...


class Random:
    """Independent draws: the best of eight by the estimate, of four for a GPU.

    One draw in four (for a GPU, in two) ignores the estimate. A seed gives the same proposals on
    one machine, whatever is measured.
    """

    name = "random"

    def __init__(self, seed: int) -> None:
        self._rng = Generator(seed)

    def propose(self, space: Space) -> Candidate:
        blind = self._rng.random() < (BLIND_OF_GPU if space.target.is_gpu else BLIND)
        found = [valid(space, self._rng) for _ in range(1 if blind else _glances(space))]
        return min(found, key=lambda c: c.estimate.seconds)

    def learn(self, trial: Trial) -> None:
        """Ignore the trial: draws are independent of what was measured."""


class Evolve:
    """Mutations and crossings of the fastest so far (as in Ansor, OSDI 2020, section 5.1)."""

    name = "evolve"

    def __init__(self, seed: int) -> None:
        self._rng = Generator(f"children, {seed}")
        self._random = Random(seed)
        self._best: list[tuple[float, Decisions]] = []

    def propose(self, space: Space) -> Candidate:
        if len(self._best) < PARENTS or self._rng.random() < FRESH:
            return self._random.propose(space)
        found = [self._child(space) for _ in range(_glances(space))]
        return min(found, key=lambda c: c.estimate.seconds)

    def learn(self, trial: Trial) -> None:
        # where nothing is timed, what is expected is all there is
        value = trial.estimate if trial.seconds is None else trial.seconds
        if trial.outcome == "ok" and value is not None and trial.decisions:
            self._best.append((value, trial.decisions))
            self._best.sort(key=lambda item: item[0])

    def _child(self, space: Space) -> Candidate:
        """Return a parent, often with decisions of another one, and a few decisions drawn again."""
        rng = self._rng

        def made() -> Decisions:
            # better parents are more likely: a triangle over their ranks
            one, other = (
                self._best[min(rng.randrange(PARENTS), rng.randrange(PARENTS))][1] for _ in range(2)
            )
            given = dict(one)
            if rng.random() < 0.5:
                given |= {k: v for k, v in other.items() if k in given and rng.random() < 0.5}
            for name in rng.sample(sorted(given), min(len(given), rng.randint(1, CHANGED))):
                del given[name]
            return given

        return valid(space, rng, made)


def valid(space: Space, rng: Generator, given: Callable[[], Decisions] | None = None) -> Candidate:
    """Return the first draw that no constraint refuses.

    Raises :class:`Exhausted` where there is none.
    """
    refused, most = 0, _patience(space)
    while refused < most and not space.late():
        try:
            return space.draw(rng, given() if given is not None else None)
        except Rejected:
            refused += 1
    why = space.reasons.most_common(1)
    raise Exhausted(
        f"{refused} draws in a row were refused, most often: {why[0][0]}" if why else ""
    )


def _glances(space: Space) -> int:
    return GLANCES_OF_GPU if space.target.is_gpu else GLANCES


def _patience(space: Space) -> float:
    valid = space.counts["valid"]
    return max(MOST_REFUSED, PATIENT * space.counts["tried"] / valid if valid else 0)


STRATEGIES: dict[str, Callable[[int], Strategy]] = {"random": Random, "evolve": Evolve}


def strategy(search: Any, seed: int) -> Strategy:
    """Return a strategy by name, or one that a user made."""
    if isinstance(search, str) and search in STRATEGIES:
        return STRATEGIES[search](seed)
    made = not isinstance(search, type) and hasattr(search, "propose") and hasattr(search, "learn")
    if made:
        found: Strategy = search
        return found
    names = ", ".join(f'"{name}"' for name in STRATEGIES)
    raise TuningError(
        f"autotune(search={search!r}): give {names}, or an object with propose(space) and "
        "learn(trial)"
    )


def name_of(strategy: Strategy) -> str:
    """Return what a strategy is called in results."""
    return str(getattr(strategy, "name", type(strategy).__name__))


__all__ = ["Evolve", "Exhausted", "Random", "Strategy", "name_of", "strategy", "valid"]
