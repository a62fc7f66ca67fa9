"""Complex expressions as pairs of real ones, the real and the imaginary part.

Complex values exist in the language, in schedules and in the NumPy oracle. Kernels compute their
parts, so that the lanes of a vector are plain floats. A part that is exactly 0 adds no operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Optional, Union

from schedlang.expr.dtypes import is_complex, part_of
from schedlang.expr.nodes import (
    ArrayRead,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.visit import postorder, with_children


class Parts(NamedTuple):
    """The parts of a complex value; ``None`` is exactly 0."""

    re: Optional[Expr]
    im: Optional[Expr]


Value = Union[Expr, Parts]
# returns the elements that hold the parts of a complex element, at indices already split
Reader = Callable[[ArrayRead, "tuple[Expr, ...]"], Parts]


def split(
    roots: Sequence[Expr], read: Reader, scalars: Mapping[Expr, Parts] | None = None
) -> tuple[Value, ...]:
    """Return the parts of each complex one of ``roots``, and the others without complex values.

    ``read`` gives the parts of complex elements, and ``scalars`` the parts of complex variables.

    >>> a, b = Var("a", "complex64", weak=False), Var("b", "complex64", weak=False)
    >>> reals = {n: Var(n, "float32", weak=False) for n in ("ar", "ai", "br", "bi")}
    >>> known = {a: Parts(reals["ar"], reals["ai"]), b: Parts(reals["br"], reals["bi"])}
    >>> product = Binary("*", a, b, "complex64")
    >>> [found] = split([product], lambda node, at: Parts(None, None), known)
    >>> isinstance(found, Parts), found.re.op, found.im.op
    (True, '-', '+')
    """
    values: dict[int, Value] = {}
    for node in postorder(roots):
        parts = [values[id(child)] for child in node.children]
        if isinstance(node, ArrayRead) and is_complex(node.dtype):
            values[id(node)] = read(node, tuple(_real(p) for p in parts))
        elif isinstance(node, Var) and is_complex(node.dtype):
            assert scalars is not None, f"{node.name} is a complex scalar"
            values[id(node)] = scalars[node]
        elif is_complex(node.dtype):
            values[id(node)] = _complex(node, parts)
        elif any(isinstance(p, Parts) for p in parts):
            values[id(node)] = _of_complex(node, parts)
        else:
            values[id(node)] = with_children(node, tuple(_real(p) for p in parts))
    return tuple(values[id(root)] for root in roots)


def whole(parts: Parts, dtype: str) -> tuple[Expr, Expr]:
    """Return both parts of a value of the complex ``dtype`` as expressions."""
    zero = Const(0.0, part_of(dtype))
    return (zero if parts.re is None else parts.re), (zero if parts.im is None else parts.im)


def _real(value: Value) -> Expr:
    assert isinstance(value, Expr), "a complex value where only real ones are"
    return value


def _parts(value: Value) -> Parts:
    return value if isinstance(value, Parts) else Parts(value, None)


def _complex(node: Expr, given: Sequence[Value]) -> Parts:
    """Return the parts of an operation whose result is complex."""
    dtype = part_of(node.dtype)
    if isinstance(node, Const):
        value = complex(node.value)
        return Parts(*(Const(p, dtype) if p else None for p in (value.real, value.imag)))
    if isinstance(node, Select):
        cond, a, b = _real(given[0]), _parts(given[1]), _parts(given[2])
        sides = zip(a, b)
        return Parts(*(_selected(cond, x, y, dtype, node.lazy) for x, y in sides))
    a = _parts(given[0])
    if isinstance(node, Cast):
        return Parts(*(None if p is None else _converted(p, dtype) for p in a))
    if isinstance(node, Unary):
        return Parts(_negated(a.re), _negated(a.im))
    if isinstance(node, Call):
        return Parts(a.re, _negated(a.im)) if node.fn == "conj" else _exp(a, dtype)
    assert isinstance(node, Binary)
    b = _parts(given[1])
    if node.op in ("+", "-"):
        join = _sum if node.op == "+" else _difference
        return Parts(join(a.re, b.re), join(a.im, b.im))
    if node.op == "*":
        return Parts(
            _difference(_product(a.re, b.re), _product(a.im, b.im)),
            _sum(_product(a.re, b.im), _product(a.im, b.re)),
        )
    return _quotient(a, b, dtype)


def _of_complex(node: Expr, given: Sequence[Value]) -> Expr:
    """Return an operation on complex values whose result is real."""
    if isinstance(node, Binary):
        # == and !=
        dtype = node.a.dtype
        (ar, ai), (br, bi) = (whole(_parts(p), dtype) for p in given)
        first, second = (Binary(node.op, x, y, "bool") for x, y in ((ar, br), (ai, bi)))
        return Binary("&" if node.op == "==" else "|", first, second, "bool")
    assert isinstance(node, Call)
    dtype = node.args[0].dtype
    re, im = whole(_parts(given[0]), dtype)
    if node.fn in ("real", "imag"):
        return re if node.fn == "real" else im
    if node.fn == "abs":
        return _hypotenuse(re, im, part_of(dtype))
    one, other = (Call(node.fn, (p,), "bool") for p in (re, im))
    return Binary("&" if node.fn == "isfinite" else "|", one, other, "bool")


def _converted(value: Expr, dtype: str) -> Expr:
    if value.dtype == dtype and not value.weak:
        return value
    if isinstance(value, Const):
        return Const(float(value.value), dtype)
    return Cast(value, dtype)


def _negated(value: Expr | None) -> Expr | None:
    if isinstance(value, Const):
        return Const(-value.value, value.dtype)
    return None if value is None else Unary("-", value, value.dtype)


def _sum(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return Binary("+", a, b, a.dtype)


def _difference(a: Expr | None, b: Expr | None) -> Expr | None:
    if b is None:
        return a
    return _negated(b) if a is None else Binary("-", a, b, a.dtype)


def _product(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return None
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const) and abs(one.value) == 1:
            return other if one.value == 1 else _negated(other)
    return Binary("*", a, b, a.dtype)


def _selected(cond: Expr, a: Expr | None, b: Expr | None, dtype: str, lazy: bool) -> Expr | None:
    if a is None and b is None:
        return None
    zero = Const(0.0, dtype)
    return Select(cond, zero if a is None else a, zero if b is None else b, dtype, lazy)


def _exp(a: Parts, dtype: str) -> Parts:
    size = None if a.re is None else Call("exp", (a.re,), dtype)
    if a.im is None:
        return Parts(Const(1.0, dtype) if size is None else size, None)
    turn = Parts(Call("cos", (a.im,), dtype), Call("sin", (a.im,), dtype))
    return turn if size is None else Parts(*(_product(size, part) for part in turn))


def _quotient(a: Parts, b: Parts, dtype: str) -> Parts:
    """Return ``a / b`` without overflow where the result has none.

    Source: R. L. Smith, "Algorithm 116: Complex division", 1962, as NumPy uses it.
    """
    if b.im is None:
        by = Const(0.0, dtype) if b.re is None else b.re
        return Parts(*(None if p is None else Binary("/", p, by, dtype) for p in a))
    (ar, ai), (br, bi) = ((Const(0.0, dtype) if p is None else p for p in side) for side in (a, b))
    larger, smaller = Call("abs", (br,), dtype), Call("abs", (bi,), dtype)
    first = Binary(">=", larger, smaller, "bool")
    p, q = Select(first, br, bi, dtype), Select(first, bi, br, dtype)
    zero = Binary("==", p, Const(0.0, dtype), "bool")
    ratio = Select(zero, Const(0.0, dtype), Binary("/", q, p, dtype), dtype)
    scale = Binary("+", p, Binary("*", q, ratio, dtype), dtype)
    x, y = Select(first, ar, ai, dtype), Select(first, ai, ar, dtype)
    re = Binary("+", x, Binary("*", y, ratio, dtype), dtype)
    # (ai - ar*r) where |br| is larger, else (ai*r - ar)
    u, v = (
        Select(first, ai, Unary("-", ar, dtype), dtype),
        Select(first, ar, Unary("-", ai, dtype), dtype),
    )
    im = Binary("-", u, Binary("*", v, ratio, dtype), dtype)
    return Parts(Binary("/", re, scale, dtype), Binary("/", im, scale, dtype))


def _hypotenuse(re: Expr, im: Expr, dtype: str) -> Expr:
    """Return the magnitude, without overflow where the result has none."""
    a, b = Call("abs", (re,), dtype), Call("abs", (im,), dtype)
    most, least = Call("max", (a, b), dtype), Call("min", (a, b), dtype)
    ratio = Binary("/", least, most, dtype)
    one = Const(1.0, dtype)
    root = Call("sqrt", (Binary("+", one, Binary("*", ratio, ratio, dtype), dtype),), dtype)
    # 0/0 and inf/inf are NaN
    plain = Binary(
        "&", Binary(">", most, Const(0.0, dtype), "bool"), Call("isfinite", (most,), "bool"), "bool"
    )
    infinite = Binary("|", Call("isinf", (a,), "bool"), Call("isinf", (b,), "bool"), "bool")
    bound = Select(infinite, Const(float("inf"), dtype), most, dtype)
    return Select(plain, Binary("*", most, root, dtype), bound, dtype)
