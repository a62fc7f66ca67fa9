"""Tests of matrix units: instructions that the threads of a warp compute together on fragments."""

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
from schedlang.errors import VerifyError
from schedlang.expr.nodes import Binary, Const
from schedlang.gpu_lowering.fragments import is_of_warp
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.simt import simulate
from schedlang.ir.nodes import Block, If, Stmt, Store
from schedlang.ir.rewrite import deep, relocate
from tests.marks import compiles, slow_but
from tests.matrix_products import NAMES, operands, product

# terms that one instruction adds to each element
STEPS = {"mma_f16": 16, "mma_bf16": 16, "mma_tf32": 8, "mma_rounded_tf32": 8, "mma_s8": 32,
         "mma_u8": 32}  # fmt: skip


def agree(result: np.ndarray, args: list[sl.Tensor], transposed: bool = False) -> None:
    """Compare a product with NumPy's: integers exactly, floats as sums in any order may err."""
    _, _, expected, magnitude = operands(args, transposed)
    if "int" in args[0].dtype:
        np.testing.assert_array_equal(result, expected)
        return
    # float32 rounds each of k additions, and each product of float32 factors
    k = int(args[0].shape[1])
    assert (np.abs(result - expected) <= (k + 1) * 2.0**-24 * magnitude).all()


def program_of(s: sl.Schedule, args: list[Any]) -> Program:
    return device_program(sl.lower(s, args), sl.Target("cuda"))


# (row, column) of register r of lane 4*g + t, as PTX ISA draws it
HOLDERS: dict[str, dict[str, Callable[[int, int, int], tuple[int, int]]]] = {
    "mma_f16": {
        "c": lambda g, t, r: (g + 8 * (r > 1), 2 * t + r % 2),
        "a": lambda g, t, r: (g + 8 * (r in (2, 3, 6, 7)), 2 * t + r % 2 + 8 * (r > 3)),
        "b": lambda g, t, r: (2 * t + r % 2 + 8 * (r > 1), g),
    },
    "mma_tf32": {
        "c": lambda g, t, r: (g + 8 * (r > 1), 2 * t + r % 2),
        "a": lambda g, t, r: (g + 8 * (r in (1, 3)), t + 4 * (r > 1)),
        "b": lambda g, t, r: (t + 4 * r, g),
    },
    "mma_s8": {
        "c": lambda g, t, r: (g + 8 * (r > 1), 2 * t + r % 2),
        "a": lambda g, t, r: (g + 8 * (4 <= r < 8 or r >= 12), 4 * t + r % 4 + 16 * (r > 7)),
        "b": lambda g, t, r: (4 * t + r % 4 + 16 * (r > 3), g),
    },
}


@pytest.mark.parametrize("name", HOLDERS)
def test_lanes_hold_what_ptx_says(name: str) -> None:
    emission = getattr(sl.instructions, name).emit["cuda"]
    for fragment in emission.fragments:
        for lane in range(32):
            for register in range(fragment.registers):
                place = HOLDERS[name][fragment.of](lane // 4, lane % 4, register)
                assert fragment.element(lane, register) == place
                assert fragment.holder(place) == (lane, register)


@pytest.mark.parametrize("name", slow_but(["mma_f16", "mma_s8"], NAMES))
def test_products_in_lockstep(name: str) -> None:
    s, args = product(32, 8, 2 * STEPS[name], name, tiles=(1, 1))
    f = sl.build(s, args, target="cuda")
    a, b, _, _ = operands(args)
    agree(f.check(a, b), args)
    assert f.counters(a, b)["C"].matrix_products == 2 * 2


@pytest.mark.parametrize("transposed", slow_but(["True"], [False, True]))
def test_sizes_that_are_no_multiples(transposed: bool) -> None:
    s, args = product(19, 13, 25, tiles=(1, 1), transposed=transposed)
    f = sl.build(s, args, target="cuda")
    a, b, _, _ = operands(args, transposed)
    agree(f.check(a, b), args, transposed)
    for order in ("reverse", "shuffle"):
        agree(f.check(a, b, order=order), args, transposed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("transposed", [False, True])
def test_emulated_and_simulated(name: str, transposed: bool) -> None:
    s, args = product(35, 21, 2 * STEPS[name] + 1, name, (1, 2), (2, 1), transposed=transposed)
    a, b, _, _ = operands(args, transposed)
    agree(sl.build(s, args, target="cuda-emulator")(a, b), args, transposed)
    f = sl.build(s, args, target="cuda")
    agree(f.check(a, b), args, transposed)
    agree(f.simulate(a, b), args, transposed)


def test_the_source_runs_instructions_of_whole_warps() -> None:
    s, args = product(16, 8, 32, tiles=(1, 1), warps=(1, 1))
    a, b, _, _ = operands(args)
    agree(sl.build(s, args, target="cuda").simulate(a, b), args)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", ["pipeline", "double_buffer"])
def test_shared_tiles_that_are_filled_ahead(ahead: str) -> None:
    def prepare(tile: Any) -> None:
        tile.pipeline(3) if ahead == "pipeline" else tile.double_buffer()

    s, args = product(32, 16, 64, "mma_tf32", prepare=prepare)
    a, b, _, _ = operands(args)
    agree(sl.build(s, args, target="cuda").check(a, b), args)


UNITS = {"mma_f16": "HMMA.16816.F32", "mma_bf16": "HMMA.16816.F32.BF16",
         "mma_tf32": "HMMA.1688.F32.TF32", "mma_rounded_tf32": "HMMA.1688.F32.TF32",
         "mma_s8": "IMMA.16832.S8.S8",
         "mma_u8": "IMMA.16832.U8.U8"}  # fmt: skip


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_machine_code_uses_the_units(name: str, arch: str) -> None:
    s, args = product(64, 64, 4 * STEPS[name], name, (2, 4), (2, 2))
    f = sl.build(s, args, target=sl.Target("cuda", arch=arch))
    units = {word for line in f.sass.splitlines() for word in line.split() if "MMA." in word}
    assert units == {UNITS[name]}
    (resources,) = f.resources.values()
    assert (resources.spill_bytes, resources.local_bytes) == (0, 0)


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("name", ["mma_s8", "mma_u8"])
def test_bytes_stay_in_words(name: str) -> None:
    s, args = product(64, 64, 128, name, (2, 4), (2, 2), transposed=True)
    f = sl.build(s, args, target=sl.Target("cuda", arch="sm_80"))
    # four bytes that are adjacent in memory are one register: none is packed from bytes
    assert "IMMA." in f.sass and "PRMT" not in f.sass


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("name", NAMES)
def test_random_operands_compile_alone(name: str) -> None:
    # what runs where there is a GPU
    compared = getattr(sl.instructions, name).check(samples=2)
    assert "mma.sync.aligned" in compared.assembly
    assert not compared.ran or compared.error <= compared.instruction.tolerance


@pytest.mark.slow
@compiles
@pytest.mark.parametrize("name", ["mma_tf32", "mma_s8"])
def test_a_saved_file_stands_alone(name: str, tmp_path: Path) -> None:
    s, args = product(32, 8, 2 * STEPS[name], name, tiles=(1, 1))
    sl.build(s, args, target="cuda").save(tmp_path / "alone.py")
    text = f"""
import sys
sys.modules["schedlang"] = None
sys.path.insert(0, {str(tmp_path)!r})
import alone
from numba import cuda, types
kinds = [types.Array(getattr(types, k), 1, "C") for k in {[a.dtype for a in args]!r}]
ptx, _ = cuda.compile_ptx(alone.C_kernel.py_func, tuple(kinds), cc=(8, 0))
print("mma.sync.aligned" in ptx)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "True", done.stderr


def test_rows_that_meet_no_bank_conflicts() -> None:
    def padded(tile: Any) -> None:
        tile.storage_align(tile.op.axis[0], 64, 8)

    def conflicts(prepare: Callable[[Any], object]) -> int:
        s, args = product(32, 8, 64, tiles=(1, 1), transposed=True, prepare=prepare)
        a, b, _, _ = operands(args, transposed=True)
        return int(sl.build(s, args, target="cuda").counters(a, b)["C"].bank_conflicts)

    assert conflicts(lambda tile: None) > 0
    assert conflicts(padded) == 0


def test_te_has_a_scope_for_each_operand() -> None:
    A = sl.placeholder((16, 16), "float16", name="A")
    for scope in ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"):
        C = sl.compute((16, 16), lambda i, j: A[i, j] * 2, name="C")
        s = sl.schedule(C)
        s.cache_read(A, scope, [C])
        assert "A.fragment: float16[16, 16]   fragment" in str(s)


def test_a_schedule_with_fragments_is_data() -> None:
    s, args = product(35, 21, 50)
    again = sl.Schedule.from_json(s.to_json(), args[2])
    assert str(again) == str(s) and "mma_f16" in s.as_python()


def run(program: Program, args: list[sl.Tensor]) -> None:
    a, b, _, _ = operands(args)
    simulate(program, [a, b], {})


def changed(program: Program, change: Callable[[Stmt], Stmt]) -> Program:
    (launch,) = program.launches
    body = deep(launch.body, change)
    assert isinstance(body, Block)
    return replace(program, steps=(replace(launch, body=body),))


def test_all_threads_of_a_warp_take_part() -> None:
    s, args = product(32, 8, 32, tiles=(1, 1))
    program = program_of(s, args)
    lane = next(i.axis for i in program.launches[0].block if i.tag == "threadIdx.x")
    some = Binary("<", lane, Const(20, "int64", True), "bool")

    def halved(stmt: Stmt) -> Stmt:
        return If(some, Block((stmt,))) if is_of_warp(stmt) else stmt

    with pytest.raises(VerifyError, match="20 of the 32 threads of a warp come to mma_f16"):
        run(changed(program, halved), args)


def test_a_thread_accesses_its_own_registers() -> None:
    s, args = product(32, 8, 32, tiles=(1, 1))
    program = program_of(s, args)
    one = Const(1, "int64", True)

    def moved_to(buffer: Any, at: Any) -> Any:
        if buffer.fragment is None:
            return None
        return buffer, (*at[:-2], Binary("^", at[-2], one, "int64", True), at[-1])

    def neighbours(stmt: Stmt) -> Stmt:
        plain = isinstance(stmt, Store) and stmt.reducer is None
        return relocate(stmt, moved_to) if plain else stmt

    with pytest.raises(VerifyError, match="thread 0 accesses an element that lane 1 of its warp"):
        run(changed(program, neighbours), args)


def test_a_product_of_what_nobody_wrote() -> None:
    s, args = product(32, 8, 32, tiles=(1, 1))

    def unfilled(stmt: Stmt) -> Stmt:
        fills = isinstance(stmt, Store) and stmt.stage.startswith("B.shared.frag")
        return Block() if fills else stmt

    with pytest.raises(VerifyError, match=r"C.fragment.* is read before it is written"):
        run(changed(program_of(s, args), unfilled), args)
