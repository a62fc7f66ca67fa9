"""Rewriting of machine nests: values in values and in statements replaced by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from schedlang.machine.nodes import Array, Num, Order, Reg, Value

Node = TypeVar("Node")

# what holds no value: names, constants, types
_LEAVES = (Reg, Num, Order, Array, str, int, float, bool, type(None))


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


__all__ = ["swapped"]
