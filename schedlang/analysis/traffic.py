"""Loads, stores, operations and allocations of a loop nest, summed over its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.analysis.closed_forms import bytes_of, where_positive
from schedlang.analysis.points import Counter, Loops, largest_rows
from schedlang.compute.work import of_step, operations_of
from schedlang.expr.evaluation_order import along, evaluations
from schedlang.expr.nodes import Expr
from schedlang.index.conjunctions import Held
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import contexts
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    held_statements,
)
from schedlang.ir.trimmed import trim_loop


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
    """The loops and guards around a statement."""

    loops: Loops = ()
    held: tuple[Held, ...] = ()

    def within(self, stmt: Stmt) -> _Context:
        """Return the context of the body of ``stmt``."""
        if isinstance(stmt, For):
            return replace(self, loops=(*self.loops, (stmt.axis, to_lin(stmt.extent))))
        if isinstance(stmt, If):
            return replace(self, held=(*self.held, (stmt.cond, True)))
        return self


def traffic(nest: Nest) -> Traffic:
    """Return the totals of ``nest``: ints, or sympy expressions in symbolic sizes.

    Counts under a guard are exact if the loops have constant extents, or if there is a formula.
    ``bounds`` lists the conditions that are counted as if they always held.
    """
    totals = Traffic(buffers={b.name: b for b in nest.buffers})
    counter = Counter(names=nest.names)
    ends: set[Stmt] = set()
    for stmt, context in contexts(nest.body, _Context(), lambda s, c: c.within(s)):
        if isinstance(stmt, For):
            # the ends of the range are evaluated once for all iterations
            tests = trim_loop(stmt).tests
            ends.update(tests)
            _evaluate(totals, counter, context, [test.cond for test in tests])
        elif isinstance(stmt, Store):
            _store(totals, counter, context, stmt)
        elif stmt not in ends and not isinstance(stmt, Extern):
            # the loops in a call of a user's function say what it reads and writes
            _evaluate(totals, counter, context, expressions(stmt))
    totals.allocated = _peak(nest.body, counter)
    totals.bounds = tuple(counter.bounds)
    return totals


def _store(traffic: Traffic, counter: Counter, context: _Context, store: Store) -> None:
    times = counter.count(context.loops, context.held)
    _evaluate(traffic, counter, context, expressions(store))
    for buffer in store.buffers:
        _add(traffic.stores, buffer.name, times)
        if store.reducer is not None:
            _add(traffic.loads, buffer.name, times)
    if store.reducer is not None:
        traffic.operations += times * of_step(store.reducer)


def _evaluate(traffic: Traffic, counter: Counter, context: _Context, roots: Sequence[Expr]) -> None:
    """Add the loads and operations of evaluating ``roots``."""
    for root in roots:
        indices = _in_indices(root)
        for node, tests in evaluations(root, context.held, along):
            is_load = isinstance(node, Load)
            count = 0 if id(node) in indices else operations_of(node)
            if not (is_load or count):
                continue
            times = counter.count(context.loops, tests)
            if isinstance(node, Load):
                _add(traffic.loads, node.buffer.name, times)
            traffic.operations += times * count


def _in_indices(root: Expr) -> set[int]:
    """Return the ids of nodes that occur in indices only."""
    values: set[int] = set()
    indices: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, True)]
    while stack:
        node, is_value = stack.pop()
        visited = values if is_value else indices
        if id(node) in visited:
            continue
        visited.add(id(node))
        inside = is_value and not isinstance(node, Load) and not node.weak
        stack.extend((child, inside) for child in node.children)
    return indices - values


def _add(totals: dict[str, Any], name: str, times: Any) -> None:
    totals[name] = totals.get(name, 0) + times


def storage_bytes(buffer: Buffer) -> Any:
    """Return the bytes of one copy of ``buffer``: an ``int`` or a sympy expression."""
    if buffer.bytes is not None:
        return buffer.bytes
    copies = buffer.copies
    return copies * bytes_of([to_lin(extent) for extent in buffer.shape], buffer.dtype)


def _peak(body: Block, counter: Counter) -> Any:
    """Return the peak of allocated bytes, with one copy of storage made inside a loop."""
    peaks: dict[int, Any] = {}
    stack: list[tuple[Stmt, _Context, bool]] = [(body, _Context(), False)]
    while stack:
        stmt, context, ready = stack.pop()
        if not ready:
            stack.append((stmt, context, True))
            if stmt.HELD:
                inside = context.within(stmt)
                stack += [(inner, inside, False) for inner in held_statements(stmt)]
            continue
        peaks[id(stmt)] = _if_reached(
            _peak_of(held_statements(stmt), peaks), stmt, context, counter
        )
    return peaks[id(body)]


def _peak_of(stmts: Sequence[Stmt], peaks: dict[int, Any]) -> Any:
    """Return the peak of statements that run one after the other."""
    live: Any = 0
    most: Any = 0
    for stmt in stmts:
        if isinstance(stmt, Alloc):
            live = live + storage_bytes(stmt.buffer)
        else:
            most = _larger(most, live + peaks[id(stmt)])
    return _larger(most, live)


def _if_reached(peak: Any, stmt: Stmt, context: _Context, counter: Counter) -> Any:
    """Return ``peak``, or 0 at sizes where the body of ``stmt`` never runs."""
    if peak == 0 or not isinstance(stmt, (For, If)):
        return peak
    if isinstance(stmt, For):
        return where_positive(peak, [to_lin(stmt.extent)])
    inside = context.within(stmt)
    conditions = largest_rows(inside.loops, inside.held)
    if conditions is not None:
        return where_positive(peak, [row + 1 for row in conditions])
    times = counter.count(inside.loops, inside.held)
    if isinstance(times, int) or times.is_number:
        return peak if times > 0 else 0
    import sympy

    return sympy.Piecewise((peak, times > 0), (0, True))


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    # sympy keeps the 0 of Max(0, bytes) where it cannot prove bytes to be 0 or more
    if 0 in (a, b):
        return a + b
    import sympy

    return sympy.Max(a, b)
