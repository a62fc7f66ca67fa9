"""Tests of whole searches: how they stop, what they keep, and what they can tune."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.model.by_model import by_model
from schedlang.autotune.record import NEAR_SIZE, UNTUNED, Trial, Where
from schedlang.autotune.report.progress import Silent
from schedlang.autotune.rules import BY_TEMPLATE
from schedlang.autotune.run import run
from schedlang.autotune.runner import outputs as compared
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.machine import Machine
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.outputs import unequal
from schedlang.autotune.runner.sandbox import COMMAND
from schedlang.autotune.runner.task import Limits, Task
from schedlang.autotune.search import Evolve, Strategy, valid
from schedlang.autotune.search import Random as RandomSearch
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tuner import _processes
from schedlang.compute.tensor import Tensor
from schedlang.errors import DatabaseWarning, SpillWarning, TuningError, VerifyError
from schedlang.schedule.schedule import Schedule
from tests.marks import slow_but
from tests.tuning import (
    Pretended,
    faulty,
    left_behind,
    of_faults,
    plus_one,
    pragma,
    processes,
    script,
    search_of,
    task_of,
    until,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for temporary files; fail if a test leaves any there."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    monkeypatch.setenv("TMPDIR", str(found))
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    yield found
    assert left_behind(found) == []


def tune(outputs: Any, **options: Any) -> sl.autotune.TuningResult:
    """Run ``autotune`` with one process, which is enough for few trials."""
    return sl.autotune(outputs, **{"workers": 1, **options})


def drawn(result: sl.autotune.TuningResult) -> list[Trial]:
    """Return the trials without the untuned schedule, which is a trial if it beats the others."""
    return [trial for trial in result.trials if trial.strategy != UNTUNED]


def marked(s: Schedule, knobs: Knobs) -> None:
    """Make an endless number of schedules that differ only by a pragma."""
    B = s.outputs[0]
    s[B].pragma(B.op.axis[0], "drill.copy", knobs.choice("copy", list(range(1000))))


# a search with real processes and slow candidates, which prints each trial when it ends
SLOW = """
import signal
import sys
import schedlang as sl
from pathlib import Path
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.run import run
from tests.tuning import of_faults, plus_one, search_of, task_of
from tests.hostile_worker import COMMAND

class Said:
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def trial(self, trial): print(trial.number, trial.outcome, trial.resumed, flush=True)
    def raced(self, best): pass
    def note(self, text): print(text, flush=True)

if __name__ == "__main__":
    # background jobs of a shell ignore SIGINT
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = sys.argv[3].split(",")
    task = task_of(plus_one(), Limits(build=100, run=100))
    measurer = Local(task, 1, COMMAND)
    measurer.batch = 2
    search = search_of(
        task, measurer, of_faults(faults), Path(sys.argv[1]), len(faults), progress=Said()
    )
    result = run(search, resume=sys.argv[2] == "resume", seed=0)
    print("result", result.best.decisions["fault"], len(result.trials), result.ended, flush=True)
"""


def test_an_error_in_a_template_keeps_the_trials(tmp_path: Path) -> None:
    made = count()

    def template(s: Schedule, knobs: Knobs) -> None:
        marked(s, knobs)
        if next(made) == 40:
            raise ZeroDivisionError("division by zero")

    task = task_of(plus_one(), Limits())
    asked = search_of(task, Pretended(len), RandomSearch(0), tmp_path / "db", 60, template)
    result = run(asked, False, 0)
    assert 0 < len(result.trials) < 60 and result.broken and result.kernel is not None
    assert result.ended.startswith(f"ZeroDivisionError: division by zero ({__file__}:")


@pytest.mark.slow
def test_a_search_does_not_warn_of_spills(tmp_path: Path) -> None:
    A, B = (sl.placeholder((64, 64), name=name) for name in "AB")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")

    def template(s: Schedule, knobs: Knobs) -> None:
        i, j = C.op.axis
        _, ii = s[C].split(i, factor=32)
        s[C].reorder(C.op.reduce_axis[0], ii, j)
        s[C].unroll(ii)
        s[C].vectorize(j)

    with warnings.catch_warnings():
        warnings.simplefilter("error", SpillWarning)
        result = tune(C, target="cpu", template=template, database=tmp_path / "db", trials=1)
    with pytest.warns(SpillWarning):
        sl.build(result.schedule, target="cpu")


@pytest.mark.parametrize(
    ("memory", "processes"), [(0, 4), (1 << 40, 4), (2 * 3 * 4 * 1536, 3), (1 << 10, 1)]
)
def test_arrays_take_at_most_half_of_the_memory(memory: int, processes: int) -> None:
    """The arrays are a 16x16 input and an output whose rows are symbolic."""
    n, A = sl.var("n"), sl.placeholder((16, 16), name="A")
    B = sl.compute((n, 8), lambda i, j: A[i, j] + 1, name="B")
    task = replace(task_of(B, Limits()), sizes={"n": 16})
    assert task.bytes == 1024 + 512
    assert _processes(task, Machine("", 4, memory, 4, True)) == processes


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return the next lines that a script prints."""
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def outcomes(database: Path) -> list[str]:
    return [entry.trial.outcome for entry in Database(database).entries()]


@pytest.mark.slow
def test_an_interrupt_keeps_the_best_so_far(folder: Path, tmp_path: Path) -> None:
    database = tmp_path / "tuning.jsonl"
    with script(SLOW, folder, str(database), "anew", "slow,ok,endless,ok") as process:
        assert lines(process, 2) == ["0 ok False", "1 ok False"]
        time.sleep(0.5)
        # signal the group, as a terminal does; the children are not in it
        os.killpg(process.pid, signal.SIGINT)
        assert lines(process, 1) == ["result ok 2 interrupted"]
        assert process.wait(20) == 0
    assert outcomes(database) == ["ok", "ok"]
    assert Database(database).problems == []


@pytest.mark.slow
def test_an_interrupt_of_a_build(folder: Path, tmp_path: Path) -> None:
    """An interrupt does not wait for the time limit of a running build."""
    with script(
        SLOW, folder, str(tmp_path / "db"), "anew", "slow,ok,build sleeps,build sleeps"
    ) as process:
        assert lines(process, 2) == ["0 ok False", "1 ok False"]
        time.sleep(0.5)
        start = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert lines(process, 1) == ["result ok 2 interrupted"]
        assert process.wait(20) == 0
        assert time.monotonic() - start < 10
    assert outcomes(tmp_path / "db") == ["ok", "ok"]


@pytest.mark.slow
def test_an_interrupt_before_there_is_a_result(folder: Path, tmp_path: Path) -> None:
    with script(SLOW, folder, str(tmp_path / "db"), "anew", "endless") as process:
        # not before the search has a process: until then the script may ignore the signal
        assert until(lambda: processes(folder))
        time.sleep(1.0)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) != 0
        assert process.stderr is not None and "KeyboardInterrupt" in process.stderr.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    "hang", slow_but(["endless"], ["endless", "endless with the lock", "build sleeps"])
)
def test_a_killed_search_resumes(hang: str, folder: Path, tmp_path: Path) -> None:
    """Its processes end, its trials are kept, and the next search resumes from them."""
    database = tmp_path / "tuning.jsonl"
    with script(SLOW, folder, str(database), "anew", f"slow,ok,{hang},slower") as process:
        assert lines(process, 2) == ["0 ok False", "1 ok False"]
        time.sleep(0.5)
        assert processes(folder)
        process.kill()
        process.wait(20)
        assert left_behind(folder, 20) == []
    assert outcomes(database) == ["ok", "ok"]
    with script(SLOW, folder, str(database), "resume", "slow,ok,slower,slow") as process:
        assert lines(process, 2) == ["0 ok True", "1 ok True"]
        assert sorted(lines(process, 2)) == ["2 ok False", "3 ok False"]
        assert lines(process, 1) == ["result ok 4 all trials are done"]
        assert process.wait(20) == 0
    # all four are finalists, and are written again
    assert outcomes(database) == 8 * ["ok"]
    assert Database(database).problems == []


@pytest.mark.slow
def test_a_timeout(tmp_path: Path) -> None:
    B = plus_one()
    start = time.monotonic()
    result = tune(
        B, trials=100000, timeout=1.5, template=marked, target="python", database=tmp_path / "db"
    )
    assert result.ended == "the time is up"
    assert 0 < len(result.trials) < 1000
    assert time.monotonic() - start < 20
    with pytest.raises(
        TuningError, match="the time is up before a candidate was measured: give mo"
    ):
        tune(B, timeout=0, template=marked, target="python", database=tmp_path / "db2")


@pytest.mark.slow
def test_a_start_that_takes_all_the_time_leaves_a_candidate(tmp_path: Path) -> None:
    started_late = ("sh", "-c", f'sleep 2.5; exec {shlex.join(COMMAND)} "$@"', "sh")
    task = task_of(plus_one(), Limits())
    search = search_of(
        task, Local(task, 1, started_late), RandomSearch(0), tmp_path / "db", 1000, marked,
        deadline=time.monotonic() + 2,
    )  # fmt: skip
    result = run(search, False, 0)
    assert result.ended == "the time is up"
    assert [trial.outcome for trial in drawn(result)] == ["ok"]


def test_a_timeout_does_not_wait_for_a_batch(tmp_path: Path) -> None:
    measurer = Pretended(lambda steps: time.sleep(0.05) or 1.0)
    measurer.batch = 200
    search = search_of(
        task_of(plus_one(), Limits()), measurer, RandomSearch(0), tmp_path / "db", 1000, marked,
        deadline=time.monotonic() + 0.8,
    )  # fmt: skip
    result = run(search, False, 0)
    assert result.ended == "the time is up"
    # the batch would take 10 s
    assert 1 <= len(result.trials) <= 20


@pytest.mark.slow
def test_one_trial(tmp_path: Path) -> None:
    B = plus_one((8, 8))

    def template(s: Schedule, knobs: Knobs) -> None:
        s[B].vectorize(B.op.axis[1])

    # nothing else is in the race, which is close for such short operations
    result = tune(B, trials=1, template=template, database=tmp_path / "db")
    (trial,) = drawn(result)
    assert (trial.number, trial.outcome, trial.resumed) == (0, "ok", False)
    assert result.seconds == min(t.seconds for t in result.trials if t.seconds is not None)
    assert result.ended == "all trials are done"
    a = np.ones((8, 8), "float32")
    assert (result.kernel(a) == 2).all()
    again = tune(B, trials=1, template=template, database=tmp_path / "db")
    # a time that other work disturbed is measured again
    quiet = not (trial.disturbed and trial.first_disturbed)
    assert [(t.number, t.resumed) for t in drawn(again)] == [(0, quiet)]
    assert again.best.steps == result.best.steps
    anew = tune(B, trials=1, template=template, database=tmp_path / "db", resume=False)
    assert [t.resumed for t in drawn(anew)] == [False]
    # first times, and three races of one or of two
    assert set(outcomes(tmp_path / "db")) == {"ok"} and len(outcomes(tmp_path / "db")) in range(
        5, 10
    )


def test_the_first_candidate_is_the_schedule_of_autoschedule() -> None:
    B = plus_one((256, 1024))
    space = Space(Problem((B,), sl.Target("cpu"), 2))
    first = RandomSearch(3).propose(space)
    made = by_model(Problem((B,), sl.Target("cpu"), 2, {}))[0]
    assert made is not None and first.schedule.to_json() == made.to_json()
    assert first.origin == "model" and "vectorize" in {x.primitive for x in first.schedule.steps}
    # no decision says that it does without threads
    assert not first.decisions
    # those of a larger one make it again, so that evolution may go on from it
    large = plus_one((4096, 4096))
    space = Space(Problem((large,), sl.Target("cpu"), 2))
    first = RandomSearch(3).propose(space)
    assert first.origin == "model" and first.decisions
    assert space.replay(first.decisions).schedule.to_json() == first.schedule.to_json()
    # the steps of a user's template are all that its search may take
    space = Space(Problem((B,), sl.Target("cpu")), lambda s, knobs: None, by_tactics=False)
    assert RandomSearch(3).propose(space).schedule.steps == ()


@pytest.mark.parametrize("batch", [1, 4])
def test_a_schedule_of_a_near_size_is_measured_second(batch: int, tmp_path: Path) -> None:
    known = of_faults(["slow"]).propose(Space(Problem((plus_one(),), sl.Target("python")), faulty))
    for origin, place in ((NEAR_SIZE, 1), ("database", 0)):
        measurer = Pretended(lambda steps: 1.0)
        measurer.batch = batch
        task = task_of(plus_one(), Limits())
        search = search_of(
            task, measurer, RandomSearch(1), tmp_path / origin, 6, marked,
            start=replace(known, origin=origin),
        )  # fmt: skip
        run(search, False, 0)
        measured = [steps for steps in measurer.measured if steps != search.untuned_job().steps]
        assert measured.index(known.schedule.to_json()) == place


@pytest.mark.slow
def test_one_worker_and_many(tmp_path: Path) -> None:
    for workers in (None, 5):
        result = tune(
            plus_one(), trials=3, workers=workers, template=marked, target="python",
            database=tmp_path / f"{workers}",
        )  # fmt: skip
        assert [t.outcome for t in result.trials] == 3 * ["ok"]


def proposed(strategy: Strategy, seconds: Any, database: Path, trials: int = 12) -> list[str]:
    """Return the steps that a strategy proposes if times are given by ``seconds``."""
    measurer = Pretended(seconds)
    task = task_of(plus_one(), Limits())
    run(search_of(task, measurer, strategy, database, trials, marked), False, 0)
    return measurer.measured[1:]


def test_random_search_ignores_measurements(tmp_path: Path) -> None:
    def early(steps: str) -> float:
        return 1.0 + pragma(steps, "drill.copy") if "copy" in steps else 1.0

    def late(steps: str) -> float:
        return 2.0 / early(steps)

    one = proposed(RandomSearch(7), early, tmp_path / "1")
    assert one == proposed(RandomSearch(7), late, tmp_path / "2")
    assert one != proposed(RandomSearch(8), early, tmp_path / "3")
    assert len(one) == 12


@pytest.mark.slow
def test_duplicates_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight decisions make only four schedules."""
    monkeypatch.setattr("schedlang.autotune.run.MOST_REPEATED", 20)

    def template(s: Schedule, knobs: Knobs) -> None:
        B = s.outputs[0]
        knobs.choice("nothing", [False, True])
        s[B].split(B.op.axis[0], factor=2 ** knobs.choice("rows", [0, 1, 2, 3]))

    measurer = Pretended(lambda steps: 1.0)
    task = task_of(plus_one(), Limits())
    search = search_of(task, measurer, RandomSearch(0), tmp_path / "db", 50, template)
    result = run(search, False, 0)
    assert len(result.trials) == len({t.source for t in result.trials}) == 4
    assert len(measurer.measured) == 5
    assert search.duplicates > 4
    assert result.ended == "no other candidates were found"
    # candidates in the database are not measured either
    again = Pretended(lambda steps: 1.0)
    search = search_of(task, again, RandomSearch(1), tmp_path / "db", 50, template)
    assert len(run(search, True, 0).trials) == 4
    assert [steps for steps in again.measured if "split" in steps] == []


def test_a_resumed_seed_continues_after_its_earlier_proposals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated proposals of an earlier run do not count as an exhausted space."""
    few = 10
    monkeypatch.setattr("schedlang.autotune.run.MOST_REPEATED", few)
    task, database, numbers = task_of(plus_one(), Limits()), tmp_path / "db", count(1)
    for trials in (few + 15, few + 25):
        measurer = Pretended(lambda steps: 1 / next(numbers))
        search = search_of(task, measurer, RandomSearch(3), database, trials, dials)
        run(search, True, 3)
        assert len(search.trials) == trials and search.ended == "all trials are done"
    assert len([steps for steps in measurer.measured if "dial" in steps]) == 10


def test_the_best_of_more_known_trials_than_requested_is_kept(tmp_path: Path) -> None:
    task, database = task_of(plus_one(), Limits()), tmp_path / "db"
    first = search_of(task, Pretended(dialled), RandomSearch(0), database, 60, dials)
    best = run(first, False, 0).best
    assert best.number >= 5
    fewer = search_of(task, Pretended(dialled), RandomSearch(0), database, 5, dials)
    assert run(fewer, True, 0).seconds == best.seconds and len(fewer.trials) == 5


@pytest.mark.slow
def test_trials_of_another_template_do_not_count(tmp_path: Path) -> None:
    B, database = plus_one(), tmp_path / "db"
    tune(B, trials=3, target="python", database=database)
    found = tune(B, trials=3, target="python", database=database, template=dials)
    assert not any(t.resumed for t in found.trials)
    again = tune(B, trials=3, target="python", database=database, template=dials)
    assert all(t.resumed for t in again.trials)


def test_trials_recorded_under_other_names_are_not_measured_again(tmp_path: Path) -> None:
    def named(name: str) -> Tensor:
        A = sl.placeholder((16, 16), name=name)
        return sl.compute((16, 16), lambda i, j: A[i, j] + 1, name=f"{name}1")

    task = task_of(named("A"), Limits())
    run(search_of(task, Pretended(dialled), RandomSearch(0), tmp_path / "db", 8, dials), False, 0)
    measurer = Pretended(dialled)
    task = task_of(named("X"), Limits())
    found = run(search_of(task, measurer, RandomSearch(0), tmp_path / "db", 8, dials), True, 0)
    assert [t.resumed for t in found.trials] == 8 * [True]
    assert not [steps for steps in measurer.measured if "dial" in steps]


class Fickle(Pretended):
    """A measurer whose race times differ from the first times."""

    def __init__(self, again: Callable[[Job], Measured]) -> None:
        super().__init__(dialled)
        self.again = again

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        return [self.again(job) for job in jobs]


def test_a_race_that_times_out_leaves_first_times(tmp_path: Path) -> None:
    late = Fickle(lambda job: Measured(job.number, "run timed out", detail="no answer within 10 s"))
    task = task_of(plus_one(), Limits())
    result = run(search_of(task, late, RandomSearch(0), tmp_path / "db", 20, dials), False, 0)
    assert {t.outcome for t in result.trials} == {"ok"}
    assert result.best.detail == "when measured again: no answer within 10 s"


def test_race_times_are_recorded(tmp_path: Path) -> None:
    task, database = task_of(plus_one(), Limits()), tmp_path / "db"
    wrong: list[int] = []

    def again(job: Job) -> Measured:
        if not wrong or job.number in wrong:
            wrong.append(job.number)
            return Measured(job.number, "wrong answer", detail="B[0] is off")
        return Measured(job.number, "ok", 100.0 + job.number)

    result = run(search_of(task, Fickle(again), RandomSearch(0), database, 20, dials), False, 0)
    # slower than trials without a race, yet the best of those that raced
    assert result.seconds == 100.0 + result.best.number
    assert min(t.seconds for t in result.trials if t.seconds) < 100
    where = Where.here(task.outputs, task.target, {})
    kept = {t.number: t for t in Database(database).trials(where, task.outputs)}
    assert kept[wrong[0]].outcome == "wrong answer"
    assert kept[result.best.number].seconds == result.seconds


@pytest.mark.parametrize(("plain", "made"), [(1.0, True), (3.0, True), (1.0, False)])
def test_the_untuned_schedule_is_the_result_where_nothing_is_faster(
    plain: float, made: bool, tmp_path: Path
) -> None:
    task = task_of(plus_one(), Limits())
    untuned = sl.schedule(*task.outputs).to_json()
    pretended = Pretended(lambda steps: plain if steps == untuned else 2.0)
    search = search_of(task, pretended, RandomSearch(0), tmp_path / "db", 5, marked)
    search.space.by_tactics = made
    result = run(search, False, 0)
    kept = plain < 2.0 and made
    assert (result.best.steps == untuned, len(result.trials)) == (kept, 5 + kept)
    assert ("no candidate was faster" in str(result)) == kept
    assert ("keep the untuned one" in str(result)) == (plain < 2.0 and not made)
    # it is in the database, and does not count when the search resumes
    again = search_of(task, pretended, Evolve(0), tmp_path / "db", 9, marked)
    again.space.by_tactics = made
    more = run(again, True, 0)
    assert (more.best.steps == untuned, len(drawn(more))) == (kept, 9)
    # nor is it used for another size
    if kept:
        known = {"target": "python", "database": tmp_path / "db"}
        assert sl.best(task.outputs[0], **known).seconds == plain
        with pytest.warns(DatabaseWarning, match="for extents 16, not 9"):
            assert sl.best(plus_one((9, 9)), **known).seconds == 2.0


def test_the_race_decides_whether_the_untuned_schedule_is_faster(tmp_path: Path) -> None:
    task = task_of(plus_one(), Limits())
    untuned = sl.schedule(*task.outputs).to_json()
    # first time and race time of the untuned schedule and of candidates
    for first, raced, others, again, kept in (
        (1.0, 3.0, 2.0, 2.0, False), (3.0, 1.0, 2.0, 2.0, True), (1.0, 1.2, 1.1, 1.15, False),
    ):  # fmt: skip
        fickle = Fickle(
            lambda job, raced=raced, again=again: Measured(
                job.number, "ok", raced if job.steps == untuned else again
            )
        )
        fickle._seconds = lambda steps, first=first, others=others: (
            first if steps == untuned else others
        )
        search = search_of(task, fickle, RandomSearch(0), tmp_path / f"{first}", 5, marked)
        search.space.by_tactics = True
        result = run(search, False, 0)
        assert (result.best.steps == untuned) == kept and result.facts.baseline == raced
        assert "keep the untuned one" not in str(result)


def test_an_error_in_a_progress_callback_keeps_the_trials(tmp_path: Path) -> None:
    class Failing(Silent):
        def trial(self, trial: Trial) -> None:
            if trial.strategy == UNTUNED:
                raise OSError("the pipe is closed")

    task = task_of(plus_one(), Limits())
    untuned = sl.schedule(*task.outputs).to_json()
    pretended = Pretended(lambda steps: 1.0 if steps == untuned else 2.0)
    search = search_of(
        task, pretended, RandomSearch(0), tmp_path / "db", 5, marked, progress=Failing()
    )
    search.space.by_tactics = True
    result = run(search, False, 0)
    assert result.broken and result.ended.startswith("OSError: the pipe is closed")
    assert result.best.steps == untuned
    assert sl.best(task.outputs[0], "python", tmp_path / "db").seconds == 1.0


class Cut(Pretended):
    """A measurer that answers for a part of a batch, out of order, until the time is up."""

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        chosen = [job for job in jobs if job.number in (-1, 0, 2)]
        for job in chosen:
            yield Measured(job.number, "ok", self._seconds(job.steps))
        raise KeyboardInterrupt


def test_the_untuned_schedule_has_a_number_of_its_own(tmp_path: Path) -> None:
    task = task_of(plus_one(), Limits())
    untuned = sl.schedule(*task.outputs).to_json()
    cut = Cut(lambda steps: 1.0 if steps == untuned else 2.0)
    search = search_of(task, cut, RandomSearch(0), tmp_path / "db", 64, marked)
    search.space.by_tactics = True
    result = run(search, False, 0)
    assert [t.number for t in result.trials] == [0, 2, 3] and result.ended == "interrupted"
    assert result.best.number == 3 and result.best.steps == untuned


def test_without_a_valid_candidate_the_untuned_schedule_is_no_result(tmp_path: Path) -> None:
    class Failing(Pretended):
        def measure(self, jobs: Sequence[Job], *_: Any) -> Iterator[Measured]:  # type: ignore[override]
            for job in jobs:
                good = job.number < 0
                yield Measured(job.number, "ok" if good else "crashed", 1.0 if good else None)

    task = task_of(plus_one(), Limits())
    search = search_of(task, Failing(dialled), RandomSearch(0), tmp_path / "db", 3, marked)
    search.space.by_tactics = True
    with pytest.raises(TuningError, match="none of 3 candidates worked"):
        run(search, False, 0)


@pytest.mark.slow
def test_a_timeout_alone_bounds_no_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.autotune.tuner.TRIALS", 2)
    options: dict[str, Any] = {"target": "python", "template": dials}
    assert len(tune(plus_one(), database=tmp_path / "a", **options).trials) == 2
    result = tune(plus_one(), timeout=2.5, database=tmp_path / "b", **options)
    assert len(result.trials) > 2 and result.ended != "all trials are done"


KNOBS, LEVELS = 8, 6


def dials(s: Schedule, knobs: Knobs) -> None:
    """Make decisions that affect the time independently."""
    B = s.outputs[0]
    for n in range(KNOBS):
        s[B].pragma(B.op.axis[0], f"drill.dial{n}", knobs.choice(f"dial{n}", list(range(LEVELS))))


def dialled(steps: str) -> float:
    found = [pragma(steps, f"drill.dial{n}") for n in range(KNOBS)]
    return 1.0 + sum((value - 2) ** 2 for value in found if value is not None)


@pytest.mark.parametrize(
    ("seeds", "trials"),
    [([0], 100), pytest.param([0, 1, 2, 3], 150, marks=pytest.mark.slow)],
    ids=["one", "four"],
)
def test_evolution_learns(seeds: Sequence[int], trials: int, tmp_path: Path) -> None:
    """Evolution finds faster candidates than random search in as many trials, on any seed."""
    task = task_of(plus_one(), Limits())
    found: dict[str, list[float]] = {"evolve": [], "random": []}
    for seed in seeds:
        for strategy in (Evolve(seed), RandomSearch(seed)):
            database = tmp_path / f"{strategy.name}{seed}"
            search = search_of(task, Pretended(dialled), strategy, database, trials, dials)
            seconds = run(search, False, seed).seconds
            assert seconds is not None
            found[strategy.name].append(seconds)
    assert all(e < r for e, r in zip(found["evolve"], found["random"])), found
    assert sum(found["evolve"]) < 0.8 * sum(found["random"]), found


class Climber:
    """A strategy of the user that changes one decision of the best candidate so far."""

    name = "climber"

    def __init__(self) -> None:
        self.rng = Random(1)
        self.best: Trial | None = None

    def propose(self, space: Space) -> Candidate:
        given = dict(self.best.decisions) if self.best else {}
        if given:
            del given[self.rng.choice(sorted(given))]
        return valid(space, self.rng, lambda: given)

    def learn(self, trial: Trial) -> None:
        if trial.seconds and (not self.best or trial.seconds < (self.best.seconds or 0.0)):
            self.best = trial


@pytest.mark.slow
def test_a_strategy_of_the_user(tmp_path: Path) -> None:
    task = task_of(plus_one(), Limits())
    search = search_of(task, Pretended(dialled), Climber(), tmp_path / "db", 150, dials)
    result = run(search, False, 0)
    assert result.seconds == 1.0
    assert {t.strategy for t in result.trials} == {"climber"}
    real = tune(
        plus_one(), trials=3, search=Climber(), template=dials, target="python",
        database=tmp_path / "db2",
    )  # fmt: skip
    assert [t.strategy for t in real.trials] == 3 * ["climber"]


@pytest.mark.slow
def test_trials_without_a_gain_end_a_search(tmp_path: Path) -> None:
    task = task_of(plus_one(), Limits())
    search = search_of(
        task, Pretended(lambda steps: 1.0), RandomSearch(0), tmp_path / "db", 160, marked
    )
    assert run(search, False, 0).ended == "no progress for many trials"
    assert 80 < len(search.trials) < 100


@pytest.mark.slow
def test_a_template(tmp_path: Path) -> None:
    A = sl.placeholder((32, 16), name="A")
    B = sl.placeholder((16, 24), name="B")
    k = sl.reduce_axis(16, name="k")
    C = sl.compute((32, 24), lambda i, j: sl.sum(A[i, k] * B[k, j], k), name="C")
    seen: list[tuple[Any, ...]] = []

    def template(s: Schedule, knobs: Knobs) -> None:
        i, j = C.op.axis
        rows = knobs.split("rows", i, parts=3, most=8)
        lanes = knobs.choice("lanes", [4, 8])
        knobs.require(lambda rows, lanes: rows[2] * lanes <= 32, "small tiles")
        outer, rest = s[C].split(i, nparts=rows[0])
        middle, inner = s[C].split(rest, nparts=rows[1])
        columns, lane = s[C].split(j, factor=lanes)
        order = knobs.permutation("order", [middle, columns, C.op.reduce_axis[0]])
        s[C].reorder(outer, *order, inner, lane)
        s[C].vectorize(lane)
        seen.append((rows, lanes))

    result = tune(C, trials=4, template=template, database=tmp_path / "db", seed=3)
    assert [t.outcome for t in result.trials] == 4 * ["ok"]
    for trial in result.trials:
        rows = trial.decisions["rows"]
        assert np.prod(rows) == 32 and rows[2] * trial.decisions["lanes"] <= 32
        assert sorted(trial.decisions["order"]) == [0, 1, 2]
    a, b = (np.random.default_rng(0).random(t.shape, "float32") for t in (A, B))
    np.testing.assert_allclose(result.kernel(a, b), a @ b, rtol=1e-5)
    assert result.facts.drawn > result.facts.valid >= len(result.trials)
    # the steps are data: replay the best schedule
    assert str(sl.lower(result.schedule)) == result.facts.best_nest
    decisions = json.loads((tmp_path / "db").read_text().splitlines()[0])["trial"]["decisions"]
    assert set(decisions) == {"rows", "lanes", "order"}


def test_a_template_that_fails(tmp_path: Path) -> None:
    def mistaken(s: Schedule, knobs: Knobs) -> None:
        raise LookupError("a mistake of the user")

    def twice(s: Schedule, knobs: Knobs) -> None:
        knobs.choice("lanes", [4])
        knobs.choice("lanes", [8])

    with pytest.raises(LookupError, match="a mistake of the user"):
        tune(plus_one(), template=mistaken, database=tmp_path / "db")
    with pytest.raises(TuningError, match="knob 'lanes' is asked for twice"):
        tune(plus_one(), template=twice, database=tmp_path / "db")


@pytest.mark.slow
def test_symbolic_sizes(tmp_path: Path) -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 8), name="A")
    B = sl.compute((n, 8), lambda i, j: A[i, j] * 2, name="B")
    options: dict[str, Any] = {"target": "python", "database": tmp_path / "db"}
    result = tune(B, trials=2, sizes={"n": 40}, **options)
    assert [t.outcome for t in drawn(result)] == 2 * ["ok"]
    for rows in (40, 7):
        a = np.ones((rows, 8), "float32")
        assert (result.kernel(a) == 2).all()
    assert result.facts.where.sizes == (("n", 40),)
    # trials at other sizes do not count
    other = tune(B, trials=1, sizes={"n": 50}, **options)
    assert [t.resumed for t in drawn(other)] == [False]
    with pytest.raises(
        TuningError,
        match=r"autotune\(B\): it has symbolic sizes; give the values to tune for, sizes={'n': ",
    ):
        tune(B, database=tmp_path / "db")
    with pytest.raises(TuningError, match="there is no symbolic size 'm' in B"):
        tune(B, sizes={"n": 4, "m": 4}, database=tmp_path / "db")
    with pytest.raises(TuningError, match="'n': 2.5.*give an integer, 0 or more"):
        tune(B, sizes={"n": 2.5}, database=tmp_path / "db")  # type: ignore[dict-item]


@pytest.mark.slow
def test_several_outputs_and_scalars(tmp_path: Path) -> None:
    alpha, beta = sl.var("alpha", dtype="float32"), sl.var("beta", dtype="int32")
    A = sl.placeholder((24, 8), name="A")
    B = sl.compute((24, 8), lambda i, j: A[i, j] * alpha + beta.astype("float32"), name="B")
    low, high = sl.compute((24, 8), lambda i, j: (B[i, j] - 1, B[i, j] + 1), name="C")
    D = sl.compute((24, 8), lambda i, j: B[i, j] * low[i, j], name="D")
    # an integer counts as a size
    sizes = {"beta": 3}
    result = tune(
        [low, high, D], trials=2, sizes=sizes, target="python", database=tmp_path / "db"
    )
    assert [t.outcome for t in drawn(result)] == 2 * ["ok"]
    a = np.full((24, 8), 3, "float32")
    got = result.kernel(a, alpha=2.0, beta=1)
    assert [float(array[0, 0]) for array in got] == [6, 8, 42]
    assert result.facts.where.sizes == (("beta", 3),)


@pytest.mark.slow
def test_equal_names(tmp_path: Path) -> None:
    A, other = (sl.placeholder((12, 8), name="A") for _ in range(2))
    B = sl.compute((12, 8), lambda i, j: A[i, j] - 2 * other[i, j], name="A")
    a, b = np.ones((12, 8), "float32"), np.full((12, 8), 5, "float32")
    for inputs in (None, [a, b]):
        result = tune(
            B, trials=1, inputs=inputs, target="python", database=tmp_path / "db", resume=False
        )
        assert [t.outcome for t in drawn(result)] == ["ok"]
        assert (result.kernel(a, b) == a - 2 * b).all()
    with pytest.raises(TuningError, match="one array for each of A, A, by name or in this order"):
        tune(B, inputs={"A": a}, database=tmp_path / "db")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "bool", "float16"])
def test_dtypes(dtype: str, tmp_path: Path) -> None:
    A = sl.placeholder((12, 16), name="A", dtype=dtype)
    B = sl.placeholder((12, 16), name="B", dtype=dtype)

    def body(i: Any, j: Any) -> Any:
        return A[i, j] & B[i, j] if dtype == "bool" else A[i, j] + B[i, j]

    C = sl.compute((12, 16), body, name="C")
    assert C.dtype == dtype
    result = tune(C, trials=1, database=tmp_path / "db")
    assert [t.outcome for t in drawn(result)] == ["ok"]
    a = np.ones((12, 16), dtype)
    assert (result.kernel(a, a) == (a & a if dtype == "bool" else a + a)).all()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -8, 8), ("int64", -8, 8), ("uint8", 0, 8), ("bool", 0, 1), ("float32", -1, 1)],
)
def test_random_inputs_are_in_the_documented_range(
    dtype: str, low: int, high: int, tmp_path: Path
) -> None:
    A = sl.placeholder((4000,), name="A", dtype=dtype)
    B = sl.compute((4000,), lambda i: sl.select(A[i] == A[i], 1, 0), name="B")
    (found,) = CandidateRunner(task_of(B, Limits()), tmp_path).inputs
    assert np.isclose(float(found.min()), low, atol=0.01)
    assert np.isclose(float(found.max()), high, atol=0.01)


@pytest.mark.slow
def test_a_gather(tmp_path: Path) -> None:
    A = sl.placeholder((20, 8), name="A")
    rows = sl.placeholder((12,), name="rows", dtype="int64")
    B = sl.compute((12, 8), lambda i, j: A[rows[i], j], name="B")
    rng = np.random.default_rng(0)
    a, picked = rng.random((20, 8), "float32"), rng.integers(0, 20, 12)
    for n, inputs in enumerate(({"rows": picked, "A": a}, [a, picked])):
        result = tune(B, trials=1, inputs=inputs, target="python", database=tmp_path / f"{n}")
        assert (result.kernel(a, picked) == a[picked]).all()
    # strided data is made contiguous
    strided = {"A": np.repeat(a, 2, axis=1)[:, ::2], "rows": picked}
    tune(B, trials=1, inputs=strided, database=tmp_path / "db", target="python")


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    A = sl.placeholder((20, 8), name="A")
    rows = sl.placeholder((12,), name="rows", dtype="int64")
    B = sl.compute((12, 8), lambda i, j: A[rows[i], j], name="B")
    rng = np.random.default_rng(0)
    a, picked = rng.random((20, 8), "float32"), rng.integers(0, 20, 12)
    with pytest.raises(TuningError, match="give one array for each of A, rows"):
        tune(B, inputs={"A": a}, database=tmp_path / "db")
    with pytest.raises(TuningError, match="rows must be int64 .*, not int32 of"):
        tune(B, inputs=[a, picked.astype("int32")], database=tmp_path / "db")
    with pytest.raises(TuningError, match=r"A must be .*\(20, 8\), not .*\(20, 9\)"):
        tune(B, inputs=[np.ones((20, 9), "float32"), picked], database=tmp_path / "db")


class Nameless:
    """The smallest strategy: two methods and no name."""

    def __init__(self) -> None:
        self.rng = Random(2)

    def propose(self, space: Space) -> Candidate:
        return valid(space, self.rng)

    def learn(self, trial: Trial) -> None:
        """Do nothing."""


@pytest.mark.slow
def test_a_strategy_needs_two_methods(tmp_path: Path) -> None:
    made: Any = Nameless()
    result = tune(
        plus_one(), trials=2, search=made, template=dials, target="python", database=tmp_path / "db"
    )
    assert {t.strategy for t in result.trials} == {"Nameless"}


def test_a_class_is_no_strategy(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="or an object with propose"):
        tune(plus_one(), search=Nameless, database=tmp_path / "db")


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    B = plus_one()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"trials": 0}, r"trials=0\): give an integer of 1 or more"),
        ({"trials": 2.5}, r"trials=2.5\): give an integer of 1"),
        ({"trials": True}, "trials=True"),
        ({"seed": "x"}, r"seed='x'\): give an integer of 0 or more$"),
        ({"seed": -1}, r"seed=-1\): give an integer of 0 or more$"),
        ({"workers": 0}, r"workers=0\): give an integer of 1 or more"),
        ({"workers": 2, "executor": ThreadPoolExecutor(1)}, "the executor has its own workers"),
        ({"timeout": -1}, r"timeout=-1\): give a number of seconds, 0 or more"),
        ({"overtime": 2}, r"overtime=2.0\): overtime= counts from the end of timeout=, which is"),
        ({"timeout": float("nan")}, r"timeout=nan\): give a number"),
        ({"tolerance": "loose"}, r"tolerance='loose'\): give a number"),
        (
            {"search": "best"},
            r"search='best'\): give \"random\", \"evolve\", or an object with prop",
        ),
        ({"progress": 3}, "progress=3.: give None, True, False or a function"),
        ({"template": "tiles"}, r"template='tiles'\): give a function template\(s, knobs\)"),
        ({"executor": 4}, r"executor=4\): give a concurrent.futures.Executor"),
        ({"limits": 4}, r"limits=4\): give Limits\(build"),
        ({"limits": Limits(build=0)}, "give seconds from 0.01 to 86400 for build"),
        ({"limits": Limits(run=1e10)}, "give seconds from 0.01 to 86400 for run"),
        ({"limits": Limits(memory=-1)}, "memory must be an integer"),
        ({"limits": Limits(memory=2e9)}, "memory must be an integer"),  # type: ignore[arg-type]
        ({"inputs": 4}, r"inputs=\.\.\.\): give one array for each of A"),
        (
            {"inputs": {"x": 1, "I": 2}},
            r"inputs=\.\.\.\): not an input: x, I; missing: A; give one array for each of A",
        ),
        ({"inputs": {}}, r"inputs=\.\.\.\): missing: A; give one"),
        ({"sizes": {"n": 4}}, "there is no symbolic size 'n' in B; it has none; leave out sizes="),
        ({"sizes": 4}, r"sizes=4\): give a dict of names and integers"),
        ({"database": 4}, "database=4: give a path, a Database or None"),
        ({"database": tmp_path}, "is a directory"),
        ({"database": tmp_path / "none" / "db"}, "there is no folder"),
    ]
    for options, message in wrong:
        with pytest.raises(TuningError, match=message):
            tune(B, **{"database": tmp_path / "db", **options})
    for outputs in (sl.schedule(B), [], "B", [B, 3], B.op.input_tensors[0]):
        with pytest.raises(sl.errors.SchedlangError):
            tune(outputs, database=tmp_path / "db")  # type: ignore[arg-type]
    assert not (tmp_path / "db").exists() or (tmp_path / "db").read_text() == ""


@pytest.mark.slow
def test_numpy_numbers_are_accepted(tmp_path: Path) -> None:
    result = tune(
        plus_one(), trials=np.int64(2), seed=np.uint8(1), workers=np.int32(1),
        timeout=np.float32(60), tolerance=np.float32(1e-3), target="python",
        limits=Limits(np.float32(20), 10, np.int64(1 << 30)),  # type: ignore[arg-type]
        database=tmp_path / "db",
    )  # fmt: skip
    assert len(drawn(result)) == 2


def test_elements_of_any_block_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "BLOCK", 7)
    want = np.random.default_rng(0).uniform(1, 2, (5, 6)).astype("float32")
    near = want * np.float32(1 + 1e-6)
    assert unequal("C", near, want, 1e-5) == ""
    for place in np.ndindex(want.shape):
        off = near.copy()
        off[place] += 1
        assert unequal("C", off, want, 1e-5).startswith(f"C[{place[0]}, {place[1]}] is")
    # a block without finite elements
    want[:2] = np.nan
    near[:2] = np.nan
    assert unequal("C", near, want, 1e-5) == ""
    near[0, 0] = 1
    assert unequal("C", near, want, 1e-5).startswith("C[0, 0] is 1.0, not nan")


def test_quantized_results_may_be_rounded_to_a_neighbour() -> None:
    A = sl.placeholder((8, 8), name="A")
    k = sl.reduce_axis((0, 8), name="k")
    total = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="total")
    rounded = sl.compute((8,), lambda i: sl.round(total[i]).astype("int8"), name="rounded")
    counts = sl.placeholder((8,), "int32", name="counts")
    more = sl.compute((8,), lambda i: counts[i] + 1, name="more")
    positive = sl.compute((8,), lambda i: total[i] > 0, name="positive")
    task = Task((total, rounded, more, positive), sl.Target("python"), {}, tolerance=1e-2)
    assert [task.tolerance_of(t) for t in task.outputs] == [1e-2, 1e-2, 1e-2, 0.0]
    alone = Task((more,), sl.Target("python"), {}, tolerance=1e-2)
    assert alone.tolerance_of(more) == 0.0
    want = np.array([100, -100, 7], "int8")
    assert unequal("rounded", want + np.int8(1), want, 2e-2) == ""
    assert "3 of 3" in unequal("rounded", want + np.int8(1), want, 0.0)
    assert "1 of 3" in unequal("rounded", want + np.array([0, 9, 0], "int8"), want, 2e-2)
    many, few = np.zeros(500, "int8"), np.zeros(500, "int8")
    few[:5] = 1
    assert unequal("rounded", few, many, 0.0, rounded=True) == ""
    assert "5 of 500" in unequal("rounded", few, many, 0.0)
    assert "5 of 500" in unequal("rounded", 2 * few, many, 0.0, rounded=True)
    few[:6] = 1
    assert "6 of 500" in unequal("rounded", few, many, 0.0, rounded=True)
    # differences below the precision of float64
    wide = np.array([2**62, 7])
    assert "1 of 2" in unequal("more", wide + np.array([1, 0]), wide, 0.0)


def test_the_advised_tolerance_works() -> None:
    rng = np.random.default_rng(0)
    for size in (1e-4, 1.04e-3, 2.5e-3, 9.96e-3):
        want = rng.uniform(1, 2, 50).astype("float32")
        got = want.copy()
        got[7] *= 1 + 2 * size
        said = unequal("C", got, want, 1e-6)
        named = float(said.partition("tolerance=")[2].partition(" ")[0])
        assert 0.5 * size < named < 2.2 * size and unequal("C", got, want, named) == ""
        assert unequal("C", got, want, 0.85 * named) != ""
    assert "tolerance" not in unequal("C", 2 * want, want, 1e-6)


@pytest.mark.slow
def test_a_quantized_product_is_tuned(tmp_path: Path) -> None:
    n, m, length = 256, 192, 320
    A, B = sl.placeholder((n, length), name="A"), sl.placeholder((length, m), name="B")
    k = sl.reduce_axis((0, length), name="k")
    total = sl.compute((n, m), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="total")
    Q = sl.compute((n, m), lambda i, j: sl.round(total[i, j] * 10).astype("int8"), name="Q")
    result = tune(Q, trials=2, database=tmp_path / "db")
    assert [t.outcome for t in drawn(result)] == ["ok", "ok"]


def test_limits_of_memory_are_distinguished() -> None:
    def limited(memory: int) -> str:
        return task_of(plus_one(), Limits(memory=memory)).limited

    assert len({limited(n) for n in (0, 8 << 20, 40 << 20, 1 << 30)}) == 4
    # half of the memory of a machine may differ slightly between boots
    assert limited(16 << 30) == limited((16 << 30) + 4096)


@pytest.mark.slow
def test_progress_is_called_with_every_trial(tmp_path: Path) -> None:
    told: list[Trial] = []
    for trials in (2, 3):
        told.clear()
        result = tune(
            plus_one(), trials=trials, template=marked, target="python", database=tmp_path / "db",
            progress=told.append,
        )  # fmt: skip
        assert sorted(t.number for t in told) == list(range(trials))
        assert [t.number for t in told] == [t.number for t in result.trials]
    assert [t.resumed for t in told] == [True, True, False]


@pytest.mark.slow
def test_tuning_inside_apply_best(tmp_path: Path) -> None:
    """A search starts from schedules without steps, also inside ``apply_best``."""
    B = plus_one((8, 8))
    (tmp_path / "db").touch()
    with sl.apply_best(tmp_path / "db") as known:
        first = tune(B, trials=1, database=tmp_path / "db")
        second = tune(B, trials=2, database=tmp_path / "db")
        assert known.used == known.missing == []
        s = sl.schedule(B)
    assert [t.outcome for t in drawn(second)] == ["ok", "ok"]
    assert second.trials[0].steps == first.trials[0].steps
    assert len(known.used) == 1 and s.to_json() == known.used[0].schedule.to_json()


@pytest.mark.slow
def test_best_finds_the_result(tmp_path: Path) -> None:
    """``sl.best`` finds it under other names too, and never finds a failed schedule."""
    task = task_of(plus_one(), Limits(memory=400 << 20), "python")
    from tests.hostile_worker import COMMAND

    strategy = of_faults(["unwritten", "ok", "slow"])
    search = search_of(task, Local(task, 2, COMMAND), strategy, tmp_path / "db")
    run(search, False, 0)
    X = sl.placeholder((16, 16), name="X")
    Y = sl.compute((16, 16), lambda a, b: X[a, b] + 1, name="Y")
    best = sl.best(Y, target="python", database=tmp_path / "db")
    assert pragma(best.schedule.to_json(), "drill.fault") == "ok"


def test_a_proposal_that_the_verifier_refuses_makes_way_for_the_next() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")

    def template(s: Any, knobs: Any) -> None:
        s[B].split(B.op.axis[0], knobs.choice("factor", [2, 4, 8, 16]))

    seen: list[str] = []

    def verify(nest: Any) -> None:
        seen.append(str(nest))
        if len(seen) < 3:
            raise VerifyError("refused by the test")

    rules = replace(BY_TEMPLATE, verify=verify)
    space = Space(Problem((B,), sl.Target("cpu")), template, by_tactics=False, rules=rules)
    # the first proposal of this seed compares eight draws
    found = RandomSearch(0).propose(space)
    assert str(found.nest) == seen[2] and len(seen) == 3
    assert space.counts == {"drawn": 8, "valid": 6, "invalid": 2}
    assert sum(space.reasons.values()) == 2


@pytest.mark.parametrize(("target", "draws"), [("cpu", 0.75 * 8 + 0.25), ("cuda", 0.5 * 4 + 0.5)])
def test_some_proposals_ignore_the_estimate(target: str, draws: float) -> None:
    drawn = Counter[str]()

    def draw(rng: Random, given: object) -> SimpleNamespace:
        drawn["all"] += 1
        return SimpleNamespace(estimate=SimpleNamespace(seconds=rng.random()))

    space: Any = SimpleNamespace(
        target=sl.Target(target), draw_unverified=draw, verify=lambda c: c, late=lambda: False,
        reasons=Counter(), counts={"valid": 1, "drawn": 1}, by_tactics=False,
    )  # fmt: skip
    strategy = RandomSearch(0)
    costs = [strategy.propose(space).estimate.seconds for _ in range(1000)]
    assert drawn["all"] / 1000 == pytest.approx(draws, rel=0.1)
    # the least of n estimates, on average 1 / (n + 1), or a random one
    few = {"cpu": 8, "cuda": 4}[target]
    blind = {"cpu": 0.25, "cuda": 0.5}[target]
    assert np.mean(costs) == pytest.approx(blind / 2 + (1 - blind) / (few + 1), rel=0.1)
