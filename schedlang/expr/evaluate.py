"""The NumPy value of an expression, given values for its leaves.

This defines the meaning of the language. The oracle, the tests of combiners and constant folding
use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.expr.bfloat import convert_values, round_to_bfloat16
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import (
    ArrayRead,
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.operators import OPERATORS
from schedlang.expr.visit import postorder

Reader = Callable[[Any, "tuple[Any, ...]"], Any]

_BINARY = {symbol: row.of_numpy for symbol, row in OPERATORS.items()}


@dataclass(frozen=True)
class Program:
    """Expressions in evaluation order; each step lists the values that are dead after it.

    ``peak`` is the largest number of values that are live at once.
    """

    roots: tuple[Expr, ...]
    steps: tuple[tuple[Expr, tuple[int, ...]], ...]
    peak: int

    def run(self, values: Mapping[Any, Any], read: Reader | None = None) -> tuple[Any, ...]:
        """Return the value of each root; see :func:`evaluate`."""
        results: dict[int, Any] = {}
        for node, dead in self.steps:
            results[id(node)] = value_of(node, results, values, read)
            for key in dead:
                del results[key]
        return tuple(results[id(root)] for root in self.roots)


def plan(roots: Sequence[Expr], is_leaf: Callable[[Expr], bool] | None = None) -> Program:
    """Return the program that evaluates ``roots``.

    The children of a node that ``is_leaf`` accepts are not evaluated. If the node is a read, the
    reader gets ``None`` for each index.
    """
    leaf = is_leaf or _no_leaf
    order = _order(roots, leaf)
    last: dict[int, int] = {}
    for position, node in enumerate(order):
        for child in () if leaf(node) else node.children:
            last[id(child)] = position
    for root in roots:
        last.pop(id(root), None)
    dead_after: list[list[int]] = [[] for _ in order]
    for key, position in last.items():
        dead_after[position].append(key)
    live = peak = 0
    for keys in dead_after:
        live += 1
        peak = max(peak, live)
        live -= len(keys)
    return Program(tuple(roots), tuple((n, tuple(d)) for n, d in zip(order, dead_after)), peak)


def _no_leaf(_: Expr) -> bool:
    return False


def _order(roots: Sequence[Expr], leaf: Callable[[Expr], bool]) -> list[Expr]:
    if leaf is _no_leaf:
        return postorder(roots)
    order: list[Expr] = []
    visited: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            if not leaf(node):
                stack.extend((child, False) for child in reversed(node.children))
    return order


def evaluate(root: Expr, values: Mapping[Any, Any], read: Reader | None = None) -> Any:
    """Return the value of ``root``, given ``values`` for its leaves (numbers or arrays).

    ``read`` returns the elements of a tensor at evaluated indices. Both sides of a ``Select`` are
    evaluated, so ``read`` must clip indices that may be out of bounds.

    >>> i = Axis("i", 4)
    >>> evaluate(i * 2 + 1, {i: np.arange(4)})
    array([1, 3, 5, 7])
    """
    return plan((root,)).run(values, read)[0]


def value_of(
    node: Expr, done: Mapping[int, Any], values: Mapping[Any, Any], read: Reader | None
) -> Any:
    if isinstance(node, (Axis, Var)):
        return convert_values(values[node], node.dtype)
    if isinstance(node, Const):
        return convert_values(node.value, node.dtype)
    if isinstance(node, (Binary, Call)) and node.dtype == "bfloat16":
        return round_to_bfloat16(_operation(node, done))
    if isinstance(node, (Binary, Call)):
        return _operation(node, done)
    if isinstance(node, Unary):
        a = done[id(node.a)]
        return np.negative(a) if node.op == "-" else np.invert(a)
    if isinstance(node, Cast):
        return convert_values(done[id(node.a)], node.dtype)
    if isinstance(node, Select):
        chosen: Any = np.where(*(done[id(c)] for c in node.children))
        return chosen[()]
    if isinstance(node, ArrayRead) and read is not None:
        return read(node, tuple(done.get(id(i)) for i in node.indices))
    raise TypeError(f"{type(node).__name__} has no value here")


def _operation(node: Binary | Call, done: Mapping[int, Any]) -> Any:
    if isinstance(node, Call):
        return apply_function(node.fn, *(done[id(a)] for a in node.args))
    a, b = done[id(node.a)], done[id(node.b)]
    return _BINARY[node.op](a, b)


def apply_function(fn: str, *args: Any) -> Any:
    """Return the value of a math function of the language on NumPy values."""
    return FUNCTIONS[fn].of_numpy(*args)
