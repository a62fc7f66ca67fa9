"""Tests of the commands ``python -m schedlang tune`` and ``best``."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.autotune.result import TuningResult
from schedlang.autotune.tuner import _name
from schedlang.target import KINDS
from tests.tuning import ROOT

SCRIPT = """
import neighbour
import numpy as np
import schedlang as sl

A = sl.placeholder((neighbour.SIZE, 64), name="A")
B = sl.compute((neighbour.SIZE, 64), lambda i, j: A[i, j] * 2 + 1, name="B")
both = [B]
number = 3
where = sl.placeholder((8,), name="where", dtype="int32")
G = sl.compute((8, 64), lambda i, j: A[where[i], j], name="G")
data = {
    "A": np.ones((neighbour.SIZE, 64), "float32"),
    "where": np.arange(8, dtype="int32") % neighbour.SIZE,
}


def few(rows):
    A = sl.placeholder((rows, 64), name="A")
    return sl.compute((rows, 64), lambda i, j: A[i, j] * 2 + 1, name="Few")


F = few(9)
length = sl.var("length")
S = sl.compute((length,), lambda i: i * 2, name="S")


def nobody():
    pass


def rows(s, knobs):
    i, j = s[B].op.axis
    _, factor = knobs.split("rows", i, most=8)
    s[B].parallel(s[B].split(i, factor=factor)[0])


if __name__ == "__main__":
    raise RuntimeError("the script is run as a script")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "neighbour.py").write_text("SIZE = 32\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


@pytest.mark.slow
def test_tune_then_best(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database, report, saved = (
        script.parent / n for n in ("db.jsonl", "page.html", "tuned_kernel.py")
    )
    given = ["--database", str(database)]
    more = ["--trials", "2", "--report", str(report), "--save", str(saved)]
    assert main(["tune", f"{script}:both", *given, *more]) == 0
    printed = capsys.readouterr().out
    assert re.search("[23] ok", printed) and "s = sl.schedule(B)" in printed and report.exists()
    assert "\n\n\n" not in printed and "result." not in printed
    assert "its schedule as code: see below\n" in printed and f"report:   {report}\n" in printed
    assert len(database.read_text().splitlines()) >= 2
    kernel = importlib.import_module(saved.stem)
    assert (kernel.B(np.ones((32, 64), "float32")) == 3).all()
    assert main(["best", f"{script}:B", *given]) == 0
    printed = capsys.readouterr().out
    assert "s = sl.schedule(B)" in printed and not printed.endswith("\n\n")


@pytest.mark.slow
def test_best_names_the_size_of_the_nearest_trial(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--database", str(script.parent / "db.jsonl"), "--target", "python"]
    assert main(["tune", f"{script}:B", "--trials", "1", *given]) == 0
    capsys.readouterr()
    assert main(["best", f"{script}:F", *given]) == 0
    printed, said = capsys.readouterr()
    first, second, *_ = printed.splitlines()
    note = "the schedule of Few is the nearest known one, and was tuned for extents 32, not 9"
    assert first.startswith("# ") and second.startswith(f"# the time is of another case: {note}")
    assert said.startswith(f"python -m schedlang best: {note}") and said.count("\n") == 1


@pytest.mark.slow
def test_a_template_of_the_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (script.parent / "neighbour.py").write_text("SIZE = 8\n")
    where = ["tune", f"{script}:B", "--trials", "1", "--seed", "4", "--target", "python"]
    assert main([*where, "--template", "rows", "--no-resume"]) == 0
    printed = capsys.readouterr().out
    assert "parallel" in printed and not printed.endswith("\n\n")
    assert "report:   --report FILE writes a page\n" in printed


@pytest.mark.slow
def test_a_gather_runs_on_data_of_the_script(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["tune", f"{script}:G", "--trials", "1", "--tolerance", "0", "--target", "python"]
    assert main([*where, "--inputs", "data"]) == 0
    assert "s = sl.schedule(G)" in capsys.readouterr().out
    assert main([*where, "--inputs", "nothing"]) != 0
    assert f"--inputs nothing: {script} has no such name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "nothing.py:C"], "there is no such file"),
        (["tune", "C"], "give a script and the name of a tensor in it"),
        (["tune", "SCRIPT:C"], "has no 'C' at its top level: its tensors are A, B"),
        (["tune", "SCRIPT:number"], "number in .* is an object of type int"),
        (["tune", "SCRIPT:B", "--size", "n"], "give a name and a number"),
        (["tune", "SCRIPT:B", "--template", "none"], "has no such function"),
        (["tune", "SCRIPT:B", "--trials", "0"], "tune: --trials 0: give an integer of 1 or more"),
        (["tune", "SCRIPT:B", "--template", "nobody"], "a template takes two parameters"),
        (["tune", "SCRIPT:B", "--size", "n=3"], "--size n=3: there is no .* size n; B has none"),
        (["best", "SCRIPT:B", "--size", "n=3"], "--size n=3: there is no .* size n; B has none"),
        (["tune", "SCRIPT:S", "--size", "m=3"], "--size m=3: .*; the sizes of S are length"),
        (["tune", "SCRIPT:S"], "tune: give values .* --size length=..."),
        (["tune", "SCRIPT:B", "--search", "luck"], 'give "random", "evolve"'),
        (["tune", "SCRIPT:B", "--target", "tpu"], "unknown target 'tpu'"),
        (["tune", "SCRIPT:B", "--save", "k.txt"], "give a name ending in .py"),
        (["tune", "SCRIPT:B", "--report", "FOLDER"], "this is a folder; give a file"),
        (["tune", "SCRIPT:B", "--report", "FOLDER/none/k.html"], "there is no folder"),
        (["best", "SCRIPT:B"], r"sl\.autotune"),
    ],
)
def test_mistakes_are_one_line(
    script: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(script.parent)
    given = [a.replace("SCRIPT", str(script)).replace("FOLDER", folder) for a in arguments]
    assert main(given) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"python -m schedlang {arguments[0]}: ")
    assert re.search(message, error), error


def test_a_mistake_in_the_script_has_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(
        "import schedlang as sl\n\nA = sl.placeholder((8,), name='A')\n"
        "B = sl.compute((8,), lambda i: A[i + 1], name='B')\n"
    )
    assert main(["tune", f"{path}:B"]) == 2
    assert capsys.readouterr().err.startswith("python -m schedlang tune: wrong.py:4: B reads A[")


@pytest.mark.slow
def test_a_failed_write_is_reported_after_all_else(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is saved even if the disk is too full for the report."""

    def full(self: TuningResult, path: str) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(TuningResult, "report", full)
    page, saved = script.parent / "page.html", script.parent / "found_kernel.py"
    more = ["--trials", "1", "--report", str(page), "--save", str(saved)]
    assert main(["tune", f"{script}:B", *more]) == 2
    assert "the report was not written: no space left" in capsys.readouterr().err
    assert saved.exists()


NAMED = """
import sys
import schedlang as sl

A = sl.placeholder((16, 16), name="A")
B = sl.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")


def rows(s, knobs):
    s[B].split(s[B].op.axis[0], factor=knobs.choice("rows", [2, 4, 8]))


if __name__ == "__main__":
    sl.autotune(B, trials=2, target="python", template=rows, database=sys.argv[1], progress=False)
"""


@pytest.mark.slow
def test_a_template_has_one_name_however_its_script_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials count for all runs: as a script, by the command, and imported."""
    path, database = tmp_path / "named.py", tmp_path / "db.jsonl"
    path.write_text(NAMED)
    ran = [sys.executable, str(path), str(database)]
    subprocess.run(ran, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    first = database.read_text().splitlines()
    assert {json.loads(line)["trial"]["template"] for line in first} == {"named.rows"}
    monkeypatch.syspath_prepend(str(tmp_path))
    module = [sys.executable, "-m", "named", str(tmp_path / "other.jsonl")]
    subprocess.run(module, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    other = (tmp_path / "other.jsonl").read_text().splitlines()
    assert {json.loads(line)["trial"]["template"] for line in other} == {"named.rows"}
    given = ["--target", "python", "--trials", "2", "--database", str(database)]
    assert main(["tune", f"{path}:B", "--template", "rows", *given]) == 0
    named = importlib.import_module("named")
    options = {"trials": 2, "target": "python", "database": database}
    again = sl.autotune(named.B, template=named.rows, **options)
    assert [t.resumed for t in again.trials] == [True, True]
    # each race adds lines for its finalists only
    lines = database.read_text().splitlines()
    assert {json.loads(line)["trial"]["source"] for line in lines} == {
        json.loads(line)["trial"]["source"] for line in first
    }


def test_a_template_of_a_module_run_by_m_has_its_import_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decorated(function: Any) -> Any:
        return wraps(function)(lambda s, knobs: function(s, knobs))

    class Base:
        def __call__(self, s: sl.Schedule, knobs: Any) -> None:
            """Apply no step."""

    def rows(s: sl.Schedule, knobs: Any) -> None:
        """Apply no step."""

    class Rows(Base):
        pass

    rows.__module__ = Rows.__module__ = "__main__"
    rows.__qualname__, Rows.__qualname__ = "rows", "Rows"
    for spec, package in ((SimpleNamespace(name="pack.named"), "pack."), (None, "")):
        main_module = SimpleNamespace(__spec__=spec, __file__="pack/named.py")
        monkeypatch.setitem(sys.modules, "__main__", main_module)  # type: ignore[arg-type]
        for template in (rows, decorated(rows)):
            assert _name(template) == f"{package}named.rows"
        assert _name(Rows()) == f"{package}named.Rows"


def test_help_lists_the_targets(capsys: pytest.CaptureFixture[str]) -> None:
    *others, last = KINDS
    for command in ("tune", "best"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        told = " ".join(capsys.readouterr().out.split())
        assert f"--target TARGET {', '.join(others)} or {last} (cpu)" in told
