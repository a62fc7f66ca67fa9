"""Construction of expressions: constants, casts and operations with NumPy's dtype rules."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain, text_of
from schedlang.expr import dtypes
from schedlang.expr.bfloat import as_float32, convert_values
from schedlang.expr.nodes import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    ExprLike,
    Select,
    Unary,
    Var,
)
from schedlang.expr.operators import COMPARISONS, ON_INDICES, OPERATORS
from schedlang.index.ranges import weak_range
from schedlang.signatures import public

# the largest power of a complex number that is written as products, as in NumPy
MOST_POWER = 100
SIGNED = {"int8", "int16", "int32", "int64"}


@public
def const(value: ExprLike, dtype: object = None) -> Const:
    """Return a constant; without ``dtype``, a Python int or float is weak."""
    if dtype is not None:
        name = dtypes.canonical(dtype)
        if isinstance(value, Expr):
            raise ComputeTypeError(f"const({value}): {value} is an expression; give a number")
        return Const(_checked(value, name), name)
    if isinstance(value, np.generic):
        return Const(as_float32(value).item(), dtypes.canonical(value.dtype))
    if isinstance(value, bool):
        return Const(value, "bool")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ComputeTypeError(
                f"{_shown(value)} fits no integer dtype: the largest have 64 bits"
            )
        return Const(value, dtypes.INDEX, weak=True)
    if isinstance(value, float):
        return Const(value, "float64", weak=True)
    if isinstance(value, complex):
        return Const(value, "complex128", weak=True)
    raise ComputeTypeError(
        f"{type(value).__name__} {text_of(value)} cannot be used in an expression: use a number, "
        "an "
        "axis, or an element of a tensor such as A[i, j]"
    )


def _checked(value: Any, dtype: str) -> Any:
    """Return ``value`` as a Python number of ``dtype``; raise for one that does not fit."""
    if dtypes.is_complex(dtype) and isinstance(value, (complex, np.complexfloating)):
        return complex(value)
    number = _number(value)
    if number is None:
        raise ComputeTypeError(
            f"{type(value).__name__} {value!r} is not a number of {dtype}: give an int, a float or "
            "a bool"
        )
    if dtype == "bool":
        return bool(number)
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        try:
            return float(number) if dtypes.is_float(dtype) else complex(number)
        except OverflowError:
            most = dtypes.largest(dtype)
            raise ComputeTypeError(
                f"{_shown(number)} does not fit {dtype}, whose largest number is {most}"
            ) from None
    if isinstance(number, float) and not number.is_integer():
        raise ComputeTypeError(
            f"{number} is not a value of {dtype}: round it, or convert it with sl.cast"
        )
    low, high = dtypes.limits(dtype)
    if not low <= number <= high:
        raise ComputeTypeError(f"{_shown(number)} does not fit {dtype} ({low}..{high})")
    return int(number)


def _number(value: Any) -> int | float | None:
    """Return ``value`` as a Python number, or ``None`` if it is none."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (str, bytes, complex, np.complexfloating)) or np.ndim(value):
        return None
    for convert_to in (operator.index, float):
        # a float in an array has __index__, but no index
        with suppress(TypeError):
            return convert_to(value)
    return None


def _shown(value: int | float) -> str:
    """Return a number as text, or its size if it has very many digits."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def as_expr(value: ExprLike) -> Expr:
    """Return ``value`` as an expression; a 0-d tensor stands for its element.

    So does a 0-d array of NumPy that holds an expression, as ``np.vectorize`` makes it.
    """
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
        value = value.item()
    if isinstance(value, Expr):
        return value
    read = getattr(value, "as_scalar", None)
    if read is not None:
        return read()
    return const(value)


def convert(value: Expr, dtype: str) -> Expr:
    """Return ``value`` converted to ``dtype``; raise if it is weak and may not fit."""
    if value.dtype == dtype:
        if value.weak and isinstance(value, Const):
            return Const(_checked(value.value, dtype), dtype)
        return value
    if value.weak and isinstance(value, Const):
        return Const(_checked(value.value, dtype), dtype)
    if value.weak and dtypes.is_integer(dtype):
        low, high = weak_range(value)
        least, most = dtypes.limits(dtype)
        if (low is not None and low < least) or (high is not None and high > most):
            raise ComputeTypeError(
                explain(
                    f"{value} in {dtype} arithmetic",
                    f"it takes the values {low}..{high}, but {dtype} holds {least}..{most}",
                    f"Cast the element of the tensor first, e.g. A[i].astype('int64'), or, to wrap "
                    f"around, the axis: sl.cast({value}, '{dtype}').",
                )
            )
    return Cast(value, dtype)


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """Return ``left op right``, with operands converted to their common dtype."""
    a, b = operands = as_expr(left), as_expr(right)
    dtype, weak = dtypes.promote(a.dtype, a.weak, b.dtype, b.weak)
    if dtypes.is_complex(dtype):
        return complex_binary(op, a, b, dtype, weak)
    if op in ("<<", ">>", "&", "|", "^"):
        if dtypes.is_float(dtype):
            raise ComputeTypeError(
                f"{a} {op} {b}: bitwise operators take integers or bools, not {dtype}; cast the "
                "operands first"
            )
        if dtype == "bool" and op in ("<<", ">>"):
            dtype = "int8"
    elif op == "/":
        if not dtypes.is_float(dtype):
            dtype = "float64"
    elif op == "**" and dtypes.is_integer(dtype) and isinstance(b, Const) and b.value < 0:
        raise ComputeTypeError(
            f"{a} ** {b.value}: integers to negative powers are not defined, as in NumPy; "
            "cast the base to a float first"
        )
    elif dtype == "bool" and op in ("-",):
        raise ComputeTypeError(f"{a} - {b}: bools cannot be subtracted; use ^ or cast them first")
    elif dtype == "bool" and op in ("//", "%", "**"):
        dtype = "int8"
    if op in COMPARISONS:
        bare = isinstance(a, Var) and isinstance(b, Var)
        if not (a.weak and b.weak) and not (bare and a.dtype != b.dtype and op in ("==", "!=")):
            pair = {a.dtype, b.dtype}
            if not (a.weak or b.weak) and "uint64" in pair and pair & SIGNED:
                return _compare_exactly(op, a, b)
            decision = _beyond(op, a, b)
            if decision is not None:
                return decision
            wide = "int64" if _may_overflow(a, dtype) or _may_overflow(b, dtype) else dtype
            a, b = convert(a, wide), convert(b, wide)
        return Binary(op, a, b, "bool")
    if not weak:
        a, b = _converted(op, a, b, dtype)
    elif dtypes.is_float(dtype):
        a, b = _weak_float(a), _weak_float(b)
    folded = _fold(op, a, b)
    if folded is not None:
        return folded
    return mark_widened(Binary(op, a, b, dtype, weak), operands)


def _converted(op: str, a: Expr, b: Expr, dtype: str) -> tuple[Expr, Expr]:
    """Return the operands of ``a op b`` in ``dtype``; raise for a number that does not fit it."""
    try:
        return convert(a, dtype), convert(b, dtype)
    except ComputeTypeError as error:
        other = b if isinstance(a, Const) else a
        if isinstance(other, Const) or not (isinstance(a, Const) or isinstance(b, Const)):
            raise
        # of A[i] + 300, the user wrote A + 300 or this
        name = getattr(getattr(other, "tensor", None), "name", None) or text_of(other)
        raise ComputeTypeError(
            explain(
                f"{text_of(a)} {op} {text_of(b)}",
                str(error),
                f"{name} is {other.dtype}: convert it first, {name}.astype('int64'), or give a "
                "NumPy number, such as np.int64(...).",
            )
        ) from None


def mark_widened(node: Expr, operands: Sequence[Expr]) -> Expr:
    """Return ``made``, marked as ``widened`` if it is float64 and no operand is a tensor's float.

    All its ``operands`` are then integers, bools or weak numbers.
    """
    if node.dtype == "float64" and not node.weak and isinstance(node, (Binary, Call, Select)):
        if all(v.weak or not dtypes.is_float(v.dtype) for v in operands):
            return replace(node, widened=True)
    return node


def _may_overflow(value: Expr, dtype: str) -> bool:
    """Return whether ``value`` is an index that may not fit the integer ``dtype``.

    It is then compared as int64, as NumPy compares a Python number by its value.
    """
    if not value.weak or isinstance(value, Const) or dtype in ("int64", "uint64"):
        return False
    return dtypes.is_integer(dtype) and None in weak_range(value)


def _beyond(op: str, a: Expr, b: Expr) -> Const | None:
    """Return the result of a comparison with a Python integer that the other's dtype cannot hold.

    NumPy compares it by its value, so that the result is always the same. Return ``None`` for other
    operands.
    """
    number, other = (a, b) if isinstance(a, Const) and a.weak else (b, a)
    if not isinstance(number, Const) or not isinstance(number.value, int) or other.weak:
        return None
    if not dtypes.is_integer(other.dtype):
        return None
    low, high = dtypes.limits(other.dtype)
    if low <= number.value <= high:
        return None
    # the sign of a - b
    less = (number.value < low) == (number is a)
    return Const(op == "!=" or op in (("<", "<=") if less else (">", ">=")), "bool")


def _compare_exactly(op: str, a: Expr, b: Expr) -> Expr:
    """Return an exact comparison of uint64 and a signed integer, which float64 cannot hold."""
    signed_first = a.dtype != "uint64"
    signed = a if signed_first else b
    sides = [Cast(x, "uint64") if x is signed else x for x in (a, b)]
    compared = Binary(op, sides[0], sides[1], "bool")
    # a negative number is less than any uint64
    holds = op == "!=" or (op in ("<", "<=") if signed_first else op in (">", ">="))
    sign = Binary("<" if holds else ">=", signed, Const(0, signed.dtype), "bool")
    # keep the order of the operands in the program
    parts = (sign, compared) if signed_first else (compared, sign)
    return Binary("|" if holds else "&", *parts, "bool")


def _weak_float(value: Expr) -> Expr:
    if value.dtype == "float64":
        return value
    if isinstance(value, Const):
        return Const(float(value.value), "float64", weak=True)
    return Cast(value, "float64", weak=True)


def complex_binary(op: str, a: Expr, b: Expr, dtype: str, weak: bool) -> Expr:
    """Return ``a op b`` in the complex ``dtype``; raise for what complex numbers do not have."""
    if op in ("<", "<=", ">", ">="):
        why = "complex numbers have no order"
        raise ComputeTypeError(
            explain(f"{a} {op} {b}", why, "Compare parts or magnitudes: z.real, z.imag, sl.abs(z).")
        )
    if op == "**":
        return _complex_power(a, b, dtype)
    if op not in ("+", "-", "*", "/", "==", "!="):
        raise ComputeTypeError(
            f"{a} {op} {b}: {op} takes no complex numbers; apply it to z.real and z.imag"
        )
    a, b = (_weak_complex(v) if weak else convert(v, dtype) for v in (a, b))
    if op in COMPARISONS:
        return Binary(op, a, b, "bool")
    return Binary(op, a, b, dtype, weak)


def _complex_power(a: Expr, b: Expr, dtype: str) -> Expr:
    """Return ``a`` to the power ``b``, a small known integer by repeated squaring as in NumPy."""
    power = b.value if isinstance(b, Const) else None
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    if not isinstance(power, int) or isinstance(power, bool) or abs(power) > MOST_POWER:
        return _power_by_angle(a, b, dtype)
    product: Expr | None = None
    square, remaining = a, abs(power)
    while remaining:
        if remaining % 2:
            product = square if product is None else binary("*", product, square)
        remaining //= 2
        square = binary("*", square, square) if remaining else square
    if product is None:
        return binary("+", binary("*", a, 0), 1)
    return product if power > 0 else binary("/", 1, product)


def _power_by_angle(a: Expr, b: Expr, dtype: str) -> Expr:
    """Return ``a ** b`` by the magnitude and the angle of ``a``, in float64 as an accurate one.

    As in NumPy, any number to the power 0 is 1, and 0 to a power that is not positive NaN.
    """
    wide = "float64"

    def parts(value: Expr) -> list[Expr]:
        whole = cast(settle(value), "complex128")
        return [Call(part, (whole,), wide) for part in ("real", "imag")]

    (ar, ai), (br, bi) = parts(a), parts(b)
    size = Call("abs", (cast(settle(a), "complex128"),), wide)
    log, angle = Call("log", (size,), wide), Call("atan2", (ai, ar), wide)
    length = Call("exp", (br * log - bi * angle,), wide)
    turn = br * angle + bi * log
    zero, one = const(0.0, wide), const(1.0, wide)
    unknown = const(math.nan, wide)
    of_zero = binary("==", size, zero)
    to_zero = binary("==", br, zero) & binary("==", bi, zero)
    shrinks = (br > zero) & binary("==", bi, zero)

    def chosen(value: Expr, at_zero: Expr) -> Expr:
        powers = select(of_zero, select(shrinks, zero, unknown), value)
        return select(to_zero, at_zero, powers)

    real = chosen(length * Call("cos", (turn,), wide), one)
    imag = chosen(length * Call("sin", (turn,), wide), zero)
    return cast(real + imag * const(1j, "complex128"), dtype)


def _weak_complex(value: Expr) -> Expr:
    if value.dtype == "complex128":
        return value
    if isinstance(value, Const):
        return Const(complex(value.value), "complex128", weak=True)
    return Cast(value, "complex128", weak=True)


def _fold(op: str, a: Expr, b: Expr) -> Const | None:
    """Return ``a op b`` of two weak integer constants as a constant; ``None`` for others."""
    if not (isinstance(a, Const) and isinstance(b, Const) and a.weak and b.weak):
        return None
    x, y = a.value, b.value
    if isinstance(x, int) and isinstance(y, int) and op in ON_INDICES:
        if op in ("//", "%") and y == 0:
            raise ComputeTypeError(f"{x} {op} 0: division by zero")
        return Const(OPERATORS[op].of_python(x, y), dtypes.INDEX, weak=True)
    return None


def unary(op: str, value: ExprLike) -> Expr:
    a = as_expr(value)
    if op == "~" and (dtypes.is_float(a.dtype) or dtypes.is_complex(a.dtype)):
        raise ComputeTypeError(f"~{a}: ~ takes an integer or a bool, not {a.dtype}; cast it first")
    if op == "-":
        if a.dtype == "bool":
            raise ComputeTypeError(f"-{a}: a bool cannot be negated by -; use ~ or cast it first")
        if isinstance(a, Const):
            return Const(-a.value, a.dtype, a.weak) if a.weak else Unary(op, a, a.dtype)
    return Unary(op, a, a.dtype, a.weak)


def cast(value: ExprLike, dtype: object) -> Expr:
    """Return ``value`` converted to ``dtype``, by the rules of NumPy's ``astype``.

    Integers wrap, floats truncate toward zero, anything but zero is ``True``.

    >>> cast(3, "float32").dtype
    'float32'
    """
    a, name = as_expr(value), dtypes.canonical(dtype)
    if a.dtype == name and not a.weak:
        return a
    if dtypes.is_complex(a.dtype) and not dtypes.is_complex(name):
        raise ComputeTypeError(
            explain(
                f"sl.cast({a}, {name!r})",
                f"it would drop the imaginary part of a {a.dtype}",
                "Take a part or the magnitude first: z.real, z.imag or sl.abs(z); for a test "
                "write z != 0.",
            )
        )
    if isinstance(a, Const) and dtypes.is_complex(name):
        return Const(complex(a.value), name)
    if isinstance(a, Const) and dtypes.is_float(name):
        return Const(float(a.value), name)
    if isinstance(a, Const) and dtypes.is_float(a.dtype) and dtypes.is_integer(name):
        low, high = dtypes.limits(name)
        if not low <= a.value <= high:
            # compilers fold it otherwise than the machine's instructions compute it
            return Const(int(convert_values(convert_values(a.value, a.dtype), name)), name)
    return Cast(a, name)


def settle(value: Expr, floats: str = "float32") -> Expr:
    """Return ``value`` with a dtype of its own, if it is weak.

    A weak float becomes ``floats``, by default float32, as in te, and a weak complex number the
    dtype with such parts; a weak integer becomes int64.

    >>> settle(const(0.5)).dtype, settle(const(2)).dtype
    ('float32', 'int64')
    """
    if not value.weak:
        return value
    dtype = value.dtype
    if dtypes.is_float(dtype):
        dtype = floats
    elif dtypes.is_complex(dtype):
        dtype = "complex64" if floats == "float32" else "complex128"
    if isinstance(value, Select):
        # convert both sides, which are numbers
        a, b = (cast(v, dtype) for v in (value.a, value.b))
        return Select(value.cond, a, b, a.dtype, value.lazy)
    return cast(value, dtype)


def select(cond: ExprLike, a: ExprLike, b: ExprLike, lazy: bool = False) -> Expr:
    c, x, y = as_expr(cond), as_expr(a), as_expr(b)
    name = "if_then_else" if lazy else "select"
    if c.dtype != "bool":
        raise ComputeTypeError(
            f"{name}({c}, ...): the condition is {c.dtype}; compare it, e.g. {c} != 0"
        )
    dtype, weak = dtypes.promote(x.dtype, x.weak, y.dtype, y.weak)
    sides = x, y
    if not weak:
        x, y = convert(x, dtype), convert(y, dtype)
    elif dtypes.is_float(dtype):
        x, y = _weak_float(x), _weak_float(y)
    elif dtypes.is_complex(dtype):
        x, y = _weak_complex(x), _weak_complex(y)
    return mark_widened(Select(c, x, y, dtype, lazy, weak), sides)
