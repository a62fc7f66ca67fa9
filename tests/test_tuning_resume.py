"""What counts of earlier runs, how a search ends, and what a database prefers afterwards."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random as Generator
from typing import Any

import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.measuring.measure import Job, Measured
from schedlang.autotune.measuring.task import Limits
from schedlang.autotune.record import Trial, Where
from schedlang.autotune.search import Exhausted, Random, valid
from schedlang.errors import TuningError
from schedlang.schedule.schedule import Schedule
from tests.tuning import Pretended, plus_one, search_of, task_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))


def marked(s: Schedule, knobs: Knobs) -> None:
    B = s.outputs[0]
    s[B].pragma(B.op.axis[0], "drill.copy", knobs.choice("copy", list(range(1000))))


class Ending(Pretended):
    """Candidates end as a function says; races are Pretended's."""

    def __init__(self, how: Callable[[Job], Measured]) -> None:
        super().__init__(lambda steps: 1.0)
        self.how = how

    def measure(self, jobs: Sequence[Job], *_: Any) -> Any:  # type: ignore[override]
        for job in jobs:
            self.measured.append(job.steps)
            yield self.how(job)


def ok(job: Job) -> Measured:
    return Measured(job.number, "ok", 1.0)


def test_a_failure_counts_under_the_limits_that_it_had(tmp_path: Path) -> None:
    def run(limits: Limits, tolerance: float, how: Callable[[Job], Measured]) -> list[str]:
        task = replace(task_of(plus_one(), limits), tolerance=tolerance)
        measurer = Ending(how)
        search = search_of(task, measurer, Random(0), tmp_path / "db", 3, marked)
        search.result(True, 0)
        return [step for step in measurer.measured if "copy" in step]

    def first_alone(job: Job) -> Measured:
        return ok(job) if job.number < 1 else Measured(job.number, "wrong answer")

    assert len(run(Limits(), 1e-4, first_alone)) == 3
    assert len(run(Limits(), 1e-4, ok)) == 0
    assert len(run(Limits(), 1e-2, ok)) == 2
    assert len(run(Limits(build=60), 1e-4, ok)) == 0


def test_a_template_that_is_another_by_now_is_called(tmp_path: Path) -> None:
    def tiles(factors: list[int]) -> Callable[[Schedule, Knobs], None]:
        def template(s: Schedule, knobs: Knobs) -> None:
            B = s.outputs[0]
            s[B].split(B.op.axis[0], factor=knobs.choice("factor", factors))

        return template

    given: dict[str, Any] = {"trials": 2, "workers": 1, "target": "python"}
    given["database"] = tmp_path / "db"
    sl.autotune(plus_one(), template=tiles([2, 4]), **given)
    again = sl.autotune(plus_one(), template=tiles([4, 2]), **given)
    assert [t.resumed for t in again.trials] == [True, True]
    other = sl.autotune(plus_one(), template=tiles([8, 16]), **given)
    assert [t.resumed for t in other.trials] == [False, False]
    assert {t.decisions["factor"] for t in other.trials} == {8, 16}


def test_hostile_lines_are_no_result(tmp_path: Path) -> None:
    """Many best times, of steps that are none: what was measured stays."""
    task = task_of(plus_one(), Limits())
    database = Database(tmp_path / "db")
    where = Where.here(task.outputs, task.target, {})
    for n in range(30):
        trial = Trial(n, "ok", "{}", {"copy": n}, seconds=1e-300, source=f"{n}")
        database.add(where, "B", trial, task.outputs)
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 8, marked)
    result = search.result(True, 0)
    assert result.seconds == 1.0 and not any(t.resumed for t in result.trials)


def test_a_field_that_is_given_twice(tmp_path: Path) -> None:
    task = task_of(plus_one(), Limits())
    where = Where.here(task.outputs, task.target, {})
    Database(tmp_path / "db").add(where, "B", Trial(0, "ok", "{}", seconds=1.0), task.outputs)
    text = (tmp_path / "db").read_text().replace('"machine":', '"machine":"first","machine":', 1)
    (tmp_path / "db").write_text(text)
    database = Database(tmp_path / "db")
    with pytest.warns(sl.errors.DatabaseWarning, match="gives a field twice"):
        assert list(database.entries()) == []


def test_best_is_what_the_race_found(tmp_path: Path) -> None:
    class Slower(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return [Measured(job.number, "ok", 100.0 + job.number) for job in jobs]

    task = task_of(plus_one(), Limits())
    times = iter(range(1, 100))
    search = search_of(
        task, Slower(lambda steps: float(next(times))), Random(0), tmp_path / "db", 12, marked
    )
    result = search.result(False, 0)
    best = sl.best(plus_one(), target="python", database=tmp_path / "db")
    assert best.seconds == result.seconds and best.seconds >= 100
    assert best.schedule.to_json() == result.schedule.to_json()
    assert [t.first for t in result.trials if t.raced] == sorted(
        t.first for t in result.trials if t.first
    )


def test_what_hangs_in_the_race_does_not_win(tmp_path: Path) -> None:
    class Hangs(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            first, *rest = jobs
            late = Measured(first.number, "run timed out", detail="no answer within 10 s")
            return [late, *(Measured(job.number, "ok", 9.0) for job in rest)]

    times = iter(range(1, 100))
    search = search_of(
        task_of(plus_one(), Limits()), Hangs(lambda steps: float(next(times))), Random(0),
        tmp_path / "db", 8, marked,
    )  # fmt: skip
    result = search.result(False, 0)
    assert result.seconds == 9.0 and result.best.detail == ""


@pytest.mark.parametrize("timed", [True, False])
def test_half_of_what_was_tried_without_a_gain_ends_a_search_of_any_length(
    timed: bool, tmp_path: Path
) -> None:
    task = replace(task_of(plus_one(), Limits()), timed=timed)
    search = search_of(
        task, Ending(lambda job: Measured(job.number, "ok", 1.0 if timed else None)), Random(0),
        tmp_path / "db", sys.maxsize, marked, deadline=time.monotonic() + 60,
    )  # fmt: skip
    result = search.result(False, 0)
    assert result.ended == "no progress for many trials" and 64 < len(result.trials) < 200


def test_time_is_looked_at_while_candidates_are_drawn(tmp_path: Path) -> None:
    def rare(s: Schedule, knobs: Knobs) -> None:
        time.sleep(0.02)
        knobs.require(knobs.choice("copy", list(range(4))) == 0, "the first")

    start = time.monotonic()
    result = sl.autotune(
        plus_one(), template=rare, timeout=7.0, workers=1, target="python",
        database=tmp_path / "db",
    )  # fmt: skip
    assert result.ended == "the time is up" and len(result.trials) == 1
    assert time.monotonic() - start < 25


def test_few_valid_draws_are_found(tmp_path: Path) -> None:
    def sparse(s: Schedule, knobs: Knobs) -> None:
        knobs.require(knobs.choice("rare", list(range(400))) == 7, "it is 7")
        marked(s, knobs)

    task = task_of(plus_one(), Limits())
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 12, sparse)
    assert len(search.result(False, 0).trials) == 12

    def none_left(s: Schedule, knobs: Knobs) -> None:
        knobs.require(knobs.choice("copy", [0, 1, 2]) < 3 and not search.trials, "there was one")

    search = search_of(task, Ending(ok), Random(0), tmp_path / "db2", 12, none_left)
    ended = search.result(False, 0).ended
    assert "draws in a row were refused, most often: there was one" in ended
    with pytest.raises(Exhausted, match="refused"):
        valid(search.space, Generator(0))


def test_a_size_that_is_not_asked_for_is_the_larger(tmp_path: Path) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    database = Database(tmp_path / "db")
    for factor, size, seconds in ((2, 64, 1e-6), (8, 4096, 1e-4), (4, 512, 1e-5)):
        s = sl.schedule(B)
        s[B].split(B.op.axis[0], factor=factor)
        where = Where.here([B], sl.Target("cpu"), {"n": size})
        database.add(where, "B", Trial(0, "ok", s.to_json(), seconds=seconds), [B])

    def factor_for(**options: Any) -> int:
        with pytest.warns(sl.errors.DatabaseWarning):
            with sl.apply_best(database, **options):
                s = sl.schedule(B)
        return int(json.loads(s.to_json())["steps"][0]["args"]["factor"]) if s.steps else 0

    assert factor_for() == 8
    assert factor_for(sizes={"n": 400, "m": 3}) == 4
    assert factor_for(sizes={n: 65}) == 2
    with pytest.raises(TuningError, match="give a whole number"):
        with sl.apply_best(database, sizes={"n": -1}):
            pass
