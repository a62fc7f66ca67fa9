"""Tests of GPU schedules by the emulator and in lockstep, and golden texts of their programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import LoweringError
from schedlang.gpu_lowering.simt import ORDERS
from tests.conftest import Golden
from tests.fuzz.gpu import run_gpu_case
from tests.gpu_schedules import CASES, Scheduled, gemm, numbers, row_reduction, scaled, softmax
from tests.marks import slow_but

# each takes seconds to compile
EMULATED = ("scaled", "gemm of odd sizes", "sum by several warps")
# each takes seconds in lockstep
LONG = (
    "gemm", "gemm with double buffers", "gemm with double buffers, odd",
    "gemm with virtual threads, odd", "gemm in float64", "gemm of odd sizes",
    "gemm with virtual threads", "gemm with pipelines", "gemm with pipelines, odd",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_but([name for name in CASES if name not in LONG], CASES))
def test_lockstep_agrees_with_numpy(name: str) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    for order in ORDERS:
        found = f.check(*case.inputs, order=order)
        np.testing.assert_allclose(found, case.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", slow_but(EMULATED, CASES))
def test_the_emulator_agrees_with_numpy(name: str) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    np.testing.assert_allclose(f(*case.inputs), case.expected, rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize("rows", [8, 9])
@pytest.mark.parametrize("threads", slow_but(["32"], [16, 32, 64]))
def test_sums_across_threads_in_virtual_threads(rows: int, threads: int) -> None:
    A = sl.placeholder((rows, 64), name="A")
    k = sl.reduce_axis(64, "k")
    B = sl.compute((rows,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    block, virtual = s[B].split(B.op.axis[0], 2)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(virtual, "vthread")
    _, thread = s[B].split(k, threads)
    s[B].bind(thread, "threadIdx.x")
    same(sl.build(s, [A, B], target="cuda-emulator"), [numbers(rows, 64)], lambda a: a.sum(1))


def test_sums_across_threads_inside_sums_across_threads() -> None:
    A, W = sl.placeholder((8, 12), name="A"), sl.placeholder((12, 20), name="W")
    k, j = sl.reduce_axis(12, "k"), sl.reduce_axis(20, "j")
    B = sl.compute((20,), lambda j: sl.sum(A[0, k] * W[k, j], axis=k), name="B")
    C = sl.compute((8,), lambda i: sl.sum(B[j] * A[i, 0], axis=j), name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "blockIdx.x")
    outer, inner = s[C].split(j, 5)
    s[C].bind(inner, "threadIdx.x")
    s[B].compute_at(s[C], outer)
    _, inner = s[B].split(k, 5)
    s[B].bind(inner, "threadIdx.x")
    f = sl.build(s, [A, W, C], target="cuda-emulator")
    same(f, [numbers(8, 12), numbers(12, 20)], lambda a, w: (a[0] @ w).sum() * a[:, 0])


def test_a_virtual_thread_with_storage_under_a_guard() -> None:
    A = sl.placeholder((10,), name="A")
    B = sl.compute((10,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    L = s.cache_write(B, "local")
    block, virtual = s[B].split(B.op.axis[0], 4)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(virtual, "vthread")
    s[L].compute_at(s[B], virtual)
    same(sl.build(s, [A, B], target="cuda-emulator"), [numbers(10)], lambda a: a * 2)


def test_a_fetch_smaller_than_the_block_is_guarded() -> None:
    A, W = sl.placeholder((64,), name="A"), sl.placeholder((3,), name="W")
    k = sl.reduce_axis(3, "k")
    B = sl.compute((62,), lambda i: sl.sum(A[i + k] * W[k], axis=k), name="B")
    s = sl.schedule(B)
    S = s.cache_read(W, "shared", [B])
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[S].compute_at(s[B], block)
    _, x = s[S].split(S.op.axis[0], factor=32)
    s[S].bind(x, "threadIdx.x")
    f = sl.build(s, [A, W, B], target="cuda-emulator")
    same(f, [numbers(64), numbers(3)], lambda a, w: np.correlate(a, w, "valid"))


def test_a_condition_on_fetched_data_is_inside_the_guard_of_the_tail() -> None:
    A, L = sl.placeholder((6, 8), name="A"), sl.placeholder((6,), "int32", name="L")
    k = sl.reduce_axis(8, "k")
    B = sl.compute((6,), lambda i: sl.sum(A[i, k], axis=k, where=k < L[i]), name="B")
    s = sl.schedule(B)
    LS, AS = s.cache_read(L, "shared", [B]), s.cache_read(A, "shared", [B])
    block, thread = s[B].split(B.op.axis[0], 4)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[LS].compute_at(s[B], block)
    s[AS].compute_at(s[B], block)
    f = sl.build(s, [A, L, B], target="cuda-emulator")
    lengths = np.array([0, 1, 3, 8, 5, 2], "int32")
    same(f, [numbers(6, 8), lengths],
         lambda a, n: np.array([a[i, :count].sum() for i, count in enumerate(n)]))  # fmt: skip


@pytest.mark.parametrize("doubled", slow_but(["AB"], ["A", "B", "AB"]))
def test_either_of_two_tiles_may_be_double_buffered(doubled: str) -> None:
    case = gemm(32, 32, 32)
    for name in doubled:
        case.schedule[case.schedule.tensor(f"{name}.shared")].double_buffer()
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    same(f, case.inputs, lambda a, b: a @ b)


def same(f: Any, inputs: Any, oracle: Callable[..., np.ndarray]) -> None:
    wanted = oracle(*inputs)
    np.testing.assert_allclose(f(*inputs), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(f.check(*inputs), wanted, rtol=1e-5, atol=1e-6)


def test_a_grid_beyond_the_limits_is_refused_at_the_call() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.y")
    f = sl.build(s, [A, B], target="cuda-emulator")
    f(numbers(65535))
    with pytest.raises(sl.errors.CallError, match="blockIdx.y of B would have extent 65536; sm_90"):
        f(numbers(65536))


def test_one_thread_computes_a_reduction_at_block_level() -> None:
    """One thread computes a shared stage without threads of its own, and the others wait."""
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


def scaled_few(data: int, threads: int) -> Scheduled:
    """Return a scaled array with fewer elements than a block has threads."""
    return scaled(data, threads, data)


def sums_of_few(columns: int, threads: int) -> Scheduled:
    """Return sums of rows with fewer elements than threads."""
    return row_reduction(7, columns, threads)


def fetched_by_many() -> Scheduled:
    """Return a product in which 64 threads fetch an 8x8 tile and 5 of them compute a column."""
    A, B = sl.placeholder((16, 32), name="A"), sl.placeholder((32, 5), name="B")
    k = sl.reduce_axis(32, name="k")
    C = sl.compute((16, 5), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    tile, local = s.cache_read(A, "shared", [C]), s.cache_write(C, "local")
    i, j = C.op.axis
    block, row = s[C].split(i, 8)
    _, thread = s[C].split(j, 64)
    s[C].reorder(block, thread, row)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[local].compute_at(s[C], thread)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    s[tile].compute_at(s[local], outer)
    _, fetch = s[tile].split(s[tile].fuse(*s[tile].op.axis), 64)
    s[tile].bind(fetch, "threadIdx.x")
    a, b = numbers(16, 32), numbers(32, 5, seed=1)
    return Scheduled(s, [A, B, C], (a, b), a @ b)


@pytest.mark.parametrize(
    "case",
    [scaled_few(5, 32), scaled_few(33, 64), sums_of_few(5, 64),
     pytest.param(sums_of_few(33, 64), marks=pytest.mark.slow), fetched_by_many()],
)  # fmt: skip
def test_a_block_with_more_threads_than_elements(case: Scheduled) -> None:
    """Indices are simplified by the extent of the loop, not by that of its axis."""
    emulator = sl.build(case.schedule, case.args, target="cuda-emulator")
    source = sl.build(case.schedule, case.args, target="cuda")
    for found in (
        emulator(*case.inputs), emulator.check(*case.inputs), source.simulate(*case.inputs)
    ):  # fmt: skip
        np.testing.assert_allclose(found, case.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "index", slow_but([str(n) for n in range(0, 60, 4) if n != 16], range(60))
)
def test_random_schedules(index: int) -> None:
    case = run_gpu_case("tests", index, compiled=index % 20 == 0, simulated=index % 3 == 0)
    assert case.outcome != "failed", f"{case.snippet}\n{case.failure}"


def test_an_environment_variable_selects_the_emulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda")
    assert f.target.kind == "cuda-emulator"
    np.testing.assert_array_equal(f(*case.inputs), case.expected)
    monkeypatch.setenv("SCHEDLANG_CUDA", "gpu")
    with pytest.raises(sl.errors.BuildError, match='set it to "emulator"'):
        sl.build(case.schedule, case.args, target="cuda")


@pytest.mark.parametrize("choose", [False, True], ids=["elements", "elements and a thread"])
def test_a_store_predicate_on_a_sum_across_threads(choose: bool) -> None:
    """The predicate selects elements and leaves open which thread stores the sum."""
    A = sl.placeholder((4, 128), name="A")
    k = sl.reduce_axis(128, name="k")
    B = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    (i,) = B.op.axis
    tx = sl.thread_axis("threadIdx.x")
    _, inner = s[B].split(k, factor=32)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(inner, tx)
    s[B].set_store_predicate(sl.all(i < 2, tx.var.equal(0)) if choose else i < 2)
    a = numbers(4, 128)
    out = np.full(4, -7, "float32")
    f = sl.build(s, [A, B], target="cuda-emulator")
    f(a, out)
    np.testing.assert_allclose(out, [*a[:2].sum(1), -7, -7], rtol=1e-5)
    np.testing.assert_allclose(f.check(a)[:2], a[:2].sum(1), rtol=1e-5)


def test_a_store_predicate_that_mixes_elements_and_the_threads_of_a_sum() -> None:
    A = sl.placeholder((4, 128), name="A")
    k = sl.reduce_axis(128, name="k")
    B = sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    s[B].bind(k, "threadIdx.x")
    tx = sl.thread_axis("threadIdx.x")
    s[B].set_store_predicate(sl.any(B.op.axis[0] < 2, tx.var.equal(0)))
    with pytest.raises(LoweringError, match="so that only one stores, with i, which selects "
                                            "elements"):
        sl.build(s, [A, B], target="cuda-emulator")


def row_sums(n: Any, m: Any, name: str = "B") -> Any:
    A = sl.placeholder((n, m), name="A")
    k = sl.reduce_axis(m, name="k")
    return A, k, sl.compute((n,), lambda i: sl.sum(A[i, k], axis=k), name=name)


def test_a_block_of_one_thread_needs_no_barrier() -> None:
    A, k, B = row_sums(4, 128)
    s = sl.schedule(B)
    s[B].split(k, factor=32)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    f = sl.build(s, [A, B], target="cuda-emulator")
    a = numbers(4, 128)
    np.testing.assert_allclose(f.check(a), a.sum(1), rtol=1e-5)
    assert "barrier" not in f.program


def test_symbolic_loops_need_no_barrier_where_threads_access_distinct_elements() -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    B = sl.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    i, j = B.op.axis
    _, inner = s[B].split(j, factor=128)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(inner, "threadIdx.x")
    f = sl.build(s, [A, B], target="cuda-emulator")
    assert "barrier" not in f.program
    a = numbers(3, 300)
    np.testing.assert_allclose(f.check(a), a * 2)


def test_a_symbolic_loop_needs_one_barrier_before_its_reads() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, k, S = row_sums(n, m, "S")
    C = sl.compute((n, m), lambda i, j: A[i, j] / S[i], name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    _, inner = s[C].split(j, factor=64)
    s[C].bind(i, "blockIdx.x")
    s[C].bind(inner, "threadIdx.x")
    s[S].compute_at(s[C], i)
    s[S].set_scope("shared")
    s[S].bind(s[S].split(k, factor=64)[1], "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda-emulator")
    # one between the sums of the warps, and one before the loop that reads the result
    assert f.program.count("barrier\n") == f.program.count("\n  barrier\n") == 2
    a = numbers(5, 133) + 1
    np.testing.assert_allclose(f.check(a), a / a.sum(1, keepdims=True), rtol=1e-5)


def test_virtual_threads_have_their_own_rows_and_share_barriers() -> None:
    A, k, B = row_sums(6, 40)
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=3)
    s[B].bind(s[B].split(k, factor=20)[1], "threadIdx.x")
    s[B].bind(outer, "blockIdx.x")
    s[B].bind(inner, "vthread")
    f = sl.build(s, [A, B], target="cuda-emulator")
    assert f.program.count("barrier\n") == f.program.count("\n  barrier\n") == 4
    a = numbers(6, 40)
    np.testing.assert_allclose(f.check(a), a.sum(1), rtol=1e-5)


def doubled(n: Any, m: Any, **split: Any) -> Any:
    """Return sums of rows with double-buffered shared tiles of 16 rows."""
    A, k, C = row_sums(n, m, "C")
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    AS = s.cache_read(A, "shared", [CL])
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(outer, "blockIdx.x")
    s[C].bind(inner, "threadIdx.x")
    s[CL].compute_at(s[C], inner)
    (k,) = s[CL].op.reduce_axis
    s[AS].compute_at(s[CL], s[CL].split(k, **split)[0] if split else k)
    s[AS].bind(s[AS].split(s[AS].op.axis[0], factor=16)[1], "threadIdx.x")
    s[AS].double_buffer()
    return s, [A, C]


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_loop_without_iterations_fetches_no_first_tile(length: int) -> None:
    s, args = doubled(sl.var("n"), sl.var("m"))
    a = numbers(3, length)
    for target in ("cuda-emulator", "cuda"):
        f = sl.build(s, args, target=target)
        run = f.simulate if target == "cuda" else f.check
        np.testing.assert_allclose(run(a), a.sum(1), rtol=1e-6)


def test_the_tail_of_a_cut_loop_has_a_single_buffer() -> None:
    s, args = doubled(20, 50, factor=16, tail="cut")
    f = sl.build(s, args, target="cuda-emulator")
    a = numbers(20, 50)
    np.testing.assert_allclose(f.check(a), a.sum(1), rtol=1e-5)
    assert "A.shared: float32[2, 16, 16]" in f.program


def test_kernels_of_equal_names_are_counted_separately() -> None:
    A, k, B = row_sums(8, 16)
    D = sl.compute((8,), lambda i: B[i] + 1, name="B_2")
    s = sl.schedule(D)
    s[B].reorder(k, B.op.axis[0])
    s[B].bind(B.op.axis[0], "threadIdx.x")
    s[D].bind(D.op.axis[0], "threadIdx.x")
    f = sl.build(s, [A, D], target="cuda-emulator")
    assert len(f.counters(numbers(8, 16))) == f.program.count("kernel ") == 3


def test_storage_between_kernels_is_allocated_once_for_a_host_loop() -> None:
    A = sl.placeholder((6, 40), name="A")
    B = sl.compute((6, 40), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((6, 40), lambda i, j: B[i, 39 - j] + 1, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    s[B].compute_at(s[C], i)
    s[B].set_scope("global")
    for stage, axis in ((C, j), (B, B.op.axis[1])):
        s[stage].bind(axis, "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda-emulator")
    lines = f.program.splitlines()
    assert lines.index("host for i in 0..6:") > [n for n, x in enumerate(lines) if "B: " in x][-1]
    a = numbers(6, 40)
    np.testing.assert_allclose(f.check(a), a[:, ::-1] * 2 + 1, rtol=1e-6)


def test_a_store_predicate_on_reduction_steps_skips_them() -> None:
    A, k, B = row_sums(4, 128)
    for across in (False, True):
        s = sl.schedule(B)
        outer, inner = s[B].split(k, factor=32)
        s[B].bind(B.op.axis[0], "blockIdx.x")
        if across:
            s[B].bind(inner, "threadIdx.x")
        s[B].set_store_predicate(outer < 2)
        a = numbers(4, 128)
        f = sl.build(s, [A, B], target="cuda-emulator")
        np.testing.assert_allclose(f.check(a), a[:, :64].sum(1), rtol=1e-5)


def test_a_barrier_inside_a_symbolic_loop_with_a_remainder_of_its_index() -> None:
    n = sl.var("n")
    A = sl.placeholder((8, 7), name="A")
    B = sl.compute((8, 7), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((8, n), lambda i, j: B[i, j % 7], name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    outer, inner = s[C].split(j, factor=4)
    s[C].bind(i, "blockIdx.x")
    s[C].bind(inner, "threadIdx.x")
    s[B].compute_at(s[C], outer)
    s[B].set_scope("shared")
    s[B].bind(s[B].split(B.op.axis[1], factor=4)[1], "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda-emulator")
    a, out = numbers(8, 7), np.empty((8, 20), "float32")
    np.testing.assert_allclose(f(a, out), a[:, np.arange(20) % 7] * 2)
    assert f.program.count("barrier") == 2


def test_a_tile_read_on_both_sides_of_a_barrier() -> None:
    """Q reads Ta after the last barrier of an iteration, and the next iteration refills it."""
    n, depth = 64, 32
    A, C = sl.placeholder((depth, n), name="A"), sl.placeholder((depth, n), name="C")
    Ta = sl.compute((depth, n), lambda k, i: A[k, i] * 2, name="Ta")
    Tc = sl.compute((depth, n), lambda k, i: C[k, i] * 3, name="Tc")
    Ti = sl.compute((depth, n), lambda k, i: Ta[k, n - 1 - i] + Tc[k, i], name="Ti")
    Q = sl.compute((depth, n), lambda k, i: Tc[k, n - 1 - i] + Ta[k, n - 1 - i], name="Q")
    k = sl.reduce_axis(depth, "k")
    D = sl.compute(
        (n,), lambda i: sl.sum(Ti[k, n - 1 - i] + Tc[k, n - 1 - i] + Q[k, i], axis=k), name="D"
    )
    s = sl.schedule(D)
    s[D].bind(D.op.axis[0], "threadIdx.x")
    outer, inner = s[D].split(s[D].op.reduce_axis[0], 4)
    s[D].reorder(D.op.axis[0], outer, inner)
    for tile in (Ta, Tc, Ti):
        s[tile].compute_at(s[D], outer)
        s[tile].set_scope("shared")
        s[tile].bind(s[tile].op.axis[1], "threadIdx.x")
    s[Q].compute_at(s[D], outer)
    s[Q].set_scope("local")
    f = sl.build(s, [A, C, D], target="cuda-emulator")
    a, c = np.random.default_rng(0).integers(-8, 8, (2, depth, n)).astype("float32")
    ta, tc = 2 * a, 3 * c
    ti, q = ta[:, ::-1] + tc, tc[:, ::-1] + ta[:, ::-1]
    expected = (ti[:, ::-1] + tc[:, ::-1] + q).sum(0)
    for found in (f(a, c), f.simulate(a, c), *(f.check(a, c, order=o) for o in ORDERS)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_random_tiles_at_one_loop(data: st.DataObject) -> None:
    """Up to five tiles per step are read at the same, the mirrored or the next place."""
    n, depth = 8, 6
    A = sl.placeholder((depth, n), name="A")
    made: list[Any] = [A]

    def read(tensors: list[Any], places: list[int], k: Any, i: Any) -> Any:
        at = [i, n - 1 - i, (i + 1) % n]
        return sum((t[k, at[p]] * (m + 1) for m, (t, p) in enumerate(zip(tensors, places))), 1)

    def drawn() -> tuple[list[Any], list[int]]:
        tensors = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
        return tensors, data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))

    for number in range(data.draw(st.integers(2, 5))):
        parts = drawn()
        made.append(sl.compute((depth, n), lambda k, i, p=parts: read(*p, k, i), name=f"T{number}"))
    k = sl.reduce_axis(depth, "k")
    last = (made[1:], data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5)))
    D = sl.compute((n,), lambda i: sl.sum(read(*last, k, i), axis=k), name="D")
    s = sl.schedule(D)
    s[D].bind(D.op.axis[0], "threadIdx.x")
    outer, inner = s[D].split(s[D].op.reduce_axis[0], data.draw(st.sampled_from([1, 2])))
    s[D].reorder(D.op.axis[0], outer, inner)
    doubled: set[Any] = set()
    for tile in reversed(made[1:]):
        s[tile].compute_at(s[D], outer)
        if not data.draw(st.booleans()):
            s[tile].set_scope("local")
            continue
        s[tile].set_scope("shared")
        s[tile].bind(s[tile].op.axis[1], "threadIdx.x")
        doubled.add(tile)
    for tile in made[1:]:
        # a stage that reads a tile with a single copy cannot be fetched ahead
        sources = set(tile.op.input_tensors)
        if tile in doubled and sources <= {A, *doubled} and data.draw(st.booleans()):
            s[tile].double_buffer()
        else:
            doubled.discard(tile)
    a = np.random.default_rng(0).integers(-3, 4, (depth, n)).astype("float32")
    expected = sl.reference(D)(a)
    f = sl.build(s, [A, D], target="cuda-emulator")
    for found in (f.simulate(a), *(f.check(a, order=order) for order in ORDERS)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(10, 37), (5, 7, 3), "symbolic"])
def test_no_barrier_where_a_fused_axis_is_bound(shape: Any) -> None:
    """The quotient and remainder of a fused axis name a distinct element for each thread."""
    n, m = sl.var("n"), sl.var("m")
    extents = (n, m) if shape == "symbolic" else shape
    A = sl.placeholder((*extents, 8), name="A")
    k = sl.reduce_axis(8, "k")
    B = sl.compute(extents, lambda *at: sl.sum(A[(*at, k)], axis=k), name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(s[B].fuse(*B.op.axis), 64)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, B], target="cuda-emulator")
    assert "barrier" not in f.program
    a = numbers(*((9, 11) if shape == "symbolic" else shape), 8)
    for found in (f.check(a), f.simulate(a)):
        np.testing.assert_allclose(found, a.sum(-1), rtol=1e-5)


def test_no_barrier_where_threads_have_distinct_rows() -> None:
    """The proof works for symbolic sizes, and for more rows than it can enumerate."""
    n = sl.var("n")
    A = sl.placeholder((n, 3), name="A")
    k = sl.reduce_axis(3, "k")
    B = sl.compute((n,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    thread, _ = s[B].split(B.op.axis[0], nparts=16)
    s[B].bind(thread, "threadIdx.x")
    f = sl.build(s, [A, B], target="cuda-emulator")
    assert "barrier" not in f.program
    a = numbers(37, 3)
    np.testing.assert_allclose(f.check(a), a.sum(1), rtol=1e-6)
    A = sl.placeholder((2048, 2048, 2), name="A")
    k = sl.reduce_axis(2, "k")
    B = sl.compute((2048, 2048), lambda i, j: sl.sum(A[i, j, k], axis=k), name="B")
    s = sl.schedule(B)
    y, i = s[B].split(B.op.axis[0], nparts=32)
    x, j = s[B].split(B.op.axis[1], nparts=32)
    s[B].reorder(y, x, i, j)
    s[B].bind(y, "threadIdx.y")
    s[B].bind(x, "threadIdx.x")
    assert "barrier" not in sl.build(s, [A, B], target="cuda-emulator").program


@pytest.mark.parametrize(
    "both", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["S and D", "D alone"]
)
def test_tiles_fetched_ahead_that_read_each_other(both: bool) -> None:
    """D is computed from the next tile S, so that S cannot be held in registers."""
    A = sl.placeholder((24, 32), name="A")
    S = sl.compute((24, 32), lambda k, i: A[k, i] * 2, name="S")
    D = sl.compute((24, 32), lambda k, i: S[k, i] + S[k, (i + 1) % 32], name="D")
    k = sl.reduce_axis(24, "k")
    B = sl.compute(
        (32,), lambda i: sl.sum((S if both else D)[k, 31 - i] * D[k, i], axis=k), name="B"
    )
    s = sl.schedule(B)
    thread, i = s[B].split(B.op.axis[0], nparts=8)
    s[B].bind(thread, "threadIdx.x")
    outer, inner = s[B].split(s[B].op.reduce_axis[0], 8)
    s[B].reorder(thread, outer, inner, i)
    for tile in (D, S):
        s[tile].compute_at(s[B], outer)
        s[tile].set_scope("shared")
        _, own = s[tile].split(s[tile].fuse(*s[tile].op.axis), 8)
        s[tile].bind(own, "threadIdx.x")
        s[tile].double_buffer()
    a = np.random.default_rng(0).integers(-3, 4, (24, 32)).astype("float32")
    d = 2 * a + np.roll(2 * a, -1, axis=1)
    expected = ((2 * a if both else d)[:, ::-1] * d).sum(0)
    f = sl.build(s, target="cuda-emulator")
    for found in (f(a), f.simulate(a), *(f.check(a, order=o) for o in ORDERS)):
        np.testing.assert_array_equal(found, expected)


def test_prefetched_parts_of_a_tile_have_separate_registers() -> None:
    """Two of the four parts that two cut loops make are of equal size."""
    A = sl.placeholder((4, 3, 3, 8), name="A")
    S = sl.compute((4, 3, 3, 8), lambda k, u, v, i: A[k, u, v, i], name="S")
    k, u, v = (sl.reduce_axis(n, name) for n, name in ((4, "k"), (3, "u"), (3, "v")))
    B = sl.compute(
        (8,), lambda i: sl.sum(S[k, u, v, 7 - i] * (1 + u * 8 + v), axis=(k, u, v)), name="B"
    )
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    s[B].reorder(B.op.axis[0], *s[B].op.reduce_axis)
    s[S].compute_at(s[B], s[B].op.reduce_axis[0])
    s[S].set_scope("shared")
    _, p, q, x = s[S].op.axis
    p_outer, p_inner = s[S].split(p, 2, tail="cut")
    q_outer, q_inner = s[S].split(q, 2, tail="cut")
    s[S].reorder(p_outer, q_outer, p_inner, q_inner, x)
    s[S].bind(x, "threadIdx.x")
    s[S].double_buffer()
    a = np.random.default_rng(0).integers(0, 4, (4, 3, 3, 8)).astype("float32")
    weights = 1 + 8 * np.arange(3)[:, None] + np.arange(3)
    expected = (a[..., ::-1] * weights[:, :, None]).sum((0, 1, 2))
    f = sl.build(s, target="cuda-emulator")
    for found in (f(a), f.simulate(a), f.check(a)):
        np.testing.assert_array_equal(found, expected)
