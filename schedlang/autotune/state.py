"""The state of a search: its trials, the fastest of them, and why it ended."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from schedlang.autotune.database import Database
from schedlang.autotune.race_times import as_raced, race_ratio
from schedlang.autotune.record import NEAR_SIZE, Trial, Where
from schedlang.autotune.report.progress import Progress, Silent
from schedlang.autotune.runner.measure import Job, Measured, Measurer, digest
from schedlang.autotune.runner.task import Task
from schedlang.autotune.search import Strategy
from schedlang.autotune.space import Candidate, Space
from schedlang.ir.nest import Nest
from schedlang.schedule.schedule import empty_schedule

# a search stops after this part of its trials, at least 64, without a gain of one percent
STALLED, LEAST_STALLED = 0.5, 64
# without a race, how many times faster than the first candidate another one must be to win: times
# of different moments differ by that much
UNRACED_GAIN = 1.25
# the job number of the untuned schedule
BASELINE = -1


@dataclass
class Search:
    """The state of a search while it runs.

    * ``most``: the most trials.
    * ``start``: a candidate that is measured before the strategy's proposals, or one of a near
      size, after the first of these. ``given``: the caller's candidate, which is always measured.
    * ``seen``: the keys of all candidates so far. ``kept``: the keys of the trials of earlier runs,
      each with how often it may be proposed again without counting as a duplicate.
    * ``first``: the key of the strategy's first proposal, which is the schedule of
      :func:`schedlang.autoschedule` without a user's template.
    * ``recorded``: the key of ``start``, unless it is of a near size.
    * ``finalists``: the numbers of the trials that the race measured again. ``unraced``: the race
      gave no times. ``finals_took``: the seconds that passed after the last trial.
    * ``untuned``: the last measurement of the untuned schedule; ``untuned_first``: the one before
      the race, if that schedule was in the race.
    * ``timeout``: the seconds that the search may take, if limited. ``end``: when they are over, by
      ``time.monotonic``. The deadline of ``space``, after which nothing is drawn, is earlier.
      ``latest``: when the first candidate that works is given up, if it is.
    * ``ended``: why the search stopped. ``broken``: an error stopped it. ``exhausted``: why the
      strategy had no more proposals.
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
    first: str = ""
    finalists: set[int] = field(default_factory=set)
    duplicates: int = 0
    untuned: Measured | None = None
    untuned_first: Measured | None = None
    unraced: bool = False
    finals_took: float = 0.0
    timeout: float | None = None
    end: float | None = None
    latest: float | None = None
    given: Candidate | None = None
    ended: str = ""
    broken: bool = False
    exhausted: str = ""
    recorded: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.start is not None and self.start.origin != NEAR_SIZE:
            self.recorded = key_of(self.start)

    @property
    def present(self) -> str:
        """The key of what is there before the search, empty if nothing is.

        It is the caller's candidate, or else the schedule that a database has for these sizes.
        """
        return self.recorded if self.given is None else key_of(self.given)

    @property
    def baseline(self) -> float | None:
        """The seconds of the untuned schedule, if it was timed."""
        return None if self.untuned is None else self.untuned.seconds

    @property
    def times_untuned(self) -> bool:
        """True if the untuned schedule, which binds no threads, is timed too."""
        return self.task.timed and not self.task.target.facts.binds_threads

    def good(self) -> list[Trial]:
        """Return the trials that worked, fastest first, by estimate if nothing is timed."""
        good = [t for t in self.trials if t.outcome == "ok"]
        return ranked([t for t in good if t.seconds is not None] if self.task.timed else good)

    def compared(self) -> list[Trial]:
        """Return the trials that every race compares: the fastest, what is there and the first.

        They are two at least, if two worked.
        """
        good = self.good()
        asked = self._present(good) + _first(good, self.first)
        distinct = list({t.number: t for t in [*good[:1], *asked]}.values())
        return distinct if len(distinct) > 1 else good[:2]

    def first_good(self, count: int) -> list[Trial]:
        """Return the trials that every race compares, then the next fastest: ``count`` of them."""
        known = {t.number: t for t in [*self.compared(), *self.good()]}
        return list(known.values())[:count]

    def left_out(self) -> bool:
        """Return whether the caller's candidate was not proposed yet."""
        return self.given is not None and key_of(self.given) not in self.seen

    def _present(self, good: Sequence[Trial]) -> list[Trial]:
        """Return the trial of what is there before the search, if anything is and it worked."""
        return [t for t in good if self.present and t.source == self.present][:1]

    def keep(self, spreads: Mapping[int, float]) -> None:
        """Give what is there a margin after a race, if the gain of the fastest may be noise.

        What is there is the first candidate if nothing was there before. ``spreads`` are the parts
        by which the times of the rounds of the race differed, by the numbers of the finalists.
        """
        good = self.good()
        raced = [t for t in good if t.number in self.finalists]
        for trial in (self._present(good) or _first(good, self.first)) if raced else ():
            noise = spreads.get(trial.number, 0.0) + spreads.get(raced[0].number, 0.0)
            near = (trial.seconds or 0.0) <= (1 + noise) * (raced[0].seconds or 0.0)
            if trial in raced[1:] and near:
                self.trials[self.trials.index(trial)] = replace(trial, margin=noise)

    def best(self) -> Trial | None:
        """Return the first finalist by :func:`ranked`, or the first trial if there was no race.

        Without a race, a search that has ended returns its first candidate unless another one is
        :data:`UNRACED_GAIN` times as fast.
        """
        good = self.good()
        raced = [t for t in good if t.number in self.finalists]
        if self.ended and not raced and self.task.timed:
            least = (good[0].seconds or 0.0) if good else 0.0
            near = [t for t in _first(good, self.first)
                    if t.seconds is not None and t.seconds < UNRACED_GAIN * least]  # fmt: skip
            return next(iter(near or good), None)
        return next(iter(raced or good), None)

    def stalled(self) -> bool:
        """Return whether the last half of the trials, at least 64, brought no gain."""
        own = [t for t in self.trials if not t.resumed]
        # a search without a limit counts half of its trials so far
        all_ = len(own) if self.most == sys.maxsize else self.most
        patience = max(LEAST_STALLED, int(STALLED * all_))
        recent = own[-patience:]
        before = [t for t in self.trials if t.resumed] + own[:-patience]
        if len(recent) < patience:
            return False
        least = min(map(self._worth, before), default=np.inf)
        return least < np.inf and min(map(self._worth, recent)) > 0.99 * least

    def _worth(self, trial: Trial) -> float:
        """Return the seconds of a trial, or its estimate if nothing is timed.

        A failed trial has infinite seconds.
        """
        value = trial.seconds if self.task.timed else trial.estimate
        return np.inf if trial.outcome != "ok" or value is None else value

    def record(self, trial: Trial, measured: Measured) -> None:
        """Write a trial to the database, under the machine that measured it."""
        where = replace(self.where, machine=measured.machine or self.where.machine)
        self.database.add(where, self.name, trial, self.task.outputs)

    def untuned_job(self) -> Job:
        """Return the job that measures the untuned schedule."""
        return Job(BASELINE, empty_schedule(list(self.task.outputs)).to_json(), self.end)


def key_of(candidate: Candidate) -> str:
    """Return the key of a candidate, a hash of its nest: equal nests give equal source."""
    return nest_key(candidate.nest)


def _first(good: Sequence[Trial], key: str) -> list[Trial]:
    """Return the candidate of ``key`` if it worked; without a key, the earliest candidate."""
    if key:
        return [t for t in good if t.source == key][:1]
    return sorted(good, key=lambda t: t.number)[:1]


def nest_key(nest: Nest) -> str:
    """Return the key of a candidate with this nest, which is the ``source`` of its trial."""
    return digest(str(nest))


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials sorted by time, then by estimate, then by number.

    Times from the race of an earlier search are comparable: see :func:`as_raced`.
    """
    factor = race_ratio(trials)

    def key(trial: Trial) -> tuple[float, float, int]:
        return (as_raced(trial, factor), trial.estimate or 0.0, trial.number)

    return sorted(trials, key=key)
