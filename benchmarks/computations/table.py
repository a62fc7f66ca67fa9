"""Works of the table of ``benchmarks/cpu.py``: matrix products and NCHW convolutions."""

from __future__ import annotations

import schedlang as sl
from benchmarks.works import Work


def sgemm(work: Work) -> list[sl.Tensor]:
    m, n, K = (work.sizes[v] for v in ("m", "n", "k"))
    A, B = sl.placeholder((m, K), name="A"), sl.placeholder((K, n), name="B")
    k = sl.reduce_axis(K, name="k")
    C = sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C]


def batched(work: Work) -> list[sl.Tensor]:
    count, m, n, K = (work.sizes[v] for v in ("count", "m", "n", "k"))
    A, B = sl.placeholder((count, m, K), name="A"), sl.placeholder((count, K, n), name="B")
    k = sl.reduce_axis(K, name="k")
    C = sl.compute((count, m, n), lambda b, i, j: sl.sum(A[b, i, k] * B[b, k, j], axis=k), name="C")
    return [A, B, C]


def conv2d(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W = sl.placeholder(work.inputs["x"], name="X"), sl.placeholder(work.inputs["w"], name="W")
    XP = _padded(work, X)
    rc, rh, rw = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape[1:], ("rc", "rh", "rw")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, o, h, w: sl.sum(
            XP[n, rc, h * s + rh, w * s + rw] * W[o, rc, rh, rw], axis=(rc, rh, rw)
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def depthwise(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W = sl.placeholder(work.inputs["x"], name="X"), sl.placeholder(work.inputs["w"], name="W")
    XP = _padded(work, X)
    rh, rw = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape[2:], ("rh", "rw")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, c, h, w: sl.sum(
            XP[n, c, h * s + rh, w * s + rw] * W[c, 0, rh, rw], axis=(rh, rw)
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def _padded(work: Work, X: sl.Tensor) -> sl.Tensor:
    pad = work.sizes["pad"]
    return sl.pad(X, (0, 0, pad, pad), name="XP") if pad else X


COMPUTATIONS = (sgemm, batched, conv2d, depthwise)
