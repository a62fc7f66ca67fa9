"""The machine nest: what code generation decides, and what the printers write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schedlang.compute.extern_op import ExternFunction
from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Var
from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.ir.nodes import Buffer
from schedlang.machine.nodes import Function, Instructed, Invoke
from schedlang.machine.printer import machine_text
from schedlang.machine.text import Texts
from schedlang.machine.walks import bound, defined_names, operations, values, walk


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

    @cached_property
    def invoked(self) -> tuple[Invoke, ...]:
        """The calls of users' functions."""
        stmts = (stmt for function in self.functions for stmt, _ in walk(function.body))
        return tuple(stmt for stmt in stmts if isinstance(stmt, Invoke))

    @property
    def called(self) -> tuple[ExternFunction, ...]:
        """The functions of users, each once."""
        return tuple(dict.fromkeys(stmt.function for stmt in self.invoked))

    @cached_property
    def definitions(self) -> Mapping[str, str]:
        """The functions of Python that instructions call, as text, by name.

        Raise :class:`~schedlang.errors.BuildError` for two of one name.
        """
        known: dict[str, str] = {}
        for function in self.functions:
            for stmt, _ in walk(function.body):
                for root in values(stmt):
                    for value in operations(root):
                        if isinstance(value, Instructed):
                            _define(known, value)
        return known

    def with_functions(self, functions: Iterable[Function]) -> MachineNest:
        """Return the nest with other functions, of the same names and texts."""
        return MachineNest(tuple(functions), self.names, self.texts)

    def identifiers(self) -> set[str]:
        """Return the names of functions, parameters, registers and arrays."""
        names: set[str] = set()
        for function in self.functions:
            names |= {function.name, *(p.name for p in function.parameters)}
            for stmt, _ in walk(function.body):
                if stmt.DEFINES:
                    names.update([named.name for named in defined_names(stmt)])
                if stmt.BINDS:
                    names.update([named.name for named in bound(stmt)])
        return names

    def __reduce__(self) -> Any:
        # texts are known by the identity of values, which copies do not share
        return MachineNest, (self.functions, self.names)

    def __str__(self) -> str:
        return machine_text(self.functions)

    __repr__ = __str__


def _define(known: dict[str, str], value: Instructed) -> None:
    """Add the function of Python that an instruction calls, if it calls one."""
    if isinstance(value.emission, (CFunction, CSnippet)):
        return
    call = value.emission.call(value.instruction)
    if call.definition and known.setdefault(call.name, call.definition) != call.definition:
        raise BuildError(
            explain(
                f"two instructions {value.instruction}",
                "they have different functions, and a file has one function of a name",
                "Give one of them another name.",
            )
        )
