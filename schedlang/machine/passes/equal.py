"""Statements that are equal but for the names in them, so that numba need compile them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from schedlang.machine.nodes import Array, For, Function, Num, Reg, Stmt

# what a statement says of the loop nest, not of what it computes
_ORIGIN = frozenset({"number", "note", "label", "stage", "axis"})


def find_repeated(body: Sequence[Stmt]) -> list[bool]:
    """Return for each statement of a block whether it is a loop that equals another one of them.

    >>> from schedlang.ir.nodes import Buffer
    >>> a, b, c = (Array(name, Buffer(name, "float32", (8,))) for name in "abc")
    >>> from schedlang.machine.nodes import Load, Store, Type
    >>> def copied(x, y, count):
    ...     i = Reg("i")
    ...     load = Load("load", x, i, Type("float32"))
    ...     return For(i, Num(count), (Store("store", y, i, load),))
    >>> find_repeated([copied(a, b, 8), copied(b, c, 8), copied(b, c, 7), copied(b, b, 8)])
    [True, True, False, False]
    """
    shapes = [shape_of(stmt) if isinstance(stmt, For) else None for stmt in body]
    times = Counter(shapes)
    return [shape is not None and times[shape] > 1 for shape in shapes]


def shape_of(part: Stmt | Function) -> Hashable:
    """Return a value that is equal for statements, or functions, that differ in names alone."""
    numbers: dict[str, int] = {}

    def shape(node: Any) -> Hashable:
        if isinstance(node, Array):
            return numbers.setdefault(node.name, len(numbers)), node.dtype
        if isinstance(node, Reg):
            return numbers.setdefault(node.name, len(numbers)), node.type
        if isinstance(node, Num):
            # 0.0 and -0.0 are equal, and a NaN is not
            return repr(node.value), node.type
        if isinstance(node, tuple):
            return tuple(shape(part) for part in node)
        if is_dataclass(node):
            contents = (getattr(node, f.name) for f in fields(node) if f.name not in _ORIGIN)
            return type(node).__name__, *(shape(part) for part in contents)
        return node

    return shape((part.parameters, part.body) if isinstance(part, Function) else part)
