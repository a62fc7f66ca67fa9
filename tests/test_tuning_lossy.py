"""A search goes on if its executor loses some jobs or returns invalid answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.autotune.run import run
from schedlang.autotune.runner import machine, remote
from schedlang.autotune.runner.answers import InvalidAnswer, measured_of, raced_of
from schedlang.autotune.runner.measure import Job
from schedlang.autotune.runner.remote import Remote
from schedlang.autotune.runner.sandbox import Broken
from schedlang.autotune.runner.task import Limits
from schedlang.errors import TuningError
from tests.marks import slow_but
from tests.tuning import of_faults, plus_one, search_of, task_of

LIMITS = Limits(build=10.0, run=2.0)


def lost(error: Exception) -> Callable[[Any], Any]:
    def lose(answer: Any) -> Any:
        raise error

    return lose


def with_field(name: str, value: Any) -> Callable[[Any], Any]:
    def spoil(answer: Any) -> Any:
        if isinstance(answer, dict) and "outcome" in answer:
            return {**answer, name: value}
        return value

    return spoil


WAYS: dict[str, Callable[[Any], Any]] = {
    "BrokenExecutor": lost(BrokenExecutor("a child process terminated abruptly")),
    "cancelled": lost(CancelledError()),
    "OSError": lost(OSError("the network is down")),
    "could not measure": lost(Broken("no space left")),
    "ImportError": lost(ImportError("no module named schedlang")),
    "none": lambda answer: None,
    "text": lambda answer: "nonsense",
    "empty": lambda answer: {},
    "more": with_field("nonsense", 1),
    "other job": with_field("number", 12345),
    "outcome": with_field("outcome", "splendid"),
    "time": with_field("seconds", "fast"),
    "negative": with_field("seconds", -1.0),
    "nan": with_field("seconds", float("nan")),
    "no time": with_field("seconds", None),
}
RAISED = ("BrokenExecutor", "cancelled", "OSError", "could not measure", "ImportError")


class Lossy(ThreadPoolExecutor):
    """An executor that loses every third job at once, or answers it with something else."""

    def __init__(self, way: Callable[[Any], Any], first: int = 0, always: bool = False) -> None:
        super().__init__(2)
        self.way, self.numbers, self.always = way, count(first), always
        self.spoiled = 0

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        turn = next(self.numbers)
        if self.always and work is remote.measure_in_worker:
            turn = arguments[3]["number"]

        def answer() -> Any:
            if work is machine._describe or work is remote.race_in_worker:
                found: Any = work(*arguments, **named) if work is machine._describe else []
            else:
                number = arguments[3]["number"]
                found = {"number": number, "outcome": "ok", "seconds": 10.0 + number}
            if turn % 3:
                time.sleep(0.002)
                return found
            self.spoiled += 1
            return self.way(found)

        return super().submit(answer)


@pytest.mark.parametrize(
    "name", slow_but([*RAISED, "none", "other job", "nan"], WAYS)
)
@pytest.mark.parametrize("first", slow_but(["1"], [0, 1]))
def test_every_third_job_is_lost(
    name: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LAST_PAUSE", 0.01)
    with Lossy(WAYS[name], first) as pool:
        task = task_of(plus_one(), LIMITS)
        measurer = Remote(task, pool)
        search = search_of(task, measurer, of_faults(["ok"] * 20), tmp_path / "db")
        result = run(search, resume=False, seed=0)
    assert not result.broken, result.ended
    good = [t for t in result.trials if t.outcome == "ok"]
    # a lost job is sent again, and by chance may be lost twice
    assert len(good) >= 15 and {t.outcome for t in result.trials} <= {"ok", "crashed"}
    assert result.seconds == min(t.seconds for t in good if t.seconds is not None)
    kind = name if name in RAISED else "invalid answer"
    assert result.facts.lost[kind] >= 5
    (line,) = [x for x in str(result).splitlines() if "lost: " in x]
    assert f"{result.facts.lost[kind]} {kind}" in line and "of the executor, sent again" in line


@pytest.mark.parametrize("name", ["could not measure", "text"])
def test_jobs_that_no_worker_can_measure_are_left_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of every third number fail on each worker; the others are measured."""
    monkeypatch.setattr(remote, "LAST_PAUSE", 0.01)
    with Lossy(WAYS[name], always=True) as pool:
        task = task_of(plus_one(), LIMITS)
        search = search_of(task, Remote(task, pool), of_faults(["ok"] * 30), tmp_path / "db")
        result = run(search, resume=False, seed=0)
    assert not result.broken, result.ended
    numbers = [t.number for t in result.trials]
    assert len(numbers) >= 8 and all(n % 3 for n in numbers)
    assert {t.outcome for t in result.trials} == {"ok"}


@pytest.mark.slow
def test_the_public_call(tmp_path: Path) -> None:
    """The lost job may also be the question about the workers' machine."""

    class Real(ThreadPoolExecutor):
        numbers = count()

        def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            if next(self.numbers) % 3 == 0:
                found: Future[Any] = Future()
                found.set_exception(BrokenExecutor("lost"))
                return found
            return super().submit(work, *arguments, **named)

    with Real(1) as pool:
        result = sl.autotune(
            plus_one(), target="python", trials=3, executor=pool, database=tmp_path / "db"
        )
    assert not result.broken and result.seconds is not None
    lost = result.facts.lost["BrokenExecutor"]
    assert lost >= 1 and f"{lost} BrokenExecutor" in str(result)


def test_an_executor_that_refuses_every_third_job(tmp_path: Path) -> None:
    class Refusing(Lossy):
        def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            if next(self.numbers) % 3 == 0:
                raise BrokenExecutor("no workers now")
            self.numbers, kept = count(1), self.numbers
            try:
                return super().submit(work, *arguments, **named)
            finally:
                self.numbers = kept

    with Refusing(WAYS["none"]) as pool:
        task = task_of(plus_one(), LIMITS)
        search = search_of(task, Remote(task, pool), of_faults(["ok"] * 12), tmp_path / "db")
        result = run(search, resume=False, seed=0)
    assert not result.broken and len(result.trials) == 12
    assert result.facts.lost["BrokenExecutor"] >= 4


def test_an_executor_that_loses_all_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LAST_PAUSE", 0.01)
    for name, message in (("BrokenExecutor", "terminated abruptly"), ("text", "nonsense")):
        with Lossy(WAYS[name]) as pool:
            pool.numbers = iter(lambda: 0, 1)  # type: ignore[assignment]
            task = task_of(plus_one(), LIMITS)
            search = search_of(task, Remote(task, pool), of_faults(["ok"] * 4), tmp_path / name)
            with pytest.raises(TuningError, match=f"cannot measure: .*{message}"):
                run(search, resume=False, seed=0)


def test_answers_must_match_their_jobs() -> None:
    job = Job(3, "")
    assert measured_of({"number": 3, "outcome": "crashed"}, job, True).seconds is None
    assert measured_of({"number": 3, "outcome": "ok"}, job, False).outcome == "ok"
    for wrong in (None, [], {}, {"number": 3}, {"number": 3, "outcome": "ok"}):
        with pytest.raises(InvalidAnswer):
            measured_of(wrong, job, True)
    good = {"number": 3, "outcome": "ok", "seconds": 1.0}
    assert [m.number for m in raced_of([good], [job], True)] == [3]
    for races in (None, "x", [None], [good, good], [{**good, "number": 4}]):
        with pytest.raises(InvalidAnswer):
            raced_of(races, [job], True)
