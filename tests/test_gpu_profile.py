"""Profiles of GPU kernels, with events of a driver that runs on the CPU; lines for ncu."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, CallError
from schedlang.runtime import gpu_profile
from tests.gpu_schedules import numbers, scaled
from tests.test_gpu_launch import Core, Driver, OnGpu, core, driver

__all__ = ["core", "driver"]


class Timeline:
    """A GPU's time in microseconds: an event takes one, a kernel as many as it has launches."""

    def __init__(self, core: Core) -> None:
        self.now = 0.0
        self.launched = 0
        launch = core.launch

        def timed(*args: Any) -> None:
            launch(*args)
            self.launched += 1
            self.now += 100.0 * self.launched

        core.launch = timed  # type: ignore[method-assign]
        self.core = core

    def event(self) -> Event:
        return Event(self)


class Event:
    def __init__(self, line: Timeline) -> None:
        self.line = line
        self.at = 0.0

    def record(self, stream: Any) -> None:
        self.line.now += 1.0
        self.at = self.line.now

    def elapsed_time(self, end: Event) -> float:
        """Return milliseconds, as numba does."""
        return (end.at - self.at) * 1e-3


@pytest.fixture
def line(core: Core, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    found = Timeline(core)
    monkeypatch.setattr(driver, "event", found.event, raising=False)
    monkeypatch.setattr(driver, "synchronize", lambda: None, raising=False)
    monkeypatch.setattr(gpu_profile, "hold", lambda milliseconds, stream: None)
    monkeypatch.setattr(gpu_profile.nvidia, "driver", lambda: driver)
    return found


def two_kernels(target: str = "cuda", **options: Any) -> Any:
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] * 2, name="B")
    C = sl.compute((64,), lambda i: B[63 - i] + 1, name="C")
    s = sl.schedule(C)
    for stage in (B, C):
        block, thread = s[stage].split(stage.op.axis[0], 32)
        s[stage].bind(block, "blockIdx.x")
        s[stage].bind(thread, "threadIdx.x")
    return sl.build(s, [A, C], target=target, **options)


def test_each_kernel_has_its_time(line: Timeline) -> None:
    f, a = two_kernels(), numbers(64)
    out = OnGpu(np.zeros(64, "float32"))

    # a launch takes 100 µs more than the one before: the kernels of the call with the median time
    # are launched n and n + 1; the microsecond of an event is subtracted
    profile = f.profile(OnGpu(a), out, repeat=3)
    np.testing.assert_array_equal(out.data, (a * 2)[::-1] + 1)
    assert [(p.name, p.stage, p.kind, p.times) for p in profile.parts] == [
        ("B_kernel", "B", "kernel", 1), ("C_kernel", "C", "kernel", 1),
    ]  # fmt: skip
    assert profile.stages["C"] - profile.stages["B"] == pytest.approx(100e-6)
    assert profile.stages["B"] == pytest.approx(round(profile.stages["B"] * 1e4) * 1e-4)
    assert profile.seconds == pytest.approx(sum(profile.stages.values()))
    assert profile.overhead == pytest.approx(2e-6) and profile.runs == 3
    # without events between them, one launch later than with them
    assert profile.kernel_seconds == pytest.approx(profile.seconds + 400e-6)
    assert "kernel B_kernel" in str(profile) and "<svg" in profile._repr_html_()


def test_a_numpy_call_is_profiled_on_copies(line: Timeline, driver: Driver) -> None:
    case = scaled(100, 32)
    f = sl.build(case.schedule, case.args, target="cuda")
    profile = f.profile(numbers(100), repeat=1)
    (part,) = profile.parts
    assert part.seconds > 0 and list(profile.stages) == [part.stage]
    with pytest.raises(CallError, match=r"profile\(\.\.\., repeat=0\)"):
        f.profile(numbers(100), repeat=0)


def test_an_emulated_gpu_has_no_profile() -> None:
    with pytest.raises(BuildError, match=r"its times say nothing about one\n.*counters"):
        two_kernels("cuda-emulator").profile(numbers(64))
    with pytest.raises(BuildError, match=r"llvm of kernel C: it is compiled for a GPU\n.*\.ptx"):
        _ = two_kernels().llvm


def test_lines_are_for_gpus() -> None:
    A = sl.placeholder((64,), name="A")
    s = sl.schedule(sl.compute((64,), lambda i: A[i] * 2, name="B"))
    with pytest.raises(BuildError, match='lineinfo=True for target="cpu": this option is for'):
        sl.build(s, lineinfo=True)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_machine_code_names_the_lines_of_the_file() -> None:
    f, plain = two_kernels(lineinfo=True), two_kernels()
    lines = f._file.text.splitlines()
    named = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+)", f.ptx)}
    stores = {k for k, line in enumerate(lines, 1) if line.strip().startswith("store(")}
    assert len(stores) == 2 and stores <= named and ".loc" not in plain.ptx
    assert f"{f._file.path.name}" in f.sass and "line" in f.sass

    def instructions(sass: str) -> list[str]:
        return re.findall(r"/\*[0-9a-f]{4}\*/\s+(.*?);", sass)

    assert instructions(f.sass) == instructions(plain.sass) != []
