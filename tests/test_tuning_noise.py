"""Tests of timing beside other work on the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.race_times import race_ratio, seconds_before_race
from schedlang.autotune.record import DISTURBED, PROCESSOR_TIME, UNTUNED, Trial, Where
from schedlang.autotune.report.effects import knob_effects
from schedlang.autotune.result import TuningResult
from schedlang.autotune.run import run
from schedlang.autotune.runner import candidate_runner, noise
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.search import Random
from schedlang.autotune.state import BASELINE
from schedlang.runtime.kernel import Kernel
from tests.tuning import InOrder, Pretended, faulty, plus_one, search_of, task_of


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], None]]:
    """Return a maker of calls that take the given seconds, in turn, by a simulated clock."""
    now = [0.0]
    monkeypatch.setattr(noise, "perf_counter", lambda: now[0])

    def taking(*seconds: float) -> Callable[[], None]:
        left = iter(seconds)

        def call() -> None:
            now[0] += next(left, seconds[-1])

        return call

    return taking


def left_alone() -> int:
    return 0


def test_slow_first_calls_are_not_the_time(clock: Any) -> None:
    held_up, prompt = clock(*[8e-3] * 20, 5e-5), (pytest.approx(5e-5), True)
    assert noise.least_of_calls(held_up, 1e-3, 0.2, left_alone) == prompt
    assert noise.least_of_calls(clock(5e-5, 1.0), 1e-3, 0.2, left_alone) == prompt


def test_a_slow_call_is_not_repeated_for_long(clock: Any) -> None:
    for seconds, least in (((2.2e-3, 2e-3, 2.1e-3, 0.0), 2e-3), ((0.15, 0.1, 0.0), 0.1)):
        found = noise.least_of_calls(clock(*seconds), 1e-3, 0.2, left_alone)
        assert found == (pytest.approx(least), True)


def test_a_call_that_is_always_delayed_is_disturbed(clock: Any) -> None:
    turns = iter(range(1000))
    found = noise.least_of_calls(clock(8e-3), 1e-3, 0.05, lambda: next(turns))
    assert found == (pytest.approx(8e-3), False)


def test_a_few_interruptions_do_not_disturb_a_long_call(clock: Any) -> None:
    for seconds, calls, alone in ((0.6, 3, True), (0.6, 30, False), (1e-3, 1, False)):
        turns = iter((0, calls))
        found = noise.one_call(clock(seconds), lambda turns=turns: next(turns))
        assert found == (pytest.approx(seconds), alone)


def test_one_delayed_call_does_not_make_a_kernel_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CandidateRunner(task_of(plus_one(), Limits()), tmp_path)
    bench.build(0, sl.schedule(*bench.task.outputs).to_json())
    slow = noise.Time(0.7, False)
    monkeypatch.setattr(candidate_runner, "one_call", lambda call, _: (call(), slow)[1])
    bench.check(0)
    # in a quiet moment
    monkeypatch.setattr(candidate_runner, "one_call", lambda call, lost: noise.Time(1e-4, True))
    assert bench.time(0)["seconds"] < 0.1
    # slow by itself
    for again, told in (((0.9, True), (0.9, True)), ((0.9, False), (0.7, False))):
        bench._took[0] = noise.Time(0.7, False)
        second = noise.Time(*again)
        monkeypatch.setattr(candidate_runner, "one_call", lambda *_, second=second: second)
        assert bench.time(0) == dict(zip(("seconds", "quiet"), told))


def test_interrupted_samples_do_not_count(clock: Any) -> None:
    turns = iter(range(1000))
    # a sample is undisturbed if the counts before and after it are equal
    lost = [0, 1, 1, 1, 1, 1, 1, 1]

    def interruptions() -> int:
        return lost[min(next(turns), len(lost) - 1)]

    call = clock(1e-3, 1e-3, 9e-3, 1e-3, 2e-3, 3e-3)
    assert noise.undisturbed_median(call, 5e-3, 1.0, interruptions) == (pytest.approx(2e-3), True)


def test_if_all_samples_are_interrupted_the_shortest_counts_as_disturbed(clock: Any) -> None:
    turns = iter(range(1000))
    found = noise.undisturbed_median(
        clock(1e-3, 1e-3, 9e-3, 4e-3, 7e-3), 1e-2, 2e-2, lambda: next(turns)
    )
    assert found == (pytest.approx(4e-3), False)


def test_a_call_that_is_behind_gets_few_samples(clock: Any) -> None:
    for seconds, behind, spent in ((2e-3, 1e-3, 0.012), (2e-3, 4e-3, 0.1), (9e-3, 1e-3, 0.036)):
        calls: list[float] = []
        taking = clock(seconds)
        found = noise.undisturbed_median(
            lambda taking=taking, calls=calls: (taking(), calls.append(0.0)), 0.1, 0.4, left_alone,
            behind,
        )  # fmt: skip
        assert found == (pytest.approx(seconds), True)
        # the first two calls are no samples
        assert (len(calls) - 2) * seconds == pytest.approx(spent, abs=1.5 * seconds)
    # one short sample shows that it may be as fast
    delayed = clock(*[2e-3] * 5, 5e-4, 2e-3)
    start = noise.perf_counter()
    assert noise.undisturbed_median(delayed, 0.1, 0.4, left_alone, 1e-3).quiet
    assert noise.perf_counter() - start > 0.1


@pytest.fixture
def shared(clock: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], None]]:
    """Return a maker of calls with an own processor time, and with waits for a core besides."""
    computed = [0.0]
    monkeypatch.setattr(noise, "thread_time", lambda: computed[0])

    def taking(own: Sequence[float], waits: Sequence[float]) -> Callable[[], None]:
        wall, left = clock(*(a + b for a, b in zip(own, waits))), iter(own)

        def call() -> None:
            computed[0] += next(left, own[-1])
            wall()

        return call

    return taking


OWN, WAITS = [1e-3] * 2 + [2e-3, 1e-3, 3e-3] * 9, [8e-3, 2e-3] * 15


def test_a_disturbed_call_on_one_thread_has_its_processor_time(shared: Any) -> None:
    turns = iter(range(1000))

    def always() -> int:
        return next(turns)

    alone = noise.OneThread(shared(OWN, WAITS))
    found = noise.undisturbed_median(alone, 1e-2, 5e-2, always)
    assert found == (pytest.approx(2e-3), True) and isinstance(found, noise.ProcessorTime)
    found = noise.undisturbed_median(shared(OWN, WAITS), 1e-2, 5e-2, always)
    assert not found.quiet and not isinstance(found, noise.ProcessorTime)
    assert found.seconds >= 3e-3
    alone = noise.OneThread(shared(OWN, WAITS))
    found = noise.least_of_calls(alone, 1.5e-3, 1.0, always)
    assert found == (pytest.approx(1e-3), True) and isinstance(found, noise.ProcessorTime)


def test_one_disturbed_call_on_one_thread_has_its_processor_time(shared: Any) -> None:
    for count, seconds, kind in ((1, 1.3, noise.Time), (30, 0.6, noise.ProcessorTime)):
        turns = iter((0, count))
        alone = noise.OneThread(shared([0.6], [0.7]))
        found = noise.one_call(alone, lambda turns=turns: next(turns))
        assert found == (pytest.approx(seconds), True) and type(found) is kind


def test_an_undisturbed_sample_counts_before_processor_time(shared: Any) -> None:
    # the third sample is undisturbed
    lost = iter([0, 1, 1, 2, 2, 2, *range(3, 1000)])
    call = noise.OneThread(shared([1e-3] * 40, [5e-3] * 4 + [1e-4] + [5e-3] * 35))
    found = noise.undisturbed_median(call, 1e-2, 2e-2, lambda: next(lost))
    assert found == (pytest.approx(1.1e-3), True) and type(found) is noise.Time


def test_only_kernels_without_a_parallel_loop_have_one_thread(tmp_path: Path) -> None:
    bench = CandidateRunner(task_of(plus_one(), Limits()), tmp_path)
    s = sl.schedule(*bench.task.outputs)
    bench.build(0, s.to_json())
    s[s.outputs[0]].parallel(s.outputs[0].op.axis[0])
    bench.build(1, s.to_json())
    marked = [isinstance(bench._timed(n), noise.OneThread) for n in (0, 1)]
    assert marked == [noise.has_thread_clock(), False]


def test_the_answer_of_a_process_says_whose_time_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter(range(10**9))
    monkeypatch.setattr(candidate_runner, "lost_cores", lambda: next(turns))
    monkeypatch.setattr(candidate_runner, "PATIENCE", 0.01)
    bench = CandidateRunner(task_of(plus_one(), Limits()), tmp_path)
    bench.build(0, sl.schedule(*bench.task.outputs).to_json())
    bench.check(0)
    for answer in (bench.time(0), bench.sample(0)):
        assert answer["quiet"] and answer["processor"] and answer["seconds"] > 0


def test_a_processor_time_is_recorded_and_reported_as_one(tmp_path: Path) -> None:
    found = Measured(0, "ok", 1e-3, processor=True)
    strategy = InOrder([{"fault": "ok"}])
    measurer = Told([found, Measured(BASELINE, "ok", 8e-3)], [found])
    task = task_of(plus_one(), Limits(), "cpu")
    result = run(search_of(task, measurer, strategy, tmp_path / "db"), False, 0)
    (trial,) = result.trials
    assert trial.detail.endswith(PROCESSOR_TIME) and not trial.disturbed
    assert f"of which: 1 by {PROCESSOR_TIME}" in str(result)
    kept = [*Database(tmp_path / "db").trials(Where.here([plus_one()], sl.Target("cpu"), {}))]
    assert kept[-1].detail == trial.detail


class Noisy:
    """A measurer on a machine that is quiet at first, but not during the race."""

    batch = 2

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        for job in jobs:
            yield Measured(job.number, "ok", 1e-3 * (3 + job.number), quiet=job.number != 1)

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        return [Measured(job.number, "ok", 5e-2, quiet=False) for job in jobs]

    def close(self) -> None:
        """Do nothing."""


def test_a_race_beside_other_work_takes_nothing_back(tmp_path: Path) -> None:
    strategy = InOrder([{"fault": "ok"}, {"fault": "slow"}])
    search = search_of(task_of(plus_one(), Limits()), Noisy(), strategy, tmp_path / "db")
    result = run(search, False, 0)
    assert (result.best.number, result.seconds) == (0, pytest.approx(3e-3))
    # BASELINE's job is number -1
    assert result.facts.baseline == pytest.approx(2e-3)
    assert all(t.detail.endswith(DISTURBED) for t in result.trials)
    assert f"2 while {DISTURBED}" in str(result)


def test_a_disturbed_candidate_is_measured_again(tmp_path: Path) -> None:
    """Until then the time does not count for the statistics of knobs and estimates."""

    class Disturbed(Noisy):
        def race(self, jobs: Sequence[Job]) -> list[Measured]:
            return []

    def searched(measurer: Any) -> TuningResult:
        faults = [{"fault": fault, "copy": n} for n, fault in enumerate(("ok", "slow", "ok"))]
        task = task_of(plus_one(), Limits())
        return run(search_of(task, measurer, InOrder(faults), tmp_path / "db"), True, 0)

    disturbed = searched(Disturbed())
    assert [t.detail for t in disturbed.trials] == ["", DISTURBED, ""]
    effects, same = knob_effects(disturbed.facts)
    assert "fault" in same and [e.count for e in effects] == [2]
    quiet = searched(Pretended(lambda steps: 1e-3))
    assert [(t.resumed, t.detail) for t in quiet.trials] == [(True, ""), (True, ""), (False, "")]


class Told:
    """A measurer with given measurements and races, by the number of the job."""

    batch = 8

    def __init__(self, first: Sequence[Measured], raced: Sequence[Measured]) -> None:
        self.first = {m.number: m for m in first}
        self.raced = list(raced)

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        return iter([self.first[job.number] for job in jobs])

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        return self.raced

    def close(self) -> None:
        """Do nothing."""


NOISY = Measured(0, "ok", 9e-3, quiet=False)
PLAIN = Measured(BASELINE, "ok", 8e-3)


def told(folder: Path, raced: Measured, plain: Measured = PLAIN) -> TuningResult:
    """Run a search of one candidate whose first time is disturbed."""
    strategy = InOrder([{"fault": "ok"}])
    search = search_of(
        task_of(plus_one(), Limits(), "cpu"), Told([NOISY, plain], [raced]), strategy, folder / "db"
    )  # fmt: skip
    search.space.by_tactics = True
    return run(search, False, 0)


def test_a_disturbed_time_stays_one_where_the_race_gives_no_other(tmp_path: Path) -> None:
    for raced in (Measured(0, "run timed out", detail="no answer"), NOISY):
        trial = told(tmp_path, raced).trials[0]
        assert (trial.seconds, trial.disturbed) == (9e-3, True)
        kept = list(
            Database(tmp_path / "db").trials(Where.here([plus_one()], sl.Target("cpu"), {}))
        )
        assert [t.disturbed for t in kept if t.number == 0] == [True]


def test_a_quiet_race_makes_a_disturbed_time_good(tmp_path: Path) -> None:
    trial = told(tmp_path, Measured(0, "ok", 1e-3)).trials[0]
    assert (trial.seconds, trial.first) == (1e-3, 9e-3)
    assert (trial.disturbed, trial.first_disturbed) == (False, True)
    # charts show the quiet time; the first time does not count for the slowdown in a race
    assert seconds_before_race(trial) == 1e-3 and race_ratio([trial]) == 1.0


def test_a_disturbed_time_of_the_untuned_schedule_is_kept_as_one(tmp_path: Path) -> None:
    def untuned(plain: Measured) -> Trial:
        result = told(tmp_path, Measured(0, "run timed out"), plain)
        return next(t for t in result.trials if t.strategy == UNTUNED)

    assert not untuned(replace(PLAIN, seconds=1e-3)).disturbed
    disturbed = untuned(replace(PLAIN, seconds=8e-3, quiet=False))
    assert disturbed.disturbed and disturbed.detail == DISTURBED
    best = Database(tmp_path / "db").best(
        Where.here([plus_one()], sl.Target("cpu"), {}), [plus_one()]
    )
    assert best is not None and best.seconds == 1e-3


def test_records_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """A disturbed time is "loud" in the file, so that old and new versions read each other's."""
    task = task_of(plus_one(), Limits())
    search = search_of(task, Pretended(lambda steps: 1.0), Random(0), tmp_path / "db", 2, faulty)
    run(search, False, 0)
    lines = [json.loads(line) for line in (tmp_path / "db").read_text().splitlines()]
    assert {"loud", "first_loud"} <= set(lines[-1]["trial"])
    lines[-1]["trial"].update(loud=True, first_loud=True)
    (tmp_path / "db").write_text("".join(json.dumps(line) + "\n" for line in lines))
    last = list(Database(tmp_path / "db").entries())[-1].trial
    assert (last.disturbed, last.first_disturbed) == (True, True)


def test_a_kernel_is_timed_without_its_call_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of a call take longer than a kernel of a microsecond."""
    runner = CandidateRunner(task_of(plus_one(), Limits()), tmp_path)
    runner.build(0, sl.schedule(*runner.task.outputs).to_json())
    runner.check(0)

    def called(self: Kernel, *arrays: Any) -> None:
        raise AssertionError("a call from Python was timed")

    monkeypatch.setattr(Kernel, "__call__", called)
    assert runner.sample(0)["seconds"] > 0


def test_the_time_of_a_search_is_that_of_its_call(tmp_path: Path) -> None:
    """It has what comes before the first candidate and after the race."""
    search = search_of(task_of(plus_one(), Limits()), Pretended(lambda s: 1.0), Random(0),
                       tmp_path / "db", 2)  # fmt: skip
    assert run(search, False, 0, monotonic() - 100).facts.spent > 100
