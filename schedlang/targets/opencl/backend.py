"""``target="opencl"``: a GPU's program as OpenCL C, which pyopencl compiles and runs."""

from __future__ import annotations

from schedlang.errors import BuildError, explain
from schedlang.gpu_lowering.program import Launch
from schedlang.ir.nodes import For
from schedlang.runtime.built import Built, Printed
from schedlang.target import Target
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Request
from schedlang.targets.gpu import GpuBackend, Launched
from schedlang.targets.opencl.file import OpenClFile
from schedlang.targets.opencl.kernel import OpenClKernel


class OpenClBackend(GpuBackend):
    """Devices of OpenCL, by pyopencl."""

    facts = KINDS["opencl"]

    takes_lineinfo = False

    def _check(self, loop: For, target: Target) -> None:
        declared = loop.instruction
        assert declared is not None
        elsewhere = ', or build for target="cuda"' if "cuda" in declared.emit else ""
        raise BuildError(
            explain(
                f"tensorize({loop.axis.name}, {declared}) on stage {loop.stage}",
                "OpenCL C has no instructions of a processor",
                f"Leave out tensorize, whose loops compute the same{elsewhere}.",
            )
        )

    def _check_copies(self, launch: Launch) -> None:
        raise BuildError(
            explain(
                f"a pipeline in kernel {launch.name}",
                "a thread of OpenCL has no asynchronous copies of its own",
                'Use double_buffer(), or build for target="cuda".',
            )
        )

    def kernel(self, request: Request[Launched]) -> OpenClKernel:
        file = OpenClFile(
            request.lowered.program, request.public, request.steps, request.options.fastmath
        )
        built = Built(
            request.signature,
            request.target,
            request.public,
            lambda: file.source.machine,
            lambda machine: Printed(file.listing.text, numbers=file.listing.numbers),
            request.checked_by_size,
            request.unproven,
            request.options.fastmath,
        )
        return OpenClKernel(built, request.schedule.copy(), request.nest, file)
