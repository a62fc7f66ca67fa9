"""The check of arithmetic on axes, sizes and numbers, which must stay in int64.

Loops, bounds and conditions are computed from such arithmetic as from integers of Python, and
compilers may assume that it does not overflow. Data of int64 wrap around.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select, Unary, Var
from schedlang.expr.printer import is_index
from schedlang.expr.visit import postorder

LIMIT = 2**63
# the largest size that is counted on where a size is known at a call alone
SIZE = 2**31 - 1


class Range(NamedTuple):
    """The least and the greatest value of an expression, which may be ``sized``: grow with a size.

    A product of sizes counts as a size, since arrays of so many elements exist.
    """

    lo: int
    hi: int
    sized: bool = False


def check_index_arithmetic(op: ComputeOp) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for index arithmetic that may leave int64."""
    ranges: dict[int, Optional[Range]] = {}
    for node in postorder(op.roots):
        if not is_index(node):
            continue
        span = ranges[id(node)] = _range(node, [ranges.get(id(c)) for c in node.children])
        if span is None or isinstance(node, Const) or (-LIMIT <= span.lo and span.hi < LIMIT):
            continue
        end = span.hi if span.hi >= LIMIT else span.lo
        raise ComputeError(
            explain(
                f"{node} in {op.name}",
                f"it may reach {end}, but arithmetic on axes, sizes and numbers must stay in int64",
                f"Cast an axis, whose arithmetic then wraps around as NumPy's does: "
                f"sl.cast({_axis_of(node)}, '{_dtype_for(node)}').",
            )
        )


def _axis_of(node: Expr) -> Expr:
    """Return the first axis or size of an expression."""
    return next((n for n in postorder([node]) if isinstance(n, (Axis, Var))), node)


def _dtype_for(node: Expr) -> str:
    """Return the dtype that holds the numbers in an expression."""
    numbers = [int(n.value) for n in postorder([node]) if isinstance(n, Const)]
    return "uint64" if any(number >= LIMIT for number in numbers) else "int64"


def _range(node: Expr, of: list[Optional[Range]]) -> Range | None:
    """Return the range of index arithmetic from the ranges of its operands, if it is known."""
    if isinstance(node, Const):
        return Range(int(node.value), int(node.value))
    if isinstance(node, Axis):
        lo, extent = node.lo, node.extent
        if isinstance(lo, int) and isinstance(extent, int):
            return Range(lo, lo + max(extent, 1) - 1)
        return Range(lo if isinstance(lo, int) else 0, SIZE - 1, True)
    if isinstance(node, Var):
        return Range(-SIZE, SIZE, True)
    if isinstance(node, Binary):
        return _combined(node.op, *of)
    known = [span for span in of if span is not None]
    if isinstance(node, Unary) and known:
        span, below = known[0], node.op == "~"
        return Range(-span.hi - below, -span.lo - below, span.sized)
    if isinstance(node, Select) and len(known) == 2:
        return _hull(known, min(s.lo for s in known), max(s.hi for s in known))
    return None


def _hull(of: Iterable[Range], lo: int, hi: int) -> Range:
    return Range(lo, hi, any(span.sized for span in of))


def _combined(op: str, a: Optional[Range], b: Optional[Range]) -> Range | None:
    if b is not None and b.lo >= 0 and (op == "&" or (op == "%" and b.lo > 0)):
        # whatever the other operand is
        bound = b.hi if op == "&" else b.hi - 1
        return Range(0, min(bound, a.hi) if a is not None and a.lo >= 0 else bound)
    if a is None or b is None:
        return None
    if op == "&" and a.lo >= 0:
        return Range(0, a.hi)
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return _hull((a, b), choose(a.lo, b.lo), choose(a.hi, b.hi))
    if op in ("+", "-"):
        lo, hi = (a.lo + b.lo, a.hi + b.hi) if op == "+" else (a.lo - b.hi, a.hi - b.lo)
        return _hull((a, b), lo, hi)
    if op == "*" and a.sized and b.sized:
        return Range(0 if min(a.lo, b.lo) >= 0 else -SIZE, SIZE, True)
    if op == "*":
        return _corners(a, b)
    if op == "<<" and 0 <= b.lo == b.hi < 64:
        return _corners(a, Range(1 << b.lo, 1 << b.lo))
    if op in ("//", ">>") and b.lo >= 0:
        # a quotient is not farther from zero than the dividend
        return Range(min(a.lo, 0), max(a.hi, 0), a.sized)
    if op in ("|", "^") and min(a.lo, b.lo) >= 0:
        return _hull((a, b), 0, (1 << max(a.hi, b.hi).bit_length()) - 1)
    # other shifts and powers wrap around
    return None


def _corners(a: Range, b: Range) -> Range:
    products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return _hull((a, b), min(products), max(products))
