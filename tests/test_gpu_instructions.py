"""Instructions in the threads of a GPU: PTX, and functions of Python."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from schedlang import instructions
from schedlang.instructions import PythonFunction
from schedlang.intrinsics.cpu import broadcast, fma
from tests.marks import compiles
from tests.test_instruction_forms import added, dot
from tests.test_instructions import agree, operands

pytestmark = pytest.mark.slow


def by_threads(
    tile: sl.Instruction, m: int, n: int, k: int, shared: bool = False, virtual: bool = False
) -> tuple[Any, Any, Any, Any]:
    """Return A, B, C and a schedule for a GPU that uses an instruction of one lane."""
    a, b = tile.operands
    result, terms = tile.output.dtype, int(a.shape[0])
    A = sl.placeholder((m, k), a.dtype, name="A")
    B = sl.placeholder((n, k), b.dtype, name="B")
    r = sl.reduce_axis(k, name="k")

    def element(i: Any, j: Any) -> Any:
        return sl.sum(A[i, r].astype(result) * B[j, r].astype(result), axis=r)

    C = sl.compute((m, n), element, name="C")
    s = sl.schedule(C)
    L = s.cache_write(C, "local")
    (i, j) = C.op.axis
    by, bx, ty, tx = s[C].tile(i, j, 8, 16)
    if virtual:
        ty, vy = s[C].split(ty, factor=2)
        s[C].reorder(vy, ty, tx)
        s[C].bind(vy, "vthread")
    for axis, name in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"),
                       (tx, "threadIdx.x")):  # fmt: skip
        s[C].bind(axis, name)
    s[L].compute_at(s[C], tx)
    ko, ki = s[L].split(s[L].op.reduce_axis[0], factor=4 * terms)
    km, ki = s[L].split(ki, factor=terms)
    s[L].reorder(ko, km, *s[L].op.axis, ki)
    if shared:
        for tensor in (A, B):
            S = s.cache_read(tensor, "shared", [L])
            s[S].compute_at(s[L], ko)
            thread = s[S].fuse(*s[S].op.axis)
            outer, inner = s[S].split(thread, factor=16)
            s[S].bind(inner, "threadIdx.x")
    s[L].tensorize(ki, tile)
    return A, B, C, s


WAYS = {
    "global": ((8, 16, 32), {}),
    "shared": ((7, 21, 32), {"shared": True}),
    "virtual threads": ((8, 16, 32), {"shared": True, "virtual": True}),
}


@pytest.mark.parametrize("way", WAYS)
def test_dp4a_in_threads(way: str) -> None:
    size, how = WAYS[way]
    A, B, C, s = by_threads(instructions.dp4a, *size, **how)
    arrays = operands(A, B)
    emulated = sl.build(s, [A, B, C], target="cuda-emulator")
    agree(emulated(*arrays), C, *arrays)
    for order in ("forward", "shuffle"):
        agree(emulated.check(*arrays, order=order), C, *arrays)
    f = sl.build(s, [A, B, C], target="cuda")
    assert 'assemble("dp4a.u32.s32 $0, $2, $3, $1;"' in f.source
    assert "vload_aligned(A" in f.source
    agree(f.simulate(*arrays), C, *arrays)


@pytest.mark.parametrize(("offset", "load"), [(1, "vload"), (4, "vload_aligned")])
def test_dp4a_of_padded_rows(offset: int, load: str) -> None:
    """Operands whose address may be odd are loaded by the byte."""
    A, B, C, s = by_threads(instructions.dp4a, 7, 13, 32, shared=True)
    for stage in s.stages:
        if stage.op.name.endswith(".shared"):
            stage.storage_align(stage.op.axis[0], 32, offset)
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], target="cuda-emulator")(*arrays), C, *arrays)
    f = sl.build(s, [A, B, C], target="cuda")
    assert f" {load}(A_shared, " in f.source and f" {load}(B_shared, " in f.source


def test_the_requests_of_dp4a() -> None:
    """The 4 warps of a block load 4 bytes of each operand at once, 8 times."""
    A, B, C, s = by_threads(instructions.dp4a, 8, 16, 32)
    f = sl.build(s, [A, B, C], target="cuda-emulator")
    counted = f.counters(*operands(A, B))["C"]
    assert counted.global_loads == 4 * 8 * 2 and counted.global_stores == 4


@compiles
def test_the_machine_code_of_dp4a() -> None:
    A, B, C, s = by_threads(instructions.dp4a, 64, 64, 256, shared=True)
    f = sl.build(s, [A, B, C], target=sl.Target("cuda", arch="sm_90"))
    assert f.ptx.count("dp4a.u32.s32") >= 1 and "IDP" in f.sass
    assert f.resources["C_kernel"].spill_bytes == 0


@compiles
def test_a_check_of_dp4a_compiles_it() -> None:
    result = instructions.dp4a.check(samples=20)
    assert "dp4a.u32.s32" in result.assembly
    if not result.ran:
        assert str(result) == "dp4a compiles; this machine has no GPU, so nothing ran"


def two(c: Any, a: Any, b: Any) -> Any:
    return fma(broadcast(a, 2), b, c)


def test_a_function_of_python_in_threads() -> None:
    output = dot(2, 1, "float32", "float32", "float32")
    emit = {"cuda": PythonFunction(two)}
    tile = sl.instruction("two", output, emit, tolerance=2.0**-22)
    A, B = sl.placeholder((4, 10), name="A"), sl.placeholder((10, 12), name="B")
    k = sl.reduce_axis(10, name="k")
    C = sl.compute((4, 12), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    jo, ji = s[C].split(C.op.axis[1], factor=2)
    s[C].reorder(C.op.axis[0], jo, k, ji)
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(jo, "threadIdx.x")
    s[C].tensorize(ji, tile)
    f = sl.build(s, [A, B, C], target="cuda")
    assert '@cuda.jit(device=True, inline="always", **OPTIONS)\ndef two(c, a, b):' in f.source
    arrays = operands(A, B)
    agree(f.simulate(*arrays), C, *arrays)
    agree(sl.build(s, [A, B, C], target="cuda-emulator")(*arrays), C, *arrays)


@compiles
@pytest.mark.parametrize("lanes", [1, 2, 16])
def test_other_forms_for_gpus_compile(lanes: int) -> None:
    output = dot(lanes, 8 if lanes == 1 else 1, "float32", "float32", "float32")
    function = {1: added, 2: two, 16: sixteen}[lanes]
    tile = sl.instruction("tile", output, {"cuda": PythonFunction(function)}, tolerance=2.0**-20)
    assert "fma.rn.f32" in tile.check(samples=4).assembly


def sixteen(c: Any, a: Any, b: Any) -> Any:
    return fma(broadcast(a, 16), b, c)
