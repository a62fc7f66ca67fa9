"""Fault drill: a hostile candidate costs one trial, with the right outcome."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.budget import FINALISTS
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.record import OUTCOMES, Trial
from schedlang.autotune.run import run
from schedlang.autotune.runner import local, sandbox
from schedlang.autotune.runner import machine_lock as locking
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.machine_lock import machine_lock
from schedlang.autotune.runner.task import Limits
from schedlang.errors import TuningError
from schedlang.runtime import locks
from schedlang.schedule.schedule import Schedule
from tests.hostile_worker import COMMAND, FAULTS
from tests.tuning import (
    InOrder,
    Pretended,
    by_fault,
    drill,
    left_behind,
    of_faults,
    plus_one,
    search_of,
    task_of,
)

pytestmark = pytest.mark.slow

# more than any honest candidate needs, even on a busy machine
LIMITS = Limits(build=6.0, run=3.0, memory=400 << 20)
EXPECTED = {
    "ok": "ok", "slow": "ok", "slower": "ok", "floods": "ok", "reads stdin": "ok",
    "spoils the process": "ok",
    "build raises": "build failed",
    "build sleeps": "build timed out",
    "raises": "run failed", "writes without end": "run failed",
    "endless": "run timed out", "endless with the lock": "run timed out",
    "unwritten": "wrong answer", "half": "wrong answer", "off": "wrong answer",
    "past the end": "wrong answer",
    "before the start": "wrong answer", "input written": "wrong answer",
    "build crashes": "crashed", "build answers": "crashed",
    "segfault": "crashed", "abort": "crashed", "exits": "crashed", "system exit": "crashed",
    "kills itself": "crashed", "garbage": "crashed",
    "endless answer": "crashed", "many answers": "crashed", "made up answer": "crashed",
    "closes the pipe": "crashed", "forks": "crashed", "when timed": "crashed",
    "when timed again": "crashed", "takes no time": "crashed",
    "build hoards": "out of memory", "hoards": "out of memory", "compiled hoards": "out of memory",
}  # fmt: skip


bounded = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the memory of a process is bounded on Linux alone"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files and turns that no other process uses."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    monkeypatch.setenv("TMPDIR", str(found))
    return found


@bounded
def test_every_outcome(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tuning.jsonl"
    assert sorted(EXPECTED) == sorted(FAULTS)
    faults = sorted(FAULTS, key=lambda fault: (len(fault), fault))
    result = drill(faults, path, LIMITS)

    found = by_fault(result.trials)
    assert {fault: trial.outcome for fault, trial in found.items()} == EXPECTED
    assert sorted(t.number for t in result.trials) == list(range(len(FAULTS)))
    assert set(OUTCOMES) - {"invalid"} == set(EXPECTED.values())
    assert result.best.decisions["fault"] in ("ok", "spoils the process")
    assert result.ended == "no other candidates were found"

    timed = {fault for fault, trial in found.items() if trial.seconds is not None}
    assert timed == {fault for fault, outcome in EXPECTED.items() if outcome == "ok"}
    said = {fault: trial.detail for fault, trial in found.items()}
    assert said["build raises"] == said["raises"] == "ZeroDivisionError: a hostile candidate"
    assert said["segfault"] == said["forks"] == "ended by signal SIGSEGV"
    assert said["exits"] == "ended with status 3"
    assert said["endless"] == "no answer within 3 s"
    assert said["past the end"] == "elements outside B were written"
    assert said["input written"] == "the input A was written"
    assert "(256 of 256 elements differ)" in said["unwritten"]
    assert "(128 of 256 elements differ)" in said["half"]
    assert said["off"].startswith("B[15, 15] is ")
    assert said["when timed again"].startswith("when measured again: ")

    # a candidate that worked first and failed in the race is recorded as a failure
    first = [t for t in entries(path) if fault_of(t) == "when timed again"]
    assert [t.outcome for t in first] == ["ok", EXPECTED["when timed again"]]
    assert {fault_of(t): t.outcome for t in entries(path)} == EXPECTED
    counts = Counter(EXPECTED.values())
    assert "trials:   " + ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o]) in str(
        result
    )
    assert capfd.readouterr() == ("", "")
    assert left_behind(folder) == []


def fault_of(trial: Trial) -> str:
    return str(trial.decisions["fault"])


def entries(path: Path) -> list[Trial]:
    return [entry.trial for entry in Database(path).entries()]


@pytest.mark.parametrize("faults", [
    ["segfault", "ok"],
    ["spoils the process", "ok", "build crashes", "segfault"],
    ["slow", "spoils the process", "slower", "input written", "ok", "build crashes", "reads stdin",
     "segfault"],
], ids=lambda faults: f"{len(faults)} faults")  # fmt: skip
def test_a_lost_process_costs_other_candidates_no_trial(faults: list[str], tmp_path: Path) -> None:
    """All candidates are built in one process, which most of them lose."""
    result = drill(faults, tmp_path / "tuning.jsonl", LIMITS, workers=1)
    assert {f: t.outcome for f, t in by_fault(result.trials).items()} == {
        f: EXPECTED[f] for f in faults
    }


def test_no_candidate_works(folder: Path, tmp_path: Path) -> None:
    message = (
        r"autotune\(B\): none of 3 candidates worked\n  2 times wrong answer: .*\n  1 time crashed"
    )
    with pytest.raises(TuningError, match=message):
        drill(["unwritten", "segfault", "unwritten"], tmp_path / "tuning.jsonl", LIMITS)
    assert left_behind(folder) == []


def test_a_refused_draw_is_no_trial(tmp_path: Path) -> None:
    def template(s: Schedule, knobs: Knobs) -> None:
        rows = knobs.choice("rows", [1, 2, 3, 4, 5])
        knobs.require(lambda rows: rows % 2 == 1, "rows are odd")
        B = s.outputs[0]
        s[B].split(B.op.axis[0], factor=rows)

    task = task_of(plus_one(), LIMITS)
    search = search_of(
        task, Pretended(lambda steps: 1.0), InOrder([{"rows": n} for n in (1, 2, 3, 4, 5)]),
        tmp_path / "tuning.jsonl", template=template,
    )  # fmt: skip
    result = run(search, resume=False, seed=0)
    assert sorted(t.decisions["rows"] for t in result.trials) == [1, 3, 5]
    assert [t.outcome for t in result.trials] == 3 * ["ok"]
    assert search.space.counts == {"drawn": 5, "valid": 3, "invalid": 2}
    assert search.space.reasons == {"rows are odd": 2}


def test_all_draws_are_refused(folder: Path) -> None:
    def template(s: Schedule, knobs: Knobs) -> None:
        knobs.require(False, "nothing will do")

    with pytest.raises(
        TuningError,
        match="none of the drawn decisions make a candidate\n  2000 times nothing will do",
    ):
        sl.autotune(plus_one(), template=template, database=folder / "tuning.jsonl", workers=1)


def tuned(
    output: Any, template: Callable[[Schedule, Knobs], object], folder: Path, limits: Limits
) -> dict[Any, Trial]:
    """Return the trials of a template with the one knob "fault", by its choice."""
    result = sl.autotune(
        output,
        trials=2,
        template=template,
        database=folder / "tuning.jsonl",
        limits=limits,
        workers=1,
    )
    assert result.best.decisions == {"fault": False}
    assert left_behind(folder) == []
    return {trial.decisions["fault"]: trial for trial in result.trials}


def test_a_schedule_with_a_false_promise(folder: Path) -> None:
    B = plus_one((64, 64))

    def template(s: Schedule, knobs: Knobs) -> None:
        if knobs.choice("fault", [False, True]):
            s[B].set_store_predicate(B.op.axis[0] < 32)

    trial = tuned(B, template, folder, LIMITS)[True]
    assert trial.outcome == "wrong answer"
    assert trial.detail.startswith("B[32, 0] is nan, not ")
    assert trial.detail.endswith("(2048 of 4096 elements differ)")


def test_a_schedule_that_takes_long_to_build(folder: Path) -> None:
    A = sl.placeholder((64, 64), name="A")

    def terms(i: Any, j: Any) -> Any:
        return sum((sl.exp(A[i, j] * n) for n in range(1, 61)), A[i, j])

    B = sl.compute((64, 64), terms, name="B")

    def template(s: Schedule, knobs: Knobs) -> None:
        if knobs.choice("fault", [False, True]):
            _, inner = s[B].split(B.op.axis[0], factor=4)
            s[B].unroll(inner)
            s[B].unroll(B.op.axis[1])

    trial = tuned(B, template, folder, Limits(build=5.0))[True]
    assert trial.outcome == "build timed out"


def test_a_computation_that_cannot_be_evaluated(folder: Path) -> None:
    A = sl.placeholder((8,), name="A")
    where = sl.placeholder((8,), name="where", dtype="int32")
    B = sl.compute((8,), lambda i: A[where[i]], name="B")
    indices = np.arange(8, dtype="int32")
    message = r"cannot be evaluated: B reads A\[where\[i\]\].*\n  on random data; inputs= gives"
    with pytest.raises(TuningError, match=message):
        sl.autotune(B, trials=1, target="python", database=folder / "tuning.jsonl")
    given = {"A": np.ones(8, "float32"), "where": indices + 1}
    with pytest.raises(
        TuningError, match="B reads .*: index 0 is 8, but A of shape .8,. has extent 8 there$"
    ):
        database = folder / "tuning.jsonl"
        sl.autotune(B, trials=1, target="python", database=database, inputs=given)
    assert left_behind(folder) == []


def test_arrays_that_do_not_fit_the_limits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the allowance for threads, which grows with the cores, would hold them
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    with pytest.raises(TuningError, match=r"cannot be evaluated: .*\n  limits=Limits\(memory="):
        sl.autotune(
            plus_one((4096, 4096)), trials=1, database=folder / "tuning.jsonl",
            limits=Limits(memory=8 << 20),
        )  # fmt: skip
    assert left_behind(folder) == []


def test_a_worker_that_does_not_start(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "PATIENCE", 1.0)
    task = task_of(plus_one(), LIMITS)
    for code, said in (
        ("import sys; sys.exit('no numba here')", "did not start: ended with status 1\nno numba"),
        ("import time; time.sleep(100)", "was not ready within 1 s, .*\n  tune for smaller sizes"),
        ("print('hello', flush=True); input()", "did not start: its answer is malformed"),
    ):
        measurer = Local(task, 2, (sys.executable, "-c", code))
        search = search_of(task, measurer, of_faults(["ok"]), tmp_path / "tuning.jsonl")
        with pytest.raises(TuningError, match=said):
            run(search, resume=False, seed=0)
    missing = Local(task, 1, (str(tmp_path / "none"),))
    search = search_of(task, missing, of_faults(["ok"]), tmp_path / "tuning.jsonl")
    with pytest.raises(TuningError, match="did not start: .*No such file"):
        run(search, resume=False, seed=0)
    assert left_behind(folder) == []


def test_a_worker_that_does_not_start_again(folder: Path, tmp_path: Path) -> None:
    """The trials until then are kept."""
    once = (
        "import pathlib, runpy, sys\n"
        f"started = pathlib.Path({str(tmp_path / 'started')!r})\n"
        "if started.exists(): sys.exit('not again')\n"
        "started.touch()\n"
        f"runpy.run_path({COMMAND[1]!r}, run_name='__main__')\n"
    )
    task = task_of(plus_one(), LIMITS)
    measurer = Local(task, 1, (sys.executable, "-c", once))
    strategy = of_faults(["slow", "ok", "segfault", "slower"])
    result = run(search_of(task, measurer, strategy, tmp_path / "tuning.jsonl"), False, 0)
    assert [fault_of(trial) for trial in result.trials] == ["slow", "ok"]
    assert fault_of(result.best) == "ok"
    assert result.ended.endswith("did not start: ended with status 1")
    assert left_behind(folder) == []


def test_nothing_is_built_while_something_is_timed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two searches run at once, with two processes each, and write to one database."""
    log, database = tmp_path / "log.txt", tmp_path / "tuning.jsonl"
    monkeypatch.setenv("DRILL_LOG", str(log))
    faults = ["ok", "slow", "slow", "ok", "slow"]
    searches = [threading.Thread(target=drill, args=(faults, database, LIMITS)) for _ in range(2)]
    for search in searches:
        search.start()
    for search in searches:
        search.join()
    spans = [(line.split()[0], *map(float, line.split()[1:])) for line in log.open()]
    timings = [(start, end) for what, start, end in spans if what == "time"]
    assert len(timings) == 2 * (len(faults) + 1)
    for start, end in timings:
        others = [span for span in spans if span[1:] != (start, end)]
        assert not [span for span in others if span[1] < end and span[2] > start]
    # each search writes its finalists again
    found = Counter(fault_of(t) for t in entries(database))
    assert set(found) == {"ok", "slow"} and found.total() == 2 * (len(faults) + FINALISTS)


def test_a_turn_that_comes_later_than_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process may hold the turn; the race then still runs one round."""
    monkeypatch.setattr(locking, "PATIENCE", 0.2)
    monkeypatch.setattr(local, "ROUND", 0.1)
    task = task_of(plus_one(), LIMITS)
    measurer = Local(task, 1, COMMAND)
    search = search_of(
        task, measurer, of_faults(["ok"]), tmp_path / "db", deadline=time.monotonic() + 60
    )
    with machine_lock(alone=True):
        result = run(search, resume=False, seed=0)
    assert [t.outcome for t in result.trials] == ["ok"]


def test_an_aborted_search_does_not_wait_for_builds(folder: Path, tmp_path: Path) -> None:
    class Stopped(InOrder):
        def learn(self, trial: Trial) -> None:
            raise ValueError("no more")

    task = task_of(plus_one(), Limits(build=600.0))
    strategy = Stopped([{"fault": "build raises"}, {"fault": "build sleeps"}])
    search = search_of(task, Local(task, 2, COMMAND), strategy, tmp_path / "db")
    start = time.monotonic()
    with pytest.raises(ValueError, match="no more"):
        run(search, resume=False, seed=0)
    assert time.monotonic() - start < 300
    assert left_behind(folder) == []


FULL = """
import errno, sys
from pathlib import Path
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.worker import serve
from schedlang.errors import BuildError

class Full(CandidateRunner):
    def build(self, number, steps):
        try:
            if number:
                raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise BuildError("the kernel's source cannot be written") from None
        return super().build(number, steps)

    def expected(self):
        if WHEN == "open":
            raise OSError(errno.ENOSPC, "4096 requested and 0 written")
        return super().expected()

serve(Path(sys.argv[1]), Full)
"""


def test_a_full_disk_is_not_the_fault_of_a_candidate(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each candidate runs before the next is built
    monkeypatch.setattr(local, "ROUND", 0.2)
    task, path = task_of(plus_one(), LIMITS), tmp_path / "tuning.jsonl"

    def searched(when: str) -> sl.autotune.TuningResult:
        measurer = Local(task, 1, (sys.executable, "-c", f"WHEN = {when!r}{FULL}"))
        search = search_of(task, measurer, of_faults(["ok", "slow", "slower"]), path)
        return run(search, resume=False, seed=0)

    result = searched("build")
    assert result.broken and result.ended.startswith(f"autotune: no space is left in {folder}, ")
    assert [t.outcome for t in entries(path)] == ["ok"]
    with pytest.raises(TuningError, match="no space is left in .*0 written\n  set TMPDIR"):
        searched("open")
    assert left_behind(folder) == []


def test_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()

    def hold(alone: bool) -> threading.Thread:
        def work() -> None:
            with machine_lock(alone):
                held.set()

        held.clear()
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    with machine_lock(alone=False):
        hold(alone=False).join()
        waiting = hold(alone=True)
        assert not held.wait(0.2)
    waiting.join()
    with machine_lock(alone=True):
        waiting = hold(alone=False)
        assert not held.wait(0.2)
    waiting.join()
    # a stopped process that holds a turn delays the others once
    with machine_lock(alone=True):
        monkeypatch.setattr(locking, "PATIENCE", 0.1)
        hold(alone=True).join(20)
        assert held.is_set()
        monkeypatch.setattr(locking, "PATIENCE", 300.0)
        hold(alone=False).join(20)
        assert held.is_set()
    # later it takes turns like the others
    with machine_lock(alone=True):
        waiting = hold(alone=True)
        assert not held.wait(0.2)
    waiting.join()
    # without a file there are no turns
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    with machine_lock(alone=True):
        hold(alone=True).join(20)
        assert held.is_set()
    # nor on a system without locks or users
    monkeypatch.undo()
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.delattr(os, "getuid")
    with machine_lock(alone=True):
        hold(alone=True).join(20)
        assert held.is_set()
