"""``target="python"``: the file of the CPU runs as it is, under a debugger."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.gpu_lowering.program import Program
from schedlang.ir.nest import Nest
from schedlang.target import Target
from schedlang.targets.loops import NumbaBackend


class PythonBackend(NumbaBackend):
    """The CPU's file, uncompiled."""

    compiled = False

    def warnings(
        self, nest: Nest, program: Program | None, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        """Yield nothing: under a debugger, speed is nobody's concern."""
        yield from ()


__all__ = ["PythonBackend"]
