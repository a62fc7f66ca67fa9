"""Index arithmetic in normal form: integer polynomials over atoms.

A :class:`Lin` maps products of atoms to integer coefficients. An atom is an axis, a size, a
non-linear operation on other polynomials (:class:`Div`, :class:`Mod`, :class:`Extreme`), or any
other expression (:class:`Opaque`). Equal polynomials compare equal, so that terms cancel in proofs
of bounds.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite


class Opaque:
    """An expression without a polynomial form, such as a read of an element."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr


@dataclass(frozen=True)
class Div:
    """The quotient ``floor(num / den)``."""

    num: Lin
    den: Lin


@dataclass(frozen=True)
class Mod:
    """The remainder ``num - den * floor(num / den)``."""

    num: Lin
    den: Lin


@dataclass(frozen=True)
class Extreme:
    """The ``min`` or ``max`` of several polynomials."""

    op: str
    args: tuple[Lin, ...]


Atom = Union[Axis, Var, Div, Mod, Extreme, Opaque]
Product = tuple[Atom, ...]
LinLike = Union["Lin", int]


def _order(atom: Atom) -> tuple[str, int]:
    """Return a sort key for atoms of a product, by text if possible, so that output is stable."""
    if isinstance(atom, (Axis, Var)):
        return atom.name, id(atom)
    if isinstance(atom, Opaque):
        return "~", id(atom)
    if any(isinstance(leaf, Opaque) for leaf in Lin.of(atom).leaves()):
        # this module cannot print an element of a buffer
        return "~", hash(atom)
    return f"~{_atom_expr(atom)}", 0


class Lin:
    """An immutable polynomial with integer coefficients.

    >>> i = Lin.of(Axis("i", 8))
    >>> print(i * 4 + 3 - i)
    i*3 + 3
    """

    __slots__ = ("terms", "_hash")

    def __init__(self, terms: dict[Product, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    @staticmethod
    def of(value: Atom | int) -> Lin:
        if isinstance(value, int):
            return Lin({(): value} if value else {})
        return Lin({(value,): 1})

    @property
    def const(self) -> int | None:
        """The value of a constant polynomial, else ``None``."""
        if not self.terms:
            return 0
        if len(self.terms) == 1:
            return self.terms.get(())
        return None

    @property
    def offset(self) -> int:
        return self.terms.get((), 0)

    def atoms(self) -> Iterator[Atom]:
        for product in self.terms:
            yield from product

    def leaves(self) -> Iterator[Axis | Var | Opaque]:
        """Yield every axis, size and opaque expression, including those inside other atoms.

        An opaque expression may depend on axes of its own: see :func:`depends`.
        """
        for product in self.terms:
            for atom in product:
                if isinstance(atom, (Div, Mod)):
                    yield from atom.num.leaves()
                    yield from atom.den.leaves()
                elif isinstance(atom, Extreme):
                    for arg in atom.args:
                        yield from arg.leaves()
                else:
                    yield atom

    def depends_on(self, axes: Container[object]) -> bool:
        """Return whether a leaf is one of ``axes``, or depends on one."""
        return any(involves(product, axes) for product in self.terms)

    def __add__(self, other: LinLike) -> Lin:
        return self._plus(_lin(other), 1)

    def _plus(self, other: Lin, times: int) -> Lin:
        if not other.terms:
            return self
        if not self.terms:
            return other._times(times)
        terms = dict(self.terms)
        for product, coef in other.terms.items():
            total = terms.get(product, 0) + coef * times
            if total:
                terms[product] = total
            else:
                del terms[product]
        return Lin(terms)

    def __neg__(self) -> Lin:
        return Lin({p: -c for p, c in self.terms.items()})

    def __sub__(self, other: LinLike) -> Lin:
        return self._plus(_lin(other), -1)

    def __mul__(self, other: LinLike) -> Lin:
        if isinstance(other, int):
            return self._times(other)
        factor = other.const
        if factor is not None:
            return self._times(factor)
        factor = self.const
        if factor is not None:
            return other._times(factor)
        terms: dict[Product, int] = {}
        for p, c in self.terms.items():
            for q, d in other.terms.items():
                product = tuple(sorted((*p, *q), key=_order))
                terms[product] = terms.get(product, 0) + c * d
        return Lin({p: c for p, c in terms.items() if c})

    def _times(self, factor: int) -> Lin:
        if factor == 1:
            return self
        return Lin({p: c * factor for p, c in self.terms.items()} if factor else {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lin) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self) -> str:
        return str(to_expr(self))

    def substitute(self, values: Mapping[Axis | Var, Lin]) -> Lin:
        """Return this polynomial with leaves replaced; its atoms are not simplified."""
        if not values or not self.depends_on(values):
            return self
        terms: dict[Product, int] = {}
        for product, coef in self.terms.items():
            if len(product) == 1 and isinstance(product[0], (Axis, Var)):
                value = values.get(product[0])
                if value is None:
                    add_term(terms, product, coef)
                else:
                    add_terms(terms, value, coef)
            elif involves(product, values):
                factor = Lin.of(coef)
                for atom in product:
                    factor = factor * _substitute_atom(atom, values)
                add_terms(terms, factor, 1)
            else:
                add_term(terms, product, coef)
        return Lin(terms)


def _substitute_atom(atom: Atom, values: Mapping[Axis | Var, Lin]) -> Lin:
    if isinstance(atom, (Axis, Var)):
        return values.get(atom) or Lin.of(atom) if atom not in values else values[atom]
    if isinstance(atom, Div):
        return Lin.of(Div(atom.num.substitute(values), atom.den.substitute(values)))
    if isinstance(atom, Mod):
        return Lin.of(Mod(atom.num.substitute(values), atom.den.substitute(values)))
    if isinstance(atom, Extreme):
        return Lin.of(Extreme(atom.op, tuple(a.substitute(values) for a in atom.args)))
    if not depends(atom, values):
        return Lin.of(atom)

    def swap(node: Expr) -> Expr | None:
        return to_expr(values[node]) if isinstance(node, (Axis, Var)) and node in values else None

    return Lin.of(Opaque(rewrite(atom.expr, swap)))


def depends(leaf: Axis | Var | Opaque, axes: Container[object]) -> bool:
    """Return whether a leaf is one of ``axes``, or an opaque expression that depends on one."""
    if isinstance(leaf, Opaque):
        return any(node in axes for node in postorder([leaf.expr]) if isinstance(node, (Axis, Var)))
    return leaf in axes


def involves(product: Product, axes: Container[object]) -> bool:
    """Return whether a product of atoms depends on one of ``axes``."""
    for atom in product:
        if isinstance(atom, (Axis, Var)):
            if atom in axes:
                return True
        elif any(depends(leaf, axes) for leaf in Lin.of(atom).leaves()):
            return True
    return False


def add_term(terms: dict[Product, int], product: Product, coef: int) -> None:
    """Add ``product * coef`` to ``terms``, which hold no coefficient of 0."""
    total = terms.get(product, 0) + coef
    if total:
        terms[product] = total
    else:
        terms.pop(product, None)


def add_terms(terms: dict[Product, int], other: Lin, times: int) -> None:
    """Add ``other * times`` to ``terms``."""
    for product, coef in other.terms.items():
        total = terms.get(product, 0) + coef * times
        if total:
            terms[product] = total
        else:
            terms.pop(product, None)


def _lin(value: LinLike) -> Lin:
    return Lin.of(value) if isinstance(value, int) else value


ZERO = Lin({})
ONE = Lin.of(1)


def total(values: Iterable[Lin]) -> Lin:
    result = ZERO
    for value in values:
        result = result + value
    return result


def number_or_expr(lin: Lin) -> int | Expr:
    """Return the polynomial as an extent: a number if it is constant, else an expression."""
    return lin.const if lin.const is not None else to_expr(lin)


def to_expr(lin: Lin) -> Expr:
    """Return the polynomial as an index expression, large coefficients first, the constant last."""
    items = [(p, c) for p, c in lin.terms.items() if p]
    if len(items) > 1:
        items.sort(key=lambda item: (item[1] < 0, -len(item[0]), -abs(item[1])))
    result: Expr | None = None
    for product, coef in items:
        term = _product(product, abs(coef))
        if result is None:
            result = term if coef > 0 else _index("*", term, Const(-1, "int64", True))
            if coef < 0 and lin.offset > 0:
                return _tail(_index("-", Const(lin.offset, "int64", True), term), items[1:])
        else:
            result = _index("+" if coef > 0 else "-", result, term)
    offset = lin.offset
    if result is None:
        return Const(offset, "int64", True)
    if offset:
        number = Const(abs(offset), "int64", True)
        result = _index("+" if offset > 0 else "-", result, number)
    return result


def _tail(result: Expr, items: list[tuple[Product, int]]) -> Expr:
    for product, coef in items:
        result = _index("+" if coef > 0 else "-", result, _product(product, abs(coef)))
    return result


def _index(op: str, a: Expr, b: Expr) -> Expr:
    return Binary(op, a, b, "int64", True)


def _product(product: Product, coef: int) -> Expr:
    factors = [_atom_expr(atom) for atom in product]
    if coef != 1:
        factors.append(Const(coef, "int64", True))
    result = factors[0]
    for factor in factors[1:]:
        result = _index("*", result, factor)
    return result


def _atom_expr(atom: Atom) -> Expr:
    if isinstance(atom, (Axis, Var)):
        return atom
    if isinstance(atom, Opaque):
        return atom.expr
    if isinstance(atom, (Div, Mod)):
        op = "//" if isinstance(atom, Div) else "%"
        return _index(op, to_expr(atom.num), to_expr(atom.den))
    result = to_expr(atom.args[0])
    for arg in atom.args[1:]:
        result = Call(atom.op, (result, to_expr(arg)), "int64", True)
    return result
