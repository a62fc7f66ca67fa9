"""Layers of ``torch.nn`` and functions of ``torch.nn.functional``: which run as PyTorch runs them.

    python -m tests.torch_layers [NAME ...]

prints a line for each, or for each of those named: ``right``, or ``refused`` with the reason.
``torch_layers.txt`` has the lines of all. One is right if ``from_torch`` imports it in inference
and its ``reference`` gives what PyTorch gives. Containers, lazy layers, functions that write into
their argument, and what draws random numbers in inference are not among them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import SchedlangError

TOLERANCE = 2e-4


@dataclass(frozen=True)
class Outcome:
    """The outcome of a layer or of a function: ``right``, or the reason why not."""

    name: str
    reason: str = ""

    @property
    def right(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"right   {self.name}" if self.right else f"refused {self.name} {self.reason}"


def numbers(*shape: int) -> Any:
    """Return a tensor of random numbers."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def parts(*shape: int) -> Any:
    """Return a tensor of numbers between 0 and 1."""
    return numbers(*shape).sigmoid()


def signs(*shape: int) -> Any:
    """Return a tensor of 1 and -1."""
    return numbers(*shape).sign()


def integers(most: int, *shape: int) -> Any:
    """Return a tensor of integers below ``most``."""
    import torch

    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(most))


def layers() -> dict[str, tuple[Any, Sequence[Any]]]:
    """Return layers with their inputs, by name."""
    from torch import nn

    def named(kind: str, dimensions: Sequence[int], *args: Any, **options: Any) -> dict[str, Any]:
        inputs = {n: numbers(2, 4, *(8, 7, 6)[:n]) for n in dimensions}
        kinds = {f"{kind}{n}d": [x] for n, x in inputs.items()}
        return {name: (getattr(nn, name)(*args, **options), x) for name, x in kinds.items()}

    x, wide = numbers(2, 4, 6), numbers(2, 4, 8, 8)
    plain = (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid "
        "Mish PReLU RReLU ReLU ReLU6 SELU Sigmoid SiLU Softplus Softshrink Softsign Tanh "
        "Tanhshrink Flatten Dropout Dropout1d AlphaDropout FeatureAlphaDropout"
    )
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    words, seen = numbers(2, 5, 8), numbers(2, 4, 8)
    return {
        **{name: (getattr(nn, name)(), [x]) for name in plain.split()},
        "Softmax": (nn.Softmax(-1), [x]), "Softmin": (nn.Softmin(-1), [x]),
        "LogSoftmax": (nn.LogSoftmax(-1), [x]), "Softmax2d": (nn.Softmax2d(), [wide]),
        "Threshold": (nn.Threshold(0.1, 20), [x]), "Unflatten": (nn.Unflatten(1, (2, 2)), [x]),
        "Dropout2d": (nn.Dropout2d(), [wide]),
        "Dropout3d": (nn.Dropout3d(), [numbers(2, 4, 3, 4, 5)]),
        **named("Conv", (1, 2, 3), 4, 6, 3, padding=1, stride=2),
        **named("ConvTranspose", (1, 2, 3), 4, 6, 3, stride=2, output_padding=1),
        **named("MaxPool", (1, 2, 3), 2), **named("AvgPool", (1, 2, 3), 2),
        **named("LPPool", (1, 2, 3), 2, 2), **named("AdaptiveAvgPool", (1, 2, 3), 3),
        **named("AdaptiveMaxPool", (1, 2, 3), 3), **named("BatchNorm", (1, 2, 3), 4),
        **named("InstanceNorm", (1, 2, 3), 4, affine=True), **named("ZeroPad", (1, 2, 3), 1),
        **named("ConstantPad", (1, 2, 3), 1, 2.5), **named("ReflectionPad", (1, 2, 3), 2),
        **named("ReplicationPad", (1, 2, 3), 2), **named("CircularPad", (1, 2, 3), 2),
        "MaxUnpool1d": (nn.MaxUnpool1d(2), unpooled(1)),
        "MaxUnpool2d": (nn.MaxUnpool2d(2), unpooled(2)),
        "MaxUnpool3d": (nn.MaxUnpool3d(2), unpooled(3)),
        "FractionalMaxPool2d": (
            nn.FractionalMaxPool2d(2, 3, _random_samples=parts(2, 4, 2)), [wide],
        ),
        "FractionalMaxPool3d": (
            nn.FractionalMaxPool3d(2, 3, _random_samples=parts(2, 4, 3)), [numbers(2, 4, 6, 6, 6)],
        ),
        "GroupNorm": (nn.GroupNorm(2, 4), [wide]), "LayerNorm": (nn.LayerNorm(6), [x]),
        "RMSNorm": (nn.RMSNorm(6), [x]), "LocalResponseNorm": (nn.LocalResponseNorm(3), [wide]),
        "CrossMapLRN2d": (nn.CrossMapLRN2d(3), [wide]),
        "Linear": (nn.Linear(6, 3), [x]),
        "Bilinear": (nn.Bilinear(6, 5, 3), [numbers(2, 6), numbers(2, 5)]),
        "Embedding": (nn.Embedding(9, 3), [integers(9, 2, 5)]),
        "EmbeddingBag": (nn.EmbeddingBag(9, 3), [integers(9, 2, 5)]),
        "RNN": (nn.RNN(6, 5), [x]), "LSTM": (nn.LSTM(6, 5, 2, bidirectional=True), [x]),
        "GRU": (nn.GRU(6, 5), [x]), "RNNCell": (nn.RNNCell(6, 5), [numbers(2, 6)]),
        "LSTMCell": (nn.LSTMCell(6, 5), [numbers(2, 6)]),
        "GRUCell": (nn.GRUCell(6, 5), [numbers(2, 6)]),
        "MultiheadAttention": (nn.MultiheadAttention(8, 2), [words, words, words]),
        "TransformerEncoderLayer": (encoder, [words]),
        "TransformerEncoder": (nn.TransformerEncoder(encoder, 2), [words]),
        "TransformerDecoderLayer": (decoder, [words, seen]),
        "TransformerDecoder": (nn.TransformerDecoder(decoder, 2), [words, seen]),
        "Transformer": (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), [words, seen]),
        "PixelShuffle": (nn.PixelShuffle(2), [wide]),
        "PixelUnshuffle": (nn.PixelUnshuffle(2), [wide]),
        "ChannelShuffle": (nn.ChannelShuffle(2), [wide]),
        "Upsample": (nn.Upsample(scale_factor=2), [wide]),
        "UpsamplingBilinear2d": (nn.UpsamplingBilinear2d(scale_factor=2), [wide]),
        "UpsamplingNearest2d": (nn.UpsamplingNearest2d(scale_factor=2), [wide]),
        "Fold": (nn.Fold((5, 6), 2), [numbers(2, 12, 20)]), "Unfold": (nn.Unfold(2), [wide]),
        "CosineSimilarity": (nn.CosineSimilarity(), [x, x * 0.5 + 1]),
        "PairwiseDistance": (nn.PairwiseDistance(), [numbers(3, 5), numbers(3, 5) * 2]),
        "AdaptiveLogSoftmaxWithLoss": (
            nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 5]), [numbers(4, 6), integers(9, 4)],
        ),
        **losses(),
    }  # fmt: skip


def unpooled(dimensions: int) -> list[Any]:
    """Return what a pooling with indices gives."""
    from torch.nn import functional

    pool = getattr(functional, f"max_pool{dimensions}d")
    return list(pool(numbers(2, 3, *(4, 6, 4)[:dimensions]), 2, return_indices=True))


def losses() -> dict[str, tuple[Any, Sequence[Any]]]:
    """Return layers of losses with their inputs, by name."""
    from torch import nn

    x, y, row = numbers(3, 5), parts(3, 5), numbers(3)
    return {
        **{n: (getattr(nn, n)(), [x, y]) for n in "L1Loss MSELoss HuberLoss SmoothL1Loss".split()},
        "BCELoss": (nn.BCELoss(), [parts(3, 5), y]),
        "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss(), [x, y]),
        "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss(), [x, y, signs(3)]),
        "CrossEntropyLoss": (nn.CrossEntropyLoss(), [x, integers(5, 3)]),
        "CTCLoss": (nn.CTCLoss(), [numbers(6, 2, 4).log_softmax(-1), integers(3, 2, 2) + 1,
                                   integers(1, 2) + 6, integers(1, 2) + 2]),
        "GaussianNLLLoss": (nn.GaussianNLLLoss(), [x, y, parts(3, 5)]),
        "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss(), [x, signs(3, 5)]),
        "KLDivLoss": (nn.KLDivLoss(reduction="batchmean"), [x.log_softmax(-1), y]),
        "LinearCrossEntropyLoss": (nn.LinearCrossEntropyLoss(5, 4), [x, integers(4, 3)]),
        "MarginRankingLoss": (nn.MarginRankingLoss(), [row, parts(3), signs(3)]),
        "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss(), [x, integers(5, 3, 5)]),
        "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss(), [x, y.round()]),
        "MultiMarginLoss": (nn.MultiMarginLoss(), [x, integers(5, 3)]),
        "NLLLoss": (nn.NLLLoss(), [x.log_softmax(-1), integers(5, 3)]),
        "PoissonNLLLoss": (nn.PoissonNLLLoss(), [x, y]),
        "SoftMarginLoss": (nn.SoftMarginLoss(), [x, signs(3, 5)]),
        "TripletMarginLoss": (nn.TripletMarginLoss(), [x, y, parts(3, 5) * 2]),
        "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss(), [x, y, y * 2]),
    }  # fmt: skip


def functions() -> dict[str, tuple[Callable[..., Any], Sequence[Any]]]:
    """Return functions with their inputs, by name."""
    from torch.nn import functional as F

    x, wide, deep = numbers(2, 4, 6), numbers(2, 4, 8, 8), numbers(2, 4, 5, 6, 4)
    of = {1: x, 2: wide, 3: deep}
    a, b, row, labels = numbers(3, 5), parts(3, 5), numbers(3), integers(5, 3)
    words = numbers(2, 2, 5, 8)
    plain = (
        "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish "
        "relu relu6 selu sigmoid silu softplus softshrink softsign tanh tanhshrink normalize rrelu"
    )
    dropped = "dropout alpha_dropout feature_alpha_dropout dropout1d"
    pools: dict[str, Any] = {}
    for n, data in of.items():
        pools |= {
            f"avg_pool{n}d": (lambda t, n=n: getattr(F, f"avg_pool{n}d")(t, 2), [data]),
            f"max_pool{n}d": (lambda t, n=n: getattr(F, f"max_pool{n}d")(t, 2), [data]),
            f"max_pool{n}d_with_indices": (
                lambda t, n=n: getattr(F, f"max_pool{n}d_with_indices")(t, 2), [data],
            ),
            f"lp_pool{n}d": (lambda t, n=n: getattr(F, f"lp_pool{n}d")(t, 2.0, 2), [data]),
            f"adaptive_avg_pool{n}d": (
                lambda t, n=n: getattr(F, f"adaptive_avg_pool{n}d")(t, 3), [data],
            ),
            f"adaptive_max_pool{n}d": (
                lambda t, n=n: getattr(F, f"adaptive_max_pool{n}d")(t, 3), [data],
            ),
            f"adaptive_max_pool{n}d_with_indices": (
                lambda t, n=n: getattr(F, f"adaptive_max_pool{n}d_with_indices")(t, 3), [data],
            ),
            f"max_unpool{n}d": (
                lambda t, i, n=n: getattr(F, f"max_unpool{n}d")(t, i, 2), unpooled(n),
            ),
            f"conv{n}d": (getattr(F, f"conv{n}d"), [data, numbers(6, 4, *[3] * n)]),
            f"conv_transpose{n}d": (
                getattr(F, f"conv_transpose{n}d"), [data, numbers(4, 6, *[3] * n)],
            ),
        }  # fmt: skip
    return {
        **{name: (getattr(F, name), [x]) for name in plain.split()},
        **{
            name: (lambda t, name=name: getattr(F, name)(t, training=False), [x])
            for name in dropped.split()
        },
        "dropout2d": (lambda t: F.dropout2d(t, training=False), [wide]),
        "dropout3d": (lambda t: F.dropout3d(t, training=False), [deep]),
        **pools,
        "fractional_max_pool2d": (
            lambda t, u: F.fractional_max_pool2d(t, 2, 3, _random_samples=u),
            [wide, parts(2, 4, 2)],
        ),
        "fractional_max_pool3d": (
            lambda t, u: F.fractional_max_pool3d(t, 2, 2, _random_samples=u),
            [deep, parts(2, 4, 3)],
        ),
        "prelu": (F.prelu, [x, parts(4)]), "threshold": (lambda t: F.threshold(t, 0.1, 20), [x]),
        "softmax": (lambda t: F.softmax(t, -1), [x]), "softmin": (lambda t: F.softmin(t, -1), [x]),
        "log_softmax": (lambda t: F.log_softmax(t, -1), [x]),
        "linear": (F.linear, [x, numbers(3, 6), row]),
        "bilinear": (F.bilinear, [numbers(2, 6), numbers(2, 5), numbers(3, 6, 5)]),
        "embedding": (F.embedding, [integers(9, 2, 5), numbers(9, 3)]),
        "embedding_bag": (F.embedding_bag, [integers(9, 2, 5), numbers(9, 3)]),
        "one_hot": (lambda t: F.one_hot(t, 9), [integers(9, 2, 5)]),
        "batch_norm": (F.batch_norm, [wide, numbers(4), parts(4)]),
        "instance_norm": (F.instance_norm, [wide]),
        "group_norm": (lambda t: F.group_norm(t, 2), [wide]),
        "layer_norm": (lambda t: F.layer_norm(t, (6,)), [x]),
        "rms_norm": (lambda t: F.rms_norm(t, (6,)), [x]),
        "local_response_norm": (lambda t: F.local_response_norm(t, 3), [wide]),
        "pad": (lambda t: F.pad(t, (1, 2, 0, 1), value=3.0), [x]),
        "interpolate": (lambda t: F.interpolate(t, scale_factor=2, mode="bicubic"), [wide]),
        "upsample": (lambda t: F.upsample(t, scale_factor=2), [wide]),
        "upsample_bilinear": (lambda t: F.upsample_bilinear(t, scale_factor=2), [wide]),
        "upsample_nearest": (lambda t: F.upsample_nearest(t, scale_factor=2), [wide]),
        "pixel_shuffle": (lambda t: F.pixel_shuffle(t, 2), [wide]),
        "pixel_unshuffle": (lambda t: F.pixel_unshuffle(t, 2), [wide]),
        "channel_shuffle": (lambda t: F.channel_shuffle(t, 2), [wide]),
        "native_channel_shuffle": (lambda t: F.native_channel_shuffle(t, 2), [wide]),
        "affine_grid": (lambda t: F.affine_grid(t, (2, 3, 4, 5)), [numbers(2, 2, 3)]),
        "grid_sample": (lambda t, g: F.grid_sample(t, g), [wide, parts(2, 3, 3, 2)]),
        "fold": (lambda t: F.fold(t, (5, 6), 2), [numbers(2, 12, 20)]),
        "unfold": (lambda t: F.unfold(t, 2), [wide]),
        "cosine_similarity": (F.cosine_similarity, [x, x * 0.5 + 1]),
        "pairwise_distance": (F.pairwise_distance, [a, b]), "pdist": (F.pdist, [a]),
        "scaled_dot_product_attention": (F.scaled_dot_product_attention, [words, words, words]),
        "multi_head_attention_forward": (
            lambda t, w, o: F.multi_head_attention_forward(
                t, t, t, 8, 2, w, None, None, None, False, 0.0, o, None, training=False),
            [numbers(5, 2, 8), numbers(24, 8), numbers(8, 8)],
        ),
        "grouped_mm": (F.grouped_mm, [numbers(2, 16, 16), numbers(2, 16, 16)]),
        "l1_loss": (F.l1_loss, [a, b]), "mse_loss": (F.mse_loss, [a, b]),
        "huber_loss": (F.huber_loss, [a, b]), "smooth_l1_loss": (F.smooth_l1_loss, [a, b]),
        "binary_cross_entropy": (F.binary_cross_entropy, [parts(3, 5), b]),
        "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, [a, b]),
        "cosine_embedding_loss": (F.cosine_embedding_loss, [a, b, signs(3)]),
        "cross_entropy": (F.cross_entropy, [a, labels]),
        "ctc_loss": (F.ctc_loss, [numbers(6, 2, 4).log_softmax(-1), integers(3, 2, 2) + 1,
                                  integers(1, 2) + 6, integers(1, 2) + 2]),
        "gaussian_nll_loss": (F.gaussian_nll_loss, [a, b, parts(3, 5)]),
        "hinge_embedding_loss": (F.hinge_embedding_loss, [a, signs(3, 5)]),
        "kl_div": (lambda p, q: F.kl_div(p, q, reduction="batchmean"), [a.log_softmax(-1), b]),
        "linear_cross_entropy": (F.linear_cross_entropy, [a, numbers(4, 5), integers(4, 3)]),
        "margin_ranking_loss": (F.margin_ranking_loss, [row, parts(3), signs(3)]),
        "multilabel_margin_loss": (F.multilabel_margin_loss, [a, integers(5, 3, 5)]),
        "multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, [a, b.round()]),
        "multi_margin_loss": (F.multi_margin_loss, [a, labels]),
        "nll_loss": (F.nll_loss, [a.log_softmax(-1), labels]),
        "poisson_nll_loss": (F.poisson_nll_loss, [a, b]),
        "soft_margin_loss": (F.soft_margin_loss, [a, signs(3, 5)]),
        "triplet_margin_loss": (F.triplet_margin_loss, [a, b, b * 2]),
        "triplet_margin_with_distance_loss": (F.triplet_margin_with_distance_loss, [a, b, b * 2]),
    }  # fmt: skip


def outcomes(names: Collection[str] = ()) -> Iterator[Outcome]:
    """Return the outcomes of layers and functions; wrong results are among them."""
    import torch

    class Of(torch.nn.Module):
        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *inputs: Any) -> Any:
            return self.function(*inputs)

    torch.manual_seed(0)
    modules = {f"nn.{name}": row for name, row in layers().items()}
    for name, (function, inputs) in functions().items():
        modules[f"functional.{name}"] = Of(function), inputs
    for name, (module, inputs) in modules.items():
        if names and name not in names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                reason = _difference(module.eval(), tuple(inputs))
            except SchedlangError as error:
                reason = " ".join(str(error).split())
        yield Outcome(name, reason)


def _difference(module: Any, inputs: tuple[Any, ...]) -> str:
    """Return how the import differs from a module, empty if it does not."""
    import torch

    with torch.no_grad():
        expected = _flat(module(*inputs))
    imported = sl.frontend.from_torch(module, inputs)
    results = _flat(imported.reference(*(t.numpy() for t in inputs)))
    if len(results) != len(expected):
        return f"WRONG: {len(results)} results in place of {len(expected)}"
    for result, tensor in zip(results, expected):
        wanted = tensor.numpy()
        if np.shape(result) != wanted.shape:
            return f"WRONG: shape {np.shape(result)} in place of {wanted.shape}"
        if not np.allclose(result, wanted, TOLERANCE, TOLERANCE):
            return f"WRONG: it differs by {np.abs(result - wanted).max():.2g}"
    return ""


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _flat(part)]
    return [] if value is None else [value]


if __name__ == "__main__":
    for outcome in outcomes(sys.argv[1:]):
        print(outcome, flush=True)
