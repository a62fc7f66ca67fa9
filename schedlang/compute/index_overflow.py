"""The check of arithmetic on axes, sizes and numbers, which must stay in int64.

Loops, bounds and conditions are computed from such arithmetic as from integers of Python, and
compilers may assume that it does not overflow. Data of int64 wrap around.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Select, Unary, Var
from schedlang.expr.printer import is_index
from schedlang.expr.visit import postorder

LIMIT = 2**63
# a bound of sizes, and of products of sizes, since arrays of so many elements exist
SIZE = 2**31


class Bound(NamedTuple):
    """A bound of absolute values: ``plain``, and ``sized`` times a size."""

    plain: int
    sized: int = 0

    @property
    def whole(self) -> int:
        return self.plain + self.sized * SIZE


def check_index_arithmetic(op: ComputeOp) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for index arithmetic that may leave int64."""
    bounds: dict[int, Optional[Bound]] = {}
    for node in postorder(op.roots):
        if not is_index(node):
            continue
        bound = bounds[id(node)] = _bound(node, [bounds.get(id(c)) for c in node.children])
        if bound is not None and bound.whole > LIMIT:
            raise ComputeError(
                explain(
                    f"{node} in {op.name}",
                    "it may leave the range of int64, and arithmetic on axes, sizes and numbers "
                    "must not",
                    f"Cast an axis, whose arithmetic then wraps around as NumPy's does: "
                    f"sl.cast({_axis_of(node)}, 'int64').",
                )
            )


def _axis_of(node: Expr) -> Expr:
    """Return the first axis or size of an expression."""
    return next((n for n in postorder([node]) if isinstance(n, (Axis, Var))), node)


def _bound(node: Expr, of: list[Optional[Bound]]) -> Bound | None:
    """Return a bound of index arithmetic, given those of its operands, if there is one."""
    if isinstance(node, Const):
        return Bound(abs(int(node.value)))
    if isinstance(node, Axis):
        ends = node.lo, node.extent
        return Bound(
            sum(abs(end) for end in ends if isinstance(end, int)),
            sum(not isinstance(end, int) for end in ends),
        )
    if isinstance(node, Var):
        return Bound(0, 1)
    known = [bound for bound in of if bound is not None]
    if isinstance(node, Unary) and known:
        return Bound(known[0].plain + (node.op == "~"), known[0].sized)
    if isinstance(node, (Select, Call)) and known:
        return max(known, key=lambda bound: bound.whole)
    if isinstance(node, Binary) and len(known) == 2:
        return _combined(node, *known)
    return None


def _combined(node: Binary, a: Bound, b: Bound) -> Bound:
    number = int(node.b.value) if isinstance(node.b, Const) else None
    if node.op in ("+", "-"):
        return Bound(a.plain + b.plain, a.sized + b.sized)
    if node.op == "*":
        return _product(a, b)
    if node.op == "<<" and number is not None and 0 <= number < 64:
        return _product(a, Bound(1 << number))
    if node.op == "%":
        return b
    if node.op == ">>" or not number and node.op == "//":
        return a
    if node.op == "//":
        return Bound(*(-(-part // abs(number or 1)) for part in a))
    # other shifts and powers wrap around
    if node.op == "<<":
        grown = a.whole << min(b.whole, 64)
    elif node.op == "**":
        grown = max(a.whole, 1) ** min(b.whole, 64)
    else:
        grown = 1 << max(a.whole, b.whole).bit_length()
    return Bound(min(grown, LIMIT))


def _product(a: Bound, b: Bound) -> Bound:
    """Return a bound of a product, in which a product of sizes counts as a size."""
    sized = a.plain * b.sized + a.sized * b.plain + a.sized * b.sized
    return Bound(a.plain * b.plain, sized)
