"""Kernels for target="c": the same machine nests, printed as C and compiled by the C compiler."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.codegen.c_definitions import HEADERS, includes, used_definitions
from schedlang.codegen.c_headers import header
from schedlang.compute.graph import placeholders
from schedlang.errors import BuildError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Var
from schedlang.expr.visit import postorder
from schedlang.runtime import c_toolchain
from schedlang.runtime.c_library import (
    FASTMATH,
    GCC_OPTIONS,
    OPTIONS,
    UNDEFINED,
    compiler,
    library,
)
from tests import test_golden_programs
from tests.fuzz.case import run_case
from tests.graphs import product
from tests.marks import slow_but

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
DTYPES = (
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool",
)  # fmt: skip


def in_lanes(C: sl.Tensor, lanes: int) -> sl.Schedule:
    s = sl.schedule(C)
    if lanes:
        s[C].vectorize(s[C].split(C.op.axis[-1], factor=lanes)[1])
    return s


def test_a_product_in_parallel_tiles() -> None:
    A, B, C = product(50, 61, 33)
    s = sl.schedule(C)
    io, _, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C].parallel(io)
    f = sl.build(s, [A, B, C], target="c")
    assert "#pragma omp parallel for" in f.source and f.path.endswith(".c")
    assert Path(f.path).read_text() == f.source
    a, b = (np.random.default_rng(0).random(n, "float32") for n in ((50, 33), (33, 61)))
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(a, b), f(a, b))


@pytest.mark.parametrize("lanes", slow_but(["8"], [0, 8]))
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_of_each_dtype(dtype: str, lanes: int) -> None:
    n = 27
    A, B = (sl.placeholder((n,), dtype, name=name) for name in "AB")
    rng = np.random.default_rng(1)
    if dtype == "bool":
        a, b = rng.random((2, n)) < 0.5
        C = sl.compute((n,), lambda i: (A[i] & ~B[i]) | (A[i] != B[i]), name="C")
    elif dtype.startswith("float"):
        a, b = ((rng.random((2, n)) - 0.5) * 9).astype(dtype)
        C = sl.compute((n,), lambda i: sl.max(A[i] * B[i] - A[i], A[i] / B[i]) // B[i] % A[i],
                       name="C")  # fmt: skip
    else:
        low, high = (-100 if dtype[0] == "i" else 0), 100
        a, b = rng.integers(low, high, (2, n)).astype(dtype)
        C = sl.compute((n,), lambda i: (A[i] * B[i] - A[i] ^ B[i]) // B[i] + A[i] % B[i], name="C")
    f = sl.build(in_lanes(C, lanes), [A, B, C], target="c")
    tolerance = {"float16": 2e-3, "float32": 1e-5}.get(dtype, 1e-12)
    np.testing.assert_allclose(f(a, b), sl.reference(C)(a, b), rtol=tolerance)


NAMES = [
    "abs",
    *(f.name for f in FUNCTIONS.values() if f.returns and f.rule in ("float", "whole")),
]  # fmt: skip
BETWEEN = np.linspace(0.02, 0.98, 20, dtype="float32")


@cache
def values_of_functions(lanes: int) -> dict[str, Any]:
    """Return the values of each function, from one kernel."""
    A = sl.placeholder((20,), "float32", name="A")
    C = sl.compute((20,), lambda i: tuple(getattr(sl, name)(A[i]) for name in NAMES), name="C")
    f = sl.build(in_lanes(C[0], lanes), [A, *C], target="c")
    return dict(zip(NAMES, f(BETWEEN)))


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("name", NAMES)
def test_functions(name: str, lanes: int) -> None:
    A = sl.placeholder((20,), "float32", name="A")
    C = sl.compute((20,), lambda i: getattr(sl, name)(A[i]), name="C")
    expected = sl.reference(C)(BETWEEN)
    np.testing.assert_allclose(values_of_functions(lanes)[name], expected, rtol=1e-5)


@pytest.mark.parametrize("lanes", [0, 4])
def test_special_values(lanes: int) -> None:
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40], "float32")
    a, b = (x.ravel().copy() for x in np.meshgrid(special, special))
    A, B = (sl.placeholder((64,), "float32", name=name) for name in "AB")
    C = sl.compute(
        (64,),
        lambda i: (sl.max(A[i], B[i]), sl.min(A[i], B[i]), A[i] // B[i], A[i] % B[i],
                   sl.isnan(A[i]).astype("float32")),
        name="C",
    )  # fmt: skip
    s = sl.schedule(C)
    if lanes:
        s[C[0]].vectorize(s[C[0]].split(C[0].op.axis[0], factor=lanes)[1])
    found = sl.build(s, [A, B, *C], target="c")(a, b)
    for got, wanted in zip(found, sl.reference(C)(a, b)):
        np.testing.assert_array_equal(got, wanted)


def test_symbolic_sizes_scalars_and_half_precision() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", dtype="float32")
    A = sl.placeholder((n,), "float16", name="A")
    C = sl.compute((n,), lambda i: A[i] * alpha.astype("float16"), name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    f = sl.build(s, [A, alpha, C], target="c")
    a = np.arange(21, dtype="float16") / 4
    np.testing.assert_array_equal(f(a, 3.0), a * np.float16(3))


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("of", [
    lambda a: (a * 333).astype("float32"), lambda a: (a * 3 + 1).astype("int32"),
    lambda a: (a.astype("float32") * 1.37).astype("float16").astype("int32"),
])  # fmt: skip
def test_float16_is_rounded_even_if_it_is_not_stored(of: Any, lanes: int) -> None:
    A = sl.placeholder((8,), "float16", name="A")
    C = sl.compute((8,), lambda i: of(A[i]), name="C")
    a = np.array([1.001, 249, 3.33, 654, 100.3, 5.5, 7.77, 2047], "float16")
    f = sl.build(in_lanes(C, lanes), [A, C], target="c")
    np.testing.assert_array_equal(f(a), sl.reference(C)(a))


@pytest.mark.parametrize(("tensor", "axis", "result"), [
    ("int", "register", "double"), ("HUGE_VAL", "EOF", "M_PI"), ("linux", "errno", "posix"),
    ("sl_i64", "memalign", "sl_half"), ("asm", "exp", "sl"), ("x", "half", "stdout"),
])  # fmt: skip
def test_names_that_c_reserves(tensor: str, axis: str, result: str) -> None:
    A = sl.placeholder((5,), name=tensor)
    space: dict[str, Any] = {"A": A}
    body = eval(f"lambda {axis}: A[{axis}] + 1", space)
    C = sl.compute((5,), body, name=result)
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    np.testing.assert_array_equal(sl.build(s, target="c")(np.zeros(5, "f")), np.ones(5))


@pytest.mark.parametrize("width", [64, 32768, sl.var("n")])
def test_copies_of_storage_in_an_unrolled_loop(width: Any) -> None:
    A = sl.placeholder((2, width), name="A")
    B = sl.compute((2, width), lambda y, x: A[y, x] * 2, name="B")
    C = sl.compute((2, width), lambda y, x: B[y, x] + 1, name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].unroll(C.op.axis[0])
    a = np.random.default_rng(0).random((2, width if isinstance(width, int) else 50), "float32")
    np.testing.assert_array_equal(sl.build(s, [A, C], target="c")(a), a * 2 + 1)


def test_fastmath_leaves_the_process_as_it_is() -> None:
    A = sl.placeholder((64,), name="A")
    C = sl.compute((64,), lambda i: A[i] * 2, name="C")
    small = np.full(64, 1e-40, "float32")
    sl.build(sl.schedule(C), target="c", fastmath=True)(small)
    assert (small * np.float32(1) == small).all() and small[0] > 0
    with pytest.raises(BuildError, match="neither True nor False"):
        sl.build(sl.schedule(C), target="c", fastmath="yes")


FORK = """
import os, sys
import numpy as np
import schedlang as sl
A = sl.placeholder((256,), name="A")
C = sl.compute((256,), lambda i: A[i] * 2, name="C")
s = sl.schedule(C)
s[C].parallel(s[C].split(C.op.axis[0], factor=8)[0])
f = sl.build(s, target="c")
a = np.ones(256, "float32")
f(a)
child = os.fork()
if child == 0:
    os._exit(0 if (f(a) == 2).all() else 3)
sys.exit(os.waitpid(child, 0)[1] >> 8)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_runs_a_parallel_kernel() -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=120)
    assert ran.returncode == 0


def test_random_schedules() -> None:
    for index in range(3):
        case = run_case("c", index, ["c"], texts=False)
        assert case.outcome in ("passed", "too large", "shared by threads"), case.failure


def golden_schedules() -> list[sl.Schedule]:
    """Return the schedules of the golden programs."""
    found: list[sl.Schedule] = []
    for name, test in vars(test_golden_programs).items():
        if name.startswith("test_") and "golden" in inspect.signature(test).parameters:
            test(found.append)
    return [s for s in found if isinstance(s, sl.Schedule)]


@pytest.mark.slow
def test_golden_programs_give_what_numba_gives() -> None:
    compared = 0
    for s in golden_schedules():
        inputs = placeholders(s.outputs)
        if not any(loop.kind in ("vectorize", "unroll") for loop in s.nest().loops):
            continue
        rng = np.random.default_rng(0)
        arrays = [rng.random(shape_of(t), t.dtype) for t in inputs]
        found, wanted = (sl.build(s, target=target)(*arrays) for target in ("c", "cpu"))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        compared += 1
    assert compared > 5


def shape_of(tensor: sl.Tensor) -> list[int]:
    """Return the shape of a tensor, where each symbolic size is 37."""
    return [
        e if isinstance(e, int)
        else int(evaluate(e, {v: 37 for v in postorder([e]) if isinstance(v, Var)}))
        for e in tensor.shape
    ]  # fmt: skip


def test_the_helpers_are_short() -> None:
    assert all(len(header(name).splitlines()) <= 300 for name in HEADERS)


def test_a_file_has_the_helpers_that_it_uses_and_no_others() -> None:
    A, B, C = product(50, 61, 33)
    s = in_lanes(C, 16)
    source = sl.build(s, [A, B, C], target="c").source
    names = re.findall(r"^SL \w+ \*?(\w+)\(|^typedef \w+ (\w+)", source, re.M)
    assert len(names) > 3
    for name in map("".join, names):
        assert len(re.findall(rf"\b{name}\b", source)) > 1, name
    assert re.findall(r"#include <(\w+)", source) == ["stdint"]


def test_helpers_of_helpers_come_along() -> None:
    made = ["SL_VECTOR(f64, 4)", "SL_MAP2(mod, f64, f64, 4)"]
    text = used_definitions(made, ["sl_mod_f64_4(a, b)"])
    defined = re.findall(r"^(?:SL|typedef) \w+ (\w+)", text, re.M)
    assert defined == ["sl_mod_f64", "sl_f64_4", "sl_mod_f64_4"]
    assert includes([text]) == "#include <math.h>"
    assert "sl_f64 " not in text and "##" not in text


def test_what_a_c_kernel_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    A, B, C = product(4, 4, 4)
    f = sl.build(sl.schedule(C), target="c")
    with pytest.raises(BuildError, match="is C: give a name ending in .c"):
        f.save(tmp_path / "k.py")
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    a = np.ones((4, 4), "float32")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BuildError, match="no-such-compiler does not run .*: set CC"):
        sl.build(sl.schedule(C), target="c")(a, a)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(BuildError, match=r"(?s)false refuses .*GCC 12"):
        sl.build(sl.schedule(C), target="c")(a, a)
    monkeypatch.setenv("CC", "gcc 'x")
    with pytest.raises(BuildError, match="is not a command"):
        sl.build(sl.schedule(C), target="c")(a, a)
    monkeypatch.setenv("CC", " ")
    assert compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(c_toolchain, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"there is no C compiler: .*schedlang\[ship\]"):
        sl.build(sl.schedule(C), target="c")(a, a)


def test_a_function_that_the_helpers_lack(tmp_path: Path) -> None:
    path = tmp_path / "ours.c"
    path.write_text("void kernel(float *a) { a[0] = sl_sech_f32(a[0]); }\n")
    with pytest.raises(BuildError, match="calls sl_sech_f32: codegen/c_helpers.h does not define"):
        library(path)
    path = tmp_path / "theirs.c"
    path.write_text("void sech(void); void kernel(float *a) { sech(); }\n")
    with pytest.raises(BuildError, match=r"cannot be loaded \(.*: install the OpenMP library"):
        library(path)


@pytest.mark.parametrize(
    "said",
    [
        "/tmp/k.so: undefined symbol: sl_sech_f32",
        "k.c:1:32: error: implicit declaration of function 'sl_sech_f32'",
        "k.c:1:32: error: call to undeclared function 'sl_sech_f32'; ISO C99 and later do not",
    ],
)
def test_what_is_said_of_a_missing_function(said: str) -> None:
    match = UNDEFINED.search(said)
    assert match and match[1] == "sl_sech_f32"


def test_a_sum_of_products_in_another_order() -> None:
    """GCC 12 computed this sum wrongly where it vectorized the loops by itself."""
    X, Y = sl.placeholder((5, 3), name="X"), sl.placeholder((2,), name="Y")
    i, j = sl.reduce_axis(5, name="i"), sl.reduce_axis(3, name="j")
    R = sl.compute((), lambda: sl.sum(X[i, 2 - j] * Y[j // 2], axis=[i, j]), name="R")
    x, y = np.arange(15, dtype="float32").reshape(5, 3), np.array([1, 2], "float32")
    f = sl.build(sl.schedule(R), target="c")
    assert float(f(x, y)) == float((x[:, ::-1] * y[[0, 0, 1]]).sum())


def test_loops_that_gcc_would_distribute_wrongly() -> None:
    X = sl.placeholder((3, 8), "uint8", name="X")
    r = sl.reduce_axis(5, name="r")
    R = sl.compute((3, 8), lambda i, j: sl.prod(X[i % 3, 7 - r] - X[i // 2, j], axis=r), name="R")
    s = sl.schedule(R)
    i, j = R.op.axis
    s[R].reorder(j, r, i)
    s[R].parallel(j)
    outer, _ = s[R].split(i, factor=2)
    s[R].split(outer, nparts=4)
    x = np.random.default_rng(0).integers(0, 255, (3, 8)).astype("uint8")
    want = np.prod([x[:, [7 - k]] - x[[0, 0, 1]] for k in range(5)], axis=0, dtype="uint8")
    np.testing.assert_array_equal(sl.build(s, target="c")(x), want)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_tests_of_bytes_in_vectors_that_gcc_would_make_wrongly(lanes: int) -> None:
    """They were 255 in place of 1."""
    x = np.arange(21, dtype="uint8") % 7
    X = sl.placeholder((21,), "uint8", name="X")
    R = sl.compute(
        (21,), lambda i: (np.sign(X[i]), sl.cast(sl.cast(X[i], "bool"), "uint8")), name="R"
    )
    s = sl.schedule([*R])
    s[R[0]].vectorize(s[R[0]].split(R[0].op.axis[0], factor=lanes)[1])
    for result in sl.build(s, target="c")(x):
        np.testing.assert_array_equal(result, np.sign(x))


@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_compilers_know_the_options(command: str, tmp_path: Path) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    source = tmp_path / "kernel.c"
    source.write_text("int twice(int number) { return 2 * number; }\n")
    own = GCC_OPTIONS if command == "gcc" else ()
    subprocess.run(
        [command, *own, *OPTIONS, *FASTMATH, "-c", str(source), "-o", "/dev/null"], check=True
    )
