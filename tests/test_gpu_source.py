"""Tests of emitted CUDA source: its text, simulated runs, and machine code, without a GPU."""

from __future__ import annotations

import ast
import pickle
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CacheWarning, CallError, MissingExtraError
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.runtime import nvidia
from schedlang.runtime.machine_code import kept_code
from tests.conftest import Golden
from tests.gpu_schedules import CASES, gemm, row_reduction, scaled, softmax
from tests.intrinsic_names import intrinsics_in
from tests.marks import compiles

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
GPU_PROGRAMS = [
    *sorted((HERE / "te_programs").glob("gpu_*.py")), HERE.parent / "examples/08_cuda_ladder.py"
]  # fmt: skip
SMALL = {
    "gemm": lambda: gemm(10, 9, 12, tile=8, depth=4),
    "gemm of odd sizes": lambda: gemm(10, 9, 11, tile=8, depth=4, vector=2),
    "gemm with double buffers": lambda: gemm(8, 8, 16, tile=8, depth=4, double=True, vector=4),
    "gemm with virtual threads": lambda: gemm(8, 8, 8, tile=8, rows=2, depth=4, virtual=True),
    "sum by a warp": lambda: row_reduction(4, 64, 32, 2),
    "sum by several warps": lambda: row_reduction(2, 130, 64, factored=True),
    "argmax by 20 threads": lambda: row_reduction(3, 50, 20, 1, "argmax"),
    "softmax": lambda: softmax(3, 40, 32),
}


# they are quick, and no small case stands for them
OTHERS = ("max by two warps of rows", "softmax by warps", "argmax", "argmax by several warps",
          "gemm with virtual threads, odd")  # fmt: skip
SIMULATED = {**{f"small {name}": make for name, make in SMALL.items()}, **CASES}


@pytest.mark.parametrize("name", SIMULATED)
def test_the_source_agrees_with_numpy(name: str) -> None:
    case = SIMULATED[name]()
    f = sl.build(case.schedule, case.args, target="cuda")
    np.testing.assert_allclose(f.simulate(*case.inputs), case.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["scaled", "gemm", "softmax", "argmax"])
def test_source(name: str, golden: Golden) -> None:
    case = {"scaled": scaled, "argmax": lambda: row_reduction(33, 100, 16, 3, "argmax"),
            "gemm": lambda: gemm(64, 64, 64, vector=4, double=True),
            "softmax": lambda: softmax(20, 100, 64)}[name]()  # fmt: skip
    golden(sl.build(case.schedule, case.args, target="cuda").source)


def test_loops_that_are_fused_again_have_short_names() -> None:
    A = sl.placeholder((2, 3, 4, 10), name="A")
    B = sl.compute(A.shape, lambda n, c, y, x: A[n, c, y, x] * 2, name="B")
    C = sl.compute(A.shape, lambda n, c, y, x: B[n, c, y, x] + 1, name="C")
    s = sl.schedule(C)
    for tensor in (B, C):
        n, c, y, x = s[tensor].op.axis
        stage = s[tensor]
        # in two ways, of which both have the same short name
        stage.bind(
            stage.fuse(stage.fuse(n, c), y) if tensor is B else stage.fuse(n, stage.fuse(c, y)),
            "blockIdx.x",
        )
        stage.bind(x, "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda")
    assert "n_c_y_fused_1 = cuda.blockIdx.x  # n.c.fused.y.fused in 0..24\n" in f.source
    assert "n_c_y_fused = cuda.blockIdx.x  # n.c.y.fused.fused in 0..24\n" in f.source
    a = np.arange(240, dtype="float32").reshape(2, 3, 4, 10)
    np.testing.assert_allclose(f.simulate(a), a * 2 + 1)


def test_symbolic_sizes_are_parameters(golden: Golden) -> None:
    n = sl.var("n")
    case = scaled(n)
    f = sl.build(case.schedule, case.args, target="cuda")
    golden(f.source)
    for size in (0, 1, 256, 300):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(f.simulate(a), a * 2)


@compiles
def test_every_intrinsic_has_a_compiled_form_and_a_twin() -> None:
    from schedlang.intrinsics import gpu
    from schedlang.intrinsics.twins import gpu as gpu_twins

    # the table of names that code generation reads, and what numba.cuda has under each
    assert intrinsics_in(gpu) == {name: name for name in GPU_NAMES}
    # the simulator itself has what the threads of a warp do together
    together = {"exchange", "load_matrix", "load_matrix_transposed", "multiply_fragments"}
    assert all(callable(getattr(gpu_twins, name)) for name in {*GPU_NAMES} - together)


@compiles
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)  # fmt: skip
def test_compiles_to_machine_code_without_spills(name: str, arch: str) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target=sl.Target("cuda", arch=arch))
    for kernel, taken in f.resources.items():
        assert taken.spill_bytes == 0, kernel
        assert taken.local_bytes == 0, f"{kernel} keeps a tile in memory"
        assert 0 < taken.registers <= 255 and 0 < taken.occupancy <= 1
        assert f".entry {kernel}(" in f.ptx
    assert f".target {arch}" in f.ptx


@compiles
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "program",
    GPU_PROGRAMS,
    ids=lambda p: p.stem,
)
def test_te_programs_and_lessons_compile(
    program: Path, arch: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their GPU kernels compile without spills."""
    right, found = sl.build, []

    def build(s: Any, args: Any = None, target: Any = None, **options: Any) -> Any:
        kind = str(sl.Target.of(target).kind)
        if kind.startswith("cuda"):
            kernel = right(s, args, sl.Target("cuda", arch=arch), **options)
            found.extend(kernel.resources.values())
        return right(s, args, "cuda-emulator" if kind == "cuda" else target, **options)

    monkeypatch.setattr(sl, "build", build)
    np.random.seed(0)
    runpy.run_path(str(program), run_name="__main__")
    assert found and all(r.spill_bytes == 0 and r.local_bytes == 0 for r in found)


@compiles
def test_wide_accesses_of_a_product_become_instructions() -> None:
    case = gemm(64, 64, 64, vector=4)
    assert "LDG.E.128" in sl.build(case.schedule, case.args, target="cuda").sass


@compiles
def test_exchanges_become_instructions() -> None:
    case = row_reduction(64, 256, 32, 4)
    assert "SHFL.BFLY" in sl.build(case.schedule, case.args, target="cuda").sass


@compiles
def test_integers_wrap() -> None:
    A = sl.placeholder((64,), "int64", name="A")
    C = sl.compute((64,), lambda i: A[i] + 1 > A[i], name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    f = sl.build(s, [A, C], target="cuda")
    limit = np.iinfo("int64").max
    a = np.where(np.arange(64) % 3, np.arange(64), limit)
    np.testing.assert_array_equal(f.simulate(a), a != limit)
    # the code contains the limit, so the comparison was not folded to true
    assert str(limit) in f.ptx


@compiles
def test_a_call_without_a_gpu_says_what_to_do() -> None:
    from numba import cuda

    if cuda.is_available():
        pytest.skip("this machine has a GPU")
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda")
    with pytest.raises(CallError, match='target="cuda-emulator"'):
        f(*case.inputs)


@pytest.mark.skipif(find_spec("numba_cuda") is not None, reason="numba-cuda is installed")
def test_a_missing_extra_is_named_in_one_sentence() -> None:
    case = scaled()
    f = sl.build(case.schedule, case.args, target="cuda")
    with pytest.raises(MissingExtraError, match=r'pip install "schedlang\[cuda\]"'):
        f.resources  # noqa: B018


@compiles
@pytest.mark.parametrize(
    "name",
    ["gemm of odd sizes", "softmax", "sum by several warps"],
)
def test_a_saved_file_stands_alone(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    f = sl.build(case.schedule, case.args, target="cuda")
    path = f.save(tmp_path / "alone.py")
    (kernel,) = f.machine_code
    text = f"""
import sys
sys.modules["schedlang"] = None
sys.path.insert(0, {str(tmp_path)!r})
import alone
from numba import cuda, types
kinds = [types.Array(getattr(types, k), 1, "C") for k in {[a.dtype for a in case.args]!r}]
ptx, _ = cuda.compile_ptx(alone.{kernel}.py_func, tuple(kinds), cc=(9, 0))
print(".entry" in ptx)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "True", done.stderr
    assert "schedlang" not in [
        n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)
    ]


def test_an_emulated_kernel_has_the_methods_of_a_cuda_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With SCHEDLANG_CUDA=emulator, a kernel still simulates and saves the same CUDA file."""
    case = SMALL["gemm of odd sizes"]()
    f = sl.build(case.schedule, case.args, target=sl.Target("cuda", arch="sm_80"))
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    g = sl.build(case.schedule, case.args, target=sl.Target("cuda", arch="sm_80"))
    assert (g.target.kind, g.target.arch) == ("cuda-emulator", "sm_80")
    for kernel in (g, pickle.loads(pickle.dumps(g))):
        np.testing.assert_allclose(kernel.simulate(*case.inputs), case.expected, rtol=1e-5)
        saved = kernel.save(tmp_path / "emulated.py").read_text()
        assert saved == f.save(tmp_path / "cuda.py").read_text()


@compiles
@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "int8", "int16", "bool"],
)
@pytest.mark.parametrize("lanes", [8, 16])
def test_vectorized_accesses_are_wide(dtype: str, lanes: int) -> None:
    """The machine code has as many wide stores as the counters predict."""
    n = 4096
    A = sl.placeholder((n,), dtype, name="A")
    B = sl.compute((n,), lambda i: A[i] & A[n - 8 + i % 8] if dtype == "bool" else A[i] + A[i])
    s = sl.schedule(B)
    outer, lane = s[B].split(B.op.axis[0], lanes)
    block, thread = s[B].split(outer, 32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    s[B].vectorize(lane)
    f = sl.build(s, [A, B], target="cuda")
    a = (np.random.default_rng(0).random(n) * 20).astype(dtype)
    expected = a & np.resize(a[-8:], n) if dtype == "bool" else a + a
    np.testing.assert_array_equal(sl.build(s, [A, B], target="cuda-emulator")(a), expected)
    (counted,) = f.counters(a).values()
    warps = n // lanes // 32
    stores = re.findall(r"STG\S*", f.sass)
    assert len(stores) == counted.global_stores / warps
    assert len(stores) == lanes // {"float64": 2, "float16": 8}.get(dtype, 4)


@compiles
def test_a_tile_with_a_block_axis_of_one_stays_in_registers() -> None:
    """A batch axis of extent 1, bound to blocks, does not index the storage of a thread."""
    A = sl.placeholder((1, 64, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((1, 64, 64), lambda b, i, j: sl.sum(A[b, i, k] * A[b, k, j], axis=k), name="C")
    s = sl.schedule(C)
    held = s.cache_write(C, "local")
    b, i, j = s[C].op.axis
    i_outer, j_outer, i_inner, j_inner = s[C].tile(i, j, 4, 4)
    s[C].vectorize(j_inner)
    for axis, tag in ((b, "blockIdx.x"), (i_outer, "threadIdx.y"), (j_outer, "threadIdx.x")):
        s[C].bind(axis, tag)
    s[held].compute_at(s[C], j_outer)
    s[held].reorder(held.op.reduce_axis[0], *held.op.axis)
    for axis in held.op.axis[1:]:
        s[held].unroll(axis)
    f = sl.build(s, [A, C], target="cuda")
    (taken,) = f.resources.values()
    assert (taken.local_bytes, taken.spill_bytes) == (0, 0)
    a = np.random.default_rng(0).random((1, 64, 64)).astype("float32")
    np.testing.assert_allclose(f.check(a), a @ a, rtol=1e-5)


@compiles
def test_the_emulator_has_the_machine_code_of_its_kernels() -> None:
    case = CASES["sum by several warps"]()
    f, g = (sl.build(case.schedule, case.args, target=t) for t in ("cuda", "cuda-emulator"))
    assert (g.ptx, g.sass, g.resources) == (f.ptx, f.sass, f.resources)
    assert g.get_source("ptx") == f.ptx


def test_loops_of_equal_names_get_distinct_names() -> None:
    """Loops i.outer and i.inner of two stages get distinct names in a kernel."""
    A = sl.placeholder((15, 13), name="A")
    B = sl.compute((15, 13), lambda j, i: A[j, i] * 2, name="B")
    C = sl.compute((15, 12), lambda i, j: B[j, 12 - j] + B[i, j], name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    j_outer, j_inner = s[C].split(j, factor=2)
    i_outer, i_inner = s[C].split(i, factor=2)
    s[C].reorder(j_outer, i_outer, j_inner, i_inner)
    s[C].bind(j_outer, "blockIdx.x")
    s[C].bind(i_outer, "blockIdx.y")
    s[C].bind(j_inner, "threadIdx.x")
    s[C].bind(i_inner, "threadIdx.y")
    s[B].compute_at(s[C], j_outer)
    s[B].set_scope("shared")
    s[B].bind(s[B].split(B.op.axis[1], factor=2)[1], "threadIdx.x")
    a = np.random.default_rng(0).random((15, 13)).astype("float32")
    rows, columns = np.indices((15, 12))
    expected = 2 * (a[columns, 12 - columns] + a[rows, columns])
    f = sl.build(s, [A, C], target="cuda")
    np.testing.assert_allclose(f.simulate(a), expected, rtol=1e-6)
    np.testing.assert_allclose(sl.build(s, target="cuda-emulator")(a), expected, rtol=1e-6)
    head = f.source.partition("def C_kernel")[2].partition("cuda.shared")[0]
    named = [line.partition(" = ")[0].strip() for line in head.splitlines() if " = cuda." in line]
    assert len(named) == len(set(named)) == 4


@compiles
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_powers_of_integers_in_lanes(dtype: str) -> None:
    A = sl.placeholder((64,), dtype, name="A")
    B = sl.compute((64,), lambda i: sl.pow(A[i], 3), name="B")
    s = sl.schedule(B)
    thread, lanes = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(thread, "threadIdx.x")
    s[B].vectorize(lanes)
    f = sl.build(s, [A, B], target="cuda")
    a = np.arange(64).astype(dtype)
    np.testing.assert_array_equal(f.simulate(a), a**3)
    assert f.resources["B_kernel"].spill_bytes == 0


@compiles
def test_a_prefetch_becomes_an_instruction() -> None:
    A = sl.placeholder((66,), name="A")
    B = sl.compute((64,), lambda i: A[i] + A[i + 2], name="B")
    s = sl.schedule(B)
    thread, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(thread, "threadIdx.x")
    s[B].prefetch(A, inner, 2)
    f = sl.build(s, [A, B], target="cuda")
    a = np.arange(66, dtype="float32")
    np.testing.assert_array_equal(f.simulate(a), a[:64] + a[2:])
    assert "prefetch.L2" in f.ptx and "CCTL" in f.sass


@compiles
def test_machine_code_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    case = scaled()
    first = sl.build(case.schedule, case.args, target="cuda").machine_code
    (kept,) = (tmp_path / "machine_code").iterdir()
    right = nvidia._compiled
    monkeypatch.setattr(nvidia, "_compiled", lambda *args: pytest.fail("compiled again"))
    assert sl.build(case.schedule, case.args, target="cuda").machine_code == first
    for other in ({"lineinfo": True}, {"fastmath": True}):
        with pytest.raises(pytest.fail.Exception):
            _ = sl.build(case.schedule, case.args, target="cuda", **other).machine_code
    monkeypatch.setattr(nvidia, "_compiled", right)
    text = kept.read_text()
    for damage in (text[:-9], "{}", "7", text.replace('"ptx": "', '"ptx": "x')):
        kept.write_text(damage)
        with pytest.warns(CacheWarning, match=kept.name):
            assert kept_code(kept.stem) is None
        assert sl.build(case.schedule, case.args, target="cuda").machine_code == first
        assert kept_code(kept.stem) is not None
