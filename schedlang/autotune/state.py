"""The state of a search: its trials, the fastest of them, what remains to be tried."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from schedlang.autotune.database import Database
from schedlang.autotune.noise import as_raced, race_ratio
from schedlang.autotune.record import Trial, Where
from schedlang.autotune.report.progress import Progress, Silent
from schedlang.autotune.runner.measure import Job, Measured, Measurer, digest
from schedlang.autotune.runner.task import Task
from schedlang.autotune.search import Strategy
from schedlang.autotune.space import Candidate, Space
from schedlang.schedule.schedule import plain_schedule

# trials without a gain of a hundredth after which a search stops, as a part of all, and at least
STALLED, LEAST_STALLED = 0.5, 64
# the number of a job that is the untuned schedule
BASELINE = -1


@dataclass
class Search:
    """All that a run of the tuner knows, as it goes.

    ``start`` is measured ahead of proposals; ``finalists`` are the numbers of the trials that were
    measured again, of which the fastest is the best; ``kept`` are the keys of earlier runs' trials,
    with how often each may be proposed again and is no repetition. ``untuned`` is what was measured
    last of the untuned schedule, ``untuned_first`` what was before it was in the race, if it was,
    ``unraced`` whether the race gave no times, and ``finals_took`` the seconds of what comes after
    the last trial. ``timeout`` is how many seconds it may take, if that was said, and ``end`` when
    these are over (of ``time.monotonic``): the deadline of ``space``, after which nothing is drawn,
    comes before it. ``ended`` says why it stopped, and ``broken`` whether that was for want of what
    it needs; ``exhausted`` is why the strategy had no more.
    """

    task: Task
    where: Where
    name: str
    space: Space
    strategy: Strategy
    measurer: Measurer
    database: Database
    most: int
    progress: Progress = field(default_factory=Silent)
    start: Candidate | None = None
    template: str = ""
    trials: list[Trial] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    kept: dict[str, int] = field(default_factory=dict)
    finalists: set[int] = field(default_factory=set)
    duplicates: int = 0
    untuned: Measured | None = None
    untuned_first: Measured | None = None
    unraced: bool = False
    finals_took: float = 0.0
    timeout: float | None = None
    end: float | None = None
    ended: str = ""
    broken: bool = False
    exhausted: str = ""

    @property
    def baseline(self) -> float | None:
        """The seconds of the untuned schedule, where it has any."""
        return None if self.untuned is None else self.untuned.seconds

    @property
    def times_plain(self) -> bool:
        """Return whether the untuned schedule is timed too: on a GPU it has no threads."""
        return self.task.timed and not self.task.target.is_gpu

    def good(self) -> list[Trial]:
        """Return the trials that worked, fastest first.

        Where nothing is timed, by what is expected.
        """
        good = [t for t in self.trials if t.outcome == "ok"]
        return ranked([t for t in good if t.seconds is not None] if self.task.timed else good)

    def best(self) -> Trial | None:
        """Return the fastest of those that were measured again, if any were, else of all."""
        good = self.good()
        again = [t for t in good if t.number in self.finalists]
        return next(iter(again or good), None)

    def stalled(self) -> bool:
        """Return whether many trials brought no gain."""
        own = [t for t in self.trials if not t.resumed]
        # where there is time for any number, half of those so far
        all_ = len(own) if self.most == sys.maxsize else self.most
        patience = max(LEAST_STALLED, int(STALLED * all_))
        recent = own[-patience:]
        before = [t for t in self.trials if t.resumed] + own[:-patience]
        if len(recent) < patience:
            return False
        least = min(map(self._worth, before), default=np.inf)
        return least < np.inf and min(map(self._worth, recent)) > 0.99 * least

    def _worth(self, trial: Trial) -> float:
        """Return the seconds, or the estimate where nothing is timed; infinite for what failed."""
        value = trial.seconds if self.task.timed else trial.estimate
        return np.inf if trial.outcome != "ok" or value is None else value

    def keep(self, trial: Trial, found: Measured) -> None:
        """Write a trial, under the machine that measured it if that is another one."""
        where = replace(self.where, machine=found.machine or self.where.machine)
        self.database.add(where, self.name, trial, self.task.outputs)

    def plain(self) -> Job:
        """Return the untuned schedule, to be measured."""
        return Job(BASELINE, plain_schedule(list(self.task.outputs)).to_json(), self.end)


def key_of(candidate: Candidate) -> str:
    """Return the key that tells candidates of one source apart: a hash of the nest."""
    return digest(str(candidate.nest))


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials in the order of their times, or of their estimates; equal ones by number.

    Some may come from the race of an earlier search.
    """
    factor = race_ratio(trials)

    def key(trial: Trial) -> tuple[float, float, int]:
        return (as_raced(trial, factor), trial.estimate or 0.0, trial.number)

    return sorted(trials, key=key)


__all__ = ["BASELINE", "Search", "key_of", "ranked"]
