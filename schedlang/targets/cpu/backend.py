"""``target="cpu"``: numba compiles the emitted file."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.gpu_lowering.program import Program
from schedlang.ir.nest import Nest
from schedlang.target import Target
from schedlang.targets.loops import NumbaBackend
from schedlang.targets.speed_warnings import speed_warnings


class CpuBackend(NumbaBackend):
    """The CPU, by numba."""

    def warnings(
        self, nest: Nest, program: Program | None, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        yield from speed_warnings(nest, target)


__all__ = ["CpuBackend"]
