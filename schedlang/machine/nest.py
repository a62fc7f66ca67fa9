"""The machine nest: what code generation decides, and what the printers write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.expr.nodes import Axis, Var
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Function
from schedlang.machine.printer import machine_text


@dataclass(frozen=True, eq=False)
class MachineNest:
    """The functions of a kernel, callees first; the last one is the entry.

    On a GPU, each function is a kernel. ``names`` holds the identifiers of the buffers, loops and
    sizes of the loop nest.
    """

    functions: tuple[Function, ...]
    names: Mapping[Axis | Buffer | Var, str] = field(default_factory=dict)

    @property
    def entry(self) -> Function:
        return self.functions[-1]

    def __str__(self) -> str:
        return machine_text(self.functions)

    __repr__ = __str__
