"""Strided lanes of sums stay in registers, and costly strided accesses give a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import schedlang as sl
from benchmarks import schedules
from benchmarks.works import ALL
from schedlang.diagnostics.strides import strided_accesses
from schedlang.errors import StrideWarning
from tests.test_sums import inside_loops

AVX512 = sl.Target("cpu", vector_bytes=64, vector_registers=32)
N = 512
A, B = sl.placeholder((N, N), name="A"), sl.placeholder((N, N), name="B")
W, V = sl.placeholder((N, N // 32), name="W"), sl.placeholder((N * N * 8,), name="V")
k = sl.reduce_axis(N, name="k")


def partial_sums(rows: int, columns: int, at: int, dtype: str = "float32") -> sl.Schedule:
    """Return row sums with partial sums in lanes of dimension ``at`` and four rows unrolled."""
    X, step = sl.placeholder((rows, columns), dtype, name="X"), sl.reduce_axis(columns, name="k")
    R = sl.compute((rows,), lambda i: sl.sum(X[i, step], axis=step), name="R")
    s = sl.schedule(R)
    _, lane = s[R].split(step, factor=8)
    part = s.rfactor(R, lane, factor_axis=at)
    strip, _ = s[R].split(R.op.axis[0], factor=4)
    s[part].compute_at(s[R], strip)
    axes = list(s[part].op.axis)
    lane = axes.pop(at)
    s[part].reorder(s[part].op.reduce_axis[0], *axes, lane)
    s[part].unroll(axes[0])
    s[part].vectorize(lane)
    return s


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("target", ["cpu", "python"])
def test_partial_sums_stay_in_registers_in_any_dimension_order(dtype: str, target: str) -> None:
    """By default rfactor puts the lanes first; they are stored once, after the loop."""
    s = partial_sums(8, 64, 0, dtype)
    f = sl.build(s, target=target)
    assert "strided" not in inside_loops(f, "k_outer") and "vstore_strided" in f.source
    x = (np.random.default_rng(0).random((8, 64)) * 4).astype(dtype)
    expected = x.astype("float64").sum(axis=1)
    np.testing.assert_allclose(f(x), expected, rtol=5e-2 if dtype == "float16" else 1e-5)


def test_sums_are_gathered_before_a_block_of_steps() -> None:
    """With a block of k outside, strided lanes of sums are gathered before each block."""
    C = sl.compute((16, 8), lambda i, j: sl.sum(A[k, i] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(k, factor=64)
    i, j = C.op.axis
    strip, i = s[C].split(i, factor=8)
    s[C].reorder(outer, strip, inner, j, i)
    s[C].unroll(j)
    s[C].vectorize(i)
    f = sl.build(s, target="python")
    assert "strided" not in inside_loops(f, "k_inner") and "vload_strided" in f.source
    a, b = np.random.default_rng(1).random((2, N, N)).astype("float32")
    np.testing.assert_allclose(f(a, b), (a.T @ b)[:16, :8], rtol=1e-4)


def said(s: sl.Schedule) -> list[str]:
    return strided_accesses(sl.lower(s), AVX512)


def lanes_of_rows(unrolled: bool) -> sl.Schedule:
    C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    strip, row = s[C].split(i, factor=4)
    panel, lane = s[C].split(j, factor=16)
    steps = s[C].split(k, factor=16) if unrolled else [k]
    s[C].reorder(strip, panel, *steps, row, lane)
    s[C].unroll(row)
    if unrolled:
        s[C].unroll(steps[-1])
    s[C].vectorize(lane)
    return s


def transposed(unrolled: bool) -> sl.Schedule:
    T = sl.compute((N, N), lambda i, j: A[j, i] + 1, name="T")
    s = sl.schedule(T)
    i, j = T.op.axis
    panel, lane = s[T].split(j, factor=16)
    if unrolled:
        strip, row = s[T].split(i, factor=16)
        s[T].reorder(strip, panel, row, lane)
        s[T].unroll(row)
    s[T].vectorize(lane)
    return s


def first_axis(mended: bool) -> sl.Schedule:
    D = sl.compute((N, N), lambda i, j: A[i, j] + 1, name="D")
    s = sl.schedule(D)
    i, j = D.op.axis
    over, lane = s[D].split(j if mended else i, factor=16)
    s[D].reorder(*([i, over] if mended else [over, j]), lane)
    s[D].vectorize(lane)
    return s


def groups(mended: bool) -> sl.Schedule:
    G = sl.compute((N, N), lambda i, j: A[i, j] * W[i, j // 32], name="G")
    s = sl.schedule(G)
    s[G].vectorize(s[G].split(G.op.axis[1], factor=32 if mended else 64)[1])
    return s


def partial_rows(mended: bool) -> sl.Schedule:
    R = sl.compute((N,), lambda i: sl.sum(A[i, k], axis=k), name="R")
    s = sl.schedule(R)
    _, lane = s[R].split(k, factor=16)
    part = s.rfactor(R, lane)
    if mended:
        s[part].transform_layout(lambda d0, d1: (d1, d0))
    s[part].reorder(s[part].op.reduce_axis[0], *s[part].op.axis[::-1])
    s[part].vectorize(s[part].op.axis[0])
    return s


def few_taps(unrolled: bool, count: int = 5) -> sl.Schedule:
    V, q = sl.placeholder((count,), name="V"), sl.reduce_axis(count, name="q")
    Q = sl.compute((16, N), lambda n, i: sl.sum(A[i, q] * V[q], axis=q), name="Q")
    s = sl.schedule(Q)
    n, i = Q.op.axis
    panel, lane = s[Q].split(i, factor=16)
    s[Q].reorder(n, panel, q, lane)
    if unrolled:
        s[Q].unroll(q)
    s[Q].vectorize(lane)
    return s


def test_a_loop_that_is_too_short_to_be_transposed_is_no_advice() -> None:
    (text,) = said(few_taps(unrolled=False, count=3))
    assert "Split" not in text and "Vectorize another loop, or change the layout of A" in text


@pytest.mark.parametrize(("make", "words"), [
    (lanes_of_rows, "stage C: vectorized j.inner reads B[j.outer*16 + j.inner, k] with lanes 512 "
     "elements apart, so each lane is a separate load. Split k by 16, reorder the inner loop "
     "outside j.inner"),
    (transposed, "Split i by 16, reorder the inner loop outside j.inner and unroll it"),
    (few_taps, "each lane is a separate load. Reorder q outside i.inner and unroll it: rows are"),
    (first_axis, "writes D[i.outer*16 + i.inner, j] with lanes 512 elements apart, so each lane "
     "is a separate store. Vectorize j, along which elements are adjacent."),
    (groups, "with lanes scattered, so each lane is a separate load. Split by 32 and vectorize "
             "the inner loop"),
    (partial_rows, "transform_layout(lambda d0, d1: (d1, d0)) on its stage, or the last"),
])  # fmt: skip
def test_the_advised_step_works(make: Callable[[bool], sl.Schedule], words: str) -> None:
    """The message names the access and the loop, and the named step removes the warning."""
    assert any(words in text for text in said(make(False)))
    assert not said(make(True))
    with pytest.warns(StrideWarning):
        sl.build(make(False), target=sl.Target("cpu", vector_bytes=64))
    a, b = np.random.default_rng(2).random((2, N, N)).astype("float32")
    if make is transposed:
        np.testing.assert_array_equal(sl.build(make(True), target="python")(a), a.T + 1)
    if make is partial_rows:
        f = sl.build(make(True), target="python")
        np.testing.assert_allclose(f(a), a.sum(axis=1), rtol=1e-5)


def test_a_stride_that_no_loop_of_the_stage_avoids() -> None:
    H = sl.compute((N * N,), lambda j: V[j * 8], name="H")
    s = sl.schedule(H)
    s[H].vectorize(s[H].split(H.op.axis[0], factor=16)[1])
    (text,) = said(s)
    assert "lanes 8 elements apart" in text
    assert "change the layout of V so that the lanes are adjacent" in text


def test_cheap_strided_accesses_give_no_warning() -> None:
    """Gathers, small copies, strides of two and small tensors give no warning."""
    G = sl.placeholder((N * N,), "int32", name="G")
    bodies = [lambda i: V[G[i]], lambda i: V[i * 2] + V[i * 2 + 1]]
    for body in bodies:
        C = sl.compute((N * N,), body, name="C")
        s = sl.schedule(C)
        s[C].vectorize(s[C].split(C.op.axis[0], factor=16)[1])
        assert not said(s)
    few = sl.compute((16, 64), lambda i, j: A[j, i], name="F")
    s = sl.schedule(few)
    s[few].vectorize(few.op.axis[1])
    assert not said(s)


@pytest.mark.parametrize("bits", [256, 512])
def test_no_schedule_of_the_benchmarks_warns(bits: int) -> None:
    target = sl.Target("cpu", vector_bytes=bits // 8)
    found = []
    for work in ALL.values():
        for made in schedules.of(work).values():
            s, args = made.make(work, target)
            found += [(work.name, text) for text in strided_accesses(sl.lower(s, args), target)]
    assert not found


def test_the_warning_points_at_the_call_of_build() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StrideWarning)
        sl.build(transposed(False), target="cpu")
    (found,) = [w for w in caught if w.category is StrideWarning]
    assert found.filename == __file__


def test_sums_in_registers_may_lie_apart() -> None:
    A, B = (sl.placeholder((512, 512), name=name) for name in "AB")
    k = sl.reduce_axis(512, name="k")
    C = sl.compute((512, 512), lambda i, j: sl.sum(A[k, i] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    outer, lanes = s[C].split(i, factor=16)
    s[C].reorder(outer, j, k, lanes)
    s[C].vectorize(lanes)
    assert strided_accesses(sl.lower(s), sl.Target("cpu")) == []
