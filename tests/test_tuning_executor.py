"""Tests of tuning on the workers of an executor, which may join, leave and die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.record import Trial
from schedlang.autotune.run import run
from schedlang.autotune.runner import machine, remote
from schedlang.autotune.runner.measure import Job
from schedlang.autotune.runner.remote import Remote, width
from schedlang.autotune.runner.sandbox import Broken, OracleTimeout
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.search import Random
from schedlang.errors import DatabaseWarning, TuningError
from schedlang.runtime.environment import versions
from tests.hostile_worker import COMMAND
from tests.tuning import (
    InOrder,
    by_fault,
    left_behind,
    of_faults,
    plus_one,
    processes,
    search_of,
    task_of,
    until,
)

pytestmark = pytest.mark.slow

LIMITS = Limits(build=10.0, run=2.0, memory=400 << 20)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for temporary files; fail if a test leaves any there.

    Lost jobs are sent again after shorter pauses.
    """
    monkeypatch.setattr(remote, "LAST_PAUSE", 0.05)
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    monkeypatch.setenv("TMPDIR", str(found))
    yield found
    assert left_behind(found) == []


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def remote_drill(
    faults: list[str], executor: Executor, tmp_path: Path, **options: Any
) -> sl.autotune.TuningResult:
    """Run a search whose candidates have these faults on an executor."""
    task = task_of(plus_one(), LIMITS)
    measurer = Remote(task, executor, COMMAND, **options)
    search = search_of(task, measurer, of_faults(faults), tmp_path / "db")
    return run(search, resume=False, seed=0)


def outcomes(result: sl.autotune.TuningResult) -> dict[str, str]:
    return {fault: trial.outcome for fault, trial in by_fault(result.trials).items()}


FAULTS = {
    "ok": "ok", "slow": "ok", "segfault": "crashed", "endless": "run timed out",
    "unwritten": "wrong answer", "spoils the process": "ok", "raises": "run failed",
    "hoards": "out of memory", "build raises": "build failed", "slower": "ok",
}  # fmt: skip


@pytest.mark.parametrize(
    "executor",
    [pytest.param(spawned, id="processes"),
     pytest.param(ThreadPoolExecutor, id="threads")],
)  # fmt: skip
def test_faults_on_an_executor(executor: Callable[[int], Executor], tmp_path: Path) -> None:
    with executor(2) as pool:
        result = remote_drill(list(FAULTS), pool, tmp_path)
    assert outcomes(result) == FAULTS
    assert sorted(t.number for t in result.trials) == list(range(len(FAULTS)))
    assert result.best.decisions["fault"] in ("ok", "spoils the process")
    assert len({e.trial.number for e in Database(tmp_path / "db").entries()}) == len(FAULTS)


def test_the_public_call_on_an_executor(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        result = sl.autotune(
            plus_one(), trials=2, executor=pool, target="python", database=tmp_path / "db"
        )
        # the children of its threads end with the search, not with the executor
        assert left_behind(Path(tempfile.gettempdir())) == []
    assert [t.outcome for t in result.trials] == len(result.trials) * ["ok"]
    assert result.seconds is not None


class Elsewhere(ThreadPoolExecutor):
    """An executor whose workers report another machine, or fail to report one."""

    def __init__(self, said: dict[str, Any] | BaseException) -> None:
        super().__init__(1)
        self.said = said

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Future[Any]:
        if fn is not machine._describe:
            return super().submit(fn, *args, **named)
        found: Future[Any] = Future()
        if isinstance(self.said, BaseException):
            found.set_exception(self.said)
        else:
            found.set_result(self.said)
        return found


def said_of(machine: str, **more: Any) -> dict[str, Any]:
    told = {"machine": machine, "cores": 7, "threads": 7, "memory": 8 << 30, "timed": True}
    return {**told, "versions": versions(), **more}


def test_times_are_those_of_the_workers_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"machine": "Another, 7 cores"}
    monkeypatch.setattr(remote, "machine_for", lambda target: here["machine"])
    options = {"trials": 2, "target": "python"}
    with Elsewhere(said_of("Another, 7 cores")) as pool:
        sl.autotune(plus_one(), executor=pool, database=tmp_path / "db", **options)
    entries = Database(tmp_path / "db").entries()
    assert {e.where.machine for e in entries} == {"Another, 7 cores"}
    # a worker on another kind of machine is left out
    here["machine"] = "A third"
    with Elsewhere(said_of("Another, 7 cores")) as pool:
        sl.autotune(plus_one(), executor=pool, database=tmp_path / "mixed", **options)
    found = list(Database(tmp_path / "mixed").entries())
    assert {e.where.machine for e in found} == {"A third"}
    with pytest.warns(DatabaseWarning, match="Another, 7 cores"):
        assert not sl.best(plus_one(), target="python", database=tmp_path / "db").exact


def test_a_worker_that_cannot_report_its_machine(tmp_path: Path) -> None:
    with Elsewhere(ModuleNotFoundError("No module named 'schedlang'")) as pool:
        with pytest.raises(TuningError, match="No module named 'schedlang'. Install this version"):
            sl.autotune(plus_one(), trials=2, executor=pool, database=tmp_path / "db")


def test_only_a_version_mismatch_is_named_as_the_cause(tmp_path: Path) -> None:
    with Elsewhere(OSError("no space left")) as pool:
        with pytest.raises(TuningError, match="its machine: no space left$"):
            sl.autotune(plus_one(), trials=2, executor=pool, database=tmp_path / "db")
    over = ThreadPoolExecutor(1)
    over.shutdown()
    with pytest.raises(TuningError, match="executor accepts no jobs: .*after shutdown$"):
        sl.autotune(plus_one(), trials=2, executor=over, database=tmp_path / "db")


def test_workers_of_another_version(tmp_path: Path) -> None:
    with Elsewhere(said_of("Another", versions=[("schedlang", "0.0.1")])) as pool:
        with pytest.raises(TuningError, match=r"have schedlang 0\.0\.1, but here it is"):
            sl.autotune(plus_one(), trials=2, executor=pool, database=tmp_path / "db")


def test_versions_of_the_workers_are_recorded(tmp_path: Path) -> None:
    theirs = [(name, "9.9" if name == "numba" else value) for name, value in versions()]
    with Elsewhere(said_of("Another", versions=theirs)) as pool:
        sl.autotune(plus_one(), trials=1, executor=pool, database=tmp_path / "db")
    assert {dict(e.where.versions)["numba"] for e in Database(tmp_path / "db").entries()} == {"9.9"}


def test_a_worker_tells_whether_there_is_a_gpu() -> None:
    target = sl.Target("cuda", arch="sm_80")
    with Elsewhere(said_of("NVIDIA H100")) as pool:
        assert machine.machine_of_workers(pool, target).timed
    with ThreadPoolExecutor(1) as pool:
        cpu = sl.Target("cpu")
        assert machine.machine_of_workers(pool, cpu) == machine.this_machine(cpu)
        assert not machine.machine_of_workers(pool, sl.Target("cuda-emulator")).timed


def test_children_of_a_lost_worker_end(folder: Path, tmp_path: Path) -> None:
    """A pool breaks when a process is killed; the measured trials are kept."""
    pool = spawned(1)
    seen: list[Trial] = []

    class Kill(InOrder):
        def learn(self, trial: Trial) -> None:
            seen.append(trial)
            if len(seen) == 2:
                (worker,) = pool._processes
                threading.Timer(0.5, os.kill, (worker, signal.SIGKILL)).start()

    task = task_of(plus_one(), LIMITS)
    strategy = Kill([{"fault": f} for f in ("ok", "slow", "endless", "endless", "slow")])
    search = search_of(task, Remote(task, pool, COMMAND), strategy, tmp_path / "db")
    result = run(search, resume=False, seed=0)
    assert outcomes(result) == {"ok": "ok", "slow": "ok"}
    assert result.best.decisions["fault"] == "ok"
    assert result.ended.startswith("autotune: the executor accepts no more jobs: ")
    assert left_behind(folder) == []
    pool.shutdown()


def test_an_executor_that_is_shut_down(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)

    class Shut(InOrder):
        def learn(self, trial: Trial) -> None:
            pool.shutdown(wait=False, cancel_futures=True)

    task = task_of(plus_one(), LIMITS)
    for database in ("1", "2"):
        strategy = Shut([{"fault": "ok", "copy": n} for n in range(6)])
        search = search_of(task, Remote(task, pool, COMMAND), strategy, tmp_path / database)
        if database == "1":
            result = run(search, resume=False, seed=0)
            assert 1 <= len(result.trials) <= 2
            assert "the executor accepts no more jobs: cannot schedule new" in result.ended
        else:
            with pytest.raises(
                TuningError, match="accepts no more jobs: cannot schedule new futures"
            ):
                run(search, resume=False, seed=0)


class Made(Executor):
    """An executor with the answers that a test gives."""

    def __init__(self, answer: Callable[[int, int], Any], workers: int = 1) -> None:
        self.answer = answer
        self.sent: list[int] = []
        self._max_workers = workers
        self.tokens: set[str] = set()

    def submit(self, work: Any, *arguments: Any, **named: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        if work is not remote.measure_in_worker:
            future.set_exception(RuntimeError("no worker can race"))
            return future
        token, job = arguments[2], arguments[3]
        assert token not in self.tokens
        self.tokens.add(token)
        self.sent.append(job["number"])
        try:
            found = self.answer(job["number"], self.sent.count(job["number"]))
        except CancelledError:
            future.cancel()
            future.set_running_or_notify_cancel()
        except Exception as error:
            future.set_exception(error)
        else:
            if found is not None:
                future.set_result({"number": job["number"], **found})
        return future


def made(
    answer: Callable[[int, int], Any], tmp_path: Path, strategy: InOrder | None = None,
    **options: Any,
) -> Any:  # fmt: skip
    executor = Made(answer)
    task = task_of(plus_one(), LIMITS)
    measurer = Remote(task, executor, **options)
    chosen = strategy or of_faults(["ok", "slow", "slower", "ok"])
    search = search_of(task, measurer, chosen, tmp_path / "db")
    return run(search, resume=False, seed=0), executor


@pytest.mark.parametrize("error", [CancelledError(), RuntimeError("KilledWorker"), MemoryError()])
def test_a_lost_job_is_sent_again_once(error: Exception, tmp_path: Path) -> None:
    """One job is lost once, and another one always."""

    def answer(number: int, times: int) -> dict[str, Any]:
        if (number == 1 and times == 1) or number == 2:
            raise error
        return {"outcome": "ok", "seconds": 2.0 + number}

    result, executor = made(answer, tmp_path)
    found = {t.number: t for t in result.trials}
    assert [found[n].outcome for n in range(4)] == ["ok", "ok", "crashed", "ok"]
    assert found[2].detail.startswith("its worker was lost twice: ")
    assert sorted(n for n in executor.sent if n >= 0) == [0, 1, 1, 2, 2, 3]
    assert result.seconds == 2.0


def test_workers_that_measure_nothing(tmp_path: Path) -> None:
    def missing(number: int, times: int) -> Any:
        raise ModuleNotFoundError("No module named 'schedlang'")

    with pytest.raises(TuningError, match="cannot measure: No module named 'schedlang'. Install"):
        made(missing, tmp_path)


def test_a_failure_common_to_all_workers_is_reported_at_once(tmp_path: Path) -> None:
    """An oracle that is too slow for one worker is too slow for all, so it is not tried again."""

    def hopeless(number: int, times: int) -> Any:
        raise OracleTimeout("not ready within 300 s")

    executor = Made(hopeless)
    task = task_of(plus_one(), LIMITS)
    search = search_of(task, Remote(task, executor), of_faults(["ok", "slow"]), tmp_path / "db")
    with pytest.raises(TuningError, match="cannot measure: not ready within 300 s"):
        run(search, resume=False, seed=0)
    assert len(executor.sent) == len(set(executor.sent))


def test_a_failure_of_a_worker_is_not_a_crash_of_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = remote.measure_one

    def measure_one(box: Any, job: Job, *rest: Any) -> Any:
        if job.number > 0:
            raise RuntimeError("can't start new thread")
        return measured(box, job, *rest)

    monkeypatch.setattr(remote, "measure_one", measure_one)
    with ThreadPoolExecutor(1) as pool:
        # one of the first four is measured, and none of the others
        result = remote_drill(["ok"] * 6, pool, tmp_path)
    assert result.broken
    assert result.ended.endswith("cannot measure: RuntimeError: can't start new thread")
    assert {e.trial.outcome for e in Database(tmp_path / "db").entries()} == {"ok"}


def test_workers_that_cannot_measure_any_more(tmp_path: Path) -> None:
    """The candidates are not at fault, so none is recorded as crashed."""

    def full(number: int, times: int) -> Any:
        if number > 0:
            raise Broken("the process that measures candidates did not start: no space left")
        return {"outcome": "ok", "seconds": 1.0}

    result, _ = made(full, tmp_path, of_faults(["ok"] * 6))
    assert [t.outcome for t in result.trials] == ["ok"]
    assert result.ended.endswith("cannot measure: the process that measures candidates did not "
                                 "start: no space left")  # fmt: skip


def test_a_worker_that_cannot_measure_beside_others(tmp_path: Path) -> None:
    """Its failed jobs go to other workers when they are free; their measurements are kept."""
    sent: list[int] = []

    def sick(number: int, times: int) -> Any:
        sent.append(number)
        if number == 0 and times < 3:
            raise Broken("no space left")
        return {"outcome": "ok", "seconds": 2.0 + number}

    result, _ = made(sick, tmp_path)
    assert [t.outcome for t in result.trials] == ["ok"] * 4 and result.best.number == 0
    # each time after the others
    assert sent[-2:] == [0, 0]


def test_a_worker_that_fails_all_it_gets_beside_one_that_measures(tmp_path: Path) -> None:
    """The search goes on while another worker measures, though the failing one gets most jobs."""

    def sick(number: int, times: int) -> Any:
        if times <= 2 * number:
            raise Broken("no space left")
        return {"outcome": "ok", "seconds": 2.0 + number}

    result, _ = made(sick, tmp_path)
    assert [t.outcome for t in result.trials] == ["ok"] * 4 and not result.broken


def test_each_lost_job_is_judged_by_its_own_error(tmp_path: Path) -> None:
    """A killed worker counts against its candidate, and a full disk does not."""

    def mixed(number: int, times: int) -> Any:
        if number == 1:
            raise RuntimeError("KilledWorker")
        if number == 2 and times == 1:
            raise Broken("no space left")
        return {"outcome": "ok", "seconds": 2.0 + number}

    result, _ = made(mixed, tmp_path)
    found = {t.number: t.outcome for t in result.trials}
    assert found == {0: "ok", 1: "crashed", 2: "ok", 3: "ok"}


def test_a_job_running_at_the_deadline_may_finish(tmp_path: Path) -> None:
    """If nothing has worked yet, a running job may finish; waiting jobs are cancelled."""

    class Slow(ThreadPoolExecutor):
        def submit(self, work: Any, *arguments: Any, **named: Any) -> Future[Any]:  # type: ignore[override]
            def late() -> dict[str, Any]:
                time.sleep(0.5)
                return {"number": arguments[3]["number"], "outcome": "ok", "seconds": 1.0}

            return super().submit(late)

    start = time.monotonic()
    with Slow(1) as pool:
        measurer = Remote(task_of(plus_one(), LIMITS), pool)
        jobs = [Job(n, "{}") for n in range(9)]
        found = list(measurer.measure(jobs, None, time.monotonic() + 0.2))
        assert [m.number for m in found] == [0]
        # a result exists already, so nothing is waited for
        assert list(measurer.measure(jobs, 1.0, time.monotonic() + 0.2)) == []
    assert time.monotonic() - start < 5


def test_workers_that_are_gone(tmp_path: Path) -> None:
    """A search does not wait forever for workers that are gone."""

    def silent(number: int, times: int) -> Any:
        return {"outcome": "ok", "seconds": 1.0} if number < 1 else None

    start = time.monotonic()
    result, _ = made(silent, tmp_path, patience=0.3)
    assert [t.number for t in result.trials] == [0]
    assert result.ended == "autotune: no worker of the executor has answered within 0.3 s"
    with pytest.raises(TuningError, match="no worker of the executor has answered within 0.3 s"):
        made(lambda number, times: None, tmp_path, patience=0.3)
    assert time.monotonic() - start < 10


def test_a_batch_follows_the_workers(tmp_path: Path) -> None:
    executor = Made(lambda number, times: {"outcome": "ok", "seconds": 1.0}, workers=3)
    task = task_of(plus_one(), LIMITS)
    measurer = Remote(task, executor)
    assert measurer.batch == 12
    executor._max_workers = 1
    assert measurer.batch == 4

    class Client:
        def __init__(self) -> None:
            self.workers: Any = {"a": 2, "b": 1}

        def nthreads(self) -> Any:
            if self.workers is None:
                raise OSError("the scheduler is gone")
            return self.workers

    client = Client()
    executor._client = client  # type: ignore[attr-defined]
    assert width(executor) == 3
    client.workers = {}
    assert width(executor) == 1
    client.workers = None
    assert width(executor) == remote.UNKNOWN
    assert width(Executor()) == remote.UNKNOWN


def test_idle_children_end(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "IDLE", 0.2)
    task = task_of(plus_one(), LIMITS)
    measurer = Remote(task, ThreadPoolExecutor(1))
    search = search_of(task, measurer, Random(0), tmp_path / "db")
    candidate = Random(0).propose(search.space)
    job = remote.Job(0, candidate.schedule.to_json())
    for _ in range(2):
        (found,) = measurer.measure([job], None)
        assert found.outcome == "ok"
        assert left_behind(folder) == []


def test_a_cluster(folder: Path, tmp_path: Path) -> None:
    """A Dask cluster in which one worker is killed and another one joins during the search."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        pids = client.run(os.getpid)
        assert os.getpid() not in pids.values() and len(set(pids.values())) == 2
        widths: list[int] = []

        class Kill(InOrder):
            def learn(self, trial: Trial) -> None:
                super().learn(trial)
                widths.append(width(executor))
                if len(self.learned) == 3:
                    os.kill(next(iter(pids.values())), signal.SIGKILL)

        executor = client.get_executor()
        faults = ["ok", "slow", "segfault", "slower", "unwritten", "slow", "raises", "slow", "slow"]
        task = task_of(plus_one(), LIMITS)
        strategy = Kill([{"fault": f, "copy": n} for n, f in enumerate(faults)])
        measurer = Remote(task, executor, COMMAND)
        search = search_of(task, measurer, strategy, tmp_path / "db")
        result = run(search, resume=False, seed=0)

        found = {t.number: t for t in result.trials}
        assert [found[n].outcome for n in range(len(faults))] == [
            {"segfault": "crashed", "unwritten": "wrong answer", "raises": "run failed"}.get(
                f, "ok"
            )
            for f in faults
        ]
        assert result.best.decisions["fault"] == "ok"
        assert len({e.trial.number for e in Database(tmp_path / "db").entries()}) == len(faults)
        assert widths[0] == 2
        # the nanny of the killed worker starts another one
        assert until(lambda: width(executor) == 2)
        assert set(client.run(os.getpid).values()) != set(pids.values())
        public = sl.autotune(
            plus_one(), trials=2, executor=executor, target="python", database=tmp_path / "db2"
        )
        assert {t.outcome for t in public.trials} == {"ok"}
        assert processes(folder)
    assert left_behind(folder) == []
