"""The operator families as Halide algorithms, without a schedule.

As in ``halide_algorithms.py``, the first dimension is the innermost one: here the channels.
Dimensions of extent 1 are dropped, so that there is no batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any

import halide as hl

from benchmarks.peers.halide_algorithms import f32, sgemm, softmax

c, x, y, z, u, v = (hl.Var(name) for name in "cxyzuv")
PLACES = (x, y, z)


def _padded(image: Any, inner: Sequence[Any], extents: Sequence[int], pad: int) -> Any:
    """Pad the spatial dimensions, which follow the ``inner`` ones, with zeros."""
    if not pad:
        return image
    padded, places = hl.Func("padded"), PLACES[: len(extents)]
    inside = reduce(and_, ((p >= 0) & (p < n) for p, n in zip(places, extents)))
    near = [hl.clamp(p, 0, n - 1) for p, n in zip(places, extents)]
    padded[(*inner, *places)] = hl.select(inside, image[(*inner, *near)], f32(0))
    return padded


def _reads(sizes: Any, places: Sequence[Any], taps: Sequence[Any]) -> list[Any]:
    stride, pad, dilation = sizes["stride"], sizes["pad"], sizes.get("dilation", 1)
    return [p * stride + t * dilation - pad for p, t in zip(places, taps)]


def _conv(sizes: Any, image: Any, w: Any, extents: Sequence[int], out: Any) -> Any:
    """Declare a convolution over any number of spatial dimensions, of these ``extents``."""
    k, groups = sizes["k"], sizes.get("groups", 1)
    ic, oc = sizes["ic"] // groups, sizes["oc"] // groups
    places = PLACES[: len(extents)]
    padded = _padded(image, (c,), extents, sizes["pad"])
    r = hl.RDom([(0, ic)] + [(0, k)] * (len(places) if k > 1 else 0), "r")
    taps = [r[at + 1] for at in range(len(places))] if k > 1 else []
    channel = r[0] if groups == 1 else c // oc * ic + r[0]
    seen = _reads(sizes, places, taps or [0] * len(places))
    out[(c, *places)] = f32(0)
    out[(c, *places)] += padded[(channel, *seen)] * w[(c, r[0], *taps)]
    return out


def family_c1d(sizes: Any, image: Any, w: Any) -> Any:
    return _conv(sizes, image, w, (sizes["size"],), hl.Func("out"))


def family_c2d(sizes: Any, image: Any, w: Any) -> Any:
    return _conv(sizes, image, w, (sizes["size"],) * 2, hl.Func("out"))


def family_c3d(sizes: Any, image: Any, w: Any) -> Any:
    extents = (sizes["size"], sizes["size"], sizes["depth"])
    return _conv(sizes, image, w, extents, hl.Func("out"))


def family_cbr(sizes: Any, image: Any, w: Any, bias: Any, scale: Any, offset: Any) -> Any:
    conv = _conv(sizes, image, w, (sizes["size"],) * 2, hl.Func("conv"))
    out = hl.Func("out")
    out[c, x, y] = hl.max((conv[c, x, y] + bias[c]) * scale[c] + offset[c], f32(0))
    return out


def family_dep(sizes: Any, image: Any, w: Any) -> Any:
    k = range(sizes["k"])
    padded = _padded(image, (c,), (sizes["size"],) * 2, sizes["pad"])
    terms = [padded[(c, *_reads(sizes, (x, y), (i, j)))] * w[c, i, j] for j in k for i in k]
    out = hl.Func("out")
    out[c, x, y] = sum(terms[1:], terms[0])
    return out


def family_t2d(sizes: Any, image: Any, w: Any) -> Any:
    """Declare a transposed convolution, without the taps that would meet a zero between inputs."""
    k, s, pad, ic = sizes["k"], sizes["stride"], sizes["pad"], sizes["ic"]
    if k % s:
        raise ValueError(f"{k} taps are no multiple of a stride of {s}")
    # An output reads one position beyond the input, whatever the padding.
    padded = _padded(image, (c,), (sizes["size"],) * 2, 1)
    r = hl.RDom([(0, ic), (0, k // s), (0, k // s)], "r")
    seen = [(p + pad) // s - t for p, t in ((x, r[1]), (y, r[2]))]
    taps = [(p + pad) % s + t * s for p, t in ((x, r[1]), (y, r[2]))]
    out = hl.Func("out")
    out[c, x, y] = f32(0)
    out[c, x, y] += padded[r[0], seen[0], seen[1]] * w[c, r[0], taps[0], taps[1]]
    return out


def family_cap(sizes: Any, image: Any, w: Any) -> Any:
    """Declare a capsule convolution, for column ``u`` and row ``v`` of a capsule."""
    k = sizes["k"]
    padded = _padded(image, (c, u, v), (sizes["size"],) * 2, sizes["pad"])
    r = hl.RDom([(0, sizes["ic"]), (0, sizes["side"]), (0, k), (0, k)], "r")
    seen = _reads(sizes, (x, y), (r[2], r[3]))
    out = hl.Func("out")
    out[c, u, v, x, y] = f32(0)
    out[c, u, v, x, y] += padded[(r[0], r[1], v, *seen)] * w[c, r[0], u, r[1], r[2], r[3]]
    return out


def family_nrm(sizes: Any, a: Any) -> Any:
    """Declare the norm with columns summed first, since schedulers do not split a reduction."""
    i, j = hl.RDom([(0, sizes["m"])], "i"), hl.RDom([(0, sizes["n"])], "j")
    columns, total, out = hl.Func("columns"), hl.Func("total"), hl.Func("out")
    columns[x] = f32(0)
    columns[x] += a[x, i] * a[x, i]
    total[()] = f32(0)
    total[()] += columns[j]
    out[()] = hl.sqrt(total[()])
    return out


def family_tbg(sizes: Any, query: Any, value: Any) -> Any:
    query_t, value_t, out = (hl.Func(name) for name in ("query_t", "value_t", "out"))
    query_t[x, y, z] = query[x, z, y]
    value_t[x, y, z] = value[y, z, x]
    k = hl.RDom([(0, sizes["width"])], "k")
    out[x, y, z] = f32(0)
    out[x, y, z] += query_t[k, y, z] * value_t[x, k, z]
    return out


ALGORITHMS: dict[str, Callable[..., Any]] = {
    "family_gmm": sgemm,
    "family_sfm": softmax,
    "family_grp": family_c2d,
    "family_dil": family_c2d,
    **{
        f.__name__: f
        for f in (
            family_c1d, family_c2d, family_c3d, family_cbr, family_dep, family_t2d, family_cap,
            family_nrm, family_tbg,
        )
    },
}  # fmt: skip
