"""Every operator and function agrees with NumPy on pairs of special values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.expr import dtypes
from schedlang.ir.interpret import interpret

# tests/test_bfloat16.py and tests/test_complex.py test the others
DTYPES = tuple(d for d in dtypes.DTYPES if d != "bfloat16" and not dtypes.is_complex(d))

Pair = tuple[Callable[..., Any], Callable[..., Any]]

PAIRS: dict[str, Pair] = {
    name: (getattr(operator, name), getattr(operator, name))
    for name in ("add sub mul truediv floordiv mod pow lt le gt ge eq ne and_ or_ xor "
                 "lshift rshift").split()
}  # fmt: skip
PAIRS |= {
    "min": (sl.min, np.minimum), "max": (sl.max, np.maximum), "atan2": (sl.atan2, np.arctan2),
    "sl.pow": (sl.pow, np.power),
}  # fmt: skip


def _wide(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``f`` in double precision, rounded to NumPy's dtype for square roots."""
    return lambda x: f(x.astype("float64")).astype(np.sqrt(x).dtype)


def _power(p: float) -> Pair:
    # an array of exponents, since NumPy takes the square root for a scalar 0.5
    return (lambda x: x**p), (lambda x: np.power(x, np.full(x.shape, p, (x * p).dtype)))


SINGLES: dict[str, Pair] = {
    name: (getattr(sl, name), getattr(np, name))
    for name in ("exp exp2 log log2 log10 log1p expm1 sqrt sin cos tan sinh cosh tanh floor ceil "
                 "trunc isnan isinf isfinite").split()
}  # fmt: skip
SINGLES |= {
    "asin": (sl.asin, np.arcsin), "acos": (sl.acos, np.arccos), "atan": (sl.atan, np.arctan),
    "abs": (sl.abs, np.abs), "neg": (operator.neg, np.negative),
    "rsqrt": (sl.rsqrt, _wide(lambda x: 1 / np.sqrt(x))),
    "sigmoid": (sl.sigmoid, _wide(lambda x: 1 / (1 + np.exp(-x)))),
    "erf": (sl.erf, _wide(np.vectorize(math.erf, otypes=["float64"]))),
    **{f"**{p}": _power(p) for p in (0, 2, 3, 0.5, -0.5)},
}  # fmt: skip


def specials(dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
        return np.array(values + ([-1, -2, -3] if kind.kind == "i" else []), kind)
    limits = np.finfo(kind)
    small = float(limits.smallest_subnormal)
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 1e4, np.inf, float(limits.max)]
    values = [*sizes, float(limits.tiny), small]
    return np.array([np.nan, *values, *(-v for v in values)], kind)


def assert_same(got: np.ndarray, want: np.ndarray, asked: str, arrays: Any) -> None:
    """Check that NaN, infinities and signed zeros are exact and the rest is within 4 ulps.

    The minimum or maximum of 0.0 and -0.0 may be either zero, as in NumPy.
    """
    assert got.dtype == want.dtype, asked
    if want.dtype.kind != "f":
        good = got == want
    else:
        a, b, info = got.astype("float64"), want.astype("float64"), np.finfo(want.dtype)
        signs = (np.signbit(a) == np.signbit(b)) | (asked in ("min", "max"))
        step = np.maximum(4 * float(info.eps) * np.abs(b), 2 * float(info.smallest_subnormal))
        with np.errstate(invalid="ignore"):
            distance = np.abs(a - b)
        near = np.isfinite(a) & np.isfinite(b) & (b != 0) & (distance <= step)
        good = (np.isnan(a) & np.isnan(b)) | ((a == b) & signs) | near
    wrong = np.flatnonzero(~good)[:3]
    assert not wrong.size, [
        (asked, *(x[k].item() for x in arrays), "gives", got[k].item(), "not", want[k].item())
        for k in wrong
    ]


def cases(table: dict[str, Pair], arrays: list[np.ndarray]) -> list[tuple[str, Any, np.ndarray]]:
    """Return the operations that NumPy has for the dtype, with its results."""
    found = []
    for name, (ours, numpy) in table.items():
        try:
            want = numpy(*arrays)
        except (TypeError, ValueError):
            continue  # no loop for this dtype, or integers to negative powers
        if name not in ("floor", "ceil", "trunc") or arrays[0].dtype.kind == "f":
            found.append((name, ours, want))
    return found


def run(target: str, outputs: Any, arrays: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    if target == "reference":
        return sl.reference(list(outputs))(*arrays)
    s = sl.schedule(list(outputs))
    if target == "interpreter":
        return interpret(sl.lower(s), arrays).outputs
    if target == "lanes":
        _, inner = s[outputs[0]].split(s[outputs[0]].op.axis[0], factor=8)
        s[outputs[0]].vectorize(inner)
        target = "cpu"
    return sl.build(s, target=target)(*arrays)


def described(dtype: str, arrays: list[np.ndarray], operations: list[Any]) -> Any:
    inputs = [sl.placeholder(x.shape, dtype, name=n) for x, n in zip(arrays, "AB")]
    return sl.compute(
        arrays[0].shape, lambda i: tuple(f(*(t[i] for t in inputs)) for f in operations), "C"
    )


def check(dtype: str, targets: list[str]) -> None:
    values = specials(dtype)
    pairs = [np.repeat(values, values.size), np.tile(values, values.size)]
    for table, arrays in ((PAIRS, pairs), (SINGLES, [values])):
        with np.errstate(all="ignore"):
            asked = cases(table, arrays)
        outputs = described(dtype, arrays, [ours for _, ours, _ in asked])
        for target in targets:
            for got, (name, _, want) in zip(run(target, outputs, arrays), asked):
                if name[:2] == "**" and dtype == "bool":
                    want = want.astype(got.dtype)  # a Python number makes int64 of a bool
                assert_same(got, want, name, arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(dtype: str) -> None:
    check(dtype, ["python", "reference", "interpreter"])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_special_values_compiled(dtype: str) -> None:
    check(dtype, ["cpu", "lanes"])
