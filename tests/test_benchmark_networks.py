"""The benchmark of whole networks: its rows, its columns, and runs of tiny networks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import fresh_process, networks
from benchmarks.cpu import Run
from benchmarks.harness import Case, Row, Unavailable, speeds_beside
from benchmarks.peers import Peer, allocations
from benchmarks.peers.networks import NETWORK_PEERS, OURS, peer_of
from benchmarks.works import NETWORKS, SMALL, Work

BY_NAME = {work.name: work for work in (*NETWORKS, *SMALL)}
LSTM = BY_NAME["small LSTM 2x16 5 steps"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SCHEDLANG_BENCHMARKS", str(tmp_path / "peers"))
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        # a worker turns gradients off for its process
        torch.set_grad_enabled(True)


def row(work: Work, implementation: str, seconds: float, correct: bool = True, **facts: Any) -> Row:
    case = Case(work.name, implementation, lambda: lambda: None, facts=facts)
    return Row(case, seconds, 0.0, correct)


def test_the_rows_are_the_networks_of_the_table() -> None:
    resnet = [w for w in NETWORKS if w.kind == "resnet50"]
    shapes = [w.inputs["x"] for w in resnet]
    assert shapes == [
        (1, 3, 224, 224), (8, 3, 224, 224), (1, 3, 28, 28), (1, 3, 32, 32), (1, 3, 96, 96),
        (1, 3, 375, 500),
    ]  # fmt: skip
    others = {"resnet18", "mobilenet_v2", "efficientnet_b0", "vit", "lstm"}
    assert {w.kind for w in NETWORKS} - {"resnet50"} == others
    assert len(BY_NAME) == len(NETWORKS) + len(SMALL)
    assert {w.kind for w in SMALL} == {w.kind for w in NETWORKS}


def test_a_result_may_differ_by_a_part_of_the_largest_output() -> None:
    work = BY_NAME["small ViT 2x24 32^2"]
    want = np.zeros((1, 10))
    want[0, 3] = -50.0
    got = want.astype("float32")
    assert not work.wrong((got + np.float32(0.049),), (want,))
    assert "off by 0.051, and 0.05 is allowed" in work.wrong((got + np.float32(0.051),), (want,))
    got[0, 5] = np.nan
    assert "off by nan" in work.wrong((got,), (want,))


def test_a_sequence_has_no_channels_to_stand_last() -> None:
    last = peer_of("torch channels-last")
    assert not last.has(LSTM)
    assert all(last.has(w) for w in NETWORKS if w.kind != "lstm")


def test_a_missing_peer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path)
    absent = networks.case(run, LSTM, Peer("Nobody", "network_torch", ("no_such_package",)), {})
    assert absent.missing == "no_such_package is not installed"
    assert networks.main("title", [absent], networks.COLUMNS, arguments=[]) == 0
    assert "missing: no_such_package is not installed" in capsys.readouterr().out


def test_a_process_that_fails_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def failing(what: str, *_: Any) -> dict[str, Any]:
        asked.append(what)
        raise fresh_process.Failed("NotImplementedError: no conv9d")

    monkeypatch.setattr(fresh_process, "ask", failing)
    case = networks.case(Run(tmp_path), LSTM, OURS, {})
    with pytest.raises(Unavailable, match="no conv9d"):
        case.prepare()
    assert asked == ["build"]


def test_a_process_answers_with_its_failure_in_one_line(tmp_path: Path) -> None:
    work = Work("no such work", "lstm", {}, {}, {}, lambda: None, "fma")
    with pytest.raises(fresh_process.Failed, match="KeyError: 'no such work'"):
        fresh_process.ask("first", "torch eager", work, {}, tmp_path / "log", 60.0)
    with pytest.raises(fresh_process.Failed, match="its build takes more than 0 s"):
        fresh_process.ask("build", "torch eager", work, {}, tmp_path / "log", 1e-3)


def test_the_summary_names_the_best_peer_of_each_network() -> None:
    vit = BY_NAME["ViT 12x192 224^2"]
    rows = [
        row(LSTM, "torch eager", 0.004), row(LSTM, "OpenVINO", 0.002),
        row(LSTM, "ONNX Runtime", 0.001, correct=False), row(LSTM, "schedlang", 0.001),
        row(vit, "torch eager", 0.004), row(vit, "schedlang", 0.008),
    ]  # fmt: skip
    lines = networks.summary(rows).splitlines()
    assert lines[1] == "  small LSTM 2x16 5 steps: OpenVINO, 2 ms; schedlang 2.00 of it"
    assert lines[2] == "  ViT 12x192 224^2: torch eager, 4 ms; schedlang 0.50 of it"
    assert lines[3] == "schedlang: 1.000 of the best peer (geometric mean of 2)"
    assert networks.summary(rows[:2]).endswith("schedlang has no row here")
    assert "none is right" in networks.summary(rows[2:3])


def test_the_picture_has_a_point_for_each_correct_row(tmp_path: Path) -> None:
    rows = [
        row(LSTM, "torch eager", 0.004), row(LSTM, "OpenVINO", 0.002),
        row(LSTM, "ONNX Runtime", 0.001, correct=False), row(LSTM, "TVM relax, untuned", 0.4),
        row(BY_NAME["ViT 12x192 224^2"], "OpenVINO", 0.004),
    ]  # fmt: skip
    speeds = speeds_beside(rows, networks.EAGER)
    slow = {"TVM relax, untuned": 0.01}
    assert speeds == {LSTM.name: {"torch eager": 1.0, "OpenVINO": 2.0, **slow}}
    pytest.importorskip("matplotlib")
    networks.plot(rows, tmp_path / "networks.png")
    assert (tmp_path / "networks.png").read_bytes().startswith(b"\x89PNG")


def test_columns() -> None:
    rows = [
        row(LSTM, "torch eager", 0.004, flops=8e6, first_seconds=1.25, peak_bytes=3.6e7,
            calls_bytes=2e6, allocations=12.2, kernels=5),
        row(LSTM, "schedlang", 0.002),
    ]  # fmt: skip
    texts = [c.text(rows[0], rows) for c in networks.COLUMNS]
    assert texts == ["2", "1.00", "1.25 s", "36 MB", "2 MB", "12", "5"]
    assert [c.text(rows[1], rows) for c in networks.COLUMNS] == ["", "2.00", "", "", "", "", ""]


@pytest.mark.skipif(bool(allocations.missing()), reason=allocations.missing())
def test_allocations_are_counted(tmp_path: Path) -> None:
    program = (
        "import ctypes\n"
        "from benchmarks.peers.allocations import counted\n"
        "allocate = ctypes.CDLL(None).malloc\n"
        "before = counted()\n"
        "for _ in range(100):\n"
        "    allocate(100_000)\n"
        "made = counted().since(before)\n"
        "print(made.count, made.bytes)\n"
    )
    preload = {"LD_PRELOAD": str(allocations.library(tmp_path)), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=preload, capture_output=True,
                          text=True, check=True)  # fmt: skip
    count, size = map(int, done.stdout.split())
    assert 100 <= count < 150
    assert 100 * 100_000 <= size < 101 * 100_000
    # this process did not preload it
    assert allocations.counted() is None


VISION = [name for name in ("torch", "torchvision") if find_spec(name) is None]
vision_needed = pytest.mark.skipif(bool(VISION), reason=f"not installed: {', '.join(VISION)}")
torch_needed = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@torch_needed
def test_kernels_in_the_code_of_inductor() -> None:
    from benchmarks.peers.network_torch import calls_in

    code = (
        "def cpp_fused_relu_0(x): pass\n"
        "def call(args):\n"
        "    buf0 = torch.ops.mkldnn._convolution_pointwise.default(arg0, arg1)\n"
        "    assert_size_stride(buf0, (1, 2))\n"
        "    buf1 = buf0; del buf0\n"
        "    cpp_fused_relu_0(buf1)\n"
        "    extern_kernels.addmm(arg2, buf1, out=buf2)\n"
        "    return (buf2,)\n"
        "def benchmark_compiled_module():\n"
        "    cpp_fused_relu_0(None)\n"
    )
    assert calls_in(code) == 3


@pytest.mark.slow
@torch_needed
def test_operators_that_return_views_are_no_kernels() -> None:
    import torch

    from benchmarks.peers.network_torch import Counter

    x = torch.ones(2, 3)
    with Counter() as counter:
        torch.relu(x.t().reshape(-1)[1:]).add_(1)
    # the copy of the transpose, relu, and the sum in place
    assert counter.count == 3


@vision_needed
def test_a_tiny_network_in_a_new_process(tmp_path: Path) -> None:
    facts = fresh_process.build("torch eager", LSTM)
    # four gates of two products with 16 numbers, twice, for each of five steps
    assert facts["flops"] == 5 * 2 * 2 * 64 * (16 + 16)
    assert facts["weights_bytes"] == 4 * 2 * (64 * 32 + 2 * 64)
    found = fresh_process.first("torch eager", LSTM)
    assert found["first_seconds"] >= found["load_seconds"] > 0
    assert found["kernels"] > 0
    assert "allocations" not in found


@vision_needed
def test_the_weights_are_the_same_in_every_process() -> None:
    import torch

    from benchmarks.peers import network_models

    first = network_models.module(LSTM).state_dict()
    again = network_models.module(LSTM).state_dict()
    made = network_models._initialized(LSTM.kind, dict(LSTM.sizes)).state_dict()
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert torch.equal(value, made[name])


@pytest.mark.slow
@pytest.mark.parametrize("peer", [p.implementation for p in NETWORK_PEERS])
@pytest.mark.parametrize("work", ["small LSTM 2x16 5 steps", "small EfficientNet-B0 32^2"])
def test_tiny_networks_are_right(work: str, peer: str, tmp_path: Path) -> None:
    if missing := peer_of(peer).missing():
        pytest.skip(missing)
    path = tmp_path / "rows.json"
    status = networks.run_all(["--small", "--rounds", "1", "--json", str(path), "--only",
                               f"{work} {peer}".replace("^", r"\^")])  # fmt: skip
    if not peer_of(peer).has(BY_NAME[work]):
        assert status == 2
        return
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert status == 0
    (found,) = rows
    assert found["correct"] and found["kernels"] > 0 and found["first_seconds"] > 0
