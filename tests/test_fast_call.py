"""Calls with plain NumPy arrays take a fast path; all others are checked in full."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CallTypeError
from schedlang.runtime.fast_call import fast_call
from schedlang.runtime.kernel import Kernel


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setenv("SCHEDLANG_CACHE", str(tmp_path))
    A = sl.placeholder((2, 4), name="A")
    B = sl.compute((2, 4), lambda i, j: A[1 - i, j] + 1, name="B")
    return sl.build(sl.schedule(B), target="python")


def ones() -> np.ndarray:
    return np.ones((2, 4), "float32")


def test_plain_arrays_take_the_fast_path(kernel: Kernel) -> None:
    bind = fast_call(kernel.signature)
    out = ones()
    assert bind is not None
    bound, made = bind((ones(), out)), bind((ones(),))
    assert bound is not None and made is not None
    assert bound[1] is out and [a.shape for a in bound[0]] == [(8,), (8,)]
    assert np.shares_memory(bound[0][1], out)
    assert made[1].shape == (2, 4) and made[1].dtype == np.float32


@pytest.mark.parametrize(
    "args",
    [
        (np.ones((2, 4)),),
        (np.ones((2, 5), "float32"),),
        (np.ones((4, 2), "float32").T,),
        ([[1.0] * 4] * 2,),
        (),
        (ones(), ones(), ones()),
    ],
)
def test_other_arguments_take_the_full_check(kernel: Kernel, args: tuple) -> None:
    bind = fast_call(kernel.signature)
    assert bind is not None and bind(args) is None
    with pytest.raises((CallError, CallTypeError)):
        kernel(*args)


def test_overlap_and_read_only_outputs_take_the_full_check(kernel: Kernel) -> None:
    bind = fast_call(kernel.signature)
    a, frozen = ones(), ones()
    frozen.flags.writeable = False
    both = np.ones((3, 4), "float32")
    for args in ((a, a), (ones(), frozen), (both[:2], both[1:])):
        assert bind is not None and bind(args) is None
        with pytest.raises(CallError):
            kernel(*args)


def test_views_that_do_not_overlap_take_the_fast_path(kernel: Kernel) -> None:
    bind = fast_call(kernel.signature)
    both = np.ones((4, 4), "float32")
    assert bind is not None and bind((both[:2], both[2:])) is not None
    kernel(both[:2], both[2:])
    assert (both[2:] == 2).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arrays_take_the_fast_path(dtype: str) -> None:
    Z = sl.placeholder((2, 3), dtype, name="Z")
    z = sl.placeholder((), dtype, name="z")
    W = sl.compute((2, 3), lambda i, j: Z[1 - i, j] * z[()], name="W")
    kernel = sl.build(sl.schedule(W), target="python")
    bind = fast_call(kernel.signature)
    a = (np.arange(6) + 1j).reshape(2, 3).astype(dtype)
    b, out = np.array(2 - 1j, dtype), np.empty((2, 3), dtype)
    assert bind is not None
    bound = bind((a, b, out))
    assert bound is not None and bound[1] is out
    parts = np.empty(0, dtype).real.dtype
    assert all(flat.dtype == parts for flat in bound[0])
    assert np.shares_memory(bound[0][2], out)
    for strided in (a[:, ::-1], a.real.copy(), a.T.copy()):
        assert bind((strided, b)) is None
    assert bind((a, b, a)) is None
    np.testing.assert_allclose(kernel(a, b), a[::-1] * b)
    np.testing.assert_allclose(kernel(a, b, out), a[::-1] * b)


def test_sizes_scalars_and_float16_have_no_fast_path() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    H = sl.placeholder((4,), "float16", name="H")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((4,), lambda i: H[i] + 1, name="C")
    for out in (B, C):
        assert fast_call(sl.build(sl.schedule(out), target="python").signature) is None
