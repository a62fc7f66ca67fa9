"""Calls of traced functions with plain arrays take a short way to their kernel."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl


def short_ways(f) -> int:
    return len(f._direct)


def test_results_of_the_short_way_are_those_of_the_first_call() -> None:
    def f(x, y):
        return {"sum": x + y, "parts": (x.sum(), y * 2)}

    traced = sl.jit(f, target="python")
    for k in range(4):
        x, y = np.arange(3.0) + k, np.arange(3.0) * k
        found, expected = traced(x, y), f(x, y)
        assert short_ways(traced) == 1
        np.testing.assert_array_equal(found["sum"], expected["sum"])
        assert type(found["parts"][0]) is np.float64
        assert found["parts"][0] == expected["parts"][0]
        np.testing.assert_array_equal(found["parts"][1], expected["parts"][1])


def test_each_shape_and_dtype_has_its_own() -> None:
    f = sl.jit(lambda x: x * 2, target="python")
    for _ in range(2):
        for x in (np.ones(3), np.ones(4), np.ones(3, "float32"), np.ones((3, 1)), np.float64(3)):
            found = f(x)
            np.testing.assert_array_equal(found, x * 2)
            assert found.dtype == (x * 2).dtype
    assert short_ways(f) == 4


@pytest.mark.parametrize("way", ["written", "returned", "default", "keyword", "strided"])
def test_calls_without_one(way: str) -> None:
    def written(x):
        x[:] = x + 1

    functions = {
        "written": written, "returned": lambda x: (x, x + 1),
        "default": lambda x, w=np.full(3, 2.0): x * w,  # noqa: B008 - what is tested
        "keyword": lambda x: x + 1, "strided": lambda x: x[::-1] + 1,
    }  # fmt: skip
    traced = sl.jit(functions[way], target="python")
    for _ in range(2):
        x = np.arange(6.0)[::2] if way == "strided" else np.arange(3.0)
        y = x.copy()
        found = traced(x=x) if way == "keyword" else traced(x)
        expected = functions[way](y)
        assert (found is None) == (expected is None)
        np.testing.assert_array_equal(x, y)
        if found is not None:
            np.testing.assert_array_equal(found, expected)
        if way == "returned":
            assert found[0] is x
    assert not short_ways(traced)


def test_a_short_way_leaves_the_cache_with_its_specialization() -> None:
    f = sl.jit(lambda x: x + 1, cache_size=2, target="python")
    for n in (1, 2, 3):
        f(np.ones(n))
    assert short_ways(f) == 2 == len(f.specializations)
    f(np.ones(2))
    assert f.specializations[-1].kernels[0].signature.inputs[0].shape == (2,)
