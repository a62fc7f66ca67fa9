"""``f.unchecked`` of a kernel that LLVM compiled, called by functions that numba compiles."""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

import schedlang as sl


def scaled() -> sl.Kernel:
    """Return a kernel with scalars of three dtypes and a symbolic size."""
    n = sl.var("n")
    scale, count = sl.var("scale", dtype="float32"), sl.var("count", dtype="int8")
    on = sl.var("on", dtype="bool")
    A = sl.placeholder((n,), "float32", name="A")
    C = sl.compute(
        (n,), lambda i: sl.select(on, A[i] * scale + sl.cast(count, "float32"), 0), name="C"
    )
    return sl.build(sl.schedule(C), [A, scale, count, on, C])


def test_scalars_are_converted() -> None:
    run = scaled().unchecked

    @numba.njit
    def twice(a: Any, scale: Any, count: Any, on: Any, c: Any) -> None:
        for _ in range(2):
            run(a, scale, count, on, c, a.size)

    a, c = np.arange(7, dtype="float32"), np.empty(7, "float32")
    twice(a, 2.5, -3, True, c)
    np.testing.assert_array_equal(c, a * np.float32(2.5) - 3)

    @numba.njit
    def by_name(a: Any, c: Any) -> None:
        run(A=a, C=c, scale=2.0, count=1, on=True, n=a.size)

    by_name(a, c)
    np.testing.assert_array_equal(c, a * 2 + 1)
    # numba compiles again for other types
    twice(a, np.float32(0.5), np.int8(4), np.bool_(False), c)
    np.testing.assert_array_equal(c, np.zeros(7))


def test_arguments_that_do_not_fit_are_refused() -> None:
    run = scaled().unchecked

    @numba.njit
    def few(a: Any, c: Any) -> None:
        run(a, c)

    @numba.njit
    def other(a: Any, c: Any) -> None:
        run(a, 1.0, 1, True, c, a.size)

    @numba.njit
    def fraction(a: Any, c: Any) -> None:
        run(a, 1.0, 1.5, True, c, a.size)

    @numba.njit
    def number(a: Any, c: Any) -> None:
        run(a, 2.5j, 1, True, c, a.size)

    a = np.ones(4, "float32")
    fixed = np.ones(4, "float32")
    fixed.flags.writeable = False
    with pytest.raises(TypingError):
        other(a, fixed)
    arrays = [a.astype("float64"), np.ones((2, 2), "float32"), np.ones(8, "float32")[::2]]
    wrong = [(fraction, a), (number, a), (few, a), *((other, array) for array in arrays)]
    for function, given in wrong:
        with pytest.raises(TypingError):
            function(given, a)


def test_parallel_loops_and_arrays_that_are_not_written() -> None:
    A = sl.placeholder((64, 8), "float32", name="A")
    C = sl.compute((64, 8), lambda i, j: A[i, j] * 3, name="C")
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    run = sl.build(s, [A, C]).unchecked

    @numba.njit(nogil=True)
    def call(a: Any, c: Any) -> None:
        run(a, c)

    a, c = np.ones(512, "float32"), np.zeros(512, "float32")
    a.flags.writeable = False
    call(a, c)
    np.testing.assert_array_equal(c, np.full(512, 3))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems promise any memory")
def test_a_lack_of_memory_is_an_error() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), "float32", name="A")
    B = sl.compute((4, n, n), lambda i, j, k: A[j] * i + A[k], name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((4,), lambda i: sl.sum(B[i, k, n - 1 - k], axis=k), name="C")
    run = sl.build(sl.schedule(C), [A, C]).unchecked

    @numba.njit
    def call(a: Any, c: Any) -> None:
        run(a, c, a.size)

    c = np.zeros(4, "float32")
    with pytest.raises(MemoryError, match="no memory for the arrays of a kernel"):
        call(np.ones(2_000_000, "float32"), c)
    a = np.arange(5, dtype="float32")
    call(a, c)
    square = a[None, :, None] * np.arange(4)[:, None, None] + a
    np.testing.assert_allclose(c, np.trace(square[:, :, ::-1], axis1=1, axis2=2))
