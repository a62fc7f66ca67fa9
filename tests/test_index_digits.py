"""Property tests of indices as mixed-radix numbers, against counted writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.boxes import Piece, covered_box, piece_of
from schedlang.index.digits import coefficient, continue_number, radix
from schedlang.index.linear import ONE, Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin

quick = settings(max_examples=100, deadline=None)
Loops = tuple[tuple[Axis, int], ...]


@st.composite
def loops_(draw: st.DrawFn) -> Loops:
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return tuple((Axis(f"a{n}", length), length) for n, length in enumerate(lengths))


@st.composite
def numbers(draw: st.DrawFn, loops: Loops) -> Expr:
    """Draw an index over ``loops``: mostly a mixed-radix number, with the digits in any order."""
    total: Expr = sl.const(draw(st.integers(0, 3)))
    weight = 1
    for axis, length in draw(st.permutations(loops)):
        total = total + axis * draw(st.sampled_from((weight, weight, weight, weight + 1)))
        weight *= length
    return total


def reached(loops: Loops, at: Sequence[Expr], conds: Sequence[Expr]) -> list[tuple[int, ...]]:
    found = []
    for point in product(*(range(length) for _, length in loops)):
        values = {axis: value for (axis, _), value in zip(loops, point)}
        if all(evaluate(cond, values) for cond in conds):
            found.append(tuple(int(evaluate(i, values)) for i in at))
    return found


def piece(loops: Loops, at: Sequence[Expr], conds: Sequence[Expr]) -> Piece:
    ranges = Ranges({axis: (Lin.of(0), Lin.of(length - 1)) for axis, length in loops})
    keyed = [(axis, axis, Lin.of(length)) for axis, length in loops]
    return piece_of([to_lin(i, ranges=ranges) for i in at], keyed, conds, ranges)


def check(pieces: Sequence[tuple[Loops, Sequence[Expr], Sequence[Expr]]]) -> bool:
    """Check a claim that a box is covered once; return whether there is one."""
    box = covered_box([piece(*given) for given in pieces])
    if box is None:
        return False
    spans = [range(*(int(evaluate(to_expr(end), {})) for end in span)) for span in box]
    written = Counter(element for given in pieces for element in reached(*given))
    assert written == Counter(product(*spans))
    return True


@quick
@given(st.data())
def test_a_mixed_radix_number_takes_each_value_once(data: st.DataObject) -> None:
    loops = data.draw(loops_())
    index = data.draw(numbers(loops))
    lin = to_lin(index)
    found = radix(lin, {axis: Lin.of(length) for axis, length in loops}, Ranges())
    if found is not None:
        start, axes, count = found
        inside = tuple((axis, length) for axis, length in loops if axis in axes)
        values = sorted(at for (at,) in reached(inside, [index], []))
        first, length = start.const or 0, count.const or 0
        assert values == list(range(first, first + length))
    for axis, _ in loops:
        factor, rest = coefficient(lin, axis)
        assert factor is not None and factor * Lin.of(axis) + rest == lin


@quick
@given(st.data())
def test_a_covered_box_is_written_once(data: st.DataObject) -> None:
    loops = data.draw(loops_())
    index = data.draw(numbers(loops))
    other = data.draw(numbers(loops[:1]))
    end, start = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 5))
    conds = data.draw(st.lists(st.sampled_from((
        index < end, index >= start, loops[0][0] < start, loops[-1][0].equal(start % 3),
        other < start, (index > 1) & (other < 3), (index < 4) | (other < 2), ~(index.equal(start)),
    )), max_size=2))  # fmt: skip
    width = data.draw(st.integers(1, 4))
    for at in ([index], [other, index], [index // width, index % width]):
        check([(loops, at, conds)])


@quick
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_splits_with_tails_cover_their_axis(count: int, size: int, rest: int, cut: bool) -> None:
    """A guarded split is proven, and so are the main part and the tail of a cut one."""
    rest = min(rest, size - 1)
    whole = count * size + rest
    outer, inner = Axis("outer", count + (rest > 0)), Axis("inner", size)
    if not cut:
        loops = ((outer, count + (rest > 0)), (inner, size))
        at = outer * size + inner
        assert check([(loops, [at], [at < whole])])
        return
    tail = Axis("tail", max(rest, 1))
    parts = [(((outer, count), (inner, size)), [outer * size + inner], [])]
    if rest:
        parts.append((((tail, rest),), [tail + count * size], []))
    assert check(parts)
    if rest > 1:
        # one element of the tail is left out
        last = piece(((tail, rest - 1),), [tail + whole - rest + 1], [])
        assert covered_box([piece(*parts[0]), last]) is None


def test_conditions_that_exclude_each_other_cover_nothing() -> None:
    a = Axis("a", 3)
    for conds in ([a.equal(0), a < 0], [a < 0, a.equal(0)], [a.equal(2), a < 2], [a.equal(1)]):
        check([(((a, 3),), [0 + a], conds)])


def test_digits_that_do_not_follow_are_kept() -> None:
    i, j = Axis("i", 3), Axis("j", 4)
    left = {i: Lin.of(5), j: ONE}
    assert continue_number(left, {i: Lin.of(3), j: Lin.of(4)}, ONE) == Lin.of(4)
    assert left == {i: Lin.of(5)}
    n = sl.var("n")
    number = to_lin(i * n + j)
    found = radix(number, {i: Lin.of(3), j: to_lin(n)}, Ranges())
    assert found is not None and str(to_expr(found[2])) == "n*3"
