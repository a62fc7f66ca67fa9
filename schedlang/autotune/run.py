"""A search as it runs: it proposes, measures, learns and keeps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.measuring.measure import Job, Measured, Measurer, digest
from schedlang.autotune.measuring.task import Task
from schedlang.autotune.record import DISTURBED, UNTUNED, Trial, Where
from schedlang.autotune.result import TuningResult
from schedlang.autotune.search import Exhausted, Strategy, name_of
from schedlang.autotune.showing.progress import Progress, Silent
from schedlang.autotune.space import Candidate, Space
from schedlang.errors import SchedlangError, TuningError
from schedlang.schedule.schedule import Schedule, plain_schedule

# how many of the fastest are measured again in turns, and how often if they turn out to fail
FINALISTS, HEATS = 4, 3
# proposals in a row that were all measured before: then the space is taken to be exhausted; for
# each trial of an earlier run, which a seed proposes again, there may be some more; and after so
# many what was found is measured
MOST_REPEATED, REPEATED_EACH, SOME_REPEATED = 200, 20, 16
# trials without a gain of a hundredth after which a search stops, as a part of all, and at least
STALLED, LEAST_STALLED = 0.5, 64
BASELINE = -1
# a search proposes at most this part of its trials at once, as if there were at most so many
GENERATIONS, MOST_LEARNED = 8, 256
# the untuned schedule races too if it takes less than this many times the best
RIVAL = 2.0
# outcomes of a race that say nothing of a candidate that was measured before
SLOW = ("build timed out", "run timed out")
# an estimate where registers do not suffice
SPILLED = 2.0


@dataclass
class Search:
    """All that a run of the tuner knows, as it goes.

    ``start`` is measured ahead of proposals; ``finalists`` are the numbers of the trials that were
    measured again, of which the fastest is the best; ``kept`` are the keys of earlier runs' trials;
    ``ended`` says why it stopped, and ``broken`` whether that was for want of what it needs;
    ``exhausted`` is why the strategy had no more, and ``under`` what trials are held to.
    """

    task: Task
    where: Where
    name: str
    space: Space
    strategy: Strategy
    measurer: Measurer
    database: Database
    most: int
    deadline: float | None = None
    progress: Progress = field(default_factory=Silent)
    start: Candidate | None = None
    template: str = ""
    trials: list[Trial] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    finalists: set[int] = field(default_factory=set)
    duplicates: int = 0
    baseline: float | None = None
    plain_fails: bool = False
    ended: str = ""
    broken: bool = False
    exhausted: str = ""
    under: str = field(init=False)

    def __post_init__(self) -> None:
        self.under = self.task.under

    def best(self) -> Trial | None:
        """The fastest; where nothing is timed, what is expected to be."""
        good = self._good()
        again = [t for t in good if t.number in self.finalists]
        return min(again or good, key=_rank, default=None)

    def _good(self) -> list[Trial]:
        good = [t for t in self.trials if t.outcome == "ok"]
        return [t for t in good if t.seconds is not None] if self.task.timed else good

    def run(self) -> None:
        """Propose, measure and learn until there is a reason to stop."""
        first = self.task.timed and not self.task.target.is_gpu
        while not self._over():
            batch = self._proposals()
            if not batch:
                self.ended = self._nothing_new()
                return
            jobs = [Job(n, c.schedule.to_json()) for n, c in batch.items()]
            if first:
                # behind a candidate: where time is short, that one comes first
                jobs.insert(1, self._plain())
                first = False
            best = self.best()
            least = best.seconds if best else None
            for found in self.measurer.measure(jobs, least, self.deadline):
                if found.number == BASELINE:
                    self.baseline, self.plain_fails = found.seconds, found.seconds is None
                else:
                    self._ended(batch[found.number], jobs, found)
                if self._late() and self.best() is not None:
                    break

    def _over(self) -> bool:
        if len(self.trials) >= self.most:
            self.ended = "all trials are done"
        elif self._late():
            self.ended = "the time is up"
        elif self._stalled():
            self.ended = "no progress for many trials"
        return bool(self.ended)

    def _late(self) -> bool:
        return self.deadline is not None and monotonic() >= self.deadline

    def _stalled(self) -> bool:
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
        """The seconds, or the estimate where nothing is timed; infinite for what failed."""
        value = trial.seconds if self.task.timed else trial.estimate
        return np.inf if trial.outcome != "ok" or value is None else value

    def _proposals(self) -> dict[int, Candidate]:
        """Candidates that were not measured before, by their trial's number."""
        made: dict[int, Candidate] = {}
        if self.start is not None and self._key(self.start) not in self.seen:
            self.seen.add(self._key(self.start))
            made[len(self.trials)] = self.start
        self.start = None
        left = self.most - len(self.trials)
        wanted = min(self.measurer.batch, left, self._learned_from())
        repeated, earlier = 0, REPEATED_EACH * len(self.kept)
        # a batch that is hard to fill does not wait for long
        while len(made) < wanted and not self._late() and (
            repeated < (SOME_REPEATED if made else MOST_REPEATED)
        ):  # fmt: skip
            try:
                candidate = self.strategy.propose(self.space)
            except Exhausted as error:
                self.exhausted = str(error)
                break
            key = self._key(candidate)
            if key in self.kept and earlier:
                earlier -= 1
                continue
            if key in self.seen:
                self.duplicates += 1
                repeated += 1
                continue
            self.seen.add(key)
            repeated = 0
            made[len(self.trials) + len(made)] = candidate
        return made

    def _learned_from(self) -> int:
        """How many are proposed at once, so that a search of few trials has several generations."""
        return max(1, self.measurer.batch // 4, min(self.most, MOST_LEARNED) // GENERATIONS)

    def _nothing_new(self) -> str:
        """Why there are no proposals."""
        if self._late():
            return "the time is up"
        return self.exhausted or "no other candidates were found"

    def _key(self, candidate: Candidate) -> str:
        """The emitted source is a function of the nest."""
        return digest(str(candidate.nest))

    def _ended(self, candidate: Candidate, jobs: Sequence[Job], found: Measured) -> None:
        steps = next(job.steps for job in jobs if job.number == found.number)
        detail = found.detail if found.calm else DISTURBED
        trial = Trial(
            found.number, found.outcome, steps, candidate.decisions, found.seconds,
            _refined(candidate.estimate.seconds, found), detail, self._key(candidate),
            candidate.origin or name_of(self.strategy), found.took, template=self.template,
            under=self.under,
        )  # fmt: skip
        self.trials.append(trial)
        self._keep(trial, found)
        self.strategy.learn(trial)
        self.progress.trial(trial)

    def resume(self) -> None:
        """Trials of this template that the database has are not measured again, and count.

        Where there are more than are wanted, the fastest is one of them.
        """
        known = self.database.trials(self.where, self.task.outputs)
        plain = [t.seconds for t in known if t.strategy == UNTUNED and t.seconds]
        self.baseline = min(plain, default=None)
        earlier: dict[str, Trial] = {}
        for trial in known:
            if trial.strategy != UNTUNED and trial.template == self.template:
                key = self._made_again(trial)
                if key:
                    earlier[key] = trial
        good = [k for k, t in earlier.items() if t.outcome == "ok"]
        best = min(good, key=lambda key: _rank(earlier[key]), default=None)
        chosen = list(earlier)[: self.most]
        if best is not None and best not in chosen:
            chosen[-1] = best
        for key in chosen:
            number = len(self.trials)
            trial = replace(earlier[key], number=number, source=key, resumed=True)
            self.trials.append(trial)
            self.strategy.learn(trial)
            self.progress.trial(trial)
        self.seen |= set(earlier)
        self.kept = set(earlier)

    def _made_again(self, trial: Trial) -> str:
        """The key of a recorded trial; none for one that does not hold for this search.

        A failure under other limits may do now; a template of a known name may make something else
        by now; and the steps of a file need not be a schedule at all.
        """
        if trial.outcome != "ok" and trial.under != self.under:
            return ""
        try:
            made = Schedule.from_json(trial.steps, list(self.task.outputs))
            key = self._key(self.space.of(made, trial.decisions, trial.strategy))
            if self.template and key != self._key(self.space.again(trial.decisions)):
                return ""
        except (SchedlangError, Rejected):
            return ""
        return key

    def finals(self) -> None:
        """Measure the fastest again, in turns; the medians of that are what counts.

        One that is not measured in time keeps its first time. The untuned schedule runs with them.
        """
        self._time_plain()
        best = self.best()
        least = best.seconds if best else None
        rival = least and self.baseline and self.baseline < RIVAL * least
        plain = [self._plain()] if rival else []
        for _ in range(HEATS):
            finalists = sorted(self._good(), key=_rank)[:FINALISTS]
            if not finalists or (not self.task.timed and not self.task.target.is_gpu):
                return
            jobs = [Job(t.number, t.steps) for t in finalists]
            again = {m.number: m for m in self.measurer.race([*jobs, *plain])}
            found = again.pop(BASELINE, None)
            if found is not None and found.outcome == "ok" and found.seconds is not None:
                before = found.seconds if found.calm else self.baseline or found.seconds
                self.baseline = min(found.seconds, before)
            if not any(m.outcome not in SLOW for m in again.values()):
                self.progress.note(
                    "the fastest could not be measured again: their first times stand"
                )
            for n, trial in enumerate(self.trials):
                if (found := again.get(trial.number)) is not None:
                    self.trials[n] = _again(trial, found)
                    self._keep(self.trials[n], found)
            self.finalists = {n for n, m in again.items() if m.outcome == "ok"}
            late = all(m.outcome in SLOW for m in again.values())
            if self.finalists or late or self._late():
                return

    def _time_plain(self) -> None:
        """The time of the untuned schedule, where nothing was measured in this run."""
        unknown = self.baseline is None and not self.plain_fails and bool(self._good())
        if unknown and self.task.timed and not self.task.target.is_gpu and not self._late():
            for found in self.measurer.measure([self._plain()], None, self.deadline):
                self.baseline, self.plain_fails = found.seconds, found.seconds is None

    def untuned(self) -> None:
        """The schedule without steps is one trial more where nothing that the rules made beats it.

        A template of the user's is kept to what it makes: its result has its decisions.
        """
        best = self.best()
        if best is None or best.seconds is None or self.baseline is None or not self.space.made:
            return
        plain = self.space.of(plain_schedule(list(self.task.outputs)), {}, UNTUNED)
        key = self._key(plain)
        if self.baseline >= best.seconds or key in self.seen:
            return
        number = 1 + max(t.number for t in self.trials)
        trial = Trial(number, "ok", self._plain().steps, {}, self.baseline,
                      plain.estimate.seconds, source=key, strategy=UNTUNED, raced=True)  # fmt: skip
        self.trials.append(trial)
        self.finalists.add(number)
        self.database.add(self.where, self.name, trial, self.task.outputs)

    def _keep(self, trial: Trial, found: Measured) -> None:
        """Write a trial, under the machine that measured it if that is another one."""
        where = replace(self.where, machine=found.machine or self.where.machine)
        self.database.add(where, self.name, trial, self.task.outputs)

    def _plain(self) -> Job:
        return Job(BASELINE, plain_schedule(list(self.task.outputs)).to_json())

    def result(self, resume: bool, seed: int) -> TuningResult:
        """Run to the end, whatever that is; the best so far."""
        started = monotonic()
        with closing(self.measurer), self.progress:
            if resume:
                self.resume()
            try:
                self.run()
                self.finals()
                self.untuned()
            except KeyboardInterrupt:
                self.ended = "interrupted"
                if self.best() is None:
                    raise
                self.untuned()
            except TuningError as error:
                # nothing to measure with any more, or a database that takes no more lines
                self.ended, self.broken = str(error).partition("\n")[0], True
                if self.best() is None:
                    raise
        return TuningResult.of(self, monotonic() - started, seed)


def _again(trial: Trial, found: Measured) -> Trial:
    """A trial that was measured once more."""
    detail = f"when measured again: {found.detail}" if found.detail else ""
    if found.outcome in SLOW:
        return replace(trial, detail=detail)
    seconds = found.seconds
    if not found.calm and seconds is not None and trial.seconds is not None:
        # what other work made of it is no better news than the first time
        seconds = min(seconds, trial.seconds)
        said = "; ".join(filter(None, (found.detail, DISTURBED)))
        detail = f"when measured again: {said}"
    first = trial.first or trial.seconds
    return replace(
        trial, outcome=found.outcome, seconds=seconds, detail=detail, first=first,
        raced=found.outcome == "ok",
    )  # fmt: skip


def _rank(trial: Trial) -> tuple[float, float, int]:
    return (trial.seconds or 0.0, trial.estimate or 0.0, trial.number)


def _refined(estimate: float, found: Measured) -> float:
    """An estimate for a GPU after its machine code is known: what spills goes through memory."""
    spilled = any(r.get("spill_bytes") for r in found.resources.values())
    return estimate * SPILLED if spilled else estimate


__all__ = ["Search"]
