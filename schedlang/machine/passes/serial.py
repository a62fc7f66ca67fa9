"""A nest whose parallel loops run one iteration after the other, for a process without threads."""

from __future__ import annotations

from dataclasses import replace

from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Body, For, If, Stmt


def serial(nest: MachineNest) -> MachineNest:
    """Return ``nest`` without parallel loops."""
    functions = (replace(f, body=_body(f.body), parallel=False) for f in nest.functions)
    return replace(nest, functions=tuple(functions))


def _body(body: Body) -> Body:
    return tuple(_statement(stmt) for stmt in body)


def _statement(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        return replace(stmt, body=_body(stmt.body), parallel=False)
    if isinstance(stmt, If):
        return replace(stmt, body=_body(stmt.body), orelse=_body(stmt.orelse))
    return stmt


__all__ = ["serial"]
