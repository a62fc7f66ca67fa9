"""Bounds of index polynomials: integer intervals, and symbolic bounds if there are sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import gcd

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.linear import ZERO, Atom, Div, Extreme, Lin, Mod, Opaque, Product
from schedlang.index.polynomial import polynomial, quick
from schedlang.index.rules import Interval, extreme, floordiv, mod

UNBOUNDED: Interval = (None, None)


class Ranges:
    """The inclusive ranges of the loop variables in scope.

    An axis without an entry has its declared range. Sizes are 0 or more. ``facts`` are polynomials
    that are at most 0, because of conditions that hold.
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
        found = self.known.get(var)
        if found is not None:
            return found
        if isinstance(var, Axis):
            lo = _declared(var.lo)
            found = (lo, lo + _declared(var.extent) - 1)
            self.known[var] = found
            return found
        return ZERO, None

    def interval(self, lin: Lin) -> Interval:
        """Return the least and largest value of ``lin``; ``None`` where no bound is known."""
        low: int | None = 0
        high: int | None = 0
        for product, coef in lin.terms.items():
            if not product:
                a: int | None = coef
                b: int | None = coef
            else:
                a, b = self._product(product)
                a, b = (_scale(a, coef), _scale(b, coef))
                if coef < 0:
                    a, b = b, a
            low = None if low is None or a is None else low + a
            high = None if high is None or b is None else high + b
            if low is None and high is None:
                return UNBOUNDED
        return low, high

    def _product(self, product: Product) -> Interval:
        result = self.of_atom(product[0])
        for atom in product[1:]:
            result = _times(result, self.of_atom(atom))
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
            lows, highs = zip(*(self.interval(arg) for arg in atom.args))
            if atom.op == "min":
                return _all(min, lows), _any(min, highs)
            return _any(max, lows), _all(max, highs)
        low, high = self.interval(atom.num)
        den = atom.den.const
        if den is None or den <= 0:
            # for a divisor of 0 or more, a remainder and the quotient of a dividend of 0 or more
            # are 0 or more
            least = self.interval(atom.den)[0]
            above = isinstance(atom, Mod) or (low is not None and low >= 0)
            return (0, None) if least is not None and least >= 0 and above else UNBOUNDED
        if isinstance(atom, Div):
            return (None if low is None else low // den, None if high is None else high // den)
        if low is not None and high is not None and low // den == high // den:
            return low % den, high % den
        return 0, den - 1

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
            for times in _multiples(lin, fact):
                rest = lin + fact * times
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
        bound = _without_div(bound)
        low = self.interval(bound)[0]
        return (low is not None and low >= 0) or _coefficients_nonneg(bound, self)

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
    """Return factors by which to add ``fact`` to ``lin``: 1, and those that cancel a term."""
    found = {1}
    for product, coef in fact.terms.items():
        times, left = divmod(-lin.terms.get(product, 0), coef)
        if product and times > 0 and not left:
            found.add(times)
    return sorted(found)


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


def occupied(extent: Lin) -> tuple[Lin, ...]:
    """Return polynomials that are at most 0 if ``extent`` is at least 1, as inside its loop."""
    if extent.const is not None:
        return ()
    found = [Lin.of(1) - extent]
    rounded = extent - extent.offset
    if len(rounded.terms) == 1:
        ((product, coef),) = rounded.terms.items()
        atom = product[0]
        least = 1 - extent.offset
        if coef == 1 and len(product) == 1 and isinstance(atom, (Div, Mod)):
            # a lower bound of a quotient, or of a size's remainder, bounds the dividend
            if isinstance(atom, Div) and atom.den.const is not None and atom.den.const > 0:
                found.append(atom.den * least - atom.num)
            elif isinstance(atom, Mod) and Ranges().nonneg(atom.num) and Ranges().nonneg(atom.den):
                found.append(Lin.of(least) - atom.num)
    return tuple(found)


def without_extreme(lin: Lin) -> tuple[bool, tuple[Lin, ...]] | None:
    """Return ``lin`` with one ``min`` or ``max`` replaced by each of its arguments.

    The flag says whether ``lin`` is the smallest of these polynomials, so that a lower bound must
    hold for all, or the largest, so that it must hold for one. If there are several ``min`` and
    ``max``, one for which it must hold for all is replaced first: which argument of the others
    suffices may depend on the case.
    """
    found = [
        ((p[0].op == "min") == (coef > 0), p, coef, p[0])
        for p, coef in lin.terms.items() if len(p) == 1 and isinstance(p[0], Extreme)
    ]  # fmt: skip
    if not found:
        return None
    smallest, product, coef, atom = next((f for f in found if f[0]), found[0])
    rest = lin - Lin({product: coef})
    return smallest, tuple(rest + arg * coef for arg in atom.args)


def _scale(value: int | None, coef: int) -> int | None:
    return None if value is None else value * coef


Pick = Callable[[Iterable[int]], int]


def _all(pick: Pick, values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return pick(known) if len(known) == len(values) else None


def _any(pick: Pick, values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return pick(known) if known else None


def _times(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        ends = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(ends), max(ends)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        high = None if a[1] is None or b[1] is None else a[1] * b[1]
        return a[0] * b[0], high
    return UNBOUNDED


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


def _without_div(lin: Lin) -> Lin:
    """Return ``lin`` with each ``d * (x // d)`` replaced by ``x - x % d``, so that terms cancel.

    Nested quotients come first, since their dividends may cancel others. Beside ``x // a``,
    ``b * (x // (a*b))`` is replaced by ``x // a - x // a % b``.
    """
    result = lin
    while True:
        found = [
            (_depth(atom), product, position, atom)
            for product in result.terms
            for position, atom in enumerate(product) if isinstance(atom, Div)
        ]  # fmt: skip
        for _, product, position, quotient in sorted(found, key=lambda x: -x[0]):
            coef = result.terms[product]
            rest = Lin({product[:position] + product[position + 1 :]: coef})
            whole = _replaced(quotient, rest, result)
            if whole is not None:
                result = result - Lin({product: coef}) + whole
                break
        else:
            return result


def _depth(quotient: Div) -> int:
    """Return how many quotients are nested in ``quotient``, itself included."""
    return 1 + max((_depth(a) for a in quotient.num.atoms() if isinstance(a, Div)), default=0)


def _replaced(quotient: Div, factor: Lin, lin: Lin) -> Lin | None:
    """Return ``factor * quotient`` without that quotient, a term of ``lin``, if possible."""
    for num, den in _dividends(quotient, lin):
        times = _multiple(factor, den)
        if times is not None:
            return (num - mod(num, den, Ranges())) * times
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


def lower(lin: Lin, ranges: Ranges) -> Lin | None:
    """Return a lower bound of ``lin`` without loop variables of ``ranges``, if one is known."""
    bound = upper(-lin, ranges)
    return None if bound is None else -bound


def upper(lin: Lin, ranges: Ranges) -> Lin | None:
    """Return an upper bound of ``lin`` without loop variables of ``ranges``, if one is known."""
    current = lin
    for _ in range(64):
        var = next((leaf for leaf in _axes(current)), None)
        if var is None:
            return current
        lo, hi = ranges.of(var)
        bound = None if hi is None else relax(current, var, lo, hi, ranges, up=True)
        if bound is None:
            return None
        current = bound
    return None


def _axes(lin: Lin) -> list[Axis]:
    return [leaf for leaf in lin.leaves() if isinstance(leaf, Axis)]


def relax(lin: Lin, var: Axis | Var, lo: Lin, hi: Lin, ranges: Ranges, up: bool) -> Lin | None:
    """Return the largest (``up``) or smallest value of ``lin`` while ``var`` runs over ``lo..hi``.

    The value is exact if ``var`` occurs in one term, and a safe bound if it occurs in several.
    Return ``None`` if no bound is known.
    """
    result = ZERO
    for product, coef in lin.terms.items():
        if not _mentions(product, var):
            result = result + Lin({product: coef})
            continue
        bound = _relax_product(product, var, lo, hi, ranges, up == (coef > 0))
        if bound is None:
            return None
        result = result + bound * coef
    return result


def _mentions(product: Product, var: Axis | Var) -> bool:
    if any(atom is var for atom in product):
        return True
    inner = [a for a in product if not isinstance(a, (Axis, Var))]
    return any(leaf is var for a in inner for leaf in Lin.of(a).leaves())


def _relax_product(
    product: Product, var: Axis | Var, lo: Lin, hi: Lin, ranges: Ranges, up: bool
) -> Lin | None:
    if len(product) == 1:
        return _relax_atom(product[0], var, lo, hi, ranges, up)
    result = Lin.of(1)
    for atom in product:
        low = ranges.of_atom(atom)[0]
        if low is None or low < 0:
            return None
        if atom is var or _mentions((atom,), var):
            bound = _relax_atom(atom, var, lo, hi, ranges, up)
            if bound is None:
                return None
            result = result * bound
        else:
            result = result * Lin.of(atom)
    return result


def _relax_atom(
    atom: Atom, var: Axis | Var, lo: Lin, hi: Lin, ranges: Ranges, up: bool
) -> Lin | None:
    if atom is var:
        return hi if up else lo
    if isinstance(atom, Opaque):
        return None
    if isinstance(atom, Extreme):
        args = [relax(a, var, lo, hi, ranges, up) for a in atom.args]
        known = [a for a in args if a is not None]
        # any argument is an upper bound of min, and a lower bound of max
        if len(known) < len(args) and (atom.op == "min") != up:
            return None
        return extreme(atom.op, known, ranges) if known else None
    if isinstance(atom, (Axis, Var)) or _mentions_lin(atom.den, var):
        return None
    least = ranges.interval(atom.den)[0]
    if least is None or least < 0:
        return None
    if isinstance(atom, Div):
        bound = relax(atom.num, var, lo, hi, ranges, up)
        return None if bound is None else floordiv(bound, atom.den, ranges)
    low = relax(atom.num, var, lo, hi, ranges, False)
    high = relax(atom.num, var, lo, hi, ranges, True)
    den = atom.den.const
    if low is not None and high is not None and den:
        first, last = floordiv(low, atom.den, ranges), floordiv(high, atom.den, ranges)
        if first == last:
            return (high if up else low) - first * den
    return (atom.den - 1) if up else ZERO


def _mentions_lin(lin: Lin, var: Axis | Var) -> bool:
    return any(leaf is var for leaf in lin.leaves())


def weak_range(value: Expr) -> Interval:
    """Return the least and largest value of an index expression, by its axes' declared ranges."""
    return Ranges().interval(_declared(value))


def _declared(value: Expr | int) -> Lin:
    """Return ``value`` as a polynomial, simplified under the declared ranges of its axes."""
    if isinstance(value, int):
        return Lin.of(value)
    found = quick(value)
    return polynomial(value, {}, Ranges()) if found is None else found
