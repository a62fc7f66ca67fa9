"""Small computations on fresh schedules, each as a namespace of tensors and axes by name."""

from __future__ import annotations

from typing import Any

import schedlang as sl


def matmul() -> dict[str, Any]:
    """``C = D @ B``, whose first operand is computed: ``D = A * 2``."""
    A = sl.placeholder((64, 32), name="A")
    B = sl.placeholder((32, 48), name="B")
    D = sl.compute((64, 32), lambda x, y: A[x, y] * 2, name="D")
    k = sl.reduce_axis(32, name="k")
    C = sl.compute((64, 48), lambda i, j: sl.sum(D[i, k] * B[k, j], axis=k), name="C")
    (i, j), (x, y) = C.op.axis, D.op.axis
    return {"A": A, "B": B, "C": C, "D": D, "i": i, "j": j, "k": k, "s": sl.schedule(C),
            "x": x, "y": y}  # fmt: skip


def diamond() -> dict[str, Any]:
    """D is read by C and by E, and E reads C; F stands beside C."""
    A = sl.placeholder((64,), name="A")
    D = sl.compute((64,), lambda x: A[x] * 2, name="D")
    C = sl.compute((64,), lambda i: D[i] + 1, name="C")
    F = sl.compute((64,), lambda f: A[f] + 2, name="F")
    E = sl.compute((64,), lambda j: C[j] + D[j] + F[j], name="E")
    (x,), (i,), (f,), (j,) = (t.op.axis for t in (D, C, F, E))
    return {"A": A, "C": C, "D": D, "E": E, "F": F, "f": f, "i": i, "j": j, "s": sl.schedule(E),
            "x": x}  # fmt: skip


def recurrence() -> dict[str, Any]:
    """A scan with one step between state and update, and a reader of its result."""
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
    """``B[i] = A[i] * 2``"""
    A = sl.placeholder((extent,), name="A")
    B = sl.compute((extent,), lambda i: A[i] * 2, name="B")
    return {"A": A, "B": B, "i": B.op.axis[0], "s": sl.schedule(B)}
