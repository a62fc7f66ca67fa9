"""Searches for recurrent layers: data and tolerances under which rounding errors stay small."""

from __future__ import annotations

from pathlib import Path

import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.runner.task import summed_in_steps, tolerance_for


def lstm(steps: int, hidden: int) -> list[sl.Tensor]:
    """Return the states of a layer, with the products of the inputs in a stage of their own."""
    X = sl.placeholder((steps, 1, hidden), name="X")
    U = sl.placeholder((4 * hidden, hidden), name="U")
    V = sl.placeholder((4 * hidden, hidden), name="V")
    return list(topi.nn.lstm(X, U, V))[:1]


def test_inputs_that_steps_sum_up() -> None:
    (states,) = lstm(8, 16)
    assert {t.name: n for t, n in summed_in_steps([states]).items()} == {"V": 16}
    # weights behind a stage, and sums of states alone
    W = sl.placeholder((16, 16), name="W")
    h, first = sl.placeholder((8, 16), name="h"), sl.compute((1, 16), lambda t, i: 0.0)
    k, scaled = sl.reduce_axis(16), sl.compute((16, 16), lambda i, j: W[i, j] * 2, name="scaled")
    update = sl.compute((8, 16), lambda t, i: sl.sum(h[t - 1, k] * scaled[i, k], axis=k))
    assert summed_in_steps([sl.scan(first, update, h)]) == {W: 16}
    assert summed_in_steps([sl.compute((16,), lambda i: sl.sum(W[i, k], axis=k))]) == {}


def test_steps_pass_their_errors_on() -> None:
    short, long = tolerance_for(lstm(4, 16)), tolerance_for(lstm(64, 16))
    assert 2 * short < long < 4 * short


@pytest.mark.slow
@pytest.mark.parametrize("hidden, steps", [(128, 40), (48, 8)])
def test_a_search_for_a_layer(tmp_path: Path, hidden: int, steps: int) -> None:
    found = sl.autotune(
        lstm(steps, hidden), trials=2, database=tmp_path / "trials.jsonl", progress=False
    )
    assert [trial.outcome for trial in found.trials] == ["ok", "ok"]
