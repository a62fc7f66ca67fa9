"""Statements that are equal but for the names in them, so that numba need compile them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from schedlang.machine.nodes import Array, For, Function, Num, Reg, Stmt

# what a statement says of the loop nest, not of what it computes
_ORIGIN = frozenset({"number", "note", "label", "stage", "axis"})
# the annotations of fields that hold no part of a statement
_FACTS = frozenset(
    {"str", "int", "bool", "Type", "Optional[int]", "Optional[str]", "tuple[int, ...]",
     "tuple[bool, ...]", "ExternFunction", "Instruction", "ValueEmission"}
)  # fmt: skip


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
    # the class of each part and what it says, in the order of a walk, which takes a third of the
    # time of nested tuples
    shape: list[Any] = []
    numbers: dict[str, int] = {}
    stack: list[Any] = [(part.parameters, part.body) if isinstance(part, Function) else part]
    while stack:
        node = stack.pop()
        kind: Any = type(node)
        if kind is Reg:
            shape += numbers.setdefault(node.name, len(numbers)), node.type
        elif kind is Num:
            # 0.0 and -0.0 are equal, and a NaN is not
            shape += repr(node.value), node.type
        elif kind is Array:
            shape += numbers.setdefault(node.name, len(numbers)), node.dtype
        elif kind is tuple:
            shape += tuple, len(node)
            stack += node[::-1]
        elif node is None:
            shape.append(None)
        else:
            facts, parts = _readers(kind)
            shape += kind, facts(node)
            stack += parts(node)
    return tuple(shape)


@cache
def _readers(kind: Any) -> tuple[Callable[[Any], Any], Callable[[Any], tuple[Any, ...]]]:
    """Return functions that read the facts of a node of this class, and the parts that it holds.

    The last part comes first.
    """
    held = [f for f in fields(kind) if f.name not in _ORIGIN]
    facts = [f.name for f in held if f.type in _FACTS]
    parts = [f.name for f in reversed(held) if f.type not in _FACTS]
    return _reader(facts), _reader(parts)


def _reader(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple([getattr(node, name) for name in names])
