"""A timeout bounds the search, the race, the untuned schedule and hanging candidates."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedlang.autotune.budget import GRACE, RACE_PART, UNTUNED_PART, finalists, for_the_end
from schedlang.autotune.record import Trial
from schedlang.autotune.result import TuningResult
from schedlang.autotune.run import run
from schedlang.autotune.runner import race as racing
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.measure import Job, Measured, given_up, within
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.search import Random
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.state import BASELINE, Search
from schedlang.errors import TuningError
from tests.hostile_worker import COMMAND
from tests.marks import slow_but
from tests.tuning import Pretended, faulty, of_faults, plus_one, search_of, task_of

TASK = replace(task_of(plus_one(), Limits(build=20.0, run=10.0)), timed=True)


class Timed(Pretended):
    """A measurer with slow candidates and an untuned schedule that uses all its time."""

    batch = 4

    def __init__(self, each: float, untuned: float = 1000.0) -> None:
        super().__init__(lambda steps: 1.0)
        self.each, self.untuned = each, untuned
        self.given: list[float] = []
        self.races: list[list[int]] = []

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        for job in jobs:
            if deadline is not None and best is not None and time.monotonic() >= deadline:
                return
            if job.number == BASELINE:
                yield self._plain(job)
                continue
            time.sleep(self.each)
            best = 1.0
            yield Measured(job.number, "ok", 1.0 + job.number, took=self.each)

    def _plain(self, job: Job) -> Measured:
        assert job.until is not None
        self.given.append(job.until - time.monotonic())
        if self.given[-1] < self.untuned:
            time.sleep(max(0.0, self.given[-1]))
            return Measured(BASELINE, "run timed out", detail="no answer")
        time.sleep(self.untuned)
        return Measured(BASELINE, "ok", 50.0)

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        self.races.append([job.number for job in jobs])
        assert all(job.until is not None for job in jobs)
        time.sleep(len(jobs) * self.each)
        return [Measured(job.number, "ok", 1.0 + job.number) for job in jobs]


def limited(tmp_path: Path, measurer: Any, timeout: float) -> tuple[TuningResult, float]:
    start = time.monotonic()
    search = search_of(
        TASK, measurer, Random(0), tmp_path / "db", sys.maxsize, faulty,
        deadline=start + timeout, timeout=timeout, end=start + timeout,
    )  # fmt: skip
    search.space.by_tactics = True
    found = run(search, resume=False, seed=0)
    return found, time.monotonic() - start


@pytest.mark.parametrize("timeout", slow_but(["2.5"], [2.5, 5.0]))
def test_a_slow_untuned_schedule_does_not_exceed_the_timeout(
    timeout: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # candidates claim that a call takes a second, but races are simulated
    monkeypatch.setattr("schedlang.autotune.budget._timing", lambda *_: 0.0)
    measurer = Timed(each=0.1)
    result, spent = limited(tmp_path, measurer, timeout)
    assert result.ended == "the time is up"
    # plus time in which this process does not run
    assert spent <= 1.1 * timeout + 0.5
    assert len(result.trials) >= 0.4 * timeout / 0.1
    (given,) = measurer.given
    assert given <= UNTUNED_PART * timeout + 0.01
    assert len(measurer.races) == 1 and len(measurer.races[0]) >= 2
    assert "it takes longer than a tenth of the timeout" in str(result)


@pytest.mark.slow
def test_an_untuned_schedule_that_is_fast_enough_has_its_time(tmp_path: Path) -> None:
    result, _ = limited(tmp_path, Timed(each=0.02, untuned=0.01), 3.0)
    assert result.facts.baseline == 50.0


def test_one_candidate_that_takes_longer_is_the_result(tmp_path: Path) -> None:
    """Neither a race nor the untuned schedule is added."""
    measurer = Timed(each=1.0)
    result, spent = limited(tmp_path, measurer, 0.5)
    assert len(result.trials) == 1 and spent < 2.0
    assert measurer.races == [] and measurer.given == []
    assert "their first times are kept" in str(result)


@pytest.mark.slow
def test_slow_draws_leave_time_to_measure(tmp_path: Path) -> None:
    class Slow(Random):
        def propose(self, space: Space) -> Candidate:
            time.sleep(0.6)
            return super().propose(space)

    class First(Pretended):
        batch = 8

        def measure(self, jobs: Sequence[Job], *_: Any) -> Iterator[Measured]:
            drawn = list(jobs)
            batches.append(len([job for job in drawn if job.number != BASELINE]))
            return super().measure(drawn, *_)

    batches: list[int] = []
    end = time.monotonic() + 2.0
    run(search_of(
        TASK, First(lambda steps: 1.0), Slow(0), tmp_path / "db", sys.maxsize, faulty,
        deadline=end, timeout=2.0, end=end,
    ), False, 0)  # fmt: skip
    assert batches[0] == 1


def known(seconds: Sequence[float], took: float, timeout: float, left: float) -> Search:
    end = time.monotonic() + left
    search = search_of(
        TASK, Pretended(lambda _: 1.0), Random(0), Path("unused"), timeout=timeout, end=end
    )
    search.trials = [Trial(n, "ok", "", seconds=s, took=took) for n, s in enumerate(seconds)]
    search.untuned = Measured(BASELINE, "ok", 100.0)
    return search


def test_the_remaining_time_limits_the_finalists() -> None:
    times = [0.001 * n for n in range(1, 7)]
    counts = [len(finalists(known(times, 1.0, 100.0, left - 5.0))) for left in (0, 1, 2.2, 3.4, 9)]
    # the fastest two race unless the time is over
    assert counts == [0, 2, 2, 3, 4]
    # without a timeout all four race
    search = known(times, 1.0, 100.0, 0.0)
    search.end = search.timeout = None
    assert len(finalists(search)) == 4
    # a single one is measured again if there is time
    assert [len(finalists(known(times[:1], 1.0, 100.0, left))) for left in (-5, 5)] == [0, 1]


def test_the_time_reserved_for_the_end() -> None:
    nothing = known([], 1.0, 100.0, 100.0)
    assert for_the_end(nothing) == RACE_PART * 100
    nothing.untuned = None
    assert for_the_end(nothing) == pytest.approx((RACE_PART + UNTUNED_PART) * 100)
    cheap, dear = known([0.01] * 4, 0.5, 100.0, 100.0), known([0.01] * 4, 15.0, 100.0, 100.0)
    assert 1.0 < for_the_end(cheap) < 5.0
    # two more than a fifth: the race compares the fastest two all the same
    assert 2 * 7.5 < for_the_end(dear) < 2 * 16
    # a race that would take most of the time is not begun
    assert for_the_end(known([0.01] * 4, 30.0, 100.0, 100.0)) == 0.0


def test_limits_are_bounded_by_the_remaining_time() -> None:
    now = time.monotonic()
    for best, number, clipped in ((None, 0, False), (1.0, 0, True), (None, BASELINE, True)):
        limits = within(TASK, Job(number, "", now + 3.0), best).limits
        assert (limits.run < 3.1, limits.build < 3.1) == (clipped, clipped)
    assert within(TASK, Job(0, ""), 1.0) is TASK
    assert within(TASK, Job(0, "", now + 100.0), 1.0) is TASK
    # what bounds the first candidate that works is the end of the overtime
    limits = within(TASK, Job(0, "", now + 3.0, now + 5.0), None).limits
    assert 3.1 < limits.run < 5.1
    # after the end a command times out, and no assertion fails
    assert 0 < within(TASK, Job(0, "", now - 1.0), 1.0).limits.run < 0.1


def test_a_candidate_ended_by_the_deadline_is_no_trial() -> None:
    past, ahead = Job(0, "", time.monotonic() - 1.0), Job(0, "", time.monotonic() + 100.0)
    slow, wrong = Measured(0, "run timed out"), Measured(0, "wrong answer")
    assert given_up(past, slow, 1.0)
    assert not given_up(past, wrong, 1.0) and not given_up(ahead, slow, 1.0)
    assert not given_up(past, slow, None) and not given_up(Job(0, ""), slow, 1.0)
    assert given_up(replace(past, latest=past.until), slow, None)
    assert not given_up(replace(past, latest=ahead.until), slow, None)


@pytest.mark.slow
def test_a_candidate_that_hangs_at_the_end_is_ended(tmp_path: Path) -> None:
    """The candidate is ended at the deadline, not at its limit of 60 seconds."""
    task = task_of(plus_one(), Limits(build=60.0, run=60.0))
    start = time.monotonic()
    search = search_of(
        task, Local(task, 1, COMMAND), of_faults(["ok", "endless", "ok", "ok"]), tmp_path / "db",
        timeout=4.5, end=start + 4.5,
    )  # fmt: skip
    result = run(search, resume=False, seed=0)
    # the hostile candidate is ended by the deadline, and is no trial
    assert [t.outcome for t in result.trials] == ["ok"]
    assert time.monotonic() - start < 20.0


@pytest.mark.slow
def test_a_search_ends_with_its_overtime_if_no_candidate_works(tmp_path: Path) -> None:
    """The first candidate is ended then, not at its limit of 60 seconds."""
    task = task_of(plus_one(), Limits(build=60.0, run=60.0))
    start = time.monotonic()
    search = search_of(
        task, Local(task, 1, COMMAND), of_faults(["endless", "ok", "ok"]), tmp_path / "db",
        timeout=3.0, end=start + 3.0, latest=start + 4.0,
    )  # fmt: skip
    with pytest.raises(TuningError, match="the time is up before a candidate was measured"):
        run(search, resume=False, seed=0)
    assert time.monotonic() - start < 20.0


class Box:
    alive = True


def test_a_race_ends_after_a_whole_round(monkeypatch: pytest.MonkeyPatch) -> None:
    until = time.monotonic() + 0.3
    sampled: list[int] = []

    def timed(box: Any, what: str, one: Measured, task: Any) -> Measured:
        sampled.append(one.number)
        time.sleep(0.06)
        return Measured(one.number, "ok", 1.0 + one.number)

    monkeypatch.setattr(racing, "build", lambda box, job, task: Measured(job.number, "ok"))
    monkeypatch.setattr(racing, "check_built", lambda box, built, task: built)
    monkeypatch.setattr(racing, "time_built", timed)
    monkeypatch.setattr(racing, "forget", lambda box, numbers: None)
    found = racing.race(Box(), [Job(n, "", until) for n in range(3)], TASK)  # type: ignore[arg-type]
    assert [(m.number, m.outcome, m.seconds) for m in found] == [
        (0, "ok", 1.0), (1, "ok", 2.0), (2, "ok", 3.0)
    ]  # fmt: skip
    assert sampled == [0, 1, 2] * (len(sampled) // 3) and 3 <= len(sampled) < 15


def test_a_race_without_time_for_a_round_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate is built again for it."""
    built: list[int] = []

    def build(box: Any, job: Job, task: Any) -> Measured:
        built.append(job.number)
        return Measured(job.number, "build timed out" if job.number else "ok")

    monkeypatch.setattr(racing, "build", build)
    monkeypatch.setattr(racing, "check_built", lambda box, built, task: built)
    past = time.monotonic() - 1.0
    found = racing.race(Box(), [Job(n, "", past) for n in range(3)], TASK)  # type: ignore[arg-type]
    assert [m.outcome for m in found] == ["build timed out"] and built == [0, 1]
    assert GRACE < UNTUNED_PART
