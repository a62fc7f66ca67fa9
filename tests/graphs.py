"""Small computations, as tensors or as dicts of tensors, axes and a new schedule."""

from __future__ import annotations

from typing import Any

import schedlang as sl
from schedlang.compute.tensor import Tensor


def matmul() -> dict[str, Any]:
    """Return ``C = D @ B`` with the computed operand ``D = A * 2``."""
    A = sl.placeholder((64, 32), name="A")
    B = sl.placeholder((32, 48), name="B")
    D = sl.compute((64, 32), lambda x, y: A[x, y] * 2, name="D")
    k = sl.reduce_axis(32, name="k")
    C = sl.compute((64, 48), lambda i, j: sl.sum(D[i, k] * B[k, j], axis=k), name="C")
    (i, j), (x, y) = C.op.axis, D.op.axis
    return {"A": A, "B": B, "C": C, "D": D, "i": i, "j": j, "k": k, "s": sl.schedule(C),
            "x": x, "y": y}  # fmt: skip


def packed_product() -> dict[str, Any]:
    """Return ``C = A @ B`` of bytes, where panels of B hold four rows of 16 columns."""
    A = sl.placeholder((6, 22), "uint8", name="A")
    B = sl.placeholder((6, 3, 16, 4), "int8", name="B")
    k = sl.reduce_axis(22, name="k")

    def term(i: Any, j: Any) -> Any:
        return A[i, k].astype("int32") * B[k // 4, j // 16, j % 16, k % 4].astype("int32")

    C = sl.compute((6, 40), lambda i, j: sl.sum(term(i, j), axis=k), name="C")
    i, j = C.op.axis
    return {"A": A, "B": B, "C": C, "i": i, "j": j, "k": k, "s": sl.schedule(C)}


def signed_product() -> dict[str, Any]:
    """Return ``C = A @ B`` of signed bytes."""
    A, B = sl.placeholder((6, 22), "int8", name="A"), sl.placeholder((22, 40), "int8", name="B")
    k = sl.reduce_axis(22, name="k")

    def term(i: Any, j: Any) -> Any:
        return A[i, k].astype("int32") * B[k, j].astype("int32")

    C = sl.compute((6, 40), lambda i, j: sl.sum(term(i, j), axis=k), name="C")
    i, j = C.op.axis
    return {"A": A, "B": B, "C": C, "i": i, "j": j, "k": k, "s": sl.schedule(C)}


def diamond() -> dict[str, Any]:
    """Return a graph in which C and E read D, and E also reads C and F."""
    A = sl.placeholder((64,), name="A")
    D = sl.compute((64,), lambda x: A[x] * 2, name="D")
    C = sl.compute((64,), lambda i: D[i] + 1, name="C")
    F = sl.compute((64,), lambda f: A[f] + 2, name="F")
    E = sl.compute((64,), lambda j: C[j] + D[j] + F[j], name="E")
    (x,), (i,), (f,), (j,) = (t.op.axis for t in (D, C, F, E))
    return {"A": A, "C": C, "D": D, "E": E, "F": F, "f": f, "i": i, "j": j, "s": sl.schedule(E),
            "x": x}  # fmt: skip


def recurrence() -> dict[str, Any]:
    """Return a scan with a stage between its state and its update, and a consumer of the scan."""
    X = sl.placeholder((5, 4), name="X")
    S = sl.placeholder((5, 4), name="S")
    first = sl.compute((1, 4), lambda t, i: X[0, i], name="first")
    twice = sl.compute((5, 4), lambda t, i: S[t - 1, i] * 2, name="twice")
    step = sl.compute((5, 4), lambda t, i: twice[t, i] + X[t, i], name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    out = sl.compute((5, 4), lambda a, b: R[a, b] + 1, name="out")
    a, b = out.op.axis
    return {"R": R, "S": S, "X": X, "a": a, "b": b, "first": first, "out": out,
            "s": sl.schedule(out), "step": step, "t": R.op.scan_axis, "twice": twice}  # fmt: skip


def pointwise(extent: Any) -> dict[str, Any]:
    """Return ``B[i] = A[i] * 2`` with a schedule."""
    A = sl.placeholder((extent,), name="A")
    B = sl.compute((extent,), lambda i: A[i] * 2, name="B")
    return {"A": A, "B": B, "i": B.op.axis[0], "s": sl.schedule(B)}


def scaled(*shape: Any) -> tuple[Tensor, Tensor]:
    """Return A and ``B = A * 2`` of one or two dimensions."""
    A = sl.placeholder(shape, name="A")
    names = {1: lambda i: A[i] * 2, 2: lambda i, j: A[i, j] * 2}
    return A, sl.compute(shape, names[len(shape)], name="B")


def product(m: Any, n: Any, depth: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return A, B and ``C = A @ B``."""
    A = sl.placeholder((m, depth), name="A")
    B = sl.placeholder((depth, n), name="B")
    k = sl.reduce_axis(depth, name="k")
    return A, B, sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def recurrent(width: int, steps: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``R[t] = tanh(R[t - 1] @ W)`` with the inputs ``start``, its first row, and ``W``."""
    start, W = sl.placeholder((1, width), name="start"), sl.placeholder((width, width), name="W")
    S = sl.placeholder((steps, width), name="S")
    k = sl.reduce_axis(width, name="k")
    first = sl.compute((1, width), lambda t, j: start[t, j], name="first")
    P = sl.compute((steps, width), lambda t, j: sl.sum(S[t - 1, k] * W[k, j], axis=k), name="P")
    update = sl.compute((steps, width), lambda t, j: sl.tanh(P[t, j]), name="update")
    return start, W, sl.scan(first, update, S, name="R")


def chain(n: int, taps: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Return an input, a producer, and a consumer that reads ``taps`` neighbours of it."""
    A = sl.placeholder((n + taps - 1,), name="A")
    B = sl.compute((n + taps - 1,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: sum((B[i + k] for k in range(1, taps)), B[i]), name="C")
    return A, B, C


def blur() -> tuple[Tensor, Tensor]:
    """Return the two stages of a separable blur: along rows, then along columns."""
    X = sl.placeholder((66, 66), name="X")
    H = sl.compute((66, 64), lambda y, x: X[y, x] + X[y, x + 1] + X[y, x + 2], name="H")
    return H, sl.compute((64, 64), lambda y, x: H[y, x] + H[y + 1, x] + H[y + 2, x], name="V")
