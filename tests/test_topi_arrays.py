"""Operators of topi that move, choose, reduce and combine elements, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from tests.topi_cases import check, given, values

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 8, 7)).astype("float32")
A = sl.placeholder(X.shape, name="A")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (topi.transpose(A, (0, 2, 3, 1)), X.transpose(0, 2, 3, 1)),
        (topi.transpose(A, (0, 1, 2, 3)), X),
        (topi.expand_dims(A, 1, 2), X[:, None, None]),
        (topi.expand_dims(A, -1), X[..., None]),
        (topi.squeeze(topi.expand_dims(A, 2)), X),
        (topi.reshape(A, (6, -1)), X.reshape(6, -1)),
        (topi.broadcast_to(topi.sum(A, 0), (4, 3, 8, 7)), np.broadcast_to(X.sum(0), (4, 3, 8, 7))),
        (topi.flip(A, 2), X[:, :, ::-1]),
        (topi.repeat(A, 2, 3), X.repeat(2, 3)),
        (topi.tile(A, (1, 2, 1, 1)), np.tile(X, (1, 2, 1, 1))),
        (topi.concatenate((A, A), 1), np.concatenate((X, X), 1)),
        (topi.stack([A, A], -1), np.stack((X, X), -1)),
        (topi.split(A, 2, 2)[1], np.split(X, 2, 2)[1]),
        (topi.split(A, [2, 5], 3)[1], np.split(X, [2, 5], 3)[1]),
        (topi.strided_slice(A, [0, 0, -1, 1], [2, 3, 0, 7], [1, 1, -2, 2]), X[:, :, -1:0:-2, 1::2]),
        (topi.strided_slice(A, [1, 2], [3, -1], axes=[3, 2], slice_mode="size"), X[:, :, 2:, 1:4]),
        (topi.strided_slice(A, [-2, -3, None], [2, 2, 9], axes=[3, 1, 2], slice_mode="size"),
         X[:, 0:2, :, -2:]),
        (topi.trilu(A, 1, True), np.triu(X, 1)),
        (topi.trilu(A, -1, False), np.tril(X, -1)),
        (topi.nn.flatten(A), X.reshape(2, -1)),
        (topi.nn.pad(A, [0, 1, 0, 2], [1, 0, 0, 0], 3.5),
         np.pad(X, ((0, 1), (1, 0), (0, 0), (2, 0)), constant_values=3.5)),
        (topi.nn.mirror_pad(A, [0, 0, 1, 2], [0, 1, 3, 0]),
         np.pad(X, ((0, 0), (0, 1), (1, 3), (2, 0)), mode="symmetric")),
        (topi.nn.mirror_pad(A, [0, 0, 1, 2], mode="REFLECT"),
         np.pad(X, ((0, 0), (0, 0), (1, 1), (2, 2)), mode="reflect")),
        (topi.sliding_window(A, 2, [3, 2], [2, 1]),
         np.lib.stride_tricks.sliding_window_view(X, (3, 2), (2, 3))[:, :, ::2]),
        (topi.where(topi.greater(A, 0), A, 0.5), np.where(X > 0, X, 0.5)),
        (topi.clip(A, -1, 1), X.clip(-1, 1)),
        (topi.elemwise_sum([A, A, A]), X + X + X),
        (topi.cumsum(A, 2), X.cumsum(2)),
        (topi.cumsum(A, -1, exclusive=True), X.cumsum(-1) - X),
        (topi.cumprod(A), X.ravel().cumprod()),
        (topi.sum(A, (1, 3), True), X.sum((1, 3), keepdims=True)),
        (topi.mean(A, 0), X.mean(0)),
        (topi.prod(A, 3), X.prod(3)),
        (topi.max(A, (0, 1)), X.max((0, 1))),
        (topi.min(A), X.min()),
        (topi.all(topi.greater(A, -2), 0), (X > -2).all(0)),
        (topi.any(topi.greater(A, 2), 0), (X > 2).any(0)),
        (topi.tensordot(A, A, [[3], [3]]), np.tensordot(X, X, [[3], [3]])),
        (topi.einsum("nchw,ndhw->ncd", A, A), np.einsum("nchw,ndhw->ncd", X, X)),
        (topi.matmul(A, A, transp_b=True), X @ X.swapaxes(-1, -2)),
        (topi.layout_transform(A, "NCHW", "NHWC"), X.transpose(0, 2, 3, 1)),
        (topi.sign(A), np.sign(X)), (topi.negative(A), -X), (topi.floor(A), np.floor(X)),
        (topi.logical_not(A), ~(X != 0)), (topi.expm1(A), np.expm1(X)), (topi.abs(A), np.abs(X)),
        (topi.cast(A, "int32"), X.astype("int32")), (topi.reinterpret(A, "int32"), X.view("int32")),
    ],
    ids=lambda v: v.name if isinstance(v, sl.Tensor) else "",
)  # fmt: skip
def test_operators_beside_numpy(made: sl.Tensor, expected: np.ndarray) -> None:
    check(made, expected, 3e-5, A=X)


def test_results_are_stages_to_schedule() -> None:
    """Each operator has a place of its own, also where an array of the same elements is a view."""
    for made in (topi.transpose(A), topi.transpose(A, (0, 1, 2, 3)), topi.reshape(A, (-1,)),
                 topi.squeeze(A), topi.split(A, 2, 2)[0],
                 topi.broadcast_to(A, A.shape)):  # fmt: skip
        reader = topi.nn.relu(made)
        s = sl.schedule(reader)
        s[made].compute_inline()
        np.testing.assert_array_equal(
            sl.build(s, target="python")(X), np.maximum(sl.reference(made)(X), 0)
        )
    with sl.named("h"):
        h = topi.nn.softmax(A)
    assert h.name == "h" and h.op.input_tensors[0].name.startswith("h.softmax")


@pytest.mark.parametrize("last", [False, True])
def test_index_of_the_largest_element(last: bool) -> None:
    x = np.array([[1, 7, 7], [5, 5, 2]], "float32")
    (B,) = given(B=x.shape)
    across, flat, least = ([2, 1], 2, 2) if last else ([1, 0], 1, 0)
    made = topi.argmax(B, 1, select_last_index=last)
    assert made.dtype == "int32"
    check(made, np.array(across, "int32"), B=x)
    check(topi.argmax(B, None, True, last), np.array([[flat]], "int32"), B=x)
    ones = np.ones((1, 3), "float32")
    (C,) = given(C=ones.shape)
    check(topi.argmin(C, -1, True, last), np.array([[least]], "int32"), C=ones)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
        ("maximum", np.maximum), ("minimum", np.minimum), ("floor_divide", np.floor_divide),
        ("floor_mod", np.mod), ("mod", np.fmod), ("equal", np.equal), ("not_equal", np.not_equal),
        ("less", np.less), ("less_equal", np.less_equal), ("greater", np.greater),
        ("greater_equal", np.greater_equal), ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor),
        ("logical_and", np.logical_and), ("logical_or", np.logical_or),
        ("logical_xor", np.logical_xor), ("broadcast_add", np.add),
        ("divide", lambda a, b: np.trunc(a / b).astype("int32")),
        ("left_shift", lambda a, b: np.left_shift(a, np.abs(b))),
        ("right_shift", lambda a, b: np.right_shift(a, np.abs(b))),
    ],
)  # fmt: skip
def test_operations_that_broadcast(name: str, expected: Callable[..., Any]) -> None:
    a = np.array([[-7, -1, 0], [5, 8, 100]], "int32")
    b = np.array([3, -2, 5], "int32")
    L, R = (sl.placeholder(v.shape, "int32", name=n) for n, v in (("L", a), ("R", b)))
    divisor = topi.abs(R) if "shift" in name else R
    check(getattr(topi, name)(L, divisor), expected(a, b), L=a, R=b)


def test_integers_at_their_limits() -> None:
    x, y = np.array([-128, -127, 127, -5], "int8"), np.array([3, -128, -128, 3], "int8")
    L, R = (sl.placeholder((4,), "int8", name=n) for n in "LR")
    check(topi.mod(L, R), np.fmod(x, y), L=x, R=y)
    check(topi.divide(L, R), np.trunc(x / y.astype("int32")).astype("int8"), L=x, R=y)
    check(topi.clip(L, -300, 100), x.clip(max=100), L=x)
    check(topi.clip(L, float("-inf"), float("inf")), x, L=x)
    U = sl.placeholder((3,), "uint8", name="U")
    u = np.array([0, 7, 255], "uint8")
    check(topi.clip(U, -3, 6), u.clip(max=6), U=u)


def test_complex_numbers_are_divided() -> None:
    L, R = (sl.placeholder((2,), "complex64", name=n) for n in "LR")
    x, y = np.array([1 + 2j, 3], "complex64"), np.array([2j, 1 - 1j], "complex64")
    check(topi.divide(L, R), x / y, L=x, R=y)


def test_numbers_and_expressions_are_operands() -> None:
    check(topi.power(A, 2), X**2, A=X)
    check(topi.subtract(1.5, A), 1.5 - X, A=X)
    made = sl.compute((7,), lambda i: topi.add(A[0, 0, 0, i], topi.multiply(2, i)), name="made")
    check(made, X[0, 0, 0] + 2 * np.arange(7), A=X)


def test_gathers() -> None:
    rng = np.random.default_rng(1)

    def indices(name: str, shape: Any, below: int, low: int = 0) -> tuple[sl.Tensor, np.ndarray]:
        found = rng.integers(low, below, shape).astype("int32")
        return sl.placeholder(shape, "int32", name=name), found

    I, i = indices("I", (4, 2), 40, -20)  # noqa: E741
    check(topi.take(A, I, 1), X.take(i, 1, mode="clip"), A=X, I=i)
    check(topi.take(A, I, -1, mode="wrap"), X.take(i, -1, mode="wrap"), A=X, I=i)
    check(topi.take(A, I), X.take(i, mode="clip"), A=X, I=i)
    B, b = indices("B", (2, 5), 3)
    expected = np.stack([X[k].take(b[k], 0) for k in range(2)])
    check(topi.take(A, B, 1, 1, "fast"), expected, A=X, B=b)
    G, g = indices("G", (2, 3, 8, 4), 7)
    check(topi.gather(A, 3, G), np.take_along_axis(X, g, 3), A=X, G=g)
    N, n = indices("N", (2, 5), 2)
    check(topi.gather_nd(A, N), X[n[0], n[1]], A=X, N=n)
    M, m = indices("M", (1, 2, 6), 3)
    check(topi.gather_nd(A, M, 1), np.stack([X[k][m[0, k]] for k in range(2)]), A=X, M=m)
    check(topi.adv_index(A, [N, N]), X[n, n], A=X, N=n)
    O, o = indices("O", (3, 2), 4)  # noqa: E741
    hot = np.moveaxis(np.eye(4, dtype="float32")[o] * 1.5 - 0.5, -1, 1)
    check(topi.one_hot(O, 1.0, -0.5, 4, 1, "float32"), hot, O=o)
    U, u = indices("U", (5,), 42)
    check(topi.unravel_index(U, (7, 6)), np.array(np.unravel_index(u, (7, 6)), "int32"), U=u)


def test_sequences_of_several_lengths() -> None:
    D, d = sl.placeholder((5, 3), name="D"), RNG.standard_normal((5, 3)).astype("float32")
    L, lengths = sl.placeholder((3,), "int32", name="L"), np.array([0, 9, 3], "int32")
    seen = np.arange(5)[:, None] < lengths
    check(topi.sequence_mask(D, L, -1), np.where(seen, d, -1), D=d, L=lengths)
    turned = d.copy()
    for k, n in enumerate(lengths):
        n = min(max(n, 1), 5)
        turned[:n, k] = d[:n, k][::-1]
    check(topi.reverse_sequence(D, L, 0, 1), turned, D=d, L=lengths)


def test_layouts_and_blocks() -> None:
    (B,) = given(B=(2, 8, 3, 3))
    data = values(B)
    blocks = data["B"].reshape(2, 2, 4, 3, 3).transpose(0, 1, 3, 4, 2)
    made = topi.layout_transform(B, "NCHW", "NCHW4c")
    check(made, blocks, **data)
    check(topi.layout_transform(made, "NCHW4c", "NCHW"), data["B"], **data)
    through = topi.layout_transform(topi.layout_transform(B, "NCHW", "NHWC2c"), "NHWC2c", "NCHW4c")
    check(through, blocks, **data)
    deep = topi.nn.depth_to_space(B, 2)
    check(topi.nn.space_to_depth(deep, 2), data["B"], **data)
    # channel c*4 + (by*2 + bx) of CRD, and (by*2 + bx)*2 + c of DCR
    parts = data["B"].reshape(2, 2, 2, 2, 3, 3)
    crd = parts.transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 6)
    dcr = parts.transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 6)
    check(topi.nn.depth_to_space(B, 2, mode="CRD"), crd, **data)
    check(deep, dcr, **data)


def test_dilated_and_scaled() -> None:
    expected = np.full((2, 5, 22, 7), -1, "float32")
    expected[:, ::2, ::3] = X
    check(topi.nn.dilate(A, [1, 2, 3, 1], -1.0), expected, A=X)
    (empty,) = given(E=(3, 0))
    check(topi.nn.dilate(empty, [2, 3]), np.zeros((5, 0), "float32"), **values(empty))
    s, z = given(s=(3,), z=(3,))
    data = {"A": X, **values(s, z)}
    expected = X * data["s"][:, None, None] + data["z"][:, None, None]
    check(topi.nn.scale_shift_nchw(A, s, z), expected, **data)
    (rows,) = given(R=(2, 8, 7, 3))
    data["R"] = values(rows)["R"]
    expected = data["R"] * data["s"] + data["z"]
    check(topi.nn.scale_shift_nhwc(rows, s, z), expected, R=data["R"], s=data["s"], z=data["z"])
    B, s, z = given(B=(2, 3, 4, 1, 2), s=(3, 2), z=(3, 2))
    data = values(B, s, z)
    by_channel = data["s"][:, None, None], data["z"][:, None, None]
    made = topi.nn.scale_shift_nchwc(B, s, z)
    assert [axis.name for axis in made.op.axis] == ["n", "c", "h", "w", "ci"]
    check(made, data["B"] * by_channel[0] + by_channel[1], **data)
    check(topi.nn.upsampling(A, 2, 3), X.repeat(2, 2).repeat(3, 3), A=X)


def test_padding_keeps_the_sign_of_zero() -> None:
    (B,) = given(B=(1,))
    one = np.ones(1, "float32")
    padded = topi.nn.pad(B, [1], [0], -0.0)
    apart = topi.nn.dilate(topi.concatenate([B, B]), [2], -0.0)
    assert np.signbit(sl.reference(padded)(one)).tolist() == [True, False]
    assert np.signbit(sl.reference(apart)(one)).tolist() == [False, True, False]
    J = sl.placeholder((1,), "int8", name="J")
    check(topi.nn.pad(J, [1], [0], 2.0), np.array([2, 1], "int8"), J=one.astype("int8"))


def test_shapes_as_tensors() -> None:
    n = sl.var("n")
    (B,) = given(B=(n, 4))
    made = topi.shape(B), topi.ndarray_size(B), topi.arange(n, dtype="int32")
    x = np.zeros((3, 4), "float32")
    total = sl.compute((2,), lambda i: made[0][i] + B[0, 0].astype("int32") * 0, name="sizes")
    check(total, np.array([3, 4], "int32"), B=x)
    check(topi.arange(0, 1, 0.25), np.arange(0, 1, 0.25, "float32"))
    check(topi.full((2,), "int8", 7), np.array([7, 7], "int8"))
    check(topi.full_like(A, 2), np.full(A.shape, 2, "float32"))


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_sparse_products(columns: int | None) -> None:
    dense = np.where(RNG.random((5, 4)) < 0.4, RNG.standard_normal((5, 4)), 0).astype("float32")
    dense[2] = 0
    ends = np.concatenate([[0], (dense != 0).sum(1).cumsum()]).astype("int32")
    parts = {"S_data": dense[dense != 0], "S_indptr": ends,
             "S_indices": np.nonzero(dense)[1].astype("int32")}  # fmt: skip
    S = topi.sparse.placeholder((5, 4), name="S")
    shape = (4,) if columns is None else (4, columns)
    b = RNG.standard_normal(shape).astype("float32")
    (B,) = given(B=shape)
    product = topi.sparse.csrmm if columns == 3 else topi.sparse.csrmv
    check(product(S, B), dense @ b, **parts, B=b)
    if columns is None:
        return
    for size in (5,) if columns == 3 else (5, 1):
        added = sl.placeholder((size,), name="added")
        offset = np.arange(size, dtype="float32") + 1
        expected = dense @ b + offset.reshape(-1, 1)
        check(product(S, B, added), expected, **parts, B=b, added=offset)
    D = sl.placeholder((columns, 4), name="D")
    rows = {**parts, "D": b.T.copy()}
    made = topi.nn.sparse_dense(D, S.data, S.indices, S.indptr)
    check(made, b.T @ dense.T, **rows)
    check(topi.nn.sparse_dense(D, S.data, S.indices, S.indptr, True), dense @ b, **rows)


def test_sparse_columns_are_checked() -> None:
    S, (B,) = topi.sparse.placeholder((1, 2), 1, name="S"), given(B=(2,))
    bad = {"S_data": np.ones(1, "float32"), "S_indices": np.array([2], "int32"),
           "S_indptr": np.array([0, 1], "int32"), "B": np.ones(2, "float32")}  # fmt: skip
    with pytest.raises(sl.errors.CallError, match=r"S_indices\[0\] is 2"):
        sl.reference(topi.sparse.csrmv(S, B))(**bad)
