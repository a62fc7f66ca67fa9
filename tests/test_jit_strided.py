"""``np.lib.stride_tricks.as_strided`` and ``x.strides`` in traced functions, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import schedlang as sl
from tests.test_jit_source import check


def windows(x):
    step = x.strides[0]
    return as_strided(x, shape=(len(x) - 2, 3), strides=(step, step)).sum(axis=1)


def blocks(a):
    rows, columns = a.shape
    s, t = a.strides
    tiles = np.lib.stride_tricks.as_strided(
        a, (rows // 2, columns // 3, 2, 3), (2 * s, 3 * t, s, t), writeable=False
    )
    return tiles.max(axis=(2, 3))


def backwards(x):
    return as_strided(x[-1:], (len(x),), (-x.itemsize,)) * 2


def repeated(x):
    return as_strided(x, (4, len(x)), (0, x.strides[0]))


def of_a_view(a):
    part = a[1:, 2:]
    assert part.strides == a.strides
    return as_strided(part, (2, 2, 2), (*part.strides, part.strides[1])) + a.T.strides[0]


def after_an_assignment(x):
    w = as_strided(x, (len(x) - 1, 2), x.strides * 2)
    x[2] = 50
    return w + 0


def of_an_array_made_inside(x):
    y = np.zeros((3, len(x)), x.dtype)
    y[1] = x
    y[2, ::2] = x[::2]
    return as_strided(y, (3 * len(x),), (y.itemsize,))


def diagonal(a):
    return as_strided(a, (min(a.shape),), (sum(a.strides),)).sum()


VECTOR = [windows, backwards, repeated, after_an_assignment, of_an_array_made_inside]


@pytest.mark.parametrize("function", [*VECTOR, blocks, of_a_view, diagonal])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "complex128"])
def test_as_strided(function: Callable[..., Any], dtype: str) -> None:
    shape = (7,) if function in VECTOR else (5, 7)
    if function is blocks and dtype == "complex128":
        dtype = "uint8"
    x = (np.random.default_rng(3).random(shape) * 50).astype(dtype)
    check(function, x)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=3), st.integers(0, 23))
def test_bounds(dimensions: list[tuple[int, int]], start: int) -> None:
    shape = tuple(e for e, _ in dimensions)
    steps = tuple(8 * s for _, s in dimensions)

    def taken(x):
        return as_strided(x.reshape(-1)[start:], shape, steps) * 2

    places = start + np.array([sum(i * d[1] for i, d in zip(at, dimensions))
                               for at in np.ndindex(*shape)], int)  # fmt: skip
    x = np.random.default_rng(5).random((4, 6))
    if ((places >= 0) & (places < 24)).all():
        check(taken, x)
    else:
        outside = f"the elements {places.min()} to {places.max()} of memory that has 24 elements"
        with pytest.raises(sl.errors.BoundsError, match=outside):
            sl.jit(taken, target="python")(x)


def written(x):
    as_strided(x, (2,), (8,))[0] = 1


def of_a_product(a):
    return as_strided(a.T * 2, (2,), (8,))


def by_parts(x):
    return as_strided(x, (2,), (3,))


def by_elements(x):
    return as_strided(x, (x[0].astype(int),), (8,))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (written, "elements of what .*as_strided returned may share memory"),
        (of_a_product, "a trace knows the strides of arguments"),
        (by_parts, "have 8 bytes, and a stride is not a multiple of that"),
        (by_elements, "must be integers that are known"),
    ],
)
def test_refusals(function: Callable[..., Any], words: str) -> None:
    shape = (3, 4) if function is of_a_product else (6,)
    with pytest.raises(sl.errors.SchedlangError, match=f"(?s){words}"):
        sl.jit(function, target="python")(np.ones(shape))


@pytest.mark.parametrize("step", [2, -1, -3])
def test_a_strided_argument(step: int) -> None:
    jitted, x = sl.jit(windows, target="python"), np.sqrt(np.arange(36.0))[::step]
    np.testing.assert_array_equal(jitted(x), windows(x))
    np.testing.assert_array_equal(jitted(x.copy()), windows(x.copy()))


def test_a_transposed_argument_is_refused() -> None:
    def first(a):
        return as_strided(a, (2,), (8,))

    with pytest.raises(sl.errors.ComputeError, match="a trace knows the strides of arguments"):
        sl.jit(first, target="python")(np.ones((3, 4)).T)
