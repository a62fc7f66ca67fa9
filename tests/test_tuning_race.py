"""Tests of races, which time the fastest candidates again in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedlang.autotune.runner import race as racing
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.runner.race import RACE_ROUNDS, race
from schedlang.autotune.runner.task import Limits
from tests.tuning import plus_one, task_of


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
    monkeypatch.setattr(racing, "checked", lambda box, built, task: built)
    monkeypatch.setattr(racing, "timed", timed)
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
