"""The addresses at which an instruction needs its operands: tiles, arguments, files."""

from __future__ import annotations

import ast
import ctypes
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te, tvm
from schedlang.errors import BuildError, CallError, ComputeError, ComputeTypeError, ScheduleError
from schedlang.instructions import Assembly, Intrinsic, MemoryFunction
from schedlang.runtime.processor import missing_features
from schedlang.runtime.signature_data import from_data, to_data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_features(("fma",))), reason="needs fma"),
]

# vmovaps faults at an address that is not a multiple of 32
ALIGNED_ROW = r"""
int row8(const float *a, const float *b, float *c, const int64_t *sizes) {
  __asm__("vbroadcastss %2, %%ymm0\n vmovaps %1, %%ymm1\n vmovaps %0, %%ymm2\n"
          "vfmadd231ps %%ymm0, %%ymm1, %%ymm2\n vmovaps %%ymm2, %0"
          : "+m"(*(float (*)[8])c) : "m"(*(const float (*)[8])b), "m"(*a)
          : "xmm0", "xmm1", "xmm2");
  return 0;
}
"""
IN_MEMORY = {"memory": MemoryFunction(ALIGNED_ROW, ((None,), (1,), (1,)))}
IN_REGISTERS = {
    "llvm": Intrinsic("llvm.fma.v8f32", ("f32x8", "f32x8", "f32x8"), order=(1, 2, 0)),
    "cuda": Assembly("fma.rn.f32 $0, $1, $2, $0;", "=f,0,f,f", ("f32x8", "f32x8", "f32x8")),
}
ASKED = {"b": 32, "c": 32}


def row8(alignment: Any, emit: Any = None) -> sl.Instruction:
    a, b = sl.placeholder((1,), name="a"), sl.placeholder((8,), name="b")
    q = sl.reduce_axis(1, name="q")
    c = sl.compute((8,), lambda i: sl.sum(a[q] * b[i], axis=q), name="c")
    return sl.instruction(
        "row8", c, emit=emit or IN_MEMORY, needs="fma", tolerance=2.0**-22, alignment=alignment
    )


def product(columns: int = 16) -> tuple[list[sl.Tensor], sl.Schedule, Any]:
    A, B = sl.placeholder((6, 20), name="A"), sl.placeholder((20, columns), name="B")
    k = sl.reduce_axis(20, name="k")
    C = sl.compute((6, columns), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[1], factor=8, tail="cut")
    s[C].reorder(outer, C.op.axis[0], k, lanes)
    return [A, B, C], s, lanes


def at(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """Return a copy that starts ``offset`` bytes behind a multiple of 64."""
    room = np.empty(array.nbytes + 128, "uint8")
    start = -room.ctypes.data % 64 + offset
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def operands(columns: int = 16) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(columns)
    return draw.random((6, 20), "float32"), draw.random((20, columns), "float32")


@pytest.mark.parametrize("options", [{}, {"target": "c"}, {"target": "python"}], ids=str)
def test_arguments_of_a_call_are_aligned(options: Any) -> None:
    tensors, s, lanes = product()
    s[tensors[2]].tensorize(lanes, row8(ASKED))
    f, (x, y) = sl.build(s, tensors, **options), operands()
    # a new output is aligned, whatever NumPy's allocator returns
    for _ in range(3):
        np.testing.assert_allclose(f(x, at(y)), x @ y, rtol=1e-5)
    np.testing.assert_allclose(f(x, at(y, 32), at(np.zeros((6, 16), "f"))), x @ y, rtol=1e-5)
    # A may begin at any element
    np.testing.assert_allclose(f(at(x, 4), at(y)), x @ y, rtol=1e-5)
    why = r"argument 1 \(B: float32\[20, 16\]\) is not aligned to 32 bytes, as an instruction needs"
    with pytest.raises(CallError, match=why + r".*copy it to room\[-room.ctypes.data % 32:\]"):
        f(x, at(y, 4))
    with pytest.raises(CallError, match=r"argument 2 \(C.*aligned to 32 .*: leave it out"):
        f(x, at(y), at(np.zeros((6, 16), "float32"), 16))
    # what the message says to do
    B = at(y, 4)
    room = np.empty(B.nbytes + 32, "uint8")
    copy = room[-room.ctypes.data % 32 :][: B.nbytes].view(B.dtype).reshape(B.shape)
    copy[...] = B
    np.testing.assert_allclose(f(x, copy), x @ y, rtol=1e-5)


def test_a_view_from_the_second_element_on() -> None:
    A = sl.placeholder((16,), name="A")
    B = sl.compute((16,), lambda i: A[i] * A[i], name="B")
    a = sl.placeholder((8,), name="a")
    b = sl.compute((8,), lambda i: a[i] * a[i], name="b")
    emit = {"llvm": Assembly("vmulps $1, $1, $0", "=x,x", ("f32x8",))}
    s = sl.schedule(B)
    s[B].tensorize(
        s[B].split(B.op.axis[0], factor=8)[1],
        sl.instruction("square8", b, emit=emit, needs="avx", alignment={"a": 32}),
    )
    f, x = sl.build(s, [A, B], target="python"), at(np.arange(17, dtype="float32"))
    np.testing.assert_array_equal(f(x[:16]), x[:16] ** 2)
    with pytest.raises(CallError, match=r"argument 0 \(A.*is not aligned to 32 bytes"):
        f(x[1:])


@pytest.mark.parametrize(
    ("columns", "alignment", "why"),
    [
        (20, ASKED, "tiles of B start 20 elements (80 bytes) apart along k, and row8 needs b at "
         "multiples of 32 bytes\n  Split by multiples of 8 elements"),
        (16, {"b": 64}, "tiles of B start 8 elements (32 bytes) apart along j.outer, and"),
        (16, {"a": 8}, "tiles of A start 1 element (4 bytes) apart along k, and row8 needs a at"),
        (16, {"c": 64}, "8 elements (32 bytes) apart along j.outer, and row8 needs c at"),
    ],
)  # fmt: skip
def test_tiles_that_start_elsewhere(columns: int, alignment: Any, why: str) -> None:
    tensors, s, lanes = product(columns)
    before = s.as_python()
    with pytest.raises(ScheduleError, match=re.escape(why)) as refusal:
        s[tensors[2]].tensorize(lanes, row8(alignment))
    own = "cache_write gives C" if "c" in alignment and "b" not in alignment else "cache_read gives"
    assert own in str(refusal.value) and s.as_python() == before
    # the loop of the update, and not of a tail
    assert "for j.inner in 0..8:    <-- here" in str(refusal.value)


def test_a_tile_that_starts_at_a_constant() -> None:
    A = sl.placeholder((17,), name="A")
    B = sl.compute((16,), lambda i: A[i + 1] * A[i + 1], name="B")
    a = sl.placeholder((8,), name="a")
    b = sl.compute((8,), lambda i: a[i] * a[i], name="b")
    emit = {"llvm": Assembly("vmulps $1, $1, $0", "=x,x", ("f32x8",))}
    square8 = sl.instruction("square8", b, emit=emit, needs="avx", alignment={"a": 16})
    s = sl.schedule(B)
    why = "tiles of A start 1 element (4 bytes) behind the start of the array, and square8 needs a"
    with pytest.raises(ScheduleError, match=re.escape(why)):
        s[B].tensorize(s[B].split(B.op.axis[0], factor=8)[1], square8)


def test_rows_of_a_symbolic_length() -> None:
    n = sl.var("n")
    A = sl.placeholder((4, n), name="A")
    B = sl.compute((4, 8), lambda i, j: A[i, j] * A[i, j], name="B")
    a = sl.placeholder((8,), name="a")
    b = sl.compute((8,), lambda i: a[i] * a[i], name="b")
    emit = {"llvm": Assembly("vmulps $1, $1, $0", "=x,x", ("f32x8",))}
    square8 = sl.instruction("square8", b, emit=emit, needs="avx", alignment={"a": 32})
    s = sl.schedule(B)
    with pytest.raises(ScheduleError, match="tiles of A start n elements apart along i, and"):
        s[B].tensorize(B.op.axis[1], square8)


def test_columns_of_a_symbolic_number() -> None:
    n = sl.var("n")
    A, B = sl.placeholder((6, 20), name="A"), sl.placeholder((20, n * 8), name="B")
    k = sl.reduce_axis(20, name="k")
    C = sl.compute((6, n * 8), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(outer, C.op.axis[0], k, lanes)
    s[C].tensorize(lanes, row8(ASKED))
    f = sl.build(s, [A, B, C])
    # a call with sizes that an earlier one had checks the address again
    for columns in (8, 24, 24, 40):
        x, y = operands(columns)
        np.testing.assert_allclose(f(x, at(y)), x @ y, rtol=1e-5)
        with pytest.raises(CallError, match=r"argument 1 \(B.*is not aligned to 32 bytes"):
            f(x, at(y, 4))


@pytest.mark.parametrize("options", [{}, {"compiler": "numba"}, {"target": "c"}], ids=str)
def test_copies_of_threads_are_aligned(options: Any) -> None:
    A, B = sl.placeholder((64, 300), name="A"), sl.placeholder((300, 20), name="B")
    k = sl.reduce_axis(300, name="k")
    C = sl.compute((64, 20), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    # one is on the heap, the other on the stack
    copy, sums = s.cache_read(B, "global", [C]), s.cache_write(C, "local")
    strip, _ = s[C].split(C.op.axis[0], factor=3)
    s[C].parallel(strip)
    for tensor_of_strip in (copy, sums):
        s[tensor_of_strip].compute_at(s[C], strip)
        s[tensor_of_strip].storage_align(tensor_of_strip.op.axis[0], 8, 0)
    outer, lanes = s[sums].split(s[sums].op.axis[1], factor=8)
    s[sums].reorder(outer, s[sums].op.axis[0], s[sums].op.reduce_axis[0], lanes)
    s[sums].tensorize(lanes, row8(ASKED))
    f, draw = sl.build(s, [A, B, C], **options), np.random.default_rng(1)
    x, y = draw.random((64, 300), "float32"), draw.random((300, 20), "float32")
    for _ in range(5):
        np.testing.assert_allclose(f(at(x, 4), at(y, 4)), x @ y, rtol=1e-4)


@pytest.mark.parametrize("scope", ["global", "local"])
@pytest.mark.parametrize("options", [{}, {"target": "c"}], ids=str)
def test_copies_are_aligned(scope: str, options: Any) -> None:
    (A, B, C), s, lanes = product(20)
    whole = s.cache_read(B, scope, [C])
    s[whole].storage_align(whole.op.axis[0], 8, 0)
    sums = s.cache_write(C, "local")
    i, j = s[sums].op.axis
    s[sums].compute_at(s[C], s[C].leaf_axes[1])
    outer, lanes = s[sums].split(j, factor=8)
    s[sums].reorder(outer, i, s[sums].op.reduce_axis[0], lanes)
    s[sums].tensorize(lanes, row8(ASKED))
    f, (x, y) = sl.build(s, [A, B, C], **options), operands(20)
    # no argument is asked for an address: the copies are what the function gets
    assert all(p.alignment == 1 for p in f.signature.parameters)
    np.testing.assert_allclose(f(x, at(y, 4), at(np.empty_like(x), 4)), x @ y, rtol=1e-5)


def test_the_declaration_is_checked_on_aligned_operands() -> None:
    result = row8({"a": 64, "b": 64, "c": 32}).check(samples=2)
    assert result.ran and result.error <= 2.0**-22


@pytest.mark.parametrize(
    ("alignment", "kind", "why"),
    [
        (64, ComputeTypeError, 'alignment=64 does not say where which operand starts; write e.g. '
         'alignment={"a": 64}'),
        ({"d": 64}, ComputeError, "alignment= names 'd', and the instruction has a, b, c"),
        ({"b": 48}, ComputeError, "alignment= gives b 48; give the bytes, one of 1, 2, 4, 8, 16,"),
        ({"b": 128}, ComputeError, "alignment= gives b 128; give the bytes, one of 1, 2, 4, 8,"),
        ({"b": True}, ComputeError, "alignment= gives b True; give the bytes, one of"),
        ({"b": "64"}, ComputeError, "alignment= gives b '64'; give the bytes, one of"),
    ],
)  # fmt: skip
def test_alignments_that_say_nothing(alignment: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=re.escape(why)):
        row8(alignment)


def test_operands_in_the_memory_of_a_gpu() -> None:
    (A, B, C), s, lanes = product()
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(s[C].leaf_axes[0], "threadIdx.x")
    s[C].tensorize(lanes, row8(ASKED, IN_REGISTERS))
    x, y = operands()
    for target in ("cuda", "cuda-emulator"):
        f = sl.build(s, [A, B, C], target=target)
        # arrays of the host are copied, so that they may start anywhere
        assert all(p.alignment == 1 for p in f.signature.parameters)
        run = f if target == "cuda-emulator" else f.simulate
        np.testing.assert_allclose(run(at(x, 4), at(y, 4)), x @ y, rtol=1e-5)


def in_shared_memory(alignment: Any, padding: int = 0, copies: int = 1) -> sl.Schedule:
    """Return the schedule of a product whose threads read rows of B in shared memory."""
    (A, B, C), s, _ = product()
    sums = s.cache_write(C, "local")
    rows = s.cache_read(B, "shared", [sums])
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(s[C].leaf_axes[0], "threadIdx.x")
    s[sums].compute_at(s[C], s[C].leaf_axes[0])
    (i, j), (k,) = s[sums].op.axis, s[sums].op.reduce_axis
    s[sums].reorder(k, i, j)
    s[rows].compute_at(s[sums], k)
    if padding:
        s[rows].storage_align(rows.op.axis[0], 16, padding)
    if copies > 1:
        s[rows].double_buffer()
    s[sums].tensorize(j, row8(alignment, IN_REGISTERS))
    return s


def test_operands_in_the_shared_memory_of_a_gpu() -> None:
    x, y = operands()
    f = sl.build(in_shared_memory({"b": 16}, padding=4, copies=2), target="cuda")
    np.testing.assert_allclose(f.simulate(x, y), x @ y, rtol=1e-5)
    why = "B.shared is in shared memory, where an array of a GPU starts at a multiple of 16 bytes"
    with pytest.raises(BuildError, match=f"{why}, and row8 needs b at multiples of 32\n.*'b': 16"):
        sl.build(in_shared_memory({"b": 32}), target="cuda-emulator")
    # one copy starts at an aligned address, the other behind a row of 18 elements
    why = r"B.shared start k%2\*18 elements behind .*, and row8 needs b at multiples of 16 bytes"
    with pytest.raises(BuildError, match=why):
        sl.build(in_shared_memory({"b": 16}, padding=2, copies=2), target="cuda")


def test_it_is_pickled_and_written_as_data() -> None:
    assert pickle.loads(pickle.dumps(row8(ASKED))).alignment == ASKED
    tensors, s, lanes = product()
    s[tensors[2]].tensorize(lanes, row8(ASKED, IN_REGISTERS))
    signature = sl.build(s, tensors, target="python").signature
    assert [p.alignment for p in signature.parameters] == [1, 32, 32]
    assert from_data(to_data(signature)) == signature
    data = to_data(signature)
    data["parameters"][1]["alignment"] = 48
    with pytest.raises(ComputeError, match="'B' cannot start at multiples of 48 bytes"):
        from_data(data)


def test_files_have_the_check() -> None:
    tensors, s, lanes = product()
    s[tensors[2]].tensorize(lanes, row8(ASKED, IN_REGISTERS))
    source = sl.build(s, tensors, target="python").source
    assert "_at_multiple(B, 'B', 32, False)" in source
    assert "_at_multiple(C, 'C', 32, True)" in source and "C = _new_at_multiple((6, 16)" in source
    helpers = [
        node for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("at_multiple")
    ]  # fmt: skip
    space: dict[str, Any] = {"np": np}
    exec(compile(ast.Module(helpers, []), "helpers", "exec"), space)
    check, new = space["_at_multiple"], space["_new_at_multiple"]
    assert all(new((3, 5), "int16").ctypes.data % 64 == 0 for _ in range(5))
    check(at(np.zeros(4), 32), "B", 32, False)
    # an array without elements is nowhere
    check(at(np.zeros(0), 8), "B", 32, False)
    for written, fix in ((False, r"copy it to room.*B\.nbytes"), (True, "leave it out")):
        with pytest.raises(ValueError, match=f"B is not aligned to 32 bytes, .*: {fix}"):
            check(at(np.zeros(4), 8), "B", 32, written)


def test_copies_are_aligned_under_numba() -> None:
    (A, B, C), s, lanes = product(20)
    whole = s.cache_read(B, "local", [C])
    s[whole].storage_align(whole.op.axis[0], 8, 0)
    sums = s.cache_write(C, "global")
    outer, lanes = s[sums].split(s[sums].op.axis[1], factor=8)
    s[sums].storage_align(s[sums].op.axis[0], 8, 0)
    s[sums].reorder(outer, s[sums].op.axis[0], s[sums].op.reduce_axis[0], lanes)
    s[sums].tensorize(lanes, row8(ASKED))
    f, (x, y) = sl.build(s, [A, B, C], compiler="numba"), operands(20)
    for _ in range(5):
        np.testing.assert_allclose(f(at(x, 4), at(y, 4)), x @ y, rtol=1e-5)


def test_a_saved_file_refuses_what_the_kernel_does(tmp_path: Path) -> None:
    tensors, s, lanes = product()
    s[tensors[2]].tensorize(lanes, row8(ASKED, IN_REGISTERS))
    sl.build(s, tensors).save(tmp_path / "saved.py")
    x, y = operands()
    np.savez(tmp_path / "given.npz", x=x, y=y)
    program = (
        "import sys; sys.modules['schedlang'] = None\n"
        "import numpy as np, saved\n"
        "given = np.load('given.npz'); x, y = given['x'], given['y']\n"
        "room = np.empty(y.nbytes + 128, 'uint8'); start = -room.ctypes.data % 64\n"
        "both = [room[k:][: y.nbytes].view('f').reshape(y.shape) for k in (start, start + 4)]\n"
        "both[0][...] = y; np.save('result.npy', saved.C(x, both[0]))\n"
        "try: saved.C(x, both[1])\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith("B is not aligned to 32 bytes, as an instruction"), done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), x @ y, rtol=1e-5)


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def tensor(x: np.ndarray) -> Any:
    shape = (ctypes.c_int64 * x.ndim)(*x.shape)
    device = (ctypes.c_int32 * 2)(1, 0)
    return ctypes.byref(Tensor(x.ctypes.data, device, x.ndim, 2, 32, 1, shape, None, 0))


def test_a_library_of_c_has_the_check(tmp_path: Path) -> None:
    tensors, s, lanes = product()
    s[tensors[2]].tensorize(lanes, row8(ASKED))
    f, (x, y) = sl.build(s, tensors, target="c"), operands()
    f.save(tmp_path / "k.so")
    f.save(tmp_path / "k.h")
    header = (tmp_path / "k.h").read_text()
    assert "input  B: float32[20, 16], aligned to 32 bytes" in header
    assert "output C: float32[6, 16], aligned to 32 bytes" in header
    library, out = ctypes.CDLL(str(tmp_path / "k.so")), at(np.zeros((6, 16), "float32"))
    library.k_error.restype = ctypes.c_char_p

    def called(*arrays: np.ndarray) -> str:
        return str(library.k_error(library.k_checked(*map(tensor, arrays))).decode())

    assert called(x, at(y), out) == "no error"
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)
    why = "is not aligned to 32 bytes, as an instruction needs it"
    assert called(x, at(y, 16), out) == f"B {why}"
    assert called(x, at(y), at(out, 8)) == f"C {why}"
    loaded = sl.load_module(tmp_path / "k.so")
    np.testing.assert_allclose(loaded(x, at(y)), x @ y, rtol=1e-5)
    with pytest.raises(CallError, match=r"argument 1 \(B.*is not aligned to 32 bytes"):
        loaded(x, at(y, 4))


def test_the_alignment_of_a_buffer_of_te() -> None:
    a, b = te.placeholder((8,), name="a"), te.placeholder((8,), name="b")
    c = te.compute((8,), lambda i: a[i] * b[i], name="c")

    def called(ins: Any, outs: Any) -> Any:
        addresses = [buffer.access_ptr("r") for buffer in (*ins, *outs)]
        return tvm.tir.call_extern("int32", "times8", *addresses)

    buffer = tvm.tir.decl_buffer((8,), "float32", name="b", data_alignment=32)
    times8 = te.decl_tensor_intrin(c.op, called, binds={b: buffer})
    assert times8.alignment == {"b": 32}
    source = (
        "int times8(const float *a, const float *b, float *c) {\n"
        '  __asm__("vmovaps %1, %%ymm0\\n vmulps %2, %%ymm0, %%ymm0\\n vmovups %%ymm0, %0"\n'
        '          : "=m"(*(float (*)[8])c)\n'
        '          : "m"(*(const float (*)[8])b), "m"(*(const float (*)[8])a) : "xmm0");\n'
        "  return 0;\n}"
    )
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((4, 8), name="B")
    C = te.compute((4, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule(C.op)
    s[C].pragma(C.op.axis[0], "import_c", source)
    s[C].tensorize(C.op.axis[1], times8)
    f, x = sl.build(s, [A, B, C]), np.arange(32, dtype="float32").reshape(4, 8)
    np.testing.assert_array_equal(f(at(x, 4), at(x)), x * x)
    with pytest.raises(CallError, match=r"argument 1 \(B.*aligned to 32 bytes"):
        f(x, at(x, 4))
    A, B = te.placeholder((4, 12), name="A"), te.placeholder((4, 12), name="B")
    C = te.compute((4, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="tiles of B start 12 elements .48 bytes. apart along"):
        s[C].tensorize(C.op.axis[1], times8)


def test_the_other_factor_is_aligned() -> None:
    a, b = sl.placeholder((8,), name="a"), sl.placeholder((8,), name="b")
    c = sl.compute((8,), lambda i: a[i] * b[i], name="c")
    emit = {"llvm": Assembly("vmulps $1, $2, $0", "=x,x,x", ("f32x8", "f32x8"))}
    times8 = sl.instruction("times8", c, emit=emit, needs="avx", alignment={"b": 32})
    A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((4, 12), name="B")
    C = sl.compute((4, 8), lambda i, j: A[i, j] * B[i, j], name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], times8)
    f, draw = sl.build(s, [A, B, C]), np.random.default_rng(0)
    x, y = draw.random((4, 8), "float32"), draw.random((4, 12), "float32")
    assert [p.alignment for p in f.signature.parameters] == [32, 1, 1]
    np.testing.assert_array_equal(f(at(x), at(y, 4)), x * y[:, :8])
