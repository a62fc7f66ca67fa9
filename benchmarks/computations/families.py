"""The operator families as a user of te writes them, with a padded input as a stage."""

from __future__ import annotations

from typing import Any

import schedlang as sl
from benchmarks.works import Work


def family_gmm(work: Work) -> list[sl.Tensor]:
    A, B = (sl.placeholder(work.inputs[v], name=v.upper()) for v in "ab")
    k = sl.reduce_axis(work.sizes["k"], name="k")
    C = sl.compute(
        work.outputs["c"], lambda b, i, j: sl.sum(A[b, i, k] * B[b, k, j], axis=k), name="C"
    )
    return [A, B, C]


def family_c1d(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W, XP = _operands(work, 1)
    rl, rc = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape, ("rl", "rc")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, x, o: sl.sum(XP[n, x * s + rl, rc] * W[rl, rc, o], axis=(rl, rc)),
        name="Y",
    )
    return [X, W, Y]


def family_c2d(work: Work) -> list[sl.Tensor]:
    return list(_conv2d(work))


def family_c3d(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W, XP = _operands(work, 3)
    names = ("rd", "rh", "rw", "rc")
    rd, rh, rw, rc = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape, names))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, d, h, w, o: sl.sum(
            XP[n, d * s + rd, h * s + rh, w * s + rw, rc] * W[rd, rh, rw, rc, o],
            axis=(rd, rh, rw, rc),
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def family_grp(work: Work) -> list[sl.Tensor]:
    s, groups = work.sizes["stride"], work.sizes["groups"]
    ic, oc = work.sizes["ic"] // groups, work.sizes["oc"] // groups
    X, W, XP = _operands(work, 2)
    rh, rw, rc = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape, ("rh", "rw", "rc")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, h, w, o: sl.sum(
            XP[n, h * s + rh, w * s + rw, o // oc * ic + rc] * W[rh, rw, rc, o],
            axis=(rh, rw, rc),
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def family_dil(work: Work) -> list[sl.Tensor]:
    return family_c2d(work)


def family_dep(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W, XP = _operands(work, 2)
    rh, rw = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape[1:], ("rh", "rw")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, h, w, c: sl.sum(
            XP[n, h * s + rh, w * s + rw, c] * W[0, rh, rw, c], axis=(rh, rw)
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def family_t2d(work: Work) -> list[sl.Tensor]:
    """Declare a transposed convolution. Its sum leaves out the zeros between inputs.

    Once a schedule unrolls the taps, the condition folds away.
    """
    s, k, pad = (work.sizes[v] for v in ("stride", "k", "pad"))
    X, W = sl.placeholder(work.inputs["x"], name="X"), sl.placeholder(work.inputs["w"], name="W")
    # XP pads by whole strides, before zeros go between its elements; extra skips the excess.
    before = k - 1 - pad
    around = -(-before // s)
    extra = around * s - before
    XP = sl.pad(X, (0, around, around, 0), name="XP")
    rh, rw, rc = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape, ("rh", "rw", "rc")))

    def product(n: Any, h: Any, w: Any, o: Any) -> Any:
        row, column = h + rh + extra, w + rw + extra
        return sl.sum(
            XP[n, row // s, column // s, rc] * W[k - 1 - rh, k - 1 - rw, rc, o],
            axis=(rh, rw, rc), where=sl.all(row % s == 0, column % s == 0),
        )  # fmt: skip

    return [X, W, sl.compute(work.outputs["y"], product, name="Y")]


def family_cap(work: Work) -> list[sl.Tensor]:
    s = work.sizes["stride"]
    X, W, XP = _operands(work, 2)
    K, _, side, _, IC, _ = W.shape
    extents, names = (K, K, side, IC), ("rh", "rw", "rk", "rc")
    rh, rw, rk, rc = (sl.reduce_axis(n, name=m) for n, m in zip(extents, names))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, h, w, i, j, o: sl.sum(
            XP[n, h * s + rh, w * s + rw, i, rk, rc] * W[rh, rw, rk, j, rc, o],
            axis=(rh, rw, rk, rc),
        ), name="Y",
    )  # fmt: skip
    return [X, W, Y]


def family_nrm(work: Work) -> list[sl.Tensor]:
    A = sl.placeholder(work.inputs["a"], name="A")
    i, j = (sl.reduce_axis(n, name=m) for n, m in zip(A.shape[1:], "ij"))
    shape = work.outputs["y"]
    C = sl.compute(shape, lambda b: sl.sum(A[b, i, j] * A[b, i, j], axis=(i, j)), name="C")
    Y = sl.compute(shape, lambda b: sl.sqrt(C[b]), name="Y")
    return [A, Y]


def family_sfm(work: Work) -> list[sl.Tensor]:
    rows, width = work.sizes["rows"], work.sizes["width"]
    X = sl.placeholder((rows, width), name="X")
    k, r = sl.reduce_axis(width, name="k"), sl.reduce_axis(width, name="r")
    M = sl.compute((rows,), lambda i: sl.max(X[i, k], axis=k), name="M")
    E = sl.compute((rows, width), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    S = sl.compute((rows,), lambda i: sl.sum(E[i, r], axis=r), name="S")
    Y = sl.compute((rows, width), lambda i, j: E[i, j] / S[i], name="Y")
    return [X, Y]


def family_cbr(work: Work) -> list[sl.Tensor]:
    X, W, C = _conv2d(work, "C")
    bias, scale, offset = (
        sl.placeholder(work.inputs[v], name=v) for v in ("bias", "scale", "offset")
    )
    shape = work.outputs["y"]
    B = sl.compute(shape, lambda n, h, w, o: C[n, h, w, o] + bias[o], name="B")
    S = sl.compute(shape, lambda n, h, w, o: B[n, h, w, o] * scale[o], name="S")
    Z = sl.compute(shape, lambda n, h, w, o: S[n, h, w, o] + offset[o], name="Z")
    Y = sl.compute(shape, lambda n, h, w, o: sl.max(Z[n, h, w, o], 0), name="Y")
    return [X, W, bias, scale, offset, Y]


def family_tbg(work: Work) -> list[sl.Tensor]:
    batch, length, heads, width = work.inputs["query"]
    Q, V = (sl.placeholder(work.inputs[v], name=v[0].upper()) for v in ("query", "value"))
    QT = sl.compute((batch, heads, length, width), lambda b, h, i, d: Q[b, i, h, d], name="QT")
    VT = sl.compute((batch, heads, width, length), lambda b, h, d, j: V[b, j, h, d], name="VT")
    k = sl.reduce_axis(width, name="k")
    C = sl.compute(
        work.outputs["out"],
        lambda b, h, i, j: sl.sum(QT[b, h, i, k] * VT[b, h, k, j], axis=k), name="C",
    )  # fmt: skip
    return [Q, V, C]


def _conv2d(work: Work, name: str = "Y") -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    s, d = work.sizes["stride"], work.sizes.get("dilation", 1)
    X, W, XP = _operands(work, 2)
    rh, rw, rc = (sl.reduce_axis(n, name=m) for n, m in zip(W.shape, ("rh", "rw", "rc")))
    Y = sl.compute(
        work.outputs["y"],
        lambda n, h, w, o: sl.sum(
            XP[n, h * s + rh * d, w * s + rw * d, rc] * W[rh, rw, rc, o], axis=(rh, rw, rc)
        ), name=name,
    )  # fmt: skip
    return X, W, Y


def _operands(work: Work, dims: int) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    """Return the input, the weights, and the input with its ``dims`` spatial axes padded."""
    X, W = sl.placeholder(work.inputs["x"], name="X"), sl.placeholder(work.inputs["w"], name="W")
    pad = work.sizes["pad"]
    if not pad:
        return X, W, X
    rest = len(X.shape) - 1 - dims
    return X, W, sl.pad(X, (0,) + (pad,) * dims + (0,) * rest, name="XP")


COMPUTATIONS = (
    family_gmm, family_c1d, family_c2d, family_c3d, family_grp, family_dil, family_dep, family_t2d,
    family_cap, family_nrm, family_sfm, family_cbr, family_tbg,
)  # fmt: skip
