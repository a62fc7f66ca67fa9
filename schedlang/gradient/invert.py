"""The inverse of an index map: the iterations of a stage that read one element of a tensor.

A stage with axes ``x`` reads ``A[f(x)]``. For the element ``e``, the iterations with ``f(x) == e``
are found by solving these equations for the axes, one equation at a time. Axes that are left are
*free*, and the gradient of ``A`` sums over them; an inverse has as few iterations of them as
possible. Equations are linear once quotients and remainders are replaced by digits; the steps are
the steps of Gaussian elimination over the integers, with ranges.

Source: the lifting of iteration domains in TVM's ``te/autodiff/ad_simplify.cc``, which solves the
same systems but keeps the iterations of a stride in one loop with a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.ragged import conjuncts
from schedlang.gradient.simplify import equal
from schedlang.index.conditions import facts_of_extent
from schedlang.index.conjunctions import narrow
from schedlang.index.digits import coefficient
from schedlang.index.linear import ONE, ZERO, Div, Lin, Mod, Opaque, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import ceildiv, to_lin

# where an extent is symbolic, loops count as this long when they are compared
_SYMBOLIC = 2**20


class NotInvertible(Exception):
    """An index at dimension ``dim`` whose iterations only data can tell."""

    def __init__(self, dim: int | None) -> None:
        super().__init__(dim)
        self.dim = dim


@dataclass(frozen=True)
class Inverse:
    """The iterations that read one element.

    ``values`` are the axes of the reader in terms of the element and of ``free`` axes. An iteration
    counts if ``conditions`` hold and if each axis in ``bounds`` has a value in its range.
    ``digits`` are the free axes that a quotient or remainder made. ``splits`` gives for a dimension
    a modulus, if the iterations differ between the residues of the index there.
    """

    values: Mapping[Axis, Lin]
    free: tuple[Axis, ...]
    bounds: tuple[Axis, ...]
    conditions: tuple[Expr, ...]
    digits: frozenset[Axis]
    splits: Mapping[int, int]


def invert(
    axes: Sequence[Axis],
    indices: Sequence[Expr],
    element: Sequence[Lin],
    held: Sequence[Expr] = (),
    row: Axis | None = None,
) -> Inverse | None:
    """Return the iterations over ``axes`` at which ``indices`` are ``element``.

    ``element`` is in terms of other axes. ``held`` are conditions that hold at all iterations of
    interest; they narrow the ranges of axes. The axis ``row`` stays one in the equations, even if
    it has a single value. Return ``None`` if no iteration has these indices.

    Raises :class:`NotInvertible` if an index depends on data that vary between the iterations.

    >>> y, i, e = Axis("y", 30), Axis("i", 3), Axis("e", 63)
    >>> found = invert([y, i], [y * 2 + i], [Lin.of(e)])
    >>> found.values[y], found.values[i], found.free[0].extent, found.splits
    (e//2 - i, i*2 + e%2, 2, {0: 2})
    """
    solver = _Solver(axes, held, row)
    if solver.empty:
        return None
    solver.assume_points([leaf for lin in element for leaf in lin.leaves()])
    for dim, (index, target) in enumerate(zip(indices, element)):
        solver.equations.append((dim, to_lin(index, ranges=solver.ranges) - target))
    for cond in conjuncts(held):
        if isinstance(cond, Binary) and cond.op == "==" and cond.a.dtype == cond.b.dtype == "int64":
            sides = [to_lin(side, ranges=solver.ranges) for side in cond.children]
            solver.equations.append((_HELD, sides[0] - sides[1]))
    solver.run()
    inverse = None if solver.empty else solver.inverse()
    return None if solver.empty else inverse


# an equation comes with the dimension of its index, or None
Equation = tuple["int | None", Lin]
# the dimension of an equation that a condition gives, which need not be solved
_HELD = -1


@dataclass
class _Pivot:
    """A way to solve an equation: for ``axis``, where ``partner`` takes the remainder."""

    cost: int
    axis: Axis
    partner: Axis | None = None


@dataclass
class _Solver:
    """The state of an elimination; each equation is a polynomial that must be 0.

    Axes that are ``unknown`` may still be solved for; those that are ``fixed`` stay free.
    """

    axes: Sequence[Axis]
    held: Sequence[Expr]
    row: Axis | None = None
    ranges: Ranges = field(default_factory=Ranges)
    unknown: dict[Axis, None] = field(default_factory=dict)
    fixed: dict[Axis, None] = field(default_factory=dict)
    equations: list[Equation] = field(default_factory=list)
    values: dict[Axis, Lin] = field(default_factory=dict)
    zeros: list[Lin] = field(default_factory=list)
    digits: set[Axis] = field(default_factory=set)
    splits: dict[int, int] = field(default_factory=dict)
    empty: bool = False

    def __post_init__(self) -> None:
        inside = narrow(Ranges(), [(cond, True) for cond in self.held])
        self.empty = inside is None
        self.ranges = inside or Ranges()
        for axis in self.axes:
            low, high = self.ranges.of(axis)
            if high is not None and high - low == Lin.of(-1):
                self.empty = True
            elif high == low and axis is not self.row:
                self.values[axis] = low
            else:
                self.unknown[axis] = None

    def assume_points(self, leaves: Sequence[object]) -> None:
        """Assume that no axis is empty: there are an element and an iteration."""
        axes = {a: None for a in (*leaves, *self.axes) if isinstance(a, Axis)}
        facts = [fact for axis in axes for fact in facts_of_extent(to_lin(axis.extent))]
        self.ranges = self.ranges.assuming(tuple(facts))

    # the equations

    def run(self) -> None:
        """Solve all equations, those with the fewest new iterations first."""
        for axis, value in list(self.values.items()):
            self._substitute(axis, value)
        while self.equations and not self.empty:
            self._split_into_digits()
            plans = [self._plan(lin) for _, lin in self.equations]
            solvable = [k for k, plan in enumerate(plans) if plan is not None]
            if not solvable:
                dims = [d for d, _ in self.equations if d != _HELD]
                if dims:
                    raise NotInvertible(next((d for d in dims if d is not None), None))
                return
            best = min(solvable, key=lambda k: (plans[k] or _DONE).cost)
            dim, lin = self.equations.pop(best)
            self._solve(dim, lin, plans[best] or _DONE)

    def _unknown_in(self, lin: Lin) -> list[Axis]:
        unknowns: dict[Axis, None] = {}
        for leaf in lin.leaves():
            if isinstance(leaf, Axis) and leaf in self.unknown:
                unknowns.setdefault(leaf)
            elif isinstance(leaf, Opaque):
                unknowns.update(dict.fromkeys(a for a in self.unknown if lin.depends_on({a})))
        return list(unknowns)

    def _terms(self, lin: Lin) -> tuple[dict[Axis, Lin], Lin] | None:
        """Return the factors of unknown axes and the rest, ``None`` if ``lin`` is not linear."""
        factors: dict[Axis, Lin] = {}
        rest = lin
        for axis in self._unknown_in(lin):
            factor, rest = coefficient(rest, axis)
            if factor is None:
                return None
            factors[axis] = factor
        return factors, rest

    def _extent(self, axis: Axis) -> int:
        low, high = self.ranges.interval(Lin.of(axis))
        return _SYMBOLIC if low is None or high is None else max(high - low + 1, 1)

    def _plan(self, lin: Lin) -> _Pivot | None:
        """Return how to solve an equation with the fewest iterations; ``None`` if it cannot be."""
        terms = self._terms(lin)
        if terms is None:
            return None
        factors, _ = terms
        if not factors:
            return _DONE
        if len(factors) == 1 or self._radix(factors) is not None:
            return _Pivot(0, next(iter(factors)))
        sizes = {axis: factor.const for axis, factor in factors.items()}
        if None in sizes.values():
            return None
        common = gcd(*(c for c in sizes.values() if c))
        best: _Pivot | None = None
        for axis, size in sizes.items():
            step = abs(size or 1) // common
            others = [a for a in sizes if a is not axis]
            if step == 1:
                options = [_Pivot(prod(map(self._extent, others)), axis)]
            else:
                options = [
                    _Pivot(
                        prod(self._extent(a) for a in others if a is not partner)
                        * -(-self._extent(partner) // step),
                        axis,
                        partner,
                    )
                    for partner in others
                    if gcd((sizes[partner] or 0) // common, step) == 1
                ]
            for option in options:
                # of equal costs, an axis without remainders is the simpler one
                if best is None or option.cost < best.cost:
                    best = option
                elif option.cost == best.cost and option.partner is None:
                    best = option if best.partner is not None else best
        return best

    def _solve(self, dim: int | None, lin: Lin, plan: _Pivot) -> None:
        terms = self._terms(lin)
        assert terms is not None
        factors, rest = terms
        if not factors:
            self._require_zero(lin)
            return
        sizes = [factor.const for factor in factors.values()]
        if None not in sizes:
            common = gcd(*(c for c in sizes if c))
            if common > 1:
                rest = self._divided(dim, rest, common)
                factors = {axis: Lin.of((f.const or 0) // common) for axis, f in factors.items()}
                lin = rest
                for axis, factor in factors.items():
                    lin = lin + Lin.of(axis) * factor
            if self.empty:
                return
        if len(factors) == 1:
            ((axis, factor),) = factors.items()
            self._solve_alone(axis, factor, rest)
            return
        radix = self._radix(factors)
        if radix is not None:
            self._solve_radix(dim, *radix, lin)
        elif plan.partner is None:
            factor = factors[plan.axis]
            self._set(plan.axis, (lin - Lin.of(plan.axis) * factor) * -(factor.const or 1))
        else:
            self._solve_strided(dim, plan.axis, plan.partner, factors, lin)

    def _divided(self, dim: int | None, rest: Lin, by: int) -> Lin:
        """Return ``rest / by``, and require that the remainder is 0."""
        # of -rest, whose terms in the element are positive
        remainder = mod(-rest, Lin.of(by), self.ranges)
        if remainder.terms:
            self._require_zero(remainder)
            self._differs(dim, by, remainder)
        return -floordiv(-rest, Lin.of(by), self.ranges)

    def _differs(self, dim: int | None, by: int, left: Lin) -> None:
        """Note that a remainder by ``by`` decides the iterations, if the element alone gives it."""
        if dim is not None and dim >= 0 and left.const is None and not self._unknown_in(left):
            before = self.splits.get(dim, 1)
            self.splits[dim] = before * by // gcd(before, by)

    def _solve_alone(self, axis: Axis, factor: Lin, rest: Lin) -> None:
        size = factor.const
        if size in (1, -1):
            self._set(axis, rest * -size)
            return
        # the factor is a size, such as n in i*n
        self._require_zero(mod(-rest, factor, self.ranges))
        self._set(axis, floordiv(-rest, factor, self.ranges))

    def _radix(self, factors: Mapping[Axis, Lin]) -> tuple[Axis, Lin, Lin] | None:
        """Return ``(axis, factor, low)`` if the other terms lie in ``low .. low + |factor|``.

        The equation then has one solution for ``axis``, and one for the other terms.
        """
        for axis, factor in factors.items():
            others = ZERO
            for other, times in factors.items():
                others = others if other is axis else others + Lin.of(other) * times
            if self.ranges.nonneg(-factor):
                factor, others = -factor, -others
            low, high = lower(others, self.ranges), upper(others, self.ranges)
            if low is not None and high is not None:
                if self.ranges.nonneg(factor - 1 - (high - low)):
                    return axis, factors[axis], low
        return None

    def _solve_radix(self, dim: int | None, axis: Axis, factor: Lin, low: Lin, lin: Lin) -> None:
        if self.ranges.nonneg(-factor):
            factor, lin = -factor, -lin
        factors, rest = self._terms(lin) or ({}, lin)
        others = ZERO
        for other, times in factors.items():
            others = others if other is axis else others + Lin.of(other) * times
        target = -rest - low
        self._set(axis, floordiv(target, factor, self.ranges))
        self.equations.append((dim, others - low - mod(target, factor, self.ranges)))

    def _solve_strided(
        self, dim: int | None, axis: Axis, partner: Axis, factors: Mapping[Axis, Lin], lin: Lin
    ) -> None:
        """Solve ``size*axis + other*partner + rest == 0``, where ``partner`` skips by ``size``."""
        size, other = factors[axis].const or 0, factors[partner].const or 0
        step = abs(size)
        target = -(lin - Lin.of(axis) * size - Lin.of(partner) * other)
        for axis_left in self._unknown_in(target):
            # its remainder is part of the solution, so that no other equation may solve for it
            self.unknown.pop(axis_left)
            self.fixed[axis_left] = None
        low, high = self.ranges.of(partner)
        assert high is not None
        total = target * pow(other % step, -1, step) - low
        start = mod(total, Lin.of(step), self.ranges)
        self._differs(dim, step, start)
        extent = high - low + 1
        count = ceildiv(extent - start if start.const is not None else extent, Lin.of(step))
        if count.const is not None and count.const <= 0:
            self.empty = True
            return
        free = self._new(partner.name, ZERO, count - 1)
        if abs(other) == 1:
            # target - other*partner is a multiple of step, other*step*(wanted//step - free)
            total = target * other - low
            start = mod(total, Lin.of(step), self.ranges)
            quotient = floordiv(total, Lin.of(step), self.ranges) - free
            value = quotient * (other * (1 if size > 0 else -1))
        else:
            at = low + start + free * step
            sign = 1 if size > 0 else -1
            value = floordiv((target - at * other) * sign, Lin.of(step), self.ranges)
        self._set(partner, low + start + free * step)
        self._set(axis, value)

    # unknown axes and their values

    def _new(self, name: str, low: Lin, high: Lin, digit: bool = False) -> Lin:
        """Return a new unknown between ``low`` and ``high``, or its only value."""
        if low == high:
            return low
        axis = Axis(name, number_or_expr(high - low + 1), "reduce", number_or_expr(low))
        self.unknown[axis] = None
        self.ranges.learn(axis, low, high)
        if digit:
            self.digits.add(axis)
        return Lin.of(axis)

    def _set(self, axis: Axis, value: Lin) -> None:
        self.unknown.pop(axis, None)
        value = self._simplified(value)
        self.values[axis] = value
        self._substitute(axis, value)

    def _substitute(self, axis: Axis, value: Lin) -> None:
        swap: dict = {axis: value}
        self.equations = [(dim, self._swapped(lin, swap)) for dim, lin in self.equations]
        self.zeros = [self._swapped(lin, swap) for lin in self.zeros]
        for other, solution in self.values.items():
            self.values[other] = self._swapped(solution, swap)

    def _swapped(self, lin: Lin, swap: dict) -> Lin:
        return self._simplified(lin.substitute(swap)) if lin.depends_on(swap) else lin

    def _simplified(self, lin: Lin) -> Lin:
        if all(isinstance(atom, Axis) for atom in lin.atoms()):
            return lin
        return to_lin(to_expr(lin), ranges=self.ranges)

    def _require_zero(self, lin: Lin) -> None:
        if lin.const is not None:
            self.empty = self.empty or lin.const != 0
        elif self.ranges.nonneg(lin - 1) or self.ranges.nonneg(-lin - 1):
            self.empty = True
        else:
            self.zeros.append(lin)

    def _split_into_digits(self) -> None:
        """Replace quotients and remainders of unknown axes by axes of their own."""
        while True:
            atom = next((a for _, lin in self.equations for a in self._innermost(lin)), None)
            if atom is None:
                return
            num, den = atom.num, atom.den
            low, high = lower(num, self.ranges), upper(num, self.ranges)
            axes = self._unknown_in(num)
            if low is None or high is None or not self.ranges.nonneg(den - 1):
                dims = [d for d, lin in self.equations if atom in self._innermost(lin)]
                if any(d != _HELD for d in dims):
                    raise NotInvertible(next((d for d in dims if d is not None), None))
                self.equations = [
                    (d, lin) for d, lin in self.equations if atom not in self._innermost(lin)
                ]
                continue
            first, last = (floordiv(end, den, self.ranges) for end in (low, high))
            name = axes[0].name
            quotient = self._new(name, first, last, digit=True)
            remainder = self._new(name, ZERO, den - 1, digit=True)
            parts: dict[object, Lin] = {Div(num, den): quotient, Mod(num, den): remainder}
            self.equations = [(d, _with_digits(lin, parts)) for d, lin in self.equations]
            whole = den * quotient + remainder
            single = next((a for a in axes if coefficient(num, a)[0] == ONE), None)
            if len(axes) == 1 and single is not None:
                self._set(single, whole - (num - Lin.of(single)))
            else:
                self.equations.append((None, num - whole))

    def _innermost(self, lin: Lin) -> list[Div | Mod]:
        """Return the quotients and remainders of unknown axes that contain no other."""
        atoms: list[Div | Mod] = []
        for atom in lin.atoms():
            if isinstance(atom, (Div, Mod)):
                inner = [*self._innermost(atom.num), *self._innermost(atom.den)]
                if inner:
                    atoms += inner
                elif self._unknown_in(atom.num) and self._terms(atom.num) is not None:
                    if not self._unknown_in(atom.den):
                        atoms.append(atom)
        return atoms

    # the result

    def inverse(self) -> Inverse:
        free: list[Axis] = []
        digits: set[Axis] = set()
        for axis in (*self.fixed, *self.unknown):
            low, high = self.ranges.of(axis)
            assert high is not None
            count = high - low + 1
            if count.const is not None and count.const < 1:
                self.empty = True
                continue
            free_axis = Axis(axis.name, number_or_expr(count), "reduce", number_or_expr(low))
            self.ranges.learn(free_axis, low, high)
            free.append(free_axis)
            if axis in self.digits:
                digits.add(free_axis)
            self._set(axis, Lin.of(free_axis))
        declared = Ranges()
        bounds = []
        for axis, value in self.values.items():
            low, high = (declared if axis in self.axes else self.ranges).of(axis)
            if high is None or not (self.ranges.le(low, value) and self.ranges.le(value, high)):
                bounds.append(axis)
        conditions = [equal(lin) for lin in self.zeros if lin.terms]
        return Inverse(
            self.values,
            tuple(free),
            tuple(bounds),
            tuple(conditions),
            frozenset(digits),
            self.splits,
        )


_DONE = _Pivot(-1, Axis("none", 1))


def _with_digits(lin: Lin, parts: Mapping[object, Lin]) -> Lin:
    """Return ``lin`` with quotients and remainders replaced, inside of others too."""
    total = ZERO
    for product, coef in lin.terms.items():
        term = Lin.of(coef)
        for atom in product:
            if atom in parts:
                term = term * parts[atom]
            elif isinstance(atom, (Div, Mod)):
                inner = type(atom)(_with_digits(atom.num, parts), _with_digits(atom.den, parts))
                term = term * Lin.of(inner)
            else:
                term = term * Lin.of(atom)
        total = total + term
    return total
