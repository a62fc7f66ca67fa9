"""Searches for recurrent layers: data and tolerances under which rounding errors stay small."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.autotune.knobs import Rejected
from schedlang.autotune.runner.task import summed_in_steps, tolerance_for
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.target import Cache
from tests.graphs import recurrent


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


def drawn(width: int, target: sl.Target, threads: int = 2) -> list[Candidate]:
    """Return candidates whose products keep tiles in registers."""
    start, W, result = recurrent(width, 5)
    space = Space(Problem((result,), target, threads))
    rng, found = Random(0), []
    for _ in range(60):
        try:
            found.append(space.draw(rng, {"P.how": "tile"}))
        except Rejected:
            continue
    return found


@pytest.mark.slow
def test_threads_turn_around_if_the_weights_do_not_fit_their_caches() -> None:
    width, asked = 256, []
    target = sl.Target("cpu", vector_bytes=32, caches=(Cache(1024, 4), Cache(4096, 4)))
    start = np.linspace(-1, 1, width, dtype="float32")[None]
    w = np.random.default_rng(0).random((width, width), "float32") - 0.5
    wanted = [start[0]]
    for _ in range(4):
        wanted.append(np.tanh(wanted[-1] @ w))
    for candidate in drawn(width, target):
        turns = candidate.decisions.get("P.serpentine")
        assert ("pragma serpentine" in str(candidate.nest)) == bool(turns)
        if turns is None or (turns, candidate.decisions["P.parallel"]) in asked:
            continue
        asked.append((turns, candidate.decisions["P.parallel"]))
        f = sl.build(candidate.schedule, target="python")
        np.testing.assert_allclose(f(start, w), np.array(wanted), rtol=1e-4, atol=1e-5)
        assert ("_turn if" in f.source) == turns
    assert {turns for turns, _ in asked} == {True, False} and len(asked) > 2


@pytest.mark.slow
def test_weights_that_fit_the_caches_are_read_in_one_direction() -> None:
    target = sl.Target("cpu", vector_bytes=32, caches=(Cache(1024, 4), Cache(1 << 18, 4)))
    found = drawn(256, target)
    assert found and not any("P.serpentine" in c.decisions for c in found)


@pytest.mark.slow
@pytest.mark.parametrize("hidden, steps", [(128, 40), (48, 8)])
def test_a_search_for_a_layer(tmp_path: Path, hidden: int, steps: int) -> None:
    found = sl.autotune(
        lstm(steps, hidden), trials=2, database=tmp_path / "trials.jsonl", progress=False
    )
    assert [trial.outcome for trial in found.trials] == ["ok", "ok"]
