"""Labs that are graded, and tables of the results of a class."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.__main__ import main
from schedlang.course.forms import open_form
from schedlang.course.grading.collect import collect
from schedlang.course.grading.record import read_result, write_result
from schedlang.course.grading.table import as_table
from schedlang.course.lessons import lessons, read, tags_of
from schedlang.errors import BuildError, CallError, CallTypeError, CheckError

N = 16
PYTHON = "python"
GOALS = {0.5: 10, 1.0: 20, 1000.0: 50}


def scaled() -> tuple[sl.Tensor, sl.Schedule]:
    A = sl.placeholder((N, N), name="A")
    T = sl.compute((N, N), lambda i, j: A[i, j] * 2, name="T")
    s = sl.schedule(T)
    s[T].reorder(*reversed(T.op.axis))
    return T, s


A = np.arange(N * N, dtype="float32").reshape(N, N)


def slow(a: Any) -> Any:
    """Double an array, several thousand times."""
    for _ in range(20_000):
        result = 2 * a
    return result


@cache
def graded() -> Any:
    """Return the result of a lab, of which tests change the author."""
    return lab(scaled()[1], author="Ada")


def lab(s: Any, expected: Any = lambda a: 2 * a, **options: Any) -> Any:
    settings = {"reference": slow, "goals": GOALS, "target": PYTHON, **options}
    return sl.testing.lab("scale", s, expected, A, **settings)


@pytest.mark.slow
def test_a_lab_is_graded_beside_a_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, s = scaled()
    result = lab(s, author="Ada L.", folder=tmp_path, counts=["loads", "L1"])
    assert result.correct and result.speedup > 1 and result.message == ""
    # the points of the best goal that the measured times reach
    reached = [points for goal, points in GOALS.items() if result.speedup >= goal]
    assert result.points == max(reached) and result.most_points == 50
    # the matrix has 16 lines of 64 bytes, and so has the result
    assert result.counts == {"loads": N * N, "L1": 32}
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("Correct: 256 loads; 32 L1 lines; ")
    assert printed[1].startswith(f"scale: {result.points:.0f} of 50 points; 50 from 1000 times")
    path = tmp_path / "Ada%20L%2E.scale.lab.json"
    assert read_result(path) == result
    assert "s[T].reorder" in result.code and "cores" in result.machine


def test_a_slower_kernel_has_fewer_points() -> None:
    _, s = scaled()
    # a kernel of Python is slower than one call of NumPy
    result = lab(s, reference=lambda a: 2 * a)
    assert result.correct and result.speedup < 0.5 and result.points == 0


def test_a_wrong_result_has_no_points_but_a_file(tmp_path: Path) -> None:
    _, s = scaled()
    with pytest.raises(CheckError, match="T.0, 1. is 2 and should be 3; 255 of 256"):
        lab(s, lambda a: 3 * a, author="Bob", folder=tmp_path)
    result = read_result(tmp_path / "Bob.scale.lab.json")
    assert not result.correct and result.points == 0 and result.speedup == 0
    assert result.message.startswith("T[0, 1] is 2 and should be 3")


def test_wrong_labs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    T, s = scaled()
    for answer in (..., sl.schedule(T)):
        assert lab(answer) is None
        assert capsys.readouterr().out.startswith("Not solved yet")
    for answer, options, text in (
        (s, {"goals": {}}, "give points by speedups"),
        (s, {"goals": {0: 10}}, "give points by speedups"),
        (s, {"folder": tmp_path}, "the result has no author"),
        (T, {}, "give a schedule or a kernel, not a Tensor"),
        (s, {"reference": 3}, "give a schedule, a kernel or a function"),
        (s, {"counts": ["lods"]}, "no such count"),
    ):
        with pytest.raises((CallError, CallTypeError), match=text):
            lab(answer, **options)
    assert not list(tmp_path.iterdir())
    block = sl.schedule(T)
    block[T].bind(T.op.axis[0], "blockIdx.x")
    with pytest.raises(CallError, match="emulates the GPU"):
        lab(block, target="cuda-emulator")


@pytest.mark.slow
def test_authors_of_similar_names_have_a_file_each(tmp_path: Path) -> None:
    result = graded()
    names = ["Ada Lovelace", "Ada-Lovelace", "Ada_Lovelace", "Ada.Lovelace", "Ada  Lovelace", "Á"]
    paths = [write_result(replace(result, author=name), tmp_path) for name in names]
    assert {read_result(path).author for path in paths} == set(names)
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_a_write_that_fails_leaves_the_last_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = graded()
    path = write_result(result, tmp_path)

    def full(self: Path, text: str, *_: Any) -> int:
        with self.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(CallError, match="No space left"):
        write_result(replace(result, points=0.0), tmp_path)
    assert read_result(path) == result and list(tmp_path.iterdir()) == [path]


def notebook(*outputs: list[dict[str, Any]]) -> str:
    """Return a notebook of exercises whose cells have these outputs."""
    cells: list[dict[str, Any]] = []
    for n, of_cell in enumerate(outputs, 1):
        cells.append({"cell_type": "markdown", "source": [f"### Exercise {n}: one"]})
        cells.append(
            {"cell_type": "code", "source": ["x"], "outputs": of_cell,
             "metadata": {"tags": ["exercise"]}}
        )  # fmt: skip
    return json.dumps({"cells": cells})


def printed(*lines: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": [f"{line}\n" for line in lines]}


RAISED = {"output_type": "error", "ename": "CheckError", "evalue": "=C has 3 loads\n  Why"}


@pytest.fixture
def of_a_class(tmp_path: Path) -> Path:
    for student, outputs in (
        ("ada", ([printed("Correct.")], [printed("Correct: all")])),
        ("bob", ([printed("text", "Not solved yet: write")], [RAISED])),
        ("cyd", ([], [printed("Correct.")])),
    ):
        (tmp_path / student / ".ipynb_checkpoints").mkdir(parents=True)
        (tmp_path / student / "1_own.ipynb").write_text(notebook(*outputs))
        (tmp_path / student / ".ipynb_checkpoints" / "1_own.ipynb").write_text("{")
    (tmp_path / "bob" / "notes.ipynb").write_text(json.dumps({"cells": []}))
    (tmp_path / "labs").mkdir()
    write_result(replace(graded(), author="bob"), tmp_path / "labs")
    return tmp_path


def test_the_results_of_a_class(of_a_class: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = of_a_class / "all.csv"
    assert main(["results", str(of_a_class), "--csv", str(table)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["student", "1_own", "scale"]
    # the points of labs come first, then solved exercises
    assert [line.split()[0] for line in out[1:4]] == ["bob", "ada", "cyd"]
    assert out[1].split()[1:4] == ["0", "of", "2"] and "times as fast)" in out[1]
    assert out[2].split()[1:] == ["2", "of", "2", "-"] and out[-1] == f"7 results in {table}"
    rows = list(csv.DictReader(StringIO(table.read_text())))
    assert [(r["student"], r["exercise"], r["state"]) for r in rows] == [
        ("ada", "1", "right"), ("ada", "2", "right"), ("bob", "1", "open"), ("bob", "2", "wrong"),
        ("bob", "", "right"), ("cyd", "1", "not run"), ("cyd", "2", "right"),
    ]  # fmt: skip
    # no program for tables takes a message for a formula
    assert rows[3]["message"] == "'=C has 3 loads" and rows[4]["loads"] == str(N * N)
    assert float(rows[4]["speedup"]) > 1 and rows[0]["speedup"] == ""


def test_notebooks_are_run_again_where_asked(of_a_class: Path) -> None:
    def run(notebook: Any, folder: Path) -> Any:
        assert not list(folder.iterdir())
        cells = [
            {**c, "outputs": [printed("Correct.")]} if c["cell_type"] == "code" else c
            for c in notebook["cells"]
        ]
        return {**notebook, "cells": cells}

    results = [r for r in collect(of_a_class, run) if r.lab is None]
    assert [r.state for r in results] == ["right"] * 6
    assert "2 of 2" in as_table(results).splitlines()[1]


def test_the_exercises_of_a_lesson_are_counted_whatever_a_notebook_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exercise that was removed counts, and one whose check was removed is not right."""
    lesson = open_form(read(lessons()["1_say_what"]))
    exercises = [cell for cell in lesson["cells"] if "exercise" in tags_of(cell)]
    for cell in exercises:
        cell["outputs"] = [printed("Correct.")]
    first, second, third, fourth = exercises
    first["source"] = ["# my answer\n", *(line.replace("...", "1") for line in first["source"])]
    second["source"] = ["print('Correct.')"]
    third["outputs"] = [printed("Not solved yet: write")]
    # a copy of an exercise is not one more
    cells = [one for cell in lesson["cells"] for one in ([cell, cell] if cell is first else [cell])]
    cells.remove(fourth)
    path = tmp_path / "ada" / "1_say_what.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps({**lesson, "cells": cells}))
    states = [(r.exercise, r.state) for r in collect(tmp_path, None)]
    assert states == [("1", "right"), ("2", "changed"), ("3", "open"), ("4", "missing")]
    assert main(["results", str(tmp_path)]) == 0
    _, ada, _, said = capsys.readouterr().out.splitlines()
    assert ada.split() == ["ada", "1", "of", "4"] and "as their notebooks were saved" in said


@pytest.mark.slow
def test_a_notebook_with_wrong_answers_runs_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(library)
    main(["course", str(tmp_path / "ada"), "--lesson", "1"])
    path = tmp_path / "ada" / "1_say_what.ipynb"
    path.write_text(path.read_text().replace("flops = ...", "flops = 98 * 98 * 17"))
    assert main(["results", str(tmp_path), "--run"]) == 0
    assert "0 of 4" in capsys.readouterr().out
    assert main(["results", str(tmp_path), "--run", "--csv", str(tmp_path / "x.csv")]) == 0
    states = [r["state"] for r in csv.DictReader(StringIO((tmp_path / "x.csv").read_text()))]
    assert states == ["open", "open", "open", "wrong"]


def test_folders_without_results_are_one_sentence(tmp_path: Path) -> None:
    for folder, text in ((tmp_path, "neither notebooks"), (tmp_path / "no", "no such folder")):
        with pytest.raises(BuildError, match=text):
            collect(folder, None)
    (tmp_path / "x.lab.json").write_text('{"lab": 3}')
    with pytest.raises(CallError, match="it holds no result of a lab"):
        collect(tmp_path, None)
    (tmp_path / "x.lab.json").unlink()
    (tmp_path / "x.ipynb").write_text("[")
    with pytest.raises(BuildError, match="is not a notebook"):
        collect(tmp_path, None)


@pytest.mark.parametrize(
    "change",
    [{"points": "100"}, {"points": float("nan")}, {"points": 1e9}, {"correct": "false"},
     {"author": 3}, {"author": "eve 0\nzoe 100 of 100"}, {"lab": "\x1b[31mred"}, {"lab": [1]},
     {"counts": [["a", 1]]}, {"counts": {"a": "=1+1"}}, {"counts": {"a\nb": 1}},
     {"most_points": []}, {"seconds": -1.0}],
    ids=repr,
)  # fmt: skip
def test_a_file_written_by_hand_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    fields = {
        "lab": "transpose", "author": "ada", "correct": True, "points": 5.0, "most_points": 20.0,
        "message": "", "seconds": 1e-3, "reference_seconds": 2e-3, "counts": {"loads": 4},
        "machine": "a machine", "version": "0.1.0", "code": "",
    }  # fmt: skip
    path = tmp_path / "a.lab.json"
    path.write_text(json.dumps(fields), "utf-8")
    assert read_result(path).points == 5
    path.write_text(json.dumps({**fields, **change}), "utf-8")
    with pytest.raises(CallError, match="holds no result of a lab"):
        read_result(path)


def test_a_notebook_that_hangs_leaves_the_others(tmp_path: Path) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "Correct.\n"}
    tags = {"tags": ["exercise"]}
    cell = {"cell_type": "code", "metadata": tags, "source": [], "outputs": [output]}
    for student in ("ada", "bob"):
        (tmp_path / student).mkdir()
        (tmp_path / student / "1_own.ipynb").write_text(json.dumps({"cells": [cell]}))
    hidden = tmp_path / "bob" / ".ipynb_checkpoints"
    hidden.mkdir()
    (hidden / "x.lab.json").write_text("[")

    def run(notebook: Any, folder: Path) -> Any:
        runs.append(folder)
        if len(runs) == 1:
            raise BuildError("a cell took more than 300 s")
        return notebook

    runs: list[Path] = []
    states = {r.student: r.state for r in collect(tmp_path, run)}
    assert states == {"ada": "failed", "bob": "right"}
