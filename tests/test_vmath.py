"""Tests of math functions: accuracy on samples of float32, special values, float64."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from schedlang.expr.functions import FUNCTIONS
from schedlang.intrinsics import cpu as intrinsics
from schedlang.intrinsics import twins
from schedlang.intrinsics.cpu import load, store, vload, vstore

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
POLYNOMIALS = [f.called for f in FUNCTIONS.values() if f.own_cpu]
LIBRARY = [f.called for f in FUNCTIONS.values()
           if f.library and f.arity == 1 and f.called not in POLYNOMIALS]  # fmt: skip

path = Path(__file__).with_name("exhaustive_math.py")
spec = importlib.util.spec_from_file_location("exhaustive_math", path)
assert spec and spec.loader
exhaustive_math = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exhaustive_math)

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38]
SPECIAL += [3.4028235e38, -3.4028235e38, 88.72283, 88.72284, -87.33654, -103.97, -103.98, 0.625]
SPECIAL += [9.0, 9.1, -9.1, 3.9, 4.0, 0.99999994, 1.0000001, 0.5, 2.0, 104.0, -104.0, 16.6, 17.4]


def both_ways(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Apply a function to an array by single elements and by vectors of eight lanes."""
    function = getattr(intrinsics, name)

    @numba.njit(**OPTIONS)
    def run(x: np.ndarray, scalar: np.ndarray, vector: np.ndarray) -> None:
        for i in range(x.size):
            store(scalar, i, function(load(x, i)))
        for i in range(0, x.size, 8):
            vstore(vector, i, function(vload(x, i, 8)))

    scalar, vector = np.empty_like(x), np.empty_like(x)
    run(x, scalar, vector)
    return scalar, vector


def ulps(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the distance of two arrays in floats; two NaNs have distance 0."""
    assert got.dtype == true.dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(true))
    whole = np.int32 if got.dtype == np.float32 else np.int64
    a, b = (np.where(np.isnan(v), 0, v).astype(v.dtype).view(whole) for v in (got, true))
    lowest = np.iinfo(whole).min
    a, b = (np.where(v < 0, lowest - v, v).astype(object) for v in (a, b))
    return np.abs(a - b).astype(np.float64)


def inputs(dtype: str) -> np.ndarray:
    """Return special values, bit patterns of every magnitude, and ordinary numbers."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 2048, np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        x = np.r_[SPECIAL, bits, rng.normal(0, 3, 2048), rng.random(512)]
    with np.errstate(invalid="ignore"):
        return x[: x.size // 8 * 8].astype(dtype)


@pytest.mark.parametrize("vectors", [False, True], ids=["elements", "vectors"])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_within_two_ulps(name: str, vectors: bool) -> None:
    worst, where = exhaustive_math.sweeper(name, vectors)(4093)
    assert worst <= 2.0, where


@pytest.mark.parametrize("name", [*POLYNOMIALS, *LIBRARY])
def test_float32_against_the_twin(name: str) -> None:
    x = inputs("float32")
    scalar, vector = both_ways(name, x)
    true = getattr(twins, name)(x)
    assert ulps(scalar, true).max() <= 2
    # one lane rounds like one scalar
    np.testing.assert_array_equal(scalar.view(np.int32), vector.view(np.int32))
    # the sign of zero counts
    zero = true == 0
    np.testing.assert_array_equal(np.signbit(scalar[zero]), np.signbit(true[zero]))


@pytest.mark.parametrize("name", [*POLYNOMIALS, *LIBRARY])
def test_float64_against_the_twin(name: str) -> None:
    x = inputs("float64")
    scalar, vector = both_ways(name, x)
    assert ulps(scalar, getattr(twins, name)(x)).max() <= 4
    assert ulps(vector, scalar).max() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_operands(dtype: str) -> None:
    power, atan2 = intrinsics.power, intrinsics.atan2

    @numba.njit(**OPTIONS)
    def run(x: np.ndarray, y: np.ndarray, p: np.ndarray, a: np.ndarray) -> None:
        for i in range(0, x.size, 8):
            vstore(p, i, power(vload(x, i, 8), vload(y, i, 8)))
            vstore(a, i, atan2(vload(x, i, 8), vload(y, i, 8)))
        store(p, 0, power(load(x, 0), load(y, 0)))

    x = inputs(dtype)
    y = np.roll(x, 5)
    p, a = np.empty_like(x), np.empty_like(x)
    run(x, y, p, a)
    assert ulps(p, twins.power(x, y)).max() <= 2
    assert ulps(a, twins.atan2(x, y)).max() <= 2


def test_loops_over_scalars_become_vector_code() -> None:
    exp = intrinsics.exp

    @numba.njit("void(float32[::1], float32[::1])", **OPTIONS)
    def run(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(4096):
            store(y, i, exp(load(x, i)))

    text = run.inspect_llvm(run.signatures[0])
    assert "fma.v" in text
    assert "@expf" not in text and "@llvm.exp" not in text


def test_known_values() -> None:
    x = np.array([0, 1, np.inf, -np.inf, np.nan, -1, 100, -100], np.float32)
    exp, _ = both_ways("exp", x)
    np.testing.assert_array_equal(exp[[0, 2, 3, 6]], np.array([1, np.inf, 0, np.inf], np.float32))
    assert 0 < exp[7] == np.float32(math.exp(-100))
    log, _ = both_ways("log", x)
    np.testing.assert_array_equal(log[[0, 1, 2]], [-np.inf, 0, np.inf])
    assert np.isnan(log[[3, 4, 5, 7]]).all()
    sigmoid, _ = both_ways("sigmoid", x)
    np.testing.assert_array_equal(sigmoid[[0, 2, 3, 6]], [0.5, 1, 0, 1])
    for name in ("tanh", "erf"):
        odd, _ = both_ways(name, x)
        np.testing.assert_array_equal(odd[[0, 2, 3, 6, 7]], [0, 1, -1, 1, -1])
        assert np.isnan(odd[4])
