"""Kernels saved as C programs: compiled, linked into a program, loaded, and checked."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, CallError, CallTypeError
from schedlang.runtime.c_program import SEAL
from schedlang.runtime.signature_data import from_data, to_data
from tests.fuzz.case import run_case
from tests.graphs import product
from tests.marks import slow_but

COMPILER = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
RNG = np.random.default_rng(0)


def scaled_product(n: int = 21, target: str = "cpu") -> Any:
    """Return a kernel with a parallel loop, and an array on the heap in it: 3 * (A @ B)."""
    A, B, C = product(n, 40000, 33)
    D = sl.compute(C.shape, lambda i, j: C[i, j] * 3, name="D")
    s = sl.schedule(D)
    i, j = D.op.axis
    s[C].compute_at(s[D], i)
    s[D].parallel(i)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=8)[1])
    return sl.build(s, [A, B, D], target=target)


def operands(f: Any) -> list[np.ndarray]:
    return [RNG.random(p.shape).astype(p.dtype) for p in f.signature.inputs]


def compiled(path: Path, *more: str) -> None:
    """Compile a C file without a warning."""
    assert COMPILER is not None
    command = [COMPILER, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    ran = subprocess.run([*command, str(path), *more], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("target", slow_but(["cpu"], ["cpu", "c", "python"]))
def test_a_library_computes_what_the_kernel_does(target: str, tmp_path: Path) -> None:
    f = scaled_product(target=target)
    a, b = operands(f)
    assert f.save(tmp_path / "k.so") == tmp_path / "k.so"
    g = sl.load_module(tmp_path / "k.so")
    np.testing.assert_allclose(g(a, b), 3 * (a @ b), rtol=1e-5)
    out = np.empty((21, 40000), "float32")
    assert g(a, b, out) is out
    np.testing.assert_allclose(out, 3 * (a @ b), rtol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(g))(a, b), out)
    assert g.entry_name == "k" and g["k"] is g and "k(A: float32[21, 33]" in repr(g)


def test_a_program_of_c_calls_it(tmp_path: Path) -> None:
    f = scaled_product()
    a, b = operands(f)
    for name in ("k.c", "k.a"):
        f.save(tmp_path / name)
    a.tofile(tmp_path / "a"), b.tofile(tmp_path / "b")
    (tmp_path / "main.c").write_text(
        """
#include <stdio.h>
#include <stdlib.h>
#include "k.h"
static float a[21 * 33], b[33 * 40000], d[21 * 40000], e[21 * 40000];
static int allocated, released, iterations;
static void *allocate(void *data, size_t bytes) { ++*(int *)data; return malloc(bytes); }
static void *arena(void *data, size_t bytes) {
  static char memory[1 << 24];
  size_t *used = data, at = *used;
  *used += bytes;
  return memory + at + 1;
}
static void release(void *data, void *memory) { (void)data; released++; free(memory); }
static void *none(void *data, size_t bytes) { (void)data; (void)bytes; return NULL; }
static void each(void *data, int64_t start, int64_t stop, void (*body)(void *, int64_t), void *t) {
  (void)data;
  for (int64_t i = stop - 1; i >= start; i--, iterations++) body(t, i);
}
static void filled(const char *name, float *into, size_t count) {
  FILE *file = fopen(name, "rb");
  if (!file || fread(into, 4, count, file) != count) exit(1);
  fclose(file);
}
int main(int argc, char **argv) {
  filled("a", a, 21 * 33);
  filled("b", b, 33 * 40000);
  schedlang_host host = {allocate, release, each, &allocated};
  int code = argc > 1 && argv[1][0] == 'h' ? k_with(&host, a, b, d) : k(a, b, d);
  schedlang_host poor = {none, release, NULL, NULL};
  int failed = k_with(&poor, a, b, e);
  size_t used = 0;
  schedlang_host no_release = {arena, NULL, each, &used};
  int before = iterations;
  if (k_with(&no_release, a, b, e) || !used || e[9] != d[9]) return 1;
  iterations = before;
  printf("%s, %s, %d %d %d", k_error(code), k_error(failed), allocated, released, iterations);
  FILE *file = fopen("d", "wb");
  return fwrite(d, 4, 21 * 40000, file) != 21 * 40000 || fclose(file);
}
"""
    )
    serial = str(tmp_path / "serial.o")
    compiled(tmp_path / "k.c", "-c", "-O1", "-o", serial, "-Wno-unknown-pragmas")
    for linked, more in (("serial.o", []), ("k.a", ["-fopenmp"])):
        run = tmp_path / f"run-{linked}"
        compiled(tmp_path / "main.c", str(tmp_path / linked), *more, "-lm", "-o", str(run))
        for host, counts in (("h", "21 21 21"), ("", "0 0 0")):
            ran = subprocess.run(
                [str(run), *([host] if host else [])], cwd=tmp_path, capture_output=True, text=True
            )
            assert ran.stdout == f"no error, there is no memory for its temporary arrays, {counts}"
            assert ran.returncode == 0
            d = np.fromfile(tmp_path / "d", "float32").reshape(21, 40000)
            np.testing.assert_allclose(d, 3 * (a @ b), rtol=1e-5)


def test_the_source_is_a_page(tmp_path: Path) -> None:
    A, B, C = product(64, 64, 64)
    s = sl.schedule(C)
    (k,) = C.op.reduce_axis
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    source = sl.build(s, [A, B, C]).save(tmp_path / "matmul.c").read_text()
    assert "malloc" not in source and "schedlang_host" not in source and "omp" not in source
    body = source[source.index("static void run_C_kernel") : source.index("int matmul_checked")]
    assert len(body.splitlines()) < 44
    assert "//     s[C].vectorize(j_inner)" in source
    header = (tmp_path / "matmul.h").read_text()
    assert "int matmul(const float *__restrict A, const float *__restrict B, " in header
    assert "-fwrapv" in header


def test_two_kernels_link_into_one_program(tmp_path: Path) -> None:
    A = sl.placeholder((8,), name="A")
    for name, number in (("one", 1), ("two", 2)):
        C = sl.compute((8,), lambda i, n=number: A[i] + n, name="C")
        sl.build(sl.schedule(C)).save(tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text(
        '#include "one.h"\n#include "two.h"\n'
        "int main(void) { float a[8] = {4}, c[8], d[8];\n"
        "  return one(a, c) || two(c, d) || d[0] != 7 || d[1] != 3; }\n"
    )
    files = [str(tmp_path / f"{n}.c") for n in ("one", "two")]
    compiled(tmp_path / "main.c", *files, "-o", str(tmp_path / "run"))
    assert subprocess.run([str(tmp_path / "run")]).returncode == 0


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_cpp_includes_the_header(tmp_path: Path) -> None:
    scaled_product().save(tmp_path / "k.o")
    (tmp_path / "main.cpp").write_text(
        '#include "k.h"\n'
        "int main() { return k_error(0)[0] != 'n' || k_checked(0, 0, 0) != 11; }\n"
    )
    command = ["g++", "-Wall", "-Werror", str(tmp_path / "main.cpp"), str(tmp_path / "k.o")]
    subprocess.run([*command, "-fopenmp", "-o", str(tmp_path / "run")], check=True)
    assert subprocess.run([str(tmp_path / "run")]).returncode == 0


GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "deploying.md"
# what the guide leaves to the reader: functions of a host, and tensors
AROUND = """
#include <stdio.h>
#include <stdlib.h>
#include "matmul.h"
static float x[512 * 256], y[256 * 512], z[512 * 512];
static int calls;
static void *my_allocate(void *data, size_t bytes) { (void)data; return malloc(bytes); }
static void my_release(void *data, void *memory) { (void)data; free(memory); }
static void my_parallel_for(void *data, int64_t start, int64_t stop,
                            void (*body)(void *, int64_t), void *task) {
  for (; start < stop; start++, ++*(int *)data) body(task, start);
}
static DLTensor of(void *data, int64_t *shape) {
  DLTensor tensor = {0};
  tensor.data = data, tensor.device.device_type = 1, tensor.ndim = 2, tensor.shape = shape;
  tensor.dtype.code = 2, tensor.dtype.bits = 32, tensor.dtype.lanes = 1;
  return tensor;
}
static int with_host(const float *a, const float *b, float *c) {
  int *my_data = &calls;
%s  return code;
}
static int with_tensors(DLTensor a, DLTensor b, DLTensor c) {
%s  return code;
}
int main(void) {
  int64_t first[] = {512, 256}, second[] = {256, 512}, third[] = {512, 512};
  for (int k = 0; k < 512 * 256; k++) x[k] = y[k] = 1;
  int code = with_host(x, y, z);
  printf("%%d %%d %%g\\n", code, calls, z[9]);
  code = with_tensors(of(x, first), of(y, second), of(z, third));
  printf("%%d %%g\\n", code, z[512 * 512 - 1]);
  DLTensor wrong = of(y, second);
  wrong.dtype.code = 0;
  return !with_tensors(of(x, first), wrong, of(z, third));
}
"""


@pytest.mark.slow
def test_the_blocks_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the guide, its command, and the calls of its next two sections."""
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8").split("\n## Back into Python\n")[0]
    of = {kind: re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)
          for kind in ("python", "c", "sh")}  # fmt: skip
    (schedule,), (program, host, tensors), (command,) = of.values()
    exec(schedule, {})
    # the guide's word for the system's compiler, without a warning
    (tmp_path / "cc").symlink_to(str(shutil.which(COMPILER or "cc")))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def printed(source: str) -> str:
        (tmp_path / "main.c").write_text(source)
        ran = subprocess.run(f"{command.strip()} && ./a.out", shell=True, capture_output=True)
        assert ran.returncode == 0 and not ran.stderr, ran.stderr
        return ran.stdout.decode()

    assert printed(program) == ""
    assert printed(AROUND % (host, tensors)) == "0 128 256\n0 256\nB is not of dtype float32\n"


def test_symbolic_sizes_are_parameters(tmp_path: Path) -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    B = sl.placeholder((n + 1,), "int32", name="B")
    big = sl.compute((n, m), lambda i, j: A[i, j] * 2, name="big")
    C = sl.compute((n, m), lambda i, j: big[i, m - 1 - j] + B[i + 1], name="C")
    f = sl.build(sl.schedule(C), [A, B, C])
    f.save(tmp_path / "k.so")
    g = sl.load_module(tmp_path / "k.so")
    for shape in ((3, 5), (1, 1), (0, 4), (7, 300)):
        a = RNG.random(shape).astype("float32")
        b = RNG.integers(0, 9, shape[0] + 1).astype("int32")
        want = (a * 2)[:, ::-1] + b[1:, None]
        np.testing.assert_allclose(g(a, b), want, rtol=1e-6)
    with pytest.raises(CallError, match="n is 3"):
        g(np.ones((3, 2), "float32"), np.ones(7, "int32"))
    assert from_data(to_data(f.signature)) == f.signature


def test_sizes_are_refused_in_c(tmp_path: Path) -> None:
    A = sl.placeholder((sl.var("n"),), name="A")
    last = sl.compute((1,), lambda i: A[A.shape[0] - 1], name="last")
    sl.build(sl.schedule(last)).save(tmp_path / "k.so")
    g = sl.load_module(tmp_path / "k.so")
    assert g(np.array([1, 5], "float32")) == [5]
    with pytest.raises(CallError, match="kernel k of .*: it cannot run with these sizes"):
        g(np.empty(0, "float32"))


@pytest.mark.parametrize("name", slow_but(["min"], ["min", "max"]))
def test_an_extent_of_three_sizes(name: str, tmp_path: Path) -> None:
    of, choose = getattr(sl, name), {"min": min, "max": max}[name]
    A, B, D = (sl.placeholder((sl.var(n),), name=n.upper()) for n in "abd")
    (n,), (m,), (k,) = A.shape, B.shape, D.shape
    C = sl.compute(
        (of(of(n, m), k),),
        lambda i: sum(sl.if_then_else(i < T.shape[0], T[i], 0) for T in (A, B, D)), name="C",
    )  # fmt: skip
    sl.build(sl.schedule(C), [A, B, D, C]).save(tmp_path / "k.so")
    g = sl.load_module(tmp_path / "k.so")
    given = [RNG.random(length).astype("float32") for length in (5, 3, 4)]
    length = choose(map(len, given))
    expected = sum(np.pad(x[:length], (0, max(length - len(x), 0))) for x in given)
    np.testing.assert_allclose(g(*given), expected, rtol=1e-6)
    with pytest.raises(CallError, match="C"):
        g(*given, np.empty(length + 1, "float32"))


def test_extents_below_zero_are_refused_in_c(tmp_path: Path) -> None:
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    inner = sl.compute((n - 2, m), lambda i, j: A[i, j] + A[i + 2, j], name="inner")
    C = sl.compute((n - 2, m - 2), lambda i, j: inner[i, j] * inner[i, j + 2], name="C")
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    sl.build(s, [A, C]).save(tmp_path / "k.so")
    library, a = ctypes.CDLL(str(tmp_path / "k.so")), np.ones((9, 9), "float32")
    for sizes, code in (((9, 9), 0), ((2, 9), 0), ((1, 9), 2), ((9, 1), 2), ((-3, 9), 2)):
        out = np.empty((9, 9), "float32")
        given = (ctypes.c_void_p(x.ctypes.data) for x in (a, out))
        assert library.k(*given, *map(ctypes.c_int64, sizes)) == code, sizes


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def tensor(x: np.ndarray, **changed: Any) -> Any:
    listed = [(ctypes.c_int64 * x.ndim)(*given) for given in
              (x.shape, [s // x.itemsize for s in x.strides])]  # fmt: skip
    code = {"i": 0, "u": 1, "f": 2, "b": 6}[x.dtype.kind]
    made = Tensor(x.ctypes.data, (ctypes.c_int32 * 2)(1, 0), x.ndim, code, x.itemsize * 8, 1,
                  *listed, 0)  # fmt: skip
    for name, value in changed.items():
        setattr(made, name, value)
    return ctypes.byref(made)


def test_tensors_of_dlpack_are_checked(tmp_path: Path) -> None:
    n = sl.var("n")
    A, B = sl.placeholder((n, 3), name="A"), sl.placeholder((n,), "uint16", name="B")
    C = sl.compute((n, 3), lambda i, j: A[i, j] * B[i], name="C")
    sl.build(sl.schedule(C), [A, B, C]).save(tmp_path / "k.so")
    library = ctypes.CDLL(str(tmp_path / "k.so"))
    library.k_error.restype = ctypes.c_char_p
    a, b = RNG.random((4, 3)).astype("float32"), np.arange(4, dtype="uint16")
    c = np.zeros((4, 3), "float32")

    def called(*given: Any) -> str:
        return str(library.k_error(library.k_checked(*given)).decode())

    assert called(tensor(a), tensor(b), tensor(c)) == "no error"
    np.testing.assert_allclose(c, a * b[:, None], rtol=1e-6)
    inside = tensor(a, data=a.ctypes.data - 8, byte_offset=8)
    assert called(inside, tensor(b), tensor(c)) == "no error"
    for given, message in [
        ((None, tensor(b), tensor(c)), "A is NULL or has no data"),
        ((tensor(a, data=None), tensor(b), tensor(c)), "A is NULL or has no data"),
        ((tensor(a), tensor(b.astype("int16")), tensor(c)), "B is not of dtype uint16"),
        ((tensor(a), tensor(b, device=(ctypes.c_int32 * 2)(2, 0)), tensor(c)),
         "B is not in memory of the CPU"),
        ((tensor(a[0]), tensor(b), tensor(c)), "A does not have 2 dimensions"),
        ((tensor(a), tensor(b[:3]), tensor(c)), "B does not have the shape n"),
        ((tensor(a), tensor(b), tensor(np.zeros((3, 4), "float32"))),
         "C does not have the shape n x 3"),
        ((tensor(a), tensor(b), tensor(np.zeros((4, 6), "float32")[:, ::2])),
         "C is not contiguous"),
        ((tensor(a), tensor(a.view("uint16")[0, :4]), tensor(a)), "C overlaps another array"),
        ((tensor(a, byte_offset=2), tensor(b), tensor(c)),
         "A begins at an address that is not a multiple of its elements' size"),
    ]:  # fmt: skip
        assert called(*given) == message
    # the output may be all of A, which it reads element by element
    assert called(tensor(a), tensor(b), tensor(a)) == "no error"


def test_an_argument_that_nothing_reads_gives_no_warning(tmp_path: Path) -> None:
    A, D = sl.placeholder((sl.var("n"),), name="A"), sl.placeholder((8,), name="D")
    B = sl.compute(A.shape, lambda i: A[i] * 2, name="B")
    compiled(sl.build(sl.schedule(B), [A, D, B]).save(tmp_path / "k.c"), "-fsyntax-only")


def test_facts_are_checked(tmp_path: Path) -> None:
    n, nnz = sl.var("n"), sl.var("nnz")
    indptr = sl.placeholder((n + 1,), "int32", name="indptr")
    data = sl.placeholder((nnz,), name="data")
    indptr = sl.assume(indptr, monotonic=True, within=(0, nnz))

    def row(i: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(data[k], axis=k)

    rows = sl.compute((n,), row, name="rows")
    sl.build(sl.schedule(rows), [indptr, data, rows]).save(tmp_path / "k.so")
    g, x = sl.load_module(tmp_path / "k.so"), np.array([1, 2, 4], "float32")
    np.testing.assert_array_equal(g(np.array([0, 2, 2, 3], "int32"), x), [3, 0, 4])
    with pytest.raises(CallError, match="indptr"):
        g(np.array([0, 2, 1, 3], "int32"), x)
    library, out = ctypes.CDLL(str(tmp_path / "k.so")), np.zeros(3, "float32")
    for values, code in (([0, 2, 2, 3], 0), ([0, 2, 1, 3], 18), ([0, 2, 2, 4], 18)):
        at = np.array(values, "int32")
        assert library.k_checked(tensor(at), tensor(x), tensor(out)) == code


def test_facts_of_unsigned_elements_are_checked(tmp_path: Path) -> None:
    A = sl.assume(sl.placeholder((2,), "uint64", name="A"), monotonic=True)
    f = sl.build(sl.schedule(sl.compute((2,), lambda i: A[i] + 1, name="B")))
    compiled(f.save(tmp_path / "k.c"), "-c", "-o", str(tmp_path / "k.o"))
    f.save(tmp_path / "k.so")
    library, out = ctypes.CDLL(str(tmp_path / "k.so")), np.zeros(2, "uint64")
    for values, code in (([1, 2**63 + 5], 0), ([2**63 + 5, 1], 18), ([5, 3], 18)):
        assert library.k_checked(tensor(np.array(values, "uint64")), tensor(out)) == code


@pytest.mark.parametrize(
    "dtype", slow_but(["bfloat16", "bool"], ["float16", "bfloat16", "bool", "int8", "uint64"])
)
def test_each_dtype(dtype: str, tmp_path: Path) -> None:
    A = sl.placeholder((5, 7), dtype, name="A")
    x = sl.var("x", "float64")
    C = sl.compute((5, 7), lambda i, j: sl.select(A[i, j] > x, A[i, j], A[4 - i, j]), name="C")
    f = sl.build(sl.schedule(C), [A, x, C], target="c")
    f.save(tmp_path / "k.so")
    kind = "float32" if dtype == "bfloat16" else dtype
    a = (RNG.random((5, 7)) * (2 if dtype == "bool" else 9)).astype(kind)
    a = f.signature.parameters[0].needed.dtype.type(0) + a if dtype != "bool" else a
    a = a.astype(f.signature.parameters[0].needed.dtype)
    got = sl.load_module(tmp_path / "k.so")(a, 0.5)
    np.testing.assert_array_equal(got, np.where(a.astype("float64") > 0.5, a, a[::-1]))


def test_a_function_of_c_source(tmp_path: Path) -> None:
    A = sl.placeholder((6,), name="A")
    source = (
        "#include <stdint.h>\n"
        "int turned(const float *a, float *out, const int64_t *sizes) {\n"
        "  for (int i = 0; i < 6; i++) { if (a[i] < 0) return 1; out[i] = a[5 - i]; }\n"
        "  return 0;\n}\n"
    )
    B = sl.extern((6,), [A], source, name="turned")
    C = sl.compute((6,), lambda i: B[i] + 1, name="C")
    sl.build(sl.schedule(C), [A, C]).save(tmp_path / "k.so")
    g, a = sl.load_module(tmp_path / "k.so"), np.arange(6, dtype="float32")
    np.testing.assert_array_equal(g(a), a[::-1] + 1)
    with pytest.raises(CallError, match="a function of yours failed"):
        g(-a)


@pytest.mark.slow
def test_random_schedules() -> None:
    outcomes = []
    for index in range(60):
        case = run_case("library", index, ["library"], texts=False)
        # an instruction of the fuzzer's has a form for C alone
        refused = case.outcome == "not built" and re.search("no form|cannot hold", case.failure)
        assert refused or case.outcome in ("passed", "too large"), case.failure
        outcomes.append(case.outcome)
    assert outcomes.count("passed") > 45


def test_te_exports_and_loads_a_library(tmp_path: Path) -> None:
    import schedlang as tvm
    from schedlang import te

    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1, name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="add_one")
    f.export_library(str(tmp_path / "plus.so"))
    g = tvm.runtime.load_module(str(tmp_path / "plus.so"))
    a, b = tvm.nd.array(np.arange(9, dtype="float32")), tvm.nd.empty((9,))
    g(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(1, 10))
    assert g.time_evaluator(g.entry_name, tvm.cpu(), number=1)(a, b).mean > 0
    assert g["add_one"] is g.get_function("plus") is g
    with pytest.raises(BuildError, match="kernel plus has no function 'other'"):
        g["other"]
    with pytest.raises(BuildError, match="takes no cc"):
        f.export_library(str(tmp_path / "plus.so"), cc="gcc")
    # or of the object file, linked by the program
    objects = [str(f.save(tmp_path / "k.o"))]
    tvm.contrib.cc.create_shared(str(tmp_path / "linked.so"), objects)
    linked, b = tvm.runtime.load_module(str(tmp_path / "linked.so")), tvm.nd.empty((9,))
    linked(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(1, 10))
    objects.append(str(f.save(tmp_path / "other.o")))
    tvm.contrib.cc.create_shared(str(tmp_path / "both.so"), objects)
    with pytest.raises(BuildError, match="it holds several kernels"):
        tvm.runtime.load_module(str(tmp_path / "both.so"))


@pytest.mark.parametrize("name", ["C", "A", "C_with"])
def test_a_program_that_is_called_like_an_argument(name: str, tmp_path: Path) -> None:
    A, B, C = product(5, 6, 7)
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    sl.build(s, [A, B, C]).save(tmp_path / f"{name}.so")
    a, b = RNG.random((5, 7)).astype("float32"), RNG.random((7, 6)).astype("float32")
    np.testing.assert_allclose(sl.load_module(tmp_path / f"{name}.so")(a, b), a @ b, rtol=1e-5)


def test_a_loop_of_a_function_is_saved(tmp_path: Path) -> None:
    def smoothed(x: Any, a: Any) -> Any:
        y = np.zeros(x.shape[0])
        y[0] = x[0]
        for i in range(1, x.shape[0]):
            for _ in range(1):
                y[i] = a * x[i] + (1 - a) * y[i - 1]
        return y

    f, x = sl.jit(smoothed), RNG.random(50)
    f(x, 0.5)
    for k, kernel in enumerate(f.kernels):
        kernel.save(tmp_path / f"part{k}.c")
        compiled(tmp_path / f"part{k}.c", "-c", "-o", str(tmp_path / "part.o"))


NAMES = [
    "exp.c",
    "printf.c",
    "int64_t.c",
    "DLTensor.c",
    "SL.c",
    "schedlang_host.c",
    "a-b.c",
    "1.c",
    "int.c",
    "new.c",
    "sl_x.h",
    "main.o",
    "é.c",
    "_k.c",
    "expf.so",
    "DLTensor.c",
]


def doubled(a: str = "A", c: str = "C", factor: int = 2) -> Any:
    A = sl.placeholder((4,), name=a)
    return sl.build(sl.schedule(sl.compute((4,), lambda i: A[i] * factor, name=c)))


@pytest.mark.parametrize("name", ["k", "k_checked", "k_error", "run_C_kernel", "SL", "int64_t"])
def test_tensors_named_like_functions_of_the_file(name: str, tmp_path: Path) -> None:
    for number, f in enumerate((doubled(a=name), doubled(c=name))):
        f.save(tmp_path / "k.c")
        compiled(tmp_path / "k.c", "-c", "-Wshadow", "-o", str(tmp_path / f"{number}.o"))


def test_a_library_that_is_saved_again_is_loaded_anew(tmp_path: Path) -> None:
    loaded = []
    for factor in (2, 3):
        doubled(factor=factor).save(tmp_path / "k.so")
        loaded.append(sl.load_module(tmp_path / "k.so"))
    assert [g(np.ones(4, "float32"))[0] for g in loaded] == [2, 3]


def test_sizes_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n, n), lambda i, j: A[i] + A[j], name="B")
    C = sl.compute((n,), lambda i: B[i, n - 1 - i], name="C")
    sl.build(sl.schedule(C)).save(tmp_path / "k.so")
    library = ctypes.CDLL(str(tmp_path / "k.so"))
    for size in (2**31, 2**31 + 1, 2**32, 2**62):
        assert library.k(None, None, ctypes.c_int64(size)) == 2


@pytest.mark.parametrize("name", NAMES)
def test_names_that_c_cannot_have(name: str, tmp_path: Path) -> None:
    A = sl.placeholder((4,), name="A")
    f = sl.build(sl.schedule(sl.compute((4,), lambda i: A[i], name="B")))
    with pytest.raises(BuildError, match="cannot be one in C and C"):
        f.save(tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_what_is_not_saved_as_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    f = sl.build(sl.schedule(B))
    with pytest.raises(BuildError, match=r"ending in \.py, \.h, \.c, \.o, \.a or \.so"):
        f.save(tmp_path / "k.cpp")
    (tmp_path / "folder.so").mkdir()
    with pytest.raises(BuildError, match="it is a folder"):
        f.save(tmp_path / "folder.so")
    with pytest.raises(BuildError, match="there is no folder"):
        f.save(tmp_path / "none" / "k.c")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], sl.thread_axis("threadIdx.x"))
    with pytest.raises(BuildError, match="a C program runs on a CPU"):
        sl.build(s, target="cuda-emulator").save(tmp_path / "k.c")
    C = sl.extern((64,), [A], lambda a, out: np.copyto(out, a), name="C")
    with pytest.raises(BuildError, match="which is not C source"):
        sl.build(sl.schedule(C), target="python").save(tmp_path / "k.c")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError, match="no-such-compiler does not run"):
        f.save(tmp_path / "k.so")
    assert not (tmp_path / "k.so").exists()


def sealed(data: bytes) -> bytes:
    """Return a library with the hash of its content at its end."""
    content, _, end = data.rpartition(SEAL)
    return content + SEAL + hashlib.sha256(content).hexdigest().encode() + end[64:]


def test_files_that_are_not_loaded(tmp_path: Path) -> None:
    A = sl.placeholder((4,), name="A")
    sl.build(sl.schedule(sl.compute((4,), lambda i: A[i], name="B"))).save(tmp_path / "k.so")
    data = (tmp_path / "k.so").read_bytes()
    with pytest.raises(BuildError, match="the file does not exist"):
        sl.load_module(tmp_path / "none.so")
    (tmp_path / "other.so").write_bytes(data.rpartition(b" ")[0] + b" i386")
    with pytest.raises(BuildError, match=r"made for another processor \(i386\)"):
        sl.load_module(tmp_path / "other.so")
    (tmp_path / "k.py").write_text("")
    with pytest.raises(BuildError, match="import it"):
        sl.load_module(tmp_path / "k.py")
    for old, new, why in [
        (b"schedlang kernel", b"schedlang-kernel", "it is not a library"),
        (b'{"format": 1', b'{"format": 7', "its format is 7"),
        (b'"float32"', b'"floatxx"', "'floatxx' is not a dtype"),
        (b'"function": "k"', b'"function": ";"', "its function is called"),
        (b'"shape": [4]', b'"shape": [{]', "it is not a library"),
    ]:
        (tmp_path / "bad.so").write_bytes(sealed(data.replace(old, new)))
        with pytest.raises(BuildError, match=re.escape(why)):
            sl.load_module(tmp_path / "bad.so")
    for torn, why in [
        (data[:3000] + data[3001:], "the file has changed since it was written"),
        (data[:-200], "it has no hash at its end"),
        (data[-3000:], "it is not a library|has changed"),
        (b"", "it is not a library"),
    ]:
        (tmp_path / "torn.so").write_bytes(torn)
        with pytest.raises(BuildError, match=why):
            sl.load_module(tmp_path / "torn.so")
    with pytest.raises(CallTypeError, match="got dtype float64"):
        sl.load_module(tmp_path / "k.so")(np.ones(4))


@pytest.mark.parametrize("path", [3, None, b"k.c"])
def test_paths_of_another_type(path: Any) -> None:
    f = scaled_product()
    net = sl.network(sl.placeholder((4,), name="x") * 2)
    for asked in (f.save, f.export_library, sl.load_module, net.save, sl.load):
        with pytest.raises(sl.errors.CallTypeError, match=r"a path is text or a pathlib.Path"):
            asked(path)
