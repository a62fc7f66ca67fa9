"""The parameters of a GPU kernel: what its statements use and do not define."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.accesses import loads
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Load,
    Stmt,
    bound,
    buffers_of,
    defined_by,
    expressions,
    walk,
)

Key = Buffer | Axis | Var


def used_keys(body: Block, values: Mapping[Axis | Var, Lin], named: Container[Key]) -> list[Key]:
    """Return the ``named`` buffers, axes and scalars that ``body`` uses and does not define.

    ``values`` are the values of axes that have only one.
    """
    inside: set[Key] = set()
    free: dict[Key, None] = {}
    for stmt, _ in walk(body):
        inside.update((*bound(stmt), *defined_by(stmt)))
        for key in _mentioned(stmt, values):
            if isinstance(key, Buffer) and key.whole is not None:
                key = key.whole
            if key not in inside and key in named:
                free.setdefault(key)
    return list(free)


def _mentioned(stmt: Stmt, values: Mapping[Axis | Var, Lin]) -> Iterator[Key]:
    """Yield the buffers, axes and scalars in a statement itself, and in the shapes of buffers."""
    buffers = list(buffers_of(stmt))
    roots = list(expressions(stmt))
    read = [load.buffer for load in loads(roots)]
    shapes = [e for b in (*buffers, *read) for e in b.shape if isinstance(e, Expr)]
    for node in postorder([*roots, *shapes]):
        if isinstance(node, Load):
            yield node.buffer
        elif isinstance(node, (Axis, Var)):
            value = values.get(node)
            leaves = [node] if value is None else postorder([to_expr(value)])
            yield from (leaf for leaf in leaves if isinstance(leaf, (Axis, Var)))
    yield from buffers
