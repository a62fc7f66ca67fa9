"""Whole-array expressions mean what they mean in NumPy: values, shapes and dtypes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.arrays import rename
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


SPECIAL = np.array([[1, np.nan, 3], [np.inf, -np.inf, 2], [np.nan, np.inf, np.nan]], "float32")


@pytest.mark.parametrize(
    "function",
    [np.max, np.min, np.argmax, np.argmin, np.sum, np.mean, np.any, np.all, np.ptp, np.cumsum,
    np.prod,
     np.nansum, np.var, np.linalg.norm, np.sign, np.isfinite],
)  # fmt: skip
def test_nan_and_infinities(function: Callable[..., Any]) -> None:
    agree(function, SPECIAL)
    agree(lambda x: function(x, axis=1) if function not in (np.sign, np.isfinite) else function(x),
          SPECIAL)  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [np.sum, np.prod, np.mean, np.var, np.any, np.all, np.cumsum, np.diff, lambda x: x @ x.T,
     lambda x: np.concatenate([x, x]), np.ravel, lambda x: x.reshape(3, -1), np.tril, np.flip,
     lambda x: np.sum(x, axis=0), lambda x: np.max(x, axis=0) if x.shape[0] else x.T,
     lambda x: np.einsum("ij,ik->jk", x, x), lambda x: np.max(x, axis=1, initial=0), np.copy,
     lambda x: x[..., None] * x[0:, None, :], lambda x: np.repeat(x, 2, axis=0)],
)  # fmt: skip
def test_arrays_without_elements(function: Callable[..., Any]) -> None:
    agree(function, np.zeros((0, 3), "float32"))


def test_scalars_are_arrays_of_no_dimension() -> None:
    two = np.array(2.5, "float32")
    for function in (np.sum, np.mean, np.max, np.argmax, lambda x: np.sum(x, axis=0), np.cumsum,
                     np.ravel, lambda x: np.reshape(x, (1, 1)), lambda x: np.stack([x, x * 2]),
                     np.exp, lambda x: np.where(x > 0, x, 1.0), np.transpose, np.atleast_2d,
                     lambda x: np.outer(x, x), lambda x: np.dot(x, 3), np.linalg.norm, np.round,
                     lambda x: x[None] + 1, lambda x: x[...], lambda x: np.full_like(x, 3)):
        agree(function, two)
    agree(lambda x, s: x * s + s, X, two)
    agree(lambda x, s: np.where(s > 1, x, s), X, two)


def test_sizes_and_scalar_arguments_are_operands() -> None:
    n, alpha = sl.var("n"), sl.var("alpha", "float32")
    A = sl.placeholder((n,), name="A")
    f = sl.reference(sl.named("y", alpha * A + A / n - n))
    np.testing.assert_allclose(f(X[0], 2.0), 2 * X[0] + X[0] / 6 - 6, rtol=1e-6)
    assert (alpha * A).dtype == (A / n).dtype == "float32"


@pytest.mark.parametrize("target", ["python", "c"])
def test_kernels(target: str) -> None:
    agree(lambda x, y: np.maximum(x @ y, 0).sum(axis=0), X, Y, target=target, rtol=1e-5)
    agree(lambda x: (x[1:, 1:] + x[:-1, :-1]).mean(axis=1), X, target=target, rtol=1e-5)


def test_the_languages_own_functions_take_whole_tensors() -> None:
    A = sl.placeholder((4, 6), name="A")
    for made, want in (
        (sl.sigmoid(A), 1 / (1 + np.exp(-X))), (sl.rsqrt(A * A), 1 / abs(X)),
        (sl.exp(A), np.exp(X)), (sl.pow(A, 2), X**2), (sl.max(A, 0, A + A), np.maximum(2 * X, 0)),
        (sl.select(A > 0, A, 0), np.maximum(X, 0)), (sl.cast(A, "int32"), X.astype("int32")),
        (sl.all(A > 0, A < 1), (X > 0) & (X < 1)), (sl.logical_not(A > 0), X <= 0),
        (sl.if_then_else(A > 0, 1.0, A), np.where(X > 0, 1, X)), (sl.atan2(A, 1.0), np.arctan(X)),
        (sl.min(A, 0), np.minimum(X, 0)),
    ):  # fmt: skip
        got = sl.reference(made)(X)
        np.testing.assert_allclose(got, want, rtol=1e-5)
        assert got.dtype == want.dtype


def test_an_operand_of_te_is_read_as_before() -> None:
    """Rows by integers and by axes are parts of an index."""
    A = sl.placeholder((4, 6), name="A")
    C = sl.compute((6,), lambda j: A[0][j] + A[-1][j] + A.T[j][1] + A[1, j], name="C")
    assert str(C.op.body[0]) == "A[0, j] + A[3, j] + A[1, j] + A[1, j]"
    assert C.op.input_tensors == [A]
    D = sl.compute((4, 6), lambda i, j: A[i][j], name="D")
    assert D.op.input_tensors == [A]


def test_a_slice_read_beyond_its_end_is_refused() -> None:
    """The read would be within the tensor that is sliced."""
    A = sl.placeholder((8,), name="A")
    inner = A[1:-1]
    with pytest.raises(sl.errors.BoundsError, match="slice of shape"):
        sl.compute((6,), lambda i: inner[i + 1], name="C")


def test_names() -> None:
    A = sl.placeholder((4, 6), name="A")
    with sl.named("outer"):
        first = A + 1
        with sl.named("inner"):
            second = (first * 2).sum()
        last = np.exp(first) + second
    assert first.name == "outer.add" and second.name == "outer.inner" and last.name == "outer"
    assert [t.name for t in second.op.input_tensors] == ["outer.inner.multiply"]
    assert [t.name for t in last.op.input_tensors] == ["outer.exp", "outer.inner"]
    best = sl.named("best", A.argmax(axis=1))
    assert best.name == "best" and [t.name for t in best.op.outputs] == ["best", "best.v1"]
    total = sl.named("total", np.cumsum(A, axis=0))
    assert total.op.name == total.name == "total"
    norm = sl.named("norm", np.sqrt(A[0, 0]))
    assert isinstance(norm, sl.Tensor) and norm.shape == ()


def test_a_named_view_is_a_stage() -> None:
    A = sl.placeholder((4, 6), name="A")
    turned, packed = A.T, sl.named("packed", A.T)
    assert (turned + 1).op.input_tensors == [A] and (packed + 1).op.input_tensors == [packed]


def test_operations_read_through_views() -> None:
    A = sl.placeholder((4, 6), name="A")
    for made in (
        A.T @ A, A[1:].sum(), np.exp(A[::-1]), np.pad(A[1:, ::2], 1), np.concatenate([A[0], A[1]]),
        np.take(A.ravel(), [3, 1]), A[:, 1:].reshape(5, 4)[None].max(), np.cumsum(A.T, axis=1),
        np.einsum("ij->ji", A).argmax(axis=0), np.roll(A[:2], 1), np.where(A.T > 0, A.T, 0),
    ):  # fmt: skip
        inputs, seen = [made], set()
        while inputs:
            tensor = inputs.pop()
            seen.add(tensor.op)
            inputs += tensor.op.input_tensors
        assert not [op.name for op in seen if getattr(op, "view", False) and op is not made.op]


def test_a_renamed_stage() -> None:
    A = sl.placeholder((4, 6), name="A")
    turned = rename(A.T, "turned")
    assert turned.name == "turned" and (turned + 1).op.input_tensors == [A]
    assert rename(A, "X").name == "A"
    B = sl.compute((4,), lambda i: A[i, 0], name="B")
    assert rename(B, "X").name == "B" and rename(A + 1, "X").op.name == "X"


def test_an_array_pickles() -> None:
    A = sl.placeholder((4, 6), name="A")
    made = pickle.loads(pickle.dumps(np.exp(A.T).sum(axis=0)))
    np.testing.assert_allclose(sl.reference(made)(X), np.exp(X.T).sum(axis=0), rtol=1e-5)
