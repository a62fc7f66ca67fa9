"""Walks over the statements and the values of a machine nest, by what their classes declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Optional, Union

from schedlang.ir.nodes import with_fields
from schedlang.ir.statement import ENDLESS
from schedlang.machine.nodes import READERS, Array, Body, For, Num, Reg, Splat, Stmt, Type, Value


def wide(value: Value, lanes: int) -> Value:
    """Return ``value`` as a vector of ``lanes``, if there are any."""
    if value.type.lanes or not lanes:
        return value
    return Splat(value, Type(value.type.dtype, lanes))


def children(value: Value) -> tuple[Value, ...]:
    """Return the operands of ``value``."""
    operands = READERS.get(type(value))
    return () if operands is None else operands(value)


def values(stmt: Stmt) -> tuple[Value, ...]:
    """Return the values that ``stmt`` evaluates itself, without the values of its body."""
    own: list[Value] = []
    for name in stmt.VALUES:
        field = getattr(stmt, name)
        if type(field) is tuple:
            own += [value for value in field if type(value) is not Array]
        elif field is not None:
            own.append(field)
    return tuple(own)


def is_endless(loop: For) -> bool:
    """Return whether ``again`` alone ends a loop, which has no use of its index."""
    return loop.stop == Num(ENDLESS)


def arrays(stmt: Stmt) -> tuple[Array, ...]:
    """Return the arrays that ``stmt`` names, without those that its values read."""
    own: list[Array] = []
    for name in stmt.ARRAYS:
        field = getattr(stmt, name)
        own += [a for a in field if type(a) is Array] if type(field) is tuple else [field]
    return tuple(own)


def defined_names(stmt: Stmt) -> tuple[Union[Array, Reg], ...]:
    """Return the registers and arrays that ``stmt`` defines for the statements after it."""
    return tuple([v for name in stmt.DEFINES if (v := getattr(stmt, name)) is not None])


def bound(stmt: Stmt) -> tuple[Reg, ...]:
    """Return the registers that ``stmt`` defines for the statements in it."""
    return tuple([getattr(stmt, name) for name in stmt.BINDS])


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """Return the blocks that ``stmt`` directly holds."""
    return tuple([getattr(stmt, name) for name in stmt.BODIES])


def with_bodies(stmt: Stmt, change: Callable[[Body], Body]) -> Stmt:
    """Return ``stmt`` with ``change`` applied to the blocks that it directly holds.

    The result is ``stmt`` itself if ``change`` returns each of them unchanged.
    """
    new: dict[str, Body] = {}
    for name in stmt.BODIES:
        old = getattr(stmt, name)
        body = change(old)
        if body is not old:
            new[name] = body
    return with_fields(stmt, **new) if new else stmt


def with_statements(body: Body, change: Callable[[Stmt], Stmt]) -> Body:
    """Return ``body`` with ``change`` applied to each statement; itself if none changes."""
    changed_body = tuple([change(stmt) for stmt in body])
    return body if all(map(is_, changed_body, body)) else changed_body


# operations of a value that is walked as if none of them were repeated
MOST_AT_ONCE = 32


def operations(value: Value) -> Sequence[Value]:
    """Return the operations in ``value``, from left to right, operands first, each object once.

    They exclude registers and constants, and ``value`` is at the end. Those before it are kept with
    ``value``, which never changes, since several passes ask for them.
    """
    if isinstance(value, (Reg, Num)):
        return ()
    inside: Optional[tuple[Value, ...]] = getattr(value, "_inside", None)
    if inside is not None:
        return (*inside, value)
    order: list[Value] = []
    stack: list[Value] = [value]
    while stack and len(order) <= MOST_AT_ONCE:
        node = stack.pop()
        operands = READERS.get(type(node))
        if operands is not None:
            order.append(node)
            stack += operands(node)
        elif not isinstance(node, (Reg, Num)):
            order.append(node)
    if stack or (len(order) > 2 and len(set(map(id, order))) < len(order)):
        order = _each_once(value)
    else:
        order.reverse()
    # an assignment in __dict__ would make a dict of each value
    object.__setattr__(value, "_inside", tuple(order[:-1]))
    return order


def _each_once(root: Value) -> list[Value]:
    """Return the operations in ``root``, where many or repeated ones are."""
    order: list[Value] = []
    visited: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif not isinstance(node, (Reg, Num)) and id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            stack += [(c, False) for c in reversed(children(node))]
    return order


def parts(value: Value) -> list[Value]:
    """Return ``value`` and all values in it."""
    if isinstance(value, (Reg, Num)):
        return [value]
    all_parts: list[Value] = []
    stack: list[Value] = [value]
    while stack:
        node = stack.pop()
        all_parts.append(node)
        if not isinstance(node, (Reg, Num)):
            stack += children(node)[::-1]
    return all_parts


def walk(body: Body) -> list[tuple[Stmt, int]]:
    """Return every statement with its depth in loops and branches, in program order."""
    entries: list[tuple[Stmt, int]] = []
    stack: list[tuple[Stmt, int]] = [(stmt, 0) for stmt in reversed(body)]
    while stack:
        entry = stack.pop()
        stmt, depth = entry
        entries.append(entry)
        for name in reversed(stmt.BODIES):
            stack += [(s, depth + 1) for s in reversed(getattr(stmt, name))]
    return entries
