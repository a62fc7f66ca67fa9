"""Tests of ``benchmarks/cuda.py`` without a GPU, by the emulator and the simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from benchmarks import cuda
from benchmarks.gpu import scheduled
from benchmarks.gpu.clock import Clock
from benchmarks.works import Work, linear, memory
from benchmarks.works.gpu import GPU_SMALL, GPU_WORKS
from tests.marks import slow_but

BY_HAND = ("sgemm", "transpose", "chain", "row_sum", "column_sum", "box_blur", "jacobi")


class HostClock(Clock):
    """A clock without a GPU: each call runs once and takes a millisecond."""

    name, arch, cache_bytes = "no GPU", "sm_90", 0

    def __init__(self) -> None:
        self.starved = False

    def seconds(self, calls: Any) -> float:
        for call in calls:
            call()
        return 1e-3

    def ceilings(self) -> dict[str, float]:
        return {"FMA GFLOP/s": 1e3, "copy GB/s": 1e2}


class Host:
    """A NumPy array with the methods of a device array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def copy_to_device(self, fresh: np.ndarray) -> None:
        self.array[...] = fresh

    def copy_to_host(self) -> np.ndarray:
        return self.array.copy()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLANG_CUDA", "emulator")
    monkeypatch.setattr(cuda, "GPU_WORKS", GPU_SMALL)
    monkeypatch.setattr(cuda, "_WORKS", {w.name: w for w in GPU_SMALL})
    monkeypatch.setattr(cuda, "Clock", HostClock)
    monkeypatch.setattr(cuda, "_on_device", np.array)
    monkeypatch.setattr(cuda, "_view", Host)
    # installed peers do not accept these arrays
    monkeypatch.setattr(cuda, "find_spec", lambda name: None)
    monkeypatch.setattr(cuda, "PREPARE", {cuda.EAGER: cuda._eager, cuda.OURS: cuda._ours})


@pytest.mark.slow
def test_every_row_is_right(
    table: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cuda.json"
    assert cuda.timed(["--json", str(path), "--only", f"^(?!{cuda.LAUNCH})", "--rounds", "1"]) == 0
    printed = capsys.readouterr()
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert [r["work"] for r in rows] == [w.name for w in GPU_SMALL] and not printed.err
    assert all(r["correct"] and r["implementation"] == cuda.OURS for r in rows)
    assert printed.out.count("missing: torch is not installed") == len(GPU_SMALL)
    # every call takes a millisecond, so that small works are far from the ceiling
    assert "row sum 5x3000: 0.00 of the copy bandwidth" in printed.out
    assert "sgemm 130x140x33: not compared with cuBLAS" in printed.out


def test_a_wrong_result_is_said(
    table: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(work: Work, sets: cuda.Sets, _: Clock) -> list[Any]:
        return [lambda given=given: given[-1].fill(1) for given in sets.each()]

    monkeypatch.setattr(cuda, "PREPARE", {cuda.OURS: wrong})
    assert cuda.timed(["--only", "transpose", "--rounds", "1"]) == 1
    assert "transpose 70^2, schedlang: y is off by" in capsys.readouterr().err


def test_the_threshold_of_a_row() -> None:
    sgemm, chain = linear.sgemm(8, 8, 8), memory.chain(64)
    conv, pair, depthwise = GPU_SMALL[3], GPU_SMALL[4], GPU_SMALL[7]
    assert cuda._short(sgemm, {cuda.OURS: 1.0, cuda.EAGER: 0.81}, 0.5) == ""
    assert (
        cuda._short(sgemm, {cuda.OURS: 1.0, cuda.EAGER: 0.7}, 1) == "0.70 of cuBLAS, below 0.8"
    )
    # convolutions of one image are compared with cuDNN
    assert cuda._short(pair, {cuda.OURS: 1.0, cuda.EAGER: 0.1, cuda.COMPILED: 1.1}, 0.1) == ""
    assert cuda._short(conv, {cuda.OURS: 1.0, cuda.EAGER: 0.1}, 0.1).startswith("0.10 of cuDNN")
    assert cuda._short(chain, {cuda.OURS: 1.0, cuda.COMPILED: 0.5}, 0.95) == ""
    assert (
        cuda._short(chain, {cuda.OURS: 1, cuda.COMPILED: 1.1}, 0.5) == "0.50 of the copy bandwidth"
    )
    assert cuda._short(depthwise, {cuda.OURS: 1, cuda.COMPILED: 1.1}, 0.5) == ""


@pytest.mark.parametrize(
    "work", slow_but([w.name for w in GPU_WORKS[::3]], GPU_WORKS, lambda w: w.name)
)
def test_every_row_has_a_kernel_within_the_limits(work: Work) -> None:
    assert "def launch(" in sl.build(*scheduled(work), target=sl.Target("cuda")).source


def test_a_row_that_fails_is_missing(
    table: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(work: Work, sets: cuda.Sets, _: Clock) -> list[Any]:
        raise ValueError("too large")

    monkeypatch.setattr(cuda, "PREPARE", {cuda.OURS: broken})
    assert cuda.timed(["--only", "transpose", "--rounds", "1"]) == 0
    assert "missing: ValueError: too large" in capsys.readouterr().out


def test_works_bound_by_memory_are_larger_than_the_cache() -> None:
    assert len({w.name for w in GPU_WORKS}) == len(GPU_WORKS) == 55
    large = [w for w in GPU_WORKS if w.bound == "copy" and w.kind != "depthwise"]
    assert all(w.bytes >= 256 << 20 for w in large) and len(large) == 8


SIMULATED = """
import numpy as np
from benchmarks.gpu import by_hand
from benchmarks.works.gpu import GPU_SMALL

for work in GPU_SMALL:
    if work.kind in by_hand.KINDS:
        arrays, outs = work.arrays(), work.empty()
        kernel, follows, shape = by_hand._KERNELS[work.kind]
        given = [*arrays.values(), *outs.values()]
        grid, block = shape(given[follows].shape)
        kernel[grid, block](*given)
        wrong = work.wrong(tuple(outs.values()), work.expected(arrays))
        print(work.kind, wrong or "right")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_kernels_by_hand_are_right() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED], capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert len(found) == 9 and set(found) == {f"{kind} right" for kind in BY_HAND}


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda is not installed")
    from numba import cuda as driver

    if driver.is_available():
        pytest.skip("there is a GPU")
    assert cuda.choose([]) == 2
    assert "This machine has no NVIDIA GPU to time kernels on" in capsys.readouterr().out
