"""Integers wrap in compiled kernels as in NumPy, also near the limits of int64.

By default, numba tells LLVM that signed integers do not overflow, which would break wrapping.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError
from schedlang.intrinsics import twins
from tests.marks import slow_but

TARGETS = ["cpu", "python"]
ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "negative": lambda a, b: -(a - b) - a,
    "absolute": lambda a, b: abs(a - b) + abs(a),
    "successor": lambda a, b: a + 1 > a,
    "predecessor": lambda a, b: a - 1 < b - 1,
    "sign of a difference": lambda a, b: a - b < 0,
    "sign of a negative": lambda a, b: -a < 0,
    "sign of an absolute": lambda a, b: abs(a) < 0,
    "halved": lambda a, b: a * 2 // 2,
    "quotient": lambda a, b: (a * 12 + b * 6) // 3,
    "remainder": lambda a, b: a * 6 % 3 + (a + b) % 7,
    "shifted": lambda a, b: (a + b) * 4 >> 2,
    "power": lambda a, b: (a + b) ** 3 - b,
    "greater": lambda a, b: np.maximum(a + 5, b + 5) - np.minimum(a - 5, b - 5),
    "wider": lambda a, b: ((a + b) * 3).astype("float64"),
    "polynomial": lambda a, b: ((a * 3 + b) * a - 7) * b + 11,
}  # fmt: skip
FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (sl.sum, np.sum),
    "prod": (sl.prod, np.prod),
    "max": (sl.max, np.max),
    "min": (sl.min, np.min),
    "argmax": (sl.argmax, np.argmax),
    "argmin": (sl.argmin, np.argmin),
}


def near_limits(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Return values, many of which are within 8 of a limit or of zero."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    some = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    for at in (info.min, info.max, info.max // 2, 0):
        close = np.array([min(max(at + d, info.min), info.max) for d in range(-8, 9)], dtype)
        some = np.where(rng.random(shape) < 0.3, rng.choice(close, shape), some)
    return some


def same(found: np.ndarray, wanted: Any) -> None:
    assert found.dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64"])
@pytest.mark.parametrize("target", TARGETS)
def test_elementwise(dtype: str, target: str) -> None:
    n = 300
    A, B = (sl.placeholder((n,), dtype, name=name) for name in "AB")
    made = [
        sl.compute((n,), lambda i, f=f: f(A[i], B[i]), name=f"C{k}")
        for k, f in enumerate(ELEMENTWISE.values())
    ]
    kernel = sl.build(sl.schedule(made), [A, B, *made], target=target)
    a, b = near_limits((n,), dtype, 0), near_limits((n,), dtype, 1)
    with np.errstate(all="ignore"):
        wanted = [f(a, b) for f in ELEMENTWISE.values()]
    for name, found, right in zip(ELEMENTWISE, kernel(a, b), wanted):
        assert found.dtype == right.dtype, name
        np.testing.assert_array_equal(found, right, err_msg=name)


def rows(s: Any, R: Any) -> None:
    """Leave the schedule as it is: rows one by one."""


def unrolled(s: Any, R: Any) -> None:
    """Unroll four steps of the reduction."""
    s[R].unroll(s[R].split(R.op.reduce_axis[0], factor=4, tail="cut")[1])


def vectorized(s: Any, R: Any) -> None:
    """Vectorize over rows, with a cut tail."""
    s[R].vectorize(s[R].split(R.op.axis[0], factor=4, tail="cut")[1])


def factored(s: Any, R: Any) -> None:
    """Compute partial sums by rfactor."""
    s.rfactor(R, s[R].split(R.op.reduce_axis[0], factor=5)[1])


def parallel(s: Any, R: Any) -> None:
    """Run the rows in parallel."""
    s[R].parallel(R.op.axis[0])


SCHEDULES = [rows, unrolled, vectorized, factored, parallel]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("fold", slow_but(["sum", "argmin"], FOLDS))
@pytest.mark.parametrize("dtype", slow_but(["int64"], ["int64", "int32"]))
def test_reductions(dtype: str, fold: str, schedule: Callable[[Any, Any], None]) -> None:
    ours, numpys = FOLDS[fold]
    m, n = 203, 17
    A, B = sl.placeholder((m, n), dtype, name="A"), sl.placeholder((m,), dtype, name="B")
    k = sl.reduce_axis(n, name="k")
    # a common operand, which LLVM would move out of the fold if nothing overflowed
    R = sl.compute((m,), lambda i: ours(A[i, k] + B[i] * 2, axis=k), name="R")
    s = sl.schedule(R)
    schedule(s, R)
    kernel = sl.build(s, [A, B, R])
    for seed in range(10):
        a, b = near_limits((m, n), dtype, seed), near_limits((m,), dtype, 99 + seed)
        with np.errstate(all="ignore"):
            same(kernel(a, b), numpys(a + b[:, None] * 2, axis=1).astype(R.dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_a_maximum_of_sums(target: str) -> None:
    # each element of B with three of A
    A, B = (sl.placeholder((n,), "int64", name=name) for n, name in ((9, "A"), (3, "B")))
    r = sl.reduce_axis(9, name="r")
    R = sl.compute((), lambda: sl.max(A[r] + B[r // 3], axis=r), name="R")
    s = sl.schedule(R)
    s[R].unroll(s[R].split(r, factor=3)[1])
    kernel = sl.build(s, [A, B, R], target=target)
    for seed in range(200):
        a, b = near_limits((9,), "int64", seed), near_limits((3,), "int64", 999 + seed)
        same(kernel(a, b), (a + b.repeat(3)).max())


def test_a_running_product() -> None:
    n = 64
    A = sl.placeholder((n, 3), "int64", name="A")
    S = sl.placeholder((n, 3), "int64", name="S")
    first = sl.compute((1, 3), lambda _, i: A[0, i])
    update = sl.compute((n, 3), lambda t, i: S[t - 1, i] * A[t, i] - t)
    R = sl.scan(first, update, S, inputs=[A], name="R")
    kernel = sl.build(sl.schedule(R), [A, R])
    a = near_limits((n, 3), "int64", 0)
    wanted = a.copy()
    for t in range(1, n):
        wanted[t] = wanted[t - 1] * a[t] - t
    same(kernel(a), wanted)


def test_constants_fold_as_values_do() -> None:
    A = sl.placeholder((4,), "int64", name="A")
    most = sl.const(2**63 - 1, "int64")
    C = sl.compute((4,), lambda i: sl.select(most + sl.const(1, "int64") < A[i], i * 3, A[i] + i))
    for target in TARGETS:
        kernel = sl.build(sl.schedule(C), [A, C], target=target)
        same(kernel(np.array([-5, 2**63 - 1, 0, -(2**63)])), np.array([0, 3, 6, -(2**63) + 3]))


def test_only_wrapping_arithmetic_is_a_call() -> None:
    A = sl.placeholder((8, 8), "int64", name="A")
    X = sl.placeholder((8, 8), "float32", name="X")
    C = sl.compute((8, 8), lambda i, j: (A[i, 7 - j] + (i * 2 + j)) * A[j, i], name="C")
    D = sl.compute((8, 8), lambda i, j: (X[i, 7 - j] + (i * 2 + j)) * X[j, i], name="D")
    source = sl.build(sl.schedule(C), [A, C], target="python").source
    assert "multiply(add(load(A, i*8 + 7 - j), i*2 + j), load(A, j*8 + i))" in source
    source = sl.build(sl.schedule(D), [X, D], target="python").source
    assert "add(" not in source and "multiply(" not in source
    s = sl.schedule(C)
    s[C].vectorize(C.op.axis[1])
    source = sl.build(s, [A, C], target="python").source
    assert "add(" not in source and "multiply(" not in source


def test_a_kernel_may_be_called_add(tmp_path: Any) -> None:
    A, B = (sl.placeholder((4,), "int64", name=name) for name in ("multiply", "subtract"))
    C = sl.compute((4,), lambda i: A[i] + B[i] * A[i], name="add")
    kernel = sl.build(sl.schedule(C), [A, B, C])
    a, b = near_limits((4,), "int64", 0), near_limits((4,), "int64", 1)
    same(kernel(multiply=a, subtract=b), a + b * a)
    kernel.save(tmp_path / "k.py")
    scope = runpy.run_path(str(tmp_path / "k.py"))
    same(scope[scope["__all__"][0]](a, b), a + b * a)


def test_the_twins_wrap_without_warnings() -> None:
    most = np.int64(2**63 - 1)
    with np.errstate(all="raise"):
        assert twins.add(most, 1) == -most - 1
        assert twins.subtract(-most, 2) == most
        assert twins.multiply(most, 2) == -2
        assert twins.add(2**63 - 1, 1) == -(2**63)


INDICES: dict[str, Callable[[Any], Any]] = {
    "shift to the left": lambda i: (i + 1) << (i % 70),
    "shift to the right": lambda i: (i - 50) >> (i % 70),
    "negative count": lambda i: (i << (3 - i)) | (i >> (3 - i)),
    "constant shifts": lambda i: ((i - 7) << 40) + (i - 9 >> 2) + (i + 3 >> 64),
    "power": lambda i: (i - 50) ** 13,
    "bits": lambda i: (~i & 77) | (i ^ 12),
}


@pytest.mark.parametrize(
    "name", slow_but(["shift to the left", "negative count", "power"], INDICES)
)
def test_shifts_and_powers_of_indices(name: str) -> None:
    of, i = INDICES[name], np.arange(100)
    for target, compiler in ("cpu", "llvm"), ("cpu", "numba"), ("python", None):
        C = sl.compute((100,), of, name="C")
        s = sl.schedule(C)
        same(sl.build(s, target=target, compiler=compiler)(), of(i))
        s[C].vectorize(s[C].split(C.op.axis[0], 4)[1])
        same(sl.build(s, target=target, compiler=compiler)(), of(i))


def test_a_power_of_an_index_with_a_negative_exponent() -> None:
    C = sl.compute((9,), lambda i: 2 ** (i - 4), name="C")
    for compiler in ("llvm", "numba"):
        same(sl.build(sl.schedule(C), compiler=compiler)(), np.array([0, 0, 0, 0, 1, 2, 4, 8, 16]))


LARGE: dict[str, Callable[[Any], Any]] = {
    "product": lambda i: (i * 6364136223846793005 + 1442695040888963407 >> 33) % 100,
    "product of products": lambda i: i * 2654435761 * 2654435761 // 7,
    "comparison": lambda i: i * 2**60 + 2**59 < 0,
    "shift": lambda i: (i << 58) // 16,
    "sum": lambda i: (i + (2**63 - 100)) // 3,
    "negative": lambda i: -(i * 2**60) // 4,
}


@pytest.mark.parametrize("name", LARGE)
def test_indices_that_may_leave_int64_are_refused_and_casts_wrap(name: str) -> None:
    of, n = LARGE[name], sl.var("n")
    for extent in (1000, n):
        if extent is n and name == "sum":
            continue
        with pytest.raises(ComputeError, match=r"in C: it may reach .*\n.* sl.cast\(i, 'int64'\)"):
            sl.compute((extent,), of, name="C")
    C = sl.compute((1000,), lambda i: of(sl.cast(i, "int64")), name="C")
    for compiler in ("llvm", "numba"):
        with np.errstate(over="ignore"):
            same(sl.build(sl.schedule(C), compiler=compiler)(), of(np.arange(1000)))


@pytest.mark.parametrize(
    "of",
    [
        lambda i: (i & 255) << 48,
        lambda i: ((i & 0xFFFF) << 32) | i,
        lambda i: ((i * 1103515245) & 0x7FFFFFFF) * 1103515245,
        lambda i: sl.min(i, 7) * 2**50,
        lambda i: sl.select(i < 8, 5, 7) * 2**50,
        lambda i: i * 2**32 + i,
        lambda i: (i % 50 + 10 << 40) // 3 - (~i << 20),
    ],
)
def test_bounds_of_large_indices(of: Callable[[Any], Any]) -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), "int64", name="A")
    f = sl.build(sl.schedule(sl.compute((n,), lambda i: of(i) + A[i], name="C")), target="python")
    zeros = np.zeros(1000, "int64")
    wide = sl.compute((1000,), lambda i: of(sl.cast(i, "int64")), name="C")
    same(f(zeros), sl.reference(wide)())


def test_a_shift_by_an_axis_may_reach_the_sign() -> None:
    C = sl.compute((63,), lambda i: (1 << i) - 1, name="C")
    same(sl.build(sl.schedule(C))(), (np.int64(1) << np.arange(63)) - 1)


def test_large_indices_that_stay_in_int64() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), "int64", name="A")
    C = sl.compute((n,), lambda i: (i * 2654435761) % 2**32 + i * n // (n * n * n) + A[i], name="C")
    i = np.arange(1000)
    for compiler in ("llvm", "numba"):
        same(sl.build(sl.schedule(C), compiler=compiler)(i), (i * 2654435761) % 2**32 + i)
