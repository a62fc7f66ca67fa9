"""Resolution: reads and stores of tensors become loads and stores of the buffers in scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Extern
from schedlang.ir.findings import Findings
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Fetch,
    For,
    Load,
    Stmt,
    Store,
    block_of,
    held_statements,
    with_held,
)
from schedlang.ir.rewrite import with_expressions
from schedlang.lowering.drafts import DraftExtern, DraftPrefetch, DraftRead, DraftStore
from schedlang.state.layout import ArrayLayout, Layout, stored_index


@dataclass(frozen=True)
class Place:
    """The storage of a tensor: its buffer, the element at index 0, and the layout.

    An argument has the layout ``array``, if its array and its tensor differ.
    """

    buffer: Buffer
    origin: tuple[Lin, ...] = ()
    layout: Layout = ()
    array: Optional[ArrayLayout] = None

    def index(self, at: Sequence[Lin], ranges: Ranges) -> tuple[Lin, ...]:
        """Return the buffer index of the tensor's element ``at``."""
        if self.array is not None:
            return self.array.index(at, ranges)
        relative = tuple(i - o for i, o in zip(at, self.origin)) if self.origin else tuple(at)
        return stored_index(self.layout, relative, ranges) if self.layout else relative


class Where(dict[Tensor, Place]):
    """The places of tensors in scope, and the tensors whose places somebody ``asked`` for."""

    def __init__(self, places: Mapping[Tensor, Place], asked: set[Tensor]) -> None:
        super().__init__(places)
        self.asked = asked

    def __getitem__(self, tensor: Tensor) -> Place:
        self.asked.add(tensor)
        return super().__getitem__(tensor)


def resolve(
    drafts: Sequence[Any],
    given: Mapping[Tensor, Buffer],
    arrays: Mapping[Tensor, ArrayLayout],
    alias: Mapping[Tensor, Tensor],
    findings: Findings,
) -> Block:
    """Return ``drafts`` as statements over ``given`` buffers and those that are allocated.

    ``arrays`` has the layouts of given buffers that differ from their tensors.
    """
    places = {t: Place(b, array=arrays.get(t)) for t, b in given.items()}
    stmts: list[Stmt] = []
    for draft in drafts:
        if isinstance(draft, Alloc):
            places[_tensor(draft)] = Place(draft.buffer, draft.origin, draft.layout)
            stmts.append(draft)
        else:
            stmts.append(_resolved(draft, places, alias, findings))
    return Block(tuple(stmts))


def _resolved(
    draft: Any, places: Mapping[Tensor, Place], alias: Mapping[Tensor, Tensor], findings: Findings
) -> Stmt:
    """Return a draft at root as a statement, the one that it became over the same buffers."""
    earlier: list[tuple[Where, Stmt]] = findings.once(("resolved", draft), list)
    for used, stmt in earlier:
        if all(t in places and places[t].buffer is p.buffer for t, p in used.items()):
            return stmt
    where = Where(places, set())
    (stmt,) = _block([draft], where, alias, Ranges()).stmts
    used = Where({t: places[t] for t in where.asked if t in places}, set())
    earlier.append((used, stmt))
    return stmt


def _tensor(alloc: Alloc) -> Tensor:
    assert alloc.buffer.tensor is not None
    return alloc.buffer.tensor


def _block(
    drafts: Sequence[Any], where: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges
) -> Block:
    scope = Where(where, where.asked)
    stmts: list[Stmt] = []
    for draft in drafts:
        if isinstance(draft, Alloc):
            scope[_tensor(draft)] = Place(draft.buffer, draft.origin, draft.layout)
            stmts.append(draft)
        elif isinstance(draft, DraftStore):
            stmts.append(_store(draft, scope, alias, ranges))
        elif isinstance(draft, DraftExtern):
            stmts.append(_extern(draft, scope, alias, ranges))
        elif isinstance(draft, DraftPrefetch):
            place = _find(draft.tensor, scope, alias)
            stmts.append(Fetch(place.buffer, _clamped(draft.indices, place, ranges)))
        else:
            stmts.append(_around(draft, scope, alias, ranges))
    return Block(tuple(stmts))


def _around(draft: Stmt, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges) -> Stmt:
    """Return a loop, a guard or a note over buffers."""
    inside = ranges
    if isinstance(draft, For):
        inside = ranges.extended(draft.axis, Lin.of(0), to_lin(draft.extent) - 1)
    own = with_expressions(draft, lambda value: _loads(value, scope, alias, ranges))
    if not own.HELD:
        return own
    # outside of the lambda, since nests may be deep
    (body,) = held_statements(own)
    inner = _block(block_of(body).stmts, scope, alias, inside)
    return with_held(own, lambda _: inner)


def _find(tensor: Tensor, scope: Where, alias: Mapping[Tensor, Tensor]) -> Place:
    return scope[alias.get(tensor, tensor)]


def _clamped(indices: Sequence[Lin], place: Place, ranges: Ranges) -> tuple[Expr, ...]:
    """Return the buffer index of ``indices``, clamped to the buffer."""
    clamped = []
    for at, extent in zip(place.index(indices, ranges), place.buffer.shape):
        last = to_lin(extent) - 1
        above = extreme("max", (at, Lin.of(0)), ranges)
        clamped.append(to_expr(extreme("min", (above, last), ranges)))
    return tuple(clamped)


def _store(put: DraftStore, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges) -> Store:
    places = [_find(t, scope, alias) for t in put.tensors]
    indices = tuple(map(to_expr, places[0].index(put.indices, ranges)))
    values = tuple(_loads(v, scope, alias, ranges) for v in put.values)
    if put.scatters:
        indices = tuple(_loads(i, scope, alias, ranges) for i in indices)
    buffers = tuple(p.buffer for p in places)
    return Store(
        buffers, indices, values, put.reducer, put.stage, scatters=put.scatters, atomic=put.atomic
    )


def _extern(
    call: DraftExtern, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges
) -> Extern:
    op, starts, extents = call.op, list[Expr](), list[Expr]()
    places = [_find(t, scope, alias) for t in (*op.inputs, *op.outputs)]
    for place, (first, extent) in zip(places, call.boxes):
        starts += map(to_expr, place.index(first, ranges))
        extents += map(to_expr, extent)
    buffers = [place.buffer for place in places]
    count = len(op.inputs)
    body = _block(call.body.stmts, scope, alias, ranges)
    return Extern(
        op.function,
        tuple(buffers[:count]),
        tuple(buffers[count:]),
        tuple(starts),
        tuple(extents),
        body,
        call.stage,
    )


def _loads(value: Expr, scope: Where, alias: Mapping[Tensor, Tensor], ranges: Ranges) -> Expr:
    def load(node: Expr) -> Expr | None:
        if isinstance(node, DraftRead):
            place = _find(node.tensor, scope, alias)
            return Load(place.buffer, tuple(map(to_expr, place.index(node.at, ranges))), node.dtype)
        if not isinstance(node, Read):
            return None
        place = _find(node.tensor, scope, alias)
        if not place.origin and place.array is None:
            return Load(place.buffer, node.indices, node.dtype)
        at = tuple(to_lin(i, ranges=ranges) for i in node.indices)
        return Load(place.buffer, tuple(map(to_expr, place.index(at, ranges))), node.dtype)

    return rewrite(value, load, before=_index_leaf)


def _index_leaf(node: Expr) -> Expr | None:
    return node if isinstance(node, (Axis, Var)) else None
