"""Division of polynomials without a remainder."""

from __future__ import annotations

from schedlang.index.linear import ZERO, Atom, Lin, Product


def exact_quotient(num: Lin, den: Lin) -> Lin | None:
    """Return the polynomial ``q`` with ``num == q*den``; ``None`` if there is none.

    >>> from schedlang.expr.nodes import Var
    >>> n, m = Lin.of(Var("n")), Lin.of(Var("m"))
    >>> exact_quotient(n * m * 2 + m * 6, n * 2 + 6), exact_quotient(n * m, n + 1)
    (m, None)
    """
    numbers: dict[Atom, int] = {}
    for atom in (*num.atoms(), *den.atoms()):
        numbers.setdefault(atom, len(numbers))

    def order(product: Product) -> tuple[int, list[int]]:
        powers = [0] * len(numbers)
        for atom in product:
            powers[numbers[atom]] += 1
        return len(product), powers

    if not den.terms:
        return None
    lead = max(den.terms, key=order)
    quotient, rest = ZERO, num
    while rest.terms:
        # the largest term of a product is the product of the largest terms
        first = max(rest.terms, key=order)
        coef, left = divmod(rest.terms[first], den.terms[lead])
        product = _without(first, lead)
        if product is None or left:
            return None
        term = Lin({product: coef})
        quotient, rest = quotient + term, rest - term * den
        if first in rest.terms:
            # atoms that print alike have no order in a product
            return None
    return quotient


def _without(product: Product, factors: Product) -> Product | None:
    """Return ``product`` without ``factors``; ``None`` if one of them is not in it."""
    left = list(product)
    for factor in factors:
        # an axis and a size have no truth value when compared
        at = next((k for k, x in enumerate(left) if type(x) is type(factor) and x == factor), None)
        if at is None:
            return None
        del left[at]
    return tuple(left)
