"""Networks on this machine's NVIDIA GPU; skipped on a machine without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.networks.network import Network
from schedlang.target import Target
from tests import networks
from tests.fuzz.gpu import this_gpu
from tests.test_gpu_device import has_gpu
from tests.test_network_module import random

pytestmark = pytest.mark.skipif(not has_gpu(), reason="this machine has no NVIDIA GPU")


@pytest.fixture
def gpu() -> Target:
    return this_gpu()


@pytest.mark.parametrize("make", [
    lambda: networks.resnet((1, 1), networks.basic, 32, 32),
    lambda: networks.resnet((1,), networks.bottleneck, 24, 32, batch=2),
    networks.inverted_residual, networks.transformer, networks.tagger, networks.mlp,
])  # fmt: skip
def test_networks_of_every_kind(make: Any, gpu: Target) -> None:
    y, x, params = make()
    given = networks.input_for(x)
    wanted = sl.reference(y)(**{x.name: given}, **{t.name: a for t, a in params.items()})
    found = sl.network(y, params, target=gpu)(given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def small(gpu: Target, batch: Any = 4) -> tuple[Network, np.ndarray]:
    x, w = sl.placeholder((batch, 40), name="x"), sl.placeholder((24, 40), name="w")
    values = random(24, 40)
    scores = topi.nn.relu(sl.named("fc", topi.nn.dense(x, w)))
    return sl.network(sl.named("shares", topi.nn.softmax(scores)), {w: values}, target=gpu), values


def of_small(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    scores = np.exp(np.maximum(x @ w.T, 0))
    found: np.ndarray = scores / scores.sum(axis=1, keepdims=True)
    return found


def test_a_graph_computes_with_what_its_inputs_hold(gpu: Target) -> None:
    torch = pytest.importorskip("torch")
    net, w = small(gpu)
    x = torch.from_numpy(random(4, 40)).cuda()
    graph = net.module.cuda_graph(x)
    np.testing.assert_allclose(
        graph.outputs.cpu().numpy(), of_small(x.cpu().numpy(), w), rtol=1e-4
    )
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        given = random(4, 40)
        # a replay comes after what its stream does before, here a wait
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10**7)
            x.copy_(torch.from_numpy(given))
            found = graph.replay().cpu().numpy()
        np.testing.assert_allclose(found, of_small(given, w), rtol=1e-4)
    # its memory is its own
    net.module.release_memory()
    other = random(4, 40)
    np.testing.assert_allclose(net(other), of_small(other, w), rtol=1e-4)
    np.testing.assert_allclose(graph.replay().cpu().numpy(), of_small(given, w), rtol=1e-4)


def test_a_graph_of_a_size_on_another_stream(gpu: Target) -> None:
    torch = pytest.importorskip("torch")
    net, w = small(gpu, sl.var("n"))
    with torch.cuda.stream(torch.cuda.Stream()):
        made = {n: torch.from_numpy(random(n, 40)).cuda() for n in (3, 7)}
        graphs = {n: net.module.cuda_graph(x) for n, x in made.items()}
        for n, x in made.items():
            x.copy_(x * 0.5)
            wanted = of_small(x.cpu().numpy(), w)
            np.testing.assert_allclose(graphs[n].replay().cpu().numpy(), wanted, rtol=1e-4)


def test_a_profile_has_the_time_of_each_part(gpu: Target) -> None:
    net, _ = small(gpu)
    found = net.profile(random(4, 40))
    assert [k.name for k in found.kernels] == [p.name for p in net.partition]
    assert all(k.seconds > 0 for k in found.kernels)


def test_a_search_times_every_kernel(gpu: Target, tmp_path: Path) -> None:
    net, w = small(gpu)
    net.tune(trials=2, database=tmp_path / "trials.jsonl", progress=False)
    assert {k.origin for k in net.kernels} == {"database"}
    x = random(4, 40)
    np.testing.assert_allclose(net(x), of_small(x, w), rtol=1e-4)


def test_a_saved_folder_runs_alone(gpu: Target, tmp_path: Path) -> None:
    net, w = small(gpu)
    folder, x = net.save(tmp_path / "net"), random(4, 40)
    np.save(tmp_path / "x.npy", x)
    program = (
        "import numpy as np, network\n"
        "memory = network.memory_of(np.load('weights.npz'))\n"
        f"np.save('../y.npy', network.{net.name}(np.load('../x.npy'), memory=memory))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), of_small(x, w), rtol=1e-4)
    np.testing.assert_allclose(sl.load(folder)(x), of_small(x, w), rtol=1e-4)
