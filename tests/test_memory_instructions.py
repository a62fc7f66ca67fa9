"""Instructions in memory: functions of users on tiles of arrays, with strides of their own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    CallError,
    ComputeError,
    InstructionError,
    ScheduleError,
)
from schedlang.instructions import MemoryFunction
from tests.instructions import GEMV, gemv, gemv_numba
from tests.test_instructions import BUILDS, agree, operands

pytestmark = pytest.mark.slow

GEMM = """
int gemm(const double *a, const double *b, double *c, const int64_t *s) {
  for (int64_t i = 0; i < s[0]; i++)
    for (int64_t j = 0; j < s[5]; j++)
      for (int64_t q = 0; q < s[1]; q++)
        c[i * s[10] + j * s[11]] += a[i * s[2] + q * s[3]] * b[q * s[6] + j * s[7]];
  return 0;
}
"""


def gemv_python(a: Any, b: Any, c: Any) -> None:
    c += b @ a


WAYS = {"C": GEMV, "numba": gemv_numba, "python": gemv_python}


def gemm(m: int, n: int, terms: int) -> sl.Instruction:
    """Declare a product of tiles, with two axes of the result."""
    a = sl.placeholder((m, terms), "float64", name="a")
    b = sl.placeholder((terms, n), "float64", name="b")
    q = sl.reduce_axis(terms, name="q")
    c = sl.compute((m, n), lambda i, j: sl.sum(a[i, q] * b[q, j], axis=q), name="c")
    return sl.instruction("gemm", c, emit={"memory": MemoryFunction(GEMM)})


def product(n: Any, m: int, terms: Any) -> tuple[Any, Any, Any]:
    A, B = sl.placeholder((n, terms), name="A"), sl.placeholder((m, terms), name="B")
    k = sl.reduce_axis(terms, name="k")
    return A, B, sl.compute((n, m), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k), name="C")


@pytest.mark.parametrize("how", BUILDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [(1, 8, 4), (5, 35, 18), (3, 13, 7)])
def test_rows_of_an_odd_size(size: tuple[int, int, int], way: str, how: str) -> None:
    A, B, C = product(*size)
    s = sl.schedule(C)
    (i, j), (k,) = C.op.axis, C.op.reduce_axis
    jo, ji = s[C].split(j, factor=6, tail="cut")
    ko, ki = s[C].split(k, factor=3, tail="cut")
    s[C].reorder(i, jo, ko, ji, ki)
    s[C].tensorize(ji, gemv(6, 3, WAYS[way]))
    f = sl.build(s, [A, B, C], **BUILDS[how])
    assert ("invoke" in str(f.machine_nest)) == (how != "python")
    arrays = operands(A, B)
    agree(f(*arrays), C, *arrays)


@pytest.mark.parametrize("how", BUILDS)
def test_a_whole_reduction(how: str) -> None:
    A, B, C = product(4, 18, 10)
    s = sl.schedule(C)
    s[C].parallel(C.op.axis[0])
    s[C].tensorize(s[C].split(C.op.axis[1], factor=6)[1], gemv(6, 10, whole=True))
    arrays = operands(A, B)
    agree(sl.build(s, [A, B, C], **BUILDS[how])(*arrays), C, *arrays)


@pytest.mark.parametrize("how", BUILDS)
def test_strides_that_depend_on_sizes(how: str) -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n, m), name="A"), sl.placeholder((12, m), name="B")
    k = sl.reduce_axis(4, name="k")
    C = sl.compute((n, 12), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].tensorize(s[C].split(C.op.axis[1], factor=6)[1], gemv(6, 4))
    f = sl.build(s, [A, B, C], **BUILDS[how])
    for rows, columns in ((1, 4), (3, 9)):
        a, b = np.random.rand(rows, columns), np.random.rand(12, columns)
        arrays = a.astype("float32"), b.astype("float32")
        agree(f(*arrays), C, *arrays)


@pytest.mark.parametrize("how", BUILDS)
@pytest.mark.parametrize("order", ["ij", "ji"])
def test_two_axes_of_the_result(order: str, how: str) -> None:
    A = sl.placeholder((10, 14), "float64", name="A")
    B = sl.placeholder((14, 21), "float64", name="B")
    k = sl.reduce_axis(14, name="k")
    C = sl.compute((10, 21), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    L = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*C.op.axis, 5, 7)
    s[L].compute_at(s[C], jo)
    ko, ki = s[L].split(s[L].op.reduce_axis[0], factor=4, tail="cut")
    i, j = s[L].op.axis
    inner = [i, j] if order == "ij" else [j, i]
    s[L].reorder(ko, *inner, ki)
    s[L].tensorize(inner[0], gemm(5, 7, 4))
    f = sl.build(s, [A, B, C], **BUILDS[how])
    arrays = operands(A, B)
    np.testing.assert_allclose(f(*arrays), arrays[0] @ arrays[1], rtol=1e-12)


@pytest.mark.parametrize("how", BUILDS)
def test_integers_without_a_sum(how: str) -> None:
    x = sl.placeholder((3, 5), "int16", name="x")
    y = sl.compute((3, 5), lambda i, j: x[i, j] * x[i, j], name="y")

    def square(x: Any, y: Any) -> None:
        y[...] = x * x

    declared = sl.instruction("square", y, emit={"memory": MemoryFunction(square)})
    A = sl.placeholder((6, 10), "int16", name="A")
    B = sl.compute((6, 10), lambda i, j: A[i, j] * A[i, j], name="B")
    s = sl.schedule(B)
    io, jo, ii, ji = s[B].tile(*B.op.axis, 3, 5)
    s[B].tensorize(ii, declared)
    arrays = operands(A)
    agree(sl.build(s, [A, B], **BUILDS[how])(*arrays), B, *arrays)


@pytest.mark.parametrize("order", range(4))
def test_operands_of_one_dtype_in_each_order(order: int) -> None:
    a, b = sl.placeholder((8,), name="a"), sl.placeholder((8,), name="b")
    c = sl.compute((8,), lambda i: a[i] * b[i] + a[i], name="c")

    def multiply_add(a: Any, b: Any, c: Any) -> None:
        c[...] = a * b + a

    declared = sl.instruction("multiply_add", c, emit={"memory": MemoryFunction(multiply_add)})
    A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((4, 8), name="B")

    def element(i: Any, j: Any) -> Any:
        product = A[i, j] * B[i, j] if order < 2 else B[i, j] * A[i, j]
        return product + B[i, j] if order % 2 else B[i, j] + product

    C = sl.compute((4, 8), element, name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], declared)
    first, second = operands(A, B)
    result = sl.build(s, [A, B, C])(first, second)
    np.testing.assert_allclose(result, first * second + second, rtol=1e-6)


@pytest.mark.parametrize("how", BUILDS)
def test_a_function_may_write_before_it_reads(how: str) -> None:
    """So its result is never the array of an operand, where loops would allow that."""
    a, b = sl.placeholder((8,), name="a"), sl.placeholder((8,), name="b")
    c = sl.compute((8,), lambda i: a[i] + b[i], name="c")

    def in_two_steps(a: Any, b: Any, c: Any) -> None:
        c[...] = 0
        c += a
        c += b

    declared = sl.instruction("in_two_steps", c, emit={"memory": MemoryFunction(in_two_steps)})
    A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((4, 8), name="B")
    C = sl.compute((4, 8), lambda i, j: A[i, j] + B[i, j], name="C")
    s = sl.schedule(C)
    s[C].tensorize(C.op.axis[1], declared)
    f = sl.build(s, [A, B, C], **BUILDS[how])
    first, second = operands(A, B)
    with pytest.raises(CallError, match="output C overlaps A, which is still read after"):
        f(first, second, first)
    agree(f(first, second), C, first, second)


def test_a_comparison_with_the_declaration() -> None:
    result = gemv(4, 6).check(samples=20)
    assert result.ran and "gemv:" in result.assembly and result.compared == 28 * 4
    with pytest.raises(InstructionError, match=r"gemv.check\(\): lane .* the declaration gives"):
        gemv(4, 6, GEMV.replace("+=", "-=")).check()


def _refused(declared: Any, message: str, layout: str = "rows", outer: bool = False) -> None:
    A = sl.placeholder((4, 12), name="A")
    B = sl.placeholder((18, 12) if layout == "rows" else (12, 18), name="B")
    k = sl.reduce_axis(12, name="k")
    place = (lambda j: (j, k)) if layout == "rows" else (lambda j: (k, j))
    if layout == "gathered":
        place = lambda j: (k, (j * 5) % 18)  # noqa: E731
    C = sl.compute((4, 18), lambda i, j: sl.sum(A[i, k] * B[place(j)], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=6)
    if outer:
        ko, ki = s[C].split(k, factor=4)
        s[C].reorder(i, jo, ko, ji, ki)
    with pytest.raises(ScheduleError, match="(?s)" + re.escape(message)):
        s[C].tensorize(ji, declared)


def test_strides_that_a_function_needs() -> None:
    needs = ((1,), (None, 1), (1,))
    _refused(
        gemv(6, 12, strides=needs),
        "the elements of B are 18 apart along dimension 1 of b, and gemv needs 1\n  Let the "
        "function take any stride there, or pack the array",
        layout="columns",
    )


def test_elements_an_uneven_distance_apart() -> None:
    _refused(
        gemv(6, 12),
        "and gemv takes b with a fixed distance along each dimension\n  Pack B",
        layout="gathered",
    )


def test_a_function_of_all_terms_in_a_loop_over_others() -> None:
    _refused(
        gemv(6, 4, whole=True),
        "gemv computes all terms of a sum at once, and k.outer is around them\n  Let it add to "
        "its result, without whole=True",
        outer=True,
    )


def test_a_function_of_all_terms_for_a_sum_that_begins_elsewhere() -> None:
    A, B, D = (sl.placeholder((6, 6), name=name) for name in "ABD")
    k = sl.reduce_axis(6, name="k")
    C = sl.compute((6, 6), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k, init=D[i, j]), name="C")
    s = sl.schedule(C)
    why = "gemv computes all terms of a sum at once, and the sum begins with D[i, j]\n  Let it add"
    with pytest.raises(ScheduleError, match=re.escape(why)):
        s[C].tensorize(C.op.axis[1], gemv(6, 6, whole=True))
    s[C].tensorize(C.op.axis[1], gemv(6, 6))
    arrays = operands(A, B, D)
    agree(sl.build(s, [A, B, D, C])(*arrays), C, *arrays)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: gemv(4, 4, strides=((1,), (1,), (1,))),
         "strides=((1,), (1,), (1,)) does not fit a: float32[4], b: float32[4, 4], c: float32[4]"),
        (lambda: gemv(4, 4, strides=5), "strides=5 does not fit a: float32[4]"),
        (lambda: gemv(4, 4, strides=((1,), ("x", 1), (1,))), "does not fit a: float32[4]"),
        (lambda: _column(),
         "x[i, 0] is a part of x, of which the function gets all\n  Give x the elements"),
        (lambda: _window(), "the index i + q of x[i + q] is not an axis, and a function in memory"),
        (lambda: _scalar(), "y has no axis\n  Declare the result over one axis at least."),
    ],
)  # fmt: skip
def test_a_declaration_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(ComputeError, match=re.escape(message)):
        declare()


def _window() -> Any:
    x = sl.placeholder((7,), name="x")
    q = sl.reduce_axis(4, name="q")
    y = sl.compute((4,), lambda i: sl.sum(x[i + q], axis=q), name="y")
    return sl.instruction("window", y, emit={"memory": MemoryFunction(gemv_python)})


def _column() -> Any:
    x = sl.placeholder((4, 3), name="x")
    y = sl.compute((4,), lambda i: x[i, 0] * x[i, 0], name="y")
    return sl.instruction("column", y, emit={"memory": MemoryFunction(gemv_python)})


def _scalar() -> Any:
    x = sl.placeholder((7,), name="x")
    q = sl.reduce_axis(7, name="q")
    y = sl.compute((), lambda: sl.sum(x[q], axis=q), name="y")
    return sl.instruction("total", y, emit={"memory": MemoryFunction(gemv_python)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (GEMV.replace("int gemv", "int gemw"), "its C source defines no function gemv"),
        (GEMV.replace("terms; q++", "terms q++"), "the C compiler refuses its source"),
        (lambda a, b: None, "takes 2 arguments, but is called with 3: a, b, c"),
        (17.5, "which cannot be called with arrays"),
    ],
)
def test_a_function_is_refused(call: Any, message: str) -> None:
    why = "sl.instruction('gemv'): its function in memory cannot be made"
    with pytest.raises(ComputeError, match=re.escape(why) + "(?s:.*)" + re.escape(message)):
        gemv(6, 12, call)
