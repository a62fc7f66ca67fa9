"""Property tests of fused loops of symbolic extents, against the elements that they reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import floordiv, mod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.accesses import Access
from schedlang.index.boxes import covered_box, piece_of
from schedlang.index.division import exact_quotient
from schedlang.index.fused import places
from schedlang.index.iterations import SecondIteration, always_differ, implied_pairs
from schedlang.index.linear import Div, Lin, Mod, to_expr, total
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import merge_div_mod, to_lin
from tests.marks import slow_beyond

N, M = sl.var("n"), sl.var("m")
SIZES = [dict(zip((N, M), values)) for values in product(range(5), range(4))]
# the tiles of an axis of n elements
TILE, TILES = 3, (N + 2) // 3
# N - 1 may be negative, and the product of two such extents positive
EXTENTS: tuple[Any, ...] = (2, 3, N, M, N + 1, N - 1, M * 2, (N + 1) // 2, TILES)
Values = Mapping[Any, int]


@pytest.fixture(scope="module", autouse=True)
def division_by_zero_raises() -> Iterator[None]:
    with np.errstate(divide="raise"):
        yield


@dataclass(frozen=True)
class Stored:
    """The loops, indices and conditions of a store."""

    loops: tuple[tuple[Axis, Any], ...]
    at: list[Expr]
    conds: list[Expr]

    @property
    def ranges(self) -> Ranges:
        return Ranges({axis: (Lin.of(0), to_lin(extent) - 1) for axis, extent in self.loops})

    @property
    def lins(self) -> list[Lin]:
        return [to_lin(i, ranges=self.ranges) for i in self.at]

    def points(self, sizes: Values) -> Iterator[tuple[Values, tuple[int, ...]]]:
        """Yield the values of the loops where the store runs, and the element."""
        spans = [range(number(extent, sizes)) for _, extent in self.loops]
        for point in product(*spans):
            at = {**sizes, **{axis: value for (axis, _), value in zip(self.loops, point)}}
            if all(evaluate(cond, at) for cond in self.conds):
                yield at, tuple(number(i, at) for i in self.at)


def number(value: Any, at: Values) -> int:
    return value if isinstance(value, int) else int(evaluate(value, at))


def sometimes(draw: st.DrawFn, right: Any, *wrong: Any) -> Any:
    """Draw ``right`` in most cases."""
    return draw(st.sampled_from((*[right] * 4 * len(wrong), *wrong)))


@st.composite
def stores(draw: st.DrawFn) -> Stored:
    """Draw a store over a loop of fused axes, whole or split; a divisor or guard may be wrong."""
    extents = draw(st.lists(st.sampled_from(EXTENTS), min_size=2, max_size=3))
    whole = total(map(to_lin, extents[:1]))
    for extent in extents[1:]:
        whole = whole * to_lin(extent)
    count = to_expr(whole)
    conds: list[Expr] = []
    if draw(st.booleans()):
        f = Axis("f", count)
        loops: list[tuple[Axis, Any]] = [(f, count)]
        value: Expr = f
    else:
        factor = draw(st.integers(2, 4))
        outer, inner = Axis("outer", (count + (factor - 1)) // factor), Axis("inner", factor)
        loops = [(axis, axis.extent) for axis in (outer, inner)]
        value = outer * factor + inner
        conds += [value < sometimes(draw, count, count - 1, count + 1)] * sometimes(draw, 1, 0)
    at: list[Expr] = []
    weight: Any = 1
    for k, extent in enumerate(reversed(extents)):
        digit = value // sometimes(draw, weight, weight + 1, extent)
        if k < len(extents) - 1 or draw(st.booleans()):
            digit = digit % sometimes(draw, extent, extent + 1, weight)
        if extent is TILES:
            v = Axis("v", TILE)
            loops.append((v, TILE))
            digit = digit * sometimes(draw, TILE, TILE - 1) + v
            conds += [digit < sometimes(draw, N, N + 1, N - 1)] * sometimes(draw, 1, 0)
        at.insert(draw(st.integers(0, len(at))), digit)
        weight = weight * extent
    if draw(st.booleans()):
        loops.insert(0, loops.pop(draw(st.integers(0, len(loops) - 1))))
    return Stored(tuple(loops), at, conds)


def indices(axes: Sequence[Axis]) -> st.SearchStrategy[Any]:
    numbers = st.sampled_from((2, 3, 4, N, N * 2, N + 1))
    return st.recursive(st.sampled_from(axes), lambda inner: st.one_of(
        st.builds(floordiv, inner, numbers), st.builds(mod, inner, numbers),
        st.builds(lambda x, n, y: x * n + y, inner, numbers, inner),
    ), max_leaves=3)  # fmt: skip


@st.composite
def any_stores(draw: st.DrawFn) -> Stored:
    """Draw a store at quotients, remainders and sums of loops."""
    extents = draw(st.lists(st.sampled_from((*EXTENTS, N * 2, N * 4, 12)), min_size=1, max_size=2))
    axes = [Axis(f"x{k}", extent) for k, extent in enumerate(extents)]
    at = draw(st.lists(indices(axes), min_size=1, max_size=3))
    conds = [draw(indices(axes)) < draw(st.sampled_from(EXTENTS))] * draw(st.integers(0, 1))
    return Stored(tuple(zip(axes, extents)), at, conds)


@st.composite
def polynomials(draw: st.DrawFn) -> Lin:
    atoms = [Lin.of(1), Lin.of(N), Lin.of(M), to_lin((N + 1) // 2)]
    terms = draw(st.lists(st.tuples(*[st.sampled_from(atoms)] * 2, st.integers(-3, 3)), max_size=3))
    return total(a * b * c for a, b, c in terms)


@slow_beyond(50, 150, polynomials(), polynomials())
def test_a_product_is_divided_by_its_factors(a: Lin, b: Lin) -> None:
    found = exact_quotient(a * b, b)
    assert found == (a if b.terms else None)
    other = exact_quotient(a, b)
    assert other is None or other * b == a


@slow_beyond(50, 150, st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4), st.data())
def test_the_digits_of_a_loop_have_its_values(extents: list[Any], data: st.DataObject) -> None:
    weights = [Lin.of(1)]
    for extent in extents:
        weights.append(weights[-1] * to_lin(extent))
    candidates = [*weights, *map(to_lin, EXTENTS), Lin.of(N) * -1]
    divisors = data.draw(st.lists(st.sampled_from(candidates), max_size=4))
    found = places(weights[-1], divisors, Ranges())
    for sizes in SIZES:
        spans = [range(number(to_expr(size), sizes)) for _, size in found]
        steps = [number(to_expr(weight), sizes) for weight, _ in found]
        values = [sum(d * w for d, w in zip(point, steps)) for point in product(*spans)]
        assert sorted(values) == list(range(number(to_expr(weights[-1]), sizes)))


def is_covered(store: Stored) -> None:
    loops = [(axis, axis, to_lin(extent)) for axis, extent in store.loops]
    box = covered_box([piece_of(store.lins, loops, store.conds, store.ranges)])
    for sizes in SIZES if box is not None else ():
        try:
            written = Counter(element for _, element in store.points(sizes))
        except ArithmeticError:
            continue
        assert box is not None
        spans = [range(*(number(to_expr(end), sizes) for end in span)) for span in box]
        assert written == Counter(product(*spans)), (box, sizes)


@slow_beyond(25, 75, st.one_of(stores(), any_stores()))
def test_fused_loops_cover_what_is_proven(store: Stored) -> None:
    is_covered(store)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.one_of(stores(), any_stores()))
def test_many_fused_loops_cover_what_is_proven(store: Stored) -> None:
    is_covered(store)


def differ(one: Stored, axis: Axis, depth: int) -> bool | None:
    """Return whether two iterations of ``axis`` are proven to store to different elements."""
    loops = tuple((own, to_lin(extent)) for own, extent in one.loops)
    at = Access(tuple(map(merge_div_mod, one.lins)), loops, tuple(one.conds), one.ranges)
    inside = {own for own, _ in one.loops[depth:]}
    return always_differ(SecondIteration(axis, at, at, inside), counting=False)


def meet(store: Stored, axis: Axis, depth: int) -> list[bool]:
    """Return for each of the sizes whether two iterations of ``axis`` store to one element."""
    around = [own for own, _ in store.loops[:depth]]
    found = []
    for sizes in SIZES:
        seen: dict[Any, set[int]] = {}
        try:
            for at, element in store.points(sizes):
                seen.setdefault((element, *(at[own] for own in around)), set()).add(at[axis])
        except ArithmeticError:
            continue
        found.append(any(len(values) > 1 for values in seen.values()))
    return found


def is_different(store: Stored, data: st.DataObject) -> None:
    depth = data.draw(st.integers(0, len(store.loops) - 1))
    axis = store.loops[depth][0]
    proven = differ(store, axis, depth)
    if proven is not None:
        assert any(meet(store, axis, depth)) != proven


@slow_beyond(25, 75, st.one_of(stores(), any_stores()), st.data())
def test_iterations_of_fused_loops_differ_where_proven(
    store: Stored, data: st.DataObject
) -> None:
    is_different(store, data)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.one_of(stores(), any_stores()), st.data())
def test_iterations_of_many_fused_loops_differ_where_proven(
    store: Stored, data: st.DataObject
) -> None:
    is_different(store, data)


def right(extents: Sequence[Any], split: bool) -> Stored:
    """Return a store to all elements of an array by one loop of its fused axes."""
    count: Any = 1
    for extent in extents:
        count = count * extent
    f: Any = Axis("f", count)
    loops, conds = [(f, count)], []
    if split:
        outer, inner = Axis("outer", (count + 3) // 4), Axis("inner", 4)
        loops = [(axis, axis.extent) for axis in (outer, inner)]
        f = outer * 4 + inner
        conds = [f < count]
    at, weight = [], 1
    for extent in reversed(extents[1:]):
        at.append(f // weight % extent)
        weight = weight * extent
    return Stored(tuple(loops), [*at, f // weight], conds)


def test_fused_loops_are_proven_whole_and_split() -> None:
    """The proofs apply: dimensions are in the reverse order, so that no position is one loop."""
    for extents in ((N, 3), (N, M, 2), (N, M + 1), ((N + 3) // 4, M, 5), (TILES, 2, N)):
        for split in (False, True):
            store = right(extents, split)
            loops = [(axis, axis, to_lin(extent)) for axis, extent in store.loops]
            box = covered_box([piece_of(store.lins, loops, store.conds, store.ranges)])
            assert box == [(Lin.of(0), to_lin(extent)) for extent in reversed(extents)]
            assert differ(store, store.loops[0][0], 0)


def test_a_divisor_of_an_inner_loop_is_another_number_in_each_iteration() -> None:
    """``f // (j + 1)`` and ``f % (j + 1)`` do not determine ``f``: 5 and 7 give (2, 1)."""
    f, j = Axis("f", 10), Axis("j", 5)
    size = Lin.of(j) + 1
    pairs = [(Lin.of(kind(Lin.of(f), size)),) * 2 for kind in (Div, Mod)]
    assert implied_pairs(pairs, Ranges(), Ranges()) == [(Lin.of(f), Lin.of(f))]
    assert implied_pairs(pairs, Ranges(), Ranges(), {f, j}) == []
    store = Stored(((f, 10), (j, 5)), [f // (j + 1), f % (j + 1)], [])
    assert differ(store, f, 0) is None


def test_a_loop_inside_of_a_number_that_stays_is_no_digit() -> None:
    """Both digits are used, but the number of elements is no multiple of 5."""
    f, count = Axis("f", N * 3), N * 3
    store = Stored(((f, count),), [f // 5, f % 5], [])
    assert covered_box([piece_of(store.lins, [(f, f, to_lin(count))], [], store.ranges)]) is None
    assert isinstance(N, Var)


def access(at: Sequence[Any], loops: Sequence[tuple[Axis, Any]], *conds: Expr) -> Access:
    store = Stored(tuple(loops), list(at), list(conds))
    extents = tuple((axis, to_lin(extent)) for axis, extent in loops)
    return Access(tuple(store.lins), extents, tuple(conds), store.ranges)


def test_a_loop_of_the_second_iteration_has_its_own_range() -> None:
    """``j < 10 - i`` for another ``i`` than that of the condition: 24 is 4*6 and 4*5 + 4."""
    i, j = Axis("i", 8), Axis("j", 10)
    one = access([i * 4], [(i, 8)], i >= 6)
    two = access([i * 4 + j], [(i, 8), (j, 10 - i)])
    assert always_differ(SecondIteration(i, one, two, {i, j}), counting=False) is None


def test_a_loop_of_the_second_iteration_is_not_empty_there() -> None:
    """The second access is in iterations from 3 on; 12 is 4*2 + 4 and 4*3."""
    i, j, k = Axis("i", 8), Axis("j", 8), Axis("k", 8)
    one = access([i * 4 + k], [(i, 8), (k, 7 - i)])
    two = access([i * 4], [(i, 8), (j, i - 2)])
    assert always_differ(SecondIteration(i, one, two, {i, j, k}), counting=False) is None


def test_two_loops_that_may_be_empty_cover_no_box() -> None:
    """Without sizes, both loops are empty, but (n - 3)*(m - 3) is 9."""
    x, y = Axis("x", N - 3), Axis("y", M - 3)
    loops = [(axis, axis, to_lin(axis.extent)) for axis in (x, y)]
    assert covered_box([piece_of([to_lin(x * (M - 3) + y)], loops, [], Ranges())]) is None
    x, y = Axis("x", N + 3), Axis("y", M - 3)
    loops = [(axis, axis, to_lin(axis.extent)) for axis in (x, y)]
    assert covered_box([piece_of([to_lin(x * (M - 3) + y)], loops, [], Ranges())]) is not None


def test_division_by_an_atom_that_prints_like_another_ends() -> None:
    one, two = (to_lin(Axis("i", 9) // N) for _ in range(2))
    assert {exact_quotient(one * two, part) for part in (one, two)} <= {one, two, None}
