"""Tests of refused GPU schedules and of the messages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    BuildError,
    CallError,
    LoweringError,
    MissingExtraError,
    SchedlangError,
    SpillWarning,
)
from schedlang.runtime import nvidia
from tests.gpu_schedules import scaled

N = 64


def chain() -> tuple[Any, Any, Any, Any]:
    A = sl.placeholder((N, N), name="A")
    B = sl.compute((N, N), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((N, N), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    return A, B, C, s


def bound() -> tuple[Any, Any, Any]:
    """Return ``C`` with one block per row and one thread per column."""
    _, B, C, s = chain()
    i, j = s[C].op.axis
    s[C].bind(i, "blockIdx.x")
    s[C].bind(j, "threadIdx.x")
    return s, B, C


def unbound() -> Any:
    return chain()[3]


def only_the_terms_bound(shape: tuple[int, ...]) -> Any:
    """Return a sum, or sums, whose threads have terms and no result."""
    A = sl.placeholder((64,), name="A")
    k = sl.reduce_axis(64, name="k")
    B = sl.compute(shape, lambda *i: sl.sum(A[k], axis=k), name="B")
    s = sl.schedule(B)
    s[B].bind(k, "threadIdx.x")
    return s


def parallel() -> Any:
    _, B, C, s = chain()
    s[B].compute_inline()
    s[C].parallel(s[C].op.axis[0])
    return s


def too_many_threads() -> Any:
    _, B, C, s = chain()
    s[B].compute_inline()
    s[C].bind(s[C].fuse(*s[C].op.axis), "threadIdx.x")
    return s


def too_much_shared() -> Any:
    A = sl.placeholder((128, 4096), name="A")
    B = sl.compute((128, 4096), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((128, 4096), lambda i, j: B[i, 4095 - j], name="C")
    s = sl.schedule(C)
    block, row = s[C].split(C.op.axis[0], 64)
    _, thread = s[C].split(C.op.axis[1], 64)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[B].compute_at(s[C], block)
    return s


def extents_differ() -> Any:
    s, B, C = bound()
    s[B].compute_at(s[C], C.op.axis[0])
    _, inner = s[B].split(s[B].op.axis[1], 16)
    s[B].bind(inner, "threadIdx.x")
    return s


def longer_than_the_threads_around() -> Any:
    _, B, C, s = chain()
    i, j = s[C].op.axis
    s[C].bind(i, "blockIdx.x")
    outer, inner = s[C].split(j, 16)
    s[C].reorder(i, inner, outer)
    s[C].bind(inner, "threadIdx.x")
    s[B].compute_at(s[C], inner)
    s[B].set_scope("shared")
    s[B].bind(s[B].op.axis[1], "threadIdx.x")
    return s


def shared_at_root() -> Any:
    s, B, _ = bound()
    s[B].set_scope("shared")
    return s


def global_inside() -> Any:
    s, B, C = bound()
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("global")
    return s


def local_outside_of_threads() -> Any:
    s, B, C = bound()
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("local")
    s[B].bind(s[B].op.axis[1], "threadIdx.x")
    return s


def reduction_inside_its_threads() -> Any:
    A = sl.placeholder((N, N), name="A")
    k = sl.reduce_axis(N, "k")
    B = sl.compute((N,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((N,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    block, thread = s[C].split(C.op.axis[0], 32)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[B].compute_at(s[C], thread)
    s[B].set_scope("shared")
    _, inner = s[B].split(k, 32)
    s[B].bind(inner, "threadIdx.x")
    return s


def nothing_to_double() -> Any:
    s, B, C = bound()
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].bind(s[B].op.axis[1], "threadIdx.x")
    s[B].double_buffer()
    return s


def lanes_across_threads() -> Any:
    A = sl.placeholder((N, N), name="A")
    k = sl.reduce_axis(N, "k")
    B = sl.compute((N,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    block, lane = s[B].split(B.op.axis[0], 4)
    s[B].bind(block, "blockIdx.x")
    s[B].vectorize(lane)
    s[B].bind(k, "threadIdx.x")
    return s


def sums_of_threads_in_local_storage() -> Any:
    A = sl.placeholder((N, N), name="A")
    k = sl.reduce_axis(N, "k")
    B = sl.compute((N,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((N, N), lambda i, j: A[i, j] - B[i], name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    s[C].bind(i, "threadIdx.y")
    _, thread = s[C].split(j, 16)
    s[C].bind(thread, "threadIdx.x")
    s[B].compute_at(s[C], i)
    s[B].set_scope("local")
    _, inner = s[B].split(k, 16)
    s[B].bind(inner, "threadIdx.x")
    return s


REFUSED: list[tuple[Callable[[], Any], type[SchedlangError], str]] = [
    (unbound, BuildError, r"stage B is at root.*none of its data axes \(i, j\) is bound"),
    (lambda: only_the_terms_bound((4,)), BuildError,
     r"data axes \(i0\) is bound.*outer, inner = s\[B\].split\(i0, factor=64\)"),
    (lambda: only_the_terms_bound((1,)), BuildError,
     r'data axes is bound.*s\[B\].bind\(s\[B\].op.axis\[0\], "blockIdx.x"\)'),
    (lambda: only_the_terms_bound(()), BuildError,
     r'data axes is bound.*s\[B\].bind\(s\[B\].fuse\(\), "blockIdx.x"\)'),
    (parallel, BuildError, "i of stage C is parallel.*Bind the loop"),
    (too_many_threads, BuildError, "a block of 4096 threads.*sm_90 allows 1024"),
    (too_much_shared, BuildError,
     "needs 1,048,576 B of shared memory; sm_90 allows 49,152 B static, 232,448 B opt-in; "
     "B is 64x4096 float32"),
    (extents_differ, BuildError, "both are bound to threadIdx.x of one kernel.*Split both"),
    (longer_than_the_threads_around, LoweringError,
     "has 64 iterations, but B is computed inside a loop of 16 threadIdx.x"),
    (shared_at_root, BuildError, "B is shared storage allocated outside every kernel"),
    (global_inside, BuildError, "B is global storage allocated inside a kernel"),
    (local_outside_of_threads, BuildError, "local storage allocated outside the thread loops"),
    (reduction_inside_its_threads, LoweringError, "each thread would compute the whole reduction"),
    (sums_of_threads_in_local_storage, BuildError,
     "reduce stage B together, but its storage is local.*set_scope"),
    (nothing_to_double, BuildError, "no serial loop of a kernel fills and then reads B"),
    (lanes_across_threads, BuildError, "reduced across threads, which vector lanes cannot"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "kind", "message"), REFUSED)
def test_refused(made: Callable[[], Any], kind: type[SchedlangError], message: str) -> None:
    s = made()
    with pytest.raises(kind, match=f"(?s){message}"):
        sl.build(s, target="cuda-emulator")


@pytest.mark.parametrize("shape", [(4,), (1,), ()])
def test_the_suggested_step_builds(shape: tuple[int, ...]) -> None:
    s = only_the_terms_bound(shape)
    (B,) = s.outputs
    s[B].bind(s[B].op.axis[0] if shape else s[B].fuse(), "blockIdx.x")
    found = sl.build(s, target="cuda-emulator").check(np.ones(64, "float32"))
    np.testing.assert_array_equal(found, np.full(shape, 64))


def test_without_the_compiler_the_emulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "find_spec", lambda name: None)
    nvidia.driver.cache_clear()
    with pytest.raises(MissingExtraError, match=r'schedlang\[cuda\]"(.|\n)*"cuda-emulator"'):
        nvidia.driver()
    nvidia.driver.cache_clear()


def test_a_gpu_kernel_on_a_cpu_says_what_to_do() -> None:
    s, B, _ = bound()
    s[B].compute_inline()
    with pytest.raises(BuildError, match="bound to blockIdx.x(.|\n)*cuda-emulator"):
        sl.build(s)


def test_limits_depend_on_the_architecture() -> None:
    s = too_much_shared()
    with pytest.raises(BuildError, match="sm_80 allows 49,152 B static, 166,912 B opt-in"):
        sl.build(s, target=sl.Target("cuda", arch="sm_80"))
    with pytest.raises(BuildError, match="choose one of sm_80, "):
        sl.Target("cuda", arch="sm_12")


def test_shared_storage_inside_a_thread_is_refused() -> None:
    A = sl.placeholder((66,), name="A")
    B = sl.compute((66,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = sl.schedule(C)
    block, i = s[C].split(C.op.axis[0], factor=32)
    thread, inner = s[C].split(i, factor=4)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[B].compute_at(s[C], inner)
    s[B].store_at(s[C], thread)
    s[B].set_scope("shared")
    with pytest.raises(LoweringError, match=r"B has scope shared, but there each thread of "
                                            r"i.inner.outer"):
        sl.build(s, [A, C], target="cuda-emulator")


def test_local_storage_beyond_the_limit_of_a_thread_is_refused() -> None:
    A = sl.placeholder((64, 400000), name="A")
    k = sl.reduce_axis(400000, name="k")
    B = sl.compute((64, 400000), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((64,), lambda i: sl.sum(B[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(BuildError, match="1x400000 float32, 1,600,000 B per thread; sm_90 al"):
        sl.build(s, [A, C], target="cuda")


def test_a_too_large_grid_is_refused_by_call_check_and_simulate() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), "int8", name="A")
    B = sl.compute((n,), lambda i: A[i], name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.z")
    f = sl.build(s, target="cuda-emulator")
    for run in (f, f.check, f.counters, sl.build(s, target="cuda").simulate):
        with pytest.raises(CallError, match="would have extent 70000; sm_90 allows 65535"):
            run(np.zeros(70000, "int8"))


@pytest.mark.parametrize("target", ["cuda", "cuda-emulator"])
def test_a_kernel_whose_reads_no_condition_checks_is_not_saved(target: str) -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((m,), lambda i: A[i * i] * 2, name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    f = sl.build(s, [A, B], target=target)
    with pytest.raises(BuildError, match="that says which sizes are right"):
        f.save("never.py")


def test_a_second_copy_between_kernels_is_refused() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] + 1, name="B")
    C = sl.compute((64,), lambda i: B[63 - i] * 2, name="C")
    s = sl.schedule(C)
    for stage in (B, C):
        s[stage].bind(stage.op.axis[0], "threadIdx.x")
    s[B].double_buffer()
    with pytest.raises(BuildError, match=r"double_buffer\(\) of B: no serial loop of a kern"):
        sl.build(s, target="cuda")


def test_vectors_of_a_gpu_have_one_width() -> None:
    with pytest.raises(BuildError, match="a GPU thread accesses at most 16 bytes"):
        sl.Target("cuda", vector_bytes=32)


def test_the_message_names_a_split_that_made_fewer_iterations() -> None:
    A = sl.placeholder((2, 64), name="A")
    B = sl.compute((2, 64), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    with pytest.raises(
        SchedlangError, match="has 2 iterations, .*\n  It comes from a split of i, which has only 2"
    ):
        s[B].bind(inner, sl.thread_axis((0, 4), "threadIdx.x"))


def test_a_timer_without_a_gpu_raises_one_sentence() -> None:
    pytest.importorskip("numba_cuda")
    from numba import cuda

    if cuda.is_available():
        pytest.skip("this machine has a GPU")
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda")
    with pytest.raises(CallError, match="it needs an NVIDIA GPU, and none is available"):
        f.time_evaluator(f.entry_name)(*case.inputs, np.empty_like(case.expected))


def test_a_time_of_the_emulator_is_marked_as_emulated() -> None:
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    found = sl.evaluate(f, *case.inputs, repeat=1, min_time=0.0)
    assert found.emulated and found.fraction is None
    assert "emulated on the CPU" in str(found)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_kernel_is_saved_only_as_python_or_c(target: str, tmp_path: Path) -> None:
    case = scaled()
    if target == "cpu":
        f = sl.build(sl.schedule(case.args[1]), case.args, target="cpu")
    else:
        f = sl.build(case.schedule, case.args, target="cuda")
    with pytest.raises(BuildError, match="k.ptx'\\): a kernel is saved as Python or as a C "
                                         "program; give a name"):
        f.save(tmp_path / "k.ptx")


@pytest.mark.parametrize(("tile", "warned"), [(16, 1), (8, 0)])
def test_more_sums_than_a_thread_has_registers(tile: int, warned: int) -> None:
    A = sl.placeholder((64, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64, 64), lambda i, j: sl.sum(A[i, k] * A[k, j], axis=k), name="C")
    s = sl.schedule(C)
    held = s.cache_write(C, "local")
    y, x, *_ = s[C].tile(*C.op.axis, tile, tile)
    s[C].bind(y, "threadIdx.y")
    s[C].bind(x, "threadIdx.x")
    s[held].compute_at(s[C], x)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sl.build(s, target="cuda")
    assert [w.category for w in found] == [SpillWarning] * warned
    assert not warned or "the 256 float32 sums of a thread do not fit its 255" in str(
        found[0].message
    )
