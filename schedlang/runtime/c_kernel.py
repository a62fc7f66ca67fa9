"""Kernels for ``target="c"``: C source, compiled by a C compiler for this machine or another."""

from __future__ import annotations

from typing import Any

from schedlang.errors import BuildError, explain
from schedlang.ir.nest import Nest
from schedlang.runtime.built import Built
from schedlang.runtime.c_processors import refuse_call
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.numba_code import Code
from schedlang.schedule.schedule import Schedule


class CKernel(Kernel):
    """A :class:`Kernel` whose ``source`` is C; the first call compiles it by the system's ``cc``.

    The environment variable ``CC`` names another compiler. It must be GCC or Clang, with OpenMP. A
    machine without a compiler uses zig, if it is installed; parallel loops then run on one thread.

    A kernel for a triple cannot be called, measured or counted here; it is saved.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, fastmath: bool) -> None:
        super().__init__(built, schedule, nest)
        self.fastmath = fastmath

    @property
    def source(self) -> str:
        """The C source that runs."""
        return self._built.text

    def _function(self) -> Any:
        refuse_call("kernel", self.name, self.target.triple, f"f.save('{self.name}.o')")
        return super()._function()

    def _code(self, asked: str) -> Code:
        if triple := self.target.triple:
            raise BuildError(
                explain(
                    f"{asked} of kernel {self.name} for {triple}",
                    "the listings are of this machine's code",
                    "Save it (f.save('k.c')), and compile it by the line of its header with -S.",
                )
            )
        if asked == "llvm":
            raise BuildError(
                explain(
                    f"llvm of kernel {self.name}",
                    "it is C, which the system's compiler turns into machine code",
                    'Read its .asm, or build it for target="cpu", which LLVM compiles.',
                )
            )
        return super()._code(asked)

    def _standalone(self) -> str:
        raise BuildError(
            f'save: kernel {self.name} is C: give a name ending in .c, or build for target="cpu", '
            "whose kernels are saved as Python"
        )

    def __reduce__(self) -> Any:
        return CKernel, (self._built, self.schedule, self._nest, self.fastmath)
