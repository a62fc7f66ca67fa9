"""Loops whose last iteration alone has a tail: the others need no test of their lanes.

A guard of a split is a mask of every vector, though only the last iteration of the outer loop may
have lanes out of range. Lowering cuts most such loops. It leaves splits with ``tail="guard"``, and
ranges whose end an outer loop decides.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from schedlang.expr.nodes import Binary, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import ZERO, Div, Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Block,
    For,
    If,
    Stmt,
    block_of,
    held_statements,
    walk,
    with_fields,
    with_held,
)
from schedlang.ir.rewrite import replace_statements, storage, substitute, with_buffers, with_each
from schedlang.ir.trimmed import trim_loop
from schedlang.machine.loops.job import LoopJob


def peel_tails(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with each such loop as one without tests, and one of what is left."""
    if not job.may_have("vectorize") or not job.target.facts.vector_arithmetic:
        return body
    return block_of(_peeled(body, job.known))


def _peeled(stmt: Stmt, ranges: Ranges) -> Stmt:
    if not isinstance(stmt, For):
        return with_held(stmt, lambda inner: _peeled(inner, ranges))
    trim = trim_loop(stmt)
    inside = ranges.extended(stmt.axis, ZERO, to_lin(trim.stop, ranges=ranges) - 1)
    from_zero = isinstance(trim.start, int) and trim.start == 0
    bounded = stmt.kind == "serial" and from_zero and isinstance(trim.stop, Expr)
    loop = with_fields(stmt, extent=trim.stop, body=trim.body)
    tests = _tests(loop) if bounded else []
    whole = {_iterations_before(test, loop, inside) for test in tests}
    if len(whole) != 1 or None in whole:
        return with_held(stmt, lambda inner: _peeled(inner, inside))
    (count,) = whole
    assert count is not None
    start, rest = to_expr(count), to_expr(to_lin(loop.extent) - count)
    own = with_buffers(loop.body, {b: replace(b) for b in storage(loop.body)})
    last = substitute(own, {loop.axis: Binary("+", loop.axis, start, "int64", True)})
    assert isinstance(last, Block)
    first = replace_statements(loop.body, lambda s: _without(s, tests))
    return Block((with_fields(loop, extent=start, body=first),
                  with_fields(loop, extent=rest, body=last)))  # fmt: skip


def _without(stmt: Stmt, tests: Collection[If]) -> list[Stmt]:
    if any(stmt is test for test in tests):
        return [part for inner in held_statements(stmt) for part in _without(inner, tests)]
    return [with_each(stmt, lambda inner: _without(inner, tests))]


def _tests(loop: For) -> list[If]:
    """Return the tests of lanes in a loop that depend on its axis, if it has no loop but lanes."""
    loops = [s for s, _ in walk(loop.body) if isinstance(s, For)]
    if not loops or any(inner.kind != "vectorize" for inner in loops):
        return []
    tests = [s for inner in loops for s, _ in walk(inner.body) if isinstance(s, If)]
    return [test for test in tests if any(node is loop.axis for node in postorder([test.cond]))]


def _iterations_before(test: If, loop: For, ranges: Ranges) -> Lin | None:
    """Return how many first iterations of ``loop`` pass a test in all lanes, or ``None``.

    They are at least none, and at most all.
    """
    cond, extent = test.cond, to_lin(loop.extent)
    quotients = [atom for atom in extent.atoms() if isinstance(atom, Div)]
    if not isinstance(cond, Binary) or cond.op != "<" or len(quotients) != 1:
        return None
    (quotient,) = quotients
    if extent != Lin.of(quotient):
        return None
    factor = quotient.den.const
    over = to_lin(cond.a) - to_lin(cond.b)
    if factor is None or over.terms.get((loop.axis,)) != factor:
        return None
    over = over - Lin.of(loop.axis) * factor
    for lanes, _ in walk(loop.body):
        if isinstance(lanes, For):
            step = over.terms.get((lanes.axis,), 0)
            assert isinstance(lanes.extent, int)
            over = over - Lin.of(lanes.axis) * step + max(step * (lanes.extent - 1), 0)
            if over.depends_on([lanes.axis]):
                return None
    # factor*axis + over < 0 for an axis below (factor - 1 - over) // factor
    count = Lin.of(factor - 1) - over
    left = (quotient.num - count).const
    if over.depends_on([loop.axis]) or left is None or left < 0 or not ranges.nonneg(count):
        return None
    return to_lin(Binary("//", to_expr(count), to_expr(quotient.den), "int64", True))
