"""Tests of the scores and rows of ``python -m benchmarks.autotune``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any

import pytest

import schedlang as sl
from benchmarks import autotune, progress, scores
from benchmarks.computations import computation
from benchmarks.cpu import Run
from benchmarks.harness import Case, Row, Unavailable
from benchmarks.peers import ceiling, metaschedule
from benchmarks.peers.tuned import steps_file
from benchmarks.works import Work, convolution
from benchmarks.works.families import FAMILIES
from schedlang.autotune import Database
from schedlang.autotune.record import UNTUNED, Trial, Where
from schedlang.errors import DatabaseWarning, TuningError
from schedlang.runtime import ceilings
from schedlang.runtime.ceilings import Probe


def row(work: str, implementation: str, seconds: float, **facts: Any) -> Row:
    return Row(Case(work, implementation, lambda: lambda: None, facts=facts), seconds, 0.0, True)


def test_a_product_whose_search_failed_counts() -> None:
    rows = [
        row("sgemm a", "NumPy", 0.9), row("sgemm a", "tuned, seed 0", 1.0, searched_seconds=9.0),
        row("b", "NumPy", 0.9), row("c", "tuned, seed 0", 1.0),
    ]  # fmt: skip
    assert scores.products(["sgemm a", "b", "c"], 1)(rows).splitlines() == [
        "sgemm a: 0.90 of OpenBLAS (median of 1 seeds; searches took 9 s at most)",
        "b: no result  BELOW", "c: nothing to compare with  BELOW",
        "1 of 3 works reach their goal",
    ]  # fmt: skip


def test_a_family_whose_search_failed_counts() -> None:
    peers = ("Halide Mullapudi2016", "Halide Adams2019", "numba loops")
    rows = [row(work, peer, 4.0) for work in "ab" for peer in peers]
    rows += [row("a", "ceiling", 0.5), row("a", "tuned, seed 0", 1.0)]
    assert scores.families(["a", "b"])(rows).splitlines() == [
        "a: 4.00 of the better Halide scheduler, 4.00 of numba's loops, 0.50 of the ceiling",
        "b: no result  BELOW", "1 of 2 works reach their goal",
    ]  # fmt: skip


def test_a_family_must_beat_schedulers_and_loops_or_reach_the_ceiling() -> None:
    def stands(mullapudi: float, adams: float, loops: float, ceiling: float) -> scores.Standing:
        peers = dict(zip((*scores.SCHEDULERS, "numba loops"), (mullapudi, adams, loops)))
        rows = [row("a", name, value) for name, value in (peers | {"ceiling": ceiling}).items()]
        return scores.standing([*rows, row("a", "tuned, seed 0", 1.0)], "a")

    assert stands(1.1, 2.0, 3.0, 0.1).reached and stands(2.0, 1.1, 1.0, 0.8).reached
    for near in ((1.0, 2.0, 3.0, 0.8), (2.0, 1.0, 3.0, 0.8), (1.1, 2.0, 2.9, 0.79)):
        assert not stands(*near).reached
        assert str(stands(*near)).endswith("  BELOW")


def test_the_picture_of_the_families(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("a", name, 2.0) for name in scores.SCHEDULERS]
    scores.plot(
        [*rows, row("a", "tuned, seed 0", 1.0), row("b", "ceiling", 1.0)], tmp_path / "p.png"
    )
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_a_ceiling_is_the_time_of_equal_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(Probe):
        def rate(self) -> float:
            return self.amount

        def faster(self) -> Callable[[], None]:
            return self.alone

    probes = [Fixed(lambda: None, lambda: None, amount) for amount in (4e6, 2e6, 8e6)]
    monkeypatch.setattr(ceiling, "multiply_adds", lambda dtype: probes[0])
    monkeypatch.setattr(ceiling, "copies", lambda: probes[1:])
    product, softmax = (
        next(w for w in FAMILIES if w.name.startswith(name)) for name in ("GMM 128", "SFM 1024")
    )
    # a multiply-add is two operations; 4 MiB are read and 4 MiB written
    for work, probe, part in (
        (product, probes[0], 2 * 128**3 / 4e6), (softmax, probes[2], 8 * 1024**2 / 8e6),
    ):  # fmt: skip
        call, facts = ceiling.prepare(ceiling.CEILING, work, {}, {})
        assert call is probe.alone and facts["part"] == pytest.approx(part)


def test_threads_that_share_a_core_at_first_are_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alone() -> None: ...
    def together() -> None: ...

    for team, faster in (((2.0, 0.5, 0.5), together), ((2.0, 2.0, 2.0), alone)):
        taken = {alone: iter((1.0, 1.0, 1.0)), together: iter(team)}
        monkeypatch.setattr(ceilings, "_best", lambda call, taken=taken: next(taken[call]))
        assert Probe(alone, together, 1.0).faster() is faster


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        autotune.arguments(["--help"])
    printed = capsys.readouterr().out
    for option in ("part", "trials", "seeds", "search", "timeout", "keep", "kept", "only", "json"):
        assert f"--{option} " in printed
    options, rest = autotune.arguments(["--trials", "3", "--rounds", "7"])
    assert options.trials == 3 and rest == ["--rounds", "7"]


def test_an_earlier_result_is_timed_without_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = next(w for w in FAMILIES if w.name.startswith("NRM 256"))
    output = computation(work)[-1]
    s = sl.schedule(output)
    database = Database(tmp_path / "kept.jsonl")
    database.add(Where.here([output], sl.Target(), {}), work.name, Trial(0, "ok", s.to_json(),
                 seconds=1e-6), [output])  # fmt: skip
    monkeypatch.setattr(autotune, "autotune", None)
    options, _ = autotune.arguments(["--part", "families", "--kept", str(database.path)])
    run = Run(tmp_path)
    monkeypatch.setattr(run, "case", lambda work, module, label, missing: Case(
        work.name, label, lambda: lambda: 2.0, whole=True))  # fmt: skip
    searches = autotune.Searches(run, options)
    case = next(c for c in searches.families() if (c.work, c.implementation[:5]) == (
        work.name, "tuned"))  # fmt: skip
    assert case.prepare()() == 2.0 and searches.asked == [work.name]
    written = steps_file(tmp_path / "kernels", work, case.implementation)
    assert written.read_text(encoding="utf-8") == s.to_json()
    case = next(c for c in searches.families() if c.implementation.startswith("tuned"))
    with pytest.raises(Unavailable, match="no schedule of .* it was not tuned"):
        case.prepare()


def test_a_kept_schedule_of_another_size_is_no_result(tmp_path: Path) -> None:
    small, large = (
        next(w for w in FAMILIES if w.name.startswith(name)) for name in ("NRM 256", "NRM 512")
    )
    output = computation(small)[-1]
    database = Database(tmp_path / "kept.jsonl")
    database.add(Where.here([output], sl.Target(), {}), small.name, Trial(0, "ok",
                 sl.schedule(output).to_json(), seconds=1e-6), [output])  # fmt: skip
    options, _ = autotune.arguments(["--part", "families", "--kept", str(database.path)])
    case = autotune.Searches(Run(tmp_path), options).kept(large)
    with pytest.warns(DatabaseWarning), pytest.raises(Unavailable, match="for extents 256, not"):
        case.prepare()


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        autotune.arguments(["--part", "progress", "--trails", "5"])
    assert "--part progress knows no --trails 5" in capsys.readouterr().err


def test_kept_schedules_are_of_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        autotune.arguments(["--kept", "kept.jsonl"])
    assert "--kept goes with --part families" in capsys.readouterr().err


def found(count: int, spent: float) -> Any:
    """Return a search of ``count`` trials and the untuned schedule; trial 1 won the race."""
    trials = [Trial(n, "ok", "", seconds=0.010 - n * 1e-3) for n in range(count)]
    trials[1] = Trial(1, "ok", "", seconds=0.001, raced=True, first=0.009)
    trials += [Trial(count, "ok", "", seconds=0.0001, strategy=UNTUNED)]
    return SimpleNamespace(trials=trials, facts=SimpleNamespace(spent=spent))


def test_rows_show_the_trials_and_how_many_searches_stopped_early(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "AFTER", (2, 4))
    results = [found(4, 8.0), found(3, 9.0)]
    work: Work = convolution.conv2d("small", 9, 3, 4, 3, 2, 1)
    rows = list(progress._rows(work, lambda work, seed, trials, search: results[seed], 4, 2))
    assert [r["implementation"] for r in rows[:3]] == [
        "random, 2 trials", "random, 4 trials", "random, a candidate",
    ]  # fmt: skip
    assert [r["stopped_earlier"] for r in rows[:3]] == [0, 1, 1]
    assert rows[0]["seconds"] == rows[0]["least"] == pytest.approx(0.009)
    assert rows[1]["least"] == pytest.approx(0.007) and rows[1]["most"] == pytest.approx(0.008)
    assert (rows[2]["least"], rows[2]["most"], rows[2]["seeds"]) == (2.0, 3.0, 2)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].endswith("ms (7.000 to 8.000, 2 seeds)  1 of them stopped earlier")


def test_metaschedule_gets_equal_trials_and_repeats(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int, int]] = []

    def search(*numbers: int) -> metaschedule.Found:
        asked.append(numbers)  # type: ignore[arg-type]
        return metaschedule.Found(6.0, 3, *((0, 0.002) if numbers[2] else (3, None)))

    monkeypatch.setattr(metaschedule, "search", search)
    best, spent = progress._others(convolution.conv2d("small", 9, 3, 4, 3, 2, 1), 4, 2)
    assert asked == [(progress.SIDE, 4, 0), (progress.SIDE, 4, 1)]
    assert (best["seconds"], best["seeds"], best["stopped_earlier"]) == (0.002, 1, 1)
    assert (spent["seconds"], spent["seeds"]) == (2.0, 2)
    assert "MetaSchedule: 3 of 6 candidates failed" in capsys.readouterr().out


def test_a_failed_search_does_not_end_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*numbers: int) -> metaschedule.Found:
        raise CalledProcessError(1, "python", stderr="Traceback\nValueError: no LLVM")

    def search(work: Work, seed: int, trials: int, search: str) -> Any:
        if not seed:
            raise TuningError("autotune(C): none of 4 candidates worked\n  4 times crashed")
        return found(4, 8.0)

    monkeypatch.setattr(progress, "AFTER", (4,))
    monkeypatch.setattr(metaschedule, "search", fails)
    work: Work = convolution.conv2d("small", 9, 3, 4, 3, 2, 1)
    rows = list(progress._rows(work, search, 4, 2))
    assert [r["seeds"] for r in rows] == [1, 1, 1, 1]
    assert list(progress._others(work, 4, 1)) == []
    printed = capsys.readouterr().out
    assert "random, seed 0: autotune(C): none of 4 candidates worked\n" in printed
    assert "MetaSchedule, seed 0: ValueError: no LLVM" in printed


def test_a_product_is_compared_with_openblas_only() -> None:
    rows = [row("sgemm 1024^3", autotune.MAIN, 0.8), row("sgemm 1024^3", "tuned, seed 0", 1.0)]
    said = scores.products(["sgemm 1024^3"], 1)(rows)
    assert "nothing to compare with  BELOW" in said and "0 of 1 works" in said
