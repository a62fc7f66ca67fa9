"""Tests of scans whose updates read each other, look back, or return extra outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError

T, H = 5, 6
x = np.random.default_rng(0).random((T, H), "float32")
w = np.random.default_rng(1).random((H, H), "float32")
targets = pytest.mark.parametrize("target", ["python", "cpu"])


def tensors(*names: str) -> list[sl.Tensor]:
    return [sl.placeholder((T, H), name=name) for name in names]


def first_row(X: sl.Tensor, name: str) -> sl.Tensor:
    return sl.compute((1, H), lambda t, i: X[0, i], name=name)


def rows(output: Any, target: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the results of a kernel, after comparing them with the oracle."""
    made = sl.build(sl.schedule(output), target=target)(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    oracle = sl.reference(output)(*arrays)
    for one, other in zip(made, oracle if isinstance(oracle, tuple) else (oracle,)):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return made


@targets
@pytest.mark.parametrize("turned", [False, True])
def test_an_update_reads_another_one_of_the_same_step(turned: bool, target: str) -> None:
    """The updates may be in either order, as the cell and the output of an LSTM."""
    X, h, c = tensors("X", "h", "c")
    c1 = sl.compute((T, H), lambda t, i: c[t - 1, i] * 0.5 + X[t, i], name="c1")
    h1 = sl.compute((T, H), lambda t, i: sl.tanh(c1[t, i]) + h[t - 1, i], name="h1")
    parts = [(first_row(X, "h0"), h1, h), (first_row(X, "c0"), c1, c)]
    made = sl.scan(*map(list, zip(*(parts[::-1] if turned else parts))), inputs=[X], name="cell")
    found = rows(made, target, x)
    cell, given = [x[0]], [x[0]]
    for moment in x[1:]:
        cell.append(cell[-1] * 0.5 + moment)
        given.append(np.tanh(cell[-1]) + given[-1])
    for got, wanted in zip(found, (cell, given) if turned else (given, cell)):
        np.testing.assert_allclose(got, np.stack(wanted), rtol=1e-5)


@targets
def test_a_step_reads_an_update_and_is_read_by_another(target: str) -> None:
    """In two recurrent layers, the second one multiplies the output of the first."""
    X, h, c = tensors("X", "h", "c")
    W, k = sl.placeholder((H, H), name="W"), sl.reduce_axis(H, name="k")
    c1 = sl.compute((T, H), lambda t, i: c[t - 1, i] * 0.5 + X[t, i], name="c1")
    g = sl.compute((T, H), lambda t, i: sl.sum(W[i, k] * c1[t, k], axis=k), name="g")
    h1 = sl.compute((T, H), lambda t, i: sl.tanh(g[t, i]) + h[t - 1, i], name="h1")
    inits = [first_row(X, "h0"), first_row(X, "c0")]
    made = sl.scan(inits, [h1, c1], [h, c], inputs=[X, W], name="layers")
    given, cell = rows(made, target, x, w)
    wanted, below = [x[0]], x[0]
    for moment in x[1:]:
        below = below * 0.5 + moment
        wanted.append(np.tanh(w @ below) + wanted[-1])
    np.testing.assert_allclose(given, np.stack(wanted), rtol=1e-4)
    np.testing.assert_allclose(cell[-1], below, rtol=1e-5)


@targets
@pytest.mark.parametrize("back", [2, 3])
def test_a_look_back_that_is_clamped_at_the_start(back: int, target: str) -> None:
    X, S = tensors("X", "S")
    step = sl.compute(
        (T, H),
        lambda t, i: S[t - 1, i] * 0.5 + S[sl.max(t - back, 0), i] + X[sl.max(t - back, 0), i]
        + X[t // 2, i] * (t % 2),
        name="step",
    )  # fmt: skip
    (found,) = rows(sl.scan(first_row(X, "first"), step, S, inputs=[X], name="R"), target, x)
    wanted = [x[0]]
    for t in range(1, T):
        past = max(t - back, 0)
        wanted.append(wanted[-1] * np.float32(0.5) + wanted[past] + x[past] + x[t // 2] * (t % 2))
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-5)


@targets
def test_one_stage_updates_two_states(target: str) -> None:
    X, h, c = tensors("X", "h", "c")
    both = sl.compute(
        (T, H), lambda t, i: (h[t - 1, i] + X[t, i], c[t - 1, i] * 0.5 + h[t - 1, i]), name="both"
    )
    inits = [first_row(X, "h0"), first_row(X, "c0")]
    sums, _ = rows(sl.scan(inits, list(both), [h, c], inputs=[X], name="R"), target, x)
    np.testing.assert_allclose(sums, np.cumsum(x, 0), rtol=1e-5)


@targets
def test_a_scan_returns_an_output_that_is_no_state(target: str) -> None:
    X, h = tensors("X", "h")
    u, _ = sl.compute((T, H), lambda t, i: (h[t - 1, i] + X[t, i], h[t - 1, i] * 2), name="two")
    (sums,) = rows(sl.scan(first_row(X, "h0"), u, h, inputs=[X], name="R"), target, x)
    np.testing.assert_allclose(sums, np.cumsum(x, 0), rtol=1e-5)


def test_first_rows_belong_to_one_state() -> None:
    X, h, c = tensors("X", "h", "c")
    z = first_row(X, "z")
    ups = [sl.compute((T, H), lambda t, i, s=s: s[t - 1, i] + X[t, i], name="u") for s in (h, c)]
    two = sl.scan([z, z], ups, [h, c], inputs=[X], name="R")
    with pytest.raises(ComputeError, match="scan R: z belongs to two of its states\n"
                                           "  Give each state"):
        sl.schedule(two)
    P = sl.compute((H,), lambda i: z[0, i] * 0.1, name="P")
    U = sl.compute((T, H), lambda t, i: h[t - 1, i] + P[i], name="U")
    with pytest.raises(ComputeError, match="P reads z: z holds the first rows of scan Q"):
        sl.schedule(sl.scan(z, U, h, inputs=[X], name="Q"))


@pytest.mark.parametrize("rows", [2, 3, 6])
def test_states_of_several_shapes_that_are_no_outputs(rows: int) -> None:
    """Each has storage of its own shape, of as many rows as are read."""
    X = sl.placeholder((rows, 3), name="X")
    h, c, e = (sl.placeholder((rows, *s), name=n) for n, s in (("h", (3,)), ("c", (5,)), ("e", ())))
    first = [
        sl.compute((1, 3), lambda t, i: X[0, i], name="h0"),
        sl.compute((1, 5), lambda t, i: 1.0, name="c0"), sl.compute((1,), lambda t: 2.0, name="e0"),
    ]  # fmt: skip
    step = [
        sl.compute((rows, 3), lambda t, i: h[t - 1, i] + X[t, i] * e[t - 1], name="h1"),
        sl.compute((rows, 5), lambda t, i: c[t - 1, 4 - i] + h[t - 1, i % 3], name="c1"),
        sl.compute((rows,), lambda t: e[t - 1] + c[t - 1, 0], name="e1"),
    ]
    made = sl.scan(first, step, [h, c, e], name="R")
    last = [sl.compute(s.shape[1:], lambda *i, s=s: s[(rows - 1, *i)], name="L") for s in made]
    x = np.random.default_rng(0).random((rows, 3), "float32")
    a, b, d = x[0], np.ones(5, "float32"), np.float32(2)
    for t in range(1, rows):
        a, b, d = a + x[t] * d, b[::-1] + a[[0, 1, 2, 0, 1]], d + b[0]
    s = sl.schedule(last)
    for got, wanted in zip(sl.build(s, target="python")(x), (a, b, d)):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert "R.v1: float32[2, 5]" in str(s) and "R.v2: float32[2]" in str(s)
