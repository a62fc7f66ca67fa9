"""Generalized ufuncs of ``sl.ufunc``: core dimensions, copies for the kernel, and threads."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import schedlang as sl

dot = sl.ufunc(
    lambda x, y: np.sum(x * y), signature="(n),(n)->()", name="dot", dtypes=["float64"]
)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype("float64")


def test_it_is_a_generalized_ufunc() -> None:
    assert isinstance(dot, np.ufunc) and dot.signature == "(n),(n)->()"
    x, y = values(5, 7, 9), values(7, 9, seed=1)
    np.testing.assert_array_equal(dot(x, y), (x * y).sum(-1))
    np.testing.assert_array_equal(dot(x, x[..., ::-1]), (x * x[..., ::-1]).sum(-1))
    np.testing.assert_array_equal(dot(x.T, x.T), (x.T * x.T).sum(-1))
    np.testing.assert_array_equal(dot(x, x, axis=0), (x * x).sum(0))
    assert dot([1, 2], [3, 4]) == 11 and dot(np.zeros((2, 0)), np.zeros(0)).tolist() == [0, 0]
    assert "load(" in dot.loops["dd->d"].source


def test_numpy_refuses_what_it_has_for_elements_alone() -> None:
    x = values(3, 4)
    with pytest.raises(RuntimeError, match="Reduction not defined"):
        dot.reduce(x)
    with pytest.raises(TypeError, match="where"):
        dot(x, x, where=[True, False, True])
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        dot(x, x[:, :2])


@pytest.mark.slow
def test_products_of_matrices() -> None:
    product = sl.ufunc(
        lambda a, b: a @ b, signature="(m,k),(k,n)->(m,n)", name="product",
        dtypes=["float32", "float64"],
    )  # fmt: skip
    a, b = values(4, 5, 6), values(6, 3, seed=1)
    np.testing.assert_array_equal(product(a, b), a @ b)
    out = np.zeros((4, 3, 5)).swapaxes(1, 2)
    assert product(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)
    many = values(300, 17, 19).astype("float32")
    np.testing.assert_array_equal(product(many, many.swapaxes(1, 2)), many @ many.swapaxes(1, 2))
    square = values(5, 5)
    expected = square @ square
    product(square, square, out=square)
    np.testing.assert_array_equal(square, expected)


@pytest.mark.slow
def test_several_results_of_several_stages() -> None:
    def softmax(x):  # type: ignore[no-untyped-def]
        high = np.max(x)
        e = np.exp(x - high)
        return e / np.sum(e), high

    f = sl.ufunc(softmax, signature="(n)->(n),()", dtypes=["float32"])
    for x in (values(300, 101), values(101, 40).T, values(3, 1)):
        x = x.astype("float32")
        e = np.exp(x - x.max(-1, keepdims=True))
        result, high = f(x)
        np.testing.assert_allclose(result, e / e.sum(-1, keepdims=True), rtol=1e-5)
        np.testing.assert_array_equal(high, x.max(-1))


@pytest.mark.slow
def test_sizes_in_the_signature_and_pickles() -> None:
    def turned(a, b):  # type: ignore[no-untyped-def]
        return np.stack(
            [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        )

    f = sl.ufunc(turned, signature="(3),(3)->(3)", dtypes=["float64"])
    a, b = values(1000, 3), values(3, 1000, seed=1).T
    np.testing.assert_array_equal(f(a, b), np.cross(a, b))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(a, b), np.cross(a, b))
    same = sl.ufunc(lambda x: x, signature="(n)->(n)", dtypes=["float64"], name="same")
    np.testing.assert_array_equal(same(a.T), a.T)


@pytest.mark.slow
def test_arrays_of_dask() -> None:
    """Dask splits the other dimensions, and one that is not in the signature stays whole."""
    da = pytest.importorskip("dask.array")
    x, y = values(7, 5), values(5, seed=1)
    chunked = da.from_array(x, chunks=(3, 5))
    for result in (da.apply_gufunc(dot, "(n),(n)->()", chunked, y), dot(chunked, y)):
        assert isinstance(result, da.Array) and result.chunks == ((3, 3, 1),)
        np.testing.assert_allclose(result.compute(scheduler="sync"), x @ y, rtol=1e-13)
    columns = da.from_array(x, chunks=(3, 2))
    with pytest.raises(ValueError, match="core dimension|allow_rechunk"):
        da.apply_gufunc(dot, "(n),(n)->()", columns, y)


@pytest.mark.slow
def test_arrays_of_xarray() -> None:
    xr = pytest.importorskip("xarray")
    x, y = values(5, 7), values(5, seed=1)
    # xarray moves the core dimension behind the others
    a, b = xr.DataArray(x, dims=("n", "row")), xr.DataArray(y, dims=("n",))
    result = xr.apply_ufunc(dot, a, b, input_core_dims=[["n"], ["n"]])
    assert result.dims == ("row",)
    np.testing.assert_allclose(result.values, y @ x, rtol=1e-13)
    pytest.importorskip("dask")
    lazy = xr.apply_ufunc(dot, a.chunk(row=3), b, input_core_dims=[["n"], ["n"]],
                          dask="parallelized", output_dtypes=[x.dtype])  # fmt: skip
    np.testing.assert_allclose(lazy.compute(scheduler="sync").values, y @ x, rtol=1e-13)
