"""The numbers of statements: a line of emitted source finds its line of the nest by them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from schedlang.ir.extern_call import Extern
from schedlang.ir.nodes import For, Stmt, block_of, with_fields, with_held
from schedlang.ir.trimmed import trim_loop

if TYPE_CHECKING:
    from schedlang.ir.nest import Nest


def number_statements(nest: Nest) -> Nest:
    """Return ``nest`` with the ``number`` of each statement: 0, 1, ... in printed order.

    The passes that run later replace statements, and those that they make keep the number.

    >>> import schedlang as sl
    >>> from schedlang.ir.nodes import walk
    >>> A = sl.placeholder((8,), name="A")
    >>> B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    >>> nest = number_statements(sl.lower(sl.schedule(B)))
    >>> [(type(stmt).__name__, stmt.number) for stmt, _ in walk(nest.body)]
    [('For', 0), ('Store', 1)]
    """
    numbers = count()
    # the tests that the range of a loop replaces have no line of their own
    silent: set[int] = set()

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            silent.update(id(test) for test in trim_loop(stmt).tests)
        if id(stmt) in silent:
            return with_held(stmt, change)
        if hasattr(stmt, "number"):
            stmt = with_fields(stmt, number=next(numbers))
        return stmt if isinstance(stmt, Extern) else with_held(stmt, change)

    return replace(nest, body=block_of(change(nest.body)))


def number_of(stmt: Stmt) -> int | None:
    """Return the number of ``stmt``; ``None`` if it has none."""
    return getattr(stmt, "number", None)
