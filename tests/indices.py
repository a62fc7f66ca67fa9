"""Random index expressions and conditions over a small box, with their values at every point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.expr.operators import COMPARISONS

EXTENTS = (5, 4, 3)
AXES = tuple(Axis(name, extent) for name, extent in zip("ijk", EXTENTS))


@dataclass(frozen=True)
class Point:
    """The values of the axes at all points of a box, and how many points there are."""

    axes: Mapping[Any, Any]
    count: int


def everywhere() -> Point:
    """Return the points of the whole box."""
    rows = np.indices(EXTENTS).reshape(len(EXTENTS), -1)
    return Point(dict(zip(AXES, rows)), rows.shape[1])


def values(expr: Expr, at: Point) -> Any:
    """Return the value of ``expr`` at each point."""
    return np.broadcast_to(evaluate(expr, at.axes), (at.count,))


@st.composite
def indices(draw: st.DrawFn, linear: bool = False) -> Expr:
    """Draw an index expression; if ``linear``, a sum in which each axis occurs once."""
    total: Expr = sl.const(draw(st.integers(-9, 9)))
    for axis in AXES:
        total = total + axis * draw(st.integers(-5, 5))
    if linear:
        return total
    for _ in range(draw(st.integers(0, 3))):
        total = draw(st.sampled_from(_CHANGES))(total, draw(st.integers(1, 7)), draw(_small()))
    return total


_CHANGES = (
    lambda x, n, y: x // n, lambda x, n, y: x % n, lambda x, n, y: x // n * n + y,
    lambda x, n, y: sl.max(x, y), lambda x, n, y: sl.min(x, n), lambda x, n, y: x * y,
    lambda x, n, y: x // n - (x + y) // n, lambda x, n, y: x % n + y * n,
    lambda x, n, y: abs(x) - n, lambda x, n, y: sl.select(x < n, x, y),
)  # fmt: skip


@st.composite
def _small(draw: st.DrawFn) -> Expr:
    axis = draw(st.sampled_from(AXES))
    return axis * draw(st.integers(-3, 3)) + draw(st.integers(-4, 4))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expr:
    """Draw a condition: comparisons of indices, joined by ``&``, ``|`` and ``~``."""
    how = draw(st.sampled_from(("compare", "compare", "and", "or", "not", "both")))
    if how == "compare" or not depth:
        op = draw(st.sampled_from(COMPARISONS))
        return Binary(op, draw(indices()), draw(indices(linear=True)), "bool")
    first = draw(conditions(depth=depth - 1))
    if how == "not":
        return ~first
    second = draw(conditions(depth=depth - 1))
    if how == "both":
        return sl.if_then_else(first, second, sl.const(False))
    return first & second if how == "and" else first | second
