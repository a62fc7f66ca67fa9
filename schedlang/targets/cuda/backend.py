"""``target="cuda"``: numba.cuda kernels, from loops that are bound to blocks and threads."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.diagnostics.spills import gpu_spills
from schedlang.errors import SpillWarning
from schedlang.ir.nest import Nest
from schedlang.runtime.built import Built, Printed
from schedlang.runtime.gpu import CudaKernel
from schedlang.target import Target
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Request
from schedlang.targets.gpu import GpuBackend, Launched


class CudaBackend(GpuBackend):
    """NVIDIA GPUs, by numba.cuda."""

    facts = KINDS["cuda"]

    def warnings(
        self, nest: Nest, lowered: Launched, target: Target
    ) -> Iterator[tuple[str, type[Warning]]]:
        for text in gpu_spills(lowered.program, target):
            yield text, SpillWarning

    def kernel(self, request: Request[Launched]) -> CudaKernel:
        file = self.file(request)
        built = Built(
            request.signature,
            request.target,
            request.public,
            lambda: file.source.machine,
            lambda machine: Printed(file.text, numbers=file.listing.numbers),
            request.checked_by_size,
            request.unproven,
            request.options.fastmath,
        )
        return CudaKernel(built, request.schedule.copy(), request.nest, file)
