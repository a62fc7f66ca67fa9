"""Arithmetic on expressions of one dtype that leaves out zeros and ones.

A product with an exact 0 is 0 and a choice with a side of 0 stays outside of products, so that the
conditions under which a derivative is not 0 are easy to find. Sums are never reordered or expanded,
which would change their rounding: sympy, which does both, sees only the functions of the table in
:mod:`schedlang.gradient.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import takewhile

from schedlang.compute.read import Read
from schedlang.expr import dtypes
from schedlang.expr.lazy import both, is_both
from schedlang.expr.nodes import Binary, Call, Cast, Const, Expr, Select, Unary
from schedlang.index.simplify import to_lin
from schedlang.language.construct import cast

# the most nodes of two expressions that are compared
_MOST_COMPARED = 200
# the most choices with a side of 0 that are nested
_MOST_GUARDS = 4


def number(value: float, dtype: str) -> Const:
    """Return a constant of a float dtype."""
    return Const(float(value), dtype)


def is_number(value: Expr, wanted: float | None = None) -> bool:
    """Return whether ``value`` is a constant, equal to ``wanted`` if that is given."""
    return isinstance(value, Const) and (wanted is None or value.value == wanted)


def plus(a: Expr, b: Expr) -> Expr:
    """Return ``a + b``, with two choices on one condition as one.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> plus(x, number(0, "float32")) is x, plus(x, negative(x * 2)), plus(x, x)
    (True, x - x * 2, x * 2)
    """
    if is_number(a, 0):
        return b
    if is_number(b, 0):
        return a
    if is_number(a) and is_number(b):
        assert isinstance(a, Const) and isinstance(b, Const)
        return number(a.value + b.value, a.dtype)
    if isinstance(a, Select) and isinstance(b, Select) and same(a.cond, b.cond):
        return choose(a.cond, plus(a.a, b.a), plus(a.b, b.b), a.lazy or b.lazy)
    if same(a, b):
        return times(a, number(2, a.dtype))
    if isinstance(b, Unary) and b.op == "-":
        return Binary("-", a, b.a, a.dtype)
    if isinstance(a, Unary) and a.op == "-":
        return Binary("-", b, a.a, a.dtype)
    return Binary("+", a, b, a.dtype)


def plus_under_guards(a: Expr, b: Expr) -> Expr:
    """Return ``a + b``; outside of the choices around both, nothing is evaluated.

    What is multiplied with the sum may be in bounds only there, or finite.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> a, b = guard_value([x > 0], x * 2), guard_value([x > 1], x * 3)
    >>> plus_under_guards(a, b)
    (x * 2 if x > 0 else 0) + (x * 3 if x > 1 else 0) if (x > 0) | (x > 1) else 0
    """
    total = plus(a, b)
    left, right = _split_guards(a), _split_guards(b)
    if not left or not right:
        return total
    lazy = any(guard.lazy for guard in (*_guards(a)[0], *_guards(b)[0]))
    held = _common(left, right)
    left, right = left[len(held) :], right[len(held) :]
    if left and right:
        held.append(Binary("|", _joined(left, lazy), _joined(right, lazy), "bool"))
    # a sum of two choices on one condition may already be one
    if len(_common(held, _split_guards(total))) == len(held):
        return total
    return choose(_joined(held, lazy), total, number(0, total.dtype), lazy)


def plus_under_common_guards(a: Expr, b: Expr) -> Expr:
    """Return ``a + b`` under the first conditions that the choices around both have in common.

    They may keep the index of what ``a`` and ``b`` are adjoints of in bounds.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> a, b = guard_value([both(x > 0, x < 5)], x), guard_value([both(x > 0, x > 2)], x)
    >>> split_off_guards(plus_under_common_guards(a, b))[0]
    (x > 0,)
    """
    total = plus(a, b)
    held = _common(_split_guards(a), _split_guards(b))
    if not held or _is_guarded(total):
        return total
    return guard_value([_joined(held, True)], total)


def _split_guards(value: Expr) -> list[Expr]:
    """Return the conditions of the choices with a side of 0 around ``value``, one by one."""
    conditions: list[Expr] = []
    waiting = [_condition(guard) for guard in reversed(_guards(value)[0])]
    while waiting:
        cond = waiting.pop()
        if is_both(cond):
            waiting += [cond.a, cond.cond]
        else:
            conditions.append(cond)
    return conditions


def _common(left: Sequence[Expr], right: Sequence[Expr]) -> list[Expr]:
    """Return the first conditions that are the same in both."""
    pairs = takewhile(lambda pair: same(*pair), zip(left, right))
    return [own for own, _ in pairs]


def _joined(conditions: Sequence[Expr], lazy: bool) -> Expr:
    """Return the conjunction; if it is ``lazy``, each is evaluated only if those before hold."""
    return reduce(both if lazy else _and, conditions)


def _and(a: Expr, b: Expr) -> Expr:
    return Binary("&", a, b, "bool")


def negative(a: Expr) -> Expr:
    """Return ``-a``."""
    if isinstance(a, Const):
        return number(-a.value, a.dtype)
    if isinstance(a, Unary) and a.op == "-":
        return a.a
    if _is_guarded(a):
        return inside(a, negative)
    return Unary("-", a, a.dtype)


def times(a: Expr, b: Expr) -> Expr:
    """Return ``a * b``.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> times(x, number(1, "float32")) is x, times(x, number(0, "float32")), times(negative(x), x)
    (True, 0, -(x * x))
    >>> times(x, divide(number(1, "float32"), x + 1))
    x / (x + 1)
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const):
            if isinstance(other, Const):
                return number(one.value * other.value, a.dtype)
            if one.value == 0:
                return number(0, a.dtype)
            if one.value == 1:
                return other
            if one.value == -1:
                return negative(other)
    if _is_guarded(a):
        return inside(a, lambda side: times(side, b))
    if _is_guarded(b):
        return inside(b, lambda side: times(a, side))
    if isinstance(a, Unary) and a.op == "-":
        return negative(times(a.a, b))
    if isinstance(b, Unary) and b.op == "-":
        return negative(times(a, b.a))
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Binary) and one.op == "/" and isinstance(one.a, Const):
            return divide(times(other, one.a), one.b)
    if isinstance(a, Binary) and a.op == "*" and isinstance(a.b, Const) and isinstance(b, Const):
        return times(a.a, times(a.b, b))
    return Binary("*", a, b, a.dtype)


def divide(a: Expr, b: Expr) -> Expr:
    """Return ``a / b``."""
    if isinstance(a, Const) and isinstance(b, Const) and b.value:
        return number(a.value / b.value, a.dtype)
    if is_number(a, 0) or is_number(b, 1):
        return a
    if isinstance(a, Unary) and a.op == "-":
        return negative(divide(a.a, b))
    if _is_guarded(a):
        return inside(a, lambda side: divide(side, b))
    return Binary("/", a, b, a.dtype)


def choose(cond: Expr, a: Expr, b: Expr, lazy: bool) -> Expr:
    """Return ``a`` where ``cond`` holds, else ``b``; only the chosen one if it is ``lazy``."""
    if isinstance(cond, Const):
        return a if cond.value else b
    if a is b or (is_number(a) and is_number(b) and same(a, b)):
        return a
    return Select(cond, a, b, a.dtype, lazy)


def guard_value(conditions: Iterable[Expr], value: Expr) -> Expr:
    """Return ``value`` where all ``conditions`` hold, else 0; its reads are then not evaluated."""
    joined = conjunction(conditions)
    return value if joined is None else choose(joined, value, number(0, value.dtype), True)


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """Return the conjunction of conditions, ``None`` if there are none."""
    joined: Expr | None = None
    for cond in conditions:
        joined = cond if joined is None else Binary("&", joined, cond, "bool")
    return joined


def split_off_guards(value: Expr) -> tuple[tuple[Expr, ...], Expr]:
    """Return conditions without which ``value`` is 0, and its value where they hold.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> split_off_guards(guard_value([x > 0, x < 9], x + 1))
    (((x > 0) & (x < 9),), x + 1)
    """
    conditions: list[Expr] = []
    while isinstance(value, Select) and dtypes.is_float(value.dtype):
        if is_number(value.b, 0):
            conditions.append(value.cond)
            value = value.a
        elif is_number(value.a, 0):
            conditions.append(Unary("~", value.cond, "bool"))
            value = value.b
        else:
            break
    return tuple(conditions), value


def _is_guarded(value: Expr) -> bool:
    """Return whether ``value`` is a choice with a side of 0."""
    return isinstance(value, Select) and (is_number(value.a, 0) or is_number(value.b, 0))


def within(value: Expr, cond: Expr, holds: bool, lazy: bool) -> Expr:
    """Return ``value`` where the truth of ``cond`` is ``holds``, else 0.

    The conditions under which ``value`` is not 0 already are tested first: they may guard reads in
    ``cond``. Many of them become one, so that the depth of choices is bounded.
    """
    guards, inner = _guards(value)
    if len(guards) >= _MOST_GUARDS:
        joined = _condition(guards[0])
        for guard in guards[1:]:
            joined = both(joined, _condition(guard))
        guards = [Select(joined, inner, number(0, value.dtype), value.dtype, True)]
    none = number(0, value.dtype)
    sides = (inner, none) if holds else (none, inner)
    return _around(guards, choose(cond, sides[0], sides[1], lazy))


def _guards(value: Expr) -> tuple[list[Select], Expr]:
    """Return the choices with a side of 0 around a value, from outside, and the value."""
    guards: list[Select] = []
    while isinstance(value, Select) and _is_guarded(value):
        guards.append(value)
        value = value.b if is_number(value.a, 0) else value.a
    return guards, value


def _condition(guard: Select) -> Expr:
    return Unary("~", guard.cond, "bool") if is_number(guard.a, 0) else guard.cond


def _around(guards: list[Select], value: Expr) -> Expr:
    none = number(0, value.dtype)
    for guard in reversed(guards):
        first, second = (none, value) if is_number(guard.a, 0) else (value, none)
        value = choose(guard.cond, first, second, guard.lazy)
    return value


def inside(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return a choice with a side of 0, with the other side changed; any number may be nested.

    The conditions stay outside: they may keep what ``change`` reads in bounds. Any other value is
    changed as a whole.
    """
    guards, inner = _guards(value)
    return _around(guards, change(inner))


def convert(value: Expr, dtype: str) -> Expr:
    """Return ``value`` in another float dtype."""
    if value.dtype == dtype:
        return value
    if _is_guarded(value):
        return inside(value, lambda side: convert(side, dtype))
    return cast(value, dtype)


def same(a: Expr, b: Expr) -> bool:
    """Return whether two expressions are equal, node by node, and not too long to compare.

    >>> from schedlang.expr.nodes import Axis
    >>> i = Axis("i", 4)
    >>> same((i + 1) * 2, i * 2 + 2), same(i + 1, i + 2)
    (True, False)
    """
    stack, budget = [(a, b)], _MOST_COMPARED
    while stack:
        x, y = stack.pop()
        budget -= 1
        if x is y:
            continue
        if budget < 0 or x.dtype != y.dtype or x.weak != y.weak:
            return False
        if x.weak and x.dtype == "int64":
            if to_lin(x) != to_lin(y):
                return False
            continue
        if label(x) != label(y):
            return False
        stack.extend(zip(x.children, y.children))
    return True


def label(node: Expr) -> tuple[object, ...]:
    """Return what tells a node from others with equal children."""
    extra: object = id(node)
    if isinstance(node, Const):
        # 0.0 and -0.0 are equal numbers, and NaN is not equal to itself
        extra = repr(node.value)
    elif isinstance(node, (Binary, Unary)):
        extra = node.op
    elif isinstance(node, Call):
        extra = node.fn
    elif isinstance(node, Select):
        extra = node.lazy
    elif isinstance(node, Read):
        extra = node.tensor
    elif isinstance(node, Cast):
        extra = None
    return type(node), node.dtype, node.weak, extra
