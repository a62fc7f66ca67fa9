"""The weights of scans' steps in panels, ahead of all calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.networks.scan_weights import packed_for_scans

AVX512 = sl.Target("python", vector_bytes=64)


def _layer(kind: str, hidden: int, batch: int = 2, **options: Any) -> tuple[Any, list[Any]]:
    """Return the hidden states of a recurrent layer, and its weights."""
    rows = {"lstm": 4, "gru": 3}[kind] * hidden
    X = sl.placeholder((4, batch, 3), name="X")
    Wi, Wh = (sl.placeholder((rows, n), name=f"W{c}") for c, n in (("i", 3), ("h", hidden)))
    Bi, Bh = (sl.placeholder((rows,), name=f"B{c}") for c in "ih")
    made = getattr(topi.nn, kind)(X, Wi, Wh, Bi, Bh, **options)
    return (made[0] if kind == "lstm" else made), [Wi, Wh, Bi, Bh]


def _arrays(tensors: list[Any]) -> dict[Any, np.ndarray]:
    rng = np.random.default_rng(7)
    return {t: rng.uniform(-1, 1, t.shape).astype("float32") for t in tensors}


@pytest.mark.parametrize(
    "kind, hidden, options",
    [pytest.param("lstm", 8, {}, marks=pytest.mark.slow), ("lstm", 5, {}),
     pytest.param("gru", 16, {}, marks=pytest.mark.slow), ("gru", 9, {"reset_after": False}),
     pytest.param("lstm", 8, {"reverse": True}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_same_results(kind: str, hidden: int, options: dict[str, Any]) -> None:
    y, weights = _layer(kind, hidden, **options)
    given = _arrays(weights)
    (x,) = _arrays([sl.placeholder((4, 2, 3), name="x")]).values()
    net = sl.network(y, given, target=AVX512)
    assert any(name.endswith("_packed") for name in net.weights)
    assert "Wh" not in net.weights
    oracle = sl.reference(y)
    arrays = {t.name: a for t, a in given.items()} | {"X": x}
    want = oracle(*(arrays[t.name] for t in oracle.inputs))
    np.testing.assert_allclose(net(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_panels() -> None:
    """A panel has up to 4 vectors of results, or 8 for one row, as many as divide all of them."""
    y, weights = _layer("gru", 16)
    given = _arrays(weights)
    net = sl.network(y, given, target=AVX512)
    w = given[weights[1]]
    # 48 results are 3 vectors, which one panel holds
    np.testing.assert_array_equal(net.weights["Wh_packed"], w.T[None])
    y, weights = _layer("lstm", 40)
    given = _arrays(weights)
    # 160 results are 10 vectors: 5 panels of 2 vectors
    net = sl.network(y, given, target=AVX512)
    want = given[weights[1]].reshape(5, 32, 40).transpose(0, 2, 1)
    np.testing.assert_array_equal(net.weights["Wh_packed"], want)


    y, weights = _layer("lstm", 64, batch=1)
    given = _arrays(weights)
    net = sl.network(y, given, target=AVX512)
    want = given[weights[1]].reshape(2, 128, 64).transpose(0, 2, 1)
    np.testing.assert_array_equal(net.weights["Wh_packed"], want)


def test_last_panel_is_filled_with_zeros() -> None:
    y, weights = _layer("lstm", 9)
    given = _arrays(weights)
    net = sl.network(y, given, target=AVX512)
    # 36 results need 3 vectors, 48 results
    want = np.zeros((1, 9, 48), "float32")
    want[0, :, :36] = given[weights[1]].T
    np.testing.assert_array_equal(net.weights["Wh_packed"], want)


def test_what_is_not_packed() -> None:
    y, weights = _layer("lstm", 8)
    # no weights are known
    assert packed_for_scans([y], [], AVX512) == (y,)
    # too few results for half a vector
    small, few = _layer("lstm", 1)
    assert packed_for_scans([small], few, AVX512) == (small,)
    assert packed_for_scans([y], weights, AVX512) != (y,)
    # without a scan
    A, W = sl.placeholder((3, 8), name="A"), sl.placeholder((32, 8), name="W")
    dense = topi.nn.dense(A, W)
    assert packed_for_scans([dense], [W], AVX512) == (dense,)


def test_weights_of_each_time_step_are_not_packed() -> None:
    """A matrix for each step is read once."""
    W, X = sl.placeholder((6, 32, 8), name="W"), sl.placeholder((32,), name="X")
    h = sl.placeholder((6, 32), name="h")
    k = sl.reduce_axis(8, name="k")
    first = sl.compute((1, 32), lambda t, j: X[j], name="first")
    made = []
    for at in (lambda t: t, lambda t: 0):
        step = sl.compute(
            (6, 32), lambda t, j, at=at: sl.sum(h[t - 1, k] * W[at(t), j, k], axis=k), name="step"
        )
        y = sl.scan(first, step, h, name="y")
        made.append(packed_for_scans([y], [W], AVX512) != (y,))
    assert made == [False, True]


@pytest.mark.parametrize("shift", [-4, 4])
def test_reads_that_a_condition_keeps_in_bounds_are_not_packed(shift: int) -> None:
    """The copy would read places that are not there."""
    W, X = sl.placeholder((32, 8), name="W"), sl.placeholder((32,), name="X")
    h = sl.placeholder((6, 32), name="h")
    k = sl.reduce_axis(8, name="k")

    def value(t: Any, j: Any, at: Any) -> Any:
        inside = (j + at >= 0) & (j + at < 32)
        return sl.sum(h[t - 1, k] * sl.if_then_else(inside, W[j + at, k], 0), axis=k)

    first = sl.compute((1, 32), lambda t, j: X[j], name="first")
    made = []
    for at in (0, shift):
        step = sl.compute((6, 32), lambda t, j, at=at: value(t, j, at), name="step")
        y = sl.scan(first, step, h, name="y")
        made.append(packed_for_scans([y], [W], AVX512) != (y,))
    assert made == [True, False]


def test_weights_of_two_products_of_other_lengths() -> None:
    """Both read W[j, k], but not as many rows."""
    W, X = sl.placeholder((32, 32), name="W"), sl.placeholder((32,), name="X")
    h = sl.placeholder((4, 32), name="h")
    k, m = sl.reduce_axis(32, name="k"), sl.reduce_axis(16, name="k")
    first = sl.compute((1, 32), lambda t, j: X[j], name="first")
    long = sl.compute((4, 32), lambda t, j: sl.sum(h[t - 1, k] * W[j, k], axis=k), name="long")
    short = sl.compute((4, 16), lambda t, j: sl.sum(h[t - 1, m] * W[j, m], axis=m), name="short")
    step = sl.compute((4, 32), lambda t, j: sl.tanh(long[t, j] + short[t, j % 16]), name="step")
    y = sl.scan(first, step, h, name="y")
    given, (x,) = _arrays([W]), _arrays([X]).values()
    net = sl.network(y, given, target=AVX512)
    assert {a.shape for a in net.weights.values()} == {(1, 32, 32), (1, 16, 16)}
    want = sl.reference(y)
    arrays = {"X": x, "W": given[W]}
    np.testing.assert_allclose(
        net(x), want(*(arrays[t.name] for t in want.inputs)), rtol=1e-5, atol=1e-6
    )
