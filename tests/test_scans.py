"""Tests of scans whose updates read each other, look back, or return extra outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, ComputeError, LoweringError

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
    with pytest.raises(
        ComputeError, match="scan R: z belongs to two of its states\n  Give each state"
    ):
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


def shifted_scan() -> tuple[sl.Tensor, ...]:
    """Return ``X``, ``W``, a stage of ``X[t - 1]``, and the scan whose steps read its rows."""
    X, W = sl.placeholder((T, H), name="X"), sl.placeholder((H, H), name="W")
    S = sl.placeholder((T + 1, H), name="S")
    k = sl.reduce_axis(H, name="k")
    product = sl.compute(
        (T + 1, H), lambda t, i: sl.sum(X[t - 1, k] * W[k, i], axis=k), name="product"
    )
    first = sl.compute((1, H), lambda _, i: 1.0, name="first")
    step = sl.compute((T + 1, H), lambda t, i: sl.tanh(S[t - 1, i] + product[t, i]), name="step")
    return X, W, product, step, sl.scan(first, step, S, name="R")


def shifted_rows() -> np.ndarray:
    result = np.ones((T + 1, H), "float32")
    for t in range(1, T + 1):
        result[t] = np.tanh(result[t - 1] + x[t - 1] @ w)
    return result


def at_the_step(s: sl.Schedule, product: sl.Tensor, step: sl.Tensor) -> None:
    s[product].compute_at(s[step], s[step].op.axis[1])


def in_vectors(s: sl.Schedule, product: sl.Tensor, step: sl.Tensor) -> None:
    s[product].vectorize(s[product].split(s[product].fuse(*s[product].op.axis), 8)[1])


def through_caches(s: sl.Schedule, product: sl.Tensor, step: sl.Tensor) -> None:
    cache = s.cache_write(product, "local")
    s[cache].compute_at(s[product], s[product].op.axis[0])
    s.cache_read(product, "global", [step])


def summed_in_parts(s: sl.Schedule, product: sl.Tensor, step: sl.Tensor) -> None:
    s.rfactor(product, s[product].split(s[product].op.reduce_axis[0], 4)[0])


@pytest.mark.parametrize("steps", [None, at_the_step, in_vectors, through_caches, summed_in_parts])
def test_a_stage_beside_a_scan_reads_the_row_before(steps: Any) -> None:
    # row 0 of the stage would read X[-1], and no step reads it
    _, _, product, step, R = shifted_scan()
    s = sl.schedule(R)
    if steps is not None:
        steps(s, product, step)
    np.testing.assert_allclose(sl.build(s, target="python")(x, w), shifted_rows(), rtol=1e-5)
    np.testing.assert_allclose(sl.reference(R)(x, w), shifted_rows(), rtol=1e-5)
    assert sl.cost(R).flops == T * H * (2 * H + 2)


def test_rows_that_a_scan_leaves_out_are_no_result() -> None:
    X, W, product, _, R = shifted_scan()
    with pytest.raises(LoweringError, match="product among the arguments: .* the values -1..4"):
        sl.lower(sl.schedule(R), [X, W, product, R])
    with pytest.raises(BoundsError, match=r"product reads X\[t - 1, k\]"):
        sl.schedule([R, product])
    other = sl.compute((T, H), lambda t, i: R[t, i] + product[t, i], name="other")
    with pytest.raises(BoundsError, match=r"product reads X\[t - 1, k\]"):
        sl.schedule(other)


def test_a_scan_of_first_rows_alone_reads_no_row_beside_it() -> None:
    X, S = sl.placeholder((0, H), name="X"), sl.placeholder((1, H), name="S")
    doubled = sl.compute((1, H), lambda t, i: X[t - 1, i] * 2, name="doubled")
    first = sl.compute((1, H), lambda _, i: 3.0, name="first")
    R = sl.scan(first, sl.compute((1, H), lambda t, i: S[t - 1, i] + doubled[t, i]), S, name="R")
    assert (rows(R, "python", np.empty((0, H), "float32"))[0] == 3).all()
