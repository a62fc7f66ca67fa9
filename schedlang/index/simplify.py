"""Simplification of index expressions: the functions that other packages call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schedlang.expr.nodes import Expr
from schedlang.index.linear import Div, Lin, Mod, to_expr
from schedlang.index.polynomial import polynomial, quick
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod


def to_lin(
    value: Expr | int,
    values: Mapping[Any, Lin] | None = None,
    ranges: Ranges | None = None,
) -> Lin:
    """Return ``value`` as a simplified polynomial.

    Its axes and sizes are replaced by ``values``, and ``ranges`` bounds those that remain.
    """
    if isinstance(value, int):
        return Lin.of(value)
    simple = quick(value, values)
    return polynomial(value, values or {}, ranges or Ranges()) if simple is None else simple


def simplify(value: Expr, ranges: Ranges | None = None) -> Expr:
    """Return an index expression in its shortest known form.

    >>> from schedlang.expr.nodes import Axis
    >>> i, j = Axis("i", 4), Axis("j", 8)
    >>> simplify((i*8 + j) // 8), simplify((i*8 + j) % 8), simplify((i + j) - j + 1)
    (i, j, i + 1)
    """
    return to_expr(to_lin(value, ranges=ranges))


def has_mod(lin: Lin) -> bool:
    """Return whether a remainder is a factor of a term."""
    return any(isinstance(atom, Mod) for product in lin.terms for atom in product)


def ceildiv(num: Lin, den: Lin) -> Lin:
    """Return ``num / den`` rounded up, simplified under the declared ranges of axes."""
    return floordiv(num + den - 1, den, Ranges())


def merge_div_mod(lin: Lin) -> Lin:
    """Return ``lin`` with each ``den*(x // den) + x % den`` replaced by ``x``.

    Both terms may have further factors, the same in both. ``x`` may be a remainder, such as
    ``n % 8`` in ``4*(n % 8 // 4) + n % 4``.
    """
    for product, coef in lin.terms.items():
        for position, modulo in enumerate(product):
            if not isinstance(modulo, Mod):
                continue
            factor = Lin({product[:position] + product[position + 1 :]: coef})
            for num in (modulo.num, *_remainders(modulo, lin)):
                whole = floordiv(num, modulo.den, Ranges()) * modulo.den * factor
                if all(lin.terms.get(p) == c for p, c in whole.terms.items()):
                    return merge_div_mod(lin - Lin({product: coef}) - whole + num * factor)
    return lin


def _remainders(modulo: Mod, lin: Lin) -> Iterator[Lin]:
    """Yield each dividend ``x`` of a quotient in ``lin`` such that ``modulo`` is ``x % den``."""
    for atom in lin.atoms():
        if isinstance(atom, Div) and atom.den == modulo.den:
            if mod(atom.num, atom.den, Ranges()) == Lin.of(modulo) != atom.num:
                yield atom.num
