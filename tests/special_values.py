"""The table of operations on special values, each beside NumPy or a rule of dtypes.md.

An :class:`Operation` has its value in the language and in NumPy, for arrays. Where NumPy's value
differs by machine or vector width, the operation has the rule of the document instead, computed
here. :func:`operations` lists all of them, and :data:`EXCLUDED` those without an entry.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.expr import dtypes
from schedlang.expr.functions import FUNCTIONS, Function
from schedlang.language.calls import call

# tests/test_bfloat16.py and tests/test_complex.py test the others
DTYPES = tuple(d for d in dtypes.DTYPES if d != "bfloat16" and not dtypes.is_complex(d))
FLOATS = tuple(d for d in DTYPES if dtypes.is_float(d))
INTEGERS = tuple(d for d in DTYPES if dtypes.is_integer(d))

Value = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """An operation of one or two operands; ``covers`` are the names in the package's own tables.

    A result may be off by some units in the last place, of the larger operand if it ``cancels``.
    """

    name: str
    ours: Value
    numpy: Value
    arity: int = 1
    covers: tuple[str, ...] = ()
    cancels: bool = False


# --- rules that docs/reference/dtypes.md states, where NumPy has several answers


def first_extreme(better: Value) -> Value:
    """Return min or max: NaN if an operand is, and the first of two equal operands."""

    def extreme(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = (v.astype(np.result_type(a, b)) for v in np.broadcast_arrays(a, b))
        nan = np.isnan(b) & ~np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
        return np.where(better(b, a) | nan, b, a)

    return extreme


minimum, maximum = first_extreme(np.less), first_extreme(np.greater)


def fmin(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, minimum(a, b)))


def fmax(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, maximum(a, b)))


def _truncated(value: float, dtype: str) -> int:
    """Return a float as an integer of ``dtype``, as x86's instructions and C compilers do.

    It is truncated in the signed dtype of 32 or 64 bits that holds all values of ``dtype``; what
    does not fit that, NaN too, is its lowest number. The low bits of the result remain.
    """
    bits = dtypes.itemsize(dtype) * 8
    if dtype == "uint64" and value >= 2.0**63:
        return (_truncated(value - 2.0**63, "int64") + 2**63) % 2**64
    wide = 32 if bits < 32 or dtype == "int32" else 64
    fits = math.isfinite(value) and -(2 ** (wide - 1)) <= math.trunc(value) < 2 ** (wide - 1)
    whole = math.trunc(value) if fits else -(2 ** (wide - 1))
    low, high = dtypes.limits(dtype)
    return (whole - low) % (high - low + 1) + low


def cast_to(dtype: str) -> Value:
    def cast(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "f" and dtypes.is_integer(dtype):
            return np.array([_truncated(v, dtype) for v in x.astype(float).tolist()], dtype)
        return x.astype(dtype)

    return cast


def saturated_to(dtype: str) -> Value:
    low, high = dtypes.limits(dtype)

    def one(v: Any) -> int:
        if isinstance(v, float) and not math.isfinite(v):
            return 0 if math.isnan(v) else low if v < 0 else high
        return min(max(math.trunc(v), low), high)

    return lambda x: np.array([one(v) for v in x.tolist()], dtype)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a**b``: C's pow of floats; of integers, the inverse truncated toward zero."""
    a, b = np.broadcast_arrays(a, b)
    dtype = np.power(np.ones(1, a.dtype), np.ones(1, b.dtype)).dtype
    if dtype.kind == "f":
        # the exponents are an array: for one number 0.5, NumPy takes the square root
        return np.power(a.astype(dtype), b.astype(dtype))
    bits, low = 8 * dtype.itemsize, dtypes.limits(dtype.name)[0]

    def one(x: int, y: int) -> int:
        if y < 0:
            return {1: 1, -1: 1 - 2 * (y % 2)}.get(x, 0)
        return (pow(x, y, 2**bits) - low) % 2**bits + low

    flat = [one(int(x), int(y)) for x, y in zip(a.ravel(), b.ravel())]
    return np.array(flat, dtype).reshape(a.shape)


def wide(f: Value) -> Value:
    """Return ``f`` in double precision, rounded to NumPy's dtype for square roots."""
    return lambda x: f(x.astype("float64")).astype(np.sqrt(x[:1]).dtype)


def bits_of(dtype: str) -> Value:
    def bits(x: np.ndarray) -> np.ndarray:
        if x.dtype.itemsize != np.dtype(dtype).itemsize or x.dtype.kind not in "if":
            raise TypeError("another size")
        if x.dtype.kind == np.dtype(dtype).kind:
            raise TypeError("the same kind")
        return x.view(dtype)

    return bits


def nearest_tf32(x: np.ndarray) -> np.ndarray:
    """Return float32 rounded to 11 bits of mantissa, ties away from 0, by float64."""
    if x.dtype != np.float32:
        raise TypeError("another dtype")
    with np.errstate(over="ignore"):
        _, exponent = np.frexp(np.where(np.isfinite(x), x, 1).astype("float64"))
        # the least exponent is that of the denormals
        unit = np.ldexp(1.0, np.maximum(exponent, -125) - 11)
        scaled = np.abs(x.astype("float64")) / unit
        rounded = np.copysign(np.floor(scaled + 0.5) * unit, x)
        return np.where(np.isfinite(x), rounded, x).astype("float32")


def only(kinds: str, f: Value) -> Value:
    """Return ``f`` for arrays of these kinds alone."""

    def function(*arrays: np.ndarray) -> np.ndarray:
        if any(a.dtype.kind not in kinds for a in arrays):
            raise TypeError("another kind")
        return f(*arrays)

    return function


_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
}  # fmt: skip


def _operators() -> Iterator[Operation]:
    for op, f in _BINARY.items():
        yield Operation(f"a {op} b", f, f, 2, (f"operator {op}",))
    yield Operation("a ** b", operator.pow, power, 2, ("operator **", "sl.pow", "np.power"))
    yield Operation("-a", operator.neg, np.negative, 1, ("unary -",))
    yield Operation("~a", operator.invert, np.invert, 1, ("unary ~",))
    for p in (0, 2, 3, 0.5, -0.5):
        yield Operation(f"a**{p}", lambda x, p=p: x**p, _power_by(p))
    for op in ("//", "%", "<<", ">>"):
        for number in (0, 3, 200) if op in "<<>>" else (0, 3, 7):
            f = _BINARY[op]
            yield Operation(f"a {op} {number}", lambda x, f=f, n=number: f(x, n), _by(f, number))


def _power_by(p: float) -> Value:
    def f(x: np.ndarray) -> np.ndarray:
        exponent = np.full(x.shape, p, (x * p).dtype if x.dtype != bool else type(p))
        return power(x, exponent)

    return f


def _by(f: Value, number: int) -> Value:
    def by(x: np.ndarray) -> np.ndarray:
        if x.dtype == bool or number > np.iinfo(x.dtype if x.dtype.kind in "iu" else "int64").max:
            raise TypeError("the number does not fit")
        return f(x, np.full(x.shape, number, x.dtype))

    return by


# functions that NumPy does not have
_WITHOUT_UFUNC: dict[str, Value] = {
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=["float64"]),
    "erfc": np.vectorize(math.erfc, otypes=["float64"]),
}  # fmt: skip


def _of_row(row: Function) -> Operation:
    """Return a function of users beside NumPy's of the same meaning, or one written here."""
    if not row.ufunc:
        f = wide(_WITHOUT_UFUNC[row.name])
    elif row.rule == "whole":
        # those of integers stay as they are, where older versions of NumPy give floats
        f = only("f", getattr(np, row.ufunc))
    else:
        f = getattr(np, row.ufunc)
    # NumPy's conjugate of a bool is refused
    f = only("iuf", f) if row.name == "conj" else f
    return Operation(f"sl.{row.name}", getattr(sl, row.name), f, row.arity, (row.name,))


def _functions() -> Iterator[Operation]:
    yield Operation("sl.logical_not", sl.logical_not, only("b", np.logical_not))
    for name, f in ("all", np.logical_and), ("any", np.logical_or):
        yield Operation(f"sl.{name}", getattr(sl, name), only("b", f), 2)
    yield from (_of_row(f) for f in FUNCTIONS.values() if f.returns)
    for t in ("int32", "int64", "float32", "float64"):
        name = f"bits_{t}"
        yield Operation(name, lambda x, n=name: call(n, x), bits_of(t), 1, (name,))
    yield Operation("tf32", lambda x: call("tf32", x), nearest_tf32, 1, ("tf32",))
    for t in INTEGERS:
        ours = lambda x, t=t: sl.saturating_cast(x, t)  # noqa: E731
        names = (f"saturated_{t}", "sl.saturating_cast")
        yield Operation(f"saturated {t}", ours, saturated_to(t), 1, names)
    yield Operation("sl.popcount", sl.popcount, np.bitwise_count, 1, ("popcount",))
    yield Operation("sl.min", sl.min, minimum, 2, ("min",))
    yield Operation("sl.max", sl.max, maximum, 2, ("max",))
    yield Operation("sl.atan2", sl.atan2, np.arctan2, 2, ("atan2",))
    for t in DTYPES:
        yield Operation(f"cast {t}", lambda x, t=t: sl.cast(x, t), cast_to(t), 1, ("sl.cast",))


_ROWS = [f for f in FUNCTIONS.values() if f.name not in ("real", "imag", "min", "max")]
_UFUNCS_1 = (
    "deg2rad degrees fabs invert logical_not negative positive rad2deg radians reciprocal sign "
    "signbit square"
).split() + [f.ufunc for f in _ROWS if f.ufunc and f.arity == 1]
_UFUNCS_2 = (
    "add bitwise_and bitwise_or bitwise_xor copysign divide equal floor_divide fmod "
    "float_power greater greater_equal heaviside hypot left_shift less less_equal logaddexp "
    "logaddexp2 logical_and logical_or logical_xor mod multiply not_equal remainder right_shift "
    "subtract true_divide"
).split() + [f.ufunc for f in _ROWS if f.ufunc and f.arity == 2]
_OWN_2 = {"maximum": maximum, "minimum": minimum, "fmax": fmax, "fmin": fmin}


def _ufuncs() -> Iterator[Operation]:
    for name in _UFUNCS_1:
        yield Operation(f"np.{name}", getattr(np, name), getattr(np, name))
    for name in _UFUNCS_2:
        f = getattr(np, name)
        yield Operation(f"np.{name}", f, f, 2, cancels=name.startswith("logadd"))
    for name, f in _OWN_2.items():
        yield Operation(f"np.{name}", getattr(np, name), f, 2)


def _elementwise() -> Iterator[Operation]:
    """Yield functions of NumPy that are no ufuncs, and operations with constants."""
    zero, one = np.zeros(1), np.ones(1)

    def within(x: np.ndarray) -> np.ndarray:
        return minimum(maximum(x, zero.astype(x.dtype)), one.astype(x.dtype))

    def beside(f: Value, number: float) -> Value:
        return lambda x: f(x, np.full(1, number, x.dtype))

    yield Operation("np.clip", lambda x: np.clip(x, 0, 1), only("iuf", within))
    for z in (0.0, -0.0):
        for name, f in ("max", maximum), ("min", minimum):
            ours = getattr(sl, name)
            want = only("f", beside(f, z))
            yield Operation(f"{name}(a, {z})", lambda x, o=ours, z=z: o(x, z), want)
            yield Operation(f"{name}({z}, a)", lambda x, o=ours, z=z: o(z, x), want)
    first = lambda a, b: np.where(a, a, b)  # noqa: E731
    yield Operation("np.where", first, first, 2)
    yield Operation("np.sinc", np.sinc, only("f", np.sinc))
    yield Operation("sl.select", lambda a, b: sl.select(a < b, a, b),
                    lambda a, b: np.where(a < b, a, b), 2, ("np.select",))  # fmt: skip
    yield Operation("sl.if_then_else", lambda a, b: sl.if_then_else(a < b, a, b),
                    lambda a, b: np.where(a < b, a, b), 2)  # fmt: skip
    for name in ("round", "around"):
        f = only("f", getattr(np, name))
        yield Operation(f"np.{name}", getattr(np, name), f)
    yield Operation("np.fix", np.fix, only("f", np.fix))
    yield Operation("np.nan_to_num", np.nan_to_num, np.nan_to_num)
    for equal in (False, True):
        f = lambda a, b, e=equal: np.isclose(a, b, equal_nan=e)  # noqa: E731
        yield Operation(f"np.isclose, {equal}", f, only("f", f), 2, ("np.isclose",))
    for name in ("imag", "angle", "isreal"):
        yield Operation(f"np.{name}", getattr(np, name), only("f", getattr(np, name)))


def operations() -> list[Operation]:
    return [*_operators(), *_functions(), *_ufuncs(), *_elementwise()]


_COMPLEX = "tests/test_complex.py"
EXCLUDED = {
    "cast bfloat16": "tests/test_bfloat16.py, since NumPy has no bfloat16",
    "cast complex64": _COMPLEX,
    "cast complex128": _COMPLEX,
    "np.real": f"a real number itself, and of complex ones {_COMPLEX}",
    "np.iscomplex": f"a constant for real numbers, and of complex ones {_COMPLEX}",
    "np.isrealobj": "it asks for the dtype",
    "np.iscomplexobj": "it asks for the dtype",
    "sl.const": "no operation: test_constants has constants as operands",
}
# what NumPy computes and the language refuses, with the reason
REFUSED = {"np.reciprocal": "of integers it is 0 but for 1 and -1, which nobody means"}
# NumPy has it, but the language has it for elements of another name or dtype only
ELEMENTS_ONLY = ("bits_int32", "bits_int64", "bits_float32", "bits_float64", "tf32")


def specials(dtype: str) -> np.ndarray:
    """Return zeros of both signs, NaN, infinities, denormals, limits and what lies beyond them."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = [0, 1, 2, 3, 7, info.bits - 1, info.bits, info.max, info.max - 1, info.min]
        more = [-1, -2, -3, -7] if kind.kind == "i" else []
        return np.array([*values, info.min + 1, *more], kind)
    limits = np.finfo(kind)
    small = float(limits.smallest_subnormal)
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 1e4, np.inf, float(limits.max)]
    values = [*sizes, float(limits.tiny), small]
    return np.array([np.nan, *values, *(-v for v in values)], kind)


def beyond_limits(dtype: str) -> np.ndarray:
    """Return :func:`specials`, and floats around the limits of every integer dtype."""
    values = specials(dtype)
    if not dtypes.is_float(dtype):
        return values
    ends = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    inside = [np.nextafter(np.array(e, dtype), np.array(0, dtype)) for e in ends if e < 60000]
    around = [*ends, *(e + 1 for e in ends), *(e - 1 for e in ends), 300.7, 3e9, 5e9, 1e19, 1e30]
    with np.errstate(over="ignore"):
        more = np.array([*around, *inside], dtype)
    return np.concatenate([values, more, -more])


__all__ = [
    "DTYPES", "ELEMENTS_ONLY", "EXCLUDED", "REFUSED", "Operation", "beyond_limits", "operations",
    "specials",
]  # fmt: skip
