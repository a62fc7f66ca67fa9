"""Tests of pipelines: tiles that the GPU copies to shared memory while its threads compute."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import BuildError, VerifyError
from schedlang.gpu_lowering import lower
from schedlang.gpu_lowering.program import Launch
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.nodes import Barrier, Block, Commit, Stmt, walk
from schedlang.ir.rewrite import deep
from tests.conftest import Golden
from tests.gpu_schedules import gemm, numbers
from tests.marks import compiles


def row_sums(
    n: Any, k: int, depth: int, prepare: Callable[[Any], object], dtype: str = "float32"
) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return sums of rows by 8 threads, whose tiles of ``depth`` columns ``prepare`` schedules."""
    A = sl.placeholder((n, k), dtype, name="A")
    r = sl.reduce_axis(k, name="r")
    B = sl.compute((n,), lambda i: sl.sum(A[i, r] * (r + 1), axis=r), name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    block, thread = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    outer, _ = s[B].split(r, factor=depth)
    s[S].compute_at(s[B], outer)
    s[S].bind(s[S].op.axis[0], "threadIdx.x")
    prepare(s[S])
    return s, [A, B]


def weighted(a: np.ndarray) -> np.ndarray:
    return a.astype("float64") @ np.arange(1, a.shape[1] + 1)


def launch_of(s: sl.Schedule, args: list[Any]) -> Launch:
    (launch,) = lower.device_program(sl.lower(s, args), sl.Target("cuda")).launches
    return launch


def waits(launch: Launch) -> list[int | None]:
    return [s.pending for s, _ in walk(launch.body) if isinstance(s, Barrier)]


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_an_iteration_has_one_barrier(stages: int) -> None:
    case = gemm(32, 32, 64, stages=stages)
    launch = launch_of(case.schedule, case.args)
    assert waits(launch) == [stages - 2]
    assert launch.shared_bytes == stages * 2 * 16 * 8 * 4
    # a group for each tile before the loop, and one in each iteration
    assert sum(isinstance(s, Commit) for s, _ in walk(launch.body)) == stages


def test_the_program_shows_copies_and_waits(golden: Golden) -> None:
    s, args = row_sums(16, 32, 8, lambda tile: tile.pipeline(3))
    golden(sl.build(s, args, target="cuda-emulator").program)


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
@pytest.mark.parametrize("columns", [12, 24, 31])
def test_sums_through_a_pipeline(stages: int, columns: int) -> None:
    s, args = row_sums(19, columns, 8, lambda tile: tile.pipeline(stages))
    f = sl.build(s, args, target="cuda")
    a = numbers(19, columns)
    np.testing.assert_allclose(f.check(a), weighted(a), rtol=1e-5)
    np.testing.assert_allclose(f.simulate(a), weighted(a), rtol=1e-5)


def test_sizes_may_be_symbolic_and_smaller_than_the_pipeline() -> None:
    n = sl.var("n")
    s, args = row_sums(n, 40, 8, lambda tile: tile.pipeline(4))
    f = sl.build(s, args, target="cuda-emulator")
    for size in (0, 1, 9, 16):
        a = numbers(size, 40)
        np.testing.assert_allclose(f(a), weighted(a), rtol=1e-5)
        np.testing.assert_allclose(f.check(a), weighted(a), rtol=1e-5)


def test_a_symbolic_count_of_tiles() -> None:
    m = sl.var("m")
    A = sl.placeholder((8, m), "int32", name="A")
    r = sl.reduce_axis(m, name="r")
    B = sl.compute((8,), lambda i: sl.sum(A[i, r], axis=r), name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], "threadIdx.x")
    outer, _ = s[B].split(r, factor=4)
    s[S].compute_at(s[B], outer)
    s[S].bind(s[S].op.axis[0], "threadIdx.x")
    s[S].pipeline(3)
    f = sl.build(s, [A, B], target="cuda-emulator")
    for size in (0, 1, 4, 5, 8, 23):
        a = np.random.default_rng(size).integers(-9, 9, (8, size), dtype="int32")
        np.testing.assert_array_equal(f(a), a.sum(1))
        np.testing.assert_array_equal(f.check(a), a.sum(1))


@pytest.mark.slow
def test_a_pipeline_and_a_double_buffer_in_one_loop() -> None:
    for pair in (("A", "B"), ("B", "A")):
        case = gemm(32, 32, 40)
        case.schedule[case.schedule.tensor(f"{pair[0]}.shared")].pipeline(4)
        case.schedule[case.schedule.tensor(f"{pair[1]}.shared")].double_buffer()
        f = sl.build(case.schedule, case.args, target="cuda-emulator")
        np.testing.assert_allclose(f.check(*case.inputs), case.expected, rtol=1e-5)


@pytest.mark.slow
def test_pipelines_of_unlike_length_wait_for_the_shorter_one() -> None:
    case = gemm(32, 32, 64)
    for name, stages in (("A", 3), ("B", 5)):
        case.schedule[case.schedule.tensor(f"{name}.shared")].pipeline(stages)
    assert waits(launch_of(case.schedule, case.args)) == [1]
    f = sl.build(case.schedule, case.args, target="cuda-emulator")
    np.testing.assert_allclose(f.check(*case.inputs), case.expected, rtol=1e-5)


@pytest.mark.slow
@compiles
def test_wide_copies_of_short_floats() -> None:
    def prepare(tile: Any) -> None:
        tile.vectorize(tile.split(tile.op.axis[1], factor=8)[1])
        tile.pipeline(3)

    s, args = row_sums(16, 48, 16, prepare, "float16")
    f = sl.build(s, args, target=sl.Target("cuda", arch="sm_80"))
    a = numbers(16, 48, dtype="float16")
    np.testing.assert_allclose(f.simulate(a), weighted(a), rtol=2e-2)
    (code,) = f.machine_code.values()
    assert "cp.async.cg.shared.global" in code.ptx and code.resources.spill_bytes == 0


@compiles
def test_machine_code_has_copies_and_waits() -> None:
    s, args = row_sums(16, 64, 8, lambda tile: tile.pipeline(4))
    (code,) = sl.build(s, args, target=sl.Target("cuda", arch="sm_90")).machine_code.values()
    for text in ("cp.async.ca.shared.global", "cp.async.commit_group", "cp.async.wait_group \t2"):
        assert text.replace(" \t", " ") in code.ptx.replace("\t", ""), text


@pytest.mark.parametrize("pending", [1, 2, None])
def test_a_wait_for_too_few_copies_is_named(
    pending: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = lower.with_barriers

    def too_early(launch: Launch) -> Launch:
        def later(stmt: Stmt) -> Stmt:
            return replace(stmt, pending=pending) if isinstance(stmt, Barrier) else stmt

        body = deep(right(launch).body, later)
        assert isinstance(body, Block)
        return replace(launch, body=body)

    monkeypatch.setattr(lower, "with_barriers", too_early)
    s, args = row_sums(8, 32, 8, lambda tile: tile.pipeline(2))
    f = sl.build(s, args, target="cuda-emulator")
    message = r"A\.shared\[.*\] of stage B.*, whose asynchronous copy no thread has waited for, is "
    with pytest.raises(VerifyError, match=message):
        f.check(numbers(8, 32))


def test_a_copy_that_may_arrive_before_others_have_read_is_a_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each tile is filled where it is read last: with one copy less, the barrier is too early."""
    case = gemm(32, 32, 64, stages=3)
    program = lower.device_program(sl.lower(case.schedule, case.args), sl.Target("cuda"))
    (launch,) = program.launches

    def unguarded(stmt: Stmt) -> Stmt:
        # the wait stays, the barrier behind it goes
        return Block() if isinstance(stmt, Barrier) else stmt

    body = deep(launch.body, unguarded)
    assert isinstance(body, Block)
    wrong = replace(program, steps=(replace(launch, body=body),))
    for late in (False, True):
        with pytest.raises(VerifyError, match="without a barrier in between|is read before"):
            simulate(wrong, case.inputs, {}, late=late)


def refused(s: sl.Schedule, args: list[Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        sl.build(s, args, target="cuda")


def test_opencl_is_refused() -> None:
    s, args = row_sums(16, 32, 8, lambda tile: tile.pipeline(3))
    with pytest.raises(BuildError, match="a thread of OpenCL has no asynchronous copies"):
        sl.build(s, args, target="opencl")


def test_a_copy_of_two_bytes_is_refused() -> None:
    s, args = row_sums(16, 32, 8, lambda tile: tile.pipeline(3), "float16")
    refused(s, args, r"pipeline of A\.shared: each thread copies 1 element of float16, 2 bytes, at")


def test_lanes_that_are_not_one_copy_are_refused() -> None:
    def prepare(tile: Any) -> None:
        tile.vectorize(tile.split(tile.op.axis[1], factor=8)[1])
        tile.storage_align(tile.op.axis[0], 2, 1)
        tile.pipeline(3)

    s, args = row_sums(16, 64, 16, prepare, "float16")
    refused(s, args, "8 elements of float16, 16 bytes, at once, and its lanes are not adjacent")


def test_more_stages_than_shared_memory_holds_are_refused_in_bytes() -> None:
    s, args = row_sums(64, 8192, 1024, lambda tile: tile.pipeline(8))
    refused(s, args, r"it needs 262,144 B of shared memory; sm_90 allows .* 8x8x1024 float32")


def test_a_tile_without_a_loop_is_refused() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[63 - i], name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[S].compute_at(s[B], block)
    s[S].bind(s[S].op.axis[0], "threadIdx.x")
    s[S].pipeline(3)
    refused(
        s, [A, B], r"pipeline\(3\) of A\.shared: no serial loop of a kernel fills and then reads"
    )


def test_local_storage_is_refused() -> None:
    def prepare(tile: Any) -> None:
        tile.set_scope("local")
        tile.pipeline(2)

    A = sl.placeholder((8, 32), name="A")
    r = sl.reduce_axis(32, name="r")
    B = sl.compute((8,), lambda i: sl.sum(A[i, r], axis=r), name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "local", [B])
    s[B].bind(B.op.axis[0], "threadIdx.x")
    outer, _ = s[B].split(r, factor=8)
    s[S].compute_at(s[B], outer)
    prepare(s[S])
    refused(
        s, [A, B], r"A\.local is in local memory, and asynchronous copies go to shared\n  Set its"
    )


def test_a_cpu_ignores_the_pipeline() -> None:
    A = sl.placeholder((8, 32), name="A")
    B = sl.compute((8, 32), lambda i, j: A[i, j] + 1, name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "global", [B])
    s[S].compute_at(s[B], B.op.axis[0])
    s[S].pipeline(3)
    a = numbers(8, 32)
    np.testing.assert_array_equal(sl.build(s, [A, B])(a), a + 1)


@settings(deadline=None, max_examples=8)
@given(st.data())
def test_random_pipelines(data: st.DataObject) -> None:
    n, columns = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 40))
    depth, stages = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 6))
    s, args = row_sums(n, columns, depth, lambda tile: tile.pipeline(stages), "int32")
    a = np.random.default_rng(0).integers(-9, 9, (n, columns), dtype="int32")
    if -(-columns // depth) > 1:
        f = sl.build(s, args, target="cuda")
        np.testing.assert_array_equal(f.check(a), weighted(a))
