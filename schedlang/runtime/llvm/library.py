"""The subject of a compilation, and the library with its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.runtime.numba_internals import JITCodeLibrary

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest


@dataclass(frozen=True)
class Subject:
    """A machine nest to compile, its file, and the options of the file's functions.

    ``name`` is the function that is called, and ``threads`` says whether loops run on threads.
    ``nest`` returns the machine nest, which is needed only if the cache folder lacks the code.
    """

    name: str
    path: Path
    fastmath: bool
    threads: bool
    nest: Callable[[], MachineNest]


class Library(JITCodeLibrary):
    """The code of one kernel, which is optimized once, or was before.

    ``level`` is the level of the passes.
    """

    level = 3

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def loaded(self, code: bytes, symbols: list[str]) -> None:
        """Take the machine code that an earlier process made."""
        self._set_compiled_object(code)
        self._finalize_final_module()
        self.codegen._engine._defined_symbols.update(symbols)

    @property
    def code(self) -> bytes:
        """The object file that was made."""
        return bytes(self._get_compiled_object())

    @property
    def optimized(self) -> Any:
        """The module of LLVM's code."""
        return self._final_module

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        # a process that loads a kernel imports no machine nest
        from schedlang.runtime.llvm.passes import optimize

        optimize(self._codegen, self._final_module, self.level)
