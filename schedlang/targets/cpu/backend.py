"""``target="cpu"``: numba compiles the emitted file, or LLVM the machine nest."""

from __future__ import annotations

from schedlang.runtime.built import Built
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.llvm_kernel import LlvmKernel
from schedlang.target_kinds import KINDS
from schedlang.targets.backend import Lowered, Request
from schedlang.targets.loops import LoopBackend, NumbaBackend


class CpuBackend(LoopBackend, NumbaBackend[Lowered]):
    """The CPU, by numba or by LLVM alone."""

    facts = KINDS["cpu"]
    compilers = ("numba", "llvm")

    def wrapped(self, request: Request[Lowered], built: Built) -> Kernel:
        if request.options.compiler == "llvm":
            return LlvmKernel(built, request.schedule.copy(), request.nest)
        return super().wrapped(request, built)
