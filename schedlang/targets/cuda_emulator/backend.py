"""``target="cuda-emulator"``: the kernels of a GPU on the CPU, blocks and threads as loops."""

from __future__ import annotations

from schedlang.gpu_lowering.printer import program_text
from schedlang.gpu_lowering.program import Program
from schedlang.gpu_lowering.without_barriers import without_barriers
from schedlang.ir.nest import Nest
from schedlang.runtime.built import Built
from schedlang.runtime.emulated import GpuKernel
from schedlang.target import Target
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Options, Request
from schedlang.targets.gpu import GpuBackend, Launched
from schedlang.targets.loops import NumbaBackend


class EmulatorBackend(GpuBackend, NumbaBackend[Launched]):
    """A GPU's program on the CPU, also without its barriers, to show its races."""

    facts = KINDS["cuda-emulator"]

    takes_barriers = True

    def program(self, nest: Nest, target: Target, options: Options) -> Program:
        program = super().program(nest, target, options)
        return program if options.barriers else without_barriers(program)

    def host(self, target: Target) -> Target:
        return Target()

    def shown(self, request: Request[Launched]) -> str:
        return program_text(request.lowered.program)

    def wrapped(self, request: Request[Launched], built: Built) -> GpuKernel:
        return GpuKernel(built, request.schedule.copy(), request.nest, self.file(request))
