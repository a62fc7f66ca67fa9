"""Tests of the messages of a search: the actual reason and advice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.autotune import tuner
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.record import NO_GPU, Trial, Where
from schedlang.autotune.records.entry import from_line
from schedlang.autotune.report.summary import summary
from schedlang.autotune.result import TuningResult
from schedlang.autotune.run import run
from schedlang.autotune.runner import machine
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.search import Random
from schedlang.autotune.state import BASELINE, Search
from schedlang.errors import BuildError, MissingExtraError, TuningError, missing_extra
from schedlang.runtime.evaluate import Evaluation
from schedlang.schedule.schedule import Schedule
from tests.tuning import Pretended, plus_one, search_of, task_of

pytestmark = pytest.mark.slow

Template = Callable[[Schedule, Knobs], Any]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))


def made_up(folder: Path, template: Template, **options: Any) -> Search:
    """Return a search with a template of the user and simulated times."""
    task = task_of(plus_one(), sl.autotune.Limits(), "cpu")
    measurer = options.pop("measurer", None) or Pretended(lambda steps: float(len(steps)))
    search = search_of(task, measurer, Random(0), folder / "db", 4, template, **options)
    search.template = "mine.template"
    return search


def found(search: Search) -> TuningResult:
    return run(search, resume=False, seed=0)


def tiles(s: Schedule, knobs: Knobs) -> None:
    B = s.outputs[0]
    s[B].split(B.op.axis[0], factor=knobs.choice("rows", [2, 4, 8, 16]))


class NoPlain(Pretended):
    """A measurer that fails on the untuned schedule, or has no time for it."""

    def __init__(self, outcome: str) -> None:
        super().__init__(lambda steps: float(len(steps)))
        self.outcome = outcome

    def measure(self, jobs: Any, best: Any, deadline: Any = None) -> Any:
        rest: list[Job] = []
        for job in jobs:
            if job.number != BASELINE:
                rest.append(job)
            elif self.outcome:
                yield Measured(BASELINE, self.outcome, detail="no answer within 10 s")
        yield from super().measure(rest, best, deadline)


def test_why_the_untuned_schedule_has_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "the untuned schedule has no time: "
    slow = found(made_up(tmp_path, tiles, measurer=NoPlain("run timed out")))
    assert said + "run timed out: no answer within 10 s\n" in str(slow)
    late = made_up(tmp_path, tiles, measurer=NoPlain(""), deadline=0.0)
    # the time is up as soon as there is a candidate
    monkeypatch.setattr(type(late.space), "late", lambda space: bool(late.trials))
    assert said + "the time of the search was up before it was timed\n" in str(found(late))
    monkeypatch.undo()
    broken = made_up(tmp_path, tiles, measurer=NoPlain(""))
    assert said + "the search ended before it was timed\n" in str(found(broken))
    timed = str(found(made_up(tmp_path, tiles)))
    assert "as fast as the untuned schedule" in timed and "no time" not in timed


def too_large(s: Schedule, knobs: Knobs) -> None:
    knobs.choice("r", [1, 2])
    knobs.require(lambda r: r > 100)


def too_large_at_once(s: Schedule, knobs: Knobs) -> None:
    knobs.require(knobs.choice("r", [1, 2]) > 100)


def with_a_reason(s: Schedule, knobs: Knobs) -> None:
    knobs.require(knobs.choice("r", [1, 2]) > 100, "the tile is too small")


def illegal(s: Schedule, knobs: Knobs) -> None:
    tiles(s, knobs)
    B = s.outputs[0]
    s[B].compute_at(s[B], B.op.axis[1])


ILLEGAL = r"compute_at\(B, i1\) on stage B \(test_tuning_words.py:LINE\): a stage cannot be"


@pytest.mark.parametrize(
    ("template", "reason", "hint"),
    [
        (too_large, r"the constraint on r \(test_tuning_words.py:LINE\) does not hold", "Loosen"),
        (too_large_at_once, r"the constraint \(test_tuning_words.py:LINE\) does not", "Loosen"),
        (with_a_reason, "the tile is too small", "Loosen"),
        (illegal, ILLEGAL, "change the step"),
    ],
)
def test_the_reason_why_all_candidates_of_a_template_are_refused(
    tmp_path: Path, template: Any, reason: str, hint: str
) -> None:
    code = template.__code__
    last = max(line for _, _, line in code.co_lines() if line)
    with pytest.raises(TuningError) as error:
        found(made_up(tmp_path, template))
    told = str(error.value)
    assert re.search(f"[0-9]+ times {reason.replace('LINE', str(last))}", told), told
    assert hint in told.splitlines()[-1] and ("Loosen" in told) == (hint == "Loosen")


def test_the_advice_is_not_to_change_the_tactics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = made_up(tmp_path, with_a_reason)
    monkeypatch.setattr("schedlang.autotune.search.candidate_by_model", lambda space: None)
    search.space.by_tactics = True
    with pytest.raises(TuningError) as error:
        found(search)
    assert "Loosen" not in str(error.value) and "give a template=" in str(error.value)


def test_tactics_without_enough_time_are_advised_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = made_up(tmp_path, with_a_reason, deadline=0.0)
    search.space.by_tactics = True
    monkeypatch.setattr("schedlang.autotune.search.candidate_by_model", lambda space: None)
    # the time is up as soon as a draw is refused
    monkeypatch.setattr(type(search.space), "late", lambda space: space.counts["invalid"] > 0)
    with pytest.raises(TuningError, match="1 time the tile is too small\n.*give more time"):
        found(search)


def nothing(s: Schedule, knobs: Knobs) -> None:
    knobs.choice("rows", [2, 4])


def no_knobs(s: Schedule, knobs: Knobs) -> None:
    tiles(s, Knobs())


def idle_knobs(s: Schedule, knobs: Knobs) -> None:
    no_knobs(s, knobs)
    knobs.choice("rows", [2, 4])


def few_are_legal(s: Schedule, knobs: Knobs) -> None:
    rows = knobs.choice("rows", [2, 4, 8])
    knobs.require(lambda rows: rows <= 2)
    s[s.outputs[0]].split(s.outputs[0].op.axis[0], factor=rows)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (few_are_legal, ""),
        (nothing, "it applied no steps"),
        (no_knobs, "it asks for no knobs, so it makes only one schedule"),
        (idle_knobs, "its knobs changed nothing: all drawn decisions make the same loop nest"),
        (tiles, ""),
    ],
)
def test_a_template_that_decides_nothing(
    tmp_path: Path, template: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # such a search ends with draws that are all known
    monkeypatch.setattr("schedlang.autotune.run.MOST_REPEATED", 30)
    lines = str(found(made_up(tmp_path, template))).splitlines()
    assert [x for x in lines if "template:" in x] == ([f"  template: {said}"] if said else [])


def test_one_draw_gives_no_note_on_the_template(tmp_path: Path) -> None:
    def idle_at_times(s: Schedule, knobs: Knobs) -> None:
        if knobs.choice("split", [False, True]):
            s[s.outputs[0]].split(s.outputs[0].op.axis[0], factor=4)

    splits = set()
    for seed in range(2):
        made = sl.autotune(
            plus_one(), template=idle_at_times, database=tmp_path / "db", target="python",
            trials=1, seed=seed, resume=False,
        )  # fmt: skip
        assert "template:" not in str(made)
        splits.add(made.trials[0].decisions["split"])
    assert splits == {False, True}


def test_a_template_of_other_parameters(tmp_path: Path) -> None:
    wrong: list[Any] = [lambda s: None, lambda s, knobs, more: None, lambda *, s, knobs: None]
    for template in wrong:
        with pytest.raises(
            TuningError,
            match=r"two parameters; give a function template\(s, "
            r"knobs\)",
        ):
            sl.autotune(plus_one(), template=template, database=tmp_path / "db")
    for fits in (lambda *both: None, lambda s, knobs, more=3: None):
        made = sl.autotune(
            plus_one(), template=fits, database=tmp_path / "db", target="python", trials=1
        )
        assert len(made.trials) == 1


class SlowRace(Pretended):
    """A measurer with slow races."""

    def race(self, jobs: Any) -> list[Measured]:
        time.sleep(1.0)
        return super().race(jobs)


def test_a_race_that_took_most_of_the_time_is_reported(tmp_path: Path) -> None:
    slow = made_up(tmp_path, tiles, measurer=SlowRace(lambda steps: float(len(steps))))
    said = r"measured: 4.*, in 1\.[0-9] s, 1\.[0-9] s of it for the final race \(random"
    assert re.search(said, str(found(slow)))
    facts = found(made_up(tmp_path, tiles)).facts
    assert "final race" not in summary(replace(facts, spent=1.0, finals_took=0.4))


def test_a_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing compiler is reported before the first trial, except for remote workers."""

    def absent() -> Any:
        raise missing_extra("numba-cuda", "cuda", "a kernel for NVIDIA GPUs")

    monkeypatch.setattr(tuner, "driver", absent)
    monkeypatch.delenv("SCHEDLANG_CUDA", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[cuda\]"'):
        sl.autotune(plus_one(), target="cuda", database=tmp_path / "db")
    assert not (tmp_path / "db").exists()


def test_a_search_without_a_gpu_that_finds_nothing_says_that_nothing_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "driver", lambda: None)
    monkeypatch.setattr(machine, "machine_for", lambda target: NO_GPU)
    monkeypatch.delenv("SCHEDLANG_CUDA", raising=False)
    with pytest.raises(TuningError, match="No NVIDIA GPU is available.*only compiled and ranked"):
        sl.autotune(plus_one(), target="cuda", timeout=1e-3, database=tmp_path / "db")


def test_an_unknown_target_is_refused_as_by_build() -> None:
    asked: list[tuple[Any, Any]] = [
        (sl.autotune, plus_one()), (sl.best, plus_one()), (sl.build, sl.schedule(plus_one())),
    ]  # fmt: skip
    for ask, given in asked:
        with pytest.raises(BuildError, match="unknown target 'gpu'"):
            ask(given, target="gpu")


def test_unknown_sizes_are_refused(tmp_path: Path) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    with pytest.raises(
        TuningError, match=r"'m': 4.*no symbolic size 'm' in B; give sizes=\{'n': \.\.\.\}"
    ):
        sl.autotune(B, sizes={"m": 4}, database=tmp_path / "db")
    with pytest.raises(TuningError, match="it has none; leave out sizes="):
        sl.autotune(plus_one(), sizes={"m": 4}, database=tmp_path / "db")


def test_inputs_that_are_not_arrays_are_refused(tmp_path: Path) -> None:
    class Elsewhere:
        def __array__(self, *_: object) -> object:
            raise RuntimeError("it is on a GPU: copy it")

    for given, why in (([[1.0, 2.0], [3.0]], "inhomogeneous"), (Elsewhere(), "it is on a GPU")):
        with pytest.raises(TuningError, match=f"NumPy cannot read A as an array: .*{why}"):
            sl.autotune(plus_one(), inputs=[given], database=tmp_path / "db")


def test_a_size_that_overflows(tmp_path: Path) -> None:
    n = sl.var("n")
    B = sl.compute((n,), lambda i: i + 1, name="B")
    for size in (2**62, 10**20):
        with pytest.raises(
            TuningError, match=f"'n': {size}.*: offsets would overflow 64-bit integers"
        ):
            sl.autotune(B, sizes={"n": size}, database=tmp_path / "db")


def test_a_gather_without_data_raises_a_tuning_error(tmp_path: Path) -> None:
    """Random data are not valid indices, so the user must give data."""
    A, where = sl.placeholder((8,), name="A"), sl.placeholder((64,), name="where", dtype="int32")
    G = sl.compute((64,), lambda i: A[where[i] + 100], name="G")
    with pytest.raises(TuningError, match="inputs= gives the data to run on") as error:
        sl.autotune(G, trials=1, target="python", database=tmp_path / "db")
    assert type(error.value) is TuningError


def test_trials_of_a_database_print_as_text(tmp_path: Path) -> None:
    B = plus_one()
    database = Database(tmp_path / "db.jsonl")
    trial = Trial(0, "ok", sl.schedule(B).to_json(), seconds=5.4e-5)
    database.add(Where.here([B], sl.Target(), {}), "B\x1b[31m", trial, [B])
    lines = str(sl.best(B, database=database)).splitlines()
    assert lines[0].startswith("B\\x1b[31m: 54 µs on ")
    assert lines[0].endswith(f"(line 1 of {tmp_path / 'db.jsonl'})")
    assert lines[1:] == [
        "  its schedule is .schedule; print(best.schedule.as_python()) shows it as code"
    ]


def test_the_message_for_invalid_json() -> None:
    with pytest.raises(ValueError, match=r"Invalid control character at character 6\)"):
        from_line(b'{"a":"\n"}')


def test_a_time_with_a_wide_spread_is_explained() -> None:
    calm = Evaluation(45.8e-6, 0.04, 41.6e-6, 9)
    assert str(calm) == "45.8 µs ± 2.0% (fastest 41.6 µs)"
    wild = Evaluation(45.8e-6, 173.5, 41.6e-6, 9)
    assert str(wild) == "45.8 µs (fastest 41.6 µs); the samples vary by more than the median"
    assert wild.spread == 173.5
