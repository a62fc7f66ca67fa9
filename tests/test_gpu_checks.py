"""Tests that lockstep finds the bugs of a wrong pass, and of its counters."""

from __future__ import annotations

import pickle
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, RaceError, VerifyError
from schedlang.expr.nodes import Binary, Const
from schedlang.gpu_lowering import barriers, lower
from schedlang.gpu_lowering.checked_memory import Lanes, Memory
from schedlang.gpu_lowering.memory_requests import count_requests, depends_on_data
from schedlang.gpu_lowering.program import Launch
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.nodes import Barrier, Block, Buffer, If, Stmt, Store, walk
from schedlang.ir.rewrite import deep
from schedlang.runtime.simulator import simulate_file
from tests.conftest import Golden
from tests.gpu_schedules import CASES, gemm, numbers, row_reduction, scaled, softmax
from tests.marks import slow_but
from tests.test_notebook import checked


def built(case: Any) -> Any:
    return sl.build(case.schedule, case.args, target="cuda-emulator")


@pytest.mark.parametrize("case", [gemm(32, 32, 32), gemm(32, 32, 32, double=True),
                                  row_reduction(4, 40, 40), softmax(3, 100, 64)])  # fmt: skip
def test_a_missing_barrier_is_a_race(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "with_barriers", lambda launch: launch)
    with pytest.raises(VerifyError, match="without a barrier in between|before it is written"):
        built(case).check(*case.inputs)


@pytest.mark.parametrize("number", range(2))
def test_each_barrier_is_needed(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = barriers.with_barriers

    def without_one(launch: Launch) -> Launch:
        count = iter(range(100))

        def drop(stmt: Stmt) -> Stmt:
            gone = isinstance(stmt, Barrier) and next(count) == number
            return Block() if gone else stmt

        body = deep(right(launch).body, drop)
        assert isinstance(body, Block)
        return replace(launch, body=body)

    monkeypatch.setattr(lower, "with_barriers", without_one)
    case = gemm(32, 32, 32)
    with pytest.raises(VerifyError, match="without a barrier in between"):
        built(case).check(*case.inputs)


def test_a_barrier_that_some_threads_do_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    def divergent(launch: Launch) -> Launch:
        cond = Binary("<", launch.block[0].axis, Const(3, "int64", True), "bool")
        guarded = If(cond, Block((Barrier(),)))
        return replace(launch, body=Block((guarded, *launch.body.stmts)))

    monkeypatch.setattr(lower, "with_barriers", divergent)
    case = scaled()
    program = lower.device_program(sl.lower(case.schedule, case.args), sl.Target("cuda"))
    with pytest.raises(VerifyError, match="wait at a barrier that others do not reach"):
        simulate(program, case.inputs, {})


def test_sectors_of_adjacent_and_strided_reads() -> None:
    """A warp that reads 32 neighbouring floats takes 4 sectors; with a stride of 8 it takes 32."""
    A = sl.placeholder((8192,), name="A")
    for stride, sectors in ((1, 4), (2, 8), (8, 32)):
        B = sl.compute((1024,), lambda i, stride=stride: A[i * stride] + 1, name="B")
        s = sl.schedule(B)
        block, thread = s[B].split(B.op.axis[0], 256)
        s[B].bind(block, "blockIdx.x")
        s[B].bind(thread, "threadIdx.x")
        found = sl.build(s, [A, B], target="cuda-emulator").counters(numbers(8192))["B"]
        assert found.global_loads == 32 and found.global_stores == 32
        assert found.global_load_sectors == 32 * sectors
        assert found.global_store_sectors == 32 * 4
        assert found.sectors_per_request == (sectors + 4) / 2


def transposed(align: bool) -> Any:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[j, i], name="B")
    s = sl.schedule(B)
    T = s.cache_read(A, "shared", [B])
    by, bx, y, x = s[B].tile(*s[B].op.axis, 32, 32)
    ty, y = s[B].split(y, nparts=8)
    s[B].reorder(by, bx, ty, x, y)
    for axis, name in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (x, "threadIdx.x"),
    ):
        s[B].bind(axis, name)
    s[T].compute_at(s[B], bx)
    i, j = s[T].op.axis
    ty, i = s[T].split(i, nparts=8)
    s[T].reorder(ty, j, i)
    s[T].bind(ty, "threadIdx.y")
    s[T].bind(j, "threadIdx.x")
    if align:
        s[T].storage_align(s[T].op.axis[0], 32, 1)
    return sl.build(s, [A, B], target="cuda-emulator")


def test_padding_removes_bank_conflicts() -> None:
    """Without padding, a warp that reads a column of 32 rows hits one bank 32 times."""
    a = numbers(64, 64)
    requests = 4 * 32
    for align, conflicts in ((False, requests * 31), (True, 0)):
        f = transposed(align)
        # compiling takes seconds, so do it once
        np.testing.assert_array_equal(f(a) if align else f.check(a), a.T)
        found = f.counters(a)["B"]
        assert found.shared_loads == found.shared_stores == requests
        assert found.bank_conflicts == conflicts
        assert found.global_load_sectors == found.global_store_sectors == requests * 4
        assert found.barriers == 4
        # a thread moves 4 of the 32 rows of a tile
        assert (found.most_global_reads, found.most_global_writes) == (4, 4)
        assert (found.most_shared_reads, found.most_shared_writes) == (4, 4)


def test_the_busiest_thread() -> None:
    """A thread copies two elements, or fewer in the tail; a vector counts by elements."""
    A = sl.placeholder((97,), name="A")
    B = sl.compute((97,), lambda i: A[i] * 2, name="B")
    for vectorized in (False, True):
        s = sl.schedule(B)
        block, i = s[B].split(B.op.axis[0], factor=64, tail="guard")
        thread, lane = s[B].split(i, factor=2)
        s[B].bind(block, "blockIdx.x")
        s[B].bind(thread, "threadIdx.x")
        if vectorized:
            s[B].vectorize(lane)
        found = sl.build(s, [A, B], target="cuda-emulator").counters(numbers(97))
        assert (found["B"].most_global_reads, found["B"].most_global_writes) == (2, 2)
        assert (found["B"].most_shared_reads, found["B"].most_shared_writes) == (0, 0)


def test_threads_that_read_different_arrays() -> None:
    """Each thread reads one element, whichever array it is in."""
    A, B = (sl.placeholder((64,), name=n) for n in "AB")
    C = sl.compute((64,), lambda i: sl.if_then_else(i % 2 == 0, A[i], B[i]), name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    found = sl.build(s, [A, B, C], target="cuda-emulator").counters(numbers(64), numbers(64))["C"]
    assert (found.most_global_reads, found.most_global_writes) == (1, 1)


def test_counters_stand_beside_the_program(golden: Golden) -> None:
    golden(transposed(False).counters(numbers(64, 64)))


def test_counters_show_in_a_notebook() -> None:
    f = transposed(False)
    shown = f.counters(numbers(64, 64))._repr_mimebundle_()
    text = "".join(checked(shown["text/html"]).text)
    # a column of a tile takes 32 turns; there are 32 columns in each of 4 blocks
    assert "bank conflicts" in text and f"{4 * 32 * 31:,}" in text and "barriers: 4" in text
    assert shown["text/plain"].startswith("global  global")
    # each line of the program, with its indentation
    assert all(line in text for line in f.program.splitlines()[3:])


@pytest.mark.slow
def test_padding_of_a_transformed_layout() -> None:
    """Padding applies to the transformed dimension, and 16-byte accesses stay aligned."""
    ladder = runpy.run_path(str(Path(__file__).parent.parent / "examples/08_cuda_ladder.py"))
    s = ladder["vector_loads"]()
    (tile,) = (x for x in s.stages if x.op.name == "A.shared")
    args = [ladder[name] for name in "ABC"]
    a, b = numbers(64, 64), numbers(64, 64)
    before = sl.build(s, args, target="cuda-emulator").counters(a, b)["C"]
    s[tile.op.output(0)].storage_align(tile.op.axis[1], 32, 4)
    f = sl.build(s, args, target="cuda-emulator")
    after = f.counters(a, b)["C"]
    assert "A.shared: float32[8, 32]   shared, 1152 B, rows padded to 36" in f.program
    assert (before.bank_conflicts, after.bank_conflicts) == (256, 0)
    assert (before.shared_loads, before.shared_stores) == (after.shared_loads, after.shared_stores)
    for found in (f.check(a, b), f(a, b), f.simulate(a, b)):
        np.testing.assert_allclose(found, a @ b, rtol=1e-5)


def test_wide_accesses_are_one_request() -> None:
    n = 4096
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    for lanes, requests in ((1, 128), (2, 64), (4, 32)):
        s = sl.schedule(B)
        rest, lane = s[B].split(B.op.axis[0], lanes)
        block, thread = s[B].split(rest, 128)
        s[B].bind(block, "blockIdx.x")
        s[B].bind(thread, "threadIdx.x")
        s[B].vectorize(lane)
        found = sl.build(s, [A, B], target="cuda-emulator").counters(numbers(n))["B"]
        assert (found.global_loads, found.global_stores) == (requests, requests)
        assert found.global_load_sectors == n * 4 // 32


def test_barriers_per_tile() -> None:
    """A tile needs two barriers, or one if it is double-buffered."""
    blocks, tiles = 4, 4
    for double, each in ((False, 2), (True, 1)):
        case = gemm(32, 32, 32, double=double)
        found = built(case).counters(*case.inputs)["C"]
        assert found.barriers == blocks * tiles * each


@pytest.mark.parametrize(
    "name", slow_but([n for n in CASES if "gemm" not in n or "odd sizes" in n], CASES)
)
def test_counters_from_addresses_equal_those_of_a_run(name: str) -> None:
    case = CASES[name]()
    program = lower.device_program(sl.lower(case.schedule, case.args), sl.Target("cuda"))
    run = simulate(program, case.inputs, {}, watched=False)
    assert not depends_on_data(program)
    for name, ledger in count_requests(program, {}).items():
        assert ledger.total == run.ledgers[name].total
        assert ledger.lines == run.ledgers[name].lines


def test_a_gather_is_counted_by_running_it() -> None:
    A, I = sl.placeholder((64,), name="A"), sl.placeholder((32,), "int64", name="I")  # noqa: E741
    B = sl.compute((32,), lambda i: A[I[i]], name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "threadIdx.x")
    f = sl.build(s, [A, I, B], target="cuda-emulator")
    a, near = numbers(64), np.arange(32)
    assert f.counters(a, near)["B"].global_load_sectors == 4 + 8
    assert f.counters(a, near * 0)["B"].global_load_sectors == 1 + 8


@pytest.mark.parametrize("by_data", [False, True])
def test_a_load_that_a_condition_and_its_branch_share_is_counted_once(by_data: bool) -> None:
    """As the kernel does, which keeps the element in a register."""
    A, B = (sl.placeholder((32,), name=name) for name in "AB")
    C = sl.compute(
        (32,), lambda i: sl.if_then_else((A[i] > 0) & (i < 20) if by_data else i < 20,
                                         A[i] * B[i], A[i] - B[i]) + A[i], name="C",
    )  # fmt: skip
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    f = sl.build(s, [A, B, C], target="cuda")
    a, b = numbers(32) - np.float32(0.5), numbers(32)
    np.testing.assert_allclose(
        f.simulate(a, b), np.where((np.arange(32) < 20) & (a > 0 if by_data else True),
                                   a * b, a - b) + a, rtol=1e-6,
    )  # fmt: skip
    found = f.counters(a, b)["C"]
    # B in each branch, as some lanes of the warp take either; A once, or in each branch and behind
    loads = f.source.partition("def C_kernel")[2].count("load(")
    assert found.global_loads == loads == (3 if by_data else 5)


def test_threads_of_two_blocks_race() -> None:
    """Threads of equal number in two blocks race on an element, despite barriers in each block."""
    case = scaled(64, threads=32)
    program = sl.build(case.schedule, case.args, target="cuda-emulator")._program
    (launch,) = program.launches
    store = next(s for s, _ in walk(launch.body) if isinstance(s, Store))
    thread = launch.block[0].axis
    extra = Store(store.buffers, (thread % 32,), (Const(5.0, "float32"),), None, "B")
    body = Block((*launch.body.stmts, Barrier(), extra))
    wrong = replace(program, steps=(replace(launch, body=body),))
    with pytest.raises(RaceError, match="by thread 0 of block 0 and .* thread 0 of block 1"):
        simulate(wrong, [np.ones(64, "float32")], {})


def reversed_through_shared() -> tuple[Any, list[Any]]:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[63 - i] + 1, name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    block, thread = s[B].split(B.op.axis[0], 32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[S].compute_at(s[B], block)
    s[S].bind(s[S].op.axis[0], "threadIdx.x")
    return s, [A, B]


def test_a_kernel_without_its_barriers_races() -> None:
    s, args = reversed_through_shared()
    a = np.arange(64, dtype="float32")
    f = sl.build(s, args, target="cuda-emulator", barriers=False)
    assert "barrier" not in f.program and f.counters(a)["B"].barriers == 0
    with pytest.raises(RaceError, match="by thread 31 of block 0 and .* thread 0 of") as found:
        f.check(a)
    assert (found.value.buffer, found.value.element) == ("A.shared", (31,))
    assert found.value.threads == ((31, 0), (0, 0))
    assert pickle.loads(pickle.dumps(found.value)).threads == ((31, 0), (0, 0))
    np.testing.assert_array_equal(sl.build(s, args, target="cuda-emulator").check(a), a[::-1] + 1)


def test_lanes_of_one_store_race() -> None:
    """Two lanes of one statement store one element: both accesses are in that statement."""
    memory = Memory(Buffer("T", "float32", (4,), "shared"), (4,), 1, True)
    lanes = Lanes(np.zeros(3, int), np.array([0, 2, 2]), np.arange(3), np.zeros(3, int), "T")
    with pytest.raises(RaceError, match="by thread 2 of block 0 and .* thread 1 of block 0") as got:
        memory.store(lanes, np.ones(3), np.zeros(3, bool), np.zeros(3, int))
    race = got.value.race
    assert [(a.thread, a.element, a.what) for a in race.accesses] == [
        ((0, 0), (0,), "writes"), ((1, 0), (2,), "writes"), ((2, 0), (2,), "writes")
    ]  # fmt: skip
    assert race.grid.pair == ((2, 1), (1, 1))


@pytest.mark.parametrize("target", ["cpu", "python", "cuda"])
def test_only_the_emulator_leaves_out_barriers(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDLANG_CUDA", raising=False)
    s, args = reversed_through_shared()
    with pytest.raises(BuildError, match="only the emulator runs a kernel without its barriers"):
        sl.build(s, args, target=target, barriers=False)


def test_counters_show_as_a_table() -> None:
    s, args = reversed_through_shared()
    f = sl.build(s, args, target="cuda-emulator")
    found = f.counters(np.arange(64, dtype="float32"))
    page = checked(found._repr_html_())
    cells = [text for text in page.text if text.strip()]
    assert "counters of kernel B" in cells and "barriers: 2" in cells
    # two warps load and store 32 floats each, which are 4 sectors
    total = cells[cells.index("kernel B:") - 10 : cells.index("kernel B:")]
    assert total == ["2", "2", "8", "8", "2", "2", "1", "1", "1", "1"]
    assert cells[cells.index("global loads") + 2] == "sectors loaded"
    # the same lines as those of the text, and the text for a terminal
    lines = [line.strip() for line in f.program.splitlines() if "= threadIdx" in line]
    assert set(lines) <= {text.strip() for text in cells}
    assert found._repr_mimebundle_()["text/plain"] == str(found)


@pytest.mark.parametrize("by_data", [False, True])
def test_warps_whose_lanes_part_are_counted(by_data: bool) -> None:
    A = sl.placeholder((100,), name="A")
    I = sl.placeholder((100,), "int64", name="I")  # noqa: E741
    B = sl.compute((100,), lambda i: A[I[i]] if by_data else A[i], name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], 64)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    a = np.ones(100, "float32")
    given = [np.arange(100), a] if by_data else [a]
    f = sl.build(s, [*([I] if by_data else []), A, B], target="cuda-emulator")
    # the second warp of the second block has 4 of 32 lanes inside
    assert f.counters(*given)["B"].divergences == 1


def test_the_element_of_a_race_is_right_under_padded_rows() -> None:
    A = sl.placeholder((4, 4), name="A")
    B = sl.compute((1, 4, 4), lambda b, i, j: A[j, i] + 1, name="B")
    s = sl.schedule(B)
    S = s.cache_read(A, "shared", [B])
    b, i, j = B.op.axis
    for axis, name in ((b, "blockIdx.x"), (i, "threadIdx.y"), (j, "threadIdx.x")):
        s[B].bind(axis, name)
    s[S].compute_at(s[B], b)
    s[S].bind(S.op.axis[0], "threadIdx.y")
    s[S].bind(S.op.axis[1], "threadIdx.x")
    s[S].storage_align(S.op.axis[0], 4, 1)
    f = sl.build(s, target="cuda-emulator", barriers=False)
    with pytest.raises(RaceError) as found:
        f.check(np.arange(16, dtype="float32").reshape(4, 4))
    # thread 1 reads the transposed element that thread 4 wrote
    assert found.value.element == (1, 0) and found.value.threads == ((4, 0), (1, 0))


@pytest.mark.parametrize("size", slow_but(["1", "5"], [0, 1, 2, 5]))
def test_storage_of_a_stage_that_nothing_reads_has_no_elements(size: int) -> None:
    n = sl.var("n")
    X = sl.placeholder((4, n), name="X")
    V = sl.compute((4, n // 2), lambda i, j: X[i, j * 2] + X[i, j * 2 + 1], name="V")
    last = n // 2 - 1
    P = sl.compute(
        (2, n // 2), lambda i, j: V[i + 2, sl.min(j * 2, last)] - V[i // 2, j], name="P"
    )
    s = sl.schedule(P)
    for stage in (V, P):
        block, thread = s[stage].split(s[stage].fuse(*s[stage].op.axis), factor=32)
        s[stage].bind(block, "blockIdx.x")
        s[stage].bind(thread, "threadIdx.x")
    x = np.random.default_rng(0).random((4, size), "float32")
    v = x[:, : size // 2 * 2 : 2] + x[:, 1 : size // 2 * 2 : 2]
    wanted = v[2:, np.minimum(np.arange(size // 2) * 2, size // 2 - 1)] - v[[0, 0]]
    kernel = sl.build(s, target="cuda-emulator")
    np.testing.assert_allclose(kernel(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(kernel.check(x), wanted, rtol=1e-6)


# 64 threads, of which the second warp adds the value of its neighbour
BRANCH = """
from numba import cuda
from schedlang.intrinsics.gpu import exchange


@cuda.jit()
def A_kernel(A):
    at = cuda.threadIdx.y * 32 + cuda.threadIdx.x
    x = A[at]
    if cuda.threadIdx.{branch}:
        x = x + exchange(x, 1)
    cuda.syncthreads()
    A[at] = x


def launch(A):
    A_kernel[(1,), (32, 2), 0](A)
"""


def test_a_warp_takes_a_branch_alone(tmp_path: Path) -> None:
    path = tmp_path / "branch.py"
    path.write_text(BRANCH.format(branch="y == 1"))
    a = np.arange(64)
    simulate_file(path)["launch"](a)
    second = np.arange(32, 64)
    assert a.tolist() == [*range(32), *(second + (second ^ 1))]
    path.write_text(BRANCH.format(branch="x < 16"))
    with pytest.raises(VerifyError, match="some threads of a warp come to an exchange or an inst"):
        simulate_file(path)["launch"](a)
