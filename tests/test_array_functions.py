"""NumPy's functions of whole tensors compute what NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.arrays import agree, tensors

RNG = np.random.default_rng(1)
X = RNG.normal(size=(4, 6)).astype("float32")
Y = RNG.normal(size=(4, 6)).astype("float32")
CUBE = RNG.normal(size=(2, 3, 4)).astype("float32")
SQUARE = RNG.normal(size=(3, 3)).astype("float32")
VECTOR = RNG.normal(size=7).astype("float32")
WHOLE = RNG.integers(-20, 20, size=(4, 6)).astype("int8")
INDEX = RNG.integers(-4, 4, size=(2, 3))
NANS = np.array([1, np.nan, -np.inf, np.inf, 0, -0.0, 3e38], "float32")

MATRIX: dict[str, Callable[[Any], Any]] = {
    "where": lambda x: np.where(x > 0, x, 0), "where of numbers": lambda x: np.where(x > 0, 1.0,
    0.0),
    "where of integers": lambda x: np.where(x > 0, 1, 0), "where of a number":
    lambda x: np.where(x, 1.5, x), "clip": lambda x: np.clip(x, -0.5, 0.5), "clip above":
    lambda x: x.clip(max=0.5), "clip by arrays": lambda x: np.clip(x, x[0], x[1] + 1),
    "round": np.round, "round to digits": lambda x: np.round(x, 2), "round to tens":
    lambda x: (x * 100).round(-1), "fix": np.fix, "nan_to_num": np.nan_to_num,
    "isclose": lambda x: np.isclose(x, x + 1e-7), "allclose": lambda x: np.allclose(x, x),
    "select": lambda x: np.select([x > 1, x > 0], [x, x * x], -1), "sinc": np.sinc,
    "copy": np.copy, "concatenate": lambda x: np.concatenate([x, x * 2, x[:1]]),
    "concatenate columns": lambda x: np.concatenate((x, x[:, :2]), axis=-1), "concatenate all":
    lambda x: np.concatenate([x, x], axis=None), "concatenate dtypes":
    lambda x: np.concatenate([x, x.astype("float64")]), "concatenate to a dtype":
    lambda x: np.concatenate([x, x], dtype="float64"),
    "stack": lambda x: np.stack([x, x + 1], axis=1), "stack of rows":
    lambda x: np.stack([x[0], x[1], x[3]]), "vstack": lambda x: np.vstack([x[0], x]),
    "hstack": lambda x: np.hstack([x, x[:, :1]]), "hstack of vectors":
    lambda x: np.hstack([x[0], x[1]]), "dstack": lambda x: np.dstack([x, x]), "column_stack":
    lambda x: np.column_stack([x, x[:, 0]]), "append": lambda x: np.append(x, x[:1], axis=0),
    "stack of elements": lambda x: np.stack([x[0, 0], x[1, 1] * 2]),
    "take": lambda x: np.take(x, [0, 3, 1], axis=1), "take evenly": lambda x: x.take([0, 2, 4], 1),
    "take one": lambda x: np.take(x, 2, axis=0), "take of all": lambda x: np.take(x, [[1, -1], [9,
    4]]),
    "take, clipped": lambda x: np.take(x, [-9, 1, 99], axis=0, mode="clip"), "take, wrapped":
    lambda x: np.take(x, [-9, 1, 99], axis=0, mode="wrap"),
    "repeat": lambda x: np.repeat(x, 3, axis=1), "repeat all": lambda x: np.repeat(x, 2),
    "tile": lambda x: np.tile(x, 2), "tile both": lambda x: np.tile(x, (3, 2)), "tile more":
    lambda x: np.tile(x[0], (2, 1, 2)), "roll": lambda x: np.roll(x, 2), "roll an axis":
    lambda x: np.roll(x, -1, axis=0), "roll both": lambda x: np.roll(x, (1, -2), (0, 1)),
    "roll far": lambda x: np.roll(x, 100, axis=1),
    "flip": np.flip, "flip an axis": lambda x: np.flip(x, 1), "flipud": np.flipud,
    "fliplr": np.fliplr, "rot90": np.rot90, "rot180": lambda x: np.rot90(x, 2), "rot270":
    lambda x: np.rot90(x, -1), "pad": lambda x: np.pad(x, 1), "pad a value":
    lambda x: np.pad(x, ((1, 0), (2, 3)), constant_values=-1), "pad edges":
    lambda x: np.pad(x, (1, 2), mode="edge"), "pad reflected":
    lambda x: np.pad(x, ((0, 0), (2, 2)), "reflect"), "pad wrapped": lambda x: np.pad(x, 2, "wrap"),
    "pad a view": lambda x: np.pad(x[1:, ::2].T, ((1, 0), (0, 2))), "pad a view's edges":
    lambda x: np.pad(x[1:-1, ::-1], 2, "edge"), "diff": np.diff, "diff twice":
    lambda x: np.diff(x, 2, axis=0), "diff with ends":
    lambda x: np.diff(x, prepend=0, append=x[:, :1]), "triu": np.triu, "tril":
    lambda x: np.tril(x, -1),
    "triu of a vector": lambda x: np.triu(x[0], 1), "diag": lambda x: np.diag(x[0], 1),
    "diag below":
    lambda x: np.diag(x[0], -2), "diag of a matrix": lambda x: np.diag(x, -1),
    "zeros_like": np.zeros_like, "ones_like": lambda x: np.ones_like(x, dtype=int), "full_like":
    lambda x: np.full_like(x, 2.5), "zeros_like of a shape": lambda x: np.zeros_like(x, shape=(2,
    2)),
    "nansum": lambda x: np.nansum(np.where(x > 0, np.nan, x), axis=0), "nanprod":
    lambda x: np.nanprod(np.where(x > 0, np.nan, x), axis=1),
    "norm": np.linalg.norm, "norm of rows": lambda x: np.linalg.norm(x, axis=1, keepdims=True),
    "norm 1": lambda x: np.linalg.norm(x, 1, axis=0), "norm inf":
    lambda x: np.linalg.norm(x, np.inf, axis=1), "norm 3": lambda x: np.linalg.norm(x, 3, axis=1),
    "norm 0": lambda x: np.linalg.norm(x, 0, axis=1), "matrix norm 1":
    lambda x: np.linalg.norm(x, 1), "matrix norm inf": lambda x: np.linalg.norm(x, -np.inf),
    "fro": lambda x: np.linalg.norm(x, "fro"), "vector_norm": np.linalg.vector_norm,
    "split": lambda x: np.split(x, 3, axis=1), "array_split": lambda x: np.array_split(x, 3),
    "split at": lambda x: np.split(x, [1, 3]), "hsplit": lambda x: np.hsplit(x, 2), "unstack":
    lambda x: np.unstack(x, axis=1), "atleast_3d": np.atleast_3d, "meshgrid":
    lambda x: np.meshgrid(x[0], x[:, 0]), "broadcast_arrays":
    lambda x: np.broadcast_arrays(x, x[0]), "array_equal": lambda x: np.array_equal(x, x),
    "array_equal of shapes": lambda x: np.array_equal(x, x[0]), "rollaxis":
    lambda x: np.rollaxis(x, 1), "swapaxes": lambda x: x.swapaxes(0, 1), "std":
    lambda x: np.std(x, axis=0, correction=1), "sum where":
    lambda x: np.sum(x, axis=1, where=x > 0, initial=1), "mean where":
    lambda x: np.mean(x, axis=0, where=x < 1), "var where": lambda x: np.var(x, where=x < 1,
    axis=1),
    "max where": lambda x: np.max(x, axis=1, where=x < 0, initial=-9), "min, keepdims":
    lambda x: np.min(x, axis=(0, 1), keepdims=True), "sum of no axis": lambda x: np.sum(x, axis=()),
    "all, keepdims": lambda x: np.all(x > -1, axis=0, keepdims=True), "outer of ufunc":
    lambda x: np.subtract.outer(x[0], x[:, 0]), "multiply.accumulate":
    lambda x: np.multiply.accumulate(x, axis=1), "logaddexp.accumulate":
    lambda x: np.logaddexp.accumulate(x, axis=1), "minimum.reduce":
    lambda x: np.minimum.reduce(x, axis=None), "logical_or.reduce":
    lambda x: np.logical_or.reduce(x > 1), "cumulative_sum":
    lambda x: np.cumulative_sum(x, axis=0), "cumsum of all": lambda x: np.cumsum(x),
    "correlation": lambda x: np.correlate(x[0], x[1, :3]), "dtype of a ufunc":
    lambda x: np.add(x, 1, dtype="float64"), "linalg.diagonal": lambda x: np.linalg.diagonal(x),
    "linalg.trace": lambda x: np.linalg.trace(x, offset=1), "matvec":
    lambda x: np.matvec(x, x[0]), "vecmat": lambda x: np.vecmat(x[:, 0], x), "vecdot":
    lambda x: np.vecdot(x, x[1]), "vecdot by axis": lambda x: np.linalg.vecdot(x, x, axis=0),
    "average": lambda x: np.average(x, axis=0), "average by a vector":
    lambda x: np.average(x, axis=1, weights=x[0] ** 2),
}  # fmt: skip

if not hasattr(np, "matvec"):
    # new in NumPy 2.2
    del MATRIX["matvec"], MATRIX["vecmat"]


@pytest.mark.parametrize("name", MATRIX)
def test_a_function_of_a_matrix(name: str) -> None:
    agree(MATRIX[name], X, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "name",
    ["sign", "reciprocal", "signbit", "fabs", "positive", "conjugate", "deg2rad", "rad2deg",
    "square",
     "isnan", "isfinite", "logical_not", "rint", "exp", "arctan", "tanh", "nan_to_num"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_ufunc_of_special_values(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        values = NANS.astype(dtype)
    agree(getattr(np, name), values, rtol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize(
    "name", ["hypot", "logaddexp", "logaddexp2", "fmax", "fmin", "fmod", "copysign", "heaviside",
             "maximum", "minimum", "arctan2", "float_power", "floor_divide", "remainder",
             "logical_xor"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_ufunc_of_two_special_values(name: str, dtype: str) -> None:
    values = NANS.astype(dtype)
    agree(lambda x: getattr(np, name)(x[:, None], x[None, :]), values, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_remainders_of_integers_at_their_limits(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, info.max, 5, 0], dtype)
    y = np.array([3, info.max, info.min or 1, 7], dtype)
    agree(lambda x, y: np.fmod(x[:, None], y[None, :]), x, y)
    agree(lambda x: np.fmod(x, 3), x)
    agree(lambda x: np.fmod(x > 0, 1.5), x)


def test_functions_of_two() -> None:
    agree(lambda x, i: np.take(x, i, axis=0), X, INDEX)
    agree(lambda x, i: np.take(x, i, axis=1, mode="wrap"), X, INDEX)
    agree(lambda x, i: np.take(x, i), X, INDEX.astype("int8"))
    agree(lambda x, i: np.take_along_axis(x, i, axis=1), X, INDEX[[0, 1, 1, 0]])
    agree(lambda x, i: np.take_along_axis(x, i[:1], axis=1), X, INDEX)
    agree(lambda x, y: np.vdot(x, y), X, Y, rtol=1e-5)
    agree(lambda x, y: np.cross(x[:, :3], y[:, 3:]), X, Y)
    agree(lambda x, y: np.cross(x[:3], y[:3, :1], axis=0), X, Y)
    agree(lambda x, y: np.allclose(x, y), X, Y)
    for mode in ("full", "same", "valid"):
        for lengths in ((7, 3), (7, 4), (3, 7), (2, 7), (1, 1)):
            x, y = (RNG.normal(size=n).astype("float32") for n in lengths)
            agree(lambda a, b, m=mode: np.convolve(a, b, m), x, y, rtol=1e-5)
            agree(lambda a, b, m=mode: np.correlate(a, b, m), x, y, rtol=1e-5)


def test_functions_of_complex_numbers() -> None:
    z = (RNG.normal(size=(2, 5)) + 1j * RNG.normal(size=(2, 5))).astype("complex64")
    z[0, :3] = 2, -3, 1j
    for function in (np.real, np.imag, np.conj, np.abs, np.angle, np.isreal, np.iscomplex,
                     np.square, np.exp, np.isfinite, np.reciprocal, lambda z: np.angle(z, deg=True),
                     lambda z: z.real + z.imag, lambda z: z.conj() @ z.T, lambda z: z.mean(axis=0),
                     lambda z: np.vdot(z[0], z[1]), np.linalg.norm, lambda z: z.var(axis=1)):
        agree(function, z, rtol=1e-5)
    Z, R = tensors(z, z.real)
    assert np.iscomplexobj(Z) and np.iscomplexobj(R * 1j) and not np.iscomplexobj(R)
    assert np.isrealobj(R) and not np.isrealobj(Z)


def test_products_of_several() -> None:
    agree(lambda a: np.linalg.matrix_power(a, 5), SQUARE, rtol=1e-4)
    agree(lambda a: np.linalg.matrix_power(a, 0), SQUARE)
    agree(lambda a: np.linalg.multi_dot([a[0], a, a, a[:, 1]]), SQUARE, rtol=1e-4)
    agree(lambda a: np.linalg.multi_dot([a, a[:, :2], a[:2, :1]]), SQUARE, rtol=1e-4)
    agree(lambda a: np.kron(a[0], a), SQUARE)
    agree(lambda a: np.tensordot(a, a, axes=([0, 2], [0, 2])), CUBE, rtol=1e-5)
    agree(lambda a: np.tensordot(a, a, axes=0), CUBE[0])
    agree(lambda a: np.inner(a, a[0]), CUBE, rtol=1e-5)


def test_created_like_another() -> None:
    agree(lambda x: np.zeros((2, 3), like=x), X)
    agree(lambda x: np.arange(2, 11, 3, like=x), X)
    agree(lambda x: np.arange(0.0, 1, 0.25, like=x), X)
    agree(lambda x: np.arange(5, -5, -2, like=x), X)
    agree(lambda x: np.eye(3, 4, 1, like=x), X)
    agree(lambda x: np.identity(3, dtype="int32", like=x), X)
    agree(lambda x: np.tri(3, 4, -1, like=x), X)
    agree(lambda x: np.full((2,), 7, like=x), X)
    agree(lambda x: np.array([x[0, 0], 2.5], like=x), X)


def test_functions_of_integers() -> None:
    for function in (np.sum, np.prod, np.mean, np.var, np.max, np.argmin, np.ptp, np.cumsum,
    np.sign,
                     np.diff, np.linalg.norm, np.any, np.count_nonzero, np.fabs, np.round, np.floor,
                     lambda x: x // 3 + x % 5, lambda x: np.fmod(x, 3), lambda x: x @ x.T,
                     lambda x: np.average(x, axis=0), lambda x: -x >> 1, lambda x: np.dot(x[0],
                     x[1]),
                     lambda x: x / 2, lambda x: x * 2.5, lambda x: 300 > x, lambda x: np.exp(x / 9),
                     lambda x: np.divmod(x, 7), lambda x: np.sinc(x),
                     lambda x: x.mean(dtype="float32"),
                     lambda x: x.sum(dtype="int16"), lambda x: np.isclose(x, 3)):  # fmt: skip
        agree(function, WHOLE)
        agree(function, np.abs(WHOLE).astype("uint8"))
