"""The clock of the benchmarks' GPU, with the facts about it that the table prints."""

from __future__ import annotations

from typing import Any

from schedlang.runtime.gpu_clock import GpuClock, gpu_ceilings


class Clock(GpuClock):
    """A clock for calls on the default stream of the current device."""

    def __init__(self) -> None:
        super().__init__()
        self.device = self.cuda.get_current_device()

    @property
    def name(self) -> str:
        name: Any = self.device.name
        return name.decode() if isinstance(name, bytes) else str(name)

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*self.device.compute_capability)

    @property
    def cache_bytes(self) -> int:
        """The size of the second-level cache."""
        return int(self.device.L2_CACHE_SIZE)

    def ceilings(self) -> dict[str, float]:
        """Measure the rates of float32 multiply-adds and of a copy within the GPU's memory."""
        found = gpu_ceilings()
        return {"FMA GFLOP/s": found.gflops, "copy GB/s": found.gbps}
