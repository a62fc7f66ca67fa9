"""Tests of what the verifier proves by structure for any sizes, and of what it cannot prove."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import UnprovenWarning, VerifyError
from schedlang.expr.nodes import Var
from schedlang.ir import points
from schedlang.ir.verify import report, verify
from schedlang.lowering.lower import lower_state
from tests.nests import axis, buffer, guard, load, loop, nest, store

N = Var("n")


def product(m, n, k):
    A, B = sl.placeholder((m, k), name="A"), sl.placeholder((k, n), name="B")
    r = sl.reduce_axis(k, name="k")
    return A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name="C")


def blocked(s, A, B, C):
    """Schedule te's blocking, packing and write cache."""
    T = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(*C.op.axis, 32, 32)
    s[T].compute_at(s[C], no)
    i, j = s[T].op.axis
    ko, ki = s[T].split(s[T].op.reduce_axis[0], factor=4)
    s[T].reorder(ko, i, ki, j)
    s[T].vectorize(j)
    s[T].unroll(ki)
    P = s.cache_read(B, "global", [T])
    x, y = s[P].op.axis
    s[P].parallel(x)
    s[C].parallel(s[C].fuse(mo, no) if not s.state.held["C"] else mo)
    s[C].vectorize(ni)


def split_twice(s, A, B, C):
    outer, inner = s[C].split(C.op.axis[0], nparts=4)
    s[C].split(inner, factor=3)
    s[C].parallel(outer)


def cut_twice(s, A, B, C):
    outer, inner = s[C].split(C.op.axis[0], factor=6, tail="cut")
    s[C].split(inner, factor=4, tail="cut")
    s[C].parallel(outer)


def fused(s, A, B, C):
    s[C].parallel(s[C].fuse(*C.op.axis))


def fused_with_tails(s, A, B, C):
    outer, inner = s[C].split(s[C].fuse(*C.op.axis), factor=7, tail="guard")
    s[C].parallel(outer)


def partial_sums(s, A, B, C):
    _, inner = s[C].split(s[C].op.reduce_axis[0], factor=8)
    R = s.rfactor(C, inner, -1)
    s[R].vectorize(s[R].leaf_axes[-2])
    s[C].parallel(C.op.axis[0])


def pieces(s, A, B, C):
    P = s.cache_read(B, "global", [C])
    s[P].transform_layout(lambda k, j: (j // 16, k // 8, k % 8, j % 16))
    s[P].parallel(s[P].op.axis[1])
    s[C].parallel(C.op.axis[0])


WAYS = [blocked, split_twice, cut_twice, fused, fused_with_tails, partial_sums, pieces]


@pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (1000, 1003, 997), (N, N, 64), (N, 96, N)])
@pytest.mark.parametrize("way", WAYS)
def test_usual_schedules_are_proven_at_any_size(way, sizes, monkeypatch):
    # with counting disabled, a nest that passes is proven
    for module in ("points", "cover", "races"):
        monkeypatch.setattr(f"schedlang.ir.{module}.MOST_POINTS", 1)
    tensors = product(*sizes)
    s = sl.schedule(tensors[-1])
    way(s, *tensors)
    assert report(lower_state(s.state)).open == ()


def test_ordinary_kernels_do_not_warn():
    A = sl.placeholder((N,), name="A")
    C = sl.compute((N,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    cut_twice(s, A, A, C)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprovenWarning)
        f = sl.build(s, target="python")
    assert f.unproven == ()
    for size in (0, 1, 5, 6, 23):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(f(a), a * 2)


def nested_cut_of_a_symbolic_part():
    A = sl.placeholder((N,), name="A")
    C = sl.compute((N,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=3)
    s[C].split(outer, factor=4, tail="cut")
    return s


def test_a_kernel_that_is_not_proven_says_so():
    with pytest.warns(UnprovenWarning, match="each element of C is written exactly once"):
        f = sl.build(nested_cut_of_a_symbolic_part(), target="python")
    assert f.unproven == ("it is not proven that each element of C is written exactly once",)
    for size in (0, 1, 5, 6, 23):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(f(a), a * 2)


# Right and wrong nests of symbolic size, written by hand.

A, C = buffer("A", N), buffer("C", N)
i = axis("i", N)


def test_a_race_at_a_fixed_distance():
    """Each iteration reads an element that the next one writes."""
    j = axis("j", N - 1)
    body = loop(j, store(C, (j,), load(C, j + 1)), kind="parallel")
    last = store(C, (N - 1,), 0.0)
    with pytest.raises(VerifyError, match="C is read by one iteration of parallel loop j and"):
        verify(nest([A], [C], body, last, sizes=(N,)))


def test_a_race_between_two_stores():
    T, j = buffer("T", N + 1), axis("j", N)
    body = loop(j, store(T, (j,), 0.0), store(T, (j + 1,), 1.0), kind="parallel")
    with pytest.raises(VerifyError, match="T is written by several iterations of parallel loop j"):
        verify(nest([A], [T], body, sizes=(N,)))


def test_rows_that_are_read_within_a_tile():
    wide, o, k, m = buffer("D", 4096, 4096), axis("o", 512), axis("k", 8), axis("m", 8)
    made = loop(k, store(wide, (o * 8 + k, 0), 0.0))
    used = loop(m, store(wide, (o * 8 + m, 1), load(wide, o * 8 + (m + 3) % 8, 0)))
    assert report(nest([], [wide], loop(o, made, used, kind="parallel"))).open == (
        "it is not proven that each element of D is written exactly once",
    )
    past = loop(m, store(wide, (o * 8 + m, 1), load(wide, o * 8 + m + 1, 0)))
    guarded = guard(o < 511, past)
    with pytest.raises(VerifyError, match="D is read by one iteration of parallel loop o"):
        report(nest([], [wide], loop(o, made, guarded, kind="parallel")))


def test_a_nest_too_large_to_count_is_not_proven():
    size = points.MOST_POINTS * 2
    big, j = buffer("D", size), axis("j", size)
    for index in (j // 2, j * j // size):
        found = report(nest([], [big], loop(j, store(big, (index,), 0.0)))).open
        assert found == ("it is not proven that each element of D is written exactly once",)
    racing = loop(j, store(big, (j * j // size,), 0.0), kind="parallel")
    found = report(nest([], [big], racing)).open
    assert any("parallel loop j access different elements of D" in x for x in found)
    with pytest.raises(VerifyError, match="D is written by several iterations of parallel loop j"):
        report(nest([], [big], loop(j, store(big, (j // 2,), 0.0), kind="parallel")))
