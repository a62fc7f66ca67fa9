"""Kernels of blocks and threads: what all targets whose loops are bound to them do alike."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.errors import BuildError, explain
from schedlang.gpu_lowering.emulation import as_loops
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Launch, Program
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import For, walk
from schedlang.ir.trimmed import running
from schedlang.machine.loops.instructions import matched_by
from schedlang.runtime.device_file import DeviceFile
from schedlang.target import Target, first_lacking
from schedlang.targets.backend import Backend, Lowered, Options, Request
from schedlang.targets.imported_code import unused_code


@dataclass(frozen=True)
class Launched(Lowered):
    """A nest as the launches of ``program``; ``loops`` run their threads one after the other."""

    program: Program


class GpuBackend(Backend[Launched]):
    """A target whose kernels are launched for blocks of threads."""

    takes_lineinfo = True

    def refusal(self, nest: Nest) -> str:
        call = next((s for s in running(nest.body) if isinstance(s, Extern)), None)
        if call is not None:
            return explain(
                f"sl.build of {nest.name} for target={self.facts.name!r}",
                f"stage {call.stage} is computed by {call.function.name}, which runs on the CPU",
                'Build for target="cpu", "c" or "python", or divide the computation there into '
                "two kernels.",
            )
        return unused_code(nest, ())

    def lowered(self, nest: Nest, target: Target, options: Options) -> Launched:
        program = self.program(nest, target, options)
        for launch in program.launches:
            if launch.copies_asynchronously:
                self._check_copies(launch)
            for stmt, _ in walk(launch.body):
                if isinstance(stmt, For) and stmt.instruction is not None:
                    self._check(stmt, target)
        return Launched(as_loops(program), program)

    def _check(self, loop: For, target: Target) -> None:
        """Raise for an instruction that has no form here, or that the GPU lacks."""
        assert loop.instruction is not None
        if not loop.instruction.of_warp or self.facts.instructions not in loop.instruction.emit:
            matched_by(loop, self.facts)
        lacking = first_lacking(loop.instruction.needs, target.device)
        if lacking:
            raise BuildError(
                explain(
                    f"tensorize({loop.axis.name}, {loop.instruction}) on stage {loop.stage}",
                    f"the instruction needs {lacking}, and the kernel is built for "
                    f"{target.device.arch}",
                    f'Leave out tensorize, or build for sl.Target("cuda", arch={lacking!r}).',
                )
            )

    def _check_copies(self, launch: Launch) -> None:
        """Raise if a GPU has no asynchronous copies; all that numba.cuda compiles for have."""

    def program(self, nest: Nest, target: Target, options: Options) -> Program:
        """Return the launches."""
        return device_program(nest, target)

    def file(self, request: Request[Launched]) -> DeviceFile:
        """Return the file of numba.cuda kernels, which is emitted when it is first needed."""
        options = request.options
        return DeviceFile(
            request.lowered.program,
            request.target.arch,
            request.public,
            request.steps,
            options.fastmath,
            options.lineinfo,
            request.refused,
        )
