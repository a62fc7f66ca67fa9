"""Tests of indices clamped by min and max, in the usual orders of writing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import BoundsError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Var
from schedlang.index.conditions import facts_of_extent
from schedlang.index.linear import to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin

n = sl.var("n")


def plain(s: Any, C: Any) -> None:
    pass


def lanes(s: Any, C: Any) -> None:
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    s[C].parallel(outer)


def cut(s: Any, C: Any) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=4, tail="cut")
    s[C].parallel(outer)


def twice(s: Any, C: Any) -> None:
    _, inner = s[C].split(C.op.axis[0], nparts=3)
    s[C].split(inner, factor=2)


CLAMPS = {
    "next": (lambda i: sl.min(i + 1, n - 1), lambda i, size: np.minimum(i + 1, size - 1)),
    "clip": (
        lambda i: sl.min(sl.max(i - 1, 0), n - 1), lambda i, size: np.clip(i - 1, 0, size - 1)
    ),
    "twice": (lambda i: sl.min(2 * i, n - 1), lambda i, size: np.minimum(2 * i, size - 1)),
    "back": (
        lambda i: sl.max(sl.min(i + 3, n - 1), 0), lambda i, size: np.minimum(i + 3, size - 1)
    ),
    "mirror": (lambda i: sl.min(i, n - 1 - i), lambda i, size: np.minimum(i, size - 1 - i)),
}  # fmt: skip


@pytest.mark.parametrize("schedule", [plain, lanes, cut, twice])
@pytest.mark.parametrize("form", CLAMPS)
def test_clamps_to_a_size_need_no_check_at_the_call(form: str, schedule: Any) -> None:
    index, wanted = CLAMPS[form]
    A = sl.placeholder((n,), name="A")
    C = sl.compute((n,), lambda i: A[index(i)] * 2, name="C")
    s = sl.schedule(C)
    schedule(s, C)
    f = sl.build(s, target="python")
    assert not f._built.checked_by_size
    for size in (0, 1, 2, 9, 16):
        a = np.arange(size, dtype="float32")
        places = wanted(np.arange(size), size)
        np.testing.assert_array_equal(f(a), a[places] * 2)


def test_a_producer_read_at_clamped_indices_is_attached() -> None:
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] + 1, name="B")
    C = sl.compute((n,), lambda i: B[sl.min(i + 1, n - 1)] + B[sl.max(i - 1, 0)], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    f = sl.build(s, target="python")
    for size in (0, 1, 2, 9):
        a = np.arange(size, dtype="float32")
        i = np.arange(size)
        wanted = a[np.minimum(i + 1, size - 1)] + a[np.maximum(i - 1, 0)] + 2
        np.testing.assert_array_equal(f(a), wanted)


def test_the_minimum_of_a_rising_and_a_falling_index_is_in_bounds() -> None:
    B = sl.placeholder((150,), name="B")
    C = sl.compute((300,), lambda i: B[sl.min(i, 299 - i)], name="C")
    b, i = np.arange(150, dtype="float32"), np.arange(300)
    np.testing.assert_array_equal(
        sl.build(sl.schedule(C), target="python")(b), b[np.minimum(i, 299 - i)]
    )
    with pytest.raises(BoundsError, match=r"takes the values 0\.\.150, but B of shape \(150,\)"):
        sl.compute((301,), lambda i: B[sl.min(i, 300 - i)], name="C")


def test_the_refusal_names_a_clamp_that_is_accepted() -> None:
    A = sl.placeholder((8,), name="A")
    X = sl.placeholder((n,), name="X")
    for index, clamp in (
        (lambda i: i + 1, r"sl\.min\(i \+ 1, 7\),"),
        (lambda i: 2 * i - 9, r"sl\.max\(2\*i - 9, 0\),"),
        (lambda i: 2 * i - 1, r"sl\.max\(sl\.min\(2\*i - 1, 7\), 0\),"),
    ):
        with pytest.raises(BoundsError, match=f"Clamp the index with {clamp}"):
            sl.compute((8,), lambda i, at=index: A[at(i)], name="B")
    with pytest.raises(BoundsError, match=r"-2 and up.*\s.*sl\.max\(2\*i - 2, 0\),"):
        sl.compute((n,), lambda i: X[2 * i - 2], name="B")


TERMS = st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9))


@settings(max_examples=150, deadline=None)
@given(st.lists(TERMS, min_size=2, max_size=3), st.integers(1, 9), st.integers(1, 9))
def test_proofs_about_extremes_hold_at_every_point(terms: Any, x: int, y: int) -> None:
    i, j = Axis("i", x), Axis("j", y)
    parts = [a * i + b * j + c for a, b, c in terms]
    grid = {i: np.arange(x)[:, None], j: np.arange(y)[None, :]}
    for extreme in (sl.max, sl.min):
        value = extreme(*parts)
        if Ranges().nonneg(to_lin(value)):
            assert (np.asarray(evaluate(value, grid)) >= 0).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.integers(-6, 9), st.integers(-3, 3), st.integers(0, 20))
def test_facts_that_an_iteration_implies_hold(den: int, shift: int, more: int, size: int) -> None:
    v = Var("v")
    for extent in ((v + shift) // den + more, (v + shift) % den + more):
        check_occupied(v, extent, size)


def check_occupied(v: Any, extent: Any, size: int) -> None:
    if int(evaluate(extent, {v: size})) >= 1:
        for fact in facts_of_extent(to_lin(extent)):
            assert int(evaluate(to_expr(fact), {v: size})) <= 0
