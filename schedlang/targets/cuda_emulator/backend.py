"""``target="cuda-emulator"``: the kernels of a GPU on the CPU, blocks and threads as loops."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.gpu_lowering.emulation import as_loops
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.without_barriers import without_barriers
from schedlang.ir.nest import Nest
from schedlang.runtime.built import Built
from schedlang.runtime.emulated import GpuKernel
from schedlang.target import Target
from schedlang.targets.backend import Options, Request
from schedlang.targets.cuda.backend import device_file
from schedlang.targets.loops import NumbaBackend


class EmulatorBackend(NumbaBackend):
    """A GPU's program on the CPU, also without its barriers, to show its races."""

    takes_barriers = True
    takes_lineinfo = True

    def program(self, nest: Nest, target: Target, options: Options) -> Program:
        program = device_program(nest, target)
        return program if options.barriers else without_barriers(program)

    def loops(self, nest: Nest, program: Program | None) -> Nest:
        assert program is not None
        return as_loops(program)

    def warnings(
        self, nest: Nest, program: Program | None, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        """Yield nothing: how fast the emulator is says nothing of a GPU."""
        yield from ()

    def host(self, target: Target) -> Target:
        return Target("cpu")

    def shown(self, request: Request) -> str:
        assert request.program is not None
        return program_text(request.program)

    def wrapped(self, request: Request, built: Built) -> GpuKernel:
        return GpuKernel(built, request.schedule.copy(), request.nest, device_file(request))


__all__ = ["EmulatorBackend"]
