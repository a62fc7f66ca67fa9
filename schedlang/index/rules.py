"""The rules that simplify ``//``, ``%``, min and max of index polynomials under known ranges."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Protocol

from schedlang.expr.nodes import Binary
from schedlang.index.intervals import Interval
from schedlang.index.linear import ZERO, Div, Extreme, Lin, Mod, Opaque, to_expr


class Known(Protocol):
    """The interface of :class:`schedlang.index.ranges.Ranges` that the rules use."""

    def interval(self, lin: Lin) -> Interval: ...

    def nonneg(self, lin: Lin) -> bool: ...

    def le(self, a: Lin, b: Lin) -> bool: ...


def split_multiples(num: Lin, den: int) -> tuple[Lin, Lin]:
    """Return ``(q, r)`` with ``num == q*den + r``.

    No coefficient of ``r`` is a multiple of ``den``.
    """
    quotient: dict[tuple, int] = {}
    rest: dict[tuple, int] = {}
    for product, coef in num.terms.items():
        q, r = (coef // den, coef % den) if not product or coef % den == 0 else (0, coef)
        if q:
            quotient[product] = q
        if r:
            rest[product] = r
    return Lin(quotient), Lin(rest)


def _coarse(rest: Lin, den: int, ranges: Known) -> tuple[Lin, int, Lin] | None:
    """Return ``(coarse, g, fine)`` with ``rest == g*coarse + fine``, if found.

    ``g`` divides ``den``, and ``0 <= fine < g``.
    """
    grains = sorted({gcd(c, den) for p, c in rest.terms.items() if p} - {1}, reverse=True)
    for grain in grains:
        coarse, fine = split_multiples(rest, grain)
        low, high = ranges.interval(fine)
        if low is not None and high is not None and 0 <= low and high < grain:
            return coarse, grain, fine
    return None


def floordiv(num: Lin, den: Lin, ranges: Known) -> Lin:
    """Return ``num // den``, rounded down.

    For a negative constant ``den``, both signs are flipped first.
    """
    d = den.const
    if d is None:
        return _symbolic_div(num, den, ranges)
    if d == 1:
        return num
    if d < 0:
        return floordiv(-num, Lin.of(-d), ranges)
    if d == 0:
        return Lin.of(Div(num, den))
    if num.const is not None:
        return Lin.of(num.const // d)
    quotient, rest = split_multiples(num, d)
    if not rest.terms:
        return quotient
    low, high = ranges.interval(rest)
    if low is not None and high is not None and low // d == high // d:
        return quotient + low // d
    grid = _coarse(rest, d, ranges)
    if grid is not None:
        coarse, grain, _ = grid
        return quotient + floordiv(coarse, Lin.of(d // grain), ranges)
    inner = single_atom(rest)
    if isinstance(inner, Div) and inner.den.const:
        return quotient + floordiv(inner.num, Lin.of(inner.den.const * d), ranges)
    return quotient + Lin.of(Div(rest, den))


def mod(num: Lin, den: Lin, ranges: Known) -> Lin:
    """Return ``num % den``, which has the sign of ``den``."""
    d = den.const
    if d is None:
        quotient = _symbolic_quotient(num, den, ranges)
        return Lin.of(Mod(num, den)) if quotient is None else num - quotient * den
    if d == 1:
        return ZERO
    if d < 0:
        return -mod(-num, Lin.of(-d), ranges)
    if d == 0:
        return Lin.of(Mod(num, den))
    if num.const is not None:
        return Lin.of(num.const % d)
    _, rest = split_multiples(num, d)
    low, high = ranges.interval(rest)
    if low is not None and high is not None and low // d == high // d:
        return rest - (low // d) * d
    grid = _coarse(rest, d, ranges)
    if grid is not None:
        coarse, grain, fine = grid
        return mod(coarse, Lin.of(d // grain), ranges) * grain + fine
    inner = single_atom(rest)
    if isinstance(inner, Mod) and inner.den.const and inner.den.const % d == 0:
        return mod(inner.num, den, ranges)
    return Lin.of(Mod(rest, den))


def xor(a: Lin, b: Lin) -> Lin:
    """Return the exclusive or of the bits of two numbers.

    >>> print(xor(Lin.of(6), Lin.of(3)), xor(Lin.of(6), ZERO))
    5 6
    """
    if a.const is not None and b.const is not None:
        return Lin.of(a.const ^ b.const)
    if not b.terms:
        return a
    return b if not a.terms else Lin.of(Opaque(Binary("^", to_expr(a), to_expr(b), "int64", True)))


def single_atom(lin: Lin) -> object:
    """Return the atom that ``lin`` consists of, if it is a single one."""
    if len(lin.terms) == 1:
        ((product, coef),) = lin.terms.items()
        if coef == 1 and len(product) == 1:
            return product[0]
    return None


def _symbolic_quotient(num: Lin, den: Lin, ranges: Known) -> Lin | None:
    """Return ``num // den`` if ``den`` divides all of ``num`` but a rest in ``0..den`` or -1."""
    if not num.terms:
        return ZERO
    if num.const == -1 and ranges.nonneg(den):
        return Lin.of(-1)
    if len(den.terms) != 1:
        return ZERO if _fits(num, den, ranges) else None
    ((divisor, factor),) = den.terms.items()
    quotient: dict[tuple, int] = {}
    rest: dict[tuple, int] = {}
    for product, coef in num.terms.items():
        left = _divide(product, divisor)
        if left is None or coef % factor:
            rest[product] = coef
        else:
            quotient[left] = quotient.get(left, 0) + coef // factor
    left_over = Lin(rest)
    if not left_over.terms:
        return Lin(quotient)
    if left_over.const == -1 and ranges.nonneg(den):
        return Lin(quotient) - 1
    return Lin(quotient) if _fits(left_over, den, ranges) else None


def _divide(product: tuple, divisor: tuple) -> tuple | None:
    left = list(product)
    for atom in divisor:
        position = next((k for k, other in enumerate(left) if other is atom), None)
        if position is None:
            return None
        del left[position]
    return tuple(left)


def _fits(rest: Lin, den: Lin, ranges: Known) -> bool:
    """Return whether ``0 <= rest < den`` is proven."""
    return ranges.nonneg(rest) and ranges.nonneg(den - rest - 1)


def _symbolic_div(num: Lin, den: Lin, ranges: Known) -> Lin:
    quotient = _symbolic_quotient(num, den, ranges)
    return Lin.of(Div(num, den)) if quotient is None else quotient


def extreme(op: str, args: Iterable[Lin], ranges: Known) -> Lin:
    """Return ``min`` or ``max`` of ``args``, without the arguments that are provably redundant."""
    flat: list[Lin] = []
    for arg in args:
        atom = single_atom(arg)
        flat.extend(atom.args if isinstance(atom, Extreme) and atom.op == op else (arg,))
    needed = _prune(op, flat, ranges)
    if len(needed) > 1:
        parts = [_shifted_parts(op, arg) for arg in needed]
        count = sum(map(len, parts))
        if count > len(needed):
            # for example, max(max(a, 0) - 2, 0) becomes max(a - 2, 0)
            flattened = _prune(op, [part for inner in parts for part in inner], ranges)
            needed = flattened if len(flattened) < count else needed
    needed = _prune_by_all(op, needed, ranges)
    return needed[0] if len(needed) == 1 else Lin.of(Extreme(op, tuple(needed)))


def _prune_by_all(op: str, args: list[Lin], ranges: Known) -> list[Lin]:
    """Return ``args`` without those that all others together make redundant.

    An example is the 0 in ``max(i - 1, 1 - i, 0)``.
    """
    needed = list(args)
    for arg in args:
        others = [other for other in needed if other is not arg]
        if len(others) > 1 and _beats(op, Lin.of(Extreme(op, tuple(others))), arg, ranges):
            needed = others
    return needed


def _shifted_parts(op: str, arg: Lin) -> list[Lin]:
    """Return the arguments of a nested ``op`` in ``arg``, with the constant of ``arg`` added."""
    rest = arg - arg.offset
    atom = single_atom(rest)
    if isinstance(atom, Extreme) and atom.op == op:
        return [part + arg.offset for part in atom.args]
    return [arg]


def _prune(op: str, args: list[Lin], ranges: Known) -> list[Lin]:
    """Return ``args`` without those that another one makes redundant."""
    needed: list[Lin] = []
    for arg in args:
        if any(_beats(op, other, arg, ranges) for other in needed):
            continue
        needed = [other for other in needed if not _beats(op, arg, other, ranges)]
        needed.append(arg)
    return needed


def _beats(op: str, a: Lin, b: Lin, ranges: Known) -> bool:
    """Return whether ``a`` makes ``b`` redundant in ``op``."""
    if a == b:
        return True
    return ranges.le(a, b) if op == "min" else ranges.le(b, a)
