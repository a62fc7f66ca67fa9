"""The range over which a trimmed loop runs: its tests of a ragged range become its ends.

A nest keeps such a loop over the whole box, with the tests directly inside, so that proofs about
boxes and conditions hold as they stand. What prints or runs a loop asks here for the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Extern
from schedlang.ir.nodes import Block, For, If, Note, Stmt, Store, held_statements

Extent = Union[int, Expr]


@dataclass(frozen=True)
class Trimmed:
    """A loop that runs over ``start..stop`` and holds ``body``.

    ``tests`` are the guards that the range replaces, outer to inner.
    """

    start: Extent
    stop: Extent
    body: Block
    tests: tuple[If, ...] = ()


def trim_loop(loop: For) -> Trimmed:
    """Return the range and the body of ``loop``, without the tests that its range replaces.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4, 4), name="A")
    >>> def row(i):
    ...     k = sl.reduce_axis((0, i + 1), name="k")
    ...     return sl.sum(A[i, k], axis=k)
    >>> nest = sl.lower(sl.schedule(sl.compute((4,), row, name="S")))
    >>> found = trim_loop(nest.loops[-1])
    >>> found.start, found.stop, len(found.tests)
    (0, i + 1, 1)
    """
    body, tests = loop.body, []
    if len(body.stmts) != 1 or not isinstance(body.stmts[0], If):
        return Trimmed(0, loop.extent, body)
    start: Extent = 0
    stop: Extent | None = None
    while loop.kind == "serial" and len(body.stmts) == 1:
        (test,) = body.stmts
        if not isinstance(test, If) or not test.bounds or not isinstance(test.cond, Binary):
            break
        cond = test.cond
        if cond.a is not loop.axis or not _free(cond.b, loop):
            break
        inside = test.bounds == "inside"
        if cond.op == "<" and stop is None:
            stop = cond.b if inside else _extreme("min", loop.extent, cond.b)
        elif cond.op == ">=" and isinstance(start, int):
            start = cond.b if inside else _extreme("max", cond.b, 0)
        else:
            break
        tests.append(test)
        body = test.body
    return Trimmed(start, loop.extent if stop is None else stop, body, tuple(tests))


def within(tests: Sequence[If], body: Block) -> Block:
    """Return ``body`` inside of ``tests``, outer to inner, as :func:`trim_loop` found them."""
    for test in reversed(tests):
        body = Block((replace(test, body=body),))
    return body


def _extreme(op: str, a: Extent, b: Extent) -> Expr:
    return to_expr(extreme(op, (to_lin(a), to_lin(b)), Ranges()))


def running(root: Stmt) -> Iterator[Stmt]:
    """Yield every statement that runs, in program order: not those that describe a call."""
    stack: list[Stmt] = [root]
    while stack:
        stmt = stack.pop()
        if not isinstance(stmt, Block):
            yield stmt
        if not isinstance(stmt, Extern):
            stack += held_statements(stmt)[::-1]


def printed_statements(
    root: Stmt, remarks: Mapping[str | Axis, Sequence[str]] | None = None
) -> Iterator[tuple[Stmt, int]]:
    """Yield each statement that has a line in print, with its depth, in program order.

    ``remarks`` are comments on stages and loops. Each of them comes once, before the loop of its
    axis, or the first loop or store of its stage.
    """
    waiting = dict(remarks or {})
    told: set[str] = set()
    stack: list[tuple[Stmt, int]] = [(root, 0)]
    while stack:
        stmt, depth = stack.pop()
        if isinstance(stmt, Block):
            stack += [(s, depth) for s in reversed(stmt.stmts)]
            continue
        texts = waiting.pop(stmt.axis, ()) if isinstance(stmt, For) else ()
        if isinstance(stmt, (For, Store)):
            texts = (*waiting.pop(stmt.stage, ()), *texts)
        for text in texts:
            if text not in told:
                yield Note(text), depth
            told.add(text)
        yield stmt, depth
        if isinstance(stmt, Extern):
            # its loops describe the call, and do not run
            continue
        inside = (trim_loop(stmt).body,) if isinstance(stmt, For) else held_statements(stmt)
        stack += [(s, depth + 1) for s in reversed(inside)]


def _free(value: Expr, loop: For) -> bool:
    return all(node is not loop.axis for node in postorder([value]))
