"""Bounds of quotients: ``x//d - y//d``, and ``d*(x//d)`` without the quotient."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.index.linear import Div, Lin
from schedlang.index.rules import Known, mod


def upper_bound(lin: Lin, ranges: Known) -> Lin:
    """Return an upper bound of ``lin``, without ``x//d - y//d`` for a bounded ``x - y``.

    The difference of such quotients is at most ``(x - y) / d``, rounded up.

    >>> from schedlang.expr.nodes import Axis
    >>> from schedlang.index.ranges import Ranges
    >>> i, four = Lin.of(Axis("i", 100)), Lin.of(4)
    >>> upper_bound(Lin.of(Div(i + 6, four)) - Lin.of(Div(i, four)), Ranges())
    2
    """
    for product, coef in lin.terms.items():
        first = product[0] if len(product) == 1 else None
        if coef <= 0 or not isinstance(first, Div):
            continue
        size = first.den.const
        for other, negative in lin.terms.items():
            second = other[0] if len(other) == 1 else None
            if negative != -coef or not isinstance(second, Div) or second.den != first.den:
                continue
            if size is None or size <= 0:
                continue
            high = ranges.interval(first.num - second.num)[1]
            if high is not None:
                rest = lin - Lin({product: coef, other: negative})
                return upper_bound(rest + coef * -(-high // size), ranges)
    return lin


def lower_bound(lin: Lin, ranges: Known) -> Lin:
    """Return a lower bound of ``lin``; see :func:`upper_bound`."""
    return -upper_bound(-lin, ranges)


def dividend(lin: Lin, ranges: Known) -> tuple[Lin, Lin] | None:
    """Return ``(x, d)`` with ``lin == x // d`` and ``d >= 0``, if ``lin`` has that form.

    Facts may bound ``x``; the guard of a fused loop is such a fact.

    >>> from schedlang.expr.nodes import Axis
    >>> from schedlang.index.ranges import Ranges
    >>> dividend(Lin.of(Div(Lin.of(Axis("i", 10)), Lin.of(4))) + 1, Ranges())
    (i + 4, 4)
    """
    for product, coef in lin.terms.items():
        quotient = product[0] if coef == 1 and len(product) == 1 else None
        if isinstance(quotient, Div) and ranges.nonneg(quotient.den):
            rest = lin - Lin.of(quotient)
            return quotient.num + rest * quotient.den, quotient.den
    return None


def at_least(a: Lin, b: Lin, ranges: Known) -> bool:
    """Return whether ``a >= b`` is proven, for quotients by one number also by their dividends.

    >>> from schedlang.expr.nodes import Var
    >>> from schedlang.index.ranges import Ranges
    >>> n, eight = Lin.of(Var("n")), Lin.of(8)
    >>> at_least(Lin.of(Div(n + 7, eight)), Lin.of(Div(n, eight)), Ranges())
    True
    """
    if ranges.nonneg(a - b):
        return True
    one = dividend(a, ranges)
    if one is None:
        return False
    if b.const is not None:
        return ranges.nonneg(one[0] - one[1] * b.const)
    other = dividend(b, ranges)
    return other is not None and one[1] == other[1] and ranges.nonneg(one[0] - other[0])


def within(lin: Lin, size: Lin, ranges: Known) -> bool:
    """Return whether ``0 <= lin < size`` is proven.

    >>> from schedlang.expr.nodes import Axis
    >>> from schedlang.index.ranges import Ranges
    >>> i = Lin.of(Axis("i", 8))
    >>> within(i, Lin.of(8), Ranges()), within(i + 1, Lin.of(8), Ranges())
    (True, False)
    """
    while True:
        if ranges.nonneg(lin) and _less(lin, size, ranges):
            return True
        least, most = lower_bound(lin, ranges), upper_bound(lin, ranges)
        if ranges.nonneg(least) and _less(most, size, ranges):
            return True
        whole = dividend(lin, ranges)
        if whole is None:
            return False
        lin, size = whole[0], size * whole[1]


def _less(lin: Lin, size: Lin, ranges: Known) -> bool:
    """Return whether ``lin < size`` is proven, for ``size == x // d`` also by ``d*(lin + 1) <= x``.

    >>> from schedlang.expr.nodes import Axis, Var
    >>> from schedlang.index.ranges import Ranges
    >>> n, eight = Lin.of(Var("n")), Lin.of(8)
    >>> i = Axis("i", 0)
    >>> whole_tiles = Ranges().extended(i, Lin.of(0), Lin.of(Div(n, eight)) - 1)
    >>> _less(Lin.of(i), Lin.of(Div(n + 7, eight)), whole_tiles)
    True
    """
    if ranges.nonneg(size - lin - 1):
        return True
    whole = dividend(size, ranges)
    return whole is not None and ranges.nonneg(whole[0] - whole[1] * (lin + 1))


def without_quotients(lin: Lin, ranges: Known) -> Lin:
    """Return ``lin`` with each ``d * (x // d)`` replaced by ``x - x % d``, so that terms cancel.

    Nested quotients come first, since their dividends may cancel others. Beside ``x // a``,
    ``b * (x // (a*b))`` is replaced by ``x // a - x // a % b``.

    >>> from schedlang.expr.nodes import Var
    >>> from schedlang.index.ranges import Ranges
    >>> n = Lin.of(Var("n"))
    >>> without_quotients(n - Lin.of(Div(n, Lin.of(8))) * 8, Ranges())
    n%8
    """
    result = lin
    while True:
        quotients = [
            (_depth(atom), product, position, atom)
            for product in result.terms
            for position, atom in enumerate(product)
            if isinstance(atom, Div)
        ]
        for _, product, position, quotient in sorted(quotients, key=lambda x: -x[0]):
            coef = result.terms[product]
            rest = Lin({product[:position] + product[position + 1 :]: coef})
            whole = _replaced(quotient, rest, result, ranges)
            if whole is not None:
                result = result - Lin({product: coef}) + whole
                break
        else:
            return result


def _depth(quotient: Div) -> int:
    """Return how many quotients are nested in ``quotient``, itself included."""
    return 1 + max((_depth(a) for a in quotient.num.atoms() if isinstance(a, Div)), default=0)


def _replaced(quotient: Div, factor: Lin, lin: Lin, ranges: Known) -> Lin | None:
    """Return ``factor * quotient`` without that quotient, a term of ``lin``, if possible."""
    for num, den in _dividends(quotient, lin):
        times = _multiple(factor, den)
        if times is not None:
            return (num - mod(num, den, ranges)) * times
    return None


def _dividends(quotient: Div, lin: Lin) -> Iterator[tuple[Lin, Lin]]:
    """Yield ``(x, d)`` with ``quotient == x // d``; quotients that ``lin`` has come first."""
    size = quotient.den.const
    for atom in lin.atoms():
        if isinstance(atom, Div) and atom.num == quotient.num:
            part = atom.den.const
            if size and part and 1 < part < size and size % part == 0:
                yield Lin.of(atom), Lin.of(size // part)
    yield quotient.num, quotient.den


def _multiple(lin: Lin, den: Lin) -> int | None:
    """Return the integer ``k`` with ``lin == den * k``, if there is one."""
    if len(lin.terms) != 1 or len(den.terms) != 1:
        return None
    ((product, coef),), ((divisor, size),) = lin.terms.items(), den.terms.items()
    return coef // size if product == divisor and coef % size == 0 else None
