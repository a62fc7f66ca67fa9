"""Property tests of accesses that never reach one element, against all pairs of points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.accesses import Access
from schedlang.index.collisions import Between, never_meet
from schedlang.index.digits import equal_digits
from schedlang.index.iterations import SecondIteration, always_differ, implied_pairs
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import merge_div_mod, to_lin
from tests.indices import AXES, EXTENTS, conditions, everywhere, indices, values
from tests.marks import slow_beyond

LOOPS = tuple((axis, Lin.of(extent)) for axis, extent in zip(AXES, EXTENTS))


def access(at: Sequence[Expr], conds: Sequence[Expr]) -> Access:
    indices = tuple(merge_div_mod(to_lin(i, ranges=Ranges())) for i in at)
    return Access(indices, LOOPS, tuple(conds), Ranges())


@st.composite
def places(draw: st.DrawFn) -> tuple[list[Expr], list[Expr]]:
    """Draw the indices and the conditions of an access, often those of a tile."""
    i, j, k = AXES
    at = draw(st.sampled_from((
        lambda: [draw(indices(linear=True))],
        lambda: [draw(indices()), draw(indices(linear=True))],
        lambda: [i * 4 + j + draw(st.integers(0, 1))],
        lambda: [(i * 4 + j) // 5, (i * 4 + j) % 5, k],
        lambda: [(k + draw(st.integers(0, 2))) % 2, i * 4 + j],
        lambda: [(k + draw(st.integers(0, 2))) % 2 * 20 + i * 4 + j],
        lambda: [i * 12 + j * 3 + k],
        lambda: [abs(i * 2 - draw(st.integers(0, 6))) + draw(indices(linear=True))],
        lambda: [sl.select(j < draw(st.integers(0, 3)), i, j) + draw(indices(linear=True))],
    )))()  # fmt: skip
    conds = draw(st.lists(conditions(depth=1), max_size=1))
    return at, conds


def same_element(
    one: tuple[list[Expr], list[Expr]], other: tuple[list[Expr], list[Expr]]
) -> np.ndarray:
    """Return, for each pair of points, whether both accesses take place at one element."""
    at = everywhere()
    shape = (at.count, at.count)
    met = np.ones(shape, bool)
    for x, y in zip(one[0], other[0]):
        met &= values(x, at)[:, None] == values(y, at)[None, :]
    for cond in one[1]:
        met &= values(cond, at)[:, None]
    for cond in other[1]:
        met &= values(cond, at)[None, :]
    return met


def equal(axis: Axis, apart: int = 0) -> np.ndarray:
    """Return the pairs of points of which the second is ``apart`` ahead along ``axis``."""
    at = everywhere().axes[axis]
    return at[:, None] + apart == at[None, :]


@slow_beyond(25, 75, places(), places(), st.booleans(), st.integers(0, 2))
def test_iterations_that_always_differ_do(
    one: tuple[list[Expr], list[Expr]], other: tuple[list[Expr], list[Expr]], both: bool, depth: int
) -> None:
    other = one if both or len(one[0]) != len(other[0]) else other
    axis = AXES[depth]
    a, b = access(*one), access(*other)
    flat = [sum((lin * 60**n for n, lin in enumerate(x.indices)), Lin.of(0)) for x in (a, b)]
    second = SecondIteration(axis, a, b, {*AXES[depth:]})
    answer = always_differ(second, iter([(flat[0], flat[1])]))
    together = np.logical_and.reduce([equal(x) for x in AXES[:depth]] or [np.True_])
    met = (same_element(one, other) & ~equal(axis) & together).any()
    # the box is small enough that enumeration decides what no proof does
    assert answer is not None and answer != met


@slow_beyond(
    25, 75, places(), places(), st.booleans(), st.sampled_from(("same", "moving", "apart", "free"))
)
def test_threads_that_never_meet_do_not(
    one: tuple[list[Expr], list[Expr]], other: tuple[list[Expr], list[Expr]], both: bool, how: str
) -> None:
    other = one if both or len(one[0]) != len(other[0]) else other
    i, j, k = AXES
    threads = {i: EXTENTS[0], j: EXTENTS[1]}
    between = {
        "same": Between(threads, [k]), "moving": Between(threads, [], [k]),
        "apart": Between(threads, [], apart=k), "free": Between(threads, []),
    }[how]  # fmt: skip
    pairs = ~(equal(i) & equal(j)) & {
        "same": equal(k), "moving": equal(k, 1), "apart": ~equal(k), "free": np.True_,
    }[how]  # fmt: skip
    if never_meet(access(*one), access(*other), between):
        assert not (same_element(one, other) & pairs).any()


@slow_beyond(25, 75, places(), places())
def test_digits_are_equal_wherever_indices_are(
    one: tuple[list[Expr], list[Expr]], other: tuple[list[Expr], list[Expr]]
) -> None:
    if len(one[0]) != len(other[0]):
        other = one
    a, b = access(one[0], []), access(other[0], [])
    met = same_element((one[0], []), (other[0], []))
    pairs = equal_digits(a.indices, b.indices, (Ranges(), Ranges()), lambda _: False)
    pairs += implied_pairs([*zip(a.indices, b.indices)], Ranges(), Ranges())
    at = everywhere()
    for x, y in pairs:
        ends = values(to_expr(x), at)[:, None], values(to_expr(y), at)[None, :]
        assert (ends[0] == ends[1])[met].all()


def test_all_tiles_of_a_matrix_are_apart() -> None:
    """Threads of every shape write different elements of a tile, and are proven to."""
    for rows, columns, each in product((1, 2, 4), (1, 3, 8), (1, 2)):
        y, x, v = Axis("y", rows), Axis("x", columns), Axis("v", each)
        loops = tuple((axis, Lin.of(n)) for axis, n in ((y, rows), (x, columns), (v, each)))
        lin = to_lin((y * columns + x) * each + v)
        at = Access((lin,), loops, (), Ranges())
        assert never_meet(at, at, Between({y: rows, x: columns}, []))
        late = Access((lin + each,), loops, (), Ranges())
        assert never_meet(at, late, Between({y: rows, x: columns}, [])) == (rows * columns == 1)


def test_a_symbolic_loop_is_apart_by_its_remainder() -> None:
    t, k, n = Axis("t", 8), Axis("k", sl.var("n")), sl.var("n")
    loops = ((t, Lin.of(8)), (k, to_lin(n)))
    own = Access((to_lin(k * 8 + t),), loops, (), Ranges())
    assert never_meet(own, own, Between({t: 8}, []))
    assert not never_meet(own, Access((to_lin(k * 8 + t + 1),), loops, (), Ranges()),
                          Between({t: 8}, []))  # fmt: skip


def test_an_expression_without_a_normal_form_differs_between_iterations() -> None:
    """``abs(i - 2)`` has another value in another iteration, so that it does not cancel."""
    i = AXES[0]
    at = access([abs(i - 2) + 2 - i], [])
    assert always_differ(SecondIteration(i, at, at, {i})) is False
    assert always_differ(SecondIteration(i, access([abs(i - 9)], []), access([9 - i], []), {i}))


def test_an_axis_inside_an_expression_without_a_normal_form_is_held_in_both_iterations() -> None:
    i, j, _ = AXES
    one = [abs(i * 2 - 0) + j], []
    a, b = access(*one), access(*one)
    second = SecondIteration(j, a, b, {*AXES[1:]})
    assert always_differ(second) is True
