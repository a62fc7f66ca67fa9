"""Property tests of enumeration, against Python's loops over the same points."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.nodes import Axis, Expr
from schedlang.index import enumeration
from schedlang.index.conjunctions import items_of
from schedlang.index.counting import count_by_enumeration
from schedlang.index.enumeration import blocks, count, first_outside, spans_of, table, value_range
from schedlang.index.ranges import Ranges
from tests.indices import AXES, EXTENTS, conditions, everywhere, indices, values
from tests.marks import slow_beyond

SPANS = {axis: (0, extent) for axis, extent in zip(AXES, EXTENTS)}
Held = list[tuple[Expr, bool]]


@pytest.fixture(autouse=True, params=[2**18, 7], ids=["whole", "in blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumeration, "BLOCK", request.param)


def kept(held: Held) -> np.ndarray:
    at = everywhere()
    return np.logical_and.reduce([np.ones(at.count, bool), *(values(c, at) == t for c, t in held)])


some = st.lists(st.tuples(conditions(), st.booleans()), max_size=2)


@pytest.mark.parametrize("lengths", [(), (1,), (9,), (2, 3), (3, 1, 4), (2, 8, 2), (20, 2)])
def test_blocks_are_the_points_in_order(lengths: tuple[int, ...]) -> None:
    axes = [Axis(f"a{n}", length) for n, length in enumerate(lengths)]
    spans = {axis: (10 * n, length) for n, (axis, length) in enumerate(zip(axes, lengths))}
    found: list[tuple[int, ...]] = []
    for at, shape in blocks(spans) or ():
        rows = [np.broadcast_to(at[axis], shape).reshape(-1) for axis in axes]
        found += zip(*rows) if rows else [()]
    starts = [range(start, start + length) for start, length in spans.values()]
    assert found == list(product(*starts))


@slow_beyond(20, 50, indices(), some)
def test_answers_are_those_of_loops(index: Expr, held: Held) -> None:
    found, here = values(index, everywhere()), kept(held)
    reached = found[here]
    wanted = (reached.min(), reached.max()) if reached.size else None
    assert value_range(index, held, SPANS) == wanted
    assert count(held, SPANS) == here.sum()
    outside = np.flatnonzero(here & ((found < 0) | (found >= 6)))
    answer = first_outside(index, 6, held, SPANS)
    if not outside.size:
        assert answer == ()
    else:
        place = np.unravel_index(outside[0], EXTENTS)
        assert answer == (found[outside[0]], dict(zip(AXES, place)))
    rows = table([index, *AXES], held, SPANS)
    assert rows is not None
    assert (rows == np.stack([reached, *(values(a, everywhere())[here] for a in AXES)])).all()


@slow_beyond(20, 50, some)
def test_counts_that_solve_for_an_axis_are_those_of_loops(held: Held) -> None:
    extents = dict(zip(AXES, EXTENTS))
    assert count_by_enumeration(extents, items_of(held, Ranges())) == kept(held).sum()


def test_more_points_than_the_limit_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    i, j = Axis("i", 10), Axis("j", 10)
    spans = {i: (0, 10), j: (0, 10)}
    monkeypatch.setattr(enumeration, "MOST_POINTS", 99)
    answers: list[Any] = [
        count([], spans), value_range(i + j, [], spans), first_outside(i + j, 5, [], spans),
        table([i], [], spans),
        count_by_enumeration({i: 10, j: 10}, items_of([(i * j > 4, True)], Ranges())),
    ]  # fmt: skip
    assert answers == [None] * 5
    monkeypatch.setattr(enumeration, "MOST_POINTS", 100)
    assert count([], spans) == 100 and table([i], [], spans) is None
    assert first_outside(i + j, 5, [], spans) == (5, {i: 0, j: 5})


def test_only_the_axes_of_an_index_are_tried() -> None:
    i, n = Axis("i", 4), sl.var("n")
    assert spans_of([i * 2], {i: (0, 4), Axis("j", 9): None}) == {i: (0, 4)}
    assert spans_of([i * n], {i: (0, 4)}) is None
    assert spans_of([i * 2], {i: None}) is None
