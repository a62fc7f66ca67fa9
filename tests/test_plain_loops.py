"""Tests of plain loops in emitted source, which LLVM vectorizes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.runtime.files import load
from tests.marks import slow_but

VECTOR = re.compile(r"f(?:mul|add)[a-z ]* <\d+ x float>|@llvm\.fma[.a-z0-9]*v\d+f32")


def blocked(n: int) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return the second step of te's opt_gemm: 32x32 tiles, k split by 4."""
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, n), name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((n, n), lambda x, y: sl.sum(A[x, k] * B[k, y], axis=k), name="C")
    s = sl.schedule(C)
    xo, yo, xi, yi = s[C].tile(*s[C].op.axis, 32, 32)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    return s, [A, B, C]


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(3).random(shape) * 8 - 4).astype(dtype)


def entry(kernel: sl.Kernel):
    """Return the compiled function of a kernel's file."""
    module = load(Path(kernel.path))
    return next(v for name, v in vars(module).items() if name.endswith("_kernel"))


def compiled(kernel: sl.Kernel, *arrays: np.ndarray) -> str:
    """Return the optimized LLVM IR of the function of a kernel's file."""
    function = entry(kernel).py_func
    import numba

    fresh = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)
    fresh(*(a.reshape(-1) for a in arrays))
    return fresh.inspect_llvm(fresh.signatures[0])


def test_the_blocked_product_is_vectorized():
    s, args = blocked(64)
    f = sl.build(s, args)
    a, b = values(64, 64), values(64, 64)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-4)
    llvm = compiled(f, a, b, np.empty_like(a))
    assert VECTOR.search(llvm)
    assert "vector.memcheck" not in llvm
    # unrolled, the innermost body would have 32 copies
    assert len(re.findall(r"fmul[a-z ]* float", llvm)) < 8


def test_the_source_shows_the_range_and_the_hints():
    s, args = blocked(64)
    source = sl.build(s, args).source
    inner = source[source.index("for k_outer") :].splitlines()
    assert [line.strip() for line in inner[3:4]] == ["for y_inner in range(32):"]
    assert source.count("rolled(") == 2
    assert "apart(A, B, C)" in source
    assert "rolled" not in str(sl.lower(s, args))


@pytest.mark.slow
def test_python_and_saved_files_run(tmp_path: Path):
    s, args = blocked(32)
    a, b = values(32, 32), values(32, 32)
    python = sl.build(s, args, target="python")
    assert "for y_inner in range(32):" in python.source
    np.testing.assert_allclose(python(a, b), a @ b, rtol=1e-4, atol=1e-4)
    path = tmp_path / "alone.py"
    sl.build(s, args).save(path)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    run = (
        "import sys, numpy as np; sys.modules['schedlang'] = None; from alone import C; "
        "a, b = np.load('a.npy'), np.load('b.npy'); "
        "np.testing.assert_allclose(C(a, b), a @ b, rtol=1e-4, atol=1e-4)"
    )
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def rolled_loops(s: sl.Schedule, args: list[sl.Tensor]) -> list[str]:
    """Return the source lines of the loops that are not unrolled."""
    lines = sl.build(s, args, target="python").source.splitlines()
    found = []
    for k, line in enumerate(lines):
        if line.strip().startswith("rolled("):
            depth = len(line) - len(line.lstrip())
            above = (x for x in reversed(lines[:k]) if len(x) - len(x.lstrip()) == depth)
            found.append(next(above).strip())
    return found


def elementwise(n: int, read) -> tuple[sl.Schedule, list[sl.Tensor]]:
    A = sl.placeholder((8, 4 * n), name="A")
    B = sl.compute((8, n), lambda i, j: read(A, i, j), name="B")
    return sl.schedule(B), [A, B]


@pytest.mark.parametrize("n", [3, 15, 16, 64, 128, 129])
def test_loops_of_few_iterations_are_left_alone(n: int):
    s, args = elementwise(n, lambda A, i, j: A[i, j] * 2)
    assert rolled_loops(s, args) == ([f"for j in range({n}):"] if 16 <= n <= 128 else [])


@pytest.mark.parametrize(("n", "vectors"), [(128, 4), (64, 4), (32, 2), (96, 2), (56, 1), (16, 1)])
def test_no_scalar_tail_is_left(n: int, vectors: int):
    """An iteration has a number of 16-float vectors that divides the loop."""
    s, args = elementwise(n, lambda A, i, j: A[i, j] * 2)
    f = sl.build(s, args, target=sl.Target("cpu", vector_bytes=64))
    assert f"rolled({vectors})" in f.source


def test_loops_that_cannot_be_vectorized_are_left_alone():
    """Stores are strided, or an iteration reads what another one wrote."""
    A = sl.placeholder((8, 64), name="A")
    T = sl.compute((64, 8), lambda i, j: A[j, i] * 2, name="T")
    s = sl.schedule(T)
    i, j = s[T].op.axis
    s[T].reorder(j, i)
    assert rolled_loops(s, [A, T]) == []
    k = sl.reduce_axis(64, name="k")
    R = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="R")
    assert rolled_loops(sl.schedule(R), [A, R]) == []


def test_integer_sums_are_vectorized_in_any_order():
    A = sl.placeholder((4, 64), "int32", name="A")
    k = sl.reduce_axis(64, name="k")
    R = sl.compute((4,), lambda i: sl.sum(A[i, k] * A[i, k], axis=k), name="R")
    s = sl.schedule(R)
    assert rolled_loops(s, [A, R]) == ["for k in range(64):"]
    a = values(4, 64, dtype="int32")
    np.testing.assert_array_equal(sl.build(s, [A, R])(a), (a * a).sum(axis=1))


def test_the_loop_around_a_short_one_is_vectorized():
    """LLVM unrolls three taps and vectorizes the loop around them."""
    A, W = sl.placeholder((6, 66), name="A"), sl.placeholder((3,), name="W")
    k = sl.reduce_axis(3, name="k")
    B = sl.compute((6, 64), lambda i, j: sl.sum(A[i, j + k] * W[k], axis=k), name="B")
    s = sl.schedule(B)
    assert rolled_loops(s, [A, W, B]) == ["for j in range(64):"]
    a, w = values(6, 66), values(3)
    want = sum(a[:, t : t + 64] * w[t] for t in range(3))
    f = sl.build(s, [A, W, B])
    np.testing.assert_allclose(f(a, w), want, rtol=1e-4, atol=1e-4)
    assert VECTOR.search(compiled(f, a, w, np.empty((6, 64), "float32")))


@pytest.mark.parametrize(
    "window", slow_but(["(5, 5)", "(1, 64)"], [(5, 5), (8, 9), (9, 9), (1, 49), (1, 64)])
)
def test_llvm_vectorizes_around_a_window_that_it_unrolls(window: tuple[int, int]):
    """The mark is on the loop around a window exactly if LLVM vectorizes it."""
    rows, columns = window
    A, W = sl.placeholder((24, 264), name="A"), sl.placeholder(window, name="W")
    p, q = sl.reduce_axis(rows, name="p"), sl.reduce_axis(columns, name="q")
    F = sl.compute(
        (9, 200), lambda y, x: sl.sum(A[y + p, x + q] * W[p, q], axis=(p, q)), name="F"
    )
    f = sl.build(sl.schedule(F), [A, W, F])
    a, w = values(24, 264), values(*window)
    want = sum(
        a[i : i + 9, j : j + 200].astype("float64") * w[i, j]
        for i in range(rows)
        for j in range(columns)
    )
    np.testing.assert_allclose(f(a, w), want, rtol=1e-3, atol=1e-3)
    vectors = VECTOR.search(compiled(f, a, w, np.empty((9, 200), "float32")))
    assert bool(vectors) == bool(re.search(r"^ +apart\(", f.source, re.MULTILINE))


def test_schedules_that_vectorize_are_unchanged():
    s, args = blocked(64)
    C = args[2]
    s[C].vectorize(s[C].leaf_axes[-1])
    source = sl.build(s, args, target="python").source
    assert not re.search(r"\b(rolled|apart|rounded)\(", source)


def test_an_output_that_may_alias_an_input_is_not_marked_apart():
    A, W = sl.placeholder((4, 64), name="A"), sl.placeholder((64,), name="W")
    B = sl.compute((4, 64), lambda i, j: A[i, j] * W[j] + 1, name="B")
    f = sl.build(sl.schedule(B), [A, W, B])
    assert "apart(W)" in f.source
    a, w = values(4, 64), values(64)
    want = a * w + 1
    np.testing.assert_allclose(f(a, w, a), want, rtol=1e-6)


def test_storage_between_stages_is_marked_apart():
    """Stages have storage of their own, inside the outlined body of a parallel loop."""
    A = sl.placeholder((8, 64), name="A")
    T = sl.compute((8, 64), lambda i, j: A[i, j] + 1, name="T")
    k = sl.reduce_axis(8, name="k")
    B = sl.compute((8, 64), lambda i, j: sl.sum(T[i, j] * A[k, j], axis=k), name="B")
    s = sl.schedule(B)
    i, j = s[B].op.axis
    s[B].reorder(i, k, j)
    s[T].compute_at(s[B], i)
    s[B].parallel(i)
    f = sl.build(s, [A, B])
    body = f.source[f.source.index("def B_i(") :]
    assert "apart(" in body[: body.index("def ", 4)]
    a = values(8, 64)
    np.testing.assert_allclose(f(a), (a + 1) * a.sum(axis=0), rtol=1e-3, atol=1e-3)


def dot(n: int, dtype: str = "float32") -> tuple[sl.Schedule, list[sl.Tensor]]:
    A, x = sl.placeholder((5, n), dtype, name="A"), sl.placeholder((n,), dtype, name="x")
    k = sl.reduce_axis(n, name="k")
    y = sl.compute((5,), lambda i: sl.sum(A[i, k] * x[k], axis=k), name="y")
    return sl.schedule(y), [A, x, y]


def test_long_sums_use_no_fused_multiply_add():
    """A fused multiply-add would lengthen the chain of additions."""
    s, args = dot(300)
    f = sl.build(s, args)
    assert "rounded(load(A" in f.source
    a, x = values(5, 300), values(300)
    got = f(a, x)
    np.testing.assert_allclose(got, a @ x, rtol=1e-4, atol=1e-3)
    llvm = compiled(f, a, x, np.empty(5, "float32"))
    assert "llvm.arithmetic.fence" in llvm
    # additions in order with rounded products, as in Python
    np.testing.assert_array_equal(got, sl.build(s, args, target="python")(a, x))


@pytest.mark.parametrize("n", [3, 128])
def test_short_sums_use_fused_multiply_adds(n: int):
    assert "rounded" not in sl.build(*dot(n), target="python").source


@pytest.mark.parametrize("dtype", ["float16", "int32", "int64"])
def test_only_dtypes_computed_as_stored_are_unfused(dtype: str):
    assert "rounded" not in sl.build(*dot(300, dtype), target="python").source


def test_fastmath_adds_in_any_order():
    """With fastmath, sums of floats are vectorized like those of integers."""
    s, args = dot(300)
    f = sl.build(s, args, fastmath=True)
    assert "rounded" not in f.source
    assert "rolled(" in sl.build(*dot(64), fastmath=True).source
    a, x = values(5, 300), values(300)
    np.testing.assert_allclose(f(a, x), a @ x, rtol=1e-4, atol=1e-3)


def test_symbolic_sizes():
    n = sl.var("n")
    A, x = sl.placeholder((4, n), name="A"), sl.placeholder((n,), name="x")
    k = sl.reduce_axis(n, name="k")
    y = sl.compute((4,), lambda i: sl.sum(A[i, k] * x[k], axis=k), name="y")
    f = sl.build(sl.schedule(y), [A, x, y], target="python")
    assert "rounded(" in f.source
    for size in (0, 1, 40):
        a, v = values(4, size), values(size)
        np.testing.assert_allclose(f(a, v), a @ v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "rows"), [("float32", 3), ("float64", 3), ("float32", 6)])
def test_a_loop_over_the_rows_of_a_window_gathers_nothing(dtype: str, rows: int) -> None:
    """A row is kept at its number modulo a power of two, which LLVM would mix with the column."""
    n = 256
    X = sl.placeholder((67, n), dtype, name="X")
    H = sl.compute((67, n), lambda i, j: X[i, j] * 2, name="H")
    V = sl.compute((60, n), lambda i, j: sum(H[i + r, j] for r in range(rows)), name="V")
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[H].store_root()
    f = sl.build(s, [X, V])
    assert "%" in str(f.machine_nest)
    # a gather would read single elements
    assert "(%r" in f.asm and not re.search(r"gather|\bv?adds[sd]\b|\bv?insert", f.asm)
    x = np.random.default_rng(0).integers(-9, 9, (67, n)).astype(dtype)
    np.testing.assert_array_equal(f(x), sum(2 * x[r : 60 + r] for r in range(rows)))


def windows(columns: int, stride: int = 1, taps: int = 3) -> tuple[list[sl.Tensor], sl.Schedule]:
    """Return convolutions of rows: tiles of ``columns`` by 16 channels, a loop over taps inside."""
    width = (columns * 2 - 1) * stride + taps
    X, W = sl.placeholder((5, width), name="X"), sl.placeholder((5, taps, 16), name="W")
    c, u = sl.reduce_axis(5, name="c"), sl.reduce_axis(taps, name="u")
    Y = sl.compute(
        (columns * 2, 16),
        lambda x, o: sl.sum(X[c, x * stride + u] * W[c, u, o], axis=(c, u)), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    strip, column = s[Y].split(Y.op.axis[0], factor=columns)
    s[Y].reorder(strip, c, u, column, Y.op.axis[1])
    s[Y].unroll(column)
    s[Y].vectorize(Y.op.axis[1])
    return [X, W, Y], s


@pytest.mark.parametrize(
    ("columns", "stride", "taps", "vector", "rolled"),
    [
        # 12 vectors of sums, 2 of weights, and 5 elements that the next tap needs, in 16 registers
        (6, 1, 3, 32, True), (6, 2, 3, 32, True),
        # 10, 2 and 4 of them
        (5, 1, 3, 32, False),
        # 32 registers
        (6, 1, 3, 64, False),
        # no tap shares elements with another, and LLVM does not write out seven taps
        (6, 3, 3, 32, False), (6, 1, 7, 32, False),
    ],
)  # fmt: skip
def test_taps_stay_a_loop_where_shared_elements_would_spill(
    columns: int, stride: int, taps: int, vector: int, rolled: bool
) -> None:
    arguments, s = windows(columns, stride, taps)
    f = sl.build(s, arguments, target=sl.Target("cpu", vector_bytes=vector))
    loop = next(line for line in str(f.machine_nest).splitlines() if "for u in" in line)
    assert ("# rolled" in loop) is rolled, loop


@pytest.mark.parametrize(("channels", "rolled"), [(3, True), (2, False)])
def test_taps_stay_a_loop_where_shared_vectors_would_spill(channels: int, rolled: bool) -> None:
    """Sums of 4 rows by ``channels``: the taps below share vectors of 3 rows."""
    X, W = sl.placeholder((5, 6, 8), name="X"), sl.placeholder((6, 5, 3), name="W")
    c, v = sl.reduce_axis(5, name="c"), sl.reduce_axis(3, name="v")
    Y = sl.compute(
        (6, 4, 8), lambda o, y, x: sl.sum(X[c, y + v, x] * W[o, c, v], axis=(c, v)), name="Y"
    )
    s = sl.schedule(Y)
    o, y, x = Y.op.axis
    block, channel = s[Y].split(o, factor=channels)
    s[Y].reorder(block, c, v, y, channel, x)
    s[Y].unroll(y)
    s[Y].unroll(channel)
    s[Y].vectorize(x)
    text = str(sl.build(s, [X, W, Y], target=sl.Target("cpu", vector_bytes=32)).machine_nest)
    assert ("for v in 0..3:   # rolled" in text) is rolled, text


def test_taps_that_stay_a_loop_agree_with_numpy() -> None:
    arguments, s = windows(6)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(t.shape).astype("float32") for t in arguments[:2])
    f = sl.build(s, arguments, target=sl.Target("cpu", vector_bytes=32))
    expected = np.einsum("cxu,cuo->xo", np.lib.stride_tricks.sliding_window_view(x, 3, 1), w)
    np.testing.assert_allclose(f(x, w), expected, rtol=1e-4, atol=1e-5)
