"""Tests of ``transform_layout``: storage in another order than the dimensions."""

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError

MAPS: list[Any] = [
    lambda i, j: (j, i),
    lambda i, j: (j // 4, i, j % 4),
    lambda i, j: (j % 4, i // 3, j // 4, i % 3),
    lambda i, j: (i % 2, j // 8, i // 2, j // 2 % 4, j % 2),
    lambda i, j: (i, j // 8, j % 8 ^ i % 8),
    lambda i, j: (j // 8, i // 2, i // 2 % 4 ^ j // 2 % 4, i % 2, j % 2),
]


@pytest.mark.parametrize("index_map", MAPS)
@pytest.mark.parametrize("place", ["root", "row", "tile"])
@pytest.mark.parametrize(
    ("shape", "target"),
    [((12, 16), "python"), ((7, 13), "python"), ((1, 5), "python"), ((7, 13), "cpu"),
     *(pytest.param(shape, "cpu", marks=pytest.mark.slow) for shape in ((12, 16), (1, 5)))],
)  # fmt: skip
def test_any_layout_gives_the_same_values(
    index_map: Any, place: str, shape: tuple[int, int], target: str
):
    A = sl.placeholder((shape[0] + 1, shape[1] + 2), name="A")
    B = sl.compute(A.shape, lambda i, j: A[i, j] * 3, name="B")
    C = sl.compute(shape, lambda i, j: B[i, j] + B[i + 1, j + 2], name="C")
    s = sl.schedule(C)
    s[B].transform_layout(index_map)
    i, j = C.op.axis
    if place == "row":
        s[B].compute_at(s[C], i)
    elif place == "tile":
        io, jo, ii, ji = s[C].tile(i, j, 4, 8)
        s[B].compute_at(s[C], jo)
        s[C].vectorize(ji)
    a = np.random.default_rng(0).random(A.shape).astype("float32")
    expected = a[:-1, :-2] * 3 + a[1:, 2:] * 3
    np.testing.assert_allclose(sl.build(s, [A, C], target=target)(a), expected, rtol=1e-6)


def test_the_layout_of_an_argument_is_refused():
    A = sl.placeholder((4, 8), name="A")
    B = sl.compute((4, 8), lambda i, j: A[i, j] * 3, name="B")
    C = sl.compute((4, 8), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    s[B].transform_layout(lambda i, j: (j, i))
    with pytest.raises(LoweringError, match="B is an argument, whose layout the caller chooses"):
        sl.build(s, [A, B, C])


def test_symbolic_sizes():
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    B = sl.compute((n, m), lambda i, j: A[i, j] * 3, name="B")
    C = sl.compute((m, n), lambda i, j: B[j, i] + 1, name="C")
    s = sl.schedule(C)
    s[B].transform_layout(lambda i, j: (j // 4, i, j % 4))
    f = sl.build(s, [A, C])
    for shape in ((8, 8), (3, 10), (1, 1), (5, 0)):
        a = np.random.default_rng(0).random(shape).astype("float32")
        np.testing.assert_allclose(f(a), a.T * 3 + 1, rtol=1e-6)


def test_a_cut_tail_that_is_empty_at_some_sizes():
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    P = sl.compute((n,), lambda i: X[i] * 2, name="P")
    Q = sl.compute((n,), lambda i: P[i] + 1, name="Q")
    s = sl.schedule(Q)
    s[P].split(P.op.axis[0], factor=4, tail="cut")
    s[P].transform_layout(lambda i: (i // 4, i % 4))
    f = sl.build(s, [X, Q], target="python")
    for size in (0, 2, 4, 7, 8):
        np.testing.assert_array_equal(f(np.ones(size, "float32")), np.full(size, 3, "float32"))


def test_packed_panels_are_read_as_vectors():
    n = 48
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, n), name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    P = s.cache_read(B, "global", [C])
    s[P].transform_layout(lambda k, j: (j // 16, k, j % 16))
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    f = sl.build(s, [A, B, C])
    assert "vgather" not in f.source and "vload_strided" not in f.source
    a, b = np.random.default_rng(1).random((2, n, n)).astype("float32")
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


def test_a_local_tile_over_a_padded_operand_has_no_conditions():
    """Columns past the end are computed from the padding; only the store has a mask."""
    M, N, K, lanes = 9, 37, 11, 16
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    P = sl.compute(
        (-(-N // lanes), K, lanes),
        lambda p, k, j: sl.if_then_else(p * lanes + j < N, B[k, p * lanes + j], 0),
        name="P",
    )
    C = sl.compute(
        (M, N), lambda i, j: sl.sum(A[i, k] * P[j // lanes, k, j % lanes], axis=k), name="C"
    )
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    i, j = C.op.axis
    panel, lane = s[C].split(j, factor=lanes, tail="guard")
    strip, row = s[C].split(i, factor=4, tail="guard")
    s[C].reorder(panel, strip, row, lane)
    s[C].vectorize(lane)
    s[CL].compute_at(s[C], strip)
    y, x = s[CL].op.axis
    s[CL].reorder(k, y, x)
    s[CL].vectorize(x)
    guards = [g.note for g in s.nest().guards]
    assert guards == ["i ends at 9", "i ends at 9", "tail of i split by 4", "tail of j split by 16"]
    a = np.random.default_rng(1).random((M, K)).astype("float32")
    b = np.random.default_rng(2).random((K, N)).astype("float32")
    for target in ("python", "cpu"):
        np.testing.assert_allclose(sl.build(s, [A, B, C], target=target)(a, b), a @ b, rtol=1e-5)
