"""Whole-array expressions mean what they mean in NumPy: values, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.arrays import agree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 6)).astype("float32")
Y = RNG.normal(size=(6, 3)).astype("float32")
Z = RNG.normal(size=(4, 6)).astype("float32")
ROW = RNG.normal(size=6).astype("float32")
CUBE = RNG.normal(size=(2, 3, 4)).astype("float32")
WHOLE = RNG.integers(-9, 9, size=(4, 6)).astype("int8")

ONE: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda x: 2 * x + 1.5, "negative": lambda x: -abs(x), "power": lambda x: x**2,
    "compare": lambda x: (x > 0) & (x <= 1), "equal to a number": lambda x: x == 0,
    "floor divide": lambda x: x // 0.5 + x % 0.5, "divmod": lambda x: divmod(x, 0.5),
    "reflected": lambda x: 1 / (2 + x * x) - x, "rows": lambda x: x[0], "last row": lambda x: x[-1],
    "slice": lambda x: x[1:-1, ::2], "reversed": lambda x: x[::-1, -2::-2],
    "ellipsis": lambda x: x[..., 1], "new axis": lambda x: x[:, None, 1:],
    "element": lambda x: x[1, -2], "slice of a slice": lambda x: x[1:][:-1][::-1],
    "empty slice": lambda x: x[3:1], "beyond": lambda x: x[:99, -99:2],
    "column times row": lambda x: x[:, :1] * x[:1, :], "T": lambda x: x.T + x.transpose(1, 0),
    "sum": lambda x: x.sum(), "sum over rows": lambda x: x.sum(axis=0),
    "sum, keepdims": lambda x: x - x.sum(axis=-1, keepdims=True), "sum over both":
    lambda x: x.sum(axis=(0, 1)), "mean": lambda x: x.mean(axis=1), "var": lambda x: x.var(axis=0),
    "std, ddof": lambda x: x.std(axis=1, ddof=1), "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(), "argmax": lambda x: x.argmax(axis=0), "argmin": lambda x: x.argmin(),
    "argmin, keepdims": lambda x: x.argmin(axis=1, keepdims=True), "prod": lambda x: x.prod(axis=0),
    "any": lambda x: (x > 1).any(axis=0), "all": lambda x: (x > -9).all(), "ptp":
    lambda x: np.ptp(x, axis=1), "reshape": lambda x: x.reshape(3, -1) + x.reshape(3, 8),
    "reshape to three": lambda x: x.reshape(2, 2, 6), "ravel": lambda x: x.ravel(),
    "astype": lambda x: x.astype("int32"), "cumsum": lambda x: x.cumsum(axis=1),
    "cumprod of all": lambda x: np.cumprod(x), "gram": lambda x: x @ x.T, "exp": np.exp,
    "ufunc of two": lambda x: np.maximum(x, 0.5), "reduce": lambda x: np.add.reduce(x),
    "accumulate": lambda x: np.maximum.accumulate(x, axis=1), "softmax":
    lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(
        1, keepdims=True),
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)) + 1, "squeeze": lambda x: x[:1].squeeze(),
    "moveaxis": lambda x: np.moveaxis(x[None], 0, -1), "broadcast_to":
    lambda x: np.broadcast_to(x[0], (3, 6)) + 1, "diagonal": lambda x: np.diagonal(x, 1),
    "trace": lambda x: x.trace(offset=-1), "count": lambda x: np.count_nonzero(x > 0, axis=1),
    "weighted": lambda x: np.average(x, axis=1, weights=x * x), "sum of a list":
    lambda x: sum([x, x, x]),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_an_expression_of_one_array(name: str) -> None:
    agree(ONE[name], X, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ y, np.matmul, np.dot, lambda x, y: np.tensordot(x, y, 1),
        lambda x, y: np.outer(x, y), lambda x, y: np.tensordot(x, y, ([1], [0])),
        lambda x, y: np.inner(x, y.T), lambda x, y: np.kron(x[:2], y[:, :2]),
        lambda x, y: x[0] @ y, lambda x, y: x @ y[:, 0], lambda x, y: np.vdot(x[0], y[:, 1]),
    ],
)  # fmt: skip
def test_a_product(function: Callable[[Any, Any], Any]) -> None:
    agree(function, X, Y, rtol=1e-5)


def test_matmul_of_batches() -> None:
    agree(lambda a, b: a @ b, CUBE, RNG.normal(size=(5, 1, 4, 2)).astype("float32"), rtol=1e-5)
    agree(lambda a, b: a @ b, CUBE, RNG.normal(size=(4,)).astype("float32"), rtol=1e-5)
    agree(lambda a, b: np.dot(a, b), CUBE, RNG.normal(size=(5, 4, 2)).astype("float32"), rtol=1e-5)


def test_broadcasting() -> None:
    agree(lambda x, r: x + r, X, ROW)
    agree(lambda x, z, r: np.hypot(x, z) * r - 1, X, Z, ROW)
    agree(lambda c, r: c[:, :, :1] * r, CUBE, RNG.normal(size=(3, 1)).astype("float32"))


def test_a_nest_reads_as_written_by_hand() -> None:
    A = sl.placeholder((8, 8), name="A")
    J = sl.named("J", (A[1:-1, 1:-1] + A[:-2, 1:-1]) * 0.5)
    text = str(sl.schedule(J))
    assert "add[i, j] = A[i + 1, j + 1] + A[i, j + 1]" in text, text
    assert "J[i, j] = add[i, j] * 0.5" in text, text
