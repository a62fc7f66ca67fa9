"""``compiler=`` of all that compiles kernels, and the compiler that a record of a time names."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.at_once.known import fastest
from schedlang.autotune.database import Database
from schedlang.autotune.model.problems import problem_of
from schedlang.autotune.record import Trial, Where
from schedlang.autotune.records.entry import from_line, to_line
from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.task import Task, task_from_data
from schedlang.errors import BuildError, CallTypeError, DatabaseWarning
from schedlang.runtime.llvm_runner import ByLlvm
from schedlang.runtime.runners import ByNumba

CPU = sl.Target("cpu")


def doubled(name: str = "B") -> sl.Tensor:
    A = sl.placeholder((16,), name="A")
    return sl.compute((16,), lambda i: A[i] * 2, name=name)


def split(B: sl.Tensor, factor: int = 8) -> sl.Schedule:
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=factor)
    return s


ASKED: dict[str, Callable[[str, str], Any]] = {
    "build": lambda target, compiler: sl.build(split(doubled()), target=target, compiler=compiler),
    "jit": lambda target, compiler: sl.jit(lambda x: x * 2, target=target, compiler=compiler),
    "jit above a def": lambda target, compiler: sl.jit(target=target, compiler=compiler)(len),
    "network": lambda target, compiler: sl.network(doubled(), target=target, compiler=compiler),
    "autotune": lambda target, compiler: sl.autotune(doubled(), target, compiler=compiler),
    "best": lambda target, compiler: sl.best(doubled(), target, compiler=compiler),
    "apply_best": lambda target, compiler: sl.apply_best(
        None, target, compiler=compiler
    ).__enter__(),
    "evaluate": lambda target, compiler: sl.evaluate(
        sl.build(split(doubled()), target=target), np.ones(16, "float32"), compiler=compiler
    ),
}


@pytest.mark.parametrize("call", ASKED.values(), ids=ASKED)
def test_a_compiler_that_the_target_lacks_is_refused_in_one_sentence(
    call: Callable[[str, str], Any],
) -> None:
    known = 'this target has no such compiler\n  Give compiler="llvm" or compiler="numba"'
    with pytest.raises(BuildError, match=f"compiler='gcc' for target='cpu': {known}"):
        call("cpu", "gcc")
    with pytest.raises(BuildError, match="compiler='llvm' for target='python'.*\n.*Leave out"):
        call("python", "llvm")


def test_a_traced_function_runs_by_its_compiler() -> None:
    x = np.arange(6, dtype="float32")
    for compiler, runner in (("numba", ByNumba), ("llvm", ByLlvm), ("", ByLlvm)):
        traced = sl.jit(lambda x: x * 2 + 1, compiler=compiler)
        (kernel,) = traced.specialized(x).program.kernels
        assert isinstance(kernel._runner, runner)
    np.testing.assert_array_equal(sl.jit(lambda x: x * 2 + 1, compiler="numba")(x), x * 2 + 1)


def test_evaluate_times_a_kernel_by_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones(16, "float32")
    f = sl.build(split(doubled()))
    by_numba = f.compiled_by("numba")
    assert isinstance(by_numba._runner, ByNumba) and isinstance(f._runner, ByLlvm)
    assert by_numba.path == f.path and by_numba.schedule is f.schedule
    np.testing.assert_array_equal(by_numba(a), 2 * a)
    called: list[str] = []
    monkeypatch.setattr(ByNumba, "function_of", lambda *_: called.append("numba"))
    with pytest.raises(TypeError):
        sl.evaluate(f, a, repeat=1, min_time=0.0, compiler="numba")
    assert called == ["numba"] and isinstance(f._runner, ByLlvm)
    with pytest.raises(CallTypeError, match="Give compiler= where it is made, to sl.jit or"):
        sl.evaluate(sl.jit(lambda x: x * 2), a, compiler="numba")


def test_candidates_are_compiled_by_the_compiler_of_the_search(tmp_path: Path) -> None:
    B = doubled()
    task = Task((B,), CPU, {}, compiler="numba")
    sent = task_from_data(json.loads(json.dumps(task.data)))
    assert sent.compiler == "numba"
    runner = CandidateRunner(sent, tmp_path)
    runner.build(0, split(B).to_json())
    assert isinstance(runner.kernels[0]._runner, ByNumba)


def record(
    database: Database, B: sl.Tensor, compiler: str, seconds: float, factor: int = 8
) -> None:
    where = Where.here([B], CPU, {}, compiler=compiler)
    database.add(where, "B", Trial(0, "ok", split(B, factor).to_json(), seconds=seconds), [B])


def test_a_record_of_another_compiler_serves_but_its_time_does_not(tmp_path: Path) -> None:
    B, database = doubled(), Database(tmp_path / "tuning.jsonl")
    record(database, B, "numba", 1e-6)
    with pytest.warns(DatabaseWarning, match="was tuned with compiler numba, not llvm"):
        known = sl.best(B, database=database)
    assert not known.exact and len(known.schedule.steps) == 1
    assert database.trials(Where.here([B], CPU, {})) == []
    # a longer time of the compiler asked for comes first
    record(database, B, "llvm", 5e-6, factor=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sl.best(B, database=database).seconds == 5e-6
        assert sl.best(B, database=database, compiler="numba").seconds == 1e-6
        with sl.apply_best(database, compiler="numba") as applied:
            sl.schedule(B)
    assert [known.seconds for known in applied.used] == [1e-6]
    for compiler, seconds in (("", 5e-6), ("llvm", 5e-6), ("numba", 1e-6)):
        entry = fastest(problem_of([B], CPU, {}, compiler), [database])
        assert entry is not None and entry.seconds == seconds
    # a target that is measured as the CPU has no compilers of its own
    assert fastest(problem_of([B], sl.Target("c"), {}), [database]) is not None


def test_the_text_of_a_record_names_the_compiler(tmp_path: Path) -> None:
    B, database = doubled(), Database(tmp_path / "tuning.jsonl")
    record(database, B, "", 1e-6)
    line = database.path.read_bytes()
    data = json.loads(line)
    assert data["compiler"] == "llvm" and from_line(line).where.compiler == "llvm"
    # older lines name none: they are of the default compiler, and a line is checked
    del data["compiler"]
    old = from_line(json.dumps(data).encode())
    assert old.where.compiler == "llvm" and to_line(old) == line
    for target, compiler in (("python", ""), ("cuda sm_90", ""), ("mine, 16", "")):
        old = from_line(json.dumps({**data, "target": target}).encode())
        assert old.where.compiler == compiler
    with pytest.raises(ValueError, match="its 'compiler' is not text"):
        from_line(json.dumps({**data, "compiler": 3}).encode())


def test_a_network_prefers_records_of_its_compiler(tmp_path: Path) -> None:
    B, database = doubled(), Database(tmp_path / "tuning.jsonl")
    record(database, B, "llvm", 1e-6, factor=8)
    record(database, B, "numba", 2e-6, factor=4)
    for compiler, factor in (("", 8), ("llvm", 8), ("numba", 4)):
        net = sl.network(B, database=database, compiler=compiler)
        (kernel,) = net.kernels
        assert kernel.schedule.steps[0].args["factor"] == factor


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["numba", "llvm"])
def test_a_search_by_a_compiler(compiler: str, tmp_path: Path) -> None:
    B = doubled()
    result = sl.autotune(
        B, trials=1, database=tmp_path / "tuning.jsonl", compiler=compiler, progress=False
    )
    runner = {"numba": ByNumba, "llvm": ByLlvm}[compiler]
    assert isinstance(result.kernel._runner, runner)
    (entry, *_) = Database(tmp_path / "tuning.jsonl").entries()
    assert entry.where.compiler == result.facts.where.compiler == compiler
