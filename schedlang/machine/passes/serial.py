"""A nest whose parallel loops run one iteration after the other, for a process without threads."""

from __future__ import annotations

from dataclasses import replace

from schedlang.ir.nodes import with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Body, Fn, For, Num, Stmt, Value, View
from schedlang.machine.rewrite import swap_values
from schedlang.machine.walks import with_bodies, with_statements

# a thread's number is known only where parallel loops run
_NUMBER: dict[Value, Value] = {Fn("thread_number", (), INDEX): Num(0)}


def serial(nest: MachineNest) -> MachineNest:
    """Return ``nest`` without parallel loops; its only thread has number 0."""
    functions = (replace(f, body=_body(f.body), parallel=False) for f in nest.functions)
    return replace(nest, functions=tuple(functions))


def _body(body: Body) -> Body:
    return with_statements(body, _statement)


def _statement(stmt: Stmt) -> Stmt:
    stmt = with_bodies(stmt, _body)
    if isinstance(stmt, For) and stmt.parallel:
        return with_fields(stmt, parallel=False)
    return swap_values(stmt, _NUMBER) if isinstance(stmt, View) else stmt
