"""Loop nests to be read and checked by eye: one for each primitive, and the classic programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schedlang as sl
from schedlang.compute.boundary import pad
from schedlang.compute.tensor import Tensor
from tests.conftest import GOLDEN

Golden = Callable[[object], None]


def scaled(*shape: Any) -> tuple[Tensor, Tensor]:
    """``B[...] = A[...] * 2``"""
    A = sl.placeholder(shape, name="A")
    names = {1: lambda i: A[i] * 2, 2: lambda i, j: A[i, j] * 2}
    return A, sl.compute(shape, names[len(shape)], name="B")


def matmul(m: Any, n: Any, depth: Any) -> tuple[Tensor, Tensor, Tensor]:
    A = sl.placeholder((m, depth), name="A")
    B = sl.placeholder((depth, n), name="B")
    k = sl.reduce_axis(depth, name="k")
    return A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def chain(n: int, taps: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """A producer and a consumer that reads a few neighbours of it."""
    A = sl.placeholder((n + taps - 1,), name="A")
    B = sl.compute((n + taps - 1,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: sum((B[i + k] for k in range(1, taps)), B[i]), name="C")
    return A, B, C


# one primitive at a time


def test_split_that_divides(golden: Golden) -> None:
    _, B = scaled(128)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32)
    golden(s)


def test_split_guard(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32, tail="guard")
    golden(s)


def test_split_cut(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32, tail="cut")
    golden(s)


def test_split_nparts(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], nparts=8)
    golden(s)


def test_split_twice(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    outer, _ = s[B].split(B.op.axis[0], factor=48)
    s[B].split(outer, factor=32)
    golden(s)


def test_split_of_the_inner_part(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=48)
    s[B].split(inner, factor=32)
    golden(s)


def test_split_factor_above_the_extent(golden: Golden) -> None:
    _, B = scaled(5)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8)
    golden(s)


def test_split_symbolic_guard(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8, tail="guard")
    golden(s)


def test_split_symbolic_cut(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8, tail="cut")
    golden(s)


def test_split_symbolic_vectorized(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    golden(s)


def test_split_of_a_reduction(golden: Golden) -> None:
    _, _, C = matmul(8, 8, 30)
    s = sl.schedule(C)
    s[C].split(C.op.reduce_axis[0], factor=8)
    golden(s)


def test_fuse(golden: Golden) -> None:
    _, B = scaled(4, 6)
    s = sl.schedule(B)
    s[B].fuse(*B.op.axis)
    golden(s)


def test_fuse_and_split(golden: Golden) -> None:
    _, B = scaled(5, 7)
    s = sl.schedule(B)
    s[B].split(s[B].fuse(*B.op.axis), factor=16)
    golden(s)


def test_fuse_of_nothing(golden: Golden) -> None:
    _, B = scaled(4)
    s = sl.schedule(B)
    s[B].bind(s[B].fuse(), "threadIdx.x")
    golden(s)


def test_reorder(golden: Golden) -> None:
    _, _, C = matmul(8, 16, 4)
    s = sl.schedule(C)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(k, j, i)
    golden(s)


def test_reorder_reduction_in_the_middle(golden: Golden) -> None:
    _, _, C = matmul(8, 16, 4)
    s = sl.schedule(C)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(i, k, j)
    golden(s)


def test_tile(golden: Golden) -> None:
    _, B = scaled(64, 100)
    s = sl.schedule(B)
    s[B].tile(*B.op.axis, 16, 32)
    golden(s)


def test_vectorize_with_a_tail(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    golden(s)


def test_unroll(golden: Golden) -> None:
    _, B = scaled(64)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].unroll(inner)
    golden(s)


def test_parallel(golden: Golden) -> None:
    _, B = scaled(64, 64)
    s = sl.schedule(B)
    s[B].parallel(B.op.axis[0])
    golden(s)


def test_bind(golden: Golden) -> None:
    _, B = scaled(1000)
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=256)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    golden(s)


def test_vthread(golden: Golden) -> None:
    _, B = scaled(1024)
    s = sl.schedule(B)
    block, rest = s[B].split(B.op.axis[0], factor=256)
    virtual, thread = s[B].split(rest, nparts=2)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(virtual, "vthread")
    s[B].bind(thread, "threadIdx.x")
    golden(s)


def test_pragma(golden: Golden) -> None:
    _, B = scaled(64, 64)
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].pragma(i, "unroll_hint", 4)
    s[B].pragma(j, "debug_skip_region")
    golden(s)


def test_prefetch(golden: Golden) -> None:
    A, B = scaled(64, 64)
    s = sl.schedule(B)
    s[B].prefetch(A, B.op.axis[0], 2)
    golden(s)


def test_compute_inline(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].compute_inline()
    golden(s)


def test_compute_at(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    golden(s)


def test_compute_at_the_innermost_loop(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_compute_root(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    s[B].compute_inline()
    s[B].compute_root()
    golden(s)


def test_store_at_slides(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=10)
    s[B].compute_at(s[C], inner)
    s[B].store_at(s[C], outer)
    golden(s)


def test_store_root_slides(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    golden(s)


def test_cache_read(golden: Golden) -> None:
    A, _, C = matmul(64, 64, 64)
    s = sl.schedule(C)
    copy = s.cache_read(A, "local", [C])
    s[copy].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_cache_write(golden: Golden) -> None:
    _, _, C = matmul(64, 64, 64)
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    s[sums].compute_at(s[C], C.op.axis[1])
    golden(s)


def test_rfactor(golden: Golden) -> None:
    A = sl.placeholder((1000,), name="A")
    k = sl.reduce_axis(1000, name="k")
    S = sl.compute((), lambda: sl.sum(A[k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    s.rfactor(S, inner)
    golden(s)


def test_rfactor_vectorized(golden: Golden) -> None:
    A = sl.placeholder((8, 1024), name="A")
    k = sl.reduce_axis(1024, name="k")
    S = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    lanes = s.rfactor(S, inner, factor_axis=1)
    s[lanes].compute_at(s[S], S.op.axis[0])
    s[lanes].reorder(s[lanes].op.reduce_axis[0], s[lanes].op.axis[1])
    s[lanes].vectorize(s[lanes].op.axis[1])
    golden(s)


def test_set_scope(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].set_scope("shared")
    golden(s)


def test_storage_align(golden: Golden) -> None:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((64, 64), lambda i, j: B[j, i] + 1, name="C")
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, 32, 32)
    s[B].compute_at(s[C], s[C].leaf_axes[1])
    s[B].set_scope("shared")
    s[B].storage_align(B.op.axis[0], 32, 1)
    golden(s)


def test_double_buffer(golden: Golden) -> None:
    A, _, C = matmul(64, 64, 64)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    copy = s.cache_read(A, "shared", [C])
    s[copy].compute_at(s[C], outer)
    s[copy].double_buffer()
    golden(s)


def test_set_store_predicate(golden: Golden) -> None:
    A = sl.placeholder((32, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    S = sl.compute((32,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    parts = s.rfactor(S, inner)
    last = s[S].op.reduce_axis[0]
    s[S].bind(S.op.axis[0], "blockIdx.x")
    s[S].bind(last, "threadIdx.x")
    s[parts].compute_at(s[S], last)
    s[S].set_store_predicate(last == 0)
    golden(s)


# programs


def test_matmul_as_declared(golden: Golden) -> None:
    golden(sl.schedule(matmul(1024, 1024, 1024)[2]))


def test_matmul_of_the_readme(golden: Golden) -> None:
    _, _, C = matmul(1024, 1024, 1024)
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 32, 32)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    s[C].vectorize(ji)
    s[C].parallel(io)
    golden(s)


def test_matmul_packed(golden: Golden) -> None:
    A = sl.placeholder((1024, 1024), name="A")
    B = sl.placeholder((1024, 1024), name="B")
    k = sl.reduce_axis(1024, name="k")
    packed = sl.compute((64, 1024, 16), lambda jo, k, ji: B[k, jo * 16 + ji], name="packed")
    C = sl.compute(
        (1024, 1024), lambda i, j: sl.sum(A[i, k] * packed[j // 16, k, j % 16], axis=k), name="C"
    )
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].vectorize(ji)
    s[C].unroll(ii)
    s[C].parallel(io)
    s[packed].vectorize(packed.op.axis[2])
    s[packed].parallel(packed.op.axis[0])
    golden(s)


def test_matmul_packed_in_a_register_tile(golden: Golden) -> None:
    A = sl.placeholder((1024, 1024), name="A")
    B = sl.placeholder((1024, 1024), name="B")
    k = sl.reduce_axis(1024, name="k")
    packed = sl.compute((64, 1024, 16), lambda jo, k, ji: B[k, jo * 16 + ji], name="packed")
    C = sl.compute(
        (1024, 1024), lambda i, j: sl.sum(A[i, k] * packed[j // 16, k, j % 16], axis=k), name="C"
    )
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    io, jo, _, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].vectorize(ji)
    s[C].parallel(io)
    s[sums].compute_at(s[C], jo)
    i, j = s[sums].op.axis
    s[sums].reorder(k, i, j)
    s[sums].unroll(i)
    s[sums].vectorize(j)
    s[packed].parallel(packed.op.axis[0])
    s[packed].vectorize(packed.op.axis[2])
    golden(s)


def register_tile(tail: str) -> sl.Schedule:
    """A 6x16 tile of sums on 1024x1024: rows do not divide, columns do."""
    _, _, C = matmul(1024, 1024, 1024)
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=6, tail=tail)
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(io, jo, ii, ji)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], jo)
    i, j = s[sums].op.axis
    s[sums].reorder(s[sums].op.reduce_axis[0], i, j)
    s[sums].unroll(i)
    s[sums].vectorize(j)
    return s


def test_matmul_register_tile_guard(golden: Golden) -> None:
    golden(register_tile("guard"))


def test_matmul_register_tile_cut(golden: Golden) -> None:
    golden(register_tile("cut"))


def convolution() -> tuple[Tensor, Tensor, Tensor]:
    X = sl.placeholder((3, 56, 56), name="X")
    W = sl.placeholder((8, 3, 3, 3), name="W")
    padded = pad(X, (0, 1, 1), name="padded")
    c = sl.reduce_axis(3, name="c")
    dy = sl.reduce_axis(3, name="dy")
    dx = sl.reduce_axis(3, name="dx")
    Y = sl.compute(
        (8, 56, 56),
        lambda o, y, x: sl.sum(padded[c, y + dy, x + dx] * W[o, c, dy, dx], axis=[c, dy, dx]),
        name="Y",
    )
    return X, padded, Y


def test_conv2d_padding_inlined(golden: Golden) -> None:
    _, padded, Y = convolution()
    s = sl.schedule(Y)
    s[padded].compute_inline()
    golden(s)


def test_conv2d_padding_at_a_tile(golden: Golden) -> None:
    _, padded, Y = convolution()
    s = sl.schedule(Y)
    o, y, x = Y.op.axis
    yo, xo, yi, xi = s[Y].tile(y, x, 8, 8)
    s[Y].reorder(yo, xo, o, yi, xi)
    s[padded].compute_at(s[Y], xo)
    s[Y].vectorize(xi)
    golden(s)


def blur() -> tuple[Tensor, Tensor]:
    X = sl.placeholder((66, 66), name="X")
    H = sl.compute((66, 64), lambda y, x: X[y, x] + X[y, x + 1] + X[y, x + 2], name="H")
    return H, sl.compute((64, 64), lambda y, x: H[y, x] + H[y + 1, x] + H[y + 2, x], name="V")


def test_blur_at_a_tile(golden: Golden) -> None:
    H, V = blur()
    s = sl.schedule(V)
    yo, xo, _, xi = s[V].tile(*V.op.axis, 8, 16)
    s[H].compute_at(s[V], xo)
    s[V].vectorize(xi)
    s[H].vectorize(H.op.axis[1])
    s[V].parallel(yo)
    golden(s)


def test_blur_sliding_in_a_strip(golden: Golden) -> None:
    H, V = blur()
    s = sl.schedule(V)
    y, _ = V.op.axis
    yo, yi = s[V].split(y, factor=8)
    s[H].compute_at(s[V], yi)
    s[H].store_at(s[V], yo)
    s[V].parallel(yo)
    golden(s)


def test_blur_of_five_points_at_j(golden: Golden) -> None:
    A = sl.placeholder((14, 14), name="A")
    B = sl.compute((14, 14), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute(
        (12, 12),
        lambda i, j: (
            B[i, j + 1] + B[i + 1, j] + B[i + 1, j + 1] + B[i + 1, j + 2] + B[i + 2, j + 1]
        ),
        name="C",
    )
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    golden(s)


def softmax() -> tuple[Tensor, ...]:
    X = sl.placeholder((128, 1000), name="X")
    k = sl.reduce_axis(1000, name="k")
    k2 = sl.reduce_axis(1000, name="k")
    M = sl.compute((128,), lambda i: sl.max(X[i, k], axis=k), name="M")
    E = sl.compute((128, 1000), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    T = sl.compute((128,), lambda i: sl.sum(E[i, k2], axis=k2), name="T")
    return M, E, T, sl.compute((128, 1000), lambda i, j: E[i, j] / T[i], name="P")


def test_softmax_at_root(golden: Golden) -> None:
    golden(sl.schedule(softmax()[-1]))


def test_softmax_by_rows(golden: Golden) -> None:
    M, E, T, P = softmax()
    s = sl.schedule(P)
    i, _ = P.op.axis
    for stage in (M, E, T):
        s[stage].compute_at(s[P], i)
    s[P].parallel(i)
    golden(s)


def test_argmax(golden: Golden) -> None:
    A = sl.placeholder((8, 100), name="A")
    k = sl.reduce_axis(100, name="k")
    I = sl.compute((8,), lambda i: sl.argmax(A[i, k], axis=k), name="I")  # noqa: E741
    golden(sl.schedule(I))


def test_argmax_factored(golden: Golden) -> None:
    A = sl.placeholder((8, 100), name="A")
    k = sl.reduce_axis(100, name="k")
    I = sl.compute((8,), lambda i: sl.argmax(A[i, k], axis=k), name="I")  # noqa: E741
    s = sl.schedule(I)
    _, inner = s[I].split(k, factor=8)
    s.rfactor(I, inner)
    golden(s)


def test_tuple_of_outputs(golden: Golden) -> None:
    A = sl.placeholder((64,), name="A")
    total, difference = sl.compute((64,), lambda i: (A[i] + 1, A[i] - 1), name="T")
    s = sl.schedule([total, difference])
    s[total].split(total.op.axis[0], factor=16)
    golden(s)


def test_scan(golden: Golden) -> None:
    X = sl.placeholder((16, 100), name="X")
    S = sl.placeholder((16, 100), name="S")
    first = sl.compute((1, 100), lambda t, i: X[0, i], name="first")
    twice = sl.compute((16, 100), lambda t, i: S[t - 1, i] * 2, name="twice")
    step = sl.compute((16, 100), lambda t, i: twice[t, i] + X[t, i], name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    s = sl.schedule(R)
    s[step].vectorize(s[step].split(step.op.axis[1], factor=8)[1])
    golden(s)


def test_scan_of_two_states(golden: Golden) -> None:
    n = sl.var("n")
    X = sl.placeholder((n,), name="X")
    a, b = sl.placeholder((n,), name="a"), sl.placeholder((n,), name="b")
    first = [sl.compute((1,), lambda t: X[0], name=name) for name in ("a_first", "b_first")]
    step_a = sl.compute((n,), lambda t: a[t - 1] + b[t - 1], name="a_next")
    step_b = sl.compute((n,), lambda t: a[t - 1] - X[t], name="b_next")
    R = sl.scan(first, [step_a, step_b], [a, b], inputs=[X], name="R")
    golden(sl.schedule(R))


def test_symbolic_matmul(golden: Golden) -> None:
    m, n, depth = sl.var("m"), sl.var("n"), sl.var("l")
    _, _, C = matmul(m, n, depth)
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 8)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    s[C].vectorize(ji)
    golden(s)


def test_symbolic_producer_at_a_tile(golden: Golden) -> None:
    n = sl.var("n")
    A = sl.placeholder((n + 2,), name="A")
    B = sl.compute((n + 2,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    golden(s)


def test_cuda_matmul(golden: Golden) -> None:
    A, B, C = matmul(1024, 1024, 1024)
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    by, bx, yi, xi = s[C].tile(*C.op.axis, 64, 64)
    ty, yi = s[C].split(yi, nparts=16)
    tx, xi = s[C].split(xi, nparts=16)
    s[C].reorder(by, bx, ty, tx, yi, xi)
    s[C].bind(by, "blockIdx.y")
    s[C].bind(bx, "blockIdx.x")
    s[C].bind(ty, "threadIdx.y")
    s[C].bind(tx, "threadIdx.x")
    s[sums].compute_at(s[C], tx)
    ko, ki = s[sums].split(s[sums].op.reduce_axis[0], factor=8)
    s[sums].reorder(ko, ki, *s[sums].op.axis)
    for tensor in (A, B):
        copy = s.cache_read(tensor, "shared", [sums])
        s[copy].compute_at(s[sums], ko)
        y, x = s[copy].op.axis
        fy, _ = s[copy].split(y, nparts=16)
        fx, _ = s[copy].split(x, nparts=16)
        s[copy].reorder(fy, fx)
        s[copy].bind(fy, "threadIdx.y")
        s[copy].bind(fx, "threadIdx.x")
    golden(s)


def test_cuda_cross_thread_reduction(golden: Golden) -> None:
    A = sl.placeholder((128, 1000), name="A")
    k = sl.reduce_axis(1000, name="k")
    S = sl.compute((128,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=32)
    s[S].bind(S.op.axis[0], "blockIdx.x")
    s[S].bind(inner, "threadIdx.x")
    golden(s)


# corners


def test_no_dimensions(golden: Golden) -> None:
    A = sl.placeholder((), name="A")
    golden(sl.schedule(sl.compute((), lambda: A[()] * 2, name="B")))


def test_extents_of_zero_and_one(golden: Golden) -> None:
    A = sl.placeholder((4, 1, 0), name="A")
    B = sl.compute((4, 1), lambda i, j: A[i, j, 0] if False else sl.cast(i, "float32"), name="B")
    k = sl.reduce_axis(0, name="k")
    C = sl.compute((4, 1), lambda i, j: sl.sum(B[i, j] * A[i, j, k], axis=k), name="C")
    D = sl.compute((0, 4), lambda i, j: C[j, 0], name="D")
    golden(sl.schedule([C, D]))


def test_equal_axis_names(golden: Golden) -> None:
    H, V = blur()
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[V].split(V.op.axis[1], factor=32)
    golden(s)


def test_equal_tensor_names(golden: Golden) -> None:
    A = sl.placeholder((8,), name="T")
    B = sl.compute((8,), lambda i: A[i] + 1, name="T")
    golden(sl.schedule(sl.compute((8,), lambda i: B[i] * 2, name="T")))


def test_condition_and_gather(golden: Golden) -> None:
    A = sl.placeholder((64,), name="A")
    index = sl.placeholder((64,), "int32", name="index")
    B = sl.compute(
        (64,), lambda i: sl.if_then_else((i >= 1) & (i < 63), A[index[i]] - A[i - 1], 0.5), name="B"
    )
    golden(sl.schedule(B))


def test_where_and_init(golden: Golden) -> None:
    A = sl.placeholder((8, 8), name="A")
    k = sl.reduce_axis((2, 8), name="k")
    L = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k, where=k <= i, init=i), name="L")
    golden(sl.schedule(L))


def test_places_that_do_not_fit(golden: Golden) -> None:
    _, B, C = chain(64)
    D = sl.compute((64,), lambda i: B[i] * C[i], name="D")
    s = sl.schedule([C, D])
    s[B].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_one_step_as_a_diff(golden: Golden) -> None:
    _, _, C = matmul(64, 64, 64)
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 8)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    golden(s.diff(2))


def test_every_golden_text_has_its_test() -> None:
    written = {p.stem for p in (GOLDEN / "test_golden_nests").glob("*.txt")}
    assert written <= {name for name in globals() if name.startswith("test_")}
