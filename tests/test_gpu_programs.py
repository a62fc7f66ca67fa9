"""GPU schedules on the emulator and in lockstep, beside NumPy; their programs, to be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import schedlang as sl
from tests.conftest import Golden
from tests.fuzz.gpu import run_gpu_case
from tests.gpu_schedules import CASES, Scheduled, gemm, numbers, row_reduction, scaled, softmax


@pytest.mark.parametrize("name", CASES)
def test_emulator_and_lockstep_give_what_numpy_gives(name: str) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    kinds = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(f(*case.inputs), case.expected, **kinds)
    for order in ("forward", "reverse", "shuffle"):
        np.testing.assert_allclose(f.check(*case.inputs, order=order), case.expected, **kinds)


@pytest.mark.parametrize(
    "made",
    [
        lambda: gemm(64, 64, 64, vector=4),
        lambda: gemm(64, 64, 64, double=True),
        lambda: gemm(64, 64, 64, virtual=True),
        lambda: gemm(50, 47, 33),
        lambda: row_reduction(64, 256, 32, 4, factored=True),
        lambda: row_reduction(10, 20, 20, 2),
        lambda: row_reduction(7, 300, 128),
        lambda: softmax(20, 100, 64),
    ],
    ids=["vectors", "double_buffer", "vthread", "odd", "warp", "tree", "warps", "softmax"],
)
def test_program(made: Callable[[], Scheduled], golden: Golden) -> None:
    case = made()
    golden(sl.build(case.schedule, case.args, target="cuda-emulator").program)


def test_symbolic_sizes_are_guarded() -> None:
    n = sl.var("n")
    case = scaled(n)
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    for size in (0, 1, 255, 256, 257, 1000):
        a = numbers(size)
        np.testing.assert_array_equal(f(a), a * 2)
        np.testing.assert_array_equal(f.check(a), a * 2)


def test_several_kernels_run_in_order() -> None:
    A = sl.placeholder((100,), name="A")
    B = sl.compute((100,), lambda i: A[i] * 2, name="B")
    C = sl.compute((100,), lambda i: B[99 - i] + 1, name="C")
    s = sl.schedule(C)
    for T in (B, C):
        block, thread = s[T].split(T.op.axis[0], 32)
        s[T].bind(block, "blockIdx.x")
        s[T].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda-emulator")
    a = numbers(100)
    np.testing.assert_array_equal(f(a), (a * 2)[::-1] + 1)
    assert list(f.counters(a)) == ["B", "C"]


def test_one_reduction_stage_at_block_level_is_done_by_one_thread() -> None:
    """A shared stage without threads of its own: the first thread does it, the others wait."""
    A = sl.placeholder((8, 16), name="A")
    k = sl.reduce_axis(16, "k")
    B = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((8, 16), lambda i, j: A[i, j] - B[i], name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    s[C].bind(i, "blockIdx.x")
    s[C].bind(j, "threadIdx.x")
    s[B].compute_at(s[C], i)
    f = sl.build(s, [A, C], target="cuda-emulator")
    assert "if j == 0:   # one of threadIdx.x writes" in f.program
    a = numbers(8, 16)
    np.testing.assert_allclose(f(a), a - a.sum(1, keepdims=True))
    np.testing.assert_allclose(f.check(a), a - a.sum(1, keepdims=True))


@pytest.mark.parametrize("index", range(60))
def test_random_schedules(index: int) -> None:
    case = run_gpu_case("tests", index, compiled=index % 20 == 0)
    assert case.outcome != "failed", f"{case.snippet}\n{case.failure}"


def test_the_environment_sends_gpu_programs_to_the_emulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda")
    assert f.target.kind == "cuda-emulator"
    np.testing.assert_array_equal(f(*case.inputs), case.expected)
    monkeypatch.setenv("SCHEDLANG_CUDA", "gpu")
    with pytest.raises(sl.errors.BuildError, match='the only choice is "emulator"'):
        sl.build(case.schedule, case.args, target="cuda")
