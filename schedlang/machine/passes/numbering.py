"""The numbers of registers follow the order of the statements, whichever pass made them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import is_

from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Body, Load, Num, Reg, Stmt, Thread, Value
from schedlang.machine.passes.job import Job
from schedlang.machine.rewrite import with_children, with_values
from schedlang.machine.text import Printer
from schedlang.machine.walks import (
    bodies,
    children,
    defined_names,
    values,
    with_bodies,
    with_statements,
)

_TEMPORARY = re.compile(r"t(_\d+)?")
_USED = re.compile(r"\bt(?:_\d+)?\b")


def number_registers(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest`` with the names ``t``, ``t_1``, ... of registers in the order of assignment.

    The result of a choice comes after the registers of its sides.
    """
    old_names = list(dict.fromkeys(name for f in nest.functions for name in _temporaries(f.body)))
    new_names = sorted(old_names, key=lambda name: int(name[2:] or 0))
    names = {old: new for old, new in zip(old_names, new_names) if old != new}
    if not names:
        return nest
    pass_ = _Pass(names, Printer(nest.texts))
    functions = (with_fields(f, body=pass_.body(f.body)) for f in nest.functions)
    return nest.with_functions(functions)


def _temporaries(body: Body) -> Iterator[str]:
    """Yield the names of temporary registers, each where it is assigned."""
    for stmt in body:
        # arrays and threads have names of users, which may look like temporaries
        named = () if isinstance(stmt, Thread) else defined_names(stmt)
        own = [v.name for v in named if isinstance(v, Reg) and _TEMPORARY.fullmatch(v.name)]
        for side in bodies(stmt):
            yield from (name for name in _temporaries(side) if name not in own)
        yield from own


@dataclass(frozen=True)
class _Pass:
    """The new names of registers, and the texts of values."""

    names: Mapping[str, str]
    printer: Printer

    def body(self, body: Body) -> Body:
        return with_statements(body, self.statement)

    def statement(self, stmt: Stmt) -> Stmt:
        own = values(stmt)
        if any(map(self.holds, own)):
            stmt = with_values(stmt, [self.value(v) for v in own])
        for name in stmt.DEFINES:
            old = getattr(stmt, name)
            if isinstance(old, Reg) and old.name in self.names:
                stmt = with_fields(stmt, **{name: self.reg(old)})
        return with_bodies(stmt, self.body)

    def holds(self, value: Value) -> bool:
        """Return whether ``value`` holds a register to rename, by its text."""
        if isinstance(value, (Reg, Num)):
            return isinstance(value, Reg) and value.name in self.names
        return not self.names.keys().isdisjoint(_USED.findall(self.printer.text(value).text))

    def reg(self, reg: Reg) -> Reg:
        name = self.names.get(reg.name)
        return reg if name is None else Reg(name, reg.type)

    def value(self, value: Value) -> Value:
        """Return ``value`` with registers renamed; its depth is limited, so this may recurse."""
        if isinstance(value, Reg):
            return self.reg(value)
        if isinstance(value, Num) or (isinstance(value, Load) and not self.holds(value)):
            return value
        old = children(value)
        new = [self.value(v) for v in old]
        return value if all(map(is_, new, old)) else with_children(value, new)
