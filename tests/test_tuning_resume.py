"""Tests of resumed searches, of how a search ends, and of the trials that a database prefers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random as Generator
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.record import UNTUNED, Trial, Where
from schedlang.autotune.records.entry import from_line
from schedlang.autotune.resume import REPEATED_EACH, resume
from schedlang.autotune.run import MOST_REPEATED, SOME_REPEATED, run
from schedlang.autotune.runner import local
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.search import PER_TRIAL, Exhausted, Random, valid
from schedlang.autotune.state import BASELINE, Search
from schedlang.errors import TuningError
from schedlang.schedule.schedule import Schedule
from tests.marks import slow_but
from tests.tuning import Pretended, plus_one, search_of, task_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))


def marked(s: Schedule, knobs: Knobs) -> None:
    B = s.outputs[0]
    s[B].pragma(B.op.axis[0], "drill.copy", knobs.choice("copy", list(range(1000))))


class Ending(Pretended):
    """A measurer with results by a function, and the races of ``Pretended``."""

    def __init__(self, how: Callable[[Job], Measured]) -> None:
        super().__init__(lambda steps: 1.0)
        self.how = how

    def measure(self, jobs: Sequence[Job], *_: Any) -> Any:  # type: ignore[override]
        for job in jobs:
            self.measured.append(job.steps)
            yield self.how(job)


def ok(job: Job) -> Measured:
    return Measured(job.number, "ok", 1.0)


def first_alone(job: Job) -> Measured:
    return ok(job) if job.number < 1 else Measured(job.number, "wrong answer")


def test_a_trial_counts_under_the_same_checks(tmp_path: Path) -> None:
    def measured(how: Callable[[Job], Measured], limits: Limits, **held: Any) -> int:
        """Return how many of three candidates in the database are measured again."""
        task = replace(task_of(plus_one(), limits), **held)
        measurer = Ending(how)
        run(search_of(task, measurer, Random(0), tmp_path / "db", 3, marked), True, 0)
        return sum("copy" in step for step in measurer.measured)

    inputs = (np.ones((16, 16), "float32"),)
    assert measured(first_alone, Limits()) == 3
    assert measured(ok, Limits()) == 0
    # a failure may work with more time, and a right result may be wrong by other checks
    assert measured(first_alone, Limits(build=60)) == 2
    assert measured(first_alone, Limits(), inputs=inputs) == 3
    assert measured(ok, Limits(), inputs=inputs) == 0
    assert measured(ok, Limits(), inputs=(2 * inputs[0],)) == 3
    assert measured(ok, Limits(), tolerance=1e-2) == 3
    assert measured(ok, Limits(build=60)) == 0
    assert measured(ok, Limits(build=90)) == 2
    assert measured(ok, Limits()) == 0


def test_a_given_schedule_is_measured_beside_those_of_the_database(tmp_path: Path) -> None:
    """It wins if it is faster, also where no trial is left."""
    task = task_of(plus_one(), Limits())

    def searched(most: int, seconds: float) -> tuple[int, str, int]:
        """Return how many are measured, the winner, and how many trials the result has."""
        given = sl.schedule(task.outputs[0])
        given[task.outputs[0]].parallel(task.outputs[0].op.axis[0])  # type: ignore[attr-defined]
        measurer = Pretended(lambda steps: seconds if '"parallel"' in steps else 1.0)
        search = search_of(task, measurer, Random(0), tmp_path / "db", most, marked)
        search.given = search.space.of(given, {}, "given")
        found = run(search, True, 0)
        new = [steps for steps in measurer.measured if "copy" in steps or '"parallel"' in steps]
        return len(new), found.best.strategy, len(found.trials)

    assert searched(1, 0.5) == (1, "given", 1)
    # it counts as one of the trials, and is not measured again
    assert searched(4, 0.5) == (3, "given", 4)
    assert searched(2, 0.5) == (0, "given", 2)
    task = replace(task, tolerance=1e-2)
    assert searched(1, 2.0) == (1, "given", 1)
    assert searched(3, 2.0)[::2] == (2, 3)
    # where the database has all trials, it is one more
    other = replace(task, tolerance=1e-3)
    run(search_of(other, Ending(ok), Random(0), tmp_path / "db", 3, marked), True, 0)
    task = other
    assert searched(3, 2.0) == (1, "random", 4)


def test_a_given_schedule_is_in_the_race(tmp_path: Path) -> None:
    """Its first time may be too long by chance."""
    class Late(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return [Measured(j.number, "ok", 0.1 if "parallel" in j.steps else 1.0) for j in jobs]

    task = task_of(plus_one(), Limits())
    (B,) = task.outputs
    given = sl.schedule(B)
    given[B].parallel(B.op.axis[0])  # type: ignore[attr-defined]
    measurer = Late(lambda steps: 3.0 if "parallel" in steps else 1.0)
    search = search_of(task, measurer, Random(0), tmp_path / "db", 8, marked)
    search.given = search.space.of(given, {}, "given")
    found = run(search, True, 0)
    assert found.best.strategy == "given" and found.seconds == 0.1
    assert len(search.finalists) == 4


@pytest.mark.parametrize("start, message", [
    (3, r"autotune\(start=3\): give a schedule of these outputs"),
    ("other", r"autotune\(B, start=\.\.\.\): it is a schedule of C, another computation"),
])  # fmt: skip
def test_starts_that_do_not_fit(start: Any, message: str) -> None:
    B = plus_one()
    if start == "other":
        start = sl.schedule(sl.compute((8,), lambda i: B[i, i] * 2, name="C"))
    with pytest.raises(TuningError, match=message):
        sl.autotune(B, "python", trials=1, start=start)


def test_a_failure_in_a_race_counts_under_the_same_checks(tmp_path: Path) -> None:
    class Wrong(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return [Measured(job.number, "wrong answer") for job in jobs]

    def searched(measurer: Pretended, **held: Any) -> list[str]:
        task = replace(task_of(plus_one(), Limits()), **held)
        search = search_of(task, measurer, Random(0), tmp_path / "db", 20, marked)
        return [t.outcome for t in run(search, True, 0).trials]

    assert set(searched(Pretended(lambda steps: 1.0))) == {"ok"}
    assert set(searched(Wrong(lambda steps: 1.0), tolerance=1e-9)) == {"ok", "wrong answer"}
    assert set(searched(Pretended(lambda steps: 1.0))) == {"ok"}
    again = Pretended(lambda steps: 1.0)
    assert set(searched(again, tolerance=1e-9)) == {"ok", "wrong answer"}
    assert not [step for step in again.measured if "copy" in step]


@pytest.mark.parametrize("outcome", ["run timed out", "build timed out", "out of memory"])
def test_a_later_timeout_does_not_invalidate_a_time(outcome: str, tmp_path: Path) -> None:
    """A search with small limits does not invalidate a measured schedule."""
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    database.add(where, "B", Trial(0, "ok", steps, seconds=1e-3, source="a", limits="10 s"), [B])
    database.add(where, "B", Trial(0, outcome, steps, source="a", limits="0.01 s"), [B])
    assert sl.best(B, target="python", database=database).seconds == 1e-3
    database.add(where, "B", Trial(0, "crashed", steps, source="a"), [B])
    with pytest.raises(TuningError, match="every candidate failed"):
        sl.best(B, target="python", database=database)


def test_two_templates_make_one_nest(tmp_path: Path) -> None:
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    for template in ("", "mine.tiles"):
        trial = Trial(0, "ok", steps, seconds=1e-3, source="a", template=template)
        database.add(where, "B", trial, [B])
    assert [t.template for t in database.trials(where, [B])] == ["", "mine.tiles"]


@pytest.mark.parametrize(("seconds", "first"), [(1.8e-3, True), (1.95e-3, False)])
def test_first_times_are_compared_with_first_times(
    seconds: float, first: bool, tmp_path: Path
) -> None:
    """A trial of a killed search has no race time, so first times are compared."""
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    raced = Trial(0, "ok", steps, seconds=2e-3, source="a", raced=True, first=1.9e-3)
    database.add(where, "B", raced, [B])
    database.add(where, "B", Trial(1, "ok", steps, seconds=seconds, source="b"), [B])
    found = sl.best(B, target="python", database=database)
    assert found.seconds == (seconds if first else 2e-3)


def test_a_time_of_the_untuned_schedule_is_not_taken_from_a_file(tmp_path: Path) -> None:
    class Unraced(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return []

    task = task_of(plus_one(), Limits())
    run(search_of(task, Pretended(lambda s: 1.0), Random(0), tmp_path / "db", 4, marked), False, 0)
    where = Where.here(task.outputs, task.target, {})
    untuned = Trial(9, "ok", sl.schedule(*task.outputs).to_json(), seconds=1e-12,
                    strategy=UNTUNED, source="b", checked=task.checked)  # fmt: skip
    Database(tmp_path / "db").add(where, "B", untuned, task.outputs)
    search = search_of(task, Unraced(lambda s: 1.0), Random(0), tmp_path / "db", 4, marked)
    search.space.by_tactics = True
    result = run(search, True, 0)
    assert all(t.resumed for t in result.trials)
    assert result.seconds == 1.0 and result.facts.baseline == 1.0
    assert result.facts.unraced and "could not be measured again" in str(result)


def test_an_interrupted_search_of_a_full_disk_has_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(Pretended):
        def measure(self, jobs: Sequence[Job], *_: Any) -> Any:  # type: ignore[override]
            first, *_ = jobs
            yield Measured(first.number, "ok", 2.0)
            yield Measured(BASELINE, "ok", 1.0)
            raise KeyboardInterrupt

    def add(self: Database, where: Where, name: str, trial: Trial, *rest: Any) -> None:
        if trial.strategy == UNTUNED:
            raise TuningError("no space left")

    monkeypatch.setattr(Database, "add", add)
    task = task_of(plus_one(), Limits())
    search = search_of(task, Cut(lambda s: 1.0), Random(0), tmp_path / "db", 4, marked)
    search.space.by_tactics = True
    result = run(search, False, 0)
    assert result.broken and result.ended == "no space left"
    # it had no race
    assert result.best.strategy == UNTUNED and result.seconds == 1.0 and not result.best.raced


def test_a_result_needs_no_room_for_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "file" / "cache"))
    task = task_of(plus_one(), Limits())
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 2, marked)
    result = run(search, False, 0)
    assert result.seconds == 1.0 and "def B" in result.kernel.source


def test_an_interrupt_after_the_race_keeps_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record_untuned(search: Search) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("schedlang.autotune.run.record_untuned", record_untuned)
    task = task_of(plus_one(), Limits())
    result = run(search_of(task, Ending(ok), Random(0), tmp_path / "db", 2, marked), False, 0)
    assert result.ended == "interrupted" and result.seconds == 1.0


def test_resuming_trials_ends_at_the_deadline(tmp_path: Path) -> None:
    """Trials under other names are replayed one by one, until the time is up."""
    made = [sl.placeholder((16,), name=name) for name in ("A", "other")]
    B, C = (sl.compute((16,), lambda i, t=t: t[i] + 1, name=f"{t.name}1") for t in made)
    where = Where.here([C], sl.Target("python"), {})
    for copy in range(3):
        s = sl.schedule(C)
        s[C].pragma(C.op.axis[0], "drill.copy", copy)
        Database(tmp_path / "db").add(where, "C", Trial(copy, "ok", s.to_json(), seconds=1.0), [C])
    database = Database(tmp_path / "db")
    assert len(database.trials(where, [B])) == 3
    one = next(database.each_trial(where, [B]))
    assert "drill.copy" in one.steps

    asked: list[Any] = []

    class Counted(Database):
        def _in_names(self, entry: Any, outputs: Any) -> Any:
            asked.append(entry)
            return super()._in_names(entry, outputs)

    task = task_of(B, Limits())
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 3, marked, deadline=0.0)
    search.database = Counted(tmp_path / "db")
    resume(search)
    assert len(asked) <= 1 and search.trials == []


def test_invalid_lines_are_skipped(tmp_path: Path) -> None:
    """Lines with a time of a failure, or with fields of another type, are skipped."""
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    with pytest.raises(TuningError, match='it has seconds, but its outcome is "crashed"'):
        Database(tmp_path / "a").add(where, "B", Trial(0, "crashed", "{}", seconds=1.0), [B])
    Database(tmp_path / "db").add(where, "B", Trial(0, "ok", "{}", seconds=1.0), [B])
    line = (tmp_path / "db").read_text()
    for before, after, why in (
        ('"raced":false', '"raced":1', "not true or false"),
        ('"margin":0.0', '"margin":-0.5', "less than 0"),
        ('"checked":""', '"checked":3', "not text"),
        ('"limits":""', '"limits":null', "not text"),
        ('"first":null', '"first":-1.0', "not a time"),
    ):
        assert before in line
        with pytest.raises(ValueError, match=why):
            from_line(line.replace(before, after).encode())


@pytest.mark.slow
def test_the_number_of_repeated_proposals_is_limited_per_search(tmp_path: Path) -> None:
    """The limit is per search, not per batch, so that an exhausted space ends the search."""
    task = task_of(plus_one(), Limits())

    def few(s: Schedule, knobs: Knobs) -> None:
        B = s.outputs[0]
        s[B].pragma(B.op.axis[0], "drill.copy", knobs.choice("copy", list(range(20))))

    run(search_of(task, Pretended(lambda s: 1.0), Random(0), tmp_path / "db", 18, few), False, 0)
    search = search_of(task, Pretended(lambda s: 1.0), Random(1), tmp_path / "db", 100, few)
    result = run(search, True, 0)
    assert 18 <= len(result.trials) <= 20 and result.ended == "no other candidates were found"
    most = REPEATED_EACH * 18 + 3 * (MOST_REPEATED + SOME_REPEATED)
    assert search.space.counts["drawn"] <= PER_TRIAL * most


def test_a_deadline_ends_rebuilding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If processes are lost again and again, rebuilding stops at the deadline."""

    def lost(box: Any, job: Job, task: Any, best: Any) -> Measured:
        time.sleep(0.2)
        return Measured(job.number, "run timed out")

    monkeypatch.setattr(local, "build", lambda box, job, task: Measured(job.number, "ok"))
    monkeypatch.setattr(local, "measure_alone", lost)
    monkeypatch.setattr(local.Sandbox, "start_first", lambda box: None)
    measurer = local.Local(task_of(plus_one(), Limits()), 2)
    start = time.monotonic()
    found = list(measurer.measure([Job(n, "{}") for n in range(20)], None, start + 0.5))
    measurer.close()
    assert 1 <= len(found) < 6


@pytest.mark.slow
def test_a_changed_template_is_called(tmp_path: Path) -> None:
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
    """Lines with fast times and invalid steps do not replace a measured result."""
    task = task_of(plus_one(), Limits())
    database = Database(tmp_path / "db")
    where = Where.here(task.outputs, task.target, {})
    for n in range(30):
        trial = Trial(n, "ok", "{}", {"copy": n}, seconds=1e-300, source=f"{n}")
        database.add(where, "B", trial, task.outputs)
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 8, marked)
    result = run(search, True, 0)
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
    result = run(search, False, 0)
    best = sl.best(plus_one(), target="python", database=tmp_path / "db")
    assert best.seconds == result.seconds and best.seconds >= 100
    assert best.schedule.to_json() == result.schedule.to_json()
    assert [t.first for t in result.trials if t.raced] == [1.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("trials", [8, 1])
def test_a_winner_of_a_race_is_kept_despite_better_first_times(trials: int, tmp_path: Path) -> None:
    """Eight first times are 8% slower in the race, which only four of them run."""
    times: dict[str, float] = {}

    class Lucky(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return [Measured(job.number, "ok", 1.08 * times[job.steps]) for job in jobs]

    def first(steps: str) -> float:
        return times.setdefault(steps, 1 + len(times) / 100)

    def searched(most: int) -> sl.autotune.TuningResult:
        task = task_of(plus_one(), Limits())
        return run(search_of(task, Lucky(first), Random(0), tmp_path / "db", most, marked), True, 0)

    result, again = searched(8), searched(trials)
    assert sum(t.raced for t in result.trials) == 4 and len(again.trials) == trials
    assert all(t.resumed for t in again.trials)
    assert again.seconds == result.seconds == 1.08 and again.best.steps == result.best.steps
    assert sl.best(plus_one(), target="python", database=tmp_path / "db").seconds == 1.08


def test_a_race_counts_whole_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raced(Pretended):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return [Measured(job.number, "ok", 20.0 - job.number) for job in jobs]

    def add(self: Database, where: Where, name: str, trial: Trial, *rest: Any) -> None:
        if trial.raced:
            raise TuningError("no space left")

    monkeypatch.setattr(Database, "add", add)
    task, times = task_of(plus_one(), Limits()), iter(range(1, 100))
    search = search_of(
        task, Raced(lambda s: float(next(times))), Random(0), tmp_path / "db", 4, marked
    )
    result = run(search, False, 0)
    assert result.broken and result.ended == "no space left"
    assert (result.best.number, result.seconds, result.best.first) == (3, 17.0, 5.0)


@pytest.mark.parametrize("outcome", ["wrong answer", "crashed"])
def test_a_schedule_that_failed_on_another_line_is_no_answer(outcome: str, tmp_path: Path) -> None:
    """This holds for any tolerance and any template."""
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    loose = Trial(0, "ok", steps, seconds=1e-3, source="a", checked="0.5")
    database.add(where, "B", loose, [B])
    database.add(where, "B", Trial(1, "ok", steps, seconds=2e-3, source="b", checked="0.5"), [B])
    assert sl.best(B, target="python", database=database).seconds == 1e-3
    database.add(where, "B", Trial(0, outcome, steps, source="a", template="mine"), [B])
    assert sl.best(B, target="python", database=database).seconds == 2e-3
    # a search with that tolerance resumes from it
    assert [t.outcome for t in database.trials(where, [B])] == ["ok", "ok", outcome]


def test_a_candidate_that_hangs_in_the_race_does_not_win(tmp_path: Path) -> None:
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
    result = run(search, False, 0)
    assert result.seconds == 9.0 and result.best.detail == ""


@pytest.mark.parametrize("timed", slow_but(["True"], [True, False]))
def test_no_gain_in_half_of_the_trials_ends_a_search(
    timed: bool, tmp_path: Path
) -> None:
    task = replace(task_of(plus_one(), Limits()), timed=timed)
    search = search_of(
        task, Ending(lambda job: Measured(job.number, "ok", 1.0 if timed else None)), Random(0),
        tmp_path / "db", sys.maxsize, marked, deadline=time.monotonic() + 60,
    )  # fmt: skip
    result = run(search, False, 0)
    assert result.ended == "no progress for many trials" and 64 < len(result.trials) < 200


@pytest.mark.slow
def test_the_deadline_applies_while_candidates_are_drawn(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_few_valid_draws_are_found(tmp_path: Path) -> None:
    def sparse(s: Schedule, knobs: Knobs) -> None:
        knobs.require(knobs.choice("rare", list(range(150))) == 7, "it is 7")
        marked(s, knobs)

    task = task_of(plus_one(), Limits())
    search = search_of(task, Ending(ok), Random(0), tmp_path / "db", 12, sparse)
    assert len(run(search, False, 0).trials) == 12

    def none_left(s: Schedule, knobs: Knobs) -> None:
        knobs.require(knobs.choice("copy", [0, 1, 2]) < 3 and not search.trials, "there was one")

    search = search_of(task, Ending(ok), Random(0), tmp_path / "db2", 12, none_left)
    ended = run(search, False, 0).ended
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
    with pytest.raises(TuningError, match="give an integer"):
        with sl.apply_best(database, sizes={"n": -1}):
            pass


def test_a_failure_by_a_smaller_tolerance_or_an_earlier_one_is_ignored(
    tmp_path: Path,
) -> None:
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()

    def tried(outcome: str, checked: str, seconds: float | None = None) -> None:
        trial = Trial(0, outcome, steps, seconds=seconds, source="a", checked=checked)
        database.add(where, "B", trial, [B])

    def known() -> bool:
        return database.best(where, [B]) is not None

    tried("ok", "tolerance 0.001, inputs 1f", 1e-3)
    tried("wrong answer", "tolerance 0")
    assert known()
    tried("crashed", "tolerance 1e-06")
    assert not known()
    tried("ok", "tolerance 0.01", 1e-3)
    assert known()
    tried("wrong answer", "tolerance 0.01, inputs 2e")
    assert not known()


def test_a_disturbed_time_does_not_replace_a_quiet_one(tmp_path: Path) -> None:
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    for seconds, disturbed in ((8e-3, True), (1e-3, False), (9e-3, True), (2e-3, False)):
        trial = Trial(0, "ok", steps, seconds=seconds, source="a", disturbed=disturbed)
        database.add(where, "B", trial, [B])
        quiet = [t.seconds for t in database.trials(where, [B])]
        assert quiet == [1e-3 if seconds == 9e-3 else seconds]


def test_a_schedule_with_a_later_disturbed_time_keeps_its_quiet_time(
    tmp_path: Path,
) -> None:
    B = plus_one()
    where = Where.here([B], sl.Target("python"), {})
    database, steps = Database(tmp_path / "db"), sl.schedule(B).to_json()
    told = (
        ("ok", "tolerance 0.001", 1e-3, False),
        ("crashed", "tolerance 1e-06", None, False),
        ("ok", "tolerance 0.001", 2e-3, True),
    )
    for outcome, checked, seconds, disturbed in told:
        trial = Trial(
            0, outcome, steps, seconds=seconds, source="a", checked=checked, disturbed=disturbed
        )  # fmt: skip
        database.add(where, "B", trial, [B])
    found = database.best(where, [B])
    assert found is not None and found.seconds == 1e-3
    # the line with this time
    assert (found.line, found.again) == (1, 3)
