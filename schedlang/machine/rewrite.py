"""Rewriting of machine nests: values in values and in statements replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from operator import is_
from typing import Any, TypeVar

from schedlang.ir.nodes import with_fields
from schedlang.machine.nodes import Array, Function, Operation, Statement, Stmt, Value
from schedlang.machine.walks import children, values, with_bodies, with_statements

Node = TypeVar("Node")


def with_children(value: Value, given: Sequence[Value]) -> Value:
    """Return ``value`` with other operands, in the order of ``children(value)``."""
    if not isinstance(value, Operation):
        raise TypeError(f"{type(value).__name__} has no operands to replace")
    return _with_fields(value, value.OPERANDS, given)


def with_values(stmt: Stmt, given: Sequence[Value]) -> Stmt:
    """Return ``stmt`` with other values of its own, in the order of ``values(stmt)``."""
    return _with_fields(stmt, stmt.VALUES, given)


def _with_fields(node: Node, names: Sequence[str], given: Sequence[Value]) -> Node:
    """Return ``node`` with the values of the fields ``names`` replaced, in order."""
    rest = iter(given)
    new: dict[str, Any] = {}
    for name in names:
        old = getattr(node, name)
        if type(old) is tuple:
            new[name] = tuple([v if type(v) is Array else next(rest) for v in old])
        elif old is not None:
            new[name] = next(rest)
    kind: Any = type(node)
    # dataclasses.replace takes three times as long
    return kind(*[new[n] if n in new else getattr(node, n) for n in _fields_of(kind)])


@cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))


def with_number(function: Function, number: int | None) -> Function:
    """Return a function whose statements have the number of one statement of a loop nest."""

    def change(stmt: Stmt) -> Stmt:
        stmt = with_bodies(stmt, lambda body: with_statements(body, change))
        return with_fields(stmt, number=number) if hasattr(stmt, "number") else stmt

    return with_fields(function, body=with_statements(function.body, change), number=number)


def swap_values(node: Node, swap: Mapping[Value, Value]) -> Node:
    """Return a value or a statement with the values in it replaced, but not the statements in it.

    The result is ``node`` itself if there is nothing to replace.

    >>> from schedlang.machine.nodes import Num, Op, Reg
    >>> swap_values(Op("+", Reg("i"), Num(1)), {Reg("i"): Reg("j")}).a
    Reg(name='j', type=Type(dtype='int64', lanes=0))
    """
    if isinstance(node, Statement):
        return _swapped_in(node, values(node), with_values, swap)  # type: ignore[arg-type]
    return _swapped_in(node, children(node), with_children, swap)  # type: ignore[arg-type]


def _swapped_in(
    node: Node,
    own: Sequence[Value],
    rebuilt: Callable[[Any, Sequence[Value]], Any],
    swap: Mapping[Value, Value],
) -> Node:
    new = [swap[v] if v in swap else swap_values(v, swap) for v in own]
    return node if all(map(is_, new, own)) else rebuilt(node, new)
