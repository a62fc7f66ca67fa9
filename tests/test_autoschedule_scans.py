"""Schedules of recurrent layers by the cost model: tiles and threads of the steps of a scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.costs.estimate import AGAIN, LAUNCH, launching
from schedlang.autotune.model.by_model import by_model
from schedlang.autotune.tactics.facts import Problem
from schedlang.networks.prepare import prepare
from schedlang.networks.scan_weights import packed_for_scans

AVX512 = sl.Target("cpu", vector_bytes=64)


def _nest(hidden: int, batch: int) -> str:
    """Return the nest of the steps of an LSTM whose inputs are products already, for 2 threads."""
    inputs = sl.placeholder((16, batch, 4 * hidden), name="inputs")
    h, c = (sl.placeholder((17, batch, hidden), name=name) for name in "hc")
    W = sl.placeholder((4 * hidden, hidden), name="W")
    k = sl.reduce_axis(hidden, name="k")
    product = sl.compute(
        (17, batch, 4 * hidden), lambda t, b, j: sl.sum(h[t - 1, b, k] * W[j, k], axis=k),
        name="product",
    )  # fmt: skip

    def gate(n: int, t: Any, b: Any, j: Any) -> Any:
        given = sl.if_then_else(t >= 1, inputs[t - 1, b, n * hidden + j], 0)
        return sl.sigmoid(given + product[t, b, n * hidden + j])

    shape = (17, batch, hidden)
    next_c = sl.compute(
        shape, lambda t, b, j: gate(0, t, b, j) * c[t - 1, b, j] + gate(1, t, b, j), name="next_c"
    )
    next_h = sl.compute(
        shape, lambda t, b, j: gate(2, t, b, j) * sl.tanh(next_c[t, b, j]), name="next_h"
    )
    zero = [
        sl.compute((1, batch, hidden), lambda *_: sl.const(0, "float32"), name=n) for n in "xy"
    ]
    states, _ = sl.scan(zero, [next_h, next_c], [h, c], name="lstm")
    made = prepare(
        states, {W: np.zeros(W.shape, "float32")},
        rewrite=lambda outputs, weights: packed_for_scans(outputs, weights, AVX512),
    )  # fmt: skip
    s, _ = by_model(Problem(made.outputs, AVX512, 2, {}))
    assert s is not None
    return str(s)


@pytest.mark.parametrize("batch", [1, 8])
def test_threads_share_the_weights_of_a_large_step(batch: int) -> None:
    """The outermost loop of the product is over its results: each thread keeps its weights."""
    nest = _nest(512, batch)
    assert "  parallel j.outer" in nest
    # tiles of 8 vectors, or of 4 rows by 4 vectors
    assert ("vectorize j in 0..128" if batch == 1 else "unroll b in 0..4") in nest
    # no copy of the weights
    assert "W_packed.global" not in nest


def test_one_thread_runs_a_small_step() -> None:
    """64 by 16 weights take less time than a start of threads."""
    assert "parallel" not in _nest(16, 1)


def test_later_starts_cost_less() -> None:
    assert launching(1) == LAUNCH
    assert launching(64) == LAUNCH + 63 * AGAIN < 64 * LAUNCH


@pytest.mark.filterwarnings("ignore::schedlang.errors.StrideWarning")
def test_rows_of_a_scan_are_computed_at_a_loop_of_their_reader() -> None:
    """A sum along each row goes through time for some rows at once, whose sums are private."""
    X = sl.placeholder((203, 129), name="X")
    s = sl.autoschedule(np.cumsum(X, axis=1), target=AVX512)
    assert "compute_at" in s.as_python() and "for cumsum.t in 0..128" in str(s)
    x = np.random.default_rng(0).random((203, 129), "float32")
    np.testing.assert_allclose(sl.build(s)(x), x.cumsum(1, dtype="float64"), rtol=1e-4)
