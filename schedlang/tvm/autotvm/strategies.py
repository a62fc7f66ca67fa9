"""The orders in which tuners take configurations, as strategies of :func:`schedlang.autotune`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from schedlang.autotune.record import Trial
from schedlang.autotune.search import Exhausted, Strategy, valid
from schedlang.autotune.space import Candidate, Space
from schedlang.tvm.autotvm.config import ConfigSpace

# a space of at most so many configurations is shuffled; of a larger one, numbers are drawn
MOST_SHUFFLED = 1 << 20


class InOrder:
    """Every configuration once, in the order of ``indices``."""

    def __init__(self, config_space: ConfigSpace, indices: Iterator[int]) -> None:
        self._space, self._indices = config_space, indices
        # draws what the first call of the template did not define
        self._rng = Random(0)

    def propose(self, space: Space) -> Candidate:
        return valid(space, self._rng, self._next)

    def learn(self, trial: Trial) -> None:
        """Ignore the trial: the order is known before."""

    def _next(self) -> dict[str, Any]:
        index = next(self._indices, None)
        if index is None:
            raise Exhausted("every configuration was tried")
        return self._space.decisions(index)


def shuffled(count: int, seed: int) -> Iterator[int]:
    """Yield the numbers below ``count``, each once, in a random order.

    >>> sorted(shuffled(5, seed=0))
    [0, 1, 2, 3, 4]
    """
    rng = Random(seed)
    if count <= MOST_SHUFFLED:
        yield from rng.sample(range(count), count)
        return
    seen: set[int] = set()
    while len(seen) < count:
        number = rng.randrange(count)
        if number not in seen:
            seen.add(number)
            yield number


class Watched:
    """A strategy under the name of a tuner, which ends when many trials bring no gain.

    ``history`` are trials to learn from before the first proposal. ``most`` is the number of trials
    without a shorter time that ends the search; ``None`` for no such end.
    """

    def __init__(
        self, strategy: Strategy, name: str, most: int | None, history: Sequence[Trial]
    ) -> None:
        self.name = name
        self._strategy, self._most = strategy, most
        self._least, self._since = float("inf"), 0
        for trial in history:
            strategy.learn(trial)

    def propose(self, space: Space) -> Candidate:
        if self._most is not None and self._since >= self._most:
            raise Exhausted(f"no better configuration in {self._since} trials (early_stopping)")
        return self._strategy.propose(space)

    def learn(self, trial: Trial) -> None:
        self._strategy.learn(trial)
        cost = trial.seconds if trial.seconds is not None else trial.estimate
        better = trial.outcome == "ok" and cost is not None and cost < self._least
        if better and cost is not None:
            self._least = cost
        self._since = 0 if better else self._since + 1
