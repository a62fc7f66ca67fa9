"""Rewriting of machine nests: values in values and in statements replaced by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from schedlang.ir.nodes import changed
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Both,
    Cast,
    Choice,
    Column,
    Fn,
    For,
    If,
    Let,
    Load,
    Neg,
    Num,
    Op,
    Order,
    Prefetch,
    Reg,
    Run,
    Splat,
    Stmt,
    Store,
    Value,
    View,
)

Node = TypeVar("Node")

# what holds no value: names, constants, types
_LEAVES = (Reg, Num, Order, Array, str, int, float, bool, type(None))


def with_children(value: Value, given: Sequence[Value]) -> Value:
    """Return ``value`` with other operands, in the order of ``children(value)``."""
    if isinstance(value, Op):
        return Op(value.op, given[0], given[1], value.type, value.index)
    if isinstance(value, Load):
        rest = list(given[1:])
        mask, order, other = (
            None if v is None else rest.pop(0) for v in (value.mask, value.order, value.other)
        )
        return Load(
            value.how, value.array, given[0], value.type, value.step, mask, order, other,
            value.columns,
        )  # fmt: skip
    if isinstance(value, Fn):
        return Fn(value.name, tuple(given), value.type, value.index)
    if isinstance(value, Splat):
        return Splat(given[0], value.type)
    if isinstance(value, Cast):
        return Cast(given[0], value.type)
    if isinstance(value, Neg):
        return Neg(value.op, given[0], value.type)
    if isinstance(value, Choice):
        return Choice(given[0], given[1], given[2], value.type)
    if isinstance(value, Both):
        return Both(given[0], given[1], value.type)
    if isinstance(value, Column) and isinstance(given[0], Reg):
        return Column(given[0], value.at)
    raise TypeError(f"{type(value).__name__} has no operands to replace")


def with_values(stmt: Stmt, given: Sequence[Value]) -> Stmt:
    """Return ``stmt`` with other values of its own, in the order of ``values(stmt)``."""
    if isinstance(stmt, Let):
        return Let(stmt.reg, given[0], stmt.note, stmt.number, stmt.stage)
    if isinstance(stmt, Store):
        mask = None if stmt.mask is None else given[2]
        return Store(
            stmt.how, stmt.array, given[0], given[1], stmt.step, mask, stmt.number, stmt.stage
        )
    if isinstance(stmt, For):
        ends = {"stop": given[0]} if stmt.from_zero else {"start": given[0], "stop": given[1]}
        return changed(stmt, **ends)
    if isinstance(stmt, If):
        return changed(stmt, cond=given[0])
    if isinstance(stmt, Alloc):
        return changed(stmt, count=given[0])
    if isinstance(stmt, View):
        return changed(stmt, start=given[0], count=given[1])
    if isinstance(stmt, Prefetch):
        return changed(stmt, at=given[0])
    if isinstance(stmt, Run):
        rest = iter(given)
        args = tuple(a if isinstance(a, Array) else next(rest) for a in stmt.args)
        return changed(stmt, args=args)
    return stmt


def swapped(node: Node, swap: Mapping[Value, Value]) -> Node:
    """Return a value or a statement with the values in it replaced, but not the statements in it.

    The result is ``node`` itself if there is nothing to replace.

    >>> from schedlang.machine.nodes import Op
    >>> swapped(Op("+", Reg("i"), Num(1)), {Reg("i"): Reg("j")}).a
    Reg(name='j', type=Type(dtype='int64', lanes=0))
    """
    changes = {}
    for field in fields(node):  # type: ignore[arg-type]
        old = getattr(node, field.name)
        if field.name in ("body", "orelse", "reg", "result", "index", "type"):
            continue
        new: Any = _swapped(old, swap)
        if new is not old:
            changes[field.name] = new
    return replace(node, **changes) if changes else node  # type: ignore[type-var]


def _swapped(old: Any, swap: Mapping[Value, Value]) -> Any:
    if isinstance(old, tuple):
        new = tuple(_swapped(one, swap) for one in old)
        return old if all(a is b for a, b in zip(new, old)) else new
    if isinstance(old, _LEAVES):
        return swap.get(old, old) if isinstance(old, Reg) else old
    return swap[old] if old in swap else swapped(old, swap)


__all__ = ["swapped", "with_children", "with_values"]
