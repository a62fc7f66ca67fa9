"""Tests of ``reference`` against hand-written NumPy."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlang.compute import compute, placeholder, var
from schedlang.compute import math as m
from schedlang.compute import reduce as r
from schedlang.compute.custom_reducer import comm_reducer
from schedlang.compute.reference import reference
from schedlang.errors import BoundsError

RNG = np.random.default_rng(7)


def random(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return RNG.standard_normal(shape).astype(dtype)


# elementwise


def test_elementwise_and_broadcast():
    A, B = placeholder((7, 5), name="A"), placeholder((5,), name="B")
    C = compute((7, 5), lambda i, j: A[i, j] * 2 + B[j], name="C")
    a, b = random((7, 5)), random((5,))
    result = reference(C)(a, b)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a * np.float32(2) + b)


def test_zero_dimensional():
    A = placeholder((), "int32", name="A")
    C = compute((), lambda: A[()] + 1, name="C")
    result = reference(C)(np.array(41, "int32"))
    assert result.shape == () and result.dtype == np.int32 and result == 42


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (3, 0), (1, 1), (1, 0, 2)])
def test_extents_of_zero_and_one(shape):
    A = placeholder(shape, name="A")
    C = compute(shape, lambda *idx: m.exp(A[idx]), name="C")
    a = random(shape)
    np.testing.assert_array_equal(reference(C)(a), np.exp(a))


def test_constant_body_and_axis_body():
    np.testing.assert_array_equal(reference(compute((3,), lambda i: 1.5))(), [1.5] * 3)
    index = compute((2, 3), lambda i, j: (i * 3 + j).astype("int32"), name="index")
    np.testing.assert_array_equal(reference(index)(), np.arange(6, dtype="int32").reshape(2, 3))


def test_strided_transposed_diagonal_reversed_and_windowed_reads():
    A = placeholder((9, 9), name="A")
    a = random((9, 9))
    cases = {
        "transpose": (lambda i, j: A[j, i], a.T),
        "reversed": (lambda i, j: A[8 - i, j], a[::-1]),
        "diagonal": (lambda i, j: A[i, i], np.broadcast_to(np.diag(a)[:, None], (9, 9))),
        "halved": (lambda i, j: A[i // 2, j % 3], a[np.arange(9) // 2][:, np.arange(9) % 3]),
    }
    for name, (body, expected) in cases.items():
        np.testing.assert_array_equal(reference(compute((9, 9), body, name=name))(a), expected)
    window = compute((7, 3), lambda i, k: A[i + k, 4], name="window")
    expected = np.lib.stride_tricks.sliding_window_view(a[:, 4], 3)
    np.testing.assert_array_equal(reference(window)(a), expected)
    strided = compute((3, 2), lambda i, j: A[2 * i + 1, 4 * j], name="strided")
    np.testing.assert_array_equal(reference(strided)(a), a[1:7:2, 0:8:4])


def test_non_contiguous_arguments():
    A = placeholder((6, 4), name="A")
    C = compute((6, 4), lambda i, j: A[i, j] + 1, name="C")
    wide = random((12, 8))
    for a in (wide[::2, ::2], np.asfortranarray(wide[:6, :4]), wide[5::-1, 3::-1]):
        np.testing.assert_array_equal(reference(C)(a), a + np.float32(1))


def test_several_outputs_and_shared_stages():
    A = placeholder((4, 4), name="A")
    B = compute((4, 4), lambda i, j: A[i, j] * A[i, j], name="B")
    P, Q = compute((4, 4), lambda i, j: (B[i, j] + A[i, j], B[i, j] > A[i, j]), name="P")
    a = random((4, 4))
    square, added, larger, same = reference([B, P, Q, A])(a)
    np.testing.assert_array_equal(square, a * a)
    np.testing.assert_array_equal(added, a * a + a)
    np.testing.assert_array_equal(larger, a * a > a)
    np.testing.assert_array_equal(same, a)
    assert not np.shares_memory(same, a) and larger.dtype == bool


def test_select_evaluates_nan_and_keeps_dtype():
    A = placeholder((50,), "float64", name="A")
    C = compute((50,), lambda i: m.select(A[i] > 0, m.log(A[i]), -A[i]), name="C")
    a = random((50,), "float64")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(reference(C)(a), np.where(a > 0, np.log(a), -a))


def test_no_numpy_warning_escapes():
    A = placeholder((2,), "int32", name="A")
    C = compute((2,), lambda i: A[i] // (A[i] - A[i]), name="C")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(reference(C)(np.array([1, 2], "int32")), [0, 0])


# guards and gathers


def test_if_then_else_guards_an_affine_read():
    A = placeholder((6, 5), name="A")
    C = compute(
        (6, 5), lambda i, j: m.if_then_else((i >= 1) & (j < 4), A[i - 1, j + 1], -1), name="C"
    )
    a = random((6, 5))
    expected = np.full((6, 5), -1, "float32")
    expected[1:, :4] = a[:-1, 1:]
    np.testing.assert_array_equal(reference(C)(a), expected)


def test_nested_guards_of_a_shared_read():
    A = placeholder((8,), name="A")

    def body(i):
        far = A[i + 3]
        inner = m.if_then_else(i < 5, far, 0)
        return m.if_then_else(i % 2 == 0, inner, m.if_then_else(i > 4, 7, far))

    a = random((8,))
    expected = [a[i + 3] if i < 5 else (0 if i % 2 == 0 else 7) for i in range(8)]
    np.testing.assert_array_equal(reference(compute((8,), body, name="C"))(a), expected)


def test_guard_that_depends_on_data():
    A, B = placeholder((6,), name="A"), placeholder((6,), "int64", name="B")
    C = compute((6,), lambda i: m.if_then_else((B[i] >= 0) & (B[i] < 6), A[B[i]], 0), name="C")
    a, b = random((6,)), np.array([0, -3, 5, 99, 2, 6])
    expected = [a[k] if 0 <= k < 6 else 0 for k in b]
    np.testing.assert_array_equal(reference(C)(A=a, B=b), np.array(expected, "float32"))


def test_gather_of_a_gather():
    A, B = placeholder((10, 3), name="A"), placeholder((4,), "uint8", name="B")
    D = placeholder((5,), "int32", name="D")
    C = compute((5, 3), lambda i, j: A[B[D[i]], j], name="C")
    a, b, d = random((10, 3)), np.array([9, 0, 3, 3], "uint8"), np.array([0, 1, 2, 3, 0], "int32")
    np.testing.assert_array_equal(reference(C)(A=a, B=b, D=d), a[b[d]])


@pytest.mark.parametrize("bad", [10, -1])
def test_gather_outside_names_tensor_and_value(bad):
    A, B = placeholder((10,), name="A"), placeholder((4,), "int32", name="B")
    C = compute((4,), lambda i: A[B[i]], name="C")
    with pytest.raises(
        BoundsError, match=rf"C reads A\[.*B\[i\].*index 0 is {bad}, but A .* has extent 10"
    ):
        reference(C)(A=random((10,)), B=np.array([0, 1, bad, 2], "int32"))


def test_select_does_not_guard_and_a_false_guard_is_found():
    A, B = placeholder((4,), name="A"), placeholder((4,), "int64", name="B")
    both = compute((4,), lambda i: m.select(B[i] < 4, A[B[i]], 0), name="both")
    loose = compute((4,), lambda i: m.if_then_else(B[i] <= 4, A[B[i]], 0), name="loose")
    b = np.array([0, 4, 9, 1])
    with pytest.raises(BoundsError, match="index 0 is 4"):
        reference(both)(A=random((4,)), B=b)
    with pytest.raises(BoundsError, match="index 0 is 4"):
        reference(loose)(A=random((4,)), B=b)


def test_where_guards_reads():
    A = placeholder((6,), name="A")
    k = r.reduce_axis(3, name="k")
    C = compute((6,), lambda i: r.sum(A[i + k], axis=k, where=i + k < 6), name="C")
    a = random((6,))
    expected = [np.float32(a[i : i + 3].astype("float64").sum()) for i in range(6)]
    np.testing.assert_array_equal(reference(C)(a), expected)


# reductions


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_integer_sum_and_product_wrap_in_their_dtype(dtype):
    A = placeholder((5, 40), dtype, name="A")
    k = r.reduce_axis(40, name="k")
    a = random((5, 40), dtype)
    with np.errstate(over="ignore"):
        for make, numpy in ((r.sum, np.add), (r.prod, np.multiply)):
            C = compute((5,), lambda i, make=make: make(A[i, k], axis=k), name="C")
            result = reference(C)(a)
            assert result.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(result, numpy.reduce(a, axis=1, dtype=dtype))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes(dtype, name):
    A = placeholder((5, 40), dtype, name="A")
    k = r.reduce_axis(40, name="k")
    C = compute((5,), lambda i: getattr(r, name)(A[i, k], axis=k), name="C")
    a = random((5, 40), dtype)
    if np.dtype(dtype).kind == "f":
        a[2, 7] = np.nan
    np.testing.assert_array_equal(reference(C)(a), getattr(a, name)(axis=1))


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_arg_reductions_take_the_first_and_nan(name, dtype):
    A = placeholder((6, 50), dtype, name="A")
    k = r.reduce_axis(50, name="k")
    C = compute((6,), lambda i: getattr(r, name)(A[i, k], axis=k), name="C")
    a = RNG.integers(-3, 4, (6, 50)).astype(dtype)
    if dtype == "float32":
        a[1, 30] = a[1, 9] = np.nan
    result = reference(C)(a)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, getattr(a, name)(axis=1))


def test_arg_reduction_over_two_axes_is_row_major():
    A = placeholder((4, 5, 6), "int32", name="A")
    j, k = r.reduce_axis(5, name="j"), r.reduce_axis(6, name="k")
    C = compute((4,), lambda i: r.argmax(A[i, j, k], axis=(j, k)), name="C")
    a = RNG.integers(0, 9, (4, 5, 6)).astype("int32")
    np.testing.assert_array_equal(reference(C)(a), a.reshape(4, -1).argmax(axis=1))


def test_float_sums_are_rounded_once():
    A = placeholder((20000,), "float16", name="A")
    k = r.reduce_axis(20000, name="k")
    C = compute((), lambda: r.sum(A[k], axis=k), name="C")
    a = np.full(20000, 0.1, "float16")
    assert reference(C)(a) == np.float16(a.astype("float64").sum())


def test_product_that_overflows_its_dtype_is_infinite():
    A, B = placeholder((3,), "float16", name="A"), placeholder((3,), "float16", name="B")
    k = r.reduce_axis(3, name="k")
    C = compute((), lambda: r.sum(A[k] * B[k], axis=k), name="C")
    a, b = np.array([300, 1, 300], "float16"), np.array([300, 1, -300], "float16")
    assert np.isnan(reference(C)(a, b))
    assert reference(C)(np.abs(a), np.abs(b)) == np.inf


def test_init_where_lower_bound_and_dtype():
    A = placeholder((4, 10), "int16", name="A")
    k = r.reduce_axis((2, 9), name="k")
    C = compute(
        (4,),
        lambda i: r.sum(A[i, k], axis=k, where=A[i, k] > 0, init=i * 10, dtype="int64"),
        name="C",
    )
    a = random((4, 10), "int16")
    kept = np.where(a[:, 2:9] > 0, a[:, 2:9], 0).astype("int64")
    np.testing.assert_array_equal(reference(C)(a), kept.sum(axis=1) + np.arange(4) * 10)


def test_empty_and_never_true_reductions_give_the_identity():
    A = placeholder((3, 4), "int32", name="A")
    k, z, n = r.reduce_axis(4, name="k"), r.reduce_axis(0, name="z"), var("n")
    s = r.reduce_axis(n, name="s")
    a = random((3, 4), "int32")
    never = {
        "sum": 0, "prod": 1, "min": np.iinfo("int32").max, "max": np.iinfo("int32").min
    }  # fmt: skip
    for name, expected in never.items():
        make = getattr(r, name)
        C = compute((3,), lambda i, f=make: f(A[i, k], axis=k, where=A[i, k] != A[i, k]), name="C")
        np.testing.assert_array_equal(reference(C)(a), [expected] * 3)
    none = compute((3,), lambda i: r.sum(A[i, z], axis=z, init=5), name="none")
    np.testing.assert_array_equal(reference(none)(a), [5] * 3)
    B = placeholder((n,), name="B")
    arg = compute((), lambda: r.argmax(B[s], axis=s), name="arg")
    assert reference(arg)(np.empty(0, "float32")) == -1
    assert reference(compute((), lambda: r.max(B[s], axis=s)))(np.empty(0, "float32")) == -np.inf


def test_reduced_value_that_ignores_an_axis():
    A = placeholder((4,), "float32", name="A")
    j, k = r.reduce_axis(3, name="j"), r.reduce_axis(4, name="k")
    C = compute((2, 5), lambda x, y: r.sum(A[k], axis=(j, k)), name="C")
    D = compute((2,), lambda x: r.sum(A[k] * A[j], axis=(j, k)), name="D")
    a = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(reference(C)(a), np.full((2, 5), 18, "float32"))
    np.testing.assert_array_equal(reference(D)(a), np.full((2,), 18, "float32"))


def test_custom_reducer_keeps_order_and_tuples():
    pair = comm_reducer(
        lambda x, y: (m.select(x[1] >= y[1], x[0], y[0]), m.select(x[1] >= y[1], x[1], y[1])),
        lambda a, b: (0, -np.inf), name="pair",
    )  # fmt: skip
    A, B = placeholder((5, 70), "int32", name="A"), placeholder((5, 70), name="B")
    k = r.reduce_axis(70, name="k")
    first, best = compute((5,), lambda i: pair((A[i, k], B[i, k]), axis=k), name="P")
    a, b = random((5, 70), "int32"), random((5, 70))
    got_first, got_best = reference([first, best])(a, b)
    np.testing.assert_array_equal(got_first, a[np.arange(5), b.argmax(axis=1)])
    np.testing.assert_array_equal(got_best, b.max(axis=1))


def test_custom_reducer_over_two_axes_with_where_and_init():
    gcd_like = comm_reducer(lambda x, y: x | y, lambda t: 0, name="either")
    A = placeholder((3, 4, 5), "uint8", name="A")
    j, k = r.reduce_axis(4, name="j"), r.reduce_axis(5, name="k")
    C = compute((3,), lambda i: gcd_like(A[i, j, k], axis=(j, k), where=k > j, init=128), name="C")
    a = random((3, 4, 5), "uint8") & np.uint8(63)
    keep = np.arange(5)[None, :] > np.arange(4)[:, None]
    expected = np.bitwise_or.reduce(np.where(keep, a, np.uint8(0)).reshape(3, -1), axis=1) | 128
    np.testing.assert_array_equal(reference(C)(a), expected)


def test_custom_spelling_of_a_sum_is_a_sum():
    mine = comm_reducer(lambda x, y: y + x, lambda t: 0, name="max")
    A = placeholder((1000,), "float32", name="A")
    k = r.reduce_axis(1000, name="k")
    C = compute((), lambda: mine(A[k], axis=k), name="C")
    a = random((1000,))
    assert reference(C)(a) == np.float32(a.astype("float64").sum())


@pytest.mark.parametrize("batch", [False, True])
def test_contractions(batch):
    A, B = placeholder((3, 6, 5), name="A"), placeholder((3, 5, 4), name="B")
    k, q = r.reduce_axis(5, name="k"), r.reduce_axis(3, name="q")
    a, b = random((3, 6, 5)), random((3, 5, 4))
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    if batch:
        C = compute((3, 6, 4), lambda n, i, j: r.sum(A[n, i, k] * B[n, k, j], axis=k), name="C")
        expected = wide_a @ wide_b
    else:
        C = compute((4, 6), lambda j, i: r.sum(A[q, i, k] * B[q, k, j], axis=(q, k)), name="C")
        expected = np.einsum("qik,qkj->ji", wide_a, wide_b)
    np.testing.assert_allclose(reference(C)(a, b), expected.astype("float32"), rtol=2e-7)


def test_convolution_with_padding():
    X, W = placeholder((2, 3, 8, 8), name="X"), placeholder((4, 3, 3, 3), name="W")
    c, u, v = (r.reduce_axis(3, name=n) for n in "cuv")

    def body(n, f, y, x):
        inside = (y + u >= 1) & (y + u < 9) & (x + v >= 1) & (x + v < 9)
        value = m.if_then_else(inside, X[n, c, y + u - 1, x + v - 1], 0)
        return r.sum(value * W[f, c, u, v], axis=(c, u, v))

    x, w = random((2, 3, 8, 8)), random((4, 3, 3, 3))
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("ncyxuv,fcuv->nfyx", windows, w.astype("float64"))
    result = reference(compute((2, 4, 8, 8), body, name="conv"))(x, w)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


# memory and depth


def test_matmul_of_1024_is_bounded_in_memory():
    n = 1024
    A, B = placeholder((n, n), name="A"), placeholder((n, n), name="B")
    k = r.reduce_axis(n, name="k")
    C = compute((n, n), lambda i, j: r.sum(A[i, k] * B[k, j], axis=k), name="C")
    a, b = random((n, n)), random((n, n))
    tracemalloc.start()
    result = reference(C)(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    np.testing.assert_allclose(result, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


def test_generic_reduction_is_bounded_in_memory():
    n = 256
    A, B = placeholder((n, n), name="A"), placeholder((n, n), name="B")
    k = r.reduce_axis(n, name="k")
    C = compute((n, n), lambda i, j: r.max(m.abs(A[i, k] - B[k, j]), axis=k), name="C")
    D = compute((n, n), lambda i, j: r.argmin(A[i, k] + B[k, j], axis=k), name="D")
    a, b = random((n, n)), random((n, n))
    tracemalloc.start()
    far, near = reference([C, D])(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    rows = [0, 17, 255]
    np.testing.assert_array_equal(far[rows], np.abs(a[rows, :, None] - b[None]).max(axis=1))
    np.testing.assert_array_equal(near[rows], (a[rows, :, None] + b[None]).argmin(axis=1))


def test_wide_expression_is_bounded_in_memory():
    A = placeholder((100_000,), "float64", name="A")

    def body(i):
        value = m.exp(A[i])
        for _ in range(300):
            value = m.exp(A[i] * 0.5) + value
        terms = [A[i] * float(k) for k in range(300)]
        while len(terms) > 1:
            terms = [*terms[:-2], terms[-2] + terms[-1]]
        return value + terms[0]

    C = compute((100_000,), body, name="C")
    a = random((100_000,), "float64")
    tracemalloc.start()
    reference(C)(a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


@pytest.mark.slow
def test_chain_of_2000_stages_and_expression_of_depth_5000():
    A = placeholder((8,), name="A")
    T = A
    for k in range(2000):
        T = compute((8,), lambda i, T=T: T[i] + 1, name=f"s{k}")
    np.testing.assert_array_equal(reference(T)(np.zeros(8, "float32")), np.full(8, 2000))

    def deep(i):
        value = A[i]
        for _ in range(5000):
            value = m.if_then_else(value > -1, value + 1, A[i + 7])
        return value

    assert reference(compute((8,), deep, name="D"))(np.zeros(8, "float32"))[3] == 5000


def test_intermediates_are_freed():
    A = placeholder((250_000,), "float64", name="A")
    T = A
    for k in range(40):
        T = compute((250_000,), lambda i, T=T: T[i] + 1, name=f"s{k}")
    a = np.zeros(250_000)
    tracemalloc.start()
    reference(T)(a)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


# random programs


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 5), st.integers(0, 6), st.integers(0, 7),
    st.sampled_from(["int8", "uint16", "int64", "float32", "float64"]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_random_contraction(m_, n, depth, dtype, seed):
    rng = np.random.default_rng(seed)
    A, B = (
        placeholder((m_, depth + 1), dtype, name="A"),
        placeholder((depth + 1, n), dtype, name="B"),
    )
    k = r.reduce_axis((1, depth + 1), name="k")
    C = compute((m_, n), lambda i, j: r.sum(A[i, k] * B[k, j], axis=k), name="C")
    a = rng.integers(0, 100, (m_, depth + 1)).astype(dtype)
    b = rng.integers(0, 100, (depth + 1, n)).astype(dtype)
    with np.errstate(over="ignore"):
        products = a[:, 1:, None] * b[None, 1:, :]
        expected = products.sum(axis=1, dtype=dtype)
    np.testing.assert_array_equal(reference(C)(a, b), expected)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.integers(0, 9)), min_size=1,
             max_size=3),
    st.integers(1, 5), st.integers(1, 5),
)  # fmt: skip
def test_random_affine_reads(coefs, rows, columns):
    """Reads at ``a*i + b*j + c``, shifted to be in bounds, agree with NumPy."""
    grid = np.arange(rows)[:, None], np.arange(columns)[None, :]
    shape, index = [], []
    for a, b, c in coefs:
        values = a * grid[0] + b * grid[1] + c
        low = int(values.min())
        shape.append(int(values.max()) - low + 1)
        index.append((a, b, c - low))
    X = placeholder(tuple(shape), "int32", name="X")
    C = compute(
        (rows, columns), lambda i, j: X[tuple(a * i + b * j + c for a, b, c in index)], name="C"
    )
    x = np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)
    expected = x[tuple(a * grid[0] + b * grid[1] + c for a, b, c in index)]
    np.testing.assert_array_equal(reference(C)(x), expected)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-128, 127), min_size=1, max_size=600), st.integers(1, 4))
def test_random_arg_reduction(values, repeat):
    a = np.tile(np.array(values, "int8"), repeat)
    A = placeholder((len(a),), "int8", name="A")
    k = r.reduce_axis(len(a), name="k")
    assert reference(compute((), lambda: r.argmax(A[k], axis=k)))(a) == a.argmax()


def test_extremes_of_several_expressions():
    A = placeholder((3, 5), name="A")
    B = compute((5,), lambda i: r.max(A[0, i], A[1, i], A[2, i], 0.5), name="B")
    a = np.random.default_rng(0).random((3, 5), dtype="float32")
    np.testing.assert_array_equal(reference(B)(a), np.maximum(a.max(axis=0), 0.5))
    k = r.reduce_axis(3, name="k")
    C = compute((5,), lambda i: r.min(A[k, i], k, A[k, i] > 0.3, 2), name="C")
    wanted = np.where(a > 0.3, a, 2).min(axis=0)
    np.testing.assert_array_equal(reference(C)(a), wanted)
