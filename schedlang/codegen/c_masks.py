"""Comparisons of indices that hold for the first lanes of a vector, or for all but these."""

from __future__ import annotations

from typing import NamedTuple, Optional

from schedlang.expr.dtypes import INDEX as INDEX_DTYPE
from schedlang.machine import nodes as m
from schedlang.machine.nodes import INDEX, Num, Op, Value


class FirstLanes(NamedTuple):
    """The lanes whose ``start + step * lane`` is below ``end``; all others if ``negated``.

    Both are scalars, and ``step`` is above 0. One of them may be any number of an array.
    """

    start: Value
    step: int
    end: Value
    negated: bool


class _Steps(NamedTuple):
    """The index ``step * lane + number`` and scalars: those in ``plus`` less those in ``minus``."""

    step: int
    number: int
    plus: tuple[Value, ...] = ()
    minus: tuple[Value, ...] = ()

    @property
    def negative(self) -> _Steps:
        return _Steps(-self.step, -self.number, self.minus, self.plus)

    def times(self, factor: int) -> _Steps:
        """Return the product with a number."""
        if factor < 0:
            return self.negative.times(-factor)
        plus, minus = (
            tuple(Op("*", term, Num(factor), INDEX, True) for term in terms)
            for terms in (self.plus, self.minus)
        )
        return _Steps(self.step * factor, self.number * factor, plus, minus)

    def __add__(self, other: _Steps) -> _Steps:  # type: ignore[override]
        return _Steps(
            self.step + other.step, self.number + other.number, self.plus + other.plus,
            self.minus + other.minus,
        )  # fmt: skip


def lanes_that_hold(test: Op) -> Optional[FirstLanes]:
    """Return the lanes for which a comparison holds, if they are the first ones, or all others.

    Its operands are indices, of which one grows from lane to lane. Indices never overflow.
    """
    a, b = _steps(test.a), _steps(test.b)
    if a is None or b is None or test.op not in ("<", ">=", "<=", ">"):
        return None
    less, strict = test.op in ("<", "<="), test.op in ("<", ">=")
    if a.step < b.step:
        a, b, less, strict = b, a, not less, not strict
    step = a.step - b.step
    if step == 0:
        return None
    if not strict:
        # at the side with a lane, which is an index: the other one may be the largest number
        a, b = (a + _Steps(0, -1), b) if a.step else (a, b + _Steps(0, 1))
    return FirstLanes(_value(a), step, _value(b), not less)


def first_lanes(mask: Value) -> int:
    """Return how many first lanes ``mask`` has, if that is known; 0 if it has all or none."""
    held = lanes_that_hold(mask) if isinstance(mask, Op) else None
    if held is None or held.negated:
        return 0
    if not isinstance(held.start, Num) or not isinstance(held.end, Num):
        return 0
    count = -((held.start.value - held.end.value) // held.step)
    return int(count) if 0 < count < mask.type.lanes else 0


def _steps(value: Value) -> Optional[_Steps]:
    """Return an index as a product of the lane and a sum of scalars."""
    if value.type.dtype != INDEX_DTYPE:
        return None
    if isinstance(value, m.Splat):
        return _steps(value.a)
    if isinstance(value, m.Iota):
        return _Steps(1, 0)
    if isinstance(value, Num):
        return _Steps(0, int(value.value))
    if isinstance(value, Op) and value.index and value.op in "+-*" and value.type.lanes:
        a, b = _steps(value.a), _steps(value.b)
        if a is None or b is None:
            return None
        if value.op == "*":
            if b.step or b.plus or b.minus:
                a, b = b, a
            return None if b.step or b.plus or b.minus else a.times(b.number)
        return a + (b if value.op == "+" else b.negative)
    return _Steps(0, 0, (value,)) if not value.type.lanes else None


def _value(sum_: _Steps) -> Value:
    """Return a sum without a lane as a value."""
    terms = [*sum_.plus]
    if sum_.number > 0 or not terms:
        terms.append(Num(sum_.number))
    value = terms[0]
    for term in terms[1:]:
        value = Op("+", value, term, INDEX, True)
    subtracted = [*sum_.minus, *([Num(-sum_.number)] if sum_.number < 0 and sum_.plus else [])]
    for term in subtracted:
        value = Op("-", value, term, INDEX, True)
    return value
