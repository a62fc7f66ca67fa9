"""Numbers over the indices of loops and symbolic lengths: ends of slices and of inner loops."""

from __future__ import annotations

from typing import Any, NoReturn, Union

from schedlang.compute.read import Read
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Unary, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, number_or_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.trace import Trace, current, running_trace

End = Union[int, Expr]

# for a comparison a < b and its like, from b - a: what is 0 or more where it holds, and where not
_DISTANCES: dict[str, Any] = {
    "<": lambda d: (d - 1, -d),
    "<=": lambda d: (d, -d - 1),
    ">": lambda d: (-d - 1, d),
    ">=": lambda d: (-d, d - 1),
    "==": None,
    "!=": None,
}


def ranges_of_loops(trace: Trace | None = None) -> Ranges:
    """Return the ranges of the indices of the loops of a trace, by default of the one that runs."""
    ranges = Ranges()
    trace = current() if trace is None else trace
    for each in reversed([trace, *trace.around_all()]):
        for var, (lo, hi) in each.spans.items():
            ranges.learn(var, lo, hi)
    return ranges


def known_end(value: Any) -> End | None:
    """Return a value as a number over the indices of loops; ``None`` if it depends on more."""
    if is_traced(value):
        value = value.value if not value.ndim else None
    if isinstance(value, Const) and isinstance(value.value, int):
        return int(value.value)
    if not isinstance(value, Expr):
        if value is None or isinstance(value, bool) or not hasattr(value, "__index__"):
            return None
        return int(value.__index__())
    trace = current()
    known = trace.indices()
    for node in postorder([value]):
        if isinstance(node, Var):
            if node not in known:
                return None
        elif isinstance(node, Binary):
            if node.op not in ("+", "-", "*", "//", "%"):
                return None
        elif isinstance(node, Call):
            if node.fn not in ("min", "max"):
                return None
        elif not isinstance(node, (Const, Unary, Cast)) or node.dtype not in ("int64",):
            return None
    return value


def of_lengths(value: Any) -> Expr | None:
    """Return a number or a test as an expression over symbolic lengths; ``None`` for any other."""
    lengths = current().outermost.lengths
    if not lengths:
        return None
    if is_traced(value):
        value = value.value if value.is_scalar else None
    if not isinstance(value, Expr):
        return None
    if isinstance(value, Cast) and value.dtype == value.a.dtype:
        # a bool of Python
        value = value.a
    nodes = list(postorder([value]))
    if any(isinstance(node, (Read, Axis)) for node in nodes):
        return None
    used = [node for node in nodes if isinstance(node, Var)]
    return value if used and all(var in lengths for var in used) else None


def likely(extent: End) -> int | None:
    """Return an extent where symbolic lengths are as likely; ``None`` for one over other sizes."""
    if isinstance(extent, int):
        return extent
    trace = running_trace()
    if trace is None or of_lengths(extent) is None:
        return None
    lengths = trace.outermost.lengths
    return int(evaluate(extent, {var: length.likely for var, length in lengths.items()}))


def truth_of(test: Expr) -> bool | None:
    """Return the truth value of a test of symbolic lengths, if all lengths have the same."""
    if not isinstance(test, Binary) or test.op not in _DISTANCES:
        if test.dtype == "bool":
            return None
        test = Binary("!=", test, Const(0, "int64"), "bool")
    ranges = ranges_of_loops()
    if not all(dtypes.is_integer(side.dtype) for side in (test.a, test.b)):
        return None
    distance = to_lin(test.b, ranges=ranges) - to_lin(test.a, ranges=ranges)
    if test.op in ("==", "!="):
        differs = ranges.nonneg(distance - 1) or ranges.nonneg(-distance - 1)
        return (test.op == "!=") == differs if differs or distance == Lin.of(0) else None
    holds, fails = _DISTANCES[test.op](distance)
    return True if ranges.nonneg(holds) else False if ranges.nonneg(fails) else None


def extent_between(lo: End, hi: End) -> End:
    """Return how many numbers there are from ``lo`` to ``hi``, ``hi`` excluded."""
    ranges = ranges_of_loops()
    count = to_lin(hi, ranges=ranges) - to_lin(lo, ranges=ranges)
    return number_or_expr(extreme("max", (count, Lin.of(0)), ranges))


def range_of(end: End) -> tuple[int | None, int | None]:
    """Return the least and the largest value of a number, ``None`` where it has no bound."""
    ranges = ranges_of_loops()
    return ranges.interval(to_lin(end, ranges=ranges))


def slice_of(item: slice, extent: End, what: str) -> tuple[End, End]:
    """Return where a slice begins in a dimension and how many elements it has.

    Its step is 1. Raises ``ComputeTypeError`` where an end may be negative in some iterations and
    not in others.
    """
    ranges = ranges_of_loops()
    size = to_lin(extent, ranges=ranges)
    zero = Lin.of(0)

    def placed(end: Any, default: Lin) -> Lin:
        if end is None:
            return default
        at = to_lin(end, ranges=ranges)
        if not ranges.nonneg(at):
            if not ranges.nonneg(-at - 1):
                _refuse_sign(what, end)
            at = extreme("max", (at + size, zero), ranges)
        return extreme("min", (at, size), ranges)

    start, stop = placed(item.start, zero), placed(item.stop, size)
    count = extreme("max", (stop - start, zero), ranges)
    return number_or_expr(start), number_or_expr(count)


def _refuse_sign(what: str, end: Any) -> NoReturn:
    raise ComputeTypeError(
        explain(
            what,
            f"its end {end} may be negative in some iterations, where it counts from the end of "
            "the array",
            "Let the range of the loop begin where the end is not negative.",
        )
    )


__all__ = [
    "End", "extent_between", "known_end", "likely", "of_lengths", "range_of", "ranges_of_loops",
    "slice_of", "truth_of",
]  # fmt: skip
