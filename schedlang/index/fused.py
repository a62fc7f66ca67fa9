"""Fused loops, apart again: the digits that ``i // n`` and ``i % n`` select.

Extents and divisors may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from schedlang.expr.nodes import Axis
from schedlang.index.digits import has_product
from schedlang.index.division import exact_quotient
from schedlang.index.linear import ONE, ZERO, Atom, Div, Extreme, Lin, Mod, to_expr, total
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme, floordiv, mod, single_atom
from schedlang.index.simplify import merge_div_mod

# the weight and the extent of each digit, the one of weight 1 first
Places = list[tuple[Lin, Lin]]


def places(extent: Lin, divisors: Iterable[Lin], ranges: Ranges) -> Places:
    """Return the digits of the numbers in ``0..extent`` that ``// d`` and ``% d`` can select.

    A divisor is left out unless it is a multiple of the earlier ones or they are multiples of it,
    and ``extent`` is a multiple of all. There is a single digit if no divisor is left. Over digits
    in ``0..`` their extents, the number takes each value of ``0..extent`` once, or none if that is
    empty.

    >>> from schedlang.expr.nodes import Var
    >>> n, m = Lin.of(Var("n")), Lin.of(Var("m"))
    >>> places(n * m * 12, [m * 3, m, Lin.of(5)], Ranges())
    [(1, m), (m, 3), (m*3, n*4)]
    """
    weights = [ONE, extent]
    if extent.const is not None and extent.const < 2:
        return [(ONE, extent)]
    for divisor in divisors:
        below = 0
        while below < len(weights) and exact_quotient(divisor, weights[below]) is not None:
            below += 1
        inside = 0 < below < len(weights) and divisor not in weights
        if inside and exact_quotient(weights[below], divisor) is not None:
            weights.insert(below, divisor)
    digits: Places = []
    for low, high in zip(weights, weights[1:]):
        size = exact_quotient(high, low)
        assert size is not None
        digits.append((low, size))
    return digits if has_product((size for _, size in digits), ranges) else [(ONE, extent)]


def divisors_of(lins: Iterable[Lin], axis: Axis) -> list[Lin]:
    """Return the divisors of quotients and remainders in ``lins`` that select digits of ``axis``.

    >>> i = Axis("i", 24)
    >>> divisors_of([Lin.of(Mod(Lin.of(Div(Lin.of(i), Lin.of(2))), Lin.of(3)))], i)
    [6, 2]
    """
    divisors: dict[Lin, None] = {}
    for lin in lins:
        for atom in divisions(lin):
            own, steps = _steps(atom)
            if own is axis:
                # i%6//2 has the digits of i from 2 on
                *inner, (_, weight) = steps
                for op, divisor in inner:
                    weight = weight * divisor if op is Div else weight
                divisors.setdefault(weight)
    return list(divisors)


def divisions(lin: Lin) -> Iterator[Div | Mod]:
    """Yield the quotients and remainders in ``lin``, also those inside of others."""
    stack: list[Atom] = list(lin.atoms())
    while stack:
        atom = stack.pop()
        if isinstance(atom, (Div, Mod)):
            yield atom
            stack += [*atom.num.atoms(), *atom.den.atoms()]
        elif isinstance(atom, Extreme):
            stack += [part for arg in atom.args for part in arg.atoms()]


def _steps(atom: object) -> tuple[object, list[tuple[type, Lin]]]:
    """Return ``i`` of ``i//4%8``, and the divisions in the order of evaluation."""
    steps: list[tuple[type, Lin]] = []
    while isinstance(atom, (Div, Mod)):
        steps.insert(0, (type(atom), atom.den))
        atom = single_atom(atom.num)
    return atom, steps


@dataclass(frozen=True)
class Separated:
    """A loop ``whole`` as several, innermost first, with their ``places``."""

    whole: Axis
    axes: list[Axis]
    places: Places

    def swap(self, atom: Atom) -> Lin | None:
        """Return the loop, or a quotient or remainder that selects digits of it, as its digits."""
        axis, steps = _steps(atom)
        if axis is not self.whole:
            return None
        first, end = 0, len(self.axes)
        for op, divisor in steps:
            weight = self.places[first][0] * divisor
            at = next((k for k, (own, _) in enumerate(self.places) if own == weight), end)
            if at >= end:
                return None
            first, end = (at, end) if op is Div else (first, at)
        return self._number(first, end)

    def _number(self, first: int, end: int) -> Lin:
        """Return the number that has the digits from ``first`` to ``end``."""
        unit = self.places[first][0]
        parts = []
        for axis, (weight, _) in zip(self.axes[first:end], self.places[first:end]):
            step = exact_quotient(weight, unit)
            assert step is not None
            parts.append(Lin.of(axis) * step)
        return total(parts)


def separate(axis: Axis, extent: Lin, lins: Iterable[Lin], ranges: Ranges) -> Separated | None:
    """Return the loop ``axis`` as the digits that ``lins`` select; ``None`` if it has only one."""
    digit_places = places(extent, divisors_of(lins, axis), ranges)
    return (
        Separated(axis, [digit(size) for _, size in digit_places], digit_places)
        if len(digit_places) > 1
        else None
    )


def digit(extent: Lin) -> Axis:
    """Return a loop variable of a proof."""
    return Axis("digit", to_expr(extent) if extent.const is None else extent.const)


def rebuilt(lin: Lin, swap: Callable[[Atom], Lin | None], ranges: Ranges) -> Lin:
    """Return ``lin`` with atoms replaced by what ``swap`` gives, and simplified.

    Atoms inside of quotients, remainders, ``min`` and ``max`` are replaced, too.

    >>> i, j, k = Axis("i", 8), Axis("j", 4), Axis("k", 32)
    >>> four = Lin.of(4)
    >>> digits = {i: Lin.of(Div(Lin.of(k), four)), j: Lin.of(Mod(Lin.of(k), four))}
    >>> rebuilt(Lin.of(Div(Lin.of(i) * 4 + Lin.of(j), Lin.of(7))), digits.get, Ranges())
    k//7
    """
    result = ZERO
    for product, coef in lin.terms.items():
        term = Lin.of(coef)
        for atom in product:
            new = swap(atom)
            term = term * (_rebuilt(atom, swap, ranges) if new is None else new)
        result = result + term
    return merge_div_mod(result)


def _rebuilt(atom: Atom, swap: Callable[[Atom], Lin | None], ranges: Ranges) -> Lin:
    if isinstance(atom, (Div, Mod)):
        divided = floordiv if isinstance(atom, Div) else mod
        num, den = (rebuilt(part, swap, ranges) for part in (atom.num, atom.den))
        return divided(num, den, ranges)
    if isinstance(atom, Extreme):
        return extreme(atom.op, [rebuilt(arg, swap, ranges) for arg in atom.args], ranges)
    return Lin.of(atom)
