"""Targets as objects: a folder for each kind, with what that kind alone knows of building.

:mod:`~schedlang.targets.backend` is the interface, and :mod:`~schedlang.targets.build` asks it.
"""

from __future__ import annotations

from schedlang.target import Target
from schedlang.targets.backend import Backend
from schedlang.targets.c.backend import CBackend
from schedlang.targets.cpu.backend import CpuBackend
from schedlang.targets.cuda.backend import CudaBackend
from schedlang.targets.cuda_emulator.backend import EmulatorBackend
from schedlang.targets.python.backend import PythonBackend

BACKENDS: dict[str, Backend] = {
    "cpu": CpuBackend(),
    "python": PythonBackend(),
    "c": CBackend(),
    "cuda": CudaBackend(),
    "cuda-emulator": EmulatorBackend(),
}


def backend_of(target: Target) -> Backend:
    """Return what builds kernels for ``target``."""
    return BACKENDS[target.kind]


__all__ = ["BACKENDS", "Backend", "backend_of"]
