"""Calls of NumPy's functions that run on the host, and of their neighbours that are stages."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

RNG = np.random.default_rng(3)
M = RNG.normal(size=(4, 6))
SQUARE = RNG.normal(size=(5, 5)) + 5 * np.eye(5)
SYMMETRIC = SQUARE @ SQUARE.T
BATCH = RNG.normal(size=(2, 3, 4, 4)) + 4 * np.eye(4)
V = RNG.normal(size=7)
UP = np.sort(RNG.normal(size=9))
INTS = RNG.integers(0, 9, size=30)
NANS = np.where(RNG.random((5, 7)) < 0.3, np.nan, RNG.normal(size=(5, 7)))
NANS[2] = np.nan
COMPLEX = RNG.normal(size=(4, 6)) + 1j * RNG.normal(size=(4, 6))
Call = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
CASES: dict[str, Call] = {}


def add(names: str, *arrays: np.ndarray, **options: Any) -> None:
    """Add a call of each function with ``arrays`` and ``options``."""
    for name in names.split():
        function = attrgetter(name)(np)
        text = ", ".join(f"{k}={str(v).replace(chr(10), '')[:25]}" for k, v in options.items())
        at = "x".join(map(str, arrays[0].shape)) + f" {arrays[0].dtype}"
        CASES[f"{name} of {at}{', ' * bool(text)}{text}"] = (
            lambda *a, f=function: f(*a, **options), arrays
        )  # fmt: skip


def case(name: str, function: Callable[..., Any], *arrays: np.ndarray) -> None:
    CASES[name] = function, arrays


for axis in (None, 0, -1):
    add("sort argsort median", M, axis=axis)
    add("nanmean nanstd nanmin nanmax nancumsum nanmedian", NANS, axis=axis)
add("sort sort_complex", COMPLEX)
add("sort argsort", INTS, kind="stable")
add("sort median", INTS.astype("uint8"))
add("sort median nanvar", M.astype("float32"))
add("nanvar nanstd", NANS, axis=1, ddof=2, keepdims=True)
add("nanmean nansum nancumprod", INTS)
add("nanmean", COMPLEX)
add("nanmax nanmin", NANS, axis=0, keepdims=True)
add("nanargmax nanargmin", NANS[:2], axis=1)
add("median", M, axis=(0, 1), keepdims=True)
add("quantile nanquantile", M, q=0.3)
add("quantile percentile nanpercentile", M, q=[0.25, 0.5, 0.75], axis=0)
add("quantile", M, q=0.4, axis=1, method="nearest", keepdims=True)
case("partition", lambda x: np.sort(np.partition(x, 2)[..., :3]), M)
case("argpartition", lambda x: np.sort(np.argpartition(x, 2)[..., :3]), M)
case("lexsort", lambda a, b: np.lexsort((a, b)), INTS % 3, INTS)
case("searchsorted", np.searchsorted, UP, M)
case("searchsorted right", lambda a, v: np.searchsorted(a, v, side="right"), INTS[:1], INTS)
case("searchsorted by a sorter", lambda a, v: np.searchsorted(a, v, sorter=np.argsort(a)), V, V)
case("digitize", np.digitize, M, UP)
case("isin", lambda a, b: np.isin(a, b), INTS, INTS[:3])
case("interp", lambda x, a, b: np.interp(x, a, b), M, UP, RNG.normal(size=9))
case("interp beyond", lambda x: np.interp(x, [0, 1, 2], [3, 1, 2], left=-1, right=-2), M)
case("unwrap", lambda x: np.unwrap(x * 9), V)
case("sorted rows by a column", lambda x: x[x[:, 1].argsort()], M)
case("sort of a sort", lambda x: np.sort(np.sort(x, 0) * -1, 1) + x, M)
case("method sort", lambda x: x[np.argsort(x.sum(axis=1))][::-1], M)

add("bincount", INTS, minlength=9)
case("bincount of weights", lambda x, w: np.bincount(x, w, 12), INTS, RNG.random(30))
case("bincount of bytes", lambda x: np.bincount(x, minlength=256), INTS.astype("uint8"))
add("histogram histogram_bin_edges", M)
add("histogram", M, bins=7, range=(-1, 1))
add("histogram", M.astype("float32"), bins=3, range=(-0.7, 1.1), density=True)
add("histogram", INTS, bins=9, range=(0, 9))
add("histogram", INTS, bins=[0, 2, 5, 9], density=True)
case("histogram of weights",
     lambda x, w: np.histogram(x, 5, (0, 9), weights=w), INTS, RNG.random(30))
case("histogram of edges", lambda x, e: np.histogram(x, e), M, UP)

add("cov corrcoef", M)
add("cov corrcoef", M, rowvar=False)
add("cov corrcoef", COMPLEX)
add("cov", M[0])
add("cov", M.astype("float32"), bias=True, dtype="float32")
case("cov of two", lambda x, y: np.cov(x, y), M[0], M[1])
case("cov of weights", lambda x, f, a: np.cov(x, fweights=f, aweights=a), M, INTS[:6], UP[:6] ** 2)
case("corrcoef of two", lambda x, y: np.corrcoef(x, y)[0, 1], M[0], M[1])
add("gradient", M)
add("gradient", M.astype("float32"), axis=1, edge_order=2)
add("gradient", INTS)
case("gradient of distances", lambda x: np.gradient(x, 0.5, 2.0), M)
for order in (1, 2):
    case(f"gradient at places, order {order}",
         lambda x, p, order=order: np.gradient(x, p, axis=1, edge_order=order), M, UP[:6])
add("trapezoid", M)
add("trapezoid", M, dx=0.25, axis=0)
case("trapezoid at places", np.trapezoid, M, UP[:6])
case("polyval", lambda x: np.polyval([1, -2, 0.5], x), M)
case("polyval of coefficients", np.polyval, V, M)
case("polyfit", lambda x, y: np.polyfit(x, y, 2), UP, UP**2)
add("vander", V)
add("vander", V, N=3, increasing=True)
case("unravel_index", lambda i: np.unravel_index(i, (2, 3, 5)), INTS)
case("ravel_multi_index", lambda i, j: np.ravel_multi_index((i, j), (9, 9)), INTS, INTS)

case("windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, 3) * 2, V)
case("windows of rows",
     lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0).sum(axis=-1), M)
case("windows of both",
     lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)).max(axis=(-1, -2)), M)

add("linalg.inv linalg.det linalg.slogdet linalg.cholesky linalg.eigvalsh", SYMMETRIC)
add("linalg.inv linalg.det linalg.pinv linalg.cond linalg.svdvals linalg.matrix_rank", BATCH)
add("linalg.inv linalg.det linalg.cholesky", SYMMETRIC.astype("float32"))
case("solve", np.linalg.solve, SQUARE, SQUARE[0])
case("solve of columns", np.linalg.solve, SQUARE, SQUARE[:, :2])
case("solve of many", np.linalg.solve, BATCH, BATCH[0, 0, :, :2])
case("solve of complex numbers", lambda a, b: np.linalg.solve(a + 2j * a.T, b), SQUARE, SQUARE)
for mode in ("reduced", "complete", "r"):
    case(f"qr, {mode}", lambda x, mode=mode: np.linalg.qr(x, mode), M)
case("svd", lambda x: np.linalg.svd(x, full_matrices=False), M)
case("full svd", lambda x: np.linalg.svd(x).S, M.T.copy())
case("eigh", lambda x: np.linalg.eigh(x).eigenvalues, SYMMETRIC)
case("eig of complex numbers", lambda x: np.linalg.eigvals(x + 0j).sum(), SQUARE)
case("solution that is used", lambda a, b: (a * 2 @ np.linalg.solve(a * 2, b)) - b, SQUARE, SQUARE)
case("tensorsolve", np.linalg.tensorsolve, np.eye(6).reshape(2, 3, 6), M[:2, :3])
case("tensorinv", np.linalg.tensorinv, np.eye(6).reshape(2, 3, 6))

for transform in ("fft.fft", "fft.ifft", "fft.rfft", "fft.fft2", "fft.rfftn", "fft.ihfft"):
    add(transform, M)
add("fft.fft fft.rfft", RNG.random(16).astype("float32"))
add("fft.irfft fft.irfft2 fft.hfft fft.irfftn fft.ifft2 fft.ifftn", COMPLEX)
add("fft.fft fft.rfft fft.irfft", M, n=8, axis=0)
add("fft.fft", COMPLEX, n=4, norm="ortho")
add("fft.fftn", BATCH, s=(4, 8), axes=(1, 3))
add("fft.fftshift fft.ifftshift", M)
add("fft.fftshift", V, axes=0)
case("a filter", lambda x: np.fft.irfft(np.fft.rfft(x) * (np.fft.rfftfreq(16) < 0.2)),
     RNG.random(16))

case("cbrt", lambda x: np.cbrt(x) + 1, M)
for number in (COMPLEX, COMPLEX.astype("complex64")):
    add("sqrt log log2 log10 log1p expm1 exp2 sin cos tan sinh cosh tanh", number)
    add("arcsin arccos arctan arcsinh arccosh arctanh sign", number)
for order in (2, -2, "nuc"):
    add("linalg.norm", M, ord=order)
    add("linalg.norm", BATCH, ord=order, axis=(0, 2), keepdims=True)
add("linalg.norm", COMPLEX.astype("complex64"), ord=2)
case("gcd", lambda x, y: np.gcd(x, y), INTS, INTS[::-1].copy())
case("modf", lambda x: np.modf(x), M)
case("frexp", lambda x: np.frexp(x[0] * 2), M)
case("nextafter", lambda x: np.nextafter(x, 0), M)
case("power of complex numbers", lambda z: z**2.5 + z**-0.5 + 2**z + z**z, COMPLEX)
case("power of complex singles", lambda z: z**0.5, COMPLEX.astype("complex64"))
case("power of zeros", lambda z: (z * 0) ** 1.5 + (z * 0) ** 0.0, COMPLEX)

# the length of a result is known to the elements alone
case("nonzero", lambda x: np.nonzero(x > 0), M)
case("where", lambda x: np.where(x > 0), M)
case("flatnonzero", lambda x: np.flatnonzero(x > 0) * 2, M)
case("argwhere", lambda x: np.argwhere(x > 0), M)
case("unique", lambda x: np.unique(x), INTS)
case("unique and counts",
     lambda x: np.unique(x, return_counts=True, return_inverse=True, return_index=True), INTS)
case("unique rows", lambda x: np.unique(x, axis=0), INTS.reshape(15, 2) // 4)
case("union1d, intersect1d, setdiff1d, setxor1d",
     lambda x, y: (np.union1d(x, y).sum(), np.intersect1d(x, y), np.setdiff1d(x, y),
                   np.setxor1d(x, y) * 2), INTS[:6], INTS[3:])
case("intersect1d and indices",
     lambda x, y: np.intersect1d(x, y, return_indices=True), INTS[:9], INTS[9:])
case("mask", lambda x: x[x > 0], M)
case("mask of rows", lambda x: x[x[:, 0] > 0], M)
case("sort under a mask", lambda x: np.sort(x[x > 0])[::-1] * 2, M)
case("count under a mask", lambda x: (x[x > 0].size * 2, x[x > 0].std(), x[x > 9].sum()), M)
case("two arrays under a mask", lambda x: x[x > 0] * (x + 1)[x > 0] + x[x > 0], M)
case("nothing under a mask", lambda x: x[x > 99] * 2, M)
case("mask of a selection", lambda x: (lambda y: y[y < 1])(x[x > 0]), M)
case("compress", lambda x: np.compress(x[:, 0] > 0, x, axis=0), M)
case("extract", lambda x: np.extract(x > 0, x * 2), M)
case("trim_zeros", lambda x: np.trim_zeros(np.where(x > 3, x, 0)), INTS)
case("bincount of unknown bins", lambda x: np.bincount(x) / np.bincount(x, minlength=0).sum(), INTS)
case("repeat by counts", lambda c: np.repeat(np.arange(30, like=c), c) + 1, INTS)
case("repeat of rows by counts", lambda x, c: np.repeat(x, c[:4], axis=0), M, INTS)
case("lstsq", lambda a, b: np.linalg.lstsq(a, b)[0], M.T.copy(), UP[:6])
case("a list of selections", lambda x: [x[x > k].sum() for k in range(3)], INTS)


def written(x: np.ndarray) -> Any:
    y = x[x > 0]
    z = y
    y += 1
    y[0] = 7
    return y.sum(), z, x


def assigned(x: np.ndarray) -> Any:
    mask = x > 0
    x[mask] = np.sort(x[mask])
    x[mask] *= 2
    return x


def ordered(x: np.ndarray) -> Any:
    x.sort()
    x[2:].partition(1)
    return x


case("a selection that is written", written, M)
case("an assignment of a sorted selection", assigned, M)
case("sorts in place", ordered, M[:, :3])
