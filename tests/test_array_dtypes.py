"""Operations on whole arrays have the dtypes of NumPy 2's results, and its values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError
from schedlang.expr import dtypes
from tests.arrays import agree

RNG = np.random.default_rng(2)
TWO = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.and_, operator.lshift, operator.lt, np.equal, np.maximum, np.logical_and, np.hypot,
    np.arctan2, np.matmul, np.outer,
)  # fmt: skip
NUMBERS = (True, 3, 2.5, np.int8(3), np.float32(1.5), np.float64(0.25), np.uint16(7))
REDUCED = (
    np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std, np.any, np.all, np.argmax, np.cumsum,
    np.cumprod, np.ptp, np.count_nonzero, np.diff, np.nansum, np.average, np.linalg.norm,
)  # fmt: skip
ONE = (
    np.negative, np.abs, np.exp, np.sqrt, np.sign, np.floor, np.rint, np.square, np.isnan,
    np.logical_not, np.invert, np.signbit, np.fabs, np.deg2rad, np.round, np.copy, np.zeros_like,
    np.nan_to_num, np.sinc, np.transpose,
)  # fmt: skip


# those of NumPy's arrays whose values have an order
DTYPES = [d for d in dtypes.DTYPES if d != "bfloat16" and not dtypes.is_complex(d)]
# each dtype, first and second
PAIRS = list(zip(DTYPES, (*DTYPES[5:], *DTYPES[:5]))) + [("int8", "uint8"), ("int64", "uint64")]


def values(dtype: str, shape: tuple[int, ...] = (3, 3)) -> np.ndarray:
    """Return small positive numbers, whose operations do not overflow."""
    return RNG.integers(1, 5, size=shape).astype(dtype)


def compare(function: Any, *arrays: np.ndarray) -> None:
    """Assert that NumPy and an array expression agree, or that both refuse."""
    with np.errstate(all="ignore"):
        try:
            function(*arrays)
        except (TypeError, ValueError):
            with pytest.raises((TypeError, ValueError)):
                agree(function, *arrays)
            return
        half = any(a.dtype == "float16" for a in arrays)
        agree(function, *arrays, rtol=5e-3 if half else 1e-5)


@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
def test_two_arrays(function: Any) -> None:
    for a, b in PAIRS:
        compare(function, values(a), values(b))


@pytest.mark.slow
@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
def test_two_arrays_of_any_dtypes(function: Any) -> None:
    for a in DTYPES:
        for b in DTYPES:
            compare(function, values(a), values(b))


@pytest.mark.parametrize("function", TWO[:12], ids=lambda f: f.__name__)
def test_an_array_and_a_number(function: Any) -> None:
    for dtype, number in zip(DTYPES, NUMBERS * 2):
        compare(lambda x, n=number: function(x, n), values(dtype))
        compare(lambda x, n=number: function(n, x), values(dtype))


@pytest.mark.slow
@pytest.mark.parametrize("function", TWO[:12], ids=lambda f: f.__name__)
def test_an_array_of_any_dtype_and_a_number(function: Any) -> None:
    for dtype in DTYPES:
        for number in NUMBERS:
            compare(lambda x, n=number: function(x, n), values(dtype))
            compare(lambda x, n=number: function(n, x), values(dtype))


@pytest.mark.parametrize("function", REDUCED, ids=lambda f: f.__name__)
def test_a_reduction(function: Any) -> None:
    for dtype in DTYPES:
        compare(function, values(dtype))
        compare(lambda x: function(x, axis=0), values(dtype))


@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
def test_one_array(function: Any) -> None:
    for dtype in DTYPES:
        compare(function, values(dtype))


def test_choices_of_numbers_have_their_default_dtypes() -> None:
    c = values("bool")
    agree(lambda c: np.where(c, 1.0, 0.0), c)
    agree(lambda c: np.where(c, 1, 0), c)
    agree(lambda c: np.where(c, 1, 0.5), c)
    agree(lambda c: np.where(c, np.float32(1), 0), c)
    agree(lambda c: np.where(c, True, False), c)


def test_float16_means_accumulate_in_float32() -> None:
    ones = np.full(4096, 1.0, "float16")
    agree(np.sum, ones, rtol=0)
    agree(np.mean, ones, rtol=0)
    agree(lambda x: x @ x, ones, rtol=0)
    agree(lambda x: np.einsum("i,i", x, x), ones, rtol=0)
    A = sl.placeholder((4096,), "float16", name="A")
    assert A.sum().op.input_tensors[0].dtype == "float32"


@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16_means_accumulate_in_float32(compiled: bool) -> None:
    """The kernel of a schedule without steps adds element by element, where 256 + 1 is 256."""
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.arange(5000) % 7 + 100.0
    A = sl.placeholder((5000,), "bfloat16", name="A")
    for function in (np.sum, np.mean, np.var, np.std, np.linalg.norm,
                     lambda x: np.einsum("i,i", x, x)):  # fmt: skip
        made = function(A)
        found = (sl.build(sl.schedule(made), target="python") if compiled else sl.reference(made))(
            x.astype(bf16)
        )
        assert found == np.asarray(function(x)).astype(bf16)


def test_a_number_that_does_not_fit_is_refused() -> None:
    A = sl.placeholder((4,), "uint8", name="A")
    with pytest.raises(ComputeTypeError, match="300 does not fit uint8"):
        A + 300
    with pytest.raises(ComputeTypeError, match="-1 does not fit uint8"):
        A * -1
    agree(lambda x: x < 300, np.arange(4, dtype="uint8"))
    agree(lambda x: x == -1, np.arange(4, dtype="uint8"))
    agree(lambda x: 2**70 > x if isinstance(x, np.ndarray) else 300 > x, np.arange(4, dtype="int8"))
