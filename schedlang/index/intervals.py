"""Interval arithmetic: the least and largest value of a sum, a product, a quotient and others.

An end that is not known is ``None``. The functions are named after the operations on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Optional, Union

from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Select, Unary, Var
from schedlang.expr.visit import postorder

Interval = tuple[Optional[int], Optional[int]]
UNBOUNDED: Interval = (None, None)

# a value below 2**31 does not overflow if it is shifted by less than this
_SHORT_SHIFT = 32
_BITS = 63


def plus(a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x + y``.

    >>> plus((0, 3), (2, None))
    (2, None)
    """
    (low, high), (least, most) = a, b
    return (
        None if low is None or least is None else low + least,
        None if high is None or most is None else high + most,
    )


def minus(a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x - y``.

    >>> minus((0, 3), (2, None))
    (None, 1)
    """
    (low, high), (least, most) = a, b
    return (
        None if low is None or most is None else low - most,
        None if high is None or least is None else high - least,
    )


def scale(a: Interval, factor: int) -> Interval:
    """Return the interval of ``x * factor``.

    >>> scale((0, 3), -2)
    (-6, 0)
    """
    low, high = a
    if factor < 0:
        low, high = high, low
    return None if low is None else low * factor, None if high is None else high * factor


def times(a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x * y``.

    >>> times((-2, 3), (0, 5)), times((1, None), (2, 4))
    ((-10, 15), (2, None))
    """
    (low, high), (least, most) = a, b
    if low is not None and high is not None and least is not None and most is not None:
        ends = (low * least, low * most, high * least, high * most)
        return min(ends), max(ends)
    if low is not None and low >= 0 and least is not None and least >= 0:
        return low * least, None if high is None or most is None else high * most
    return UNBOUNDED


def quotient(a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x // y``.

    >>> quotient((-1, 7), (4, 4)), quotient((0, 7), (0, None))
    ((-1, 1), (0, None))
    """
    (low, high), (least, most) = a, b
    if least is not None and least == most and least > 0:
        return None if low is None else low // least, None if high is None else high // least
    above = low is not None and low >= 0 and least is not None and least >= 0
    return (0, None) if above else UNBOUNDED


def remainder(a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x % y``.

    >>> remainder((9, 11), (8, 8)), remainder((0, 11), (8, 8))
    ((1, 3), (0, 7))
    """
    (low, high), (least, most) = a, b
    if least is not None and least == most and least > 0:
        if low is not None and high is not None and low // least == high // least:
            return low % least, high % least
        return 0, least - 1
    return (0, None) if least is not None and least >= 0 else UNBOUNDED


def magnitude(a: Interval) -> Interval:
    """Return the interval of ``abs(x)``.

    >>> magnitude((-3, 2)), magnitude((2, None))
    ((0, 3), (2, None))
    """
    low, high = a
    least = max(0, 0 if low is None else low, 0 if high is None else -high)
    return least, None if low is None or high is None else max(-low, high)


def extreme(op: str, intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the ``min`` or ``max`` of several values.

    One known end is enough where any value bounds the result.

    >>> extreme("min", [(0, 3), (None, 5)])
    (None, 3)
    """
    lows, highs = zip(*intervals)
    if op == "min":
        return _all(min, lows), _any(min, highs)
    return _any(max, lows), _all(max, highs)


def union(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of a value that lies in one of ``intervals``.

    >>> union([(0, 3), (2, None)])
    (0, None)
    """
    lows, highs = zip(*intervals)
    return _all(min, lows), _all(max, highs)


def both(a: Interval, b: Interval) -> Interval:
    """Return the interval of a value that lies in both; ``a`` if they are apart.

    >>> both((0, 9), (None, 5)), both((0, 3), (4, 5))
    ((0, 5), (0, 3))
    """
    low, high = _any(max, (a[0], b[0])), _any(min, (a[1], b[1]))
    return a if low is not None and high is not None and low > high else (low, high)


def inside(a: Interval, bounds: Interval) -> bool:
    """Return whether each value of ``a`` is known to lie in ``bounds``.

    >>> inside((0, 3), (0, None)), inside((0, None), (0, 3))
    (True, False)
    """
    (low, high), (least, most) = a, bounds
    above = least is None or (low is not None and low >= least)
    return above and (most is None or (high is not None and high <= most))


def compare(op: str, other: Interval) -> Interval:
    """Return the interval of an integer ``x`` where ``x op other`` holds.

    >>> compare("<", (0, 8)), compare(">=", (2, None)), compare("!=", (2, 2))
    ((None, 7), (2, None), (None, None))
    """
    low, high = other
    if op in ("<", "<="):
        return None, None if high is None else high - (op == "<")
    if op in (">", ">="):
        return None if low is None else low + (op == ">"), None
    return other if op == "==" else UNBOUNDED


_Pick = Callable[[Iterable[int]], int]


def _all(pick: _Pick, values: Sequence[int | None]) -> int | None:
    bounded = [v for v in values if v is not None]
    return pick(bounded) if len(bounded) == len(values) else None


def _any(pick: _Pick, values: Sequence[int | None]) -> int | None:
    bounded = [v for v in values if v is not None]
    return pick(bounded) if bounded else None


def of_expression(root: Expr, of_leaf: Callable[[Union[Axis, Var]], Interval]) -> Interval:
    """Return an interval that holds the index expression ``root``.

    It costs one walk and no normal form, so that terms do not cancel.

    >>> i = Axis("i", 8)
    >>> of_expression(i * 4 + 3, lambda _: (0, 7)), of_expression(i - i, lambda _: (0, 7))
    ((3, 31), (-7, 7))
    """
    if isinstance(root, Axis):
        return of_leaf(root)
    intervals: dict[int, Interval] = {}
    for node in postorder([root]):
        if not node.weak or node.dtype != "int64":
            intervals[id(node)] = UNBOUNDED
        elif isinstance(node, (Axis, Var)):
            intervals[id(node)] = of_leaf(node)
        else:
            intervals[id(node)] = of_node(node, [intervals[id(child)] for child in node.children])
    return intervals[id(root)]


def of_node(node: Expr, parts: Sequence[Interval]) -> Interval:
    """Return the interval of an operation on integers, were there no overflow, by its operands'.

    It is unbounded for a node without a rule.

    >>> i = Axis("i", 8)
    >>> of_node(i * 4, [(0, 7), (4, 4)]), of_node(i < 4, [(0, 7), (4, 4)])
    ((0, 28), (None, None))
    """
    if isinstance(node, Binary):
        return UNBOUNDED if node.dtype == "bool" else of_binary(node.op, *parts)
    if isinstance(node, Const):
        return int(node.value), int(node.value)
    if isinstance(node, Select):
        return union(parts[1:])
    if isinstance(node, Unary) and node.dtype != "bool":
        return minus((0 if node.op == "-" else -1,) * 2, parts[0])
    if isinstance(node, Call) and node.fn in ("min", "max"):
        return extreme(node.fn, parts)
    return magnitude(parts[0]) if isinstance(node, Call) and node.fn == "abs" else UNBOUNDED


def of_binary(op: str, a: Interval, b: Interval) -> Interval:
    """Return the interval of ``x op y``, unbounded for an operator without a rule.

    >>> of_binary("*", (0, 3), (2, 4)), of_binary("^", (0, 3), (2, 4))
    ((0, 12), (None, None))
    """
    rule = _RULES.get(op)
    return UNBOUNDED if rule is None else rule(a, b)


def _masked(a: Interval, b: Interval) -> Interval:
    (low, high), (least, most) = a, b
    if least is None or least != most or least < 0:
        return UNBOUNDED
    return 0, least if low is None or low < 0 or high is None else min(high, least)


def _shifted_right(a: Interval, b: Interval) -> Interval:
    count = b[0]
    if count is None or count != b[1] or not 0 <= count < _BITS:
        return UNBOUNDED
    return quotient(a, (1 << count, 1 << count))


def _shifted_left(a: Interval, b: Interval) -> Interval:
    (low, high), count = a, b[0]
    if count is None or count != b[1] or not 0 <= count < _SHORT_SHIFT:
        return UNBOUNDED
    if low is None or high is None or max(abs(low), abs(high)) >= 1 << 31:
        return UNBOUNDED
    return scale(a, 1 << count)


_RULES: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": plus, "-": minus, "*": times, "//": quotient, "%": remainder,
    "&": _masked, ">>": _shifted_right, "<<": _shifted_left,
}  # fmt: skip
