"""The properties of a kernel that show it at each level, from the loop nest to machine code."""

from __future__ import annotations

from abc import ABC
from functools import cached_property
from pathlib import Path

from schedlang.errors import BuildError, explain
from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.runtime.built import Built
from schedlang.runtime.numba_code import Code
from schedlang.runtime.runners import Runner


class Levels(ABC):
    """The properties of :class:`~schedlang.runtime.kernel.Kernel` that show each level of it."""

    _built: Built
    _nest: Nest
    _path: Path
    _runner: Runner

    @property
    def source(self) -> str:
        """The source: a line for each statement that runs."""
        return self._built.text

    def write(self) -> Path:
        """Write the source to its file, if that does not exist yet, and return the path."""
        return self._path

    @property
    def loop_nest(self) -> Nest:
        """The loop nest that was scheduled."""
        return self._nest

    @property
    def machine_nest(self) -> MachineNest:
        """The machine nest: the statements that run, one for each line of the source.

        It has vectors, registers and flat offsets, which the schedule and the target call for. A
        register shows its type where it is first assigned; ``vload``, ``vstore`` and the others are
        the intrinsics that the source calls. ``arranged_nest`` in ``schedlang/machine/lower.py``
        shows the decisions between the loop nest and this one.

        >>> import schedlang as sl
        >>> A = sl.placeholder((32,), name="A")
        >>> B = sl.compute((32,), lambda i: A[i] * 2, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].vectorize(s[B].split(B.op.axis[0], factor=8)[1])
        >>> print(sl.build(s, [A, B]).machine_nest)
        B_kernel(A: float32[], B: float32[]):
          for i_outer in 0..4:
            vstore(B, i_outer*8, vload(A, i_outer*8, 8) * float32(2))
        """
        return self._built.machine

    @property
    def origins(self) -> tuple[int | None, ...]:
        """For each line of the source, the statement of the loop nest that it comes from.

        Statements count from 0, in the order of the printed ``loop_nest``. ``None`` stands for
        lines that come from no statement, such as imports and barriers. The copies of an unrolled
        loop and the vectors of a vectorized one belong to their statement. A sum that stays in
        registers belongs to the update, even where it is loaded and stored outside of the loop.
        What several statements share, such as a vector that is loaded once, belongs to the first.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] * 2, name="B")
        >>> f = sl.build(sl.schedule(B), target="python")
        >>> for line, number in zip(f.source.split("\\n"), f.origins):
        ...     if number is not None:
        ...         print(number, line)
        0     for i in range(8):
        1         store(B, i, load(A, i) * float32(2))
        """
        return self._built.printed.numbers

    @property
    def llvm(self) -> str:
        """The code that LLVM optimized, with the lines of the source between; for the CPU.

        The first use compiles the kernel again, in memory, since the cache folder keeps machine
        code only. The line information changes no instruction. There is one listing for each
        function that LLVM did not inline; the body of a parallel loop over ``i`` is
        ``C_kernel.i``. The code before LLVM's passes comes first, as the
        statements were printed, and what the passes made of it after that; a comment stands before
        each. With ``compiler="numba"`` there is the code after the passes alone.

        Raises :class:`~schedlang.errors.BuildError` for a kernel that LLVM does not compile.

        >>> import schedlang as sl
        >>> A = sl.placeholder((64,), name="A")
        >>> B = sl.compute((64,), lambda i: A[i] * 2, name="B")
        >>> s = sl.schedule(B)
        >>> s[B].vectorize(s[B].split(B.op.axis[0], factor=8)[1])
        >>> "fmul contract <8 x float>" in sl.build(s, compiler="numba").llvm
        True
        >>> before, after = sl.build(s, compiler="llvm").llvm.split("; after LLVM's passes")
        >>> before.startswith("; before LLVM's passes"), "phi i64" in before, "phi i64" in after
        (True, True, False)
        """
        return self._code("llvm").llvm

    @property
    def asm(self) -> str:
        """The machine code as assembly, with the lines of the source between; see :attr:`llvm`.

        For a kernel for ``"c"``, the C compiler makes it.
        """
        return self._code("asm").asm

    def _code(self, asked: str) -> Code:
        """Return the code of this kernel, for the property ``asked``."""
        if self._built.target.facts.interpreted:
            raise BuildError(
                explain(
                    f"{asked} of kernel {self._built.public}",
                    'it is built for target="python" and runs uncompiled',
                    'Build it for target="cpu", which compiles the same source.',
                )
            )
        return self._listed_code

    @cached_property
    def _listed_code(self) -> Code:
        return self._runner.code_of(self._built, self._path)
