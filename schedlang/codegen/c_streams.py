"""Stores that bypass the caches, side by side where they fill a cache line.

The processor collects such stores until a line is full. Other accesses between them may make it
write half a line.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.machine import nodes as m
from schedlang.machine.nodes import Body, Let, Num, Op, Reg, Stmt, Store, Value
from schedlang.machine.walks import parts, values

_STREAM = "vstore_stream"


def streams_together(body: Body) -> Body:
    """Return ``body`` with adjacent streamed stores one after the other, behind their values.

    Only registers are assigned between two of them, from other arrays. An input that is the same
    array as the output has no element that is read after it is written.
    """
    if sum(isinstance(stmt, Store) and stmt.how == _STREAM for stmt in body) < 2:
        return body
    arranged: list[Stmt] = []
    waiting: list[Store] = []
    for number, stmt in enumerate(body):
        if isinstance(stmt, Store) and stmt.how == _STREAM:
            if waiting and (not _follows(stmt, waiting[-1]) or _reads(stmt, waiting[-1])):
                arranged += waiting
                waiting = []
            type_ = stmt.value.type
            kept = Reg(f"sl_kept_{type_.dtype}_{type_.lanes}_{number}", type_)
            arranged.append(Let(kept, stmt.value, number=stmt.number))
            waiting.append(replace(stmt, value=kept))
        elif not isinstance(stmt, Let) or (waiting and _reads(stmt, waiting[-1])):
            arranged += [*waiting, stmt]
            waiting = []
        else:
            arranged.append(stmt)
    return (*arranged, *waiting)


def _reads(stmt: Stmt, store: Store) -> bool:
    """Return whether a statement reads the array of a store, or changes what its offset reads."""
    inside = [v for root in values(stmt) for v in (root, *parts(root))]
    reads = any(isinstance(v, m.Load) and v.array.name == store.array.name for v in inside)
    named = {v.name for v in (store.at, *parts(store.at)) if isinstance(v, Reg)}
    return reads or (isinstance(stmt, Let) and stmt.reg.name in named)


def _follows(store: Store, before: Store) -> bool:
    """Return whether a store begins where the one before ends."""
    (base, number), (other, start) = _offset(store.at), _offset(before.at)
    same = store.array.name == before.array.name and base == other
    return same and number == start + before.value.type.lanes


def _offset(at: Value) -> tuple[Value | None, int]:
    """Return an offset as a value and a number that is added to it."""
    if isinstance(at, Num):
        return None, int(at.value)
    if isinstance(at, Op) and at.op == "+" and isinstance(at.b, Num):
        base, number = _offset(at.a)
        return base, number + int(at.b.value)
    return at, 0
