"""Operators of PyTorch that write at indices, sort, slide windows, or sample at places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.frontend import from_torch  # noqa: E402
from tests.marks import slow_but  # noqa: E402
from tests.test_from_torch import check  # noqa: E402
from tests.torch_models import Function  # noqa: E402

F = torch.nn.functional
REDUCES = [(r, s) for r in ("sum", "prod", "mean", "amax", "amin") for s in (True, False)]


def numbers(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def assigned(x: Any, i: Any, s: Any) -> Any:
    """Assign to slices, rows and elements in place."""
    y, z, w = x.clone(), x[None].repeat(2, 1, 1), x.clone()
    y[i[0]] = s[:3]
    y[i[0], 1] = 7.0
    y[:, i[0]] += 1
    y[1:2] = 0
    y[i, i % 3] = 9
    # an index between slices, which comes first in the value
    z[0, :, i[0]] = 5.0
    z[:, i[1] - 5] = 2.0
    w[w > 0] = -1
    w[w[:, 0] > 0] = 4
    return y, z, w


x, i, s = numbers(5, 3), torch.tensor([[0, 1, 2], [4, 4, 0]]), numbers(4, 3)
nan, inf = math.nan, math.inf
rows = torch.tensor([[3.0, nan, 1, 1, -inf, nan, inf], [2, 2, 2, 0, 0, -1, 5]])
counts = torch.tensor([[3, 1, 3, 0], [9, 9, 9, 9]])
edges = torch.tensor([0.0, 1.0, 1.0, 4.0])
image, kernel = numbers(2, 3, 7, 6), numbers(3, 2, 3, 2)
grid = numbers(2, 6, 5, 2) * 1.5
bags, starts = torch.tensor([1, 2, 4, 4, 0, 3, 1]), torch.tensor([0, 2, 2, 5])
labels = torch.tensor([[3, 0, -1, 1], [1, 2, -1, 0], [-1, 2, 2, 2]])

FAMILIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scatters": (lambda x, i, s: (
        x.scatter(0, i, s), x.scatter(1, i.T[:3] % 3, s[:3]), x.scatter(0, i, 2.0),
        x.scatter(0, i, 3.0, reduce="multiply"), x.scatter_add(0, i, s),
        x.scatter_add(-1, i[:, :2] % 3, s), (x > 0).scatter(0, i, s > 0),
        x[0, 0].scatter(0, i[0, 0], s[0, 0]), x[0, 0].scatter_add(0, i[0, :1], s[0]),
    ), (x, i, s)),
    "reduced": (lambda x, i, s: [
        v.scatter_reduce(0, i, u, r, include_self=b)
        for r, b in REDUCES for v, u in ((x, s), ((x * 9).int(), (s * 9).int()))
    ], (x, i, s)),
    "put": (lambda x, i, s: (
        x.index_add(0, i[0], s[:3]), x.index_add(1, i[0], x.abs(), alpha=2),
        x.index_copy(0, i[0], s[:3]), x.index_fill(0, i[1], 3.0),
        x.index_put((i[1],), s[:3], accumulate=True),
        x.index_put((i[1], i[0]), s[0], accumulate=True),
        (x > 0).index_put((i[0],), torch.tensor(True)),
    ), (x, i, s)),
    "assigned": (assigned, (x, i, s)),
    "sorts": (lambda y, k: (
        *torch.sort(y, stable=True), *torch.sort(y, dim=0, descending=True, stable=True),
        *torch.sort(k, descending=True, stable=True), *torch.sort(k > 2, stable=True),
        y.argsort(stable=True), *torch.sort(y[0, 0]), torch.topk(y, 3)[0],
        torch.topk(y, 2, largest=False)[0], *torch.topk(y[1, [0, 3, 5, 6]], 2),
    ), (rows, counts)),
    "medians": (lambda y, k: (
        y.median(), y.median(1)[0], y[1].median(), k.median(0, keepdim=True)[0],
        k.kthvalue(2, 1)[0], y.kthvalue(6)[0], y[0, 0].median(), y[1, 3:].median(0),
    ), (rows, counts)),
    "searches": (lambda y, k: (
        torch.bucketize(y, edges), torch.bucketize(y, edges, right=True),
        torch.searchsorted(edges, y, side="right"), torch.searchsorted(edges, 1.0),
        torch.searchsorted(torch.stack([edges, edges * 2]), y, out_int32=True),
        torch.bucketize(k, torch.tensor([1, 3, 9])),
    ), (rows, counts)),
    "windows": (lambda x: (
        *F.max_pool2d(x, 3, 2, 1, return_indices=True),
        *F.max_pool2d(x[0], (2, 3), (1, 2), dilation=(2, 1), ceil_mode=True, return_indices=True),
        *F.max_pool1d(x[0], 3, return_indices=True), *F.max_pool3d(x, 2, return_indices=True),
        *F.adaptive_max_pool2d(x, (3, 1), return_indices=True),
        *F.adaptive_max_pool1d(x[0], 4, return_indices=True),
        F.avg_pool2d(x, 3, 2, 1, divisor_override=4), F.avg_pool3d(x, 2, divisor_override=3),
        F.avg_pool2d(x[0], 3, 2, 1, ceil_mode=True, divisor_override=-2),
        x.unfold(1, 2, 1), x.unfold(-1, 3, 2) + 1, F.unfold(x, 2),
        F.fold(F.unfold(x, 2), (7, 6), 2), F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True),
        2, output_size=(7, 6)),
    ), (image,)),
    "transposed": (lambda x, w: (
        F.conv_transpose2d(x, w, stride=2, padding=1, dilation=(2, 3)),
        F.conv_transpose2d(x[:, :2], w[:2], dilation=2, groups=2, output_padding=1, stride=2),
        F.conv_transpose1d(x[:, :2, 0], w[:2, :, 0], dilation=3, groups=2),
        F.conv_transpose3d(x[None, :, :2], w[:2, :, None], groups=2),
    ), (image, kernel)),
    "bags": (lambda w, i, o: (
        *(F.embedding_bag(i, w, o, mode=m) for m in ("sum", "mean", "max")),
        F.embedding_bag(i, w, o, mode="mean", padding_idx=4),
        F.embedding_bag(i, w, o, mode="max", padding_idx=4),
        F.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        F.embedding_bag(i[:6].reshape(2, 3), w),
        F.embedding_bag(i, w, o, mode="sum", per_sample_weights=w.reshape(-1)[:7]),
    ), (x, bags, starts)),
    "functions": (lambda x, y, s: (
        x.erfc(), x.asinh(), (x.abs() + 1).acosh(), x.tanh().atanh(), x.logcumsumexp(1),
        (y[0] * 0 + y[1]).nan_to_num(-inf).logcumsumexp(0), x[0, 0].logcumsumexp(0), F.rrelu(x),
        F.bilinear(x, s[:1].expand(5, 3), s[:2, :, None].expand(2, 3, 3), s[:2, 0]),
        *(F.pdist(x, p) for p in (2.0, 1.0, 0.0, 3.0, inf)), F.pdist(x[:1]),
    ), (x, rows, s)),
    "margins": (lambda x, y: (
        *(F.multilabel_margin_loss(x, y, reduction=r) for r in ("none", "mean", "sum")),
        F.multilabel_margin_loss(x[0], y[0]), F.hinge_embedding_loss(x, (y > 0) * 2.0 - 1),
    ), (numbers(3, 4), labels)),
    **{f"samples: {m}": (lambda x, g, m=m: [
        F.grid_sample(v, g, m, p, a) for v in (x, x[:, :, :1, :1])
        for p in ("zeros", "border", "reflection") for a in (True, False)
    ], (image, grid)) for m in ("nearest", "bilinear", "bicubic")},
    "samples of volumes": (lambda x, g: [
        F.grid_sample(x[:, None], g, m, p, False)
        for p in ("zeros", "border", "reflection") for m in ("nearest", "bilinear")
    ], (image, numbers(2, 2, 3, 4, 3))),
}  # fmt: skip


@pytest.mark.parametrize(
    "family",
    slow_but(["put", "sorts", "windows", "bags"], FAMILIES),
)
def test_operators(family: str) -> None:
    function, args = FAMILIES[family]
    check(Function(function), *args, tolerance=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["put", "sorts", "windows", "bags", "samples: bilinear"])
def test_kernels(family: str) -> None:
    function, args = FAMILIES[family]
    module = Function(function)
    net = sl.network(from_torch(module, args), database=None)
    for own, other in zip(net(*(a.numpy() for a in args)), module(*args)):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_touches_no_other_memory() -> None:
    """An update there is dropped; negative indices count from the end."""
    start, near = torch.zeros(4), torch.zeros(6, dtype=torch.int64)
    far = np.array([10**12, -(10**12), 4, -5, -1, 1])
    for function in (
        lambda x, i: x.scatter(0, i, torch.ones(6)),
        lambda x, i: x.scatter_add(0, i, torch.ones(6)),
        lambda x, i: x.index_put((i,), torch.ones(6)),
    ):
        model = from_torch(Function(function), (start, near))
        # a kernel whose accesses are checked
        net = sl.network(model, target="python", database=None)
        for run in (model.reference, net):
            np.testing.assert_array_equal(run(start.numpy(), far), [0, 1, 0, 1])


def test_bags_read_no_other_memory() -> None:
    weight, ids = numbers(5, 3), torch.tensor([1, 2, 4])
    module = Function(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"))
    model = from_torch(module, (weight, ids, torch.tensor([0, 1])))
    net = sl.network(model, target="python", database=None)
    result = net(weight.numpy(), np.array([9, -7, 10**12]), np.array([-(10**12), 10**12]))
    # one bag of all rows, whose indices end at the last and first row, and an empty one
    wanted = weight.numpy()[[4, 0, 4]].sum(0)
    np.testing.assert_allclose(result, [wanted, np.zeros(3)], rtol=1e-6)


def test_samples_read_no_other_memory() -> None:
    """Zeros, or the element at the border; NaN gives 0."""
    points = np.array([[1e30, 0], [-1e30, 0], [inf, 0], [nan, 0]], "float32").reshape(1, 1, 4, 2)
    for padding, wanted in (("zeros", [0, 0, 0, 0]), ("border", [6, 4, 6, 0])):
        module = Function(lambda x, g, p=padding: F.grid_sample(x, g, "nearest", p, True))
        pixels = torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)
        model = from_torch(module, (pixels, torch.zeros(1, 1, 4, 2)))
        net = sl.network(model, target="python", database=None)
        np.testing.assert_array_equal(net(pixels.numpy(), points).ravel(), wanted)


def test_a_symbolic_batch() -> None:
    module = Function(
        lambda x: (*torch.topk(x, 2), x.median(1)[0], x.scatter(1, x.long() * 0, 2.0))
    )
    model = from_torch(module, (torch.zeros(2, 5),), batch="n")
    for rows in (1, 4, 7):
        data = numbers(rows, 5)
        for own, other in zip(model.reference(data.numpy()), module(data)):
            np.testing.assert_array_equal(own, other)
