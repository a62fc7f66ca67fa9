"""Each line of a kernel's source knows the statement of the loop nest that it comes from."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.ir import nodes as ir
from schedlang.ir.nodes import walk
from schedlang.machine import nodes as machine
from schedlang.machine.identifiers import identifier
from schedlang.machine.walks import walk as machine_walk
from tests import gpu_schedules
from tests.graphs import product
from tests.shown_schedules import GPU, TEN, kernel, tiled


def by_statement(f: sl.Kernel) -> dict[int, list[str]]:
    """Return the source lines of each statement, without their margins."""
    lines = f.source.removesuffix("\n").split("\n")
    assert len(lines) == len(f.origins)
    found: dict[int, list[str]] = {}
    for line, number in zip(lines, f.origins):
        if number is not None:
            found.setdefault(number, []).append(line.strip())
    return found


def statements(f: sl.Kernel) -> list[ir.Stmt]:
    return [stmt for stmt, _ in walk(f.loop_nest.body)]


def test_loops_and_stores_of_a_plain_nest() -> None:
    _, _, C = product(3, 4, 5)
    f = sl.build(sl.schedule(C), target="python")
    # 0 for i, 1 for j, 2 C = 0, 3 for k, 4 C +=
    assert by_statement(f) == {
        0: ["for i in range(3):"],
        1: ["for j in range(4):"],
        2: ["C_sum = float32(0)"],
        3: ["for k in range(5):"],
        4: ["C_sum = C_sum + load(A, i*5 + k) * load(B, k*4 + j)", "store(C, i*4 + j, C_sum)"],
    }


def test_copies_vectors_and_kept_sums_belong_to_their_store() -> None:
    f = sl.build(tiled(), target=sl.Target("python", vector_bytes=32))
    found = by_statement(f)
    texts = [type(s).__name__ for s in statements(f)]
    assert texts == ["For"] * 4 + ["Store"] + ["For"] * 3 + ["Store"]
    # the parallel loop, and the function of its body
    assert found[0] == [
        "@njit(**OPTIONS)", "def C_i_outer(i_outer, A, B, C):",
        "for i_outer in prange(3):", "C_i_outer(int64(i_outer), A, B, C)",
    ]  # fmt: skip
    assert found[1] == ["for j_outer in range(2):"]
    # the unrolled and the vectorized loop leave no line
    assert not {2, 3, 6, 7} & found.keys()
    # four rows of a vector of 32 sums: their starts, updates and stores
    assert len(found[4]) == 4
    assert all(x.endswith(" = broadcast(float32(0), 32)") for x in found[4])
    assert found[5] == ["for k in range(8):"]
    # the offset that the stores have in common
    assert "C_at = i_outer*256 + j_outer*32" in found[8]
    assert sum(x.startswith("vstore(C, ") for x in found[8]) == 4
    assert sum(x.count(" = C_sum") for x in found[8]) == 4


def test_a_loop_over_vectors_and_its_rest() -> None:
    A = sl.placeholder((200,), name="A")
    B = sl.compute((200,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    f = sl.build(s, target=sl.Target("python", vector_bytes=32))
    found = by_statement(f)
    # 6 vectors of 4*8 lanes in a loop, and 8 lanes
    assert found[0] == ["for i in range(0, 192, 32):"]
    assert [line.split("(")[0] for line in found[1]] == ["vstore", "vstore"]


def test_masks_belong_to_their_guard() -> None:
    f = kernel("guarded")
    guards = [k for k, stmt in enumerate(statements(f)) if isinstance(stmt, ir.If)]
    found = by_statement(f)
    assert guards and all(any(" = " in line or "if " in line for line in found[k]) for k in guards)


def test_the_lines_of_c() -> None:
    _, _, C = product(3, 4, 5)
    f = sl.build(sl.schedule(C), target="c")
    found = by_statement(f)
    assert found[0][0].startswith("for (int64_t i = 0; i < 3; i++) {") and found[0][1] == "}"
    assert found[2] == ["float C_sum = (float)0;"]
    assert found[4][-1] == "C[i * 4 + j] = C_sum;"


@pytest.mark.parametrize("name", TEN)
def test_every_statement_of_the_machine_nest_has_a_fitting_origin(name: str) -> None:
    f = kernel(name)
    nest = f.loop_nest
    origins = statements(f)
    stored = 0
    for function in f.machine_nest.functions:
        for stmt, _ in machine_walk(function.body):
            if isinstance(stmt, (machine.Barrier, machine.Hint)):
                assert stmt.number is None
                continue
            assert stmt.number is not None, stmt
            origin = origins[stmt.number]
            if isinstance(stmt, machine.For):
                assert isinstance(origin, ir.For)
                assert stmt.index.name == identifier(nest.names[origin.axis])
            elif isinstance(stmt, machine.Store):
                assert isinstance(origin, ir.Store)
                stored += 1
                tensors = {b.tensor for b in origin.buffers} | {None}
                assert name in GPU or stmt.array.buffer in origin.buffers
                assert stmt.array.buffer.tensor in tensors or ".next" in stmt.array.buffer.name
    assert stored


@pytest.mark.parametrize("case", gpu_schedules.CASES)
def test_the_lines_of_gpu_kernels(case: str) -> None:
    made = gpu_schedules.CASES[case]()
    f = sl.build(made.schedule, made.args, target="cuda")
    origins = statements(f)
    for line, number in zip(f.source.split("\n"), f.origins):
        if "cuda.syncthreads" in line:
            assert number is None
        if " = cuda.threadIdx" in line or " = cuda.blockIdx" in line:
            loop = origins[number or 0]
            assert isinstance(loop, ir.For) and f"cuda.{loop.tag} " in line
        if number is None and line.startswith("    ") and not line.startswith("     "):
            # only the head of the launcher, the imports and the waits come from no statement
            waits = ("cuda.syncthreads()", "wait_copies(", "commit_copies")
            assert line.strip().startswith(waits) or "kernels in order" in line


def test_the_emulator_has_the_same_statements() -> None:
    made = gpu_schedules.gemm(64, 64, 64, double=True, virtual=True)
    found = [
        {n for n in sl.build(made.schedule, made.args, target=t).origins if n is not None}
        for t in ("cuda", "cuda-emulator")
    ]
    assert found[0] == found[1]


def test_origins_survive_pickling_and_change_no_result() -> None:
    import pickle

    f = sl.build(tiled(), target="python")
    again = pickle.loads(pickle.dumps(f))
    assert again.origins == f.origins
    a, b = np.ones((12, 8), "float32"), np.ones((8, 64), "float32")
    np.testing.assert_array_equal(again(a, b), a @ b)
