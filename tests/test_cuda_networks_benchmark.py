"""Tests of ``benchmarks/cuda_networks.py`` without a GPU: PyTorch and our emulator on the CPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cuda_networks
from tests.test_gpu_benchmark import HostClock

torch = pytest.importorskip("torch")


@pytest.fixture
def on_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the benchmark on the CPU; its networks are those of torchvision."""
    pytest.importorskip("torchvision")
    monkeypatch.setenv("SCHEDLANG_BENCHMARKS", str(tmp_path / "peers"))
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    monkeypatch.setattr(cuda_networks, "Clock", HostClock)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    for kind in (torch.Tensor, torch.nn.Module):
        monkeypatch.setattr(kind, "cuda", lambda self: self)
    blas, dnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = blas.allow_tf32, dnn.allow_tf32, dnn.benchmark
    yield
    torch.set_grad_enabled(True)
    blas.allow_tf32, dnn.allow_tf32, dnn.benchmark = before


def run(pattern: str, path: Path) -> list[dict[str, Any]]:
    tuning = cuda_networks.Tuning()
    assert cuda_networks.timed(
        cuda_networks.SMALL, tuning, ["--only", pattern, "--json", str(path), "--rounds", "3"]
    ) == 0  # fmt: skip
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return found


@pytest.mark.slow
def test_the_table_of_a_tiny_network(
    on_host: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(cuda_networks.PREPARE, cuda_networks.OURS, emulated)
    rows = run(r"^small ResNet-18.*(eager|channels-last|schedlang)$", tmp_path / "rows.json")
    assert [r["implementation"] for r in rows] == [
        "torch eager", "torch channels-last", "schedlang",
    ]  # fmt: skip
    assert all(r["correct"] and r["seconds"] > 0 for r in rows)
    out = capsys.readouterr().out
    assert "schedlang: " in out and "geometric mean of 1" in out


def failing(*_: Any) -> Any:
    raise RuntimeError("no such kernel")


def stale(_: Any, work: Any, x: Any, facts: Any) -> Any:
    """Return a call that computes nothing after the first time."""
    made = []

    def call() -> Any:
        made[:] = made or [torch.zeros(work.outputs["y"])]
        return made[0]

    return call


@pytest.mark.slow
def test_a_peer_that_fails_is_missing_and_ours_raises(
    on_host: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for label in (cuda_networks.EAGER, cuda_networks.OURS_GRAPH):
        monkeypatch.setitem(cuda_networks.PREPARE, label, failing)
    assert run("^small ResNet-18 32.*eager$", tmp_path / "rows.json") == []
    assert "missing: RuntimeError: no such kernel" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="no such kernel"):
        run("^small ResNet-18 32.*schedlang CUDA graph$", tmp_path / "rows.json")


@pytest.mark.slow
def test_a_graph_that_runs_nothing_is_wrong(
    on_host: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cuda_networks.PREPARE, cuda_networks.OURS_GRAPH, stale)
    arguments = ["--only", "^small ResNet-18 32.*schedlang CUDA graph$", "--rounds", "3"]
    assert cuda_networks.timed(cuda_networks.SMALL, cuda_networks.Tuning(), arguments) == 1


def emulated(table: Any, work: Any, x: Any, facts: dict[str, Any]) -> Any:
    """Return a call of our network on NumPy's arrays, which the emulator takes."""
    network = table.built(work)
    table.network = work, network
    return lambda: torch.from_numpy(network(x.numpy()))


def test_without_a_gpu_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class NoGpu:
        def is_available(self) -> bool:
            return False

    monkeypatch.setattr(cuda_networks.nvidia, "driver", NoGpu)
    assert cuda_networks.run_all([]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().out
