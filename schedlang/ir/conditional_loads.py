"""The loads of an expression, each with the conditions under which it runs."""

from __future__ import annotations

from schedlang.expr.nodes import Expr, Select, Unary
from schedlang.ir.nodes import Load


def conditional_loads(root: Expr) -> list[tuple[Load, tuple[Expr, ...]]]:
    """Return each load, left to right, with the conditions of the lazy branches around it."""
    found: list[tuple[Load, tuple[Expr, ...]]] = []
    stack: list[tuple[Expr, tuple[Expr, ...]]] = [(root, ())]
    seen: set[tuple[int, tuple[int, ...]]] = set()
    while stack:
        node, tests = stack.pop()
        key = (id(node), tuple(map(id, tests)))
        if key in seen:
            continue
        seen.add(key)
        if isinstance(node, Load):
            found.append((node, tests))
        if isinstance(node, Select) and node.lazy:
            other = Unary("~", node.cond, "bool")
            stack += [(node.b, (*tests, other)), (node.a, (*tests, node.cond)), (node.cond, tests)]
        else:
            stack += [(child, tests) for child in reversed(node.children)]
    return found


__all__ = ["conditional_loads"]
