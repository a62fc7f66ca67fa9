"""What a loop nest loads, stores, computes and allocates, summed over its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlang.analysis.closed import as_sympy
from schedlang.analysis.conditions import Held
from schedlang.analysis.evaluated import evaluations
from schedlang.analysis.points import Counter, Loops
from schedlang.compute.work import of_step, operations_of
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Expr
from schedlang.expr.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, Fetch, For, If, Load, Stmt, Store


@dataclass(eq=False)
class Traffic:
    """Totals of a nest: loads and stores by buffer name, operations, the peak of allocations."""

    loads: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    operations: Any = 0
    allocated: Any = 0
    bounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Around:
    """The loops and guards around a statement."""

    loops: Loops = ()
    held: tuple[Held, ...] = ()


def traffic(nest: Nest) -> Traffic:
    """The totals of ``nest``: ``int`` where it has no symbolic sizes, else of sympy's.

    A guard is counted exactly where its loops have numbers for extents, or a formula is known;
    ``bounds`` says what is counted as an upper bound instead.
    """
    found = Traffic(buffers={b.name: b for b in nest.buffers})
    counter = Counter(names=nest.names)
    stack: list[tuple[Stmt, _Around]] = [(nest.body, _Around())]
    while stack:
        stmt, around = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, around) for s in reversed(stmt.stmts))
        elif isinstance(stmt, For):
            loop = (stmt.axis, to_lin(stmt.extent))
            stack.append((stmt.body, _Around((*around.loops, loop), around.held)))
        elif isinstance(stmt, If):
            _evaluate(found, counter, around, [stmt.cond])
            inside = _Around(around.loops, (*around.held, (stmt.cond, True)))
            stack.append((stmt.body, inside))
        elif isinstance(stmt, Store):
            _store(found, counter, around, stmt)
        elif isinstance(stmt, Fetch):
            _evaluate(found, counter, around, stmt.indices)
    found.allocated = _peak(nest.body)
    found.bounds = tuple(counter.bounds)
    return found


def _store(found: Traffic, counter: Counter, around: _Around, store: Store) -> None:
    times = counter.count(around.loops, around.held)
    _evaluate(found, counter, around, store.indices)
    _evaluate(found, counter, around, store.values)
    for buffer in store.buffers:
        _add(found.stores, buffer.name, times)
        if store.reducer is not None:
            _add(found.loads, buffer.name, times)
    if store.reducer is not None:
        found.operations += times * of_step(store.reducer)


def _evaluate(found: Traffic, counter: Counter, around: _Around, roots: Sequence[Expr]) -> None:
    """Add what evaluating ``roots`` there loads and computes."""
    for root in roots:
        indices = _in_indices(root)
        for node, path in evaluations(root):
            is_load = isinstance(node, Load)
            count = 0 if id(node) in indices else operations_of(node)
            if not (is_load or count):
                continue
            times = counter.count(around.loops, (*around.held, *path))
            if isinstance(node, Load):
                _add(found.loads, node.buffer.name, times)
            found.operations += times * count


def _in_indices(root: Expr) -> set[int]:
    """The nodes, by ``id``, that only indices need."""
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


def bytes_of(buffer: Buffer) -> Any:
    """The bytes of one copy of ``buffer``: an ``int``, or of sympy's."""
    if buffer.bytes is not None:
        return buffer.bytes
    total: Any = itemsize(buffer.dtype) * (2 if buffer.double else 1)
    for extent in buffer.shape:
        lin = to_lin(extent)
        total = total * (as_sympy(lin) if lin.const is None else lin.const)
    return total


def _peak(body: Block) -> Any:
    """The most bytes of storage that exist at once, one copy of what stands in a loop."""
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
                    held = held + bytes_of(inner.buffer)
                else:
                    most = _larger(most, held + peaks.get(id(inner), 0))
            peaks[id(stmt)] = _larger(most, held)
    return peaks[id(body)]


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    import sympy

    return sympy.Max(a, b)


__all__ = ["Traffic", "bytes_of", "traffic"]
