"""A scan refuses an update that reads the row it computes, or a later one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, ComputeError, UnprovenWarning
from schedlang.ir.interpret import interpret

ROWS, WIDTH = 7, 3
X = sl.placeholder((ROWS, WIDTH), name="X")
START = sl.placeholder((ROWS,), "int32", name="START")


def recurrence(read: Callable[[Any, Any, Any], Any], length: Any = ROWS) -> Any:
    """Return the scan whose step adds ``read(S, t, i)`` to the input."""
    A = X if length is ROWS else sl.placeholder((length, WIDTH), name="X")
    S = sl.placeholder((length, WIDTH), name="S")
    first = sl.compute((1, WIDTH), lambda _, i: A[0, i], name="first")
    step = sl.compute((length, WIDTH), lambda t, i: A[t, i] + read(S, t, i), name="step")
    return sl.scan(first, step, S, inputs=[A], name="c")


def expected(x: np.ndarray, read: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    rows = np.zeros_like(x)
    rows[0] = x[0]
    for t in range(1, len(x)):
        rows[t] = x[t] + read(rows, t)
    return rows


ALLOWED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "the row before": (lambda S, t, i: S[t - 1, i], lambda s, t: s[t - 1]),
    "a clamped row": (lambda S, t, i: S[sl.max(t - 2, 0), i], lambda s, t: s[max(t - 2, 0)]),
    "half": (lambda S, t, i: S[t // 2, i], lambda s, t: s[t // 2]),
    "a condition": (
        lambda S, t, i: sl.if_then_else(t > 2, S[t - 3, i], 0.0),
        lambda s, t: s[t - 3] if t > 2 else 0 * s[0],
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("target", ["python", "cpu"])
def test_earlier_rows_may_be_read(name: str, target: str) -> None:
    ours, theirs = ALLOWED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = recurrence(ours)
        f = sl.build(sl.schedule(c), [X, c], target=target)
    x = np.random.default_rng(0).random((ROWS, WIDTH), "float32")
    np.testing.assert_allclose(f(x), expected(x, theirs), rtol=1e-6)
    np.testing.assert_allclose(sl.reference(c)(x), expected(x, theirs), rtol=1e-6)


@pytest.mark.parametrize(
    "read",
    [
        lambda S, t, i: S[t, i],
        lambda S, t, i: S[sl.min(t + 1, ROWS - 1), i],
        lambda S, t, i: S[ROWS - 1 - t, i],
        lambda S, t, i: S[ROWS - 1, i],
        lambda S, t, i: S[t - 1, i] + sl.if_then_else(t > 3, S[t, i], 0.0),
    ],
)
def test_a_row_that_is_not_computed_yet_is_refused(read: Callable[..., Any]) -> None:
    with pytest.raises(ComputeError, match="the rows from t on are not computed yet") as caught:
        recurrence(read)
    assert "Read an earlier row, such as S[t - 1, i]." in str(caught.value)


def test_symbolic_lengths() -> None:
    n = sl.var("n")
    recurrence(lambda S, t, i: S[t - 1, i], n)
    with pytest.raises(ComputeError, match="not computed yet"):
        recurrence(lambda S, t, i: S[t, i], n)


def test_a_row_that_depends_on_data_is_not_proven() -> None:
    with pytest.warns(UnprovenWarning, match="not proven that step reads only rows before row t"):
        c = recurrence(lambda S, t, i: S[sl.min(sl.max(START[t], 0), ROWS - 1), i])
    f = sl.build(sl.schedule(c), [X, START, c], target="python")
    x, start = np.ones((ROWS, WIDTH), "float32"), np.maximum(np.arange(ROWS) - 2, 0)
    np.testing.assert_allclose(f(x, start.astype("int32")), expected(x, lambda s, t: s[start[t]]))


@pytest.mark.parametrize(("inner", "outer", "legal"), [(1, 0, True), (0, 1, True), (0, 0, False)])
def test_rows_are_counted_through_other_stages(inner: int, outer: int, legal: bool) -> None:
    S = sl.placeholder((ROWS, WIDTH), name="S")
    Z = sl.compute((ROWS, WIDTH), lambda t, i: S[sl.max(t - inner, 0), i] * 2, name="Z")
    first = sl.compute((1, WIDTH), lambda _, i: X[0, i], name="first")
    step = sl.compute(
        (ROWS, WIDTH), lambda t, i: Z[sl.max(t - outer, 0), i] + X[t, i], name="step"
    )
    if legal:
        sl.scan(first, step, S, inputs=[X], name="c")
    else:
        with pytest.raises(ComputeError, match=r"step reads Z\[max\(t - 0, 0\), i\]"):
            sl.scan(first, step, S, inputs=[X], name="c")


@pytest.mark.parametrize("order", [1, -1])
def test_a_second_state_reads_the_update_of_the_first(order: int) -> None:
    S1, S2 = (sl.placeholder((ROWS,), name=name) for name in ("S1", "S2"))
    zeros = [sl.compute((1,), lambda _: 0.0, name=name) for name in ("z1", "z2")]
    u1 = sl.compute((ROWS,), lambda t: S1[t - 1] + 1, name="u1")
    wrong = sl.compute((ROWS,), lambda t: S2[t - 1] + S1[t], name="wrong")
    message = r"wrong reads S1\[t\].*\n.*The row that the same step computes is u1\[t\]"
    with pytest.raises(ComputeError, match=message):
        sl.scan(zeros[::order], [u1, wrong][::order], [S1, S2][::order], name="c")
    u2 = sl.compute((ROWS,), lambda t: S2[t - 1] + u1[t], name="u2")
    made = sl.scan(zeros[::order], [u1, u2][::order], [S1, S2][::order], name="c")
    found = dict(zip(("S1", "S2")[::order], sl.build(sl.schedule(made), target="python")()))
    np.testing.assert_array_equal(found["S1"], np.arange(ROWS))
    np.testing.assert_array_equal(found["S2"], np.cumsum(np.arange(ROWS)))


@pytest.mark.parametrize("length", [ROWS, sl.var("n")])
def test_rows_before_the_first_are_refused(length: Any) -> None:
    with pytest.raises(BoundsError, match=r"step reads S\[t - 2, i\].*-1"):
        recurrence(lambda S, t, i: S[t - 2, i], length)


def test_a_copy_of_earlier_rows_ends_at_the_last_one_read() -> None:
    c = recurrence(lambda S, t, i: S[t - 1, i] + S[t // 2, i])
    s = sl.schedule(c)
    copy = s.cache_read(c.op.state[0], "global", [c.op.update[0]])
    s[copy].compute_at(s[c], c.op.scan_axis)
    nest = sl.lower(s, [X, c])
    x = np.random.default_rng(0).random((ROWS, WIDTH), "float32")
    # the interpreter raises an error for a read of an element that is not written yet
    found = interpret(nest, [x]).outputs[0]
    np.testing.assert_allclose(found, expected(x, lambda r, t: r[t - 1] + r[t // 2]), rtol=1e-6)
