"""Property tests of ranges and bounds of indices, against every point of small boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.conditions import facts_of
from schedlang.index.digits import step
from schedlang.index.intervals import of_expression
from schedlang.index.linear import Div, Lin, to_expr, total
from schedlang.index.positive import at_least_one
from schedlang.index.quotients import (
    at_least,
    lower_bound,
    upper_bound,
    within,
    without_quotients,
)
from schedlang.index.ranges import Ranges
from schedlang.index.relax import largest, lower, relax, upper
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import merge_div_mod, to_lin
from tests.indices import AXES, EXTENTS, conditions, everywhere, indices, values
from tests.marks import slow_beyond

quick = settings(max_examples=75, deadline=None)


def holds(interval: tuple[int | None, int | None], found: np.ndarray) -> bool:
    low, high = interval
    return (low is None or low <= found.min()) and (high is None or found.max() <= high)


@slow_beyond(25, 75, indices())
def test_ranges_hold_every_value(index: Expr) -> None:
    found, ranges, lin = values(index, everywhere()), Ranges(), to_lin(index)
    assert (values(to_expr(lin), everywhere()) == found).all()
    assert holds(ranges.interval(lin), found)
    assert holds(of_expression(index, ranges.of_atom), found)
    if ranges.nonneg(lin):
        assert (found >= 0).all()


@slow_beyond(25, 75, indices(linear=True))
def test_ranges_of_sums_are_exact(index: Expr) -> None:
    found = values(index, everywhere())
    assert Ranges().interval(to_lin(index)) == (found.min(), found.max())


@slow_beyond(25, 75, indices(), conditions())
def test_proofs_hold_where_their_facts_do(index: Expr, cond: Expr) -> None:
    at = everywhere()
    found = values(index, at)[values(cond, at)]
    assume(found.size)
    known = Ranges().assuming(facts_of(cond, True, Ranges()))
    lin = to_lin(index, ranges=known)
    assert (values(to_expr(lin), at)[values(cond, at)] == found).all()
    if known.nonneg(lin):
        assert (found >= 0).all()
    if known.nonneg(-lin - 1):
        assert (found < 0).all()
    if within(lin, Lin.of(6), known):
        assert ((found >= 0) & (found < 6)).all()


N = sl.var("n")


@slow_beyond(25, 75, indices(), st.integers(-3, 3), st.integers(1, 5))
def test_bounds_without_loop_variables_hold_at_all_sizes(index: Expr, times: int, d: int) -> None:
    """Bounds of an index that also depends on a size, over that size alone."""
    at, ranges = everywhere(), Ranges()
    sized = index + N * times + N // d
    lin = to_lin(sized)
    ends = [(lower(lin, ranges), False), (upper(lin, ranges), True), (largest(lin, ranges), True)]
    for n in range(9):
        found = np.broadcast_to(evaluate(sized, {**at.axes, N: n}), (at.count,))
        for end, above in ends:
            if end is not None:
                bound = evaluate(to_expr(end), {N: n})
                assert bound >= found.max() if above else bound <= found.min()
        if ranges.nonneg(lin):
            assert (found >= 0).all()


@slow_beyond(25, 75, indices(), st.booleans())
def test_relaxing_one_axis_bounds_the_index(index: Expr, above: bool) -> None:
    axis = AXES[0]
    lin, ranges = to_lin(index), Ranges()
    end = relax(lin, axis, Lin.of(0), Lin.of(EXTENTS[0] - 1), ranges, above)
    if end is not None:
        found, bound = values(index, everywhere()), values(to_expr(end), everywhere())
        assert ((bound >= found) if above else (bound <= found)).all()


@slow_beyond(
    25, 75, indices(linear=True), indices(linear=True), st.integers(1, 7), st.integers(1, 3)
)
def test_differences_of_quotients_are_bounded(x: Expr, y: Expr, d: int, times: int) -> None:
    """The bound of ``x//d - y//d`` holds, and is at most one above the largest value of it."""
    den, ranges = Lin.of(d), Ranges()
    lin = (Lin.of(Div(to_lin(x), den)) - Lin.of(Div(to_lin(y), den))) * times
    found = (values(x, everywhere()) // d - values(y, everywhere()) // d) * times
    above, below = ranges.interval(upper_bound(lin, ranges)), ranges.interval(
        lower_bound(lin, ranges)
    )
    assert above[1] is not None and found.max() <= above[1]
    assert below[0] is not None and below[0] <= found.min()
    apart = values(x, everywhere()) - values(y, everywhere())
    assert above[1] <= times * -(-apart.max() // d)
    assert below[0] >= times * (apart.min() // d)


@slow_beyond(25, 75, indices(), st.integers(1, 7), st.integers(-5, 5))
def test_quotients_and_remainders_keep_their_value(index: Expr, d: int, times: int) -> None:
    at, ranges, lin, den = everywhere(), Ranges(), to_lin(index), Lin.of(d)
    found = values(index, at)
    assert (values(to_expr(floordiv(lin, den, ranges)), at) == found // d).all()
    assert (values(to_expr(mod(lin, den, ranges)), at) == found % d).all()
    both = floordiv(lin, den, ranges) * (d * times) + mod(lin, den, ranges) * times
    for rewritten in (merge_div_mod(both), without_quotients(both, ranges)):
        assert (values(to_expr(rewritten), at) == found * times).all()


@slow_beyond(25, 75, indices(), indices(), st.integers(1, 7))
def test_proven_orders_of_quotients_hold(x: Expr, y: Expr, d: int) -> None:
    den, ranges = Lin.of(d), Ranges()
    for a, b in ((to_lin(x), to_lin(y)), (floordiv(to_lin(x), den, ranges), to_lin(y)),
                 (Lin.of(Div(to_lin(x), den)), Lin.of(Div(to_lin(y), den)))):  # fmt: skip
        if at_least(a, b, ranges):
            assert (values(to_expr(a), everywhere()) >= values(to_expr(b), everywhere())).all()


@slow_beyond(25, 75, indices())
def test_the_step_of_an_axis_is_constant(index: Expr) -> None:
    found = values(index, everywhere()).reshape(EXTENTS)
    for place, axis in enumerate(AXES):
        moved = step(to_lin(index), axis)
        if moved is not None:
            assert (np.diff(found, axis=place) == moved).all()


LOOP, N, M = Axis("i", 3), Var("n"), Var("m")
LOOPED, ROWS, COLUMNS = map(Lin.of, (LOOP, N, M))
PRODUCTS = [ROWS, COLUMNS, ROWS * COLUMNS, ROWS * 2, ROWS * ROWS, ROWS * LOOPED, LOOPED]


@quick
@given(
    st.sampled_from(PRODUCTS[:4]), st.integers(-1, 3),
    st.lists(st.tuples(st.sampled_from(PRODUCTS), st.integers(-2, 2)), max_size=3),
)  # fmt: skip
def test_what_is_at_least_one_is_so_where_the_fact_holds(
    size: Lin, offset: int, terms: list[tuple[Lin, int]]
) -> None:
    fact = total([Lin.of(offset), *(term * coef for term, coef in terms)])
    if at_least_one(size, Ranges(facts=(fact,))):
        for i, n, m in np.ndindex(3, 4, 4):
            at: dict[Any, Lin] = {LOOP: Lin.of(i), N: Lin.of(n), M: Lin.of(m)}
            given_fact, least = (x.substitute(at).const for x in (fact, size))
            assert given_fact is not None and least is not None
            assert given_fact > 0 or least >= 1


def test_sizes_of_loops_that_run_are_at_least_one() -> None:
    n, m, i = ROWS, COLUMNS, LOOPED
    for fact in (-n + 1, -n * m + 1, i - n * m + 1, -n * m - n + 2):
        assert at_least_one(n, Ranges(facts=(fact,))), fact
    for fact in (n * 0, -m + 1, -n - m + 1, -n - i + 1):
        assert not at_least_one(n, Ranges(facts=(fact,))), fact
