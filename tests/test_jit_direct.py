"""Calls of traced functions with plain arrays take a short way to their kernel."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError
from tests.test_jit import same


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
    # a scalar of NumPy has one, too
    assert short_ways(f) == 5


def assigned(x, y, a, n, k, out):
    np.multiply(x, a, out=out)
    out -= y * n
    return out, out[0] * n, k * 2


def swapped(x, y):
    x[:], y[:] = y * 2, x + 1


def returned(x, y):
    return (x, {"sum": x + y}), y


def negative(x, n, m, flag):
    return x * n + m if flag else x - n


def with_default(x, w=np.full(3, 2.0), *, scale=2.0, name="a"):  # noqa: B008 - what is tested
    return x * w * scale + len(name)


def with_constant(x, table=None):
    return x + np.array([1.0, 5.0, 2.0]) * (1 if table is None else 2)


X, Y = np.arange(3.0), np.arange(3.0)[::-1].copy()
PLAIN = {
    "arrays and scalars": (assigned, [
        lambda k: (X, Y, 1.5 + k, np.float32(k), 3, np.empty(3)),
        lambda k: (X, Y, -0.0, np.float32(2), 3, np.zeros(3))], {}),
    "by name": (assigned, [lambda k: (X + k, Y)],
                {"a": 2.5, "n": np.uint8(7), "k": True, "out": np.zeros(3)}),
    "written": (swapped, [lambda k: (X + k, Y.copy())], {}),
    "returned": (returned, [lambda k: (X + k, Y)], {}),
    "integers": (negative, [lambda k: (X, np.int64(k), np.int32(k + 1), True),
                            lambda k: (X, np.int64(-k - 1), np.int32(3), True),
                            lambda k: (X, np.int64(-k - 1), np.int8(-3), True),
                            lambda k: (X, np.int64(k), np.int32(3), False)], {}),
    "defaults": (with_default, [lambda k: (X + k,)], {}),
    "defaults and names": (with_default, [lambda k: (X + k,)], {"scale": 0.5, "name": "abc"}),
    "constants": (with_constant, [lambda k: (X + k,), lambda k: (X + k, "table")], {}),
    "python numbers": (lambda x, a: (x * 2, a + 1, a), [lambda k: (X, 1.0 + k)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAIN)
def test_plain_calls(case):
    """The second call of each kind takes the short way; values change, and results are NumPy's."""
    function, calls, named = PLAIN[case]
    traced = sl.jit(function, target="python")
    for k, make in [(k, make) for k in range(3) for make in calls]:
        ours, theirs = make(k), make(k)
        ours_named, theirs_named = (copy.deepcopy(named) for _ in range(2))
        found, expected = traced(*ours, **ours_named), function(*theirs, **theirs_named)
        same(found, expected, 1e-6)
        same([*ours, *ours_named.values()], [*theirs, *theirs_named.values()], 1e-6)
        if case == "returned":
            assert found[0][0] is ours[0] and found[1] is ours[1]
        if case == "python numbers":
            assert [type(v) for v in found] == [type(v) for v in expected]
    kinds = 1 if case == "arrays and scalars" else len(calls)
    assert short_ways(traced) == len(traced.specializations) == kinds


CHECKED = {
    "strided": (lambda x: x[::-1] + 1, [lambda: (np.arange(6.0)[::2],)], None),
    "powers": (lambda x, n: x**n, [lambda: (np.arange(3), np.int64(2))], None),
    "overlapping": (swapped, [lambda: (x := np.arange(4.0), x), lambda: ((x := np.arange(4.0))[:3],
                              x[1:])], "share memory"),
    "read-only": (swapped, [lambda: (np.broadcast_to(1.0, (1,)), np.ones(1))], "is read-only"),
    "one array": (lambda x, y: x + y, [lambda: (x := np.arange(4.0), x)], None),
}  # fmt: skip


@pytest.mark.parametrize("case", CHECKED)
def test_what_a_plain_call_checks(case):
    function, calls, words = CHECKED[case]
    traced = sl.jit(function, target="python")
    if words is not None:
        # a plain call first, so that there is a short way
        shapes = [a.shape for a in calls[0]()]
        traced(*map(np.zeros, shapes))
        assert short_ways(traced) == 1
    for make in calls * 2:
        if words is None:
            same(traced(*make()), function(*make()), 1e-6)
        else:
            with pytest.raises(CallError, match=words):
                traced(*make())


def test_disjoint_parts_of_one_array_are_plain():
    traced = sl.jit(swapped, target="python")
    for _ in range(2):
        ours, theirs = np.arange(6.0), np.arange(6.0)
        traced(ours[:3], ours[3:])
        swapped(theirs[:3].copy(), theirs[3:].copy())
        x, y = theirs[:3].copy(), theirs[3:].copy()
        swapped(x, y)
        np.testing.assert_array_equal(ours, [*x, *y])


def test_floats_are_not_equal_to_integers_or_bools():
    traced = sl.jit(lambda x, n: x * n, target="python")
    for n in (1, 1.0, True, np.float32(1), np.int64(1), np.True_):
        for _ in range(2):
            same(traced(np.arange(3), n), np.arange(3) * n, 0)


def test_complex_numbers_are_told_apart() -> None:
    traced = sl.jit(lambda x, z: (x * z, x * np.copysign(1, z.imag)), target="python")
    numbers = (0j, complex(0, -0.0), 2j, np.complex128(1 - 2j), 2j, 0j)
    for z in (*numbers, np.complex64(2j), np.complex64(0j), np.complex64(complex(0, -0.0))):
        for _ in range(2):
            x = np.arange(3, dtype="float32")
            for ours, theirs in zip(traced(x, z), traced.function(x, z)):
                same(ours, theirs, 0)
    assert short_ways(traced) == 7 == len(traced.specializations)


def test_a_short_way_leaves_the_cache_with_its_specialization() -> None:
    f = sl.jit(lambda x: x + 1, cache_size=2, target="python")
    for n in (1, 2, 3):
        f(np.ones(n))
    assert short_ways(f) == 2 == len(f.specializations)
    f(np.ones(2))
    assert f.specializations[-1].kernels[0].signature.inputs[0].shape == (2,)
