"""NPBench's programs under ``sl.jit`` at small sizes, compared with NumPy, and their benchmark."""

from __future__ import annotations

import json

import numpy as np
import pytest

import schedlang as sl
from benchmarks import npbench, npbench_gradients
from benchmarks.computations.npbench import programs
from benchmarks.computations.npbench_losses import loss_of
from benchmarks.computations.npbench_suite import Suite
from benchmarks.harness import Case, Row, measure
from benchmarks.npbench import agrees, arguments, results, suite_cases, summary, with_numba
from benchmarks.npbench_gradients import cases as gradient_cases
from benchmarks.npbench_gradients import summary as gradient_summary
from tests.marks import slow_but

PROGRAMS = {p.name: p for p in programs(quick=True)}
# nbody takes 20 s, the others a second each
LONG = ("nbody", "k3mm", "heat_3d", "hdiff", "mvt", "gemver")


@pytest.mark.parametrize("name", slow_but([n for n in PROGRAMS if n not in LONG], PROGRAMS))
def test_program(name):
    program = PROGRAMS[name]
    given = program.inputs(np.random.default_rng(1))
    theirs = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
    expected = program.function(*theirs)
    ours = [np.copy(a) if isinstance(a, np.ndarray) else a for a in given]
    found = sl.jit(program.jitted or program.function, target="python")(*ours)
    for a, b in zip(_tuple(found) + _arrays(ours), _tuple(expected) + _arrays(theirs)):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-4)
    assert len(program.changed) <= 3


def _tuple(value):
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _arrays(values):
    return tuple(v for v in values if isinstance(v, np.ndarray))


INFO = {
    "module_name": "scaled", "relative_path": "own/scaled", "func_name": "scaled",
    "parameters": {"S": {"N": 5}}, "input_args": ["x", "N"],
    "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["x"]},
}  # fmt: skip


@pytest.fixture
def clone(tmp_path):
    """Return a folder like a clone of NPBench, with a program that writes and calls a helper."""
    modules = tmp_path / "npbench" / "benchmarks" / "own" / "scaled"
    modules.mkdir(parents=True)
    (tmp_path / "bench_info").mkdir()
    (tmp_path / "bench_info" / "own.json").write_text(json.dumps({"benchmark": INFO}))
    (modules / "scaled.py").write_text(
        "import numpy as np\ndef initialize(N):\n    return np.random.rand(N)\n"
    )
    (modules / "scaled_numpy.py").write_text(
        "def twice(x):\n    return 2 * x\ndef scaled(x, N):\n    x += N\n    return twice(x)\n"
    )
    return tmp_path


def test_a_clone_of_npbench(clone):
    (program,) = Suite(clone, "S").programs()
    x, n = arguments(program)
    assert program.name == "own" and x.shape == (5,) and n == 5
    # a program writes into its arguments, so each call has new ones
    returned, written = results(program.function, program)
    np.testing.assert_array_equal(written, x + 5)
    np.testing.assert_array_equal(returned, 2 * (x + 5))
    np.testing.assert_array_equal(arguments(program)[0], x)
    assert agrees(sl.jit(program.function, target="python"), program)
    assert not agrees(lambda x, n: x, program)
    assert agrees(with_numba(program), program)


def test_cases_and_summary_of_a_clone(clone):
    cases = [c for c in suite_cases(Suite(clone, "S")) if c.implementation in ("NumPy", "sl.jit")]
    rows = list(measure(cases, rounds=1))
    assert [row.correct for row in rows] == [True, True]
    lines = summary(rows).splitlines()
    assert lines[0] == "1 of 1 programs run under sl.jit" and "sl.jit over NumPy" in lines[1]
    assert rows[1].case.facts["first_call_seconds"] > 0


def test_a_program_that_is_refused_is_a_row_without_a_time(clone):
    module = clone / "npbench" / "benchmarks" / "own" / "scaled" / "scaled_numpy.py"
    module.write_text("def scaled(x, N):\n    return x.nothing_of_numpy\n")
    cases = [c for c in suite_cases(Suite(clone, "S")) if c.implementation == "sl.jit"]
    (case,) = measure(cases, rounds=1)
    assert case.missing.startswith("refused: ") and "nothing_of_numpy" in case.missing


def test_what_is_no_clone(tmp_path):
    with pytest.raises(ValueError, match="a clone of spcl/npbench has a folder bench_info"):
        Suite(tmp_path, "S")
    with pytest.raises(ValueError, match="--preset T: NPBench has S, M, L, paper"):
        Suite(tmp_path, "T")


@pytest.mark.parametrize("benchmark", [npbench, npbench_gradients])
def test_options_of_a_clone(benchmark, tmp_path, capsys):
    with pytest.raises(SystemExit, match="0"):
        benchmark.run_all(["--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in ("--suite CLONE", "--preset {S,M,", "--only PATTERN"))
    with pytest.raises(SystemExit, match="2"):
        benchmark.run_all(["--suite", str(tmp_path)])
    assert "a clone of spcl/npbench has a folder bench_info" in capsys.readouterr().err


def test_gradients_of_a_clone(clone):
    cases = [c for c in gradient_cases(Suite(clone, "S")) if c.implementation == "sl.gradient"]
    (row,) = measure(cases, rounds=1)
    assert row.correct and row.seconds > 0
    theirs = Row(Case("own", "JAX", lambda: lambda: None), 1.0, 0.0, True, 3 * row.least)
    lines = gradient_summary([theirs, row]).splitlines()
    assert lines[0] == "1 programs are differentiated"
    assert lines[1].startswith("1 of them beside JAX: 3.00 times its speed")


def test_what_a_loss_of_a_program_agrees_with(clone):
    module = clone / "npbench" / "benchmarks" / "own" / "scaled" / "scaled_numpy.py"
    module.write_text("def scaled(x, N):\n    x *= x\n    x += N\n")
    (program,) = Suite(clone, "S").programs()
    loss = loss_of(program, arguments(program))
    (x, n), (w,) = loss.arguments, loss.weights
    assert (loss.returned, loss.changed, loss.sources) == ((), (0,), (0,))
    value = ((x * x + n) * w).sum()
    assert loss.agrees(value, [2 * x * w])
    assert not loss.agrees(value, [2.001 * x * w]) and not loss.agrees(value + 1, [2 * x * w])
    np.testing.assert_array_equal(arguments(program)[0], x)
