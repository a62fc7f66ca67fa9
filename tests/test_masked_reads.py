"""Tests of vector loads under a scalar condition, which are one masked load without a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.marks import slow_but


def column_sums(rows: int, columns: int, dtype: str, fill: float, lanes: int) -> sl.Schedule:
    """Return sums of an element and those above and below it, with ``fill`` outside, vectorized."""
    A = sl.placeholder((rows, columns), dtype, name="A")
    padded = sl.pad(A, (1, 0), (1, 0), value=fill, name="padded")
    k = sl.reduce_axis((0, 3), name="k")
    B = sl.compute((rows, columns), lambda i, j: sl.sum(padded[i + k, j], axis=k), name="B")
    s = sl.schedule(B)
    s[padded].compute_inline()
    local = s.cache_write(B, "local")
    i, j = B.op.axis
    jo, ji = s[B].split(j, factor=lanes, tail="cut")
    s[B].vectorize(ji)
    s[local].compute_at(s[B], jo)
    s[local].vectorize(s[local].op.axis[1])
    s[local].unroll(s[local].op.reduce_axis[0])
    return s


@pytest.mark.parametrize("target", ["cpu", "python"])
@pytest.mark.parametrize("fill", [0.0, -0.0, 2.0])
@pytest.mark.parametrize(
    "dtype",
    slow_but(["float16", "float32", "int8"], ["float16", "float32", "float64", "int8", "int64"]),
)
def test_rows_outside_of_the_tensor(dtype: str, fill: float, target: str) -> None:
    rows, columns = 5, 21
    s = column_sums(rows, columns, dtype, fill if "float" in dtype else int(fill), 8)
    a = np.random.default_rng(1).integers(-9, 9, (rows, columns)).astype(dtype)
    outside = np.pad(a, ((1, 1), (0, 0)), constant_values=fill)
    np.testing.assert_array_equal(
        sl.build(s, target=target)(a), outside[:-2] + outside[1:-1] + outside[2:]
    )


@pytest.mark.parametrize(("fill", "text"), [(0.0, "0"), (-0.0, "-0.0"), (2.0, "2")])
def test_the_condition_is_named_and_passed_to_the_load(fill: float, text: str) -> None:
    source = sl.build(column_sums(5, 21, "float32", fill, 8), target="python").source
    assert "m = i >= 1\n" in source
    assert f"vload_if(m, A, (i - 1)*21 + j_outer*8, broadcast(float32({text}), 8))" in source
    body = source.partition("def B_kernel")[2]
    assert "select(" not in body and "vload_masked(" not in body


@pytest.mark.parametrize("fill", [0.0, 3.0])
def test_unrolled_copies_share_a_load_under_a_condition(fill: float) -> None:
    A, W = sl.placeholder((6, 16), name="A"), sl.placeholder((4, 3), name="W")
    padded = sl.pad(A, (1, 0), (1, 0), value=fill, name="padded")
    k = sl.reduce_axis((0, 3), name="k")
    B = sl.compute((4, 6, 16), lambda f, i, j: sl.sum(padded[i + k, j] * W[f, k], axis=k), name="B")
    s = sl.schedule(B)
    s[padded].compute_inline()
    f, i, j = B.op.axis
    s[B].reorder(i, k, f, j)
    s[B].unroll(f)
    s[B].vectorize(j)
    made = sl.build(s)
    assert made.source.partition("def B_kernel")[2].count("vload_if(") == 1
    rng = np.random.default_rng(1)
    a, w = rng.random((6, 16), "float32"), rng.random((4, 3), "float32")
    outside = np.pad(a, ((1, 1), (0, 0)), constant_values=fill)
    rows = np.stack([outside[:-2], outside[1:-1], outside[2:]])
    np.testing.assert_allclose(made(a, w), np.einsum("fk,kij->fij", w, rows), rtol=1e-6)


@pytest.mark.parametrize("target", ["cpu", "python"])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_gathered_row_index_is_read_only_under_its_condition(copies: int, target: str) -> None:
    rows, A = sl.placeholder((6,), "int64", name="rows"), sl.placeholder((6, 16), name="A")
    W, k = sl.placeholder((4, 3), name="W"), sl.reduce_axis((0, 3), name="k")

    def found(i: Any, j: Any) -> Any:
        return sl.if_then_else(sl.all(i >= 1, i < 7), A[rows[i - 1], j], 2.0)

    B = sl.compute((4, 6, 16), lambda f, i, j: sl.sum(found(i + k, j) * W[f, k], axis=k), name="B")
    s = sl.schedule(B)
    f, i, j = B.op.axis
    _, inner = s[B].split(f, factor=copies)
    s[B].reorder(i, k, inner, j)
    s[B].unroll(inner)
    s[B].vectorize(j)
    rng = np.random.default_rng(1)
    a, w = rng.random((6, 16), "float32"), rng.random((4, 3), "float32")
    order = np.array([5, 4, 3, 2, 1, 0])
    outside = np.pad(a[order], ((1, 1), (0, 0)), constant_values=2.0)
    seen = np.stack([outside[:-2], outside[1:-1], outside[2:]])
    made = sl.build(s, [rows, A, W, B], target=target)(order, a, w)
    np.testing.assert_allclose(made, np.einsum("fk,kij->fij", w, seen), rtol=1e-6)


def test_conditions_decided_by_outer_loops_are_dropped() -> None:
    """Of the taps k = 0, 1, 2 at row 2 i + k - 1, only the first needs a condition."""
    A = sl.placeholder((10, 16), name="A")
    k = sl.reduce_axis((0, 3), name="k")
    B = sl.compute(
        (5, 16),
        lambda i, j: sl.sum(
            sl.if_then_else(i * 2 + k >= 1, A[sl.max(i * 2 + k - 1, 0), j], 0.0), axis=k
        ), name="B",
    )  # fmt: skip
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].reorder(i, k, j)
    s[B].unroll(k)
    s[B].vectorize(j)
    a = np.random.default_rng(1).random((10, 16), "float32")
    outside = np.pad(a, ((1, 0), (0, 0)))
    f = sl.build(s)
    np.testing.assert_allclose(f(a), outside[0:10:2] + outside[1:10:2] + outside[2:11:2], rtol=1e-6)
    body = f.source[f.source.index("def B_kernel") : f.source.index("def _array")]
    assert body.count(">=") == 1 and ">= 1" in body


def test_a_fill_of_negative_zero_keeps_its_sign() -> None:
    A = sl.placeholder((3, 8), name="A")
    B = sl.compute((4, 8), lambda i, j: sl.if_then_else(i < 3, A[i, j], -0.0), name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    made = sl.build(s)(np.ones((3, 8), "float32"))
    assert np.signbit(made[3]).all()


def test_a_choice_of_lanes_in_registers() -> None:
    A = sl.placeholder((6, 16), name="A")
    k = sl.reduce_axis(6, name="k")
    B = sl.compute((16,), lambda j: sl.sum(A[k, j], axis=k), name="B")
    C = sl.compute((2, 16), lambda i, j: sl.if_then_else(i < 1, B[j], 0.0), name="C")
    s = sl.schedule(C)
    s[B].set_scope("local")
    s[B].vectorize(B.op.axis[0])
    s[C].vectorize(C.op.axis[1])
    a = np.random.default_rng(2).random((6, 16), "float32")
    made = sl.build(s)(a)
    np.testing.assert_allclose(made[0], a.sum(axis=0), rtol=1e-6)
    assert not made[1].any()


@pytest.mark.parametrize("target", ["cpu", "python"])
def test_each_unrolled_copy_computes_its_own_mask(target: str) -> None:
    capped = sl.comm_reducer(
        lambda x, y: sl.if_then_else(x + y > 100, 100.0, x + y), lambda dtype: 0.0
    )
    A = sl.placeholder((16,), name="A")
    k = sl.reduce_axis(4, name="k")
    C = sl.compute((16,), lambda j: capped(A[j], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(k, C.op.axis[0])
    s[C].unroll(k)
    s[C].vectorize(C.op.axis[0])
    a = np.linspace(10, 60, 16).astype("float32")
    expected = np.zeros(16, "float32")
    for _ in range(4):
        expected = np.minimum(expected + a, 100)
    np.testing.assert_allclose(sl.build(s, target=target)(a), expected, rtol=1e-6)


@pytest.mark.parametrize("target", ["cpu", "python"])
def test_each_unrolled_row_computes_its_own_masks(target: str) -> None:
    """Each unrolled row has its own loop over vectors, and each vector its own mask."""
    X = sl.placeholder((8, 200), name="X")
    C = sl.compute((8, 200), lambda i, j: sl.if_then_else(j >= 3, X[i, j - 3], X[i, 0]), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].unroll(s[C].split(i, factor=4)[1])
    s[C].vectorize(j)
    f = sl.build(s, target=target)
    assert f.source.count("for j in range(") == 4 and "select(m" in f.source
    x = np.random.default_rng(0).random((8, 200), dtype="float32")
    wanted = np.concatenate([np.repeat(x[:, :1], 3, axis=1), x[:, :-3]], axis=1)
    np.testing.assert_array_equal(f(x), wanted)


@pytest.mark.parametrize("target", ["cpu", "python"])
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(
    "counts",
    [
        lambda k: (k > 3) ^ (k > 5),
        lambda k: (k & 1) == 1,
        lambda k: k**2 > 5,
        lambda k: abs(k - 4) < 2,
        lambda k: k.astype("float32") * 0.5 > 1.2,
    ],
    ids=["xor", "bit", "power", "abs", "float"],
)
def test_a_load_under_a_condition_is_not_reused_by_the_next_copy(
    counts: Any, lanes: int, target: str
) -> None:
    """Each unrolled step loads its operands, since the step before may have been skipped."""
    A, B = sl.placeholder((8,), name="A"), sl.placeholder((64,), name="B")
    k = sl.reduce_axis(8, name="k")
    C = sl.compute((64,), lambda j: sl.sum(A[k] * B[j], axis=k, where=counts(k)), name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=lanes)
    s[C].reorder(outer, k, inner)
    s[C].unroll(k)
    s[C].vectorize(inner)
    rng = np.random.default_rng(0)
    a, b = (rng.random(n, dtype="float32") for n in (8, 64))
    steps = np.arange(8)
    wanted = a[counts(steps)].sum() * b
    np.testing.assert_allclose(sl.build(s, target=target)(a, b), wanted, rtol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "python"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_masked_lanes_are_zero_though_all_were_loaded(dtype: str, target: str) -> None:
    """A value loaded earlier without the mask is not reused as the masked value."""
    A = sl.placeholder((21,), dtype, name="A")
    a = np.arange(-10, 11).astype(dtype)
    for body, wanted in (
        (lambda i: sl.if_then_else(A[i] > 0, A[i], 0), np.maximum(a, 0)),
        (lambda i: A[i] + sl.if_then_else(i >= 3, A[i], 0), a + np.where(np.arange(21) < 3, 0, a)),
        (lambda i: sl.if_then_else(A[i] > 0, A[i], 0) + A[i], np.maximum(a, 0) + a),
    ):
        B = sl.compute((21,), body, name="B")
        s = sl.schedule(B)
        s[B].vectorize(B.op.axis[0])
        np.testing.assert_array_equal(sl.build(s, target=target)(a), wanted)
