"""A nest whose parallel loops run one iteration after the other, for a process without threads."""

from __future__ import annotations

from dataclasses import replace

from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import INDEX, Body, Fn, For, If, Num, Stmt, Value, View
from schedlang.machine.rewrite import swapped

# a thread's number is known only where parallel loops run
_NUMBER: dict[Value, Value] = {Fn("thread_number", (), INDEX): Num(0)}


def serial(nest: MachineNest) -> MachineNest:
    """Return ``nest`` without parallel loops; its only thread has number 0."""
    functions = (replace(f, body=_body(f.body), parallel=False) for f in nest.functions)
    return replace(nest, functions=tuple(functions))


def _body(body: Body) -> Body:
    return tuple(_statement(stmt) for stmt in body)


def _statement(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        return replace(stmt, body=_body(stmt.body), parallel=False)
    if isinstance(stmt, If):
        return replace(stmt, body=_body(stmt.body), orelse=_body(stmt.orelse))
    if isinstance(stmt, View):
        return swapped(stmt, _NUMBER)
    return stmt


__all__ = ["serial"]
