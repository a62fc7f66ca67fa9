"""Search strategies, which choose the next candidate.

A new strategy is a class with ``propose`` and ``learn``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random as Generator
from typing import Any, Protocol

from schedlang.autotune.knobs import Decisions, Rejected
from schedlang.autotune.model.by_model import candidate_by_model
from schedlang.autotune.record import Trial
from schedlang.autotune.space import Candidate, Space
from schedlang.errors import TuningError

# a space is exhausted after so many refused draws in a row, or after so many times the draws that
# one valid candidate has taken so far, if these are more
MOST_REFUSED, DRAWS_PER_VALID = 2000, 20
# candidates compared by their estimates for each one measured, and the part of proposals that
# ignore the estimates, which may be wrong
PER_TRIAL, EPS_GREEDY = 8, 0.25
# the same for a GPU, whose estimates were compared with times on one kind only
PER_TRIAL_GPU, EPS_GREEDY_GPU = 4, 0.5
# Evolve: the part of random candidates, the fastest trials that are parents, the most mutations
RANDOM_PART, POPULATION, MOST_MUTATIONS = 0.15, 12, 3


class Exhausted(Exception):
    """Raised when nothing is left to propose; the message, if any, says why."""


class Strategy(Protocol):
    """A search strategy: it proposes candidates and learns from their trials.

    Any object with these two methods is a strategy. Results show its ``name``, if it has one.
    :func:`valid` draws a candidate. This strategy proposes the first valid draw and learns nothing:

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
    """Random search: each proposal is the best of eight draws by estimate, of four for a GPU.

    The first proposal is the schedule of :func:`schedlang.autoschedule`, unless the template is the
    user's. One proposal in four (for a GPU, in two) is a single draw. On one machine, a seed always
    gives the same proposals, whatever the trials measure.
    """

    name = "random"

    def __init__(self, seed: int) -> None:
        self._rng = Generator(seed)
        self._started = False

    def propose(self, space: Space) -> Candidate:
        if not self._started:
            self._started = True
            preferred = candidate_by_model(space) if space.by_tactics else None
            if preferred is not None:
                return preferred
        compared = space.target.facts.compared_estimates
        single = self._rng.random() < (EPS_GREEDY if compared else EPS_GREEDY_GPU)
        count = 1 if single else _per_trial(space)
        return _best(space, self._rng, [_draw(space, self._rng) for _ in range(count)])

    def learn(self, trial: Trial) -> None:
        """Ignore the trial: draws are independent of what was measured."""


class Evolve:
    """Evolutionary search: crossover and mutation of the fastest trials.

    The method is Ansor's (OSDI 2020, section 5.1).
    """

    name = "evolve"

    def __init__(self, seed: int) -> None:
        self._rng = Generator(f"children, {seed}")
        self._random = Random(seed)
        self._best: list[tuple[float, Decisions]] = []

    def propose(self, space: Space) -> Candidate:
        if len(self._best) < POPULATION or self._rng.random() < RANDOM_PART:
            return self._random.propose(space)
        children = [self._child(space) for _ in range(_per_trial(space))]
        return _best(space, self._rng, children)

    def learn(self, trial: Trial) -> None:
        # where nothing is timed, the estimate stands in
        value = trial.estimate if trial.seconds is None else trial.seconds
        if trial.outcome == "ok" and value is not None and trial.decisions:
            self._best.append((value, trial.decisions))
            self._best.sort(key=lambda item: item[0])

    def _child(self, space: Space) -> Candidate:
        """Return a child: a parent, often crossed with another, with a few decisions redrawn."""
        rng = self._rng

        def redraw() -> Decisions:
            # the smaller of two ranks: faster parents are more likely
            ranks = [min(rng.randrange(POPULATION), rng.randrange(POPULATION)) for _ in range(2)]
            parent, mate = (self._best[rank][1] for rank in ranks)
            given = dict(parent)
            if rng.random() < 0.5:
                given |= {k: v for k, v in mate.items() if k in given and rng.random() < 0.5}
            for name in rng.sample(sorted(given), min(len(given), rng.randint(1, MOST_MUTATIONS))):
                del given[name]
            return given

        return _draw(space, rng, redraw)


def valid(space: Space, rng: Generator, given: Callable[[], Decisions] | None = None) -> Candidate:
    """Return the first draw that no constraint refuses.

    Raise :class:`Exhausted` after too many refused draws in a row.
    """
    return _first(space, lambda: space.draw(rng, given() if given is not None else None))


def _draw(space: Space, rng: Generator, given: Callable[[], Decisions] | None = None) -> Candidate:
    """Return a draw as :func:`valid` does, before the verifier has seen its nest."""
    return _first(space, lambda: space.draw_unverified(rng, given() if given is not None else None))


def _best(space: Space, rng: Generator, candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate of the least estimate that passes the verifier, or else a new draw."""
    for candidate in sorted(candidates, key=lambda c: c.estimate.seconds):
        try:
            return space.verify(candidate)
        except Rejected:
            continue
    return valid(space, rng)


def _first(space: Space, draw: Callable[[], Candidate]) -> Candidate:
    """Return the first draw that is not refused; raise :class:`Exhausted` after too many."""
    refused, most = 0, _most_refused(space)
    while refused < most and not space.late():
        try:
            return draw()
        except Rejected:
            refused += 1
    why = space.reasons.most_common(1)
    raise Exhausted(
        f"{refused} draws in a row were refused, most often: {why[0][0]}" if why else ""
    )


def _per_trial(space: Space) -> int:
    return PER_TRIAL if space.target.facts.compared_estimates else PER_TRIAL_GPU


def _most_refused(space: Space) -> float:
    valid = space.counts["valid"]
    return max(MOST_REFUSED, DRAWS_PER_VALID * space.counts["drawn"] / valid if valid else 0)


STRATEGIES: dict[str, Callable[[int], Strategy]] = {"random": Random, "evolve": Evolve}


def strategy(search: Any, seed: int, call: str = "autotune") -> Strategy:
    """Return the strategy of that name, or ``search`` itself if it is a strategy."""
    if isinstance(search, str) and search in STRATEGIES:
        return STRATEGIES[search](seed)
    proposes = (
        not isinstance(search, type) and hasattr(search, "propose") and hasattr(search, "learn")
    )
    if proposes:
        return search
    names = ", ".join(f'"{name}"' for name in STRATEGIES)
    raise TuningError(
        f"{call}(search={search!r}): give {names}, or an object with propose(space) and "
        "learn(trial)"
    )


def name_of(strategy: Strategy) -> str:
    """Return the name of a strategy in results."""
    return str(getattr(strategy, "name", type(strategy).__name__))
