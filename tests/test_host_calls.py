"""NumPy's sorts, solvers, transforms and the like, as stages and in traced functions."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.arrays.host.table import ROWS
from schedlang.arrays.host.unsized import UNSIZED
from schedlang.errors import CallError, ComputeError, ComputeTypeError
from tests.arrays import agree
from tests.host_calls import CASES, INTS, SQUARE, M, V
from tests.marks import slow_but

TRACED = [name for name in CASES if "axis=" not in name and "complex" not in name]
COMPILED = {"a filter", "sort under a mask"}


def leaves(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (tuple, list)) else [value]


def compared(name: str, target: str) -> None:
    function, arrays = CASES[name]
    theirs, ours = deepcopy(arrays), deepcopy(arrays)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = [*leaves(function(*theirs)), *theirs]
        found = [*leaves(sl.jit(function, target=target)(*ours)), *ours]
    assert len(found) == len(wanted)
    near = 1e-5 if any(a.dtype in ("float32", "complex64") for a in arrays) else 1e-9
    for a, b in zip(found, wanted):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


@pytest.fixture
def plain_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the loops of kernels as they are: the cost model takes half of the time."""
    scheduler = "schedlang.autotune.at_once.scheduler"
    monkeypatch.setattr(f"{scheduler}._schedule_by_model", lambda problem: (None, "not asked"))


@pytest.mark.parametrize("name", slow_but(TRACED, CASES))
def test_a_call_in_a_traced_function(name: str, plain_schedules: None) -> None:
    compared(name, "python")


@pytest.mark.parametrize("target", ["cpu", "c", "cuda-emulator"])
@pytest.mark.parametrize("name", slow_but(COMPILED, CASES))
def test_a_call_between_compiled_kernels(name: str, target: str) -> None:
    compared(name, target)


def test_each_function_of_the_tables_has_a_case() -> None:
    missing = {n for n in {**ROWS, **UNSIZED} if not any(n.rpartition(".")[2] in c for c in CASES)}
    assert not missing


def test_calls_are_stages_of_a_schedule() -> None:
    agree(lambda a: np.sort(a * 2) + 1, M)
    agree(lambda a: np.linalg.inv(a) @ a, SQUARE, target="cpu")
    agree(lambda a: np.fft.irfft(np.fft.rfft(a) * 2), V, target="cpu")
    agree(lambda a: np.fft.rfft(a) * 2, M.astype("float16"), rtol=1e-3, target="cpu")
    A = sl.placeholder((4, 6), name="A")
    s = sl.schedule(np.partition(A * 2, 1, axis=0) + 1)
    assert "partition = np.partition(multiply, kth=1, axis=0)" in str(s)


def test_symbolic_sizes_of_a_schedule() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, n), "float64", name="A")
    b = sl.placeholder((n,), "float64", name="b")
    f = sl.build(sl.schedule(np.sort(np.linalg.solve(A, b * 2))))
    wanted = np.sort(np.linalg.solve(SQUARE, SQUARE[0] * 2))
    np.testing.assert_allclose(f(A=SQUARE, b=SQUARE[0]), wanted)


def test_results_that_elements_decide_are_refused_by_sl_trace() -> None:
    for f in (np.unique, np.flatnonzero, lambda x: x[x > 0] + 1, np.bincount):
        with pytest.raises(ComputeError, match=r"depend on data(.|\n)*sl\.jit\(.* between its ker"):
            sl.trace(f if f.__name__ == "<lambda>" else lambda x, f=f: f(x), INTS)


def test_gradients_are_refused_by_name() -> None:
    X = sl.placeholder((6,), "float64", name="X")
    for f, name in ((np.sort, "np.sort"), (np.fft.rfft, "np.fft.rfft"), (np.cbrt, "np.cbrt")):
        loss = np.abs(f(X * 2)).sum()
        with pytest.raises(ComputeTypeError, match=rf"computed by {name}, into which .*\n.*rules="):
            sl.gradient(loss, [X])
    # what is a stage of its own has a gradient
    for f in (np.gradient, np.nanmean, np.cov, np.trapezoid):
        (slope,) = sl.gradient(sl.named("L", np.sum(f(X * X))), [X])
        x = np.arange(6.0) + 1
        steps = 1e-6 * np.eye(6)
        nudged = [np.sum(f((x + d) ** 2)) - np.sum(f((x - d) ** 2)) for d in steps]
        np.testing.assert_allclose(sl.reference(slope)(x), np.array(nudged) / 2e-6, rtol=1e-5)


def test_a_rule_gives_a_call_its_gradient() -> None:
    X = sl.placeholder((6,), "float64", name="X")
    doubled = sl.named("doubled", X * -2)
    order, y = np.argsort(doubled), np.sort(doubled)
    weights = np.arange(6, like=X)
    loss = sl.named("loss", (y * weights).sum() * 1.0)
    (slope,) = sl.gradient(loss, [X], rules={y: lambda by_y: {doubled: by_y[np.argsort(order)]}})
    x = np.array([3.0, 1, 2, 0, 5, 4])
    np.testing.assert_array_equal(sl.reference(slope)(x), -2 * np.argsort(np.argsort(-x)))


def test_the_calls_of_a_traced_function_are_told() -> None:
    def program(x):
        order = np.argsort(x * 2, axis=0, kind="stable")
        return x[order[:, 0]], np.linalg.inv(x[:4, :4] + np.eye(4, like=x))

    f = sl.jit(program, target="python")
    f(M)
    assert f.host_calls.splitlines() == [
        "order = np.argsort(multiply, axis=0, kind='stable')",
        "inv = np.linalg.inv(add)",
    ]
    assert f.specializations[0].host_calls == f.host_calls.splitlines() and len(f.kernels) == 2


def test_what_only_the_call_finds_out() -> None:
    with pytest.raises(CallError, match=r"np\.bincount on the host: .*\n.*larger minlength"):
        sl.jit(lambda x: np.bincount(x, minlength=3), target="python")(INTS)
    with pytest.raises(CallError, match=r"np\.linalg\.eigvals on the host: .*\n.*complex128"):
        sl.jit(lambda x: np.linalg.eigvals(x), target="python")(np.array([[0.0, 1], [-1, 0]]))
    # NumPy's own errors stay
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        sl.jit(lambda x: np.linalg.inv(x), target="python")(np.zeros((2, 2)))


def test_results_have_memory_of_their_own() -> None:
    f = sl.jit(lambda x: (np.sort(x), np.partition(x, 0)), target="python")
    x = np.array([2.0, 1.0])
    first, second = f(x)
    first[:] = 9
    assert x.tolist() == [2, 1] and second.tolist() == [1, 2]


def test_lengths_change_from_call_to_call() -> None:
    def program(x):
        chosen = x[x > 0.5]
        return np.sort(chosen) * 2, chosen.sum(), np.unique(x)

    for target in ("python", "cpu"):
        f = sl.jit(program, target=target)
        for seed in range(4):
            x = np.random.default_rng(seed).random(20) * (seed != 2)
            for a, b in zip(f(x), program(x)):
                np.testing.assert_allclose(a, b, rtol=1e-12)
        assert len(f.specializations) == 1


def test_loops_with_calls() -> None:
    def steps(x):
        return sl.fori_loop(0, 3, lambda k, c: np.sort(c)[::-1] * 2, x)

    f = sl.jit(steps, target="python")
    np.testing.assert_array_equal(f(V), steps(V))
    assert "its body calls np.sort" in f.loops


def test_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch")
    f = sl.jit(lambda x: np.unique(x) * 2, target="python")
    found = f(torch.tensor([3.0, 1.0, 3.0]))
    assert isinstance(found, torch.Tensor) and found.tolist() == [2, 6]
