"""Simplified min and max of indices keep their values at every point."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis
from schedlang.index.linear import to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import simplify, to_lin

TERMS = st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9))
STEPS = st.tuples(st.sampled_from(["min", "max"]), st.integers(-4, 4), TERMS)


@settings(max_examples=200, deadline=None)
@given(TERMS, st.lists(STEPS, min_size=1, max_size=4), st.integers(1, 7), st.integers(1, 7))
def test_nested_extremes_keep_their_value(
    first: Any, steps: Any, x: int, y: int
) -> None:
    i, j = Axis("i", x), Axis("j", y)

    def linear(terms: Any) -> Any:
        return terms[0] * i + terms[1] * j + terms[2]

    value = linear(first)
    for op, shift, terms in steps:
        value = getattr(sl, op)(value + shift, linear(terms))
    grid = {i: np.arange(x)[:, None], j: np.arange(y)[None, :]}
    wanted = np.broadcast_to(evaluate(value, grid), (x, y))
    lin = to_lin(value)
    np.testing.assert_array_equal(np.broadcast_to(evaluate(to_expr(lin), grid), (x, y)), wanted)
    if Ranges().nonneg(lin):
        assert (wanted >= 0).all()
    low, high = Ranges().interval(lin)
    assert low is None or low <= wanted.min()
    assert high is None or high >= wanted.max()


def test_a_shift_of_a_clamp_is_one_clamp() -> None:
    i = Axis("i", 32)
    inner = sl.max(i * 32 - 1, 0)
    assert str(simplify(sl.max(inner - 2, 0))) == "max(i*32 - 3, 0)"
    both = sl.min(sl.max(i * 64 - 2, 0), sl.max(i * 64 - 1, 0))
    assert str(simplify(both)) == "max(i*64 - 2, 0)"


def test_a_reflection_needs_no_clamp() -> None:
    i = Axis("i", 32)
    assert str(simplify(sl.max(sl.max(i - 1, 1 - i), 0))) == "max(i - 1, 1 - i)"
    assert str(simplify(sl.min(sl.min(i + 1, 61 - i), 31))) == "min(i + 1, 61 - i)"
    assert str(simplify(sl.min(sl.min(i + 1, 61 - i), 30))) == "min(i + 1, 30)"


def test_sum_of_python_adds_no_zero() -> None:
    A = sl.placeholder((8,), name="A")
    B = sl.compute((6,), lambda i: sum(A[i + k] for k in range(3)), name="B")
    assert "B[i] = A[i] + A[i + 1] + A[i + 2]" in str(sl.schedule(B))
    flags = sl.placeholder((8,), "bool", name="flags")
    C = sl.compute((6,), lambda i: sum(flags[i + k] for k in range(3)), name="C")
    a = np.array([1, 1, 0, 1, 1, 1, 0, 0], bool)
    found = sl.build(sl.schedule(C), target="python")(a)
    np.testing.assert_array_equal(found, sum(a[k : k + 6].astype("int64") for k in range(3)))
