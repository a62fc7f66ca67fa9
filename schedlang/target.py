"""What a target allows: vector widths, registers, threads, memory."""

from __future__ import annotations

import os
import platform
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from schedlang.errors import BuildError

# what kernels are built for in this version, and what te programs may name beside that
BUILT = ("cpu", "python")
LATER = ("cuda", "cuda-emulator")
KINDS = (*BUILT, *LATER)
_SPELLINGS = {"llvm": "cpu", "c": "cpu", "nvptx": "cuda"}


class Kind(str):
    """The kind of a target, which te asks for its ``name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Target:
    """Where a kernel runs: the bytes of a vector register, and how many of them there are.

    What is not given is the host's; registers of a given width count 32 from 64 bytes on (AVX-512),
    else 16.

    >>> Target("cpu", vector_bytes=32).vector_width("float32")
    8
    """

    kind: str = "cpu"
    vector_bytes: int = 0
    vector_registers: int = 0
    arch: str = ""
    target: InitVar[str | None] = None
    host: InitVar[Any] = None

    def __post_init__(self, target: str | None, host: Any) -> None:
        words = (target or self.kind).split()
        kind = _SPELLINGS.get(words[0], words[0]) if words else ""
        if kind not in KINDS:
            raise BuildError(f"target {target or self.kind!r} is unknown: choose {choices()}")
        object.__setattr__(self, "kind", Kind(kind))
        width, registers = host_vectors()
        if self.vector_bytes:
            registers = 32 if self.vector_bytes >= 64 else 16
        object.__setattr__(self, "vector_bytes", self.vector_bytes or width)
        object.__setattr__(self, "vector_registers", self.vector_registers or registers)

    def vector_width(self, dtype: str) -> int:
        """The number of elements of ``dtype`` in one vector register.

        Half precision is computed in float32, and counts as that.
        """
        held = "float32" if dtype == "float16" else dtype
        return max(1, self.vector_bytes // np.dtype(held).itemsize)

    @staticmethod
    def of(value: Target | str | None) -> Target:
        """``value`` as a target; ``None`` is the CPU of this machine."""
        if isinstance(value, Target):
            return value
        return Target("cpu" if value is None else str(value))


def choices() -> str:
    """What to build for, as a message says it."""
    built = " or ".join(f'"{kind}"' for kind in BUILT)
    return f"{built} (code for GPUs is not in this version, it comes later)"


def host_vectors() -> tuple[int, int]:
    """Bytes of a vector register of this machine, and how many there are."""
    machine = platform.machine().lower()
    if machine in ("arm64", "aarch64"):
        return 16, 32
    flags = _cpu_flags()
    if "avx512f" in flags:
        return 64, 32
    if "avx2" in flags or not flags:
        return 32, 16
    return 16, 16


def _cpu_flags() -> frozenset[str]:
    """The feature flags of this CPU, where the system tells them without a library."""
    if not os.path.exists("/proc/cpuinfo"):
        return frozenset()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()
