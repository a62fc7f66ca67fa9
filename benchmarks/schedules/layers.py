"""Network layers that are matrix products with elementwise steps or reductions in between."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.schedules.products import register_tile
from benchmarks.works import Work
from schedlang.demo import tile_sizes


def pack(s: sl.Schedule, P: sl.Tensor) -> None:
    """Fill panels by transposing square blocks of the matrix in registers."""
    *_, k, lane = P.op.axis
    s[P].unroll(s[P].split(k, factor=16)[1])
    s[P].vectorize(lane)


@scheduled("lstm_cell")
def lstm_cell(work: Work, target: sl.Target) -> Made:
    """Compute the four gates of a block of the state per thread, which packs its weights."""
    batch, hidden = work.sizes["batch"], work.sizes["hidden"]
    rows, lanes = tile_sizes(target)
    x, h, c = (sl.placeholder((batch, hidden), name=n) for n in ("x", "h", "c"))
    w_x, w_h = (sl.placeholder((4 * hidden, hidden), name=n) for n in ("w_x", "w_h"))
    bias = sl.placeholder((4 * hidden,), name="bias")
    k = sl.reduce_axis(hidden, name="k")
    packs, products = [], []
    for z, w in ((x, w_x), (h, w_h)):
        P = sl.compute(
            (4, -(-hidden // lanes), hidden, lanes),
            lambda g, p, k, j, w=w: w[g * hidden + sl.min(p * lanes + j, hidden - 1), k],
            name=f"P{z.name}",
        )
        G = sl.compute(
            (4, batch, hidden),
            lambda g, i, j, z=z, P=P: sl.sum(z[i, k] * P[g, j // lanes, k, j % lanes], axis=k),
            name=f"G{z.name}",
        )
        packs.append(P)
        products.append(G)

    def cell(i: sl.Expr, j: sl.Expr) -> tuple[sl.Expr, sl.Expr]:
        gate = [sum(G[g, i, j] for G in products) + bias[g * hidden + j] for g in range(4)]
        after = sl.sigmoid(gate[1]) * c[i, j] + sl.sigmoid(gate[0]) * sl.tanh(gate[2])
        return sl.sigmoid(gate[3]) * sl.tanh(after), after

    H, C = sl.compute((batch, hidden), cell, name="H")
    s = sl.schedule([H, C])
    i, j = H.op.axis
    block, lane = s[H].split(j, factor=lanes)
    s[H].reorder(block, i, lane)
    s[H].vectorize(lane)
    s[H].parallel(block)
    for P, G in zip(packs, products):
        GL = s.cache_write(G, "local")
        s[G].compute_at(s[H], block)
        g, i, j = s[G].op.axis
        strip, _ = s[G].split(i, factor=rows, tail="cut")
        s[G].vectorize(j)
        s[GL].compute_at(s[G], strip)
        register_tile(s, GL)
        s[P].compute_at(s[G], g)
        pack(s, P)
    return s, [x, h, c, w_x, w_h, bias, H, C]


@scheduled("attention")
def attention(work: Work, target: sl.Target) -> Made:
    """Compute a few rows of scores at a time, then their softmax and its product with V."""
    heads, length, width = (work.sizes[n] for n in ("heads", "length", "width"))
    rows, lanes = tile_sizes(target)
    rows = max(r for r in range(1, rows + 1) if length % r == 0)
    shape = (heads, length, width)
    Q, K, V = (sl.placeholder(shape, name=n) for n in "QKV")
    d, m, r, t = (sl.reduce_axis(n, name=a) for n, a in
                  ((width, "d"), (length, "m"), (length, "r"), (length, "t")))  # fmt: skip
    KP = sl.compute(
        (heads, -(-length // lanes), width, lanes),
        lambda b, p, d, j: sl.if_then_else(
            p * lanes + j < length, K[b, p * lanes + j, d] * (width**-0.5), 0
        ), name="KP",
    )  # fmt: skip
    S = sl.compute(
        (heads, length, length),
        lambda b, i, j: sl.sum(Q[b, i, d] * KP[b, j // lanes, d, j % lanes], axis=d), name="S",
    )  # fmt: skip
    M = sl.compute((heads, length), lambda b, i: sl.max(S[b, i, m], axis=m), name="M")
    E = sl.compute(S.shape, lambda b, i, j: sl.exp(S[b, i, j] - M[b, i]), name="E")
    D = sl.compute((heads, length), lambda b, i: sl.sum(E[b, i, r], axis=r), name="D")
    B = sl.compute(shape, lambda b, i, j: sl.sum(E[b, i, t] * V[b, t, j], axis=t), name="B")
    Y = sl.compute(shape, lambda b, i, j: B[b, i, j] / D[b, i], name="Y")
    s = sl.schedule(Y)
    b, i, j = Y.op.axis
    strip, row = s[Y].split(i, factor=rows)
    outer, lane = s[Y].split(j, factor=lanes)
    s[Y].reorder(b, strip, outer, row, lane)
    s[Y].parallel(b)
    s[Y].vectorize(lane)
    s[B].compute_at(s[Y], outer)
    register_tile(s, B)
    for T, axis in ((M, m), (D, r)):
        P = s.rfactor(T, s[T].split(axis, factor=lanes)[1], factor_axis=2)
        for stage in (T, P):
            s[stage].compute_at(s[Y], strip)
        s[P].reorder(*s[P].op.reduce_axis, s[P].op.axis[2])
        s[P].vectorize(s[P].op.axis[2])
    s[E].compute_at(s[Y], strip)
    s[E].vectorize(s[E].split(E.op.axis[2], factor=lanes)[1])
    SL = s.cache_write(S, "local")
    s[S].compute_at(s[Y], strip)
    panel, lane = s[S].split(s[S].op.axis[2], factor=lanes)
    s[S].reorder(s[S].op.axis[0], panel, s[S].op.axis[1], lane)
    s[S].vectorize(lane)
    s[SL].compute_at(s[S], panel)
    register_tile(s, SL)
    s[KP].compute_at(s[Y], b)
    pack(s, KP)
    return s, [Q, K, V, Y]
