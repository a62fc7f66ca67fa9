"""ScalarNest nests: computations whose schedules only reorder, split and tile loops.

Each function makes one nest. The C function of that name in ``peers/scalar_nests.c`` takes the same
arrays in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl

ALPHA, BETA = 1.5, 1.25


@dataclass(frozen=True)
class ScalarNest:
    """A schedule and its NumPy oracle. ``args`` are inputs, then intermediates, then the result."""

    name: str
    schedule: sl.Schedule
    args: list[sl.Tensor]
    oracle: Callable[..., Any]


def _inputs(dtype: str = "float32", /, **shapes: tuple[int, ...]) -> list[sl.Tensor]:
    return [sl.placeholder(shape, dtype, name=name) for name, shape in shapes.items()]


def _product(A: sl.Tensor, B: sl.Tensor, name: str, scale: float | None = None) -> sl.Tensor:
    k = sl.reduce_axis(A.shape[1], name="k")

    def element(i: Any, j: Any) -> Any:
        left = A[i, k] if scale is None else A[i, k] * scale
        return sl.sum(left * B[k, j], axis=k)

    return sl.compute((A.shape[0], B.shape[1]), element, name=name)


def _rows_inside(s: sl.Schedule, T: sl.Tensor) -> None:
    """Reorder the reduction ahead of the last data axis: i, k, j."""
    *outer, last = s[T].op.axis
    s[T].reorder(*outer, *s[T].op.reduce_axis, last)


def _columns_inside(s: sl.Schedule, T: sl.Tensor) -> None:
    """Reorder the reduction ahead of all data axes."""
    s[T].reorder(*s[T].op.reduce_axis, *s[T].op.axis)


def blocked(n: int) -> ScalarNest:
    """Make the blocked step of te's opt_gemm: tiles of 32x32, with k split by 4."""
    A, B = _inputs(A=(n, n), B=(n, n))
    C = _product(A, B, "C")
    s = sl.schedule(C)
    x, y = s[C].op.axis
    xo, yo, xi, yi = s[C].tile(x, y, 32, 32)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    return ScalarNest("blocked", s, [A, B, C], lambda a, b: a @ b)


def naive(n: int) -> ScalarNest:
    """Make a product under its default schedule."""
    A, B = _inputs(A=(n, n), B=(n, n))
    C = _product(A, B, "C")
    return ScalarNest("naive", sl.schedule(C), [A, B, C], lambda a, b: a @ b)


def gemm(n: int) -> ScalarNest:
    A, B, C = _inputs(A=(n, n), B=(n, n), C=(n, n))
    T = _product(A, B, "T", ALPHA)
    D = sl.compute((n, n), lambda i, j: T[i, j] + C[i, j] * BETA, name="D")
    s = sl.schedule(D)
    _rows_inside(s, T)
    return ScalarNest("gemm", s, [A, B, C, T, D], lambda a, b, c: ALPHA * a @ b + BETA * c)


def two_mm(n: int) -> ScalarNest:
    A, B, C, E = _inputs(A=(n, n), B=(n, n), C=(n, n), E=(n, n))
    T = _product(A, B, "T", ALPHA)
    U = _product(T, C, "U")
    D = sl.compute((n, n), lambda i, j: U[i, j] + E[i, j] * BETA, name="D")
    s = sl.schedule(D)
    _rows_inside(s, T)
    _rows_inside(s, U)
    args = [A, B, C, E, T, U, D]
    return ScalarNest("two_mm", s, args, lambda a, b, c, e: ALPHA * a @ b @ c + BETA * e)


def _of_rows(A: sl.Tensor, x: sl.Tensor, name: str) -> sl.Tensor:
    j = sl.reduce_axis(A.shape[1], name="j")
    return sl.compute((A.shape[0],), lambda i: sl.sum(A[i, j] * x[j], axis=j), name=name)


def _of_columns(A: sl.Tensor, x: sl.Tensor, name: str) -> sl.Tensor:
    i = sl.reduce_axis(A.shape[0], name="i")
    return sl.compute((A.shape[1],), lambda j: sl.sum(A[i, j] * x[i], axis=i), name=name)


def atax(n: int) -> ScalarNest:
    A, x = _inputs(A=(n, n), x=(n,))
    t = _of_rows(A, x, "t")
    y = _of_columns(A, t, "y")
    s = sl.schedule(y)
    _columns_inside(s, y)
    return ScalarNest("atax", s, [A, x, t, y], lambda a, x: a.T @ (a @ x))


def bicg(n: int) -> ScalarNest:
    A, r, p = _inputs(A=(n, n), r=(n,), p=(n,))
    u, v = _of_columns(A, r, "u"), _of_rows(A, p, "v")
    w = sl.compute((n,), lambda i: u[i] + v[i], name="w")
    s = sl.schedule(w)
    _columns_inside(s, u)
    return ScalarNest("bicg", s, [A, r, p, u, v, w], lambda a, r, p: r @ a + a @ p)


def mvt(n: int) -> ScalarNest:
    A, y, z, x = _inputs(A=(n, n), y=(n,), z=(n,), x=(n,))
    u, v = _of_rows(A, y, "u"), _of_columns(A, z, "v")
    w = sl.compute((n,), lambda i: x[i] + u[i] + v[i], name="w")
    s = sl.schedule(w)
    _columns_inside(s, v)
    return ScalarNest("mvt", s, [A, y, z, x, u, v, w], lambda a, y, z, x: x + a @ y + z @ a)


def gesummv(n: int) -> ScalarNest:
    A, B, x = _inputs(A=(n, n), B=(n, n), x=(n,))
    t, u = _of_rows(A, x, "t"), _of_rows(B, x, "u")
    y = sl.compute((n,), lambda i: t[i] * ALPHA + u[i] * BETA, name="y")
    args = [A, B, x, t, u, y]
    return ScalarNest(
        "gesummv", sl.schedule(y), args, lambda a, b, x: ALPHA * a @ x + BETA * b @ x
    )


def gemver(n: int) -> ScalarNest:
    A, p, q, u, v, y = _inputs(A=(n, n), p=(n,), q=(n,), u=(n,), v=(n,), y=(n,))
    H = sl.compute((n, n), lambda i, j: A[i, j] + p[i] * q[j] + u[i] * v[j], name="H")
    x = _of_columns(H, y, "x")
    w = _of_rows(H, x, "w")
    s = sl.schedule(w)
    _columns_inside(s, x)

    def oracle(a: Any, p: Any, q: Any, u: Any, v: Any, y: Any) -> Any:
        h = a + np.outer(p, q) + np.outer(u, v)
        return h @ (y @ h)

    return ScalarNest("gemver", s, [A, p, q, u, v, y, H, x, w], oracle)


def syrk(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n, n))
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * A[j, k], axis=k), name="C")
    s = sl.schedule(C)
    _rows_inside(s, C)
    return ScalarNest("syrk", s, [A, C], lambda a: a @ a.T)


def doitgen(n: int, p: int) -> ScalarNest:
    A, C = _inputs(A=(n, n, p), C=(p, p))
    k = sl.reduce_axis(p, name="k")
    S = sl.compute((n, n, p), lambda r, q, j: sl.sum(A[r, q, k] * C[k, j], axis=k), name="S")
    s = sl.schedule(S)
    _rows_inside(s, S)
    return ScalarNest("doitgen", s, [A, C, S], lambda a, c: a @ c)


def jacobi_1d(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n + 2,))
    B = sl.compute((n,), lambda i: (A[i] + A[i + 1] + A[i + 2]) * 0.25, name="B")
    return ScalarNest(
        "jacobi_1d", sl.schedule(B), [A, B], lambda a: (a[:-2] + a[1:-1] + a[2:]) * 0.25
    )


def jacobi_2d(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n + 2, n + 2))

    def step(a: Any, at: Callable[[int, int], Any]) -> Any:
        return (at(1, 1) + at(1, 0) + at(1, 2) + at(2, 1) + at(0, 1)) * 0.25

    B = sl.compute((n, n), lambda i, j: step(A, lambda y, x: A[i + y, j + x]), name="B")
    return ScalarNest(
        "jacobi_2d",
        sl.schedule(B), [A, B], lambda a: step(a, lambda y, x: a[y : y + n, x : x + n])
    )


def heat_3d(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n + 2, n + 2, n + 2))

    def step(at: Callable[[int, int, int], Any]) -> Any:
        here = at(1, 1, 1)
        return (
            (at(2, 1, 1) - here * 2.0 + at(0, 1, 1)) * 0.125
            + (at(1, 2, 1) - here * 2.0 + at(1, 0, 1)) * 0.125
            + (at(1, 1, 2) - here * 2.0 + at(1, 1, 0)) * 0.125
            + here
        )

    B = sl.compute(
        (n, n, n), lambda i, j, k: step(lambda z, y, x: A[i + z, j + y, k + x]), name="B"
    )
    return ScalarNest(
        "heat_3d",
        sl.schedule(B), [A, B],
        lambda a: step(lambda z, y, x: a[z : z + n, y : y + n, x : x + n]),
    )  # fmt: skip


def _centred(D: sl.Tensor, n: int, m: int) -> tuple[sl.Tensor, sl.Tensor]:
    i = sl.reduce_axis(n, name="i")
    M = sl.compute((m,), lambda j: sl.sum(D[i, j], axis=i), name="M")
    return M, sl.compute((n, m), lambda i, j: D[i, j] - M[j] * (1.0 / n), name="Z")


def _gram(Z: sl.Tensor, n: int, m: int) -> sl.Tensor:
    k = sl.reduce_axis(n, name="k")
    return sl.compute((m, m), lambda i, j: sl.sum(Z[k, i] * Z[k, j], axis=k), name="G")


def covariance(n: int, m: int) -> ScalarNest:
    (D,) = _inputs(D=(n, m))
    M, Z = _centred(D, n, m)
    G = _gram(Z, n, m)
    V = sl.compute((m, m), lambda i, j: G[i, j] * (1.0 / (n - 1)), name="V")
    s = sl.schedule(V)
    _columns_inside(s, M)
    _rows_inside(s, G)
    return ScalarNest("covariance", s, [D, M, Z, G, V], lambda d: np.cov(d.T))


def correlation(n: int, m: int) -> ScalarNest:
    (D,) = _inputs(D=(n, m))
    M, Z = _centred(D, n, m)
    i = sl.reduce_axis(n, name="i")
    S = sl.compute((m,), lambda j: sl.sum(Z[i, j] * Z[i, j], axis=i), name="S")
    N = sl.compute((n, m), lambda i, j: Z[i, j] / sl.sqrt(S[j]), name="N")
    G = _gram(N, n, m)
    s = sl.schedule(G)
    for T in (M, S):
        _columns_inside(s, T)
    _rows_inside(s, G)
    return ScalarNest("correlation", s, [D, M, Z, S, N, G], lambda d: np.corrcoef(d.T))


def convolution(c: int, n: int) -> ScalarNest:
    """Make a 3x3 NCHW convolution with the loops of the taps around the pixels of a row."""
    return _convolution("convolution", c, n, by_rows=True)


def planes(c: int, n: int) -> ScalarNest:
    """Make the same convolution with the loops of the taps around all pixels of a plane."""
    return _convolution("planes", c, n, by_rows=False)


def _convolution(name: str, c: int, n: int, by_rows: bool) -> ScalarNest:
    X, W = _inputs(X=(c, n + 2, n + 2), W=(c, c, 3, 3))
    rc, ry, rx = (sl.reduce_axis(e, name=m) for e, m in ((c, "rc"), (3, "ry"), (3, "rx")))
    Y = sl.compute(
        (c, n, n),
        lambda o, y, x: sl.sum(X[rc, y + ry, x + rx] * W[o, rc, ry, rx], axis=(rc, ry, rx)),
        name="Y",
    )
    s = sl.schedule(Y)
    o, y, x = s[Y].op.axis
    s[Y].reorder(*((o, y, rc, ry, rx, x) if by_rows else (o, rc, ry, rx, y, x)))

    def oracle(x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
        return np.einsum("cyxab,ocab->oyx", windows, w)

    return ScalarNest(name, s, [X, W, Y], oracle)


def blur(n: int) -> ScalarNest:
    """Make a 3x3 box blur, one dimension after the other."""
    (A,) = _inputs(A=(n + 2, n + 2))
    H = sl.compute(
        (n + 2, n), lambda y, x: (A[y, x] + A[y, x + 1] + A[y, x + 2]) * (1 / 3), name="H"
    )
    B = sl.compute((n, n), lambda y, x: (H[y, x] + H[y + 1, x] + H[y + 2, x]) * (1 / 3), name="B")

    def oracle(a: Any) -> Any:
        h = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) / 3
        return (h[:-2] + h[1:-1] + h[2:]) / 3

    return ScalarNest("blur", sl.schedule(B), [A, H, B], oracle)


def chain(n: int) -> ScalarNest:
    """Make an elementwise chain: ``max(a * b + c, 0) * c``."""
    A, B, C = _inputs(A=(n,), B=(n,), C=(n,))
    D = sl.compute(
        (n,), lambda i: sl.select(A[i] * B[i] + C[i] > 0, A[i] * B[i] + C[i], 0.0) * C[i], name="D"
    )
    args = [A, B, C, D]
    return ScalarNest("chain", sl.schedule(D), args, lambda a, b, c: np.maximum(a * b + c, 0) * c)


def adam(n: int) -> ScalarNest:
    """Make one step of an optimizer: squares, a square root, a quotient."""
    P, G, V = _inputs(P=(n,), G=(n,), V=(n,))
    W = sl.compute((n,), lambda i: V[i] * V[i] * 0.9 + G[i] * G[i] * 0.1, name="W")
    Q = sl.compute((n,), lambda i: P[i] - G[i] * 0.01 / (sl.sqrt(W[i]) + 1e-3), name="Q")

    def oracle(p: Any, g: Any, v: Any) -> Any:
        return p - g * 0.01 / (np.sqrt(v * v * 0.9 + g * g * 0.1) + 1e-3)

    return ScalarNest("adam", sl.schedule(Q), [P, G, V, W, Q], oracle)


def softmax(n: int, m: int) -> ScalarNest:
    (X,) = _inputs(X=(n, m))
    j, k = sl.reduce_axis(m, name="j"), sl.reduce_axis(m, name="k")
    M = sl.compute((n,), lambda i: sl.max(X[i, j], axis=j), name="M")
    E = sl.compute((n, m), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    S = sl.compute((n,), lambda i: sl.sum(E[i, k], axis=k), name="S")
    Y = sl.compute((n, m), lambda i, j: E[i, j] / S[i], name="Y")

    def oracle(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return ScalarNest("softmax", sl.schedule(Y), [X, M, E, S, Y], oracle)


def row_sum(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n, n))
    j = sl.reduce_axis(n, name="j")
    S = sl.compute((n,), lambda i: sl.sum(A[i, j], axis=j), name="S")
    return ScalarNest("row_sum", sl.schedule(S), [A, S], lambda a: a.sum(axis=1))


def column_sum(n: int) -> ScalarNest:
    (A,) = _inputs(A=(n, n))
    i = sl.reduce_axis(n, name="i")
    S = sl.compute((n,), lambda j: sl.sum(A[i, j], axis=i), name="S")
    s = sl.schedule(S)
    _columns_inside(s, S)
    return ScalarNest("column_sum", s, [A, S], lambda a: a.sum(axis=0))


def integer_dot(n: int) -> ScalarNest:
    """Make a sum of integer products, whose terms may be added in any order."""
    A, B = _inputs("int32", A=(n, n), B=(n, n))
    j = sl.reduce_axis(n, name="j")
    S = sl.compute((n,), lambda i: sl.sum(A[i, j] * B[i, j], axis=j), name="S")
    return ScalarNest("integer_dot", sl.schedule(S), [A, B, S], lambda a, b: (a * b).sum(axis=1))


def tiles(n: int) -> ScalarNest:
    """Make a weighted sum of two pictures in tiles of 16x16."""
    A, B = _inputs(A=(n, n), B=(n, n))
    C = sl.compute((n, n), lambda y, x: A[y, x] * 0.25 + B[y, x] * 0.75, name="C")
    s = sl.schedule(C)
    y, x = s[C].op.axis
    s[C].tile(y, x, 16, 16)
    return ScalarNest("tiles", s, [A, B, C], lambda a, b: a * 0.25 + b * 0.75)


# the nests that are timed, with their sizes
SIZES: Mapping[Callable[..., ScalarNest], Mapping[str, int]] = {
    blocked: {"n": 512}, naive: {"n": 320}, gemm: {"n": 320}, two_mm: {"n": 256},
    atax: {"n": 1000}, bicg: {"n": 1000}, mvt: {"n": 1000}, gesummv: {"n": 700},
    gemver: {"n": 700}, syrk: {"n": 256}, doitgen: {"n": 40, "p": 64},
    covariance: {"n": 260, "m": 240}, correlation: {"n": 260, "m": 240},
    jacobi_1d: {"n": 200000}, jacobi_2d: {"n": 600}, heat_3d: {"n": 64},
    convolution: {"c": 16, "n": 56}, planes: {"c": 16, "n": 56}, blur: {"n": 500},
    chain: {"n": 100000}, adam: {"n": 100000},
    tiles: {"n": 512}, softmax: {"n": 256, "m": 400}, row_sum: {"n": 500},
    column_sum: {"n": 500}, integer_dot: {"n": 500},
}  # fmt: skip


__all__ = ["SIZES", "ScalarNest"]
