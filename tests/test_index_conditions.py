"""Property tests of conditions on indices, against every point of small boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Binary, Expr, Unary
from schedlang.expr.operators import COMPARISONS, OPERATORS
from schedlang.index.conditions import (
    NEGATED,
    at_most,
    conjuncts,
    decide,
    facts_of,
    facts_of_extent,
    truth,
)
from schedlang.index.conjunctions import AtLeast, Either, Never, Other, items_of, narrow
from schedlang.index.intervals import Interval, both, compare, inside
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from tests.indices import AXES, Point, conditions, everywhere, indices, values
from tests.marks import slow_beyond


@slow_beyond(25, 75, conditions(), st.booleans())
def test_facts_hold_wherever_their_condition_does(cond: Expr, holds: bool) -> None:
    at = everywhere()
    found = np.broadcast_to(values(cond, at), (at.count,)) == holds
    for fact in facts_of(cond, holds, Ranges()):
        assert (np.broadcast_to(values(to_expr(fact), at), (at.count,))[found] <= 0).all()


@slow_beyond(25, 75, conditions(), st.booleans())
def test_conjuncts_hold_wherever_what_joins_them_does(cond: Expr, holds: bool) -> None:
    at = everywhere()
    known = np.broadcast_to(values(cond, at), (at.count,)) == holds
    for part, known_as in conjuncts([(cond, holds)]):
        assert (np.broadcast_to(values(part, at), (at.count,))[known] == known_as).all()


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, high = sorted(draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6))))
    return draw(st.sampled_from([(low, high), (None, high), (low, None), (None, None)]))


def members(interval: Interval) -> set[int]:
    low, high = interval
    return {x for x in range(-20, 21) if (low is None or x >= low) and (high is None or x <= high)}


@slow_beyond(25, 75, intervals(), intervals(), st.sampled_from(COMPARISONS))
def test_intervals_of_comparisons(a: Interval, b: Interval, op: str) -> None:
    functions = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
                 "==": int.__eq__, "!=": int.__ne__}  # fmt: skip
    true = {x for x in members((None, None)) if any(functions[op](x, y) for y in members(b))}
    assert true <= members(compare(op, b))
    mirrored = functions[OPERATORS[op].mirrored]
    assert true == {x for x in members((None, None)) if any(mirrored(y, x) for y in members(b))}
    assert members(both(a, b)) == (members(a) & members(b) or members(a))
    # an end of 20 stands for none
    assert inside(a, b) == (members(a) <= members(b))


@slow_beyond(25, 75, conditions())
def test_a_condition_that_is_always_or_never_true_is(cond: Expr) -> None:
    at = everywhere()
    found = np.broadcast_to(values(cond, at), (at.count,))
    known = truth(cond, Ranges())
    assert known is None or (found == known).all()


@slow_beyond(25, 75, indices(linear=True), st.sampled_from(COMPARISONS), st.integers(-40, 40))
def test_comparisons_of_one_linear_index_are_decided(index: Expr, op: str, end: int) -> None:
    """Interval arithmetic is exact if each axis occurs once, so that no truth is missed."""
    at = everywhere()
    lin = to_lin(index)
    found = np.broadcast_to(values(Binary(op, index, sl.const(end), "bool"), at), (at.count,))
    known = decide(op, [lin - end], Ranges())
    if known is not None:
        assert (found == known).all()
    elif op in ("==", "!="):
        # a value may be skipped, as 1 by i*2
        low, high = Ranges().interval(lin)
        assert low is not None and high is not None and low <= end <= high
    else:
        assert found.any() and not found.all()


@slow_beyond(25, 75, indices(), st.sampled_from(COMPARISONS))
def test_polynomials_of_a_comparison_say_the_same(index: Expr, op: str) -> None:
    at = everywhere()
    rows = at_most(op, to_lin(index))
    wanted = values(Binary(op, index, sl.const(0), "bool"), at)
    if op == "!=":
        assert rows == ()
    else:
        held = [values(to_expr(row), at) <= 0 for row in rows]
        assert (np.logical_and.reduce(held) == wanted).all()
    assert (values(Binary(NEGATED[op], index, sl.const(0), "bool"), at) != wanted).all()


@slow_beyond(25, 75, st.lists(st.tuples(conditions(), st.booleans()), min_size=1, max_size=3))
def test_a_conjunction_holds_where_its_conditions_do(held: list[tuple[Expr, bool]]) -> None:
    at = everywhere()
    wanted = np.ones(at.count, bool)
    for cond, truth_ in held:
        wanted &= values(cond, at) == truth_
    found = np.ones(at.count, bool)
    for item in items_of(held, Ranges()):
        found &= _holds(item, at)
    assert (found == wanted).all()


def _holds(item: Any, at: Point) -> Any:
    if isinstance(item, AtLeast):
        return values(to_expr(item.lin), at) >= 0
    if isinstance(item, Either):
        sides = [
            np.logical_and.reduce([values(c, at) == t for c, t in side])
            for side in (item.first, item.second)
        ]
        return sides[0] | sides[1]
    if isinstance(item, Other):
        return values(item.cond, at) == item.holds
    assert isinstance(item, Never)
    return np.False_


N = sl.var("n")


@pytest.mark.parametrize(
    "extent",
    [lambda n: n, lambda n: n - 3, lambda n: n // 4, lambda n: (n + 3) // 4 - 1, lambda n: n % 8],
)
def test_facts_of_an_occupied_loop_hold(extent: Callable[[Expr], Expr]) -> None:
    sizes = {N: np.arange(50)}
    runs = evaluate(extent(N), sizes) >= 1
    for fact in facts_of_extent(to_lin(extent(N))):
        assert (np.broadcast_to(evaluate(to_expr(fact), sizes), runs.shape)[runs] <= 0).all()


def test_a_condition_is_decided_with_the_facts_around_it() -> None:
    i, j, _ = AXES
    known = Ranges().assuming(facts_of(i + j < 4, True, Ranges()))
    assert truth(i + j < 5, known) is True
    assert truth(Unary("~", i + j < 5, "bool"), known) is False
    assert truth(i + j < 3, known) is None
    assert Lin.of(i) + Lin.of(j) - 3 in facts_of(~(i + j >= 4), True, Ranges())


@slow_beyond(25, 75, st.lists(st.tuples(conditions(), st.booleans()), min_size=1, max_size=3))
def test_narrowed_ranges_hold_every_point(held: list[tuple[Expr, bool]]) -> None:
    at = everywhere()
    kept = np.logical_and.reduce([values(cond, at) == truth_ for cond, truth_ in held])
    inside = narrow(Ranges(), held)
    if inside is None:
        assert not kept.any()
        return
    for axis in AXES:
        low, high = inside.of(axis)
        assert high is not None
        found = at.axes[axis]
        assert (found >= values(to_expr(low), at))[kept].all()
        assert (found <= values(to_expr(high), at))[kept].all()
