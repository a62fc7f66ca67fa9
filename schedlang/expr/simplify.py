"""Index expressions to polynomials and back, with the rules for ``//``, ``%``, min and max."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Any

from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Div, Extreme, Lin, Mod, Opaque, to_expr
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Unary, Var
from schedlang.expr.visit import postorder

NO_RANGES = Ranges()
MOST_QUICK = 6


def to_lin(
    value: Expr | int,
    values: Mapping[Any, Lin] | None = None,
    ranges: Ranges | None = None,
) -> Lin:
    """``value`` as a polynomial, its axes replaced by ``values``, simplified under ``ranges``."""
    if isinstance(value, int):
        return Lin.of(value)
    if isinstance(value, Const):
        return Lin.of(int(value.value))
    if isinstance(value, (Axis, Var)) and value.weak:
        found = values.get(value) if values else None
        return Lin.of(value) if found is None else found
    quick = _affine(value, values, MOST_QUICK)
    if quick is not None:
        return quick
    known = ranges or Ranges()
    done: dict[int, Lin] = {}
    for node in postorder([value]):
        done[id(node)] = _convert(node, done, values or {}, known)
    return done[id(value)]


def _affine(value: Expr, values: Mapping[Axis | Var, Lin] | None, depth: int) -> Lin | None:
    """Sums and differences of leaves and numbers, which most indices are; else ``None``."""
    if isinstance(value, Axis):
        found = values.get(value) if values else None
        return Lin.of(value) if found is None else found
    if isinstance(value, Const) and value.weak and isinstance(value.value, int):
        return Lin.of(value.value)
    if isinstance(value, Binary) and value.weak and value.op in ("+", "-", "*") and depth:
        a = _affine(value.a, values, depth - 1)
        b = None if a is None else _affine(value.b, values, depth - 1)
        if a is None or b is None:
            return None
        if value.op == "*":
            return a * b
        return a + b if value.op == "+" else a - b
    return None


def _convert(node: Expr, done: dict[int, Lin], values: Mapping[Any, Lin], ranges: Ranges) -> Lin:
    if isinstance(node, (Axis, Var)) and node.weak:
        found = values.get(node)
        return Lin.of(node) if found is None else found
    if isinstance(node, Const) and isinstance(node.value, (int, bool)):
        return Lin.of(int(node.value))
    if node.dtype == "int64" and node.weak:
        if isinstance(node, Binary) and node.op in ("+", "-", "*", "//", "%"):
            a, b = done[id(node.a)], done[id(node.b)]
            if node.op == "+":
                return a + b
            if node.op == "-":
                return a - b
            if node.op == "*":
                return a * b
            return floordiv(a, b, ranges) if node.op == "//" else mod(a, b, ranges)
        if isinstance(node, Unary) and node.op == "-":
            return -done[id(node.a)]
        if isinstance(node, Call) and node.fn in ("min", "max"):
            return extreme(node.fn, [done[id(a)] for a in node.args], ranges)
    if isinstance(node, Cast) and node.dtype == "int64" and node.a.weak and node.a.dtype == "int64":
        return done[id(node.a)]
    return Lin.of(Opaque(node))


def simplify(value: Expr, ranges: Ranges | None = None) -> Expr:
    """An index expression in its shortest known form.

    >>> i, j = Axis("i", 4), Axis("j", 8)
    >>> simplify((i*8 + j) // 8), simplify((i*8 + j) % 8), simplify((i + j) - j + 1)
    (i, j, i + 1)
    """
    return to_expr(to_lin(value, ranges=ranges))


def split_multiples(num: Lin, den: int) -> tuple[Lin, Lin]:
    """``(q, r)`` with ``num == q*den + r``, coefficients of ``r`` not multiples of ``den``."""
    quotient: dict[tuple, int] = {}
    rest: dict[tuple, int] = {}
    for product, coef in num.terms.items():
        q, r = (coef // den, coef % den) if not product or coef % den == 0 else (0, coef)
        if q:
            quotient[product] = q
        if r:
            rest[product] = r
    return Lin(quotient), Lin(rest)


def _coarse(rest: Lin, den: int, ranges: Ranges) -> tuple[Lin, int, Lin] | None:
    """``rest == g*coarse + fine`` with ``0 <= fine < g`` and ``g`` dividing ``den``, if found."""
    grains = sorted({gcd(c, den) for p, c in rest.terms.items() if p} - {1}, reverse=True)
    for grain in grains:
        coarse, fine = split_multiples(rest, grain)
        low, high = ranges.interval(fine)
        if low is not None and high is not None and 0 <= low and high < grain:
            return coarse, grain, fine
    return None


def floordiv(num: Lin, den: Lin, ranges: Ranges) -> Lin:
    """``num // den`` for a positive ``den``."""
    d = den.const
    if d is None:
        return _symbolic_div(num, den, ranges)
    if d == 1:
        return num
    if d <= 0:
        return Lin.of(Div(num, den))
    if num.const is not None:
        return Lin.of(num.const // d)
    quotient, rest = split_multiples(num, d)
    if not rest.terms:
        return quotient
    low, high = ranges.interval(rest)
    if low is not None and high is not None and low // d == high // d:
        return quotient + low // d
    found = _coarse(rest, d, ranges)
    if found is not None:
        coarse, grain, _ = found
        return quotient + floordiv(coarse, Lin.of(d // grain), ranges)
    inner = _single_atom(rest)
    if isinstance(inner, Div) and inner.den.const:
        return quotient + floordiv(inner.num, Lin.of(inner.den.const * d), ranges)
    return quotient + Lin.of(Div(rest, den))


def mod(num: Lin, den: Lin, ranges: Ranges) -> Lin:
    """``num % den`` for a positive ``den``."""
    d = den.const
    if d is None:
        quotient = _symbolic_quotient(num, den, ranges)
        return Lin.of(Mod(num, den)) if quotient is None else num - quotient * den
    if d == 1:
        return ZERO
    if d <= 0:
        return Lin.of(Mod(num, den))
    if num.const is not None:
        return Lin.of(num.const % d)
    _, rest = split_multiples(num, d)
    low, high = ranges.interval(rest)
    if low is not None and high is not None and low // d == high // d:
        return rest - (low // d) * d
    found = _coarse(rest, d, ranges)
    if found is not None:
        coarse, grain, fine = found
        return mod(coarse, Lin.of(d // grain), ranges) * grain + fine
    inner = _single_atom(rest)
    if isinstance(inner, Mod) and inner.den.const and inner.den.const % d == 0:
        return mod(inner.num, den, ranges)
    return Lin.of(Mod(rest, den))


def _single_atom(lin: Lin) -> object:
    if len(lin.terms) == 1:
        ((product, coef),) = lin.terms.items()
        if coef == 1 and len(product) == 1:
            return product[0]
    return None


def _symbolic_quotient(num: Lin, den: Lin, ranges: Ranges) -> Lin | None:
    """``num // den`` where ``den`` is one product of sizes that divides all but a remainder."""
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


def _fits(rest: Lin, den: Lin, ranges: Ranges) -> bool:
    """Whether ``0 <= rest < den`` is proven."""
    return ranges.nonneg(rest) and ranges.nonneg(den - rest - 1)


def _symbolic_div(num: Lin, den: Lin, ranges: Ranges) -> Lin:
    quotient = _symbolic_quotient(num, den, ranges)
    return Lin.of(Div(num, den)) if quotient is None else quotient


def ceildiv(num: Lin, den: Lin, ranges: Ranges = NO_RANGES) -> Lin:
    return floordiv(num + den - 1, den, ranges)


def extreme(op: str, args: Iterable[Lin], ranges: Ranges) -> Lin:
    """``min`` or ``max``, with the arguments that are provably not it left out."""
    flat: list[Lin] = []
    for arg in args:
        atom = _single_atom(arg)
        flat.extend(atom.args if isinstance(atom, Extreme) and atom.op == op else (arg,))
    kept: list[Lin] = []
    for arg in flat:
        if any(_beats(op, other, arg, ranges) for other in kept):
            continue
        kept = [other for other in kept if not _beats(op, arg, other, ranges)]
        kept.append(arg)
    return kept[0] if len(kept) == 1 else Lin.of(Extreme(op, tuple(kept)))


def _beats(op: str, a: Lin, b: Lin, ranges: Ranges) -> bool:
    if a == b:
        return True
    return ranges.le(a, b) if op == "min" else ranges.le(b, a)


def only_size(lin: Lin) -> Var | None:
    """The size ``n`` of a polynomial ``a*n + b``, if it has that form."""
    products = [p for p in lin.terms if p]
    if len(products) == 1 and len(products[0]) == 1 and isinstance(products[0][0], Var):
        return products[0][0]
    return None


def merge_div_mod(lin: Lin) -> Lin:
    """``lin`` with ``den*(x // den) + x % den`` joined to ``x`` again."""
    for product, coef in lin.terms.items():
        if len(product) != 1 or not isinstance(product[0], Mod):
            continue
        modulo = product[0]
        whole = Lin.of(Div(modulo.num, modulo.den)) * modulo.den * coef
        if all(lin.terms.get(p) == c for p, c in whole.terms.items()):
            return merge_div_mod(lin - Lin({product: coef}) - whole + modulo.num * coef)
    return lin
