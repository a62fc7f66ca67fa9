"""Arrays with known elements in which a traced function writes, and values that NumPy refuses."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.tracing import specialization
from tests.test_jit_random_loops import function_of
from tests.test_jit_source import check


@pytest.fixture(autouse=True)
def _without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    # what is computed does not depend on schedules, which take most of the time
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


WRITTEN = {
    "slice": "a = np.arange(6.0)\na[1:3] = x[:2]\nreturn a",
    "elements": "a = np.array([0.0, 1.0])\na[0] = x[1]\nreturn a",
    "added to": "a = np.linspace(0, 1, 6)\na += x\nreturn a",
    "out": "a = np.geomspace(1, 8, 6)\nnp.add(a, x, out=a)\nreturn a",
    "mask": "a = np.arange(6.0).reshape(2, 3)\na[a > x[0]] = 7\nreturn a",
    "another name": "a = np.arange(6)\nb = a\na[0] = x[0] * 9\nreturn a, b",
    "a view": "a = np.arange(6.0)\nb = a[1:]\na[1] = x[0]\nreturn b * 1",
    "numbers": "a = np.arange(6)\na[2] = 0\nfor i in a:\n    x[i] += 1\nreturn x",
    "length": "a = np.arange(6)\na *= 2\nreturn x[: int(a[1])]",
    "loop": "a = np.arange(6.0)\nfor i in range(6):\n    a[0] += 1\n    x[i] += a[0]\nreturn a",
    "while": "a = np.arange(6.0)\nwhile x.sum() < 9:\n    a[0] += 1\n    x += 1\nreturn a",
    "if": "a = np.arange(6.0)\nif x[0] > 0.5:\n    a[0] = 9\nelse:\n    a[1] = 7\nreturn a * x",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_a_known_array_that_is_written(case: str) -> None:
    body = "\n".join(f"    {line}" for line in WRITTEN[case].splitlines())
    function = function_of(f"def program(x):\n{body}\n")
    for seed in range(2):
        check(function, np.random.default_rng(seed).random(6))


def test_an_array_that_has_another_name_stays_known() -> None:
    def written(x):
        b = np.arange(6.0)
        a = b.reshape(2, 3)
        a[0, 0] = x[0]
        return b * 1

    with pytest.raises(sl.errors.ComputeTypeError, match="unknown while the function is traced"):
        sl.jit(written, target="python")(np.ones(6))


@pytest.mark.parametrize("other", ["b * 2", "x"])
def test_a_known_array_that_a_name_may_be_is_not_written(other: str) -> None:
    text = f"def program(x):\n b = np.arange(6.0)\n a = b if x[0] > 0 else {other}\n"
    read, written = (function_of(f"{text} {end}") for end in ("return a * x", "a[0] = 7; return b"))
    check(read, np.ones(6))
    with pytest.raises(sl.errors.ComputeError, match="may be an array from before it"):
        sl.jit(written, target="python")(np.ones(6))


def test_sl_trace_has_written_arrays_too() -> None:
    def written(x):
        a = np.arange(6.0)
        a[1:3] = x[:2]
        return a

    x = np.random.default_rng(1).random(6)
    tensor = sl.trace(written, sl.placeholder((6,), "float64", name="x"))
    np.testing.assert_array_equal(sl.build(sl.schedule(tensor), target="python")(x), written(x))


STORES = {
    "x //= 2.0": r"float64 into x of int64 .*`x //= 2.0`: NumPy does not convert float64 to int64",
    "x[0] = 1j": "complex128 in x of int64 .*imaginary parts would be lost",
    "x[:] = np.array([1j, 2])": "complex128 in x of int64",
    "np.copyto(x, 0.5)": "np.copyto of float64 into an array of int64 .*'same_kind'",
    "y = np.zeros(2, 'uint8'); y[0] = 300": "integer 300 is out of bounds for uint8",
    "y = np.zeros(2, 'int8'); y[:] = [1, -129]": "integer -129 is out of bounds for int8",
    "if x > 1: x[0] = 1": "ambiguous if the array has more than one element",
}


@pytest.mark.parametrize("statement", STORES)
def test_a_store_that_numpy_refuses(statement: str) -> None:
    function = function_of(f"def program(x):\n    {statement}\n    return x\n")
    if "1j, 2" not in statement:
        # NumPy warns about the array, and stores the real parts
        with pytest.raises((TypeError, OverflowError, ValueError)):
            function(np.array([2, 3]))
    with pytest.raises(sl.errors.ComputeTypeError, match=STORES[statement]):
        sl.jit(function, target="python")(np.array([2, 3]))


def test_an_integer_of_numpy_wraps_around_in_a_store() -> None:
    def wrapped(x):
        y = np.zeros(2, "uint8")
        y[0] = np.int64(300)
        y[1] = x[0]
        return y

    check(wrapped, np.array([600]))


def test_a_name_that_may_be_an_array_or_a_known_one_sees_later_writes() -> None:
    def later(x):
        a = x if x[1] > 0 else np.arange(6.0)
        x[0] = 50
        return a * 2

    check(later, np.ones(6))
