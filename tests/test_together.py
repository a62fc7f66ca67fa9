"""Features that meet: complex numbers and bfloat16 in array expressions, scatters in gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import dumps, loads
from schedlang.errors import ComputeError, ComputeTypeError

RNG = np.random.default_rng(3)
Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
Z[1, 2] = 0


@pytest.mark.parametrize("function", [
    lambda z: np.sum(z, axis=0), lambda z: np.prod(z), lambda z: np.cumsum(z, axis=1),
    lambda z: np.trace(z), lambda z: np.mean(z, axis=1), lambda z: z.mean(),
    lambda z: np.var(z, axis=0), lambda z: np.std(z, ddof=1), lambda z: np.average(z, axis=0),
    lambda z: np.linalg.norm(z), lambda z: np.linalg.norm(z, axis=1, ord=1),
    lambda z: np.linalg.norm(z, axis=1, ord=0), lambda z: np.count_nonzero(z, axis=0),
    lambda z: np.nansum(z), lambda z: np.isclose(z, z + 1e-9), lambda z: np.vdot(z, z * 1j),
    lambda z: np.reciprocal(z + 1), lambda z: np.correlate(z[0], z[1], "full"),
    lambda z: np.convolve(z[0], z[1]), lambda z: np.vdot(z.real, z),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_arrays(function: Callable[[Any], Any], dtype: str) -> None:
    z = Z.astype(dtype)
    result = function(sl.placeholder(z.shape, dtype, name="Z"))
    want = np.asarray(function(z))
    got = sl.reference(result)(z)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_vecdot_and_vecmat_conjugate_the_first_operand() -> None:
    from schedlang.arrays import products

    A = sl.placeholder((3, 4), "complex128", name="A")
    np.testing.assert_allclose(
        sl.reference(products.vecdot(A, A * 1j))(Z), (Z.conj() * Z * 1j).sum(1)
    )
    got = sl.reference(products.vecmat(A[0, :3], A))(Z)
    np.testing.assert_allclose(got, Z[0, :3].conj() @ Z)


def test_nan_to_num() -> None:
    B = sl.placeholder((3,), "bfloat16", name="B")
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    got = sl.reference(np.nan_to_num(B))(np.array([np.nan, np.inf, -1], bfloat16))
    assert [float(v) for v in got] == [0, 255 * 2.0**120, -1]
    with pytest.raises(ComputeTypeError, match="apply it to A.real and A.imag"):
        np.nan_to_num(sl.placeholder((3,), "complex64", name="A"))


def test_gradients_of_complex_numbers_are_refused() -> None:
    A = sl.placeholder((4,), "complex64", name="A")
    with pytest.raises(ComputeTypeError, match="gradients of complex numbers are not derived"):
        sl.gradient(np.sum(np.abs(A)), A)
    X = sl.placeholder((4,), name="X")
    inner = sl.compute((4,), lambda i: sl.abs(X[i] * 1j), name="inner")
    with pytest.raises(ComputeError, match="gradients of complex numbers are not derived"):
        sl.gradient(np.sum(inner), X)


@pytest.mark.parametrize("combine", ["prod", "max", "last"])
def test_gradients_of_scatters_are_refused(combine: str) -> None:
    index, V = sl.placeholder((6,), "int32", name="I"), sl.placeholder((6,), name="V")
    S = sl.scatter((5,), (6,), lambda k: (index[k], V[k]), combine, name="S")
    with pytest.raises(ComputeError, match="stage S: it is a scatter"):
        sl.gradient(np.sum(S), V)


def by_row(declared: bool) -> tuple[sl.Tensor, sl.Tensor, Any]:
    indptr = sl.placeholder((5,), "int32", name="indptr")
    if declared:
        sl.assume(indptr, monotonic=True, within=(0, 6))
    V = sl.placeholder((6,), "float64", name="V")
    i = sl.reduce_axis(4, name="i")
    k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
    return indptr, V, (i, k)


def by_axis() -> tuple[sl.Tensor, Any]:
    V = sl.placeholder((6, 6), "float64", name="V")
    i = sl.reduce_axis(6, name="i")
    return V, (i, sl.reduce_axis((0, i + 1), name="k"))


@pytest.mark.parametrize("declared", [True, False])
def test_scatter_over_rows_of_a_sparse_matrix(declared: bool) -> None:
    indptr, V, domain = by_row(declared)
    S = sl.scatter((4,), domain, lambda i, k: (i, V[k]), name="S")
    v, rows = np.arange(1.0, 7), np.array([0, 2, 2, 5, 6], "int32")
    check(S, {"indptr": rows, "V": v}, np.array([3, 0, 12, 6]))


@pytest.mark.parametrize("combine", ["sum", "max", "last"])
@pytest.mark.parametrize("index", ["i", "k", "5 - k", "(i + k) % 6"])
def test_scatter_over_a_triangle(index: str, combine: str) -> None:
    V, domain = by_axis()
    v = RNG.normal(size=(6, 6))
    S = sl.scatter(
        (6,), domain, lambda i, k: (eval(index, {"i": i, "k": k}), V[i, k]), combine,
        init=0.0, where=lambda i, k: V[i, k] > -1, name="S",
    )  # fmt: skip
    want = np.zeros(6)
    for i in range(6):
        for k in range(i + 1):
            at = eval(index, {"i": i, "k": k})
            old, new = want[at], v[i, k]
            if new > -1:
                want[at] = {"sum": old + new, "max": max(old, new), "last": new}[combine]
    check(S, {"V": v}, want)


def check(S: sl.Tensor, arrays: dict[str, np.ndarray], want: np.ndarray) -> None:
    """Compare the oracle, a kernel and a copy from the data form with ``want``."""
    (again,) = loads(dumps(S))
    for tensor in (S, again):
        s = sl.schedule(tensor)
        given = [arrays[a.name] for a in sl.lower(s).args if a.name in arrays]
        np.testing.assert_allclose(sl.reference(tensor)(*given), want, rtol=1e-12)
        np.testing.assert_allclose(sl.build(s, target="python")(*given), want, rtol=1e-12)
    assert str(sl.schedule(again)) == str(sl.schedule(S))


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_gradients_of_scatters_that_sum(start: bool, rows: bool) -> None:
    index = np.array([0, 3, 1, 3, 4, 0], "int32")
    shape = (2,) if rows else ()
    own = sl.placeholder((6,), "int32", name="I")
    V = sl.placeholder((6, *shape), "float64", name="V")
    D = sl.placeholder((5, *shape), "float64", name="D")
    S = sl.scatter(
        D if start else D.shape, V.shape, lambda k, *j: ((own[k], *j), V[(k, *j)] ** 2),
        where=lambda k, *j: V[(k, *j)] > 0, name="S",
    )  # fmt: skip
    v, d = RNG.normal(size=V.shape), RNG.normal(size=D.shape)
    s = d.copy() if start else np.zeros(D.shape)
    np.add.at(s, index, np.where(v > 0, v**2, 0))
    want = [np.where(v > 0, 2 * v * 2 * s[index], 0), 2 * s]
    results = sl.gradient(np.sum(S * S), [V, D] if start else [V])
    arrays = {"I": index, "V": v, "D": d}
    for result, expected in zip(results, want):
        check(result, arrays, expected)


def test_second_gradient_of_a_lookup() -> None:
    index = np.array([0, 1, 1, 3])
    own = sl.placeholder((4,), "int64", name="I")
    A = sl.placeholder((4,), "float64", name="A")
    y = np.sum(np.take(A, own) ** 3)
    second = sl.gradient(np.sum(sl.gradient(y, A) * A), A)
    a, count = RNG.normal(size=4), np.bincount(index, minlength=4)
    check(second, {"I": index, "A": a}, count * 9 * a**2)


def test_values_of_scatters_of_another_kind() -> None:
    own, C = sl.placeholder((6,), "int32", name="I"), sl.placeholder((6,), "complex64", name="C")
    for dtype in ("bfloat16", "float32"):
        D = sl.placeholder((5,), dtype, name="D")
        with pytest.raises(ComputeTypeError, match="the value is complex64, but init is"):
            sl.scatter(D, (6,), lambda k: (own[k], C[k]), name="S")  # noqa: B023


def test_parts_of_traced_arrays() -> None:
    f = sl.jit(lambda z: np.conj(z) * np.real(z) + np.imag(z).sum(), target="python")
    np.testing.assert_allclose(f(Z), Z.conj() * Z.real + Z.imag.sum())
    g = sl.jit(lambda z: z.conj() * z.real + z.imag.sum(), target="python")
    np.testing.assert_allclose(g(Z), Z.conj() * Z.real + Z.imag.sum())
