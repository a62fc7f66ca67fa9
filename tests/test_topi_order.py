"""Operators of topi that order elements, transform signals, and simulate quantization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang import topi
from schedlang.errors import ComputeError, ComputeTypeError, MissingNameError, SchedlangError
from schedlang.tvm.topi.sorting import LONGEST
from tests.topi_cases import check, given, values

RNG = np.random.default_rng(5)


def few(shape: Any, dtype: str) -> np.ndarray:
    """Return elements many of which are equal."""
    return RNG.integers(-3, 4, shape).astype(dtype)


def order_of(x: np.ndarray, axis: int, ascending: bool) -> np.ndarray:
    """Return the stable order of integers or floats, by Python's own sort."""

    def row(v: np.ndarray) -> np.ndarray:
        return np.array(sorted(range(len(v)), key=lambda i: v[i] if ascending else -int(v[i])))

    return np.apply_along_axis(row, axis, x)


@pytest.mark.parametrize("ascending", [1, 0])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [((5,), 0, "int8"), ((3, 7), -1, "float32"), ((4, 1, 3), 0, "bool"), ((2, 5, 3), 1, "uint8")],
)
def test_sorts(shape: Any, axis: int, dtype: str, ascending: int) -> None:
    x = few(shape, dtype)
    A = sl.placeholder(shape, dtype, name="A")
    order = order_of(x, axis, bool(ascending))
    check(topi.argsort(A, axis=axis, is_ascend=ascending, dtype="int32"), order, A=x)
    check(topi.sort(A, axis, ascending), np.take_along_axis(x, order, axis), A=x)


@pytest.mark.parametrize("ascending", [1, 0])
def test_numpy_sorts_long_axes(ascending: int) -> None:
    x = few((2, LONGEST + 3), "int32")
    A = sl.placeholder(x.shape, "int32", name="A")
    order = order_of(x, 1, bool(ascending))
    check(topi.argsort(A, is_ascend=ascending, dtype="int64"), order, A=x)
    check(topi.sort(A, is_ascend=ascending), np.take_along_axis(x, order, 1), A=x)
    n = sl.var("n")
    B = sl.placeholder((2, n), "int32", name="B")
    f = sl.build(sl.schedule(topi.sort(B, is_ascend=ascending)), target="python")
    y = few((2, 9), "int32")
    np.testing.assert_array_equal(f(y), np.sort(y)[:, :: 1 if ascending else -1])


def test_nan_is_the_greatest() -> None:
    x = np.array([2, np.nan, -np.inf, 1, np.nan, np.inf], "float32")
    (A,) = given(A=(6,))
    for target in ("python", "cpu"):
        f = sl.build(sl.schedule([topi.sort(A), topi.sort(A, is_ascend=0)]), target=target)
        up, down = f(x)
        np.testing.assert_array_equal(up, np.sort(x))
        np.testing.assert_array_equal(down, np.sort(x)[::-1])


def test_the_largest_elements() -> None:
    x = few((3, 8), "float32")
    (A,) = given(A=(3, 8))
    order = order_of(x, 1, False)[:, :3]
    both = topi.topk(A, 3)
    check(both[0], np.take_along_axis(x, order, 1), A=x)
    check(both[1], order, A=x)
    check(topi.topk(A, 3, ret_type="indices", dtype="int32"), order, A=x)
    smallest = topi.topk(A, 0, axis=0, ret_type="values", is_ascend=True)
    check(smallest, np.sort(x, 0), A=x)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_a_sequence(right: bool) -> None:
    sequence, x = (
        np.sort(few((2, 9), "float32")),
        few((2, 3), "float32") + 0.5 * few((2, 3), "int8"),
    )
    S, V = given(S=(2, 9), V=(2, 3))
    expected = [np.searchsorted(s, v, "right" if right else "left") for s, v in zip(sequence, x)]
    found = topi.searchsorted(S, V, right, "int32")
    check(found, expected, S=sequence, V=x.astype("float32"))


@settings(max_examples=20, deadline=None)
@drawn(st.lists(st.integers(-3, 3), min_size=1, max_size=9), st.booleans())
def test_unique_elements(given_values: list[int], is_sorted: bool) -> None:
    x = np.array(given_values, "int32")
    A = sl.placeholder(x.shape, "int32", name="A")
    evaluated = sl.reference(topi.unique(A, is_sorted, True))
    elements, indices, inverse, count, counts = evaluated(x)
    known = sorted(set(given_values)) if is_sorted else list(dict.fromkeys(given_values))
    (number,) = count
    assert number == len(known)
    assert elements.tolist() == known + [0] * (len(x) - len(known))
    assert indices[:number].tolist() == [given_values.index(v) for v in known]
    assert inverse.tolist() == [known.index(v) for v in given_values]
    assert counts[:number].tolist() == [given_values.count(v) for v in known]


def test_a_kernel_of_unique_elements() -> None:
    x = few((LONGEST + 5,), "int32")
    A = sl.placeholder(x.shape, "int32", name="A")
    elements, _, inverse, (number,) = sl.build(sl.schedule(topi.unique(A)))(x)
    np.testing.assert_array_equal(elements[:number], np.unique(x))
    np.testing.assert_array_equal(elements[inverse], x)


@pytest.mark.parametrize("shape", [(1,), (2, 5), (3, 2, 12)])
def test_fourier_transforms(shape: Any) -> None:
    A, B = given(A=shape, B=shape)
    data = values(A, B)
    z = data["A"] + 1j * data["B"]
    for inverse, expected in ((False, np.fft.fft(z)), (True, np.fft.ifft(z))):
        re, im = topi.dft(A, B, inverse)
        check(re, expected.real, 1e-5, **data)
        check(im, expected.imag, 1e-5, **data)


@pytest.mark.parametrize(("onesided", "normalized"), [(True, False), (False, True)])
def test_transforms_of_windows(onesided: bool, normalized: bool) -> None:
    A, w = given(A=(2, 23), w=(6,))
    data = values(A, w)
    frames = np.stack([data["A"][:, t : t + 6] * data["w"] for t in range(0, 18, 4)], 1)
    z = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    z = z.swapaxes(1, 2) / (np.sqrt(6) if normalized else 1)
    result = topi.stft(A, 6, 4, 6, w, normalized, onesided)
    check(result, np.stack([z.real, z.imag], -1), **data)


@pytest.mark.parametrize("sparse_data", [False, True])
def test_products_with_a_sparse_operand(sparse_data: bool) -> None:
    sparse = RNG.standard_normal((5, 4)) * (RNG.random((5, 4)) < 0.4)
    rows, columns = np.nonzero(sparse)
    parts = {
        "S_data": sparse[rows, columns].astype("float32"),
        "S_indices": columns.astype("int32"),
        "S_indptr": np.searchsorted(rows, np.arange(6)).astype("int32"),
    }
    S = topi.sparse.placeholder((5, 4), name="S")
    X, b = given(X=(3, 4), b=(3 if sparse_data else 5,))
    data = values(X, b)
    result = topi.sparse.dense(S, X, b) if sparse_data else topi.sparse.dense(X, S, b)
    left, right = (sparse, data["X"]) if sparse_data else (data["X"], sparse)
    f = sl.build(sl.schedule(result), target="python")
    np.testing.assert_allclose(f(**parts, **data), left @ right.T + data["b"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 4])
def test_simulated_quantization(channels: int) -> None:
    x = RNG.uniform(-300, 300, (3, 4)).astype("float32")
    scale = RNG.uniform(0.5, 2, channels).astype("float32")
    zero = RNG.integers(-9, 9, channels).astype("int32")
    A, s = given(A=(3, 4), s=(channels,))
    z, code = sl.placeholder((channels,), "int32", name="z"), sl.var("code", "int32")
    f, back = (
        sl.build(sl.schedule(T), [A, s, z, code, T], "python")
        for T in (
            topi.nn.simulated_quantize(A, code, s, z),
            topi.nn.simulated_dequantize(A, code, s, z),
        )
    )
    quotient = x / scale
    rounded = np.copysign(np.floor(np.abs(quotient) + np.float32(0.5)), quotient) + zero
    for kind, number in topi.nn.SQNN_DTYPE_TO_CODE.items():
        if kind == "disable":
            np.testing.assert_array_equal(f(x, scale, zero, number), x)
            np.testing.assert_array_equal(back(x, scale, zero, number), x)
            continue
        limits = np.iinfo(kind)
        expected = np.clip(rounded, limits.min, limits.max)
        np.testing.assert_array_equal(f(x, scale, zero, number), expected.astype("float32"))
        np.testing.assert_allclose(back(x, scale, zero, number), (x - zero) * scale, rtol=1e-6)


A, B = given(A=(3, 4), B=(4,))
K = sl.placeholder((3,), "int32", name="I")
N = sl.placeholder((sl.var("n"),), name="N")
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: topi.sort(A, 2), "axis"),
    (lambda: topi.sort([1, 2]), "must be a tensor"),
    (lambda: topi.argsort(A, K), "valid_count"),
    (lambda: topi.topk(A, 5), "more than the 4 elements"),
    (lambda: topi.topk(A, ret_type="all"), "is none of 'both'"),
    (lambda: topi.searchsorted(A, B), "the first dimensions"),
    (lambda: topi.unique(A), "has 1 dimension"),
    (lambda: topi.dft(A, B, False), "must have"),
    (lambda: topi.dft(K, K, False), "computes with floats"),
    (lambda: topi.dft(N, N, False), "must be a number"),
    (lambda: topi.stft(A, 6, 1, 6, B, False, True), "the length of window"),
    (lambda: topi.stft(A, 8, 1, 4, B, False, True), "must ascend"),
    (lambda: topi.stft(A, 4, 1, 4, B, False, True, (1, 1, 1, 2)), "but the result is"),
    (lambda: topi.sparse.dense(A, A), "both dense"),
    (lambda: topi.sparse.dense(B, topi.sparse.placeholder((3, 4))), "has 2 dimensions"),
    (lambda: topi.nn.simulated_quantize(A, "int8", B, B), "the number of a dtype"),
    (lambda: topi.nn.simulated_quantize(A, 1), "give the scale"),
    (lambda: topi.nn.simulated_quantize(A, 1, B, B, axis=0), "the channels of data"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ComputeError, ComputeTypeError), match=message):
        call()


def test_a_random_matrix_in_blocks() -> None:
    pytest.importorskip("scipy")
    np.random.seed(7)
    matrix = topi.sparse.utils.random_bsr_matrix(12, 10, 3, 2, 0.4, "float32")
    # the share of the elements, and one block more
    assert matrix.data.shape == (48 // 6 + 1, 3, 2) and matrix.data.dtype == "float32"
    assert matrix.indices.dtype == matrix.indptr.dtype == "int32"
    assert matrix.indptr[-1] == len(matrix.indices) == 9 and np.all(np.diff(matrix.indptr) >= 0)
    dense = matrix.toarray().reshape(4, 3, 5, 2).any(axis=(1, 3))
    assert dense.sum() == 9
    np.random.seed(7)
    again = topi.sparse.utils.random_bsr_matrix(12, 10, 3, 2, 0.4, "float32")
    np.testing.assert_array_equal(matrix.toarray(), again.toarray())
    with pytest.raises(ComputeError, match="blocks of 5 by 2 do not divide the matrix"):
        topi.sparse.utils.random_bsr_matrix(12, 10, 5, 2, 0.4)
    with pytest.raises(ComputeError, match="21 blocks are more than the 20 that fit"):
        topi.sparse.utils.random_bsr_matrix(12, 10, 3, 2, 1.0)


def test_functions_on_graphs_of_models_are_elsewhere() -> None:
    with pytest.raises(SchedlangError, match=r"graphs of models") as refusal:
        topi.sparse.utils.random_sparse_dense_params  # noqa: B018
    assert not isinstance(refusal.value, MissingNameError)
