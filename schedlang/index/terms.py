"""Extents over sizes as plain data."""

from __future__ import annotations

from schedlang.errors import CallError
from schedlang.expr.nodes import Var
from schedlang.index.linear import Atom, Div, Extreme, Lin, Mod
from schedlang.index.sums import Factor, Sum


def terms_of(lin: Lin) -> Sum:
    """Return the terms of an extent over sizes, as data.

    >>> n = Lin.of(Var("n"))
    >>> terms_of(n * n - 1)
    ((1, ('n', 'n')), (-1, ()))
    """
    return tuple((coef, tuple(map(_factor, product))) for product, coef in lin.terms.items())


def _factor(atom: Atom) -> Factor:
    if isinstance(atom, Var):
        return atom.name
    if isinstance(atom, (Div, Mod)):
        return "//" if isinstance(atom, Div) else "%", (terms_of(atom.num), terms_of(atom.den))
    if isinstance(atom, Extreme):
        return atom.op, tuple(map(terms_of, atom.args))
    raise CallError(f"the extent {Lin.of(atom)} is not an expression over sizes")
