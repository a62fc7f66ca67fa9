"""Bounds of index polynomials: integer intervals, and symbolic bounds if there are sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import gcd

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.intervals import UNBOUNDED, Interval, plus, quotient, remainder, scale, times
from schedlang.index.intervals import extreme as bounds_of_extreme
from schedlang.index.linear import ZERO, Atom, Div, Extreme, Lin, Opaque, Product
from schedlang.index.polynomial import polynomial, quick
from schedlang.index.quotients import without_quotients
from schedlang.index.relax import lower, upper_over_outer, without_extreme


class Ranges:
    """The inclusive ranges of the loop variables in scope.

    An axis without an entry has its declared range. Sizes are 0 or more. ``facts`` are polynomials
    that are at most 0, because of conditions that hold.

    >>> i, n = Lin.of(Axis("i", 8)), Lin.of(Var("n"))
    >>> Ranges().interval(i * 4 + 3), Ranges().interval(n - 1)
    ((3, 31), (-1, None))
    >>> Ranges().nonneg(n - i - 1), Ranges(facts=(i - n + 1,)).nonneg(n - i - 1)
    (False, True)
    """

    def __init__(
        self,
        known: Mapping[Axis | Var, tuple[Lin, Lin]] | tuple[()] = (),
        facts: tuple[Lin, ...] = (),
    ) -> None:
        self.known: dict[Axis | Var, tuple[Lin, Lin]] = dict(known)
        self.facts = facts
        self._cache: dict[Axis | Var, Interval] = {}
        self._bare: Ranges | None = None if facts else self

    def extended(self, var: Axis | Var, lo: Lin, hi: Lin) -> Ranges:
        child = Ranges(self.known, self.facts)
        child.known[var] = (lo, hi)
        child._cache = dict(self._cache)
        child._cache.pop(var, None)
        return child

    def assuming(self, facts: tuple[Lin, ...]) -> Ranges:
        if not facts:
            return self
        return self._sharing(self.facts + facts)

    def learn(self, var: Axis | Var, lo: Lin, hi: Lin) -> None:
        """Set the range of ``var`` in place."""
        self.known[var] = (lo, hi)
        self._cache.pop(var, None)

    def _sharing(self, facts: tuple[Lin, ...]) -> Ranges:
        """Return the same ranges with other facts; both share their tables."""
        child = Ranges((), facts)
        child.known, child._cache = self.known, self._cache
        return child

    @property
    def bare(self) -> Ranges:
        """The same ranges without facts, under which bounds are relaxed, so that proofs end."""
        if self._bare is None:
            self._bare = self._sharing(())
        return self._bare

    def of(self, var: Axis | Var) -> tuple[Lin, Lin | None]:
        ends = self.known.get(var)
        if ends is not None:
            return ends
        if isinstance(var, Axis):
            lo = _declared(var.lo)
            ends = (lo, lo + _declared(var.extent) - 1)
            self.known[var] = ends
            return ends
        return ZERO, None

    def interval(self, lin: Lin) -> Interval:
        """Return the least and largest value of ``lin``; ``None`` where no bound is known."""
        total: Interval | None = None
        for product, coef in lin.terms.items():
            part = self._product(product) if product else (coef, coef)
            if product and coef != 1:
                part = scale(part, coef)
            total = part if total is None else plus(total, part)
        return (0, 0) if total is None else total

    def _product(self, product: Product) -> Interval:
        result = self.of_atom(product[0])
        for atom in product[1:]:
            result = times(result, self.of_atom(atom))
        return result

    def of_atom(self, atom: Atom) -> Interval:
        """Return the least and largest value of an atom; ``None`` where no bound is known."""
        if isinstance(atom, (Axis, Var)):
            cached = self._cache.get(atom)
            if cached is None:
                lo, hi = self.of(atom)
                cached = (self.interval(lo)[0], None if hi is None else self.interval(hi)[1])
                self._cache[atom] = cached
            return cached
        if isinstance(atom, Opaque):
            return UNBOUNDED
        if isinstance(atom, Extreme):
            return bounds_of_extreme(atom.op, map(self.interval, atom.args))
        divided = quotient if isinstance(atom, Div) else remainder
        return divided(self.interval(atom.num), self.interval(atom.den))

    def nonneg(self, lin: Lin) -> bool:
        """Return whether ``lin >= 0`` is proven."""
        low = self.interval(lin)[0]
        if low is not None and low >= 0:
            return True
        if not self.facts and not self._symbolic(lin) and without_extreme(lin) is None:
            return False
        if self._bounded(lin):
            return True
        for fact in self.facts:
            for factor in _multiples(lin, fact):
                rest = lin + fact * factor
                low = self.interval(rest)[0]
                if low is not None and low >= 0:
                    return True
                if self._symbolic(rest) and self._bounded(rest):
                    return True
        cases = without_extreme(lin)
        if cases is None:
            return False
        every, args = cases
        if every:
            return all(map(self.nonneg, args))
        return any(map(self.nonneg, args)) or any(map(self.nonneg, _mixtures(args)))

    def _bounded(self, lin: Lin) -> bool:
        """Return whether a lower bound of ``lin`` over sizes alone is 0 or more."""
        bound = lower(lin, self.bare)
        if bound is None:
            return False
        bound = without_quotients(bound, Ranges())
        low = self.interval(bound)[0]
        if (low is not None and low >= 0) or _coefficients_nonneg(bound, self):
            return True
        # a quotient of the variable of an outer loop, such as the extent of a split loop in it
        outer = upper_over_outer(-lin, self.bare)
        if outer is None or outer == -lin:
            return False
        low = self.interval(without_quotients(-outer, self.bare))[0]
        return low is not None and low >= 0

    def _symbolic(self, lin: Lin) -> bool:
        for leaf in lin.leaves():
            if isinstance(leaf, Var):
                return True
            if isinstance(leaf, Axis):
                lo, hi = self.of(leaf)
                if lo.const is None or hi is None or hi.const is None:
                    return True
        return False

    def le(self, a: Lin, b: Lin) -> bool:
        """Return whether ``a <= b`` is proven."""
        return self.nonneg(b - a)


def _multiples(lin: Lin, fact: Lin) -> list[int]:
    """Return factors to add ``fact`` to ``lin`` with: 1, and the factors that cancel a term."""
    factors = {1}
    for product, coef in fact.terms.items():
        times, remainder = divmod(-lin.terms.get(product, 0), coef)
        if product and times > 0 and not remainder:
            factors.add(times)
    return sorted(factors)


def _mixtures(args: Sequence[Lin]) -> Iterator[Lin]:
    """Yield ``k*(a + 1) + m*(b + 1) - 1`` for pairs of ``args`` and weights that cancel a term.

    If it is at least 0, so is the larger of ``a`` and ``b``: if both were at most -1, it would be
    at most -1.
    """
    for a, b in combinations(args, 2):
        weights = set()
        for product, coef in a.terms.items():
            other = b.terms.get(product, 0)
            if product and coef * other < 0:
                common = gcd(coef, other)
                weights.add((abs(other) // common, abs(coef) // common))
        for k, m in sorted(weights):
            yield (a + 1) * k + (b + 1) * m - 1


def _coefficients_nonneg(lin: Lin, ranges: Ranges) -> bool:
    """Return whether a polynomial over sizes is 0 or more because each of its terms is."""
    for product, coef in lin.terms.items():
        if coef < 0:
            return False
        for atom in product:
            low = ranges.of_atom(atom)[0]
            if low is None or low < 0:
                return False
    return True


def weak_range(value: Expr) -> Interval:
    """Return the least and largest value of an index expression, by its axes' declared ranges."""
    return Ranges().interval(_declared(value))


def _declared(value: Expr | int) -> Lin:
    """Return ``value`` as a polynomial, simplified under the declared ranges of its axes."""
    if isinstance(value, int):
        return Lin.of(value)
    polynomial_ = quick(value)
    return polynomial(value, {}, Ranges()) if polynomial_ is None else polynomial_
