"""``target="cuda"``: numba.cuda kernels, from loops that are bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.diagnostics.spills import gpu_spills
from schedlang.errors import SpillWarning
from schedlang.gpu_lowering.emulation import as_loops
from schedlang.gpu_lowering.lower import device_program
from schedlang.gpu_lowering.program import Program
from schedlang.ir.nest import Nest
from schedlang.runtime.built import Built
from schedlang.runtime.device_file import DeviceFile
from schedlang.runtime.gpu import CudaKernel
from schedlang.runtime.kernel import Kernel
from schedlang.target import Target
from schedlang.targets.backend import Backend, Options, Request


class CudaBackend(Backend):
    """NVIDIA GPUs, by numba.cuda."""

    takes_lineinfo = True

    def program(self, nest: Nest, target: Target, options: Options) -> Program:
        return device_program(nest, target)

    def loops(self, nest: Nest, program: Program | None) -> Nest:
        assert program is not None
        return as_loops(program)

    def warnings(
        self, nest: Nest, program: Program | None, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        assert program is not None
        for text in gpu_spills(program, target):
            yield text, SpillWarning

    def kernel(self, request: Request) -> Kernel:
        file = device_file(request)
        built = Built(
            request.signature, request.target, "launch", request.public, file.text,
            file.source.machine, "", request.checked_by_size, request.unproven,
            file.listing.numbers, request.options.fastmath,
        )  # fmt: skip
        return CudaKernel(built, request.schedule.copy(), request.nest, file)


def device_file(request: Request) -> DeviceFile:
    """Return the file of numba.cuda kernels, which is emitted when it is first needed."""
    assert request.program is not None
    options = request.options
    return DeviceFile(
        request.program, request.target.arch, request.public, request.steps, options.fastmath,
        options.lineinfo, request.refused,
    )  # fmt: skip


__all__ = ["CudaBackend", "device_file"]
