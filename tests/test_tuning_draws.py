"""Candidates are built while the search draws the next ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from schedlang.autotune.runner import local
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.machine_lock import machine_lock
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.sandbox import Broken
from schedlang.autotune.runner.task import Limits
from tests.tuning import plus_one, task_of


class Builds:
    """Builds without processes: the numbers of the jobs, and a measurer of two processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.begun = threading.Event()
        monkeypatch.setattr(local, "build", self.build)
        monkeypatch.setattr(local.Sandbox, "start_first", lambda box: None)
        monkeypatch.setattr(local, "measure_alone", lambda box, job, *_: Measured(job.number, "ok"))
        self.measurer = Local(task_of(plus_one(), Limits()), 2)

    def build(self, box: Any, job: Job, task: Any) -> Measured:
        self.numbers.append(job.number)
        self.begun.set()
        return Measured(job.number, "build failed")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Builds]:
    builds = Builds(monkeypatch)
    yield builds
    builds.measurer.close()


def test_a_job_is_built_while_the_next_one_is_drawn(builds: Builds) -> None:
    def drawn() -> Iterator[Job]:
        yield Job(0, "{}")
        assert builds.begun.wait(20)
        yield Job(1, "{}")

    measured = list(builds.measurer.measure(drawn(), None))
    assert builds.numbers == [0, 1] == [m.number for m in measured]


def test_no_outcome_is_given_before_the_last_draw(builds: Builds) -> None:
    """A batch is drawn from the same trials, however fast the machine is."""
    outcomes: list[int] = []

    def drawn() -> Iterator[Job]:
        for number in range(4):
            yield Job(number, "{}")
            time.sleep(0.05)
            assert not outcomes

    for measured in builds.measurer.measure(drawn(), None):
        outcomes.append(measured.number)
    assert sorted(outcomes) == [0, 1, 2, 3]


@pytest.mark.parametrize("best", [None, 1.0])
def test_no_build_begins_after_the_deadline(builds: Builds, best: float | None) -> None:
    def drawn() -> Iterator[Job]:
        yield Job(0, "{}")
        time.sleep(0.3)
        yield Job(1, "{}")

    list(builds.measurer.measure(drawn(), best, time.monotonic() + 0.2))
    assert builds.numbers == [0]


def test_others_may_time_while_nothing_is_built(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "ROUND", 0.1)
    turns: list[bool] = []

    def take_a_turn() -> None:
        with machine_lock(alone=True):
            turns.append(True)

    def drawn() -> Iterator[Job]:
        yield Job(0, "{}")
        other = threading.Thread(target=take_a_turn)
        other.start()
        other.join(20)
        assert turns
        yield Job(1, "{}")

    assert len(list(builds.measurer.measure(drawn(), None))) == 2


def test_a_process_that_does_not_start_ends_the_draws() -> None:
    measurer = Local(task_of(plus_one(), Limits()), 1, ("/no/such/program",))
    draws: list[int] = []

    def drawn() -> Iterator[Job]:
        for number in range(50):
            draws.append(number)
            yield Job(number, "{}")
            time.sleep(0.1)

    with pytest.raises(Broken, match="did not start"):
        list(measurer.measure(drawn(), None))
    measurer.close()
    assert len(draws) < 50
