"""One of two numbers that elements choose: both are computed where that is safe and little work."""

from __future__ import annotations

from typing import Any

from schedlang.compute.math import if_then_else, select
from schedlang.compute.read import Read
from schedlang.expr import dtypes
from schedlang.expr.nodes import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.tracing.spans import ranges_of_loops

# the most operations of a side that is computed whether or not it is chosen
MOST_NODES = 60
# a product of floats may be infinite where it is not chosen, and so would be its gradient
_SAFE = ("+", "-", "==", "!=", "<", "<=", ">", ">=", "&", "|")


def choice(cond: Any, a: Expr, b: Expr) -> Any:
    """Return ``a`` where ``cond`` holds, else ``b``.

    A branch that elements decide is hard to predict, and lanes of a vector take no branches.
    """
    ranges = ranges_of_loops()
    plain = all(_is_safe(side, ranges) for side in (a, b))
    return select(cond, a, b) if plain else if_then_else(cond, a, b)


def _is_safe(value: Expr, ranges: Ranges) -> bool:
    """Return whether a value has little work, and none that must not run where it is not chosen."""
    waiting, known = [value], {id(value)}
    while waiting:
        node = waiting.pop()
        if len(known) > MOST_NODES or not _is_safe_node(node, ranges):
            return False
        # the indices of a read that is proved to be in bounds cost nothing
        new = () if isinstance(node, Read) else node.children
        waiting += [child for child in new if id(child) not in known]
        known.update(map(id, new))
    return True


def _is_safe_node(node: Expr, ranges: Ranges) -> bool:
    if isinstance(node, Read):
        return all(
            ranges.nonneg(at) and ranges.nonneg(to_lin(extent) - at - 1)
            for index, extent in zip(node.indices, node.tensor.shape)
            for at in (to_lin(index, ranges=ranges),)
        )
    if isinstance(node, Binary):
        return node.op in _SAFE or (node.op == "*" and dtypes.is_integer(node.dtype))
    if isinstance(node, Call):
        return node.fn in ("min", "max")
    if isinstance(node, Cast):
        # a float beyond the integers of a dtype has no value there
        return not dtypes.is_integer(node.dtype) or dtypes.is_integer(node.a.dtype)
    if isinstance(node, Select):
        return not node.lazy
    return isinstance(node, (Const, Var, Unary))
