"""The operator families of the Ansor benchmark, each at the four shapes that TVM publishes.

The batch is 1, and channels come last: ``x`` is ``(batch, position..., channel)``, and weights are
``(tap..., in, out)``. The padding is zeros, the same before and after. Multiply-adds with padding
count as work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.works.linear import DRIFT
from benchmarks.works.memory import softmax
from benchmarks.works.work import Work


def gmm(batch: int, n: int, m: int, k: int) -> Work:
    """Return a batch of matrix products."""
    return Work(
        f"GMM {n}x{m}x{k}", "family_gmm", {"batch": batch, "n": n, "m": m, "k": k},
        {"a": (batch, n, k), "b": (batch, k, m)}, {"c": (batch, n, m)}, lambda a, b: a @ b, "fma",
        flops=2.0 * batch * n * m * k, atol=DRIFT * k,
    )  # fmt: skip


def c1d(length: int, ic: int, oc: int, k: int, stride: int, pad: int) -> Work:
    """Return a 1-dimensional convolution."""
    sizes = {"size": length, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    return _conv(f"C1D {length}x{ic}>{oc} {k}/{stride}", (length,), sizes)


def c2d(size: int, ic: int, oc: int, k: int, stride: int, pad: int) -> Work:
    """Return a 2-dimensional convolution."""
    sizes = {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    return _conv(f"C2D {_layer(sizes)}", (size, size), sizes)


def c3d(depth: int, size: int, ic: int, oc: int, k: int, stride: int, pad: int) -> Work:
    """Return a 3-dimensional convolution."""
    sizes = {"depth": depth, "size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    name = f"C3D {depth}x{size}^2x{ic}>{oc} {k}x{k}x{k}/{stride}"
    return _conv(name, (depth, size, size), sizes)


def grp(size: int, ic: int, oc: int, k: int, stride: int, pad: int, groups: int = 4) -> Work:
    """Return a grouped convolution: each group has its input and its output channels."""
    sizes = {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    return _conv(f"GRP {_layer(sizes)} g{groups}", (size, size), sizes | {"groups": groups})


def dil(size: int, ic: int, oc: int, k: int, stride: int, pad: int, dilation: int = 2) -> Work:
    """Return a convolution whose taps are ``dilation`` apart."""
    sizes = {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    return _conv(f"DIL {_layer(sizes)} d{dilation}", (size, size), sizes | {"dilation": dilation})


def dep(size: int, channels: int, k: int, stride: int, pad: int) -> Work:
    """Return a depthwise convolution."""

    def oracle(x: Any, w: Any) -> Any:
        return np.einsum("yxcij,ijc->yxc", _windows(x[0], 2, k, stride, pad), w[0])[None]

    out = (size + 2 * pad - k) // stride + 1
    return Work(
        f"DEP {size}^2x{channels} {k}x{k}/{stride}", "family_dep",
        {"size": size, "channels": channels, "k": k, "stride": stride, "pad": pad},
        {"x": (1, size, size, channels), "w": (1, k, k, channels)}, {"y": (1, out, out, channels)},
        oracle, "copy", flops=2.0 * out * out * channels * k * k,
    )  # fmt: skip


def t2d(size: int, ic: int, oc: int, k: int, stride: int, pad: int) -> Work:
    """Return a transposed convolution, which convolves the input with zeros between its elements.

    The taps are reversed. Multiply-adds with the zeros between do not count as work.
    """

    def oracle(x: Any, w: Any) -> Any:
        spread = np.zeros(((size - 1) * stride + 1,) * 2 + (ic,))
        spread[::stride, ::stride] = x[0]
        return _convolved(spread, w[::-1, ::-1], 1, k - 1 - pad)[None]

    sizes = {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    out = (size - 1) * stride - 2 * pad + k
    return Work(
        f"T2D {_layer(sizes)}", "family_t2d", sizes,
        {"x": (1, size, size, ic), "w": (k, k, ic, oc)}, {"y": (1, out, out, oc)}, oracle, "fma",
        flops=2.0 * size * size * k * k * ic * oc, atol=DRIFT * k * k * ic,
    )  # fmt: skip


def cap(size: int, ic: int, oc: int, k: int, stride: int, pad: int, side: int = 4) -> Work:
    """Return a capsule convolution, whose channels and weights are small matrices."""

    def oracle(x: Any, w: Any) -> Any:
        # [y, x, row, inner, channel, i, j] and [i, j, inner, column, channel, out]
        seen = _windows(x[0], 2, k, stride, pad)
        return np.tensordot(seen, w, ((5, 6, 3, 4), (0, 1, 2, 4)))[None]

    sizes = {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad}
    out = (size + 2 * pad - k) // stride + 1
    length = k * k * side * ic
    return Work(
        f"CAP {_layer(sizes)}", "family_cap", sizes | {"side": side},
        {"x": (1, size, size, side, side, ic), "w": (k, k, side, side, ic, oc)},
        {"y": (1, out, out, side, side, oc)}, oracle, "fma",
        flops=2.0 * out * out * side * side * oc * length, atol=DRIFT * length,
    )  # fmt: skip


def nrm(batch: int, m: int, n: int) -> Work:
    """Return the Frobenius norm of each matrix of a batch."""
    return Work(
        f"NRM {m}x{n}", "family_nrm", {"batch": batch, "m": m, "n": n}, {"a": (batch, m, n)},
        {"y": (batch,)}, lambda a: np.sqrt((a * a).sum(axis=(1, 2))), "copy",
        flops=2.0 * batch * m * n,
    )  # fmt: skip


def sfm(rows: int, width: int) -> Work:
    """Return the softmax of each row."""
    return replace(softmax(rows, width), name=f"SFM {rows}x{width}", kind="family_sfm")


def cbr(size: int, ic: int, oc: int, k: int, stride: int, pad: int) -> Work:
    """Return a convolution with a bias, a batch norm (scale and offset), and relu."""

    def oracle(x: Any, w: Any, bias: Any, scale: Any, offset: Any) -> Any:
        made = _convolved(x[0], w, stride, pad)[None]
        return np.maximum((made + bias) * scale + offset, 0)

    plain = c2d(size, ic, oc, k, stride, pad)
    each = {name: (oc,) for name in ("bias", "scale", "offset")}
    return replace(
        plain, name=plain.name.replace("C2D", "CBR"), kind="family_cbr",
        inputs={**plain.inputs, **each}, oracle=oracle,
    )  # fmt: skip


def tbg(batch: int, length: int, heads: int, width: int) -> Work:
    """Return the product of queries and values for each head, both transposed first."""

    def oracle(query: Any, value: Any) -> Any:
        return query.transpose(0, 2, 1, 3) @ value.transpose(0, 2, 3, 1)

    shape = (batch, length, heads, width)
    return Work(
        f"TBG {length}x{heads}x{width}", "family_tbg",
        {"batch": batch, "length": length, "heads": heads, "width": width},
        {"query": shape, "value": shape}, {"out": (batch, heads, length, length)}, oracle, "fma",
        flops=2.0 * batch * heads * length * length * width, atol=DRIFT * width,
    )  # fmt: skip


def _layer(sizes: dict[str, int]) -> str:
    return "{size}^2x{ic}>{oc} {k}x{k}/{stride}".format(**sizes)


def _conv(name: str, places: tuple[int, ...], sizes: dict[str, int]) -> Work:
    """Return a convolution whose input has the spatial extents ``places``, of any number."""
    ic, oc, k, stride, pad = (sizes[n] for n in ("ic", "oc", "k", "stride", "pad"))
    dilation, groups = sizes.get("dilation", 1), sizes.get("groups", 1)

    def oracle(x: Any, w: Any) -> Any:
        given, weights = np.split(x[0], groups, axis=-1), np.split(w, groups, axis=-1)
        parts = [_convolved(g, v, stride, pad, dilation) for g, v in zip(given, weights)]
        return np.concatenate(parts, axis=-1)[None]

    out = tuple((n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n in places)
    length = k ** len(places) * (ic // groups)
    return Work(
        name, f"family_{name[:3].lower()}", sizes,
        {"x": (1, *places, ic), "w": (*(k for _ in places), ic // groups, oc)},
        {"y": (1, *out, oc)}, oracle, "fma",
        flops=2.0 * float(np.prod(out)) * oc * length, atol=DRIFT * length,
    )  # fmt: skip


def _convolved(x: Any, w: Any, stride: int, pad: int, dilation: int = 1) -> Any:
    """Convolve one slice of the first dimension at a time, since all windows would fill memory."""
    dims, oc = w.ndim - 2, w.shape[-1]
    seen = np.moveaxis(_windows(x, dims, w.shape[0], stride, pad, dilation), dims, -1)
    weights = w.reshape(-1, oc)
    made = [part.reshape(-1, len(weights)) @ weights for part in seen]
    return np.stack(made).reshape(*seen.shape[:dims], oc)


def _windows(x: Any, dims: int, k: int, stride: int, pad: int, dilation: int = 1) -> Any:
    """Return the view ``[position..., channel..., tap...]``: the window of each output position.

    The first ``dims`` dimensions of ``x`` are positions.
    """
    rest = x.ndim - dims
    padded = np.pad(x, ((pad, pad),) * dims + ((0, 0),) * rest)
    reach = (dilation * (k - 1) + 1,) * dims
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(dims)))
    steps = (stride,) * dims + (1,) * rest + (dilation,) * dims
    return view[tuple(slice(None, None, step) for step in steps)]


def _four(make: Any, *shapes: Sequence[int]) -> tuple[Work, ...]:
    return tuple(make(*shape) for shape in shapes)


_RESNET = (
    (224, 3, 64, 7, 2, 3), (56, 64, 64, 1, 1, 0), (14, 256, 256, 3, 1, 1), (7, 512, 512, 3, 1, 1),
)  # fmt: skip

FAMILIES: tuple[Work, ...] = (
    *_four(gmm, (1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)),
    *_four(
        c1d, (256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2),
        (32, 512, 512, 3, 1, 1),
    ),
    *_four(c2d, *_RESNET),
    *_four(c3d, *((16, *layer) for layer in _RESNET)),
    *_four(grp, (56, 64, 128, 3, 2, 1), *_RESNET[1:]),
    *_four(dil, *_RESNET),
    *_four(dep, (112, 32, 3, 1, 1), (112, 64, 3, 2, 1), (14, 512, 3, 2, 1), (7, 1024, 3, 1, 1)),
    *_four(
        t2d, (4, 512, 256, 4, 2, 1), (8, 256, 128, 4, 2, 1), (16, 128, 64, 4, 2, 1),
        (32, 64, 3, 4, 2, 1),
    ),
    *_four(
        cap, (16, 32, 32, 3, 2, 1), (8, 32, 32, 3, 1, 1), (16, 8, 16, 3, 2, 1),
        (8, 16, 16, 3, 1, 1),
    ),
    *_four(nrm, (1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)),
    *_four(sfm, (256, 256), (512, 512), (1024, 1024), (2048, 2048)),
    *_four(
        cbr, (224, 3, 64, 7, 2, 3), (56, 64, 128, 3, 2, 1), (28, 128, 256, 1, 2, 0),
        (7, 512, 512, 3, 1, 1),
    ),
    *_four(tbg, (1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)),
)  # fmt: skip
