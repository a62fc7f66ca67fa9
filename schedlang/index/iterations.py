"""Proofs that different iterations of a loop access different elements."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Optional

from schedlang.expr.nodes import Axis, Var
from schedlang.index.accesses import Access, meet_by_enumeration, related_axes, tests_of
from schedlang.index.digits import coefficient, equal_digits, is_common, varies
from schedlang.index.fused import rebuilt, separate
from schedlang.index.linear import ZERO, Div, Lin, Mod
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, single_atom

# the difference of an index in two iterations as ``step*(v - v') + rest``: ``(step, rest)``
Steps = Optional[tuple[Lin, Lin]]


def only_remainder(lin: Lin) -> Mod | None:
    """Return ``lin`` as a ``Mod``, if it is a single one."""
    atom = single_atom(lin)
    return atom if isinstance(atom, Mod) else None


def implied_pairs(
    pairs: Sequence[tuple[Lin, Lin]], ranges: Ranges, others: Ranges, free: Container[object] = ()
) -> list[tuple[Lin, Lin]]:
    """Return further pairs of indices that are equal if all ``pairs`` are.

    ``x // n`` and ``x % n`` yield ``x``: a packed layout ``(i // 4, j, i % 4)`` is about ``i``. The
    axes ``free``, on which ``n`` must not depend, may have different values on both sides.

    >>> i, four = Lin.of(Axis("i", 16)), Lin.of(4)
    >>> outer, inner = Lin.of(Div(i, four)), Lin.of(Mod(i, four))
    >>> implied_pairs([(outer, outer), (inner, inner)], Ranges(), Ranges())
    [(i, i)]
    """
    all_pairs, fresh = list(pairs), list(pairs)
    while fresh:
        new_pairs = []
        quotients = [(_canonical(x, ranges), _canonical(y, others)) for x, y in all_pairs]
        for x, y in all_pairs:
            one, two = only_remainder(x), only_remainder(y)
            if one is None or two is None or one.den != two.den or (one.num, two.num) in all_pairs:
                continue
            if not all(is_common(product, free) for product in one.den.terms):
                continue
            if (_quotient(one, ranges), _quotient(two, others)) in quotients:
                new_pairs.append((one.num, two.num))
        all_pairs += new_pairs
        fresh = new_pairs
    return all_pairs[len(pairs) :]


def _canonical(lin: Lin, ranges: Ranges) -> Lin:
    atom = single_atom(lin)
    return _quotient(atom, ranges) if isinstance(atom, Div) else lin


def _quotient(atom: Div | Mod, ranges: Ranges) -> Lin:
    """Return the quotient of ``atom`` in a form that is the same for ``x//2//n`` and ``x//(2*n)``.

    A number divides before sizes do, since such quotients are simplified.
    """
    num, den = atom.num, atom.den
    while isinstance(inner := single_atom(num), Div) and ranges.nonneg(den):
        num, den = inner.num, inner.den * den
    if len(den.terms) == 1 and den.const is None:
        ((product, factor),) = den.terms.items()
        rest = Lin({product: 1})
        if factor > 1 and ranges.nonneg(rest):
            return floordiv(floordiv(num, Lin.of(factor), ranges), rest, ranges)
    return floordiv(num, den, ranges)


class SecondIteration:
    """Two accesses in two different iterations of ``axis``.

    The axes ``free`` have values of their own in the second, all others have the same values.
    """

    def __init__(self, axis: Axis, a: Access, b: Access, free: Container[Axis]) -> None:
        self.axis, self.a, self.b, self.free = axis, a, b, free
        self.extent = next(extent for own, extent in a.loops if own is axis)
        inside = [own for own, _ in b.loops if own in free]
        self.twins: dict[Axis | Var, Axis] = {x: replace(x, name=f"{x.name}'") for x in inside}
        self.swap: dict[Axis | Var, Lin] = {x: Lin.of(twin) for x, twin in self.twins.items()}

    @cached_property
    def loose(self) -> set[Axis]:
        """The free axes of both accesses."""
        return {x for x, _ in self.a.loops if x in self.free} | set(self.twins.values())

    @cached_property
    def ranges(self) -> Ranges:
        ranges_of_loops = dict(self.a.ranges.known)
        ranges_of_loops |= {
            self.twins.get(x, x): (lo.substitute(self.swap), hi.substitute(self.swap))
            for x, (lo, hi) in self.b.ranges.known.items()
        }
        return Ranges(ranges_of_loops)

    @cached_property
    def known(self) -> Ranges:
        """The ranges, narrowed by the conditions around both accesses."""
        facts = [*self.a.facts, *(fact.substitute(self.swap) for fact in self.b.facts)]
        # the statement runs, so each loop around it has at least one iteration
        extents = [extent for _, extent in self.a.loops]
        extents += [extent.substitute(self.swap) for _, extent in self.b.loops]
        facts += [Lin.of(1) - e for e in dict.fromkeys(extents) if e.const is None]
        return self.ranges.assuming(tuple(facts)) if facts else self.ranges

    def steps(self, x: Lin, y: Lin) -> Steps:
        """Return the difference of an index that is ``x`` in the first iteration, ``y`` then."""
        own, mine = coefficient(x, self.axis)
        other, theirs = coefficient(y.substitute(self.swap), self.twins[self.axis])
        if own is None or other is None or own != other:
            return None
        return own, mine - theirs

    def quickly_differ(self, steps: Steps) -> bool:
        """Return whether the loop bounds alone prove that an index differs; see :meth:`differ`."""
        if steps is None:
            return False
        step, rest = self._with_positive_step(steps)
        size = step.const
        if size is None:
            return False
        low, high = self.ranges.interval(rest)
        if size == 0:
            return (low is not None and low > 0) or (high is not None and high < 0)
        return low is not None and high is not None and -size < low and high < size

    def differ_in_rolling_row(self, x: Lin, y: Lin) -> bool:
        """Return whether ``x`` and ``y`` are different rows of a rolling buffer.

        They are ``t % n`` and ``(t + d) % n``, where ``d`` is not a multiple of ``n``.
        """
        return differ_modulo(x, y.substitute(self.swap))

    def differ(self, steps: Steps) -> bool:
        """Return whether an index provably differs between the two iterations.

        ``step*(v - v') + rest`` is not 0 if ``rest`` is smaller than ``step``. Multiples of
        ``step*extent`` in ``rest`` do not matter.
        """
        if steps is None:
            return False
        step, rest = self._with_positive_step(steps)
        if step == ZERO:
            return self.known.nonneg(rest - 1) or self.known.nonneg(-rest - 1)
        return self.known.nonneg(step - 1 - rest) and self.known.nonneg(step - 1 + rest)

    def meet(self, steps: Steps) -> bool:
        """Return whether the index is provably equal in some pair of different iterations."""
        if steps is None:
            return False
        (step, rest), most = steps, self.extent.const
        if step == ZERO:
            return rest == ZERO and (most is None or most > 1)
        if step.const is None or rest.const is None or rest.const % step.const:
            return False
        apart = abs(rest.const // step.const)
        return apart > 0 and (most is None or apart < most)

    def _with_positive_step(self, steps: tuple[Lin, Lin]) -> tuple[Lin, Lin]:
        step, rest = steps
        if step == ZERO:
            return steps
        if (step.const or 0) < 0:
            step = -step
        return step, self._without_periods(rest, step)

    def _without_periods(self, rest: Lin, step: Lin) -> Lin:
        """Return ``rest`` without terms of free loops that are multiples of ``step*extent``."""
        whole = (step * self.extent).const
        terms = {}
        for product, coef in rest.terms.items():
            free = varies(Lin({product: 1}), self.loose)
            if not free or not whole or coef % whole:
                terms[product] = coef
        return Lin(terms)


def differ_modulo(x: Lin, y: Lin) -> bool:
    """Return whether ``x`` and ``y`` are remainders of numbers that are never congruent.

    >>> i = Lin.of(Axis("i", 9))
    >>> differ_modulo(Lin.of(Mod(i, Lin.of(4))), Lin.of(Mod(i + 2, Lin.of(4))))
    True
    """
    one, two = only_remainder(x), only_remainder(y)
    if one is None or two is None or one.den != two.den or not one.den.const:
        return False
    apart = (one.num - two.num).const
    return apart is not None and apart % one.den.const != 0


def always_differ(
    second: SecondIteration,
    places: Iterator[tuple[Lin, Lin]] | None = None,
    counting: bool = True,
) -> bool | None:
    """Return whether two accesses reach different elements in all pairs of different iterations.

    ``places`` are the flat positions of both, in several orders of the dimensions; they are asked
    for only if they may help. ``counting`` tries all pairs where no proof applies. Return ``None``
    if the answer is unknown.

    >>> i, j = Axis("i", 4), Axis("j", 2)
    >>> loops = ((i, Lin.of(4)), (j, Lin.of(2)))
    >>> row, all_ = (Access((lin,), loops, (), Ranges()) for lin in (Lin.of(i), Lin.of(j)))
    >>> always_differ(SecondIteration(i, row, row, {i, j}))
    True
    >>> always_differ(SecondIteration(i, all_, all_, {i, j}))
    False
    """
    a, b = second.a, second.b
    pairs = [*zip(a.indices, b.indices)]
    steps = [second.steps(x, y) for x, y in pairs]
    if any(map(second.quickly_differ, steps)):
        return True
    if any(second.differ_in_rolling_row(x, y) for x, y in pairs):
        return True
    if len(pairs) > 1:
        implied = implied_pairs(pairs, a.ranges, b.ranges, second.free)
        joined = [*itertools.islice(places or (), 1), *implied]
        further = [second.steps(x, y) for x, y in joined]
        if any(map(second.quickly_differ, further)) or any(map(second.differ, further)):
            return True
        if any(second.differ(second.steps(x, y)) for x, y in places or ()):
            return True
    if any(map(second.differ, steps)):
        return True
    if any(second.differ(second.steps(x, y)) for x, y in _equal_if_met(second)):
        return True
    if not (a.conds or b.conds) and (all(map(second.meet, steps)) or _has_unused_digit(second)):
        return False
    return _by_enumeration(second, pairs) if counting else None


def _has_unused_digit(second: SecondIteration) -> bool:
    """Return whether both accesses have the same indices, which leave out a digit of the loop.

    ``i // 4`` leaves out a digit of four values, so that four iterations access each element.
    """
    a, b = second.a, second.b
    parts = separate(second.axis, second.extent, a.indices, a.ranges)
    if parts is None or a.indices != b.indices:
        return False
    # a loop inside may be empty in one of the iterations
    if any(extent.depends_on({second.axis}) for _, extent in (*a.loops, *b.loops)):
        return False
    lins = [rebuilt(lin, parts.swap, a.ranges) for lin in a.indices]
    return any(
        (size.const or 0) > 1 and not any(lin.depends_on({axis, second.axis}) for lin in lins)
        for axis, (_, size) in zip(parts.axes, parts.places)
    )


def _equal_if_met(second: SecondIteration) -> list[tuple[Lin, Lin]]:
    """Return pairs of numbers that are equal if both accesses are to one element.

    They are the digits of the indices, and the numbers with all digits equal: a loop of fused axes
    is the same if its quotient in one index and its remainder in another one are.
    """
    a, b = second.a, second.b
    ranges = a.ranges.assuming(a.facts), b.ranges.assuming(b.facts)
    digits = equal_digits(
        a.indices, b.indices, ranges, lambda atom: is_common((atom,), second.free)
    )
    return [*digits, *implied_pairs(digits, a.ranges, b.ranges, second.free)]


def _by_enumeration(second: SecondIteration, pairs: Sequence[tuple[Lin, Lin]]) -> bool | None:
    a, b = second.a, second.b
    extent = second.extent.const
    if extent is None:
        return None
    around = [axis for axis, _ in a.loops if axis not in second.free]
    together = dict.fromkeys((*related_axes(around, pairs), *tests_of(around, (a, b))))
    is_met = meet_by_enumeration(a, b, pairs, [*together], {second.axis: extent})
    return None if is_met is None else not is_met
