"""Tests of ``ldmatrix``: loads of matrices from shared memory, which a warp holds as fragments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, ComputeError, ComputeTypeError, ScheduleError, VerifyError
from schedlang.expr.nodes import Binary, Const
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.matrix_loads import loads_matrices
from schedlang.gpu_lowering.memory_requests import Request, requests_of_block
from schedlang.gpu_lowering.simt import simulate
from schedlang.gpu_lowering.without_barriers import without_barriers
from schedlang.instructions import Digit, Fragment, MatrixLoad
from schedlang.instructions.box import IN_THE_BOX
from schedlang.ir.nodes import Barrier, Block, If, Stmt
from schedlang.ir.rewrite import deep
from tests.marks import compiles
from tests.matrix_products import by_matrix_loads, operands, product
from tests.test_matrix_units import STEPS, agree

LOADS = [d for d in IN_THE_BOX if d.loads_matrices]


def swizzled(tile: Any) -> None:
    """Swizzle rows of 32 elements of 16 bits: each of 8 rows has its quarter of all banks."""
    tile.transform_layout(lambda i, j: (i, j // 32, j // 8 % 4 ^ i // 2 % 4, j % 8))


def padded(tile: Any) -> None:
    tile.storage_align(tile.op.axis[0], 64, 8)


def plain(tile: Any) -> None:
    pass


def loaded(
    name: str, left: str, right: str, transposed: bool = False,
    prepare: Callable[[Any], object] = plain,
) -> tuple[sl.Schedule, list[sl.Tensor]]:  # fmt: skip
    """Return a product of matrices whose fragments are loaded by ``left`` and ``right``."""
    s, args = product(32, 32, 4 * STEPS[name], name, transposed=transposed, prepare=prepare)
    by_matrix_loads(s, left, right)
    return s, args


def small() -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return a product of 16 x 8 elements by one warp, in two steps."""
    s, args = product(16, 8, 32, tiles=(1, 1), warps=(1, 1), transposed=True)
    by_matrix_loads(s, "ldmatrix_x4_f16", "ldmatrix_x2_f16")
    return s, args


# the product, the loads of A and B, whether B has its columns in rows, and rows in shared memory
CASES: dict[str, tuple[str, str, str, bool, Callable[[Any], object]]] = {
    "columns": ("mma_f16", "ldmatrix_x4_f16", "ldmatrix_x2_trans_f16", False, plain),
    "rows": ("mma_f16", "ldmatrix_x4_f16", "ldmatrix_x2_f16", True, swizzled),
    "two tiles": ("mma_f16", "ldmatrix_x4_f16", "ldmatrix_x4_trans_f16", False, plain),
    "two tiles of rows": ("mma_bf16", "ldmatrix_x4_bf16", "ldmatrix_x4_bf16", True, swizzled),
    "parts": ("mma_f16", "ldmatrix_x1_f16", "ldmatrix_x1_f16", True, padded),
    "parts of columns": ("mma_bf16", "", "ldmatrix_x1_trans_bf16", False, plain),
    "tf32": ("mma_tf32", "ldmatrix_x4_tf32", "ldmatrix_x2_tf32", True, plain),
    "tf32, two tiles": ("mma_tf32", "ldmatrix_x4_tf32", "ldmatrix_x4_tf32", True, plain),
    "s8": ("mma_s8", "ldmatrix_x4_s8", "ldmatrix_x2_s8", True, plain),
    "u8, two tiles": ("mma_u8", "", "ldmatrix_x4_u8", True, plain),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_products_of_loaded_fragments(case: str) -> None:
    name, left, right, transposed, prepare = CASES[case]
    s, args = loaded(name, left, right, transposed=transposed, prepare=prepare)
    a, b, _, _ = operands(args, transposed)
    f = sl.build(s, args, target="cuda")
    agree(f.check(a, b), args, transposed)
    # the simulator gives each thread what PTX ISA draws, by the addresses in the source
    agree(f.simulate(a, b), args, transposed)
    assert "load_matrix" in f.source
    if case in ("rows", "parts of columns", "tf32"):
        agree(sl.build(s, args, target="cuda-emulator")(a, b), args, transposed)


@pytest.mark.slow
def test_rows_of_a_that_run_along_its_rows() -> None:
    A = sl.placeholder((64, 32), "float16", name="A")
    B = sl.placeholder((64, 8), "float16", name="B")
    r = sl.reduce_axis(64, name="r")
    C = sl.compute(
        (32, 8),
        lambda i, j: sl.sum(A[r, i].astype("float32") * B[r, j].astype("float32"), axis=r),
        name="C",
    )
    s = sl.schedule(C)
    F = s.cache_write(C, "fragment")
    S, FB = s.cache_read(A, "shared", [F]), s.cache_read(B, "fragment", [F])
    FA = s.cache_read(S, "fragment", [F])
    block, row = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(block, "blockIdx.x")
    s[F].compute_at(s[C], block)
    steps, step = s[F].split(s[F].op.reduce_axis[0], factor=16)
    s[F].reorder(steps, *s[F].op.axis, step)
    for tile in (S, FA, FB):
        s[tile].compute_at(s[F], steps)
    s[S].bind(s[S].split(s[S].fuse(*s[S].op.axis), factor=32)[1], "threadIdx.x")
    s[FA].tensorize(s[FA].op.axis[0], sl.instructions.ldmatrix_x4_trans_f16)
    s[F].tensorize(s[F].op.axis[0], sl.instructions.mma_f16)
    f = sl.build(s, [A, B, C], target="cuda")
    a, b = (np.random.default_rng(0).standard_normal(T.shape).astype("float16") for T in (A, B))
    expected = a.astype("float64").T @ b.astype("float64")
    for result in (f.check(a, b), f.simulate(a, b)):
        np.testing.assert_allclose(result, expected, atol=1e-4)


def test_a_product_in_lockstep() -> None:
    s, args = small()
    a, b, _, _ = operands(args, transposed=True)
    f = sl.build(s, args, target="cuda")
    agree(f.check(a, b), args, transposed=True)
    assert f.counters(a, b)["C"].shared_loads == 2 * 2


@pytest.mark.slow
@pytest.mark.parametrize("ahead", ["pipeline", "double_buffer"])
def test_loads_from_tiles_that_are_filled_ahead(ahead: str) -> None:
    def prepare(tile: Any) -> None:
        tile.storage_align(tile.op.axis[0], 32, 4)
        tile.pipeline(3) if ahead == "pipeline" else tile.double_buffer()

    s, args = product(16, 8, 64, "mma_tf32", (1, 1), (1, 1), transposed=True, prepare=prepare)
    by_matrix_loads(s, "ldmatrix_x4_tf32", "ldmatrix_x2_tf32")
    a, b, _, _ = operands(args, transposed=True)
    f = sl.build(s, args, target="cuda")
    agree(f.check(a, b), args, transposed=True)
    agree(f.simulate(a, b), args, transposed=True)
    # loads have none; a store fills two rows, which have some banks in common
    counted = f.counters(a, b)["C"]
    assert counted.bank_conflicts == counted.shared_stores


def test_the_banks_of_rows() -> None:
    s, args = small()
    (launch,) = device_program(sl.lower(s, args), sl.Target("cuda")).launches
    seen: list[Request] = []
    assert requests_of_block(launch, (0, 0), {}, seen.append)
    loads = [r for r in seen if r.buffer.scope == "shared" and not r.stores]
    # two steps of a load for A, and of one for B, whose first 16 lanes give the rows of 2 matrices
    assert [(r.width, int(r.active.sum())) for r in loads] == [(16, 32), (16, 16)] * 2
    assert loads[0].bytes[:9].tolist() == [64 * row for row in range(9)]
    assert loads[1].bytes[:9].tolist() == [64 * row for row in range(8)] + [16]


@pytest.mark.slow
@pytest.mark.parametrize(("prepare", "conflicts"), [(plain, 384), (swizzled, 0), (padded, 0)])
def test_swizzled_rows_meet_no_bank_conflicts(
    prepare: Callable[[Any], object], conflicts: int
) -> None:
    s, args = loaded("mma_f16", "ldmatrix_x4_f16", "ldmatrix_x4_f16", transposed=True,
                     prepare=prepare)  # fmt: skip
    counted = sl.build(s, args, target="cuda").counters(*operands(args, True)[:2])["C"]
    # 2 x 2 warps of blocks, 4 steps, a load for each operand: without it, 4 and 4 of 32 bits
    assert counted.shared_loads == 4 * 4 * 2
    assert counted.bank_conflicts == conflicts


def test_the_program_loads_registers() -> None:
    s, args = small()
    program = str(sl.build(s, args, target="cuda-emulator").program)
    assert "tensorize ldmatrix_x4_f16 register in 0..8:\n      A.shared.fragment[" in program
    assert "tensorize ldmatrix_x2_f16 register in 0..4:\n      B.shared.fragment[" in program


def test_a_schedule_with_loads_is_data() -> None:
    s, args = small()
    again = sl.Schedule.from_json(s.to_json(), args[2])
    assert str(again) == str(s) and "ldmatrix_x2_f16" in s.as_python()


@pytest.mark.parametrize("declared", LOADS, ids=str)
def test_lanes_hold_what_ptx_says(declared: sl.Instruction) -> None:
    """Lane 4*g + t holds 4 bytes of row g; where matrices are transposed, of column g."""
    load = declared.emit["cuda"]
    assert isinstance(load, MatrixLoad)
    each = {"float32": 1, "int8": 4, "uint8": 4}.get(declared.output.dtype, 2)
    for lane in range(32):
        for matrix in range(load.fragment.registers // each):
            for part in range(each):
                row, column = lane // 4, lane % 4 * each + part
                if load.transposed:
                    row, column = column, row
                first = load.fragment.element(*load.row(8 * matrix + row, declared.output.dtype))
                own = load.fragment.element(lane, matrix * each + part)
                along = sum(b - a for a, b in zip(first, own))
                assert sorted(b - a for a, b in zip(first, own)) == sorted((0, column))
                assert along == column


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("declared", LOADS, ids=str)
def test_random_matrices_compile_alone(declared: sl.Instruction) -> None:
    compared = declared.check(samples=2)
    assert "ldmatrix.sync.aligned.m8n8" in compared.assembly
    assert not compared.ran or compared.error == 0


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", ["two tiles", "rows", "tf32", "s8"])
def test_machine_code_loads_matrices(case: str, arch: str) -> None:
    name, left, right, transposed, prepare = CASES[case]
    s, args = loaded(name, left, right, transposed=transposed, prepare=prepare)
    f = sl.build(s, args, target=sl.Target("cuda", arch=arch))
    words = [word for line in f.sass.splitlines() for word in line.split()]
    kinds = {word for word in words if word.startswith("LDSM.16.M")}
    right_half = "LDSM.16.MT88.4" if case == "two tiles" else "LDSM.16.M88.2"
    assert kinds == {"LDSM.16.M88.4", right_half}
    # fragments come from nowhere else
    assert not any(word.split(".")[0] in ("LDS", "PRMT") for word in words)
    (resources,) = f.resources.values()
    assert (resources.spill_bytes, resources.local_bytes) == (0, 0)


@pytest.mark.slow
@compiles
def test_a_saved_file_stands_alone(tmp_path: Path) -> None:
    s, args = loaded("mma_f16", "ldmatrix_x4_f16", "ldmatrix_x2_trans_f16")
    sl.build(s, args, target="cuda").save(tmp_path / "alone.py")
    text = f"""
import sys
sys.modules["schedlang"] = None
sys.path.insert(0, {str(tmp_path)!r})
import alone
from numba import cuda, types
kinds = [types.Array(k, 1, "C") for k in (types.uint16, types.uint16, types.float32)]
ptx, _ = cuda.compile_ptx(alone.C_kernel.py_func, tuple(kinds), cc=(8, 0))
print("x4.shared.b16" in ptx, "x2.trans.shared.b16" in ptx)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["True", "True"], done.stderr


def changed(change: Callable[[Stmt], Stmt]) -> None:
    """Run the program of a product on the simulated device after a change."""
    s, args = small()
    program = device_program(sl.lower(s, args), sl.Target("cuda"))
    (launch,) = program.launches
    body = deep(launch.body, change)
    assert isinstance(body, Block)
    arrays = operands(args, transposed=True)[:2]
    simulate(replace(program, steps=(replace(launch, body=body),)), arrays, {})


def test_all_threads_of_a_warp_take_part() -> None:
    def halved(stmt: Stmt) -> Stmt:
        if not loads_matrices(stmt):
            return stmt
        lane = stmt.body.stmts[0].indices[-2]  # type: ignore[attr-defined]
        return If(Binary("<", lane, Const(16, "int64", True), "bool"), Block((stmt,)))

    with pytest.raises(VerifyError, match="16 of the 32 threads of a warp come to ldmatrix_x4"):
        changed(halved)


def test_rows_that_no_thread_has_waited_for() -> None:
    with pytest.raises(VerifyError, match=r"A.shared.* without a barrier in between"):
        changed(lambda stmt: Block() if isinstance(stmt, Barrier) else stmt)


def as_held(tile: Any) -> None:
    """Let each thread fill the elements that it gets."""
    i, k = tile.op.axis
    _, _, i, k = tile.tile(i, k, 8, 8)
    pair, _ = tile.split(k, factor=2)
    tile.bind(tile.fuse(i, pair), "threadIdx.x")


def test_lanes_wait_for_rows_of_others() -> None:
    f = single(X4, prepare=as_held)
    a = np.arange(256, dtype="float16").reshape(16, 16)
    # each thread gets its own elements back, but other threads fill the row whose address it gives
    np.testing.assert_array_equal(f.check(a), a * 2)
    assert f.source.count("syncthreads") == 1
    program = without_barriers(device_program(f.loop_nest, sl.Target("cuda")))
    with pytest.raises(VerifyError, match=r"S\[.* without a barrier in between"):
        simulate(program, [a], {})


def single(
    declared: sl.Instruction, scope: str = "shared", prepare: Callable[[Any], object] = plain,
    index: str = "i, k",
) -> Any:  # fmt: skip
    """Return the kernel that loads a tile of 16 x 16 elements and copies it to another array."""
    A = sl.placeholder((16, 16), "float16", name="A")
    S = sl.compute((16, 16), lambda i, k: A[i, k], name="S")
    F = sl.compute((16, 16), eval(f"lambda i, k: S[{index}]", {"S": S}), name="F")  # noqa: S307
    C = sl.compute((16, 16), lambda i, k: F[i, k] * 2, name="C")
    s = sl.schedule(C)
    block = s[C].fuse()
    s[C].reorder(block, *C.op.axis)
    s[C].bind(block, "blockIdx.x")
    for tensor, kept in ((F, "fragment"), (S, scope)):
        s[tensor].compute_at(s[C], block)
        s[tensor].set_scope(kept)
    prepare(s[S])
    s[F].tensorize(F.op.axis[0], declared)
    return sl.build(s, [A, C], target="cuda")


def wrong_order() -> None:
    s, args = product(32, 16, 64, tiles=(1, 2))
    copy = s[s.tensor("A.shared.fragment")]
    _, _, inner, _ = copy.tile(*copy.op.axis, 8, 16)
    # the first register of b is one of two terms that follow each other, and so it is of a
    copy.tensorize(inner, sl.instructions.ldmatrix_x2_f16)
    sl.build(s, args, target="cuda")


def columns_of_words() -> None:
    s, args = product(16, 8, 16, "mma_tf32", tiles=(1, 1), warps=(1, 1))
    copy = s[s.tensor("B.shared.fragment")]
    copy.tensorize(copy.op.axis[0], sl.instructions.ldmatrix_x2_tf32)
    sl.build(s, args, target="cuda")


def symbolic_rows() -> None:
    n = sl.var("n")
    A = sl.placeholder((16, n), "float16", name="A")
    S = sl.compute((16, n), lambda i, k: A[i, k], name="S")
    C = sl.compute((16, 16), lambda i, k: S[i, k] * 2, name="C")
    s = sl.schedule(C)
    s[S].set_scope("shared")
    F = s.cache_read(S, "fragment", [C])
    s[F].tensorize(F.op.axis[0], X4)


def apart(tile: Any) -> None:
    tile.transform_layout(lambda i, j: (i, j // 8, j // 2 % 4 ^ i % 4, j % 2))


X4 = sl.instructions.ldmatrix_x4_f16
FRAGMENT = X4.emit["cuda"].fragment
S16 = sl.placeholder((16, 16), "float16", name="s")
COPY = sl.compute((16, 16), lambda i, j: S16[i, j], name="c")


def declared(
    output: sl.Tensor = COPY, fragment: Any = FRAGMENT, transposed: Any = False, **options: Any
) -> None:
    sl.instruction("own", output, emit={"cuda": MatrixLoad(fragment, transposed)}, **options)


def of_float32(transposed: bool) -> None:
    s = sl.placeholder((16, 8), "float32", name="s")
    c = sl.compute((16, 8), lambda i, j: s[i, j], name="c")
    declared(c, sl.instructions.ldmatrix_x4_tf32.emit["cuda"].fragment, transposed)


def twice_as_large() -> None:
    s = sl.placeholder((16, 32), "float16", name="s")
    digits = (*FRAGMENT.digits, Digit("register", 8, 2, 1, 16))
    declared(sl.compute((16, 32), lambda i, j: s[i, j], name="c"), Fragment("c", (16, 32), digits))


def doubled() -> None:
    declared(sl.compute((16, 16), lambda i, j: S16[i, j] * 2, name="c"))


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "scope": (
        lambda: single(X4, "local"), ScheduleError,
        r"S is in local memory, and ldmatrix_x4_f16 needs s in shared memory",
    ),
    "pad": (
        lambda: single(X4, prepare=lambda tile: tile.storage_align(tile.op.axis[0], 16, 4)),
        ScheduleError,
        r"rows of S start 20 elements \(40 bytes\) apart along i, .* at multiples of 16 bytes\n"
        r".*multiples of 8 elements, or pad rows to such a multiple",
    ),
    "swizzle": (
        lambda: single(X4, prepare=apart), ScheduleError,
        r"the 8 elements of a row of S along k are not adjacent, and ldmatrix_x4_f16 loads rows of "
        r"16 bytes\n.*its last index is j % 8",
    ),
    "columns": (
        lambda: single(sl.instructions.ldmatrix_x2_f16), ScheduleError,
        r"the loops from there inwards are i in 0..16, k in 0..16, and ldmatrix_x2_f16 has i in "
        r"0..16, j in 0..8",
    ),
    "dtype": (
        lambda: single(sl.instructions.ldmatrix_x4_bf16), ScheduleError,
        r"F is float16, and the result of ldmatrix_x4_bf16 is bfloat16",
    ),
    "product": (
        wrong_order, BuildError,
        r"ldmatrix_x2_f16 \(stage A.shared.fragment\) does not give the threads the elements of "
        r"A.shared.fragment that they hold as a of",
    ),
    "rows of words": (
        columns_of_words, BuildError,
        r"ldmatrix_x2_tf32 .* does not give .*\n.* \(elements of 16 bits alone have _trans, so lay "
        r"B.shared out so\), and load a tile",
    ),
    "symbolic rows": (
        symbolic_rows, ScheduleError,
        r"no part of S.fragment computes all 16 x 16 terms of ldmatrix_x4_f16 without a test",
    ),
    "elements of 4 bytes": (
        lambda: of_float32(True), ComputeError, r"transposes matrices of float32, and ldmatrix"
    ),
    "size": (
        twice_as_large, ComputeError, r"each thread gets 32 bytes, and ldmatrix gives it 4, 8, 16"
    ),
    "copy": (doubled, ComputeError, r"computes s\[i, j\] \* .*, and ldmatrix copies elements"),
    "fragment": (
        lambda: declared(fragment=replace(FRAGMENT, of="d")), ComputeError,
        r"its fragment is of d\[16, 16\], and the declaration has c\[16, 16\]",
    ),
    "rows": (
        lambda: declared(transposed=True), ComputeError,
        r"does not hold rows of 16 bytes along dimension 1 as ldmatrix.trans gives them",
    ),
    "scopes": (
        lambda: declared(scopes={"s": "global", "c": "fragment"}), ComputeError,
        r"scopes={'s': 'global', 'c': 'fragment'} is not {'s': 'shared', 'c': 'fragment'}",
    ),
    "alignment": (
        lambda: declared(alignment={"s": 32}), ComputeError, r"rows start at multiples of 16 bytes"
    ),
    "type": (
        lambda: declared(fragment="c"), ComputeTypeError, r"give the Fragment of the result"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    program, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        program()
