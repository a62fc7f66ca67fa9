"""Tests of denormal numbers in networks: taken as 0 in a call, and as they are outside of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.tensor import Tensor
from schedlang.networks.compiled import by_plan
from schedlang.networks.network import Network
from schedlang.networks.plan import saved_schedules

TINY = np.float32(1e-20)
# the product of two of them is a denormal number
DENORMAL = TINY * TINY


def squared(shape: tuple[int, ...]) -> Tensor:
    X = sl.placeholder(shape, name="X")
    return sl.named("squared", X * X)


def in_threads(shape: tuple[int, ...]) -> dict[str, str]:
    """Return the steps of a parallel loop for the only kernel of :func:`squared`."""
    s = sl.schedule(squared(shape))
    s["squared"].parallel(s["squared"].op.axis[0])
    return {"squared": s.to_json()}


def network(shape: tuple[int, ...], target: str, flush: bool) -> Any:
    net = sl.network(squared(shape), target=target, flush_denormals=flush)
    made = net._compiled
    plan = replace(made.plan, saved=saved_schedules(in_threads(shape)))
    return Network(by_plan(made, plan))


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_call_takes_denormal_numbers_as_zero_in_all_threads(target: str) -> None:
    x = np.full((8, 33), TINY)
    assert DENORMAL > 0
    flushed, kept = (network(x.shape, target, flush) for flush in (True, False))
    assert "prange" in flushed.source or "omp parallel" in flushed.source
    assert not flushed(x).any()
    # the mode of no thread is left changed
    assert np.float32(1e-40) * np.float32(1) > 0
    np.testing.assert_array_equal(kept(x), np.full(x.shape, DENORMAL))


def test_normal_results_are_the_same() -> None:
    x = np.random.default_rng(0).uniform(-3, 3, (4, 19)).astype("float32")
    results = [network(x.shape, "python", flush)(x) for flush in (True, False)]
    np.testing.assert_array_equal(results[0], x * x)
    np.testing.assert_array_equal(results[1], x * x)
    compiled = network(x.shape, "cpu", True)
    np.testing.assert_array_equal(compiled(x), x * x)


def test_the_source_shows_the_mode() -> None:
    function = """
def squared_i(i, X, squared):
    mode = flush_denormals()
    for j in range(33):
        t = load(X, i*33 + j)
        store(squared, i*33 + j, t * t)
    rolled(1)
    mode = restore_mode(mode)
"""
    source = network((8, 33), "cpu", True).source
    assert function in source and "mode" not in source.partition("def squared_kernel")[2]
    assert "denormals" not in network((8, 32), "cpu", False).source


def test_a_parallel_loop_is_launched_without_numbas_pass() -> None:
    """Its iterations are one call each, as in a kernel alone, whatever the mode is."""
    for flush in (True, False):
        launches = network((8, 32), "cpu", flush).module.data.launches
        assert [launch.name for launch in launches] == ["squared_kernel"]


def test_a_saved_network_keeps_the_choice(tmp_path: Path) -> None:
    x = np.full((2, 3), TINY)
    for flush in (True, False):
        net = sl.network(squared(x.shape), flush_denormals=flush)
        again = sl.load(net.save(tmp_path / str(flush)))
        assert again.recipe.flush_denormals is flush
        assert again(x).any() != flush
