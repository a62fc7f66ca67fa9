"""Tests of what the verifier proves by structure for any sizes, and of what it cannot prove."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import UnprovenWarning, VerifyError
from schedlang.expr.nodes import Var
from schedlang.index import enumeration
from schedlang.ir.verify import report, verify
from schedlang.lowering.lower import lower_state
from tests.nests import axis, buffer, guard, load, loop, nest, store

N, M = Var("n"), Var("m")


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
    s[C].parallel(s[C].fuse(mo, no) if not s.state.attachments["C"] else mo)
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


def cut_in_half(s, A, B, C):
    outer, inner = s[C].split(C.op.axis[0], factor=8, tail="cut")
    s[C].split(inner, factor=4, tail="cut")
    s[C].parallel(outer)


def columns_fused(s, A, B, C):
    i, j = C.op.axis
    s[C].reorder(j, i)
    s[C].parallel(s[C].fuse(j, i))


def columns_fused_with_tails(s, A, B, C):
    i, j = C.op.axis
    s[C].reorder(j, i)
    outer, inner = s[C].split(s[C].fuse(j, i), factor=8, tail="guard")
    s[C].parallel(outer)
    s[C].vectorize(inner)


def columns_fused_and_cut(s, A, B, C):
    i, j = C.op.axis
    s[C].reorder(j, i)
    s[C].split(s[C].fuse(j, i), factor=8, tail="cut")


WAYS = [
    columns_fused, columns_fused_with_tails, columns_fused_and_cut, blocked, split_twice,
    cut_twice, cut_in_half, fused, fused_with_tails, partial_sums, pieces,
]  # fmt: skip


@pytest.mark.parametrize(
    "sizes",
    [(1024, 1024, 1024), (1000, 1003, 997), (N, N, 64), (N, 96, N), (16, N, 8), (N // 2, M, 8)],
)
@pytest.mark.parametrize("way", WAYS)
def test_usual_schedules_are_proven_at_any_size(way, sizes, monkeypatch):
    # with counting disabled, a nest that passes is proven
    monkeypatch.setattr(enumeration, "MOST_POINTS", 0)
    tensors = product(*sizes)
    s = sl.schedule(tensors[-1])
    way(s, *tensors)
    assert report(lower_state(s.state)).open == ()


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_fused_axes_are_proven_in_any_order(order):
    A = sl.placeholder((N, M, M + 1), name="A")
    C = sl.compute(A.shape, lambda i, j, k: A[i, j, k] * 2, name="C")
    s = sl.schedule(C)
    first, second, third = (C.op.axis[k] for k in order)
    s[C].reorder(first, second, third)
    s[C].parallel(s[C].fuse(s[C].fuse(first, second), third))
    assert report(lower_state(s.state)).open == ()


EXTENTS = [N // 2, N % 8, (N + 1) // 2, N // 3 + 1, N // 2 * 2, N // 2 * M]


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("tail", ["cut", "guard"])
def test_parts_of_sizes_are_proven(extent, tail):
    A = sl.placeholder((extent, 4), name="A")
    C = sl.compute(A.shape, lambda i, j: A[i, j] * 2, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4, tail=tail)
    s[C].parallel(outer)
    assert report(lower_state(s.state)).open == ()


@pytest.mark.parametrize("parts", [{"factor": 8}, {"nparts": 3}])
def test_fused_windows_of_a_symbolic_size_are_proven(parts):
    A = sl.placeholder(((N - 3) // 2 + 1, N // 2 + 1), name="A")
    C = sl.compute(A.shape, lambda i, j: A[i, j] * 2, name="C")
    s = sl.schedule(C)
    s[C].split(s[C].fuse(*C.op.axis), **parts)
    assert report(lower_state(s.state)).open == ()


def test_a_cut_of_a_part_of_a_size_needs_no_guard():
    A = sl.placeholder((N // 2,), name="A")
    C = sl.compute(A.shape, lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    s[C].split(C.op.axis[0], factor=4, tail="cut")
    assert "if" not in str(s)
    f = sl.build(s, target="python")
    for size in (0, 1, 2, 7, 8, 9, 23):
        a = np.arange(size // 2, dtype="float32")
        np.testing.assert_array_equal(f(a, size), a * 2)


def test_a_fused_loop_in_the_wrong_order_is_refuted():
    wide, f = buffer("D", 3, 4), axis("f", 12)
    with pytest.raises(VerifyError, match="D.* is finalised"):
        report(nest([], [wide], loop(f, store(wide, (f // 4, f % 3 * 0 + f % 2), 0.0))))
    symbolic, g = buffer("D", N, M), axis("g", N * M)
    for indices in ((g % N, g // M), (g // N, g % N), (g % N, g % M)):
        found = report(nest([], [symbolic], loop(g, store(symbolic, indices, 0.0)), sizes=(N, M)))
        assert "it is not proven that each element of D is written exactly once" in found.open


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
    size = enumeration.MOST_POINTS * 2
    big, j = buffer("D", size), axis("j", size)
    for index in (j // 2, j * j // size):
        found = report(nest([], [big], loop(j, store(big, (index,), 0.0)))).open
        assert found == ("it is not proven that each element of D is written exactly once",)
    racing = loop(j, store(big, (j * j // size,), 0.0), kind="parallel")
    found = report(nest([], [big], racing)).open
    assert any("parallel loop j access different elements of D" in x for x in found)
    with pytest.raises(VerifyError, match="D is written by several iterations of parallel loop j"):
        report(nest([], [big], loop(j, store(big, (j // 2,), 0.0), kind="parallel")))
