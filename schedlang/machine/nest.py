"""The machine nest: what code generation decides, and what the printers write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schedlang.expr.nodes import Axis, Var
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Alloc, For, Function, If, Let, Thread, View
from schedlang.machine.printer import machine_text
from schedlang.machine.text import Texts
from schedlang.machine.walks import walk


@dataclass(frozen=True, eq=False)
class MachineNest:
    """The functions of a kernel, callees first; the last one is the entry.

    On a GPU, each function is a kernel. ``names`` holds the identifiers of the buffers, loops and
    sizes of the loop nest, and ``texts`` the texts of values that were made to measure them.
    """

    functions: tuple[Function, ...]
    names: Mapping[Axis | Buffer | Var, str] = field(default_factory=dict)
    texts: Texts = field(default_factory=dict)

    @property
    def entry(self) -> Function:
        return self.functions[-1]

    def with_functions(self, functions: Iterable[Function]) -> MachineNest:
        """Return the nest with other functions, of the same names and texts."""
        return MachineNest(tuple(functions), self.names, self.texts)

    def identifiers(self) -> set[str]:
        """Return the names of functions, parameters, registers and arrays."""
        found: set[str] = set()
        for function in self.functions:
            found |= {function.name, *(p.name for p in function.parameters)}
            for stmt, _ in walk(function.body):
                if isinstance(stmt, (Let, Thread)):
                    found.add(stmt.reg.name)
                elif isinstance(stmt, For):
                    found.add(stmt.index.name)
                elif isinstance(stmt, (Alloc, View)):
                    found.add(stmt.array.name)
                elif isinstance(stmt, If) and stmt.result is not None:
                    found.add(stmt.result.name)
        return found

    def __reduce__(self) -> Any:
        # texts are known by the identity of values, which copies do not share
        return MachineNest, (self.functions, self.names)

    def __str__(self) -> str:
        return machine_text(self.functions)

    __repr__ = __str__
