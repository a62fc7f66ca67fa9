"""Proofs that a size is at least 1, on which proofs about remainders and elements rest."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.index.linear import Atom, Div, Extreme, Lin, Mod
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower


def at_least_one(lin: Lin, ranges: Ranges) -> bool:
    """Return whether ``lin >= 1`` is proven, also as a factor of what a fact says is at least 1.

    >>> from schedlang.expr.nodes import Var
    >>> m, n = Lin.of(Var("m")), Lin.of(Var("n"))
    >>> at_least_one(n, Ranges()), at_least_one(n, Ranges(facts=(Lin.of(1) - m * n,)))
    (False, True)
    """
    if lin.const is not None:
        return lin.const >= 1
    if ranges.nonneg(lin - 1):
        return True
    if len(lin.terms) != 1 or not ranges.bare.nonneg(lin):
        return False
    ((factors, _),) = lin.terms.items()
    return any(_has_factors(fact, factors, ranges) for fact in ranges.facts)


def _has_factors(fact: Lin, factors: tuple[Atom, ...], ranges: Ranges) -> bool:
    """Return whether ``fact <= 0`` says that a sum, all of whose terms have ``factors``, is not 0.

    A fact over loop variables is relaxed to one over sizes first.
    """
    least = lower(fact, ranges.bare)
    if least is None or least.offset < 1:
        return False
    products = [product for product in least.terms if product]
    return bool(products) and all(
        least.terms[product] < 0 and all(atom in product for atom in factors)
        for product in products
    )


def divisors(lin: Lin) -> Iterator[Lin]:
    """Yield each divisor in ``lin`` that is not a number.

    >>> from schedlang.expr.nodes import Axis, Var
    >>> i, n = Lin.of(Axis("i", 8)), Lin.of(Var("n"))
    >>> list(divisors(Lin.of(Mod(i, n)) + Lin.of(Div(i, Lin.of(2)))))
    [n]
    """
    parts = [lin]
    while parts:
        for atom in parts.pop().atoms():
            if isinstance(atom, (Div, Mod)):
                parts += [atom.num, atom.den]
                if atom.den.const is None:
                    yield atom.den
            elif isinstance(atom, Extreme):
                parts += atom.args
