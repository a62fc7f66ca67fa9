"""Modules of PyTorch as computations: each family of operators, and networks, beside PyTorch."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")

from schedlang.errors import CallError  # noqa: E402
from schedlang.frontend import from_torch  # noqa: E402
from tests import torch_models as models  # noqa: E402
from tests.marks import slow_but  # noqa: E402
from tests.torch_models import Function, randomized  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def flat(value: Any) -> list[Any]:
    """Return the tensors or arrays in containers, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def compare(found: Any, expected: Any, tolerance: float) -> None:
    """Compare results with PyTorch's, relative to the largest finite element of each."""
    assert len(flat(found)) == len(flat(expected))
    for own, other in zip(flat(found), flat(expected)):
        wanted = np.asarray(other)
        assert own.shape == wanted.shape and own.dtype == wanted.dtype
        large = np.abs(np.where(np.isfinite(wanted), wanted, 0).astype(float)).max(initial=0)
        np.testing.assert_allclose(own, wanted, rtol=0, atol=tolerance * large)


def check(module: Any, *args: Any, tolerance: float = 1e-4, **options: Any) -> Any:
    """Import ``module``, compare its reference with PyTorch at ``args``, and return the import."""
    model = from_torch(module, args, **options)
    with torch.no_grad():
        expected = module(*args)
    arrays = [a.numpy() for a in args if torch.is_tensor(a)]
    compare(model.reference(*arrays), expected, tolerance)
    return model


def numbers(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def written(x: Any) -> Any:
    """Write into slices, in place and through views."""
    y = x.clone()
    y[:, 0] = 3.0
    y[:, 2:5, ::2] += 1
    y.mul_(2).clamp_(min=0)
    z = y.view(-1)
    z[:4] = 7.0
    other = torch.zeros_like(x)
    other[:, 1:3] = x[:, 2:4]
    other[..., -1] = 5
    return y, other


x3, x4, indices = numbers(2, 6, 8), numbers(2, 4, 6, 8), torch.tensor([[3, 0], [2, 2], [1, 3]])
NAN = torch.tensor([[float("nan"), 1.0, -2.0], [float("inf"), float("-inf"), 0.0]])
integers = torch.arange(24).reshape(4, 6)

FAMILIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arithmetic": (lambda x, y: (
        x + y, x - y, x * y, x / y, x + 2, 2 - x, x // y, x % y, torch.fmod(x, y), x**2, x**3,
        x**0.5, 2**x, x.abs() ** y, torch.add(x, y, alpha=2), torch.maximum(x, y),
        torch.minimum(x, y), torch.rsub(x, 3), torch.div(x, y, rounding_mode="trunc"),
        torch.lerp(x, y, 0.3), torch.addcmul(x, y, y, value=0.5), torch.addcdiv(x, y, y + 9),
        x.sum() * 2 + 1, x.mean() / x.amax(),
    ), (x3, numbers(8))),
    "functions": (lambda x: (
        x.exp(), x.abs().log(), x.abs().sqrt(), x.abs().rsqrt(), x.sin(), x.cos(), x.tanh(),
        x.sigmoid(), x.erf(), x.floor(), x.ceil(), x.trunc(), (x * 2).round() / 2, x.sign(), -x,
        x.reciprocal(), torch.expm1(x), torch.log1p(x.abs()), torch.exp2(x), x.square(), x.frac(),
        torch.atan2(x, x + 1), torch.hypot(x, x * 3 - 1),
    ), (x3,)),
    "numbers": (lambda x: (
        torch.round(torch.tensor([0.5, 1.5, -2.5, 2.5]) + 0 * x[0, 0]), torch.isnan(x),
        torch.isinf(x), torch.nan_to_num(x), torch.relu(x), F.softplus(x), F.hardtanh(x),
        x.clamp(-1, 1), x.clamp(math.nan, 1.0), x.clamp(-1.0, math.nan), x.clamp(math.nan),
        x.clamp(max=math.nan), x.clamp(2.0, 1.0), torch.maximum(x, torch.zeros_like(x)),
        F.silu(x), x == x, x != x,
        x.max(1)[0], x.amin(0), torch.where(x > 0, x, 0.0), F.leaky_relu(x), x.sum(1), x * 0,
        x.sign(),
    ), (NAN,)),
    "integers": (lambda k: (
        k + 1.5, k / 2, k * 2, k // 4, k % 5, k.sum(), k.float().mean(), k.sum(1), k > 2.5, k == 3,
        k & 6, k | 1, k ^ 3, k.prod(1), k << 1, (k > 3).sum(), (k > 3) + 1,
        k.to(torch.float64) * 2, k.to(torch.bool), torch.sqrt(k), torch.sigmoid(k), k.clamp(3, 9),
        k.clamp(min=2.5), k.argmax(), k.max(1), k.cumsum(0), ~(k > 3), ~k, k.int() + k.float(),
        -k, k.abs(), torch.arange(1, 9, 3) + k[0, 0],
    ), (integers,)),
    "activations": (lambda x: (
        F.relu(x), F.relu6(x), F.leaky_relu(x, 0.1), F.elu(x, 1.5), F.selu(x), F.celu(x, 0.5),
        F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x),
        F.softplus(x, 2, 1.0), F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x), F.logsigmoid(x),
        F.glu(x, 1), F.softsign(x), F.tanhshrink(x), F.hardshrink(x), F.softshrink(x),
        F.threshold(x, 0.1, 0.2), F.softmax(x, 1), F.log_softmax(x, -1), F.softmin(x, 0),
        F.prelu(x, torch.tensor([0.25])), F.prelu(x, torch.arange(6.0)),
        F.softmax(x, 1, dtype=torch.float64),
    ), (x3,)),
    "choices": (lambda x, y: (
        x > y, x >= 0, x == y, x != 0, torch.where(x > y, x, y), torch.where(x > 0, 1, x),
        x.masked_fill(x > 0, -1e9), torch.logical_and(x > 0, y > 0), (x > 0) & (y > 0),
        x.clamp(-0.5, 0.5), x.clamp(min=0), torch.clamp(x, max=y), x.clamp(2.0, 1.0),
        torch.ones_like(x), torch.full_like(x, 3), x.new_zeros(3) + 1,
    ), (x3, x3.flip(0))),
    "reductions": (lambda x: (
        x.sum(), x.sum((0, 2), keepdim=True), x.mean(), x.mean((1, 2)), x.amax(1),
        x.amin((0, 1)), x.max(), x.min(1), x.max(2, keepdim=True)[1], x.argmax(),
        x.argmin(1, keepdim=True), x.prod(1), x.var(1), x.std((0, 1)),
        x.var(1, correction=0, keepdim=True), torch.var_mean(x, 2), x.norm(), x.norm(1, dim=1),
        torch.linalg.vector_norm(x, 3, dim=2), torch.logsumexp(x, 1),
        torch.logsumexp(x, (0, 2), keepdim=True), (x > 0).any(), (x > 0).all(1), x.cumsum(1),
        x.cumprod(2), F.normalize(x, dim=1),
        torch.linalg.vector_norm(x, float("inf"), dim=(0, 1)),
        torch.linalg.vector_norm(x.relu(), 0, dim=1), torch.any(x.relu(), dim=()),
        torch.all(x.relu(), dim=(), keepdim=True), torch.any(x > 0, dim=()),
        torch.any(x[0, 0, 0], dim=()), torch.any(x, dim=None), (x > 0).to(torch.uint8).any(1),
        (x > 0).to(torch.uint8).all(), x.sum(()), x.amax(()),
    ), (x3,)),
    "shapes": (lambda x: (
        x.view(2, -1), x.reshape(4, 2, 6, 8), x.flatten(1), x.permute(0, 2, 3, 1),
        x.transpose(1, 2).contiguous().view(2, -1), x.unsqueeze(1), x[:, :1].squeeze(1),
        x.squeeze(), x[:, 0], x[:, 1:3], x[:, :, ::2], x[..., -1], x[:, -2:], x.chunk(3, 3),
        x.split([1, 3], 1), x.unbind(1)[2], torch.cat([x, x * 2], 1), torch.stack([x, x + 1], 1),
        torch.cat([torch.zeros(0), x[0, 0, 0]]), x.repeat(1, 2, 1, 1), x.flip(1), x.roll(1, 2),
        x.roll((1, 2), (2, 3)), x.expand(3, 2, 4, 6, 8), x[0].expand(5, -1, -1, -1), x.mT,
        x[..., :6].tril(), x[..., :6].triu(1), x.diagonal(0, 2, 3), x.movedim(1, 3),
        x.unflatten(3, (2, 4)), x.narrow(3, 2, 3), torch.tile(x, (2, 1)), x.swapaxes(0, 1),
        x.ravel(), x.repeat_interleave(2, 1), F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2),
        F.channel_shuffle(x, 2),
    ), (x4,)),
    "indices": (lambda x, i, k: (
        x[i], x[:, i], torch.index_select(x, 0, i[:, 0]), F.embedding(i, x),
        torch.gather(x, 0, k), torch.gather(x, 0, k[:, :2]), x[i, i], x[[0, 2]], x[:, [0, -1]],
        F.one_hot(i, 6), torch.take_along_dim(x, k, 0), x[None, ..., None],
    ), (numbers(6, 4), indices, torch.tensor([[5, 0, 3, 1], [2, 2, 4, 0]]))),
    "writes": (written, (x3,)),
    "pads": (lambda x: (
        F.pad(x, (1, 2)), F.pad(x, (1, 0, 2, 1), value=3.0), F.pad(x, (1, 2, 2, 1), "reflect"),
        F.pad(x, (1, 2, 2, 1), "replicate"), F.pad(x, (1, 2, 2, 1), "circular"),
        F.pad(x, (-1, 2)), F.pad(x, (-1, -2, 0, 0)),
    ), (x4,)),
    "poolings": (lambda x: (
        F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, (2, 3), (1, 2), ceil_mode=True),
        F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool2d(x, (None, 2)),
        F.adaptive_max_pool2d(x, (2, 3)), F.max_pool2d(x[0], 2), F.avg_pool1d(x[0], 2),
        F.max_pool1d(x[0], 3, 1), F.adaptive_avg_pool1d(x[0], 3), F.adaptive_max_pool1d(x[0], 3),
        F.max_pool3d(x[None], 2), F.avg_pool3d(x[None], 2),
        F.adaptive_avg_pool3d(x[None], (2, 3, 2)), F.lp_pool2d(x.abs(), 2, 2),
    ), (x4,)),
    "sizes": (lambda x: (
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 5)),
        F.interpolate(x, size=(9, 5), mode="nearest-exact"),
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(9, 5), mode="bilinear", align_corners=True),
        F.interpolate(x, size=(3, 5), mode="bilinear"),
        F.interpolate(x, size=(9, 11), mode="bicubic"),
        F.interpolate(x[0], size=11, mode="linear"),
        F.interpolate(x[None], size=(3, 7, 5), mode="trilinear"),
        F.interpolate(x, scale_factor=0.5, mode="area"),
    ), (x4,)),
    "smooth sizes": (lambda x: tuple(
        F.interpolate(x, size=size, mode=mode, antialias=True)
        for mode in ("bilinear", "bicubic") for size in ((3, 11), (13, 2))
    ), (x4,)),
    "products": (lambda a, b, c: (
        a @ b, torch.matmul(a[0], b[0]), torch.bmm(a, b), torch.matmul(a, c), torch.mv(a[0], c),
        torch.dot(c, c), torch.einsum("b i j , b j k -> i k", a, b),
        torch.einsum("...ij,...jk->...ik", a, b), torch.baddbmm(a @ b, a, b, beta=0.5, alpha=2),
        torch.addmm(a[0] @ b[0], a[0], b[0]), torch.outer(c, c), F.linear(a, b[0].T),
        F.linear(c, b[0].T), torch.tensordot(a, b, dims=([0, 2], [0, 1])),
        torch.addmv(c[:5], a[0], c), torch.kron(a[0], b[0]),
        *(torch.cdist(a, a.flip(1) + 1, p) for p in (2.0, 1.0, 0.0, 3.0, float("inf"))),
        torch.cdist(a[0], a + 0.5, compute_mode="donot_use_mm_for_euclid_dist"),
    ), (numbers(2, 5, 6), numbers(2, 6, 4), numbers(6))),
    "attention": (lambda q, k, v, m: (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m.float(), scale=0.3),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m & (q[0, 0, :, :1] > -9)),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m & (torch.arange(5) != 2)[:, None]),
        F.scaled_dot_product_attention(q[0], k[0], v[0], attn_mask=m),
        F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0]),
        F.scaled_dot_product_attention(q.repeat(1, 2, 1, 1), k, v, enable_gqa=True),
    ), (numbers(2, 3, 5, 4), numbers(2, 3, 7, 4), numbers(2, 3, 7, 6),
        torch.arange(35).reshape(5, 7) % 4 != 1)),
}  # fmt: skip


@pytest.mark.parametrize(
    "family", slow_but(["arithmetic", "shapes"], FAMILIES)
)
def test_operators(family: str) -> None:
    function, args = FAMILIES[family]
    check(Function(function), *args, tolerance=2e-6)


def test_an_index_out_of_range_reads_no_other_memory() -> None:
    """PyTorch refuses it; indices count around, and those of a gather end at the last element."""
    x, near = torch.arange(8.0), torch.zeros(6, dtype=torch.int64)
    far = np.array([10**12, -(10**12), 100_000, -9, -1, 3])
    for function, places in (
        (lambda x, i: x[i], far % 8),
        (lambda x, i: torch.gather(x, 0, i), np.clip(far, 0, 7)),
        (lambda x, i: torch.index_select(x, 0, i), np.clip(far, 0, 7)),
        (lambda x, i: F.embedding(i, x[:, None])[:, 0], np.clip(far, 0, 7)),
    ):
        found = from_torch(Function(function), (x, near))
        np.testing.assert_array_equal(found.reference(x.numpy(), far), x.numpy()[places])
        # the same body as a kernel, with each read checked
        net = sl.network(found, target="python", database=None)
        np.testing.assert_array_equal(net(x.numpy(), far), x.numpy()[places])


def test_a_gather_without_dimensions() -> None:
    one = torch.tensor([3.0, 4.0])
    check(Function(lambda x, i: torch.gather(x, 0, i)), one, torch.tensor(1))
    check(Function(lambda x, i: torch.gather(x, 0, i)), one[1], torch.tensor(0))
    check(Function(lambda x, i: torch.gather(x, -1, i)), one[1], torch.tensor([0, 0]))


# of float16, whose largest number is 65504
HALVES: dict[str, tuple[Callable[..., Any], list[list[float]]]] = {
    "softplus": (lambda x: (
        F.softplus(x), F.softplus(x, 0.1, 100), F.softplus(x, -2, 8), F.softplus(x, 1, 5), F.mish(x)
    ), [[12, 15, 19, 20, 20.5, 11.1, -3, -20, 60000, -60000]]),
    "norms": (lambda x: (
        *(torch.linalg.vector_norm(x, p) for p in (2, 1, 0, 3, -2, 0.5, float("inf"))),
        torch.linalg.vector_norm(x, dtype=torch.float32), F.normalize(x, dim=0),
        F.cosine_similarity(x, x, dim=0), F.pairwise_distance(x, -x),
    ), [[300, 400]]),
    "scans": (lambda x, y: (
        torch.cumsum(x, 0), torch.cumsum(x, 0, dtype=torch.float32), torch.cumprod(y, 0),
    ), [[1] * 5000, [300, 300, 0.001, 1.001]]),
    "sums": (lambda x, y, z: (
        torch.addcmul(x, y, z), torch.addcmul(x, y / 10, z / 10, value=100),
        torch.addcdiv(x, y, 1 / z), torch.addcdiv(x, y, z, value=60000),
    ), [[-60000, 1], [300, 2], [250, 3]]),
}  # fmt: skip


@pytest.mark.parametrize("family", HALVES)
def test_float16_is_computed_in_float32(family: str) -> None:
    function, rows = HALVES[family]
    check(Function(function), *(torch.tensor(r, dtype=torch.float16) for r in rows), tolerance=1e-3)


@pytest.mark.parametrize("dtype", slow_but(["float16"], ["float16", "bfloat16"]))
def test_kernels_sum_short_floats_in_float32(dtype: str) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.float16
    x = (torch.arange(15000) % 7 + 1).reshape(3, 5000).to(getattr(torch, dtype))
    module = Function(lambda x: (x.sum(1), x.mean(1), x.var(1), torch.logsumexp(x * 0, 1)))
    net = sl.network(from_torch(module, (x,)), target="python")
    found = net(x.float().numpy().astype(kind))
    compare([a.astype("float32") for a in found], [t.float() for t in module(x)], 2.0**-8)


@pytest.mark.parametrize("dtype", slow_but(["bfloat16"], ["float16", "bfloat16"]))
def test_kernels_sum_products_of_short_floats_in_float32(dtype: str) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.float16
    # 7500 products of 1, and a sum of 270,000
    one, x = torch.ones(1, 1, 7500).to(getattr(torch, dtype)), torch.full((1, 2, 300), 30.0)
    module = Function(lambda o, x: (
        # 90,000 before the bias
        F.conv1d(x[..., :50], x[..., :50], x[0, 0, :1] * -2000),
        F.conv1d(o, o), F.conv2d(o[None], o[None]), F.conv3d(o[None, None], o[None, None]),
        F.conv2d(o.reshape(1, 2, 1, -1), o.reshape(2, 1, 1, -1), groups=2),
        F.conv1d(o.reshape(1, 2, -1), o.reshape(2, 1, -1), groups=2),
        F.conv_transpose1d(o.mT, o.reshape(-1, 1, 1)),
        F.conv_transpose2d(o.mT[..., None], o.reshape(-1, 1, 1, 1)),
        F.linear(o[0], o[0], o[0, 0, :1] * 1000), o[0] @ o[0].T, o @ o.mT, torch.mv(o[0], o[0, 0]),
        torch.bmm(o, o.mT), torch.einsum("bij,bkj->ik", o, o),
        torch.addmm(x[0, :, :2], x[0], x[0].T, alpha=0.1, beta=2),
        torch.baddbmm(x[..., :2], x, x.mT, alpha=0.1),
        torch.addbmm(x[0, :, :2], x, x.mT, alpha=0.1),
        torch.addmv(x[0, :, 0], x[0], x[0, 0], alpha=0.1, beta=0),
    ))  # fmt: skip
    given = one, x.to(getattr(torch, dtype))
    net = sl.network(from_torch(module, given), target="python")
    found = net(*(a.float().numpy().astype(kind) for a in given))
    assert all(a.dtype == kind for a in found)
    compare([a.astype("float32") for a in found], [t.float() for t in module(*given)], 2.0**-8)


@pytest.mark.parametrize("own, new", [(2, 82), (2, 94), (14, 46), (3, 123), (4, 8), (7, 97)])
def test_nearest_pixels_are_those_of_steps_in_float32(own: int, new: int) -> None:
    """For one or two sizes in a hundred, an exact step gives other pixels."""
    rows = torch.arange(own * 3.0).reshape(1, 1, own, 3)
    by = (new / own, 2) if new % own == 0 else None
    check(Function(lambda x: (
        F.interpolate(x, size=(new, 5)), F.interpolate(x[0], size=new),
        F.interpolate(x.half(), size=(own, new)),
        F.interpolate(x, scale_factor=by) if by else x,
    )), rows, tolerance=0)  # fmt: skip


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 1, groups=2), (2, 4, 9)),
    "conv3d": (lambda: nn.Conv3d(2, 3, (1, 2, 3), padding=1), (1, 2, 3, 4, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (1, 4, 5, 6)),
    "multiplied": (lambda: nn.Conv2d(4, 8, 3, dilation=2, groups=4, bias=False), (1, 4, 7, 7)),
    "same": (lambda: nn.Conv2d(2, 3, (4, 3), padding="same", dilation=(1, 2)), (1, 2, 7, 8)),
    "one image": (lambda: nn.Conv2d(2, 3, 3), (2, 5, 5)),
    "circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (1, 2, 5, 5)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(3, 4, 4, 2, 1), (2, 3, 5)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (1, 4, 4, 5)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(2, 3, 2, 2), (1, 2, 2, 3, 2)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "group norm of vectors": (lambda: nn.GroupNorm(2, 4, affine=False), (3, 4)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5)),
    "rms norm": (lambda: nn.RMSNorm(5), (2, 5)),
    "batch statistics": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (4, 3, 5)),
    "bilinear": (lambda: nn.Upsample(scale_factor=(2, 3), mode="bilinear"), (1, 2, 3, 4)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True), (5, 2, 8)
    ),
    "projected": (lambda: nn.LSTM(3, 4, 1, proj_size=2, bias=False), (5, 2, 3)),
    "elman": (lambda: nn.RNN(3, 4, 2, bidirectional=True, batch_first=True), (2, 4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("layer", slow_but(["depthwise", "transposed 2d"], LAYERS))
def test_layers(layer: str) -> None:
    make, shape = LAYERS[layer]
    torch.manual_seed(0)
    check(randomized(make()), numbers(*shape))


IMAGE, WORDS = (2, 3, 32, 32), torch.arange(21).reshape(3, 7) * 7 % 20
NETWORKS: dict[str, tuple[Callable[[], Any], Any]] = {
    "resnet-18": (models.ResNet, numbers(*IMAGE)),
    "resnet-50": (lambda: models.ResNet(bottleneck=True), numbers(*IMAGE)),
    "mobilenet": (models.MobileNet, numbers(*IMAGE)),
    "efficientnet": (lambda: models.MobileNet(efficient=True), numbers(*IMAGE)),
    "vit": (models.ViT, numbers(*IMAGE)),
    "vit by hand": (lambda: models.ViT("hand"), numbers(*IMAGE)),
    "vit fused": (lambda: models.ViT("fused"), numbers(*IMAGE)),
    "lstm": (models.Tagger, WORDS),
    "lstm, steps first": (lambda: models.Tagger(batch_first=False), WORDS),
    "lstm both ways": (lambda: models.Tagger(both=True), WORDS),
    "gru": (lambda: models.Tagger("GRU", both=True), WORDS),
    "mlp": (models.MLP, numbers(4, 12)),
    "u-net": (models.UNet, numbers(1, 2, 8, 8)),
}


@pytest.mark.parametrize("network", slow_but(["efficientnet", "vit fused", "lstm"], NETWORKS))
def test_networks(network: str) -> None:
    make, example = NETWORKS[network]
    torch.manual_seed(0)
    check(randomized(make()), example)


def changed(make: Callable[..., Any]) -> Any:
    """Return a module that makes a tensor by a convolution, for ``make`` to write into."""
    torch.manual_seed(0)
    return Function(lambda x, conv: make(conv(x), x), conv=nn.Conv1d(4, 4, 1)).eval()


# what reads the memory that an in-place operator writes: nothing else, or something else
READ_ONCE: dict[str, Callable[..., Any]] = {
    "chain": lambda y, x: y.relu_().add_(x).mul_(2),
    "read later": lambda y, x: (y.relu_(), y + x)[1],
    "dropout": lambda y, x: F.dropout(y.relu_(), training=False, inplace=True) + x,
    "norm": lambda y, x: F.relu(F.batch_norm(y, torch.zeros(4), torch.ones(4)), inplace=True),
}
READ_AGAIN: dict[str, Callable[..., Any]] = {
    "view": lambda y, x: (y[0], y.add_(1))[0],
    "through a view": lambda y, x: (y.view(-1).add_(1), y * 2)[1],
    "same dtype": lambda y, x: y.to(torch.float32).add_(1) + y,
    "input": lambda y, x: (x.clone().add_(1), y + x)[1],
    "other dtype": lambda y, x: y.add_(x.double() / 3),
    "part": lambda y, x: (y.chunk(2)[0].relu_(), y + 1)[1],
    "output": lambda y, x: (y, y.add_(1)),
}
# their results have the dtype of the operand, unlike the results of the functional operators
COMPARED: dict[str, Callable[..., Any]] = {
    "gt": lambda y, x: y.gt_(0.1),
    "eq": lambda y, x: y.relu_().eq_(0.0) + x,
    "logical_and": lambda y, x: y.logical_and_(x),
    "logical_not": lambda y, x: y.gt_(0.1).logical_not_(),
}


@pytest.mark.parametrize("case", slow_but(
    ["chain", "through a view", "input", "other dtype", "output", "gt"],
    [*READ_ONCE, *READ_AGAIN, *COMPARED],
))  # fmt: skip
def test_in_place_operators(case: str) -> None:
    check(changed({**READ_ONCE, **READ_AGAIN, **COMPARED}[case]), numbers(2, 4, 3), tolerance=1e-6)


@pytest.mark.parametrize(
    "network",
    slow_but(["vit by hand", "mlp"], ["resnet-18", "mobilenet", "vit by hand", "u-net", "mlp"]),
)
def test_graphs_are_converted_as_exported(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's decompositions take two to five times as long as the export."""
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    make, example = NETWORKS[network]
    from_torch(make().eval(), example)
    for in_place in READ_ONCE.values():
        from_torch(changed(in_place), numbers(2, 4, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "efficientnet_b0"])
def test_networks_of_torchvision(name: str) -> None:
    try:
        from torchvision import models as published
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision, built for this PyTorch, is not installed: {error}")
    torch.manual_seed(0)
    model = check(randomized(getattr(published, name)()), numbers(1, 3, 64, 64))
    assert {layer.partition(".")[0] for layer in model.layers.values()} <= {
        "", "conv1", "bn1", "relu", "layer1", "layer2", "layer3", "layer4", "fc", "avgpool",
        "maxpool", "features", "classifier",
    }  # fmt: skip


BATCHES: dict[str, tuple[Callable[[], Any], Any, tuple[int, ...]]] = {
    "resnet-18": (models.ResNet, numbers(1, 3, 32, 32), (0, 1, 3)),
    "vit by hand": (lambda: models.ViT("hand"), numbers(1, 3, 32, 32), (1, 2)),
    "vit fused": (lambda: models.ViT("fused"), numbers(1, 3, 32, 32), (1, 2)),
    "gru": (lambda: models.Tagger("GRU", both=True), WORDS[:1], (1, 3)),
    "u-net": (models.UNet, numbers(1, 2, 8, 8), (1, 2)),
    "mlp": (models.MLP, numbers(1, 12), (1, 5)),
}


@pytest.mark.parametrize("network", slow_but(["mlp"], BATCHES))
def test_a_symbolic_batch(network: str) -> None:
    make, example, batches = BATCHES[network]
    torch.manual_seed(0)
    module = randomized(make())
    model = from_torch(module, example, batch="n")
    assert str(model.inputs[0].shape[0]) == "n"
    for n in batches:
        given = torch.cat([example] * 5)[:n]
        with torch.no_grad():
            compare(model.reference(given.numpy()), module(given), 1e-4)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(numbers(12, 4))

    def forward(self, x: Any, y: Any) -> Any:
        return x + self.table[: x.shape[1]] * y[: x.shape[1]]


def test_a_size_with_a_bound() -> None:
    """A table of 12 positions serves all sizes up to 12; a call refuses more."""
    module, dim = Positions(), torch.export.Dim("t", max=12)
    # the bound counts wherever it is given
    dims = {"x": {1: "t"}, "y": {0: dim}}
    model = sl.frontend.from_torch(module, (numbers(2, 5, 4), numbers(5, 4)), dynamic_shapes=dims)
    net = sl.network(model, target="python", database=None)
    for steps in (1, 5, 12):
        x, y = numbers(2, steps, 4), numbers(steps, 4)
        for run in (model.reference, net):
            compare(run(x.numpy(), y.numpy()), module(x, y).detach(), 1e-5)
    with pytest.raises(CallError, match="t is 13 in dimension 1 of x, but t must be 12 or less"):
        net(numbers(2, 13, 4).numpy(), numbers(13, 4).numpy())


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["lstm", "gru"])
def test_a_symbolic_batch_of_a_recurrent_layer_as_a_network(layer: str) -> None:
    """The weights of its steps are packed whatever the batch is."""
    kinds = {"lstm": nn.LSTM, "gru": nn.GRU}
    module = kinds[layer](6, 16, 2, bidirectional=True, batch_first=True).eval()
    net = sl.network(sl.frontend.from_torch(module, [numbers(2, 5, 6)], batch="n"))
    for batch in (1, 3, 32):
        x = numbers(batch, 5, 6)
        compare(net(x.numpy())[0], module(x)[0].detach(), 1e-5)


@pytest.mark.parametrize("layer", ["lstm", "gru", "rnn", "relu"])
def test_the_number_of_steps_of_a_recurrent_layer_is_a_size(layer: str) -> None:
    """Also of stacked layers in both directions; PyTorch computes as before afterwards."""
    kinds = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN,
             "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)}  # fmt: skip
    torch.manual_seed(0)
    module = kinds[layer](3, 4, num_layers=2, bidirectional=True).eval()
    kernels = dict(torch.ops.aten.lstm.input.py_kernels)
    dims = {"input": {0: "steps", 1: "batch"}}
    model = sl.frontend.from_torch(module, [numbers(5, 2, 3)], dynamic_shapes=dims)
    assert dict(torch.ops.aten.lstm.input.py_kernels) == kernels
    for steps, batch in ((1, 3), (5, 1), (9, 2)):
        x = numbers(steps, batch, 3)
        compare(model.reference(x.numpy())[0], module(x)[0].detach(), 1e-5)


def test_placeholders_say_what_the_inputs_are() -> None:
    n, width = sl.var("n"), sl.var("width")
    left = sl.placeholder((n, width), name="left")
    right = sl.placeholder((n,), "int32", name="right")
    model = from_torch(Function(lambda x, y: x.sum(1) * y + x.shape[1] * x.shape[0]), (left, right))
    assert model.inputs == (left, right)
    a, b = np.ones((3, 5), "float32"), np.arange(3, dtype="int32")
    np.testing.assert_array_equal(model.reference(a, b), a.sum(1) * b + 15)
    declared = from_torch(
        Function(lambda x, y: x.sum(1) * y + x.shape[1] * x.shape[0]),
        (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int32)),
        dynamic_shapes=[[{0: "n", 1: torch.export.Dim("width")}, {0: "n"}]],
    )
    assert [[str(e) for e in t.shape] for t in declared.inputs] == [["n", "width"], ["n"]]
    np.testing.assert_array_equal(declared.reference(a, b), a.sum(1) * b + 15)


def test_stages_have_the_names_of_layers() -> None:
    torch.manual_seed(0)
    model = from_torch(randomized(models.ResNet(width=2)), numbers(1, 3, 16, 16))
    stages = [stage.op.name for stage in sl.schedule(list(model.outputs)).stages]
    for name in ("conv1", "bn1", "relu", "maxpool", "layer1_0_conv1", "layer1_0_bn1",
                 "layer1_0_add", "layer1_0_relu_1", "layer2_0_downsample_0", "avgpool", "fc",
                 "fc.product"):  # fmt: skip
        assert name in stages, stages
    assert len({*stages}) == len(stages) and {*model.layers} <= {*stages}
    assert model.layers["layer1_0_conv1"] == "layer1.0.conv1"
    assert model.layers["layer1_0_add"] == "layer1.0"
    assert model.layers["layer1_0_bn1.batch_norm_scale"] == "layer1.0.bn1"
    # an output is the last stage of its layer, and a part has the name of its layer
    assert [out.name for out in model.outputs] == ["fc"] and model.layers["fc.product"] == "fc"
    parts = {part.name: part for part in sl.network(model, target="python").partition}
    assert parts["fc"].stages[-2:] == ("fc.product", "fc") and "avgpool" in parts
    names = {param.name for param in model.params}
    assert "layer1_0_conv1_weight" in names and "bn1_running_var" in names
    assert "bn1_num_batches_tracked" not in names


def test_a_call_writes_the_output_that_it_is_given_by_the_name_of_a_layer() -> None:
    layers = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Conv1d(2, 3, 1)).eval()
    x = numbers(2, 6)
    net = sl.network(from_torch(layers, x), target="python")
    out = np.empty((3, 4), "float32")
    assert net(x, layer_2=out) is out
    with torch.no_grad():
        np.testing.assert_allclose(out, layers(x), rtol=1e-5, atol=1e-6)


def test_params_keep_their_values_and_dtypes() -> None:
    tied, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.weight = tied.weight
    with torch.no_grad():
        tied.weight[0, 0] = float("nan")
    half = nn.Linear(3, 2).half()
    module = Function(
        lambda x, a, b, h: (F.linear(a(x), b.weight), x.half() @ h.weight.T, torch.tensor(2) * x),
        a=tied, b=other, h=half,
    )  # fmt: skip
    model = from_torch(module, torch.ones(2, 3))
    values = {tensor.name: array for tensor, array in model.params.items()}
    assert {*values} == {"a_weight", "a_bias", "h_weight", "lifted_tensor_0"}
    np.testing.assert_array_equal(values["a_weight"], tied.weight.detach().numpy())
    assert values["h_weight"].dtype == np.float16
    # a copy: training goes on
    tied.weight.data.zero_()
    assert values["a_weight"][1, 1] != 0


def test_the_structure_of_outputs_is_kept() -> None:
    module = Function(lambda x: {"same": [x, x], "more": (x + 1, None), "last": x + 1})
    model = from_torch(module, torch.zeros(2))
    assert model.structure == {"same": [0, 0], "more": (1, None), "last": 2}
    found = model.reference(np.array([1, 2], "float32"))
    assert found["same"][0].tolist() == [1, 2] and found["more"][0].tolist() == [2, 3]
    assert found["more"][1] is None and found["last"].tolist() == [2, 3]
    again = pickle.loads(pickle.dumps(model))
    assert again.reference(np.array([1, 2], "float32"))["last"].tolist() == [2, 3]


def test_inputs_in_containers_have_symbolic_dimensions() -> None:
    class Nested(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, given: Any, empty: Any, last: Any) -> Any:
            return x * given[0] - given["more"][1] + last

    ones = torch.ones(2, 3)
    model = from_torch(
        Nested().eval(), (ones, {0: ones, "more": [None, ones]}, {}, ones),
        dynamic_shapes={"x": {0: "n"}, "given": {0: {0: "n"}, "more": [None, {0: "n"}]},
                        "last": {0: "n"}},
    )  # fmt: skip
    assert [str(t.shape[0]) for t in model.inputs] == ["n"] * 4
    found = model.reference(*(np.full((4, 3), k, "float32") for k in (2, 3, 4, 5)))
    np.testing.assert_array_equal(found, np.full((4, 3), 7))


def test_one_example_may_stand_for_several_inputs() -> None:
    example = torch.zeros(3)
    model = from_torch(Function(lambda x, y: x - 2 * y), (example, example))
    x, y = (np.full(3, number, "float32") for number in (5, 2))
    np.testing.assert_array_equal(model.reference(x, y), [1, 1, 1])


def test_other_arguments_are_constants() -> None:
    class Scaled(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, factor: float, *, pair: Any = None, flag: bool = False) -> Any:
            return x * factor + pair[0] - pair[1] if flag else x

    pair = (torch.ones(2), torch.zeros(2))
    model = from_torch(Scaled().eval(), (np.ones(2, "float32"), 3.0), {"pair": pair, "flag": True})
    assert [t.name for t in model.inputs] == ["x", "pair_0", "pair_1"]
    one = np.ones(2, "float32")
    assert model.reference(one, one, 2 * one).tolist() == [2, 2]


@pytest.mark.parametrize("network", slow_but(["mlp"], ["mlp", "resnet-18", "vit fused", "lstm"]))
def test_kernels(network: str) -> None:
    """A kernel of the whole computation gives what PyTorch gives."""
    make, example = NETWORKS[network]
    torch.manual_seed(0)
    module = randomized(make())
    model = from_torch(module, example)
    outputs = list(model.outputs)
    quick = network == "mlp"
    kernel = sl.build(
        sl.schedule(outputs) if quick else sl.autoschedule(outputs),
        [*model.inputs, *model.params, *outputs], target="python" if quick else "cpu",
    )  # fmt: skip
    with torch.no_grad():
        expected = module(example)
    found = kernel(example.numpy(), *model.params.values())
    compare(found if isinstance(found, tuple) else (found,), flat(expected), 1e-4)
