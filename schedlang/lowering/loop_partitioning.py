"""Loop partitioning: a loop becomes edge, interior, edge, so that the interior needs no clamps.

Reads of padded images are clamped, wrapped or guarded in every lane, and so become gathers and
masked loads. In all but the first and last iterations, the loop ranges remove these clamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select
from schedlang.expr.visit import axes_in, postorder, rewrite
from schedlang.index.conditions import compares_indices, facts_of, truth
from schedlang.index.linear import ZERO, Div, Extreme, Lin, Mod, Opaque, to_expr
from schedlang.index.polynomial import quick
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import stores
from schedlang.ir.findings import Findings
from schedlang.ir.nodes import Block, For, If, Load, Stmt, Store, walk
from schedlang.ir.rewrite import (
    replace_statements,
    storage,
    substitute,
    with_buffers,
    with_each,
    with_expressions,
)
from schedlang.lowering.instantiate import simplify_node

# the most iterations of an edge
WIDEST_EDGE = 8
# the most copies of one statement
MOST_COPIES = 9


@dataclass(frozen=True)
class Access:
    """An index or a comparison that depends on lanes, with the loops around it."""

    value: Expr
    extents: tuple[tuple[Axis, Lin], ...]
    lanes: frozenset[Axis]


def split_edges(block: Block, findings: Findings) -> Block:
    """Return ``block`` with loops around vector lanes partitioned.

    A loop is partitioned if its interior then has no clamps that depend on lanes. ``findings`` are
    about other nests with the same statements.
    """
    kinds = [findings.once(("kinds", stmt), partial(_kinds, stmt)) for stmt in block.stmts]
    if any("thread" in own for own in kinds):
        return block
    parts = [
        findings.once(("partitioned", stmt), partial(_partitioned, stmt))
        if "vectorize" in own
        else (stmt,)
        for stmt, own in zip(block.stmts, kinds)
    ]
    return Block(tuple(stmt for part in parts for stmt in part))


def _kinds(stmt: Stmt) -> frozenset[str]:
    """Return the kinds of the loops of a statement."""
    return frozenset(s.kind for s, _ in walk(stmt) if isinstance(s, For))


def _partitioned(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return a statement at root with its loops partitioned."""
    root = Block((stmt,))
    return _block(root, Ranges(), 1).stmts if any(_accesses(root)) else (stmt,)


def _block(block: Block, ranges: Ranges, copies: int) -> Block:
    return replace_statements(block, lambda stmt: _stmt(stmt, ranges, copies))


def _stmt(stmt: Stmt, ranges: Ranges, copies: int) -> list[Stmt]:
    if isinstance(stmt, For) and stmt.kind == "vectorize":
        return [stmt]
    parts = _interior(stmt, ranges) if isinstance(stmt, For) and stmt.kind == "serial" else None
    if parts is None or copies * len(parts) > MOST_COPIES:
        inside = _inside(stmt, ranges)
        return [with_each(stmt, lambda inner: _stmt(inner, inside, copies))]
    assert isinstance(stmt, For)
    return [
        part
        for k, (first, last) in enumerate(parts)
        for part in _part(stmt, first, last, ranges, copies * len(parts), fresh=k > 0)
    ]


def _inside(stmt: Stmt, ranges: Ranges) -> Ranges:
    """Return what is known in the statements of ``stmt``."""
    if isinstance(stmt, For):
        return ranges.extended(stmt.axis, ZERO, to_lin(stmt.extent) - 1)
    return ranges.assuming(facts_of(stmt.cond, True, ranges)) if isinstance(stmt, If) else ranges


def _part(loop: For, first: int, last: int, ranges: Ranges, copies: int, fresh: bool) -> list[Stmt]:
    """Return iterations ``first..last`` of ``loop`` as a loop of their own, or as one body."""
    axis, body = loop.axis, loop.body
    if fresh and (own := storage(body)):
        body = with_buffers(body, {b: replace(b) for b in own})
    at: Expr = Const(first, "int64", True)
    if last > first:
        at = Binary("+", axis, at, "int64", True) if first else axis
    moved = body if at is axis else substitute(body, {axis: at})
    inside = ranges.extended(axis, ZERO, Lin.of(last - first))
    simplified = replace_statements(moved, lambda stmt: _simplify_stmt(stmt, inside))
    again = _block(simplified, inside, copies)
    if last == first:
        return list(again.stmts)
    return [replace(loop, extent=last - first + 1, body=again)]


def _interior(loop: For, ranges: Ranges) -> list[tuple[int, int]] | None:
    """Return the first and last iteration of each part; ``None`` if partitioning does not pay."""
    if not isinstance(loop.extent, int) or loop.extent < 2:
        return None
    count = loop.extent
    clamps = [a for a in _accesses(loop.body) if loop.axis in set(axes_in([a.value]))]

    def clamp_free(access: Access, first: int, last: int) -> bool:
        return _is_clamp_free(access, ranges.extended(loop.axis, Lin.of(first), Lin.of(last)))

    middle = count // 2
    edged = [
        a
        for a in clamps
        if not clamp_free(a, 0, count - 1)
        and (clamp_free(a, middle, middle) or clamp_free(a, middle - 1, middle - 1))
    ]
    if not edged:
        return None

    def free(k: int) -> bool:
        return all(clamp_free(a, k, k) for a in edged)

    edge = range(min(WIDEST_EDGE, middle) + 1)
    first = next((k for k in edge if free(k)), None)
    after = next((k for k in edge if free(count - 1 - k)), None)
    if first is None or after is None:
        return None
    last = count - 1 - after
    if last < first or not all(clamp_free(a, first, last) for a in edged):
        return None
    parts = [(0, first - 1), (first, last), (last + 1, count - 1)]
    return [(a, b) for a, b in parts if a <= b]


def _accesses(block: Block) -> Iterator[Access]:
    """Yield the accesses under vectorized loops that may be clamped or tested in each lane.

    A sum or product of axes and sizes has no clamps.
    """
    for site in stores(block):
        lanes = frozenset(loop.axis for loop in site.loops if loop.kind == "vectorize")
        for value in _parts(site.stmt) if lanes else ():
            simple = value.dtype != "bool" and quick(value) is not None
            if not simple and not lanes.isdisjoint(axes_in([value])):
                yield Access(value, site.extents, lanes)


def _parts(store: Store) -> Iterator[Expr]:
    """Yield the indices of a store's loads, and the index comparisons of its selects."""
    for node in postorder(store.values):
        if isinstance(node, Load):
            yield from node.indices
        elif isinstance(node, Select):
            for part in postorder([node.cond]):
                if compares_indices(part):
                    yield part


def _is_clamp_free(access: Access, ranges: Ranges) -> bool:
    """Return whether ``ranges`` remove all clamps from an index, or decide a comparison."""
    for axis, extent in access.extents:
        ranges = ranges.extended(axis, ZERO, extent - 1)
    if access.value.dtype == "bool":
        return truth(access.value, ranges) is not None
    lin = to_lin(access.value, ranges=ranges)
    for atom in lin.atoms():
        if isinstance(atom, (Extreme, Mod, Div)):
            if not access.lanes.isdisjoint(
                leaf for leaf in Lin.of(atom).leaves() if isinstance(leaf, Axis)
            ):
                return False
        elif isinstance(atom, Opaque):
            return False
    return True


def _simplify_stmt(stmt: Stmt, ranges: Ranges) -> list[Stmt]:
    """Return ``stmt`` in the simplest form that ``ranges`` allow."""
    memo: dict[int, Expr] = {}

    def node(root: Expr) -> Expr | None:
        if isinstance(root, Load):
            return Load(root.buffer, tuple(map(index, root.indices)), root.dtype)
        if isinstance(root, Binary) and compares_indices(root):
            root = replace(root, a=index(root.a), b=index(root.b))
            return simplify_node(root, ranges)
        return None if root.weak and root.dtype == "int64" else simplify_node(root, ranges)

    def index(root: Expr) -> Expr:
        return to_expr(to_lin(root, ranges=ranges))

    def value(root: Expr) -> Expr:
        rewritten = rewrite(root, node, memo)
        return index(rewritten) if rewritten.weak and rewritten.dtype == "int64" else rewritten

    new = with_expressions(stmt, value)
    inside = _inside(new, ranges)
    simple = with_each(new, lambda inner: _simplify_stmt(inner, inside))
    if isinstance(simple, If) and isinstance(simple.cond, Const):
        return list(simple.body.stmts) if simple.cond.value else []
    return [simple]
