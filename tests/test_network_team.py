"""The kernels of a network by one team of threads, beside NumPy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numba
import numpy as np
import pytest

import schedlang as sl
from schedlang.machine.nodes import For, Run
from schedlang.networks.network import Network
from schedlang.runtime.environment import threads as usual_threads
from schedlang.runtime.llvm.parts import Whole
from tests.onnx_cases import f32

several = pytest.mark.skipif(usual_threads() < 2, reason="the kernels of one thread are serial")
SHAPE = (1024, 1024)


def layers(count: int) -> tuple[Network, np.ndarray, np.ndarray]:
    """Return a network of kernels that are worth threads, its input and its result."""
    value, x = sl.placeholder(SHAPE, name="x"), f32(*SHAPE)
    found, names = x, [f"layer{k}" for k in range(count)]
    for k, name in enumerate(names):
        value = sl.named(name, value * value + k)
        found = found * found + np.float32(k)
    return sl.network(value, cut=names[:-1], database=None), x, found


@several
def test_one_team_runs_all_kernels() -> None:
    net, x, expected = layers(3)
    whole = Whole(net.module.machine_nest)
    entry = whole.nest.entry.name
    launching = {f.name for f in whole.nest.functions if f.parallel}
    assert len(launching) > 2 and whole.by_team == {entry, *launching}
    assert not whole.is_member(entry) and all(map(whole.is_member, launching - {entry}))
    np.testing.assert_allclose(net(x), expected, 1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_at_once_by_any_number_of_threads(threads: int) -> None:
    net, x, expected = layers(3)
    net(x)
    with ThreadPoolExecutor(3) as pool:
        for result in pool.map(lambda _: _with_threads(net, x, threads), range(24)):
            np.testing.assert_allclose(result, expected, 1e-5)


def _with_threads(net: Network, x: np.ndarray, threads: int) -> np.ndarray:
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    return np.asarray(net(x))


def test_a_kernel_alone_starts_no_team() -> None:
    net, x, expected = layers(1)
    assert not Whole(net.module.machine_nest).by_team
    np.testing.assert_allclose(net(x), expected, 1e-5)


@several
def test_no_team_if_a_parallel_loop_calls_a_kernel_with_another_one() -> None:
    net, _, _ = layers(3)
    nest = net.module.machine_nest
    run = next(s for s in nest.entry.body if isinstance(s, Run))
    inner = next(f for f in nest.functions if f.name == run.function)
    loop = next(s for s in inner.body if isinstance(s, For) and s.parallel)
    entry = replace(nest.entry, body=(*nest.entry.body, replace(loop, body=(run,))))
    functions = tuple(entry if f is nest.entry else f for f in nest.functions)
    assert not Whole(replace(nest, functions=functions)).by_team
