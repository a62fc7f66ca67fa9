"""``target="cpu"``: numba compiles the emitted file."""

from __future__ import annotations

from schedlang.targets.loops import NumbaBackend


class CpuBackend(NumbaBackend):
    """The CPU, by numba."""


__all__ = ["CpuBackend"]
