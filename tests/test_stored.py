"""Files of earlier versions load, and compute what they computed (``tests/stored.py``)."""

from __future__ import annotations

import importlib.util
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.database import Database
from tests.stored import DEPTH, FOLDER, layers, matrices, product, scheduled, where

VERSIONS = sorted(FOLDER.iterdir())


@pytest.fixture(params=VERSIONS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def check(kernel: Any) -> None:
    a, b = matrices()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5, atol=1e-6)


def test_there_are_files() -> None:
    assert VERSIONS


def test_a_schedule_as_json(folder: Path) -> None:
    s = sl.Schedule.from_json((folder / "schedule.json").read_text("utf-8"), product())
    assert str(s) == str(scheduled())
    check(sl.build(s, target="python"))


def test_a_schedule_as_python(folder: Path) -> None:
    C = product()
    names: dict[str, Any] = {"sl": sl, "C": C, **{t.name: t for t in C.op.input_tensors}}
    exec((folder / "schedule.py").read_text("utf-8"), names)
    assert str(names["s"]) == str(scheduled())


def test_a_pickled_schedule(folder: Path) -> None:
    s = pickle.loads((folder / "schedule.pickle").read_bytes())
    assert str(s) == str(scheduled())
    check(sl.build(s, target="python"))


@pytest.mark.slow
def test_a_saved_kernel(folder: Path, tmp_path: Path) -> None:
    path = shutil.copy(folder / "kernel.py", tmp_path)
    spec = importlib.util.spec_from_file_location("stored_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(module.C)


def test_records_of_trials(folder: Path, tmp_path: Path) -> None:
    database, C = Database(shutil.copy(folder / "trials.jsonl", tmp_path)), product()
    assert [t.outcome for t in database.trials(where([C]))] == ["ok", "wrong answer"]
    assert not database.problems
    best = database.best(where([C]), [C])
    assert best is not None and best.seconds == 2e-6
    check(sl.build(sl.Schedule.from_json(best.trial.steps, C), target="python"))


def test_a_saved_network(folder: Path, tmp_path: Path) -> None:
    saved = shutil.copytree(folder / "net", tmp_path / "net")
    net = sl.load(saved, target="python")
    x = np.random.default_rng(2).standard_normal((3, DEPTH)).astype("float32")
    _, params = layers()
    w, v = params.values()
    np.testing.assert_allclose(net(x), np.maximum(x @ w.T, 0) @ v.T, rtol=1e-4, atol=1e-5)
