"""Kernels accept objects with the buffer protocol as arrays."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CallTypeError
from schedlang.runtime.kernel import Kernel


def double(extent: Any = 4, dtype: str = "float32") -> Kernel:
    A = sl.placeholder((extent,), name="A", dtype=dtype)
    B = sl.compute((extent,), lambda i: A[i] * 2, name="B")
    return sl.build(sl.schedule(B), target="python")


def floats() -> Any:
    return (ctypes.c_float * 4)(1, 2, 3, 4)


MAKERS: list[Callable[[], Any]] = [
    lambda: array("f", [1, 2, 3, 4]),
    lambda: memoryview(array("f", [1, 2, 3, 4])),
    lambda: memoryview(bytearray(np.arange(1, 5, dtype="float32").tobytes())).cast("f"),
    floats,
]
WANTED = np.arange(1, 5, dtype="float32") * 2


@pytest.mark.parametrize("make", MAKERS, ids=["array", "memoryview", "cast", "ctypes"])
@pytest.mark.parametrize("sized", [False, True], ids=["fixed", "symbolic"])
def test_buffers_are_read_and_written(make: Callable[[], Any], sized: bool) -> None:
    f = double(sl.var("n") if sized else 4)
    made = f(make())
    assert type(made) is np.ndarray
    np.testing.assert_array_equal(made, WANTED)
    out = make()
    assert f(make(), out) is out
    np.testing.assert_array_equal(np.asarray(out), WANTED)
    np.testing.assert_array_equal(f(A=make()), WANTED)


def test_views_of_several_dimensions() -> None:
    A = sl.placeholder((2, 3), name="A", dtype="int32")
    f = sl.build(sl.schedule(sl.compute((2, 3), lambda i, j: A[i, j] + 1)), target="python")
    given = np.arange(6, dtype="int32")
    view = memoryview(given.tobytes()).cast("i", (2, 3))
    np.testing.assert_array_equal(f(view), given.reshape(2, 3) + 1)


def test_bytes_are_uint8() -> None:
    f = double(dtype="uint8")
    for given in (bytes(range(4)), bytearray(range(4)), memoryview(bytes(range(4)))):
        np.testing.assert_array_equal(f(given), np.arange(4, dtype="uint8") * 2)
    out = bytearray(4)
    f(bytes(range(4)), out)
    assert out == bytes([0, 2, 4, 6])
    # a bytearray in use cannot grow; afterwards it can
    out.append(1)


@pytest.mark.parametrize(
    "out", [bytes(4), memoryview(bytes(4)), memoryview(bytearray(4)).toreadonly()]
)
def test_read_only_buffers_are_refused_as_outputs(out: Any) -> None:
    given = bytes(4)
    with pytest.raises(CallError, match="argument 1.*is read-only: pass a writable array"):
        double(dtype="uint8")(given, out)


def test_refusals() -> None:
    f = double()
    with pytest.raises(CallTypeError, match="got dtype float64"):
        f(array("d", [1, 2, 3, 4]))
    with pytest.raises(CallError, match=r"shape \(3,\)"):
        f(array("f", [1, 2, 3]))
    with pytest.raises(CallError, match="strided"):
        f(memoryview(array("f", range(8)))[::2])
    # NumPy has no dtype for its elements
    odd = memoryview(bytes(32)).cast("P")
    with pytest.raises(CallTypeError, match="A.*"):
        f(odd)
    for wrong in ([1.0, 2.0, 3.0, 4.0], "abcd", 3.0, object()):
        with pytest.raises(CallTypeError):
            f(wrong)


def test_overlapping_buffers_are_refused() -> None:
    A = sl.placeholder((4,), name="A")
    f = sl.build(sl.schedule(sl.compute((4,), lambda i: A[3 - i], name="B")), target="python")
    both = array("f", range(4))
    with pytest.raises(CallError, match="overlaps"):
        f(both, memoryview(both))


def test_reference_and_evaluate_accept_buffers() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    np.testing.assert_array_equal(sl.reference(B)(array("f", [1, 2, 3, 4])), WANTED)
    f = sl.build(sl.schedule(B), target="python")
    found = sl.evaluate(f, array("f", [1, 2, 3, 4]), repeat=1, min_time=0.0)
    assert found.gbps is not None and found.seconds > 0
