"""Kernels of the CPU that LLVM compiles from the machine nest (``compiler="llvm"``)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.codegen.numba_cpu import source_of
from schedlang.codegen.numba_file import render_functions
from schedlang.errors import CompilerWarning
from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.passes.serial import serial
from schedlang.runtime import files, thread_safety
from schedlang.runtime.built import Built
from schedlang.runtime.kernel import Kernel
from schedlang.runtime.numba_code import Code
from schedlang.runtime.parameters import Signature
from schedlang.runtime.perf_map import Code as MachineCode
from schedlang.runtime.runners import ByNumba, Emitted
from schedlang.schedule.schedule import Schedule

if TYPE_CHECKING:
    from schedlang.runtime.llvm.compiled import Compiled


class ByLlvm(ByNumba):
    """LLVM compiles ``machine``, of which the file is the text.

    What the printer does not know is compiled by numba from the file, with a
    :class:`~schedlang.errors.CompilerWarning`.
    """

    def __init__(self, machine: MachineNest) -> None:
        self._machine = machine
        self._compiled: Compiled | None = None

    def function_of(
        self, file: Emitted, path: Path, called: Collection[str], behind: Sequence[str]
    ) -> Any:
        left_behind = file.serial_text and thread_safety.left_behind()
        nest = serial(self._machine) if left_behind else self._machine
        self._compiled = self._of_nest(nest, path, file.fastmath)
        if self._compiled is None:
            return super().function_of(file, path, called, behind)
        return self._compiled.function

    def _of_nest(self, nest: MachineNest, path: Path, fastmath: bool) -> Compiled | None:
        """Return a machine nest, compiled; ``None`` after a warning if numba compiles it."""
        from numba import version_info

        from schedlang.runtime.llvm.compiled import Subject, compiled
        from schedlang.runtime.llvm.dialect import Unprintable

        try:
            if version_info.short not in files.QUICK:
                raise Unprintable(f"numba {version_info.string} is not known")
            return compiled(Subject(nest, path, fastmath))
        except Unprintable as unprintable:
            warnings.warn(
                f"kernel {nest.entry.name}: {unprintable}, so that numba compiles it",
                CompilerWarning,
                stacklevel=6,
            )
            return None

    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        """Do nothing for what LLVM compiled when it was loaded."""
        if self._compiled is None:
            super().compile(function, signature, behind)

    def compiles_in_call(self) -> bool:
        return self._compiled is None

    def codes(self, function: Any) -> Iterable[MachineCode]:
        compiled = self._compiled
        if compiled is None:
            return super().codes(function)
        return (MachineCode(compiled.library, compiled.symbol, compiled.code),)

    def function_of_nest(
        self, nest: MachineNest, name: str, fastmath: bool, called: Collection[str] = ()
    ) -> tuple[Any, Path]:
        head = f"{nest.entry.name} with time stamps"
        listing = render_functions(source_of(nest, name), head, fastmath, True)
        path = files.write(listing.text, f"{name}_times")
        compiled = self._of_nest(nest, path, fastmath)
        if compiled is None:
            return super().function_of_nest(nest, name, fastmath, called)
        return compiled.function, path


class LlvmKernel(Kernel):
    """A :class:`Kernel` whose machine nest LLVM compiles, without numba's type inference."""

    def __init__(self, built: Built, schedule: Schedule, nest: Nest) -> None:
        super().__init__(built, schedule, nest)
        self._runner = ByLlvm(built.machine)

    @cached_property
    def _numba_code(self) -> Code:
        from schedlang.runtime.llvm.compiled import Subject, code_of
        from schedlang.runtime.llvm.dialect import Unprintable

        built = self._built
        try:
            return code_of(Subject(built.machine, self._path, built.fastmath), built.text)
        except Unprintable:
            return super()._numba_code

    def __reduce__(self) -> Any:
        return LlvmKernel, (self._built, self.schedule, self._nest)
