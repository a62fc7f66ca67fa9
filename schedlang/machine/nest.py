"""The machine nest: what code generation decides, and what the printers write."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.machine.nodes import Function
from schedlang.machine.printer import machine_text


@dataclass(frozen=True, eq=False)
class MachineNest:
    """The functions of a kernel, callees first; the last one is the entry.

    On a GPU, each function is a kernel.
    """

    functions: tuple[Function, ...]

    @property
    def entry(self) -> Function:
        return self.functions[-1]

    def __str__(self) -> str:
        return machine_text(self.functions)

    __repr__ = __str__
