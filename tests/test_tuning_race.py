"""Tests of races, which time the fastest candidates again in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from schedlang.autotune.result import TuningResult
from schedlang.autotune.run import run
from schedlang.autotune.runner import race as racing
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.race import RACE_ROUNDS, race
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.state import BASELINE, key_of
from tests.tuning import InOrder, Pretended, plus_one, pragma, search_of, task_of


class Box:
    """A process that only counts its restarts and the requests."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def close(self) -> None:
        self.said.append("anew")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let the test decide how builds, samples and emulated runs end."""
    how: dict[str, Any] = {"sample": lambda n, beside: 1.0 + n, "emulate": lambda n: "ok"}

    def build(box: Box, job: Job, task: Any) -> Measured:
        box.said.append(f"build {job.number}")
        return Measured(job.number, "ok")

    def timed(box: Box, what: str, one: Measured, task: Any) -> Measured:
        since = len(box.said) - next(
            (n for n, s in enumerate(reversed(box.said)) if s == "anew"), len(box.said)
        )
        beside = {s for s in box.said[since:] if s.startswith("build")} - {f"build {one.number}"}
        box.said.append(f"sample {one.number}")
        seconds = how["sample"](one.number, bool(beside))
        return Measured(one.number, "ok" if seconds else "crashed", seconds)

    def send(box: Box, phase: str, what: str, limit: float, there: Measured, **_: Any) -> Any:
        number = racing.EMULATED - there.number
        box.said.append(f"emulate {number}")
        outcome = how["emulate"](number)
        return {} if outcome == "ok" else Measured(there.number, outcome, detail="why")

    monkeypatch.setattr(racing, "build", build)
    monkeypatch.setattr(racing, "check_built", lambda box, built, task: built)
    monkeypatch.setattr(racing, "time_built", timed)
    monkeypatch.setattr(racing, "send", send)
    monkeypatch.setattr(racing, "forget", lambda box, numbers: None)
    return how


def raced(count: int, kind: str = "cpu", timed: bool = True) -> tuple[dict[int, Measured], Box]:
    task = replace(task_of(plus_one(), Limits(), kind), timed=timed)
    box: Any = Box()
    found = race(box, [Job(n, "") for n in range(count)], task)
    assert sorted(m.number for m in found) == list(range(count))
    return {m.number: m for m in found}, box


def test_all_take_turns(told: dict[str, Any]) -> None:
    found, box = raced(3)
    assert [found[n].seconds for n in range(3)] == [1.0, 2.0, 3.0]
    samples = [s for s in box.said if s.startswith("sample")]
    assert samples == ["sample 0", "sample 1", "sample 2"] * RACE_ROUNDS


def test_one_that_is_far_behind_is_timed_in_the_first_round_alone(told: dict[str, Any]) -> None:
    told["sample"] = lambda n, beside: 100.0 if n == 1 else 1.0
    found, box = raced(3)
    assert [found[n].seconds for n in range(3)] == [1.0, 100.0, 1.0]
    samples = [s for s in box.said if s.startswith("sample")]
    later = ["sample 0", "sample 2"] * (RACE_ROUNDS - 1)
    assert samples == ["sample 0", "sample 1", "sample 2", *later]


def test_a_failed_candidate_leaves_the_race_and_the_others_go_on(told: dict[str, Any]) -> None:
    told["sample"] = lambda n, beside: None if n == 1 else 1.0
    found, box = raced(4)
    assert [found[n].outcome for n in range(4)] == ["ok", "crashed", "ok", "ok"]
    last = len(box.said) - box.said[::-1].index("anew")
    assert box.said[last:][:3] == ["build 0", "build 2", "build 3"]
    assert box.said[last:][3:] == ["sample 0", "sample 2", "sample 3"] * RACE_ROUNDS


def test_a_failure_only_beside_others_is_not_blamed_on_the_candidate(told: dict[str, Any]) -> None:
    told["sample"] = lambda n, beside: None if n == 1 and beside else 1.0
    found, box = raced(3)
    assert {m.outcome for m in found.values()} == {"ok"}
    assert box.said.count("anew") == 3


@pytest.mark.parametrize("timed", [True, False])
def test_a_too_slow_emulation_is_tried_once(timed: bool, told: dict[str, Any]) -> None:
    told["emulate"] = lambda n: "run timed out" if n == 1 else "ok"
    found, box = raced(4, "cuda", timed)
    assert {m.outcome for m in found.values()} == {"ok"}
    assert [found[n].detail[:12] for n in range(4)] == ["", *3 * ["not checked "]]
    assert [s for s in box.said if s.startswith("emulate")] == ["emulate 0", "emulate 1"]


def test_a_candidate_that_the_emulator_finds_wrong_is_out(told: dict[str, Any]) -> None:
    told["emulate"] = lambda n: "wrong answer" if n == 0 else "ok"
    found, _ = raced(3, "cuda")
    assert [found[n].outcome for n in range(3)] == ["wrong answer", "ok", "ok"]


class Raced(Pretended):
    """A measurer that keeps the numbers of the jobs in each race."""

    def __init__(self, seconds: Callable[[str], float], answers: bool = True) -> None:
        super().__init__(seconds)
        self.races: list[list[int]] = []
        self._answers = answers

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        self.races.append([job.number for job in jobs])
        outcome = "ok" if self._answers else "build timed out"
        found = [Measured(j.number, outcome, self._seconds(j.steps)) for j in jobs]
        return found if self._answers else [replace(m, seconds=None) for m in found]


def searched(
    folder: Path, measurer: Raced, count: int, timeout: float | None = None, took: float = 0.0
) -> TuningResult:
    """Return the result of a search of ``count`` candidates on a CPU, the last one the fastest."""
    strategy = InOrder([{"fault": "ok", "copy": n} for n in range(count)])
    end = None if timeout is None else time.monotonic() + timeout
    search = search_of(
        task_of(plus_one(), Limits(), "cpu"), measurer, strategy, folder / "db", timeout=timeout,
        end=end, deadline=end,
    )  # fmt: skip
    measure = measurer.measure
    measurer.measure = lambda *given: (  # type: ignore[method-assign]
        replace(m, took=took) for m in measure(*given)
    )
    return run(search, False, 0)


def falling(steps: str) -> float:
    """Return seconds that fall by 2% from each candidate to the next; 30% more untuned."""
    return 1.3e-3 if "drill" not in steps else 1e-3 * 0.98 ** pragma(steps, "drill.copy")


def test_a_race_holds_the_first_candidate_and_the_untuned_schedule(tmp_path: Path) -> None:
    measurer = Raced(falling)
    assert searched(tmp_path, measurer, 12).best.number == 11
    assert measurer.races == [[11, 0, 10, 9, BASELINE]]


@pytest.mark.parametrize("untuned", [0.02, 0.3, 30.0])
def test_a_slow_untuned_schedule_races_too(untuned: float, tmp_path: Path) -> None:
    measurer = Raced(lambda steps: untuned if "drill" not in steps else falling(steps))
    searched(tmp_path, measurer, 12)
    assert measurer.races == [[11, 0, 10, 9, BASELINE]]


@pytest.mark.parametrize(("untuned", "races"), [(0.001, True), (20.0, False)])
def test_a_timeout_may_leave_no_time_to_race_the_untuned_schedule(
    untuned: float, races: bool, tmp_path: Path
) -> None:
    measurer = Raced(lambda steps: untuned if "drill" not in steps else falling(steps))
    searched(tmp_path, measurer, 12, timeout=40.0)
    assert [BASELINE in race for race in measurer.races] == [races]


def test_with_little_time_the_fastest_races_with_the_first_candidate(tmp_path: Path) -> None:
    """A machine on which candidates take long to build leaves too little time for more."""
    measurer = Raced(falling)
    result = searched(tmp_path, measurer, 12, timeout=4.0, took=3.0)
    assert measurer.races == [[11, 0]] and not result.facts.unraced
    assert result.best.number == 11


@pytest.mark.parametrize(("gain", "best"), [(0.98, 0), (0.7, 3)])
def test_without_a_race_only_a_clear_gain_beats_the_first_candidate(
    gain: float, best: int, tmp_path: Path
) -> None:
    measurer = Raced(lambda steps: 1.0 if "drill" not in steps
                     else 1e-3 * gain ** pragma(steps, "drill.copy"), answers=False)  # fmt: skip
    result = searched(tmp_path, measurer, 4)
    assert result.facts.unraced and "the first candidate is the best unless" in str(result)
    assert result.best.number == best


@pytest.mark.parametrize(("spread", "best"), [(0.0, 3), (0.02, 3), (0.04, 0)])
def test_the_first_candidate_stays_unless_the_gain_exceeds_the_noise(
    spread: float, best: int, tmp_path: Path
) -> None:
    """Candidate 3 is faster by 6%, and the rounds of both differ by ``spread``."""
    measurer = Raced(falling)
    race = measurer.race
    measurer.race = lambda jobs: [  # type: ignore[method-assign]
        replace(m, spread=spread) for m in race(jobs)
    ]
    assert searched(tmp_path, measurer, 4).best.number == best


def test_the_schedule_of_a_database_stays_unless_the_gain_exceeds_the_noise(
    tmp_path: Path,
) -> None:
    for spread, best in ((0.02, 3), (0.05, 1)):
        measurer = Raced(falling)
        race = measurer.race
        measurer.race = lambda jobs, race=race, spread=spread: [  # type: ignore[method-assign]
            replace(m, spread=spread) for m in race(jobs)
        ]
        faults = InOrder([{"fault": "ok", "copy": n} for n in range(4)])
        search = search_of(
            task_of(plus_one(), Limits(), "cpu"), measurer, faults, tmp_path / f"db{best}"
        )
        search.recorded = drawn_key(search, 1)
        result = run(search, False, 0).best
        assert result.number == best
        # sl.best, and the next search, take the same one
        known = search.database.best(search.where, search.task.outputs)
        assert known is not None and known.trial.steps == result.steps
        assert known.seconds == result.seconds
        assert (known.trial.margin > 0) == (best == 1)


def drawn_key(search: Any, copy: int) -> str:
    """Return the key of a candidate of the drill, without a proposal of its strategy."""
    return key_of(search.space.draw(Random(0), {"fault": "ok", "copy": copy}))


def test_the_spread_of_a_race_is_that_of_its_rounds(told: dict[str, Any]) -> None:
    seconds = iter([1.0, 1.1, 1.2, 1.3, 1.4])
    told["sample"] = lambda n, beside: next(seconds)
    found, _ = raced(1)
    assert found[0].seconds == 1.2 and found[0].spread == pytest.approx(0.2 / 1.2)
