"""Elements that stay in registers while a serial loop runs.

Where each iteration reads and stores one element of an array, such as the state of a filter, an
iteration would wait for the store of the one before. LLVM does this itself (scalar promotion) only
if it knows that nothing else in the loop stores there, and it does not know which arguments a call
may give as one array.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Body,
    For,
    Function,
    Let,
    Load,
    Num,
    Reg,
    Stmt,
    Store,
    Type,
    Value,
)
from schedlang.machine.passes.job import Job
from schedlang.machine.rewrite import swap_values
from schedlang.machine.walks import arrays, operations, values, walk, with_bodies, with_statements

# a register of another dtype may hold more bits than the element
DTYPES = ("float32", "float64", "int64", "bool")


def keep_elements(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest`` with a register for each element that a serial loop reads and stores.

    It is loaded before the outermost such loop and stored after it. The loop uses its array at no
    other place, and no other thread does.
    """
    return nest.with_functions(_in_function(f, f is nest.entry, job) for f in nest.functions)


def _in_function(function: Function, alone: bool, job: Job) -> Function:
    """Return a function; only one that is called ``alone`` owns the arrays that it is given."""
    own = {p.name for p in function.parameters if isinstance(p, Array)} if alone else set()
    body = _kept(function.body, frozenset(own), job)
    return function if body is function.body else with_fields(function, body=body)


def _kept(body: Body, own: frozenset[str], job: Job) -> Body:
    """Return a block whose thread alone uses the arrays ``own`` and those that it allocates."""
    own |= {stmt.array.name for stmt in body if isinstance(stmt, Alloc)}
    new: list[Stmt] = []
    for stmt in body:
        new += _statement(stmt, own, job)
    return body if len(new) == len(body) and all(a is b for a, b in zip(new, body)) else (*new,)


def _statement(stmt: Stmt, own: frozenset[str], job: Job) -> Body:
    if not isinstance(stmt, For):
        return (with_bodies(stmt, lambda body: _kept(body, own, job)),)
    if stmt.parallel or stmt.function:
        return (with_bodies(stmt, lambda body: _kept(body, frozenset(), job)),)
    elements = _elements(stmt, own)
    before: list[Stmt] = []
    after: list[Stmt] = []
    registers: dict[str, Reg] = {}
    for load in elements:
        array = load.array
        registers[array.name] = reg = Reg(job.fresh(f"{array.name}_value"), load.type)
        before.append(Let(reg, load, number=stmt.number))
        after.append(Store("store", array, load.at, reg, number=stmt.number))
    if registers:
        swap: dict[Value, Value] = {load: registers[load.array.name] for load in elements}
        stmt = swap_values(stmt, swap)
        stmt = with_bodies(stmt, lambda body: _in_registers(body, registers, swap))
    stmt = with_bodies(stmt, lambda body: _kept(body, own, job))
    return (*before, stmt, *after)


def _in_registers(body: Body, registers: Mapping[str, Reg], swap: Mapping[Value, Value]) -> Body:
    def change(stmt: Stmt) -> Stmt:
        stmt = swap_values(stmt, swap)
        if isinstance(stmt, Store) and stmt.array.name in registers:
            reg = registers[stmt.array.name]
            return Let(reg, stmt.value, number=stmt.number, stage=stmt.stage)
        return with_bodies(stmt, lambda inner: with_statements(inner, change))

    return with_statements(body, change)


def _elements(loop: For, own: Container[str]) -> list[Load]:
    """Return a load of each element that ``loop`` may keep: it reads it, then stores it."""
    loaded: dict[str, set[Load]] = {}
    stored: dict[str, set[tuple[Value, Type]]] = {}
    refused: set[str] = set()
    for stmt, _ in [(with_fields(loop, body=()), 0), *walk(loop.body)]:
        if isinstance(stmt, For) and (stmt.parallel or stmt.function):
            return []
        for value in values(stmt):
            for part in operations(value):
                if isinstance(part, Load):
                    loaded.setdefault(part.array.name, set()).add(part)
        if isinstance(stmt, Store):
            name = stmt.array.name
            # each iteration may read what it stored itself: there is no value to pass on
            if stmt.how != "store" or name not in loaded:
                refused.add(name)
            stored.setdefault(name, set()).add((stmt.at, stmt.value.type))
        elif isinstance(stmt, Alloc):
            refused.add(stmt.array.name)
        else:
            refused.update(array.name for array in arrays(stmt))
    return [
        load
        for name, places in loaded.items()
        if name in own and name not in refused and len(places) == 1
        for load in places
        if _is_element(load) and stored.get(name) == {(load.at, load.type)}
    ]


def _is_element(load: Load) -> bool:
    """Return whether a load reads one element whose place is a number, of a dtype to keep."""
    size = load.array.buffer.size
    return (
        load.how == "load"
        and not load.raw
        and load.type.dtype in DTYPES
        and load.type == Type(load.array.dtype)
        and isinstance(load.at, Num)
        and size is not None
        and 0 <= load.at.value < size
    )
