"""Reads and stores at tensor coordinates become loads and stores of buffers in scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Expr, Read, Var
from schedlang.expr.rules import extreme
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import rewrite
from schedlang.ir.nodes import Alloc, Block, Buffer, Fetch, For, If, Load, Note, Stmt, Store
from schedlang.lowering.puts import Placed, Put, Touch

Where = dict[Tensor, tuple[Buffer, tuple[Lin, ...]]]


def resolve(
    drafts: Sequence[Any], given: Mapping[Tensor, Buffer], alias: Mapping[Tensor, Tensor]
) -> Block:
    """Statements over buffers: ``given`` ones, and those each ``Alloc`` brings into scope."""
    where: Where = {t: (b, ()) for t, b in given.items()}
    return _block(drafts, where, alias, Ranges())


def _block(
    drafts: Sequence[Any], where: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges
) -> Block:
    scope = dict(where)
    made: list[Stmt] = []
    for draft in drafts:
        if isinstance(draft, Alloc):
            assert draft.buffer.tensor is not None
            scope[draft.buffer.tensor] = (draft.buffer, draft.origin)
            made.append(draft)
        elif isinstance(draft, For):
            last = to_lin(draft.extent) - 1
            inner = ranges.extended(draft.axis, Lin.of(0), last)
            made.append(replace(draft, body=_block(draft.body.stmts, scope, alias, inner)))
        elif isinstance(draft, If):
            cond = _loads(draft.cond, scope, alias, ranges)
            body = _block(draft.body.stmts, scope, alias, ranges)
            made.append(replace(draft, cond=cond, body=body))
        elif isinstance(draft, Put):
            made.append(_store(draft, scope, alias, ranges))
        elif isinstance(draft, Touch):
            buffer, origin = _find(draft.tensor, scope, alias)
            made.append(Fetch(buffer, _clamped(draft.indices, origin, buffer, ranges)))
        else:
            assert isinstance(draft, Note)
            made.append(draft)
    return Block(tuple(made))


def _find(
    tensor: Tensor, scope: Where, alias: Mapping[Tensor, Tensor]
) -> tuple[Buffer, tuple[Lin, ...]]:
    return scope[alias.get(tensor, tensor)]


def _relative(indices: Sequence[Lin], origin: Sequence[Lin]) -> tuple[Expr, ...]:
    if not origin:
        return tuple(map(to_expr, indices))
    return tuple(to_expr(i - o) for i, o in zip(indices, origin))


def _clamped(
    indices: Sequence[Lin], origin: Sequence[Lin], buffer: Buffer, ranges: Ranges
) -> tuple[Expr, ...]:
    """Indices relative to ``origin``, held within ``buffer``."""
    found = []
    for k, index in enumerate(indices):
        at = index - origin[k] if origin else index
        last = to_lin(buffer.shape[k]) - 1
        above = extreme("max", (at, Lin.of(0)), ranges)
        found.append(to_expr(extreme("min", (above, last), ranges)))
    return tuple(found)


def _store(put: Put, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges) -> Store:
    found = [_find(t, scope, alias) for t in put.tensors]
    indices = _relative(put.indices, found[0][1])
    values = tuple(_loads(v, scope, alias, ranges) for v in put.values)
    return Store(tuple(b for b, _ in found), indices, values, put.reducer, put.stage)


def _loads(value: Expr, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges) -> Expr:
    def load(node: Expr) -> Expr | None:
        if isinstance(node, Placed):
            buffer, origin = _find(node.tensor, scope, alias)
            return Load(buffer, _relative(node.at, origin), node.dtype)
        if not isinstance(node, Read):
            return None
        buffer, origin = _find(node.tensor, scope, alias)
        if not origin:
            return Load(buffer, node.indices, node.dtype)
        indices = tuple(to_expr(to_lin(i, ranges=ranges) - o) for i, o in zip(node.indices, origin))
        return Load(buffer, indices, node.dtype)

    return rewrite(value, load, before=_index_leaf)


def _index_leaf(node: Expr) -> Expr | None:
    return node if isinstance(node, (Axis, Var)) else None
