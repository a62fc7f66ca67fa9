"""Loads, stores, operations and allocations of a loop nest, summed over its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.analysis.closed import bytes_of
from schedlang.analysis.conditions import Held
from schedlang.analysis.evaluated import evaluations
from schedlang.analysis.points import Counter, Loops
from schedlang.compute.work import of_step, operations_of
from schedlang.expr.nodes import Expr
from schedlang.expr.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, Fetch, For, If, Load, Stmt, Store


@dataclass(eq=False)
class Traffic:
    """The totals of a nest: loads and stores by buffer name, operations, peak allocation."""

    loads: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    operations: Any = 0
    allocated: Any = 0
    bounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Context:
    """The loops and guards context a statement."""

    loops: Loops = ()
    held: tuple[Held, ...] = ()


def traffic(nest: Nest) -> Traffic:
    """Return the totals of ``nest``: ints, or sympy expressions in symbolic sizes.

    Counts under a guard are exact if the loops have constant extents, or if there is a formula.
    ``bounds`` lists the conditions that are counted as if they always held.
    """
    found = Traffic(buffers={b.name: b for b in nest.buffers})
    counter = Counter(names=nest.names)
    stack: list[tuple[Stmt, _Context]] = [(nest.body, _Context())]
    while stack:
        stmt, context = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, context) for s in reversed(stmt.stmts))
        elif isinstance(stmt, For):
            loop = (stmt.axis, to_lin(stmt.extent))
            stack.append((stmt.body, _Context((*context.loops, loop), context.held)))
        elif isinstance(stmt, If):
            _evaluate(found, counter, context, [stmt.cond])
            inside = _Context(context.loops, (*context.held, (stmt.cond, True)))
            stack.append((stmt.body, inside))
        elif isinstance(stmt, Store):
            _store(found, counter, context, stmt)
        elif isinstance(stmt, Fetch):
            _evaluate(found, counter, context, stmt.indices)
    found.allocated = _peak(nest.body)
    found.bounds = tuple(counter.bounds)
    return found


def _store(found: Traffic, counter: Counter, context: _Context, store: Store) -> None:
    times = counter.count(context.loops, context.held)
    _evaluate(found, counter, context, store.indices)
    _evaluate(found, counter, context, store.values)
    for buffer in store.buffers:
        _add(found.stores, buffer.name, times)
        if store.reducer is not None:
            _add(found.loads, buffer.name, times)
    if store.reducer is not None:
        found.operations += times * of_step(store.reducer)


def _evaluate(found: Traffic, counter: Counter, context: _Context, roots: Sequence[Expr]) -> None:
    """Add the loads and operations of evaluating ``roots``."""
    for root in roots:
        indices = _in_indices(root)
        for node, path in evaluations(root):
            is_load = isinstance(node, Load)
            count = 0 if id(node) in indices else operations_of(node)
            if not (is_load or count):
                continue
            times = counter.count(context.loops, (*context.held, *path))
            if isinstance(node, Load):
                _add(found.loads, node.buffer.name, times)
            found.operations += times * count


def _in_indices(root: Expr) -> set[int]:
    """Return the ids of nodes that occur in indices only."""
    values: set[int] = set()
    indices: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, True)]
    while stack:
        node, is_value = stack.pop()
        seen = values if is_value else indices
        if id(node) in seen:
            continue
        seen.add(id(node))
        inside = is_value and not isinstance(node, Load) and not node.weak
        stack.extend((child, inside) for child in node.children)
    return indices - values


def _add(totals: dict[str, Any], name: str, times: Any) -> None:
    totals[name] = totals.get(name, 0) + times


def storage_bytes(buffer: Buffer) -> Any:
    """Return the bytes of one copy of ``buffer``: an ``int`` or a sympy expression."""
    if buffer.bytes is not None:
        return buffer.bytes
    copies = 2 if buffer.double else 1
    return copies * bytes_of([to_lin(extent) for extent in buffer.shape], buffer.dtype)


def _peak(body: Block) -> Any:
    """Return the peak of allocated bytes, with one copy of storage made inside a loop."""
    peaks: dict[int, Any] = {}
    stack: list[tuple[Stmt, bool]] = [(body, False)]
    while stack:
        stmt, ready = stack.pop()
        if isinstance(stmt, (For, If)):
            if not ready:
                stack += [(stmt, True), (stmt.body, False)]
            else:
                peaks[id(stmt)] = peaks[id(stmt.body)]
        elif isinstance(stmt, Block):
            if not ready:
                stack += [(stmt, True), *((s, False) for s in stmt.stmts)]
                continue
            held: Any = 0
            most: Any = 0
            for inner in stmt.stmts:
                if isinstance(inner, Alloc):
                    held = held + storage_bytes(inner.buffer)
                else:
                    most = _larger(most, held + peaks.get(id(inner), 0))
            peaks[id(stmt)] = _larger(most, held)
    return peaks[id(body)]


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    # sympy keeps the 0 of Max(0, bytes) where it cannot prove bytes to be 0 or more
    if 0 in (a, b):
        return a + b
    import sympy

    return sympy.Max(a, b)


__all__ = ["Traffic", "storage_bytes", "traffic"]
