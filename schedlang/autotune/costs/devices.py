"""The speed of a GPU: as this machine's driver reports it, or else from data sheets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.runtime import nvidia
from schedlang.target import Target


@dataclass(frozen=True)
class Speed:
    """The speed of a GPU: multiprocessors, cycles per second, bytes per second of global memory."""

    multiprocessors: int
    clock: float
    memory: float


# from NVIDIA's data sheets and whitepapers: A100 80GB SXM, Jetson AGX Orin 64GB, H100 SXM
SPEEDS = {
    "sm_80": Speed(108, 1.41e9, 2.039e12),
    "sm_87": Speed(16, 1.3e9, 2.048e11),
    "sm_90": Speed(132, 1.98e9, 3.35e12),
    "sm_90a": Speed(132, 1.98e9, 3.35e12),
    # RTX 3090, RTX 4090, RTX 5090; other cards of these kinds may be several times slower
    "sm_86": Speed(82, 1.7e9, 9.36e11),
    "sm_89": Speed(128, 2.52e9, 1.008e12),
    "sm_120": Speed(170, 2.41e9, 1.792e12),
    # B200: the memory is from its data sheet, the rest is a guess
    "sm_100": Speed(148, 1.9e9, 8.0e12),
    # B300, GB10: guesses, except for the memory
    "sm_103": Speed(148, 1.9e9, 8.0e12),
    "sm_121": Speed(48, 2.4e9, 2.73e11),
}
# the assumed speed of any other GPU
DEFAULT = SPEEDS["sm_90"]


def speed_of(target: Target) -> Speed:
    """Return the speed of the GPU that ``target`` names.

    >>> speed_of(Target("cuda-emulator", arch="sm_87")).multiprocessors
    16
    """
    known = SPEEDS.get(target.arch, DEFAULT)
    here = _here(target.device.capability) if target.facts.needs_driver else None
    return here or known


def _here(capability: tuple[int, int]) -> Speed | None:
    """Return the speed of this machine's first GPU, if it has this compute capability.

    Candidates are measured on that GPU. No context is created on it, as a context takes hundreds of
    MB and, in exclusive mode, locks out other processes.
    """
    try:
        return _first(capability)
    except (LookupError, SchedlangError):
        # not cached, as a driver may become available
        return None


@lru_cache(maxsize=16)
def _first(capability: tuple[int, int]) -> Speed:
    cuda = nvidia.driver()
    if not cuda.is_available() or not len(cuda.gpus):
        raise LookupError("no GPU")
    here: Any = cuda.gpus[0]
    if tuple(here.compute_capability) != capability:
        raise LookupError("a GPU of another kind")
    # clock rates are in kHz, the bus width in bits; memory transfers data twice per cycle
    memory = 2 * here.MEMORY_CLOCK_RATE * 1e3 * here.GLOBAL_MEMORY_BUS_WIDTH / 8
    speed = Speed(here.MULTIPROCESSOR_COUNT, here.CLOCK_RATE * 1e3, memory)
    if not speed.clock or not speed.memory:
        # memory shared with the CPU may report no clock
        raise LookupError("a GPU that does not say how fast it is")
    return speed
