"""Golden loop nests of classic programs, to be read by eye."""

from __future__ import annotations

import schedlang as sl
from schedlang.compute.tensor import Tensor
from tests.conftest import GOLDEN, Golden
from tests.graphs import blur, product


def test_matmul_as_declared(golden: Golden) -> None:
    golden(sl.schedule(product(1024, 1024, 1024)[2]))


def test_matmul_of_the_readme(golden: Golden) -> None:
    _, _, C = product(1024, 1024, 1024)
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
    """Return a 1024x1024 product in 6x16 register tiles, which divide the columns only."""
    _, _, C = product(1024, 1024, 1024)
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
    padded = sl.pad(X, (0, 1, 1), name="padded")
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
    _, _, C = product(m, n, depth)
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
    A, B, C = product(1024, 1024, 1024)
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


def test_every_golden_text_has_its_test() -> None:
    written = {p.stem for p in (GOLDEN / "test_golden_programs").glob("*.txt")}
    assert written <= {name for name in globals() if name.startswith("test_")}
