"""The networks as torch modules in eval mode, with random weights that a seed makes.

The convolutional ones are torchvision's. Their weights are those of its initialization, and their
batch norms normalize: the scales and shifts are random, and the statistics those of one forward
pass. Without that, the outputs of a deep network vanish or overflow, and nothing is
left to compare. The weights are written once, so that every process reads the same.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from benchmarks.cache import folder
from benchmarks.works import Work
from benchmarks.works.networks import CLASSES, SMALL_CLASSES

# part of the key of the weights' file: change it with the way they are made
SEED = 34
# the kinds of networks that are no models of torchvision
PLAIN = frozenset({"vit", "lstm"})
# the pictures whose statistics the batch norms keep
CALIBRATION = (4, 3, 64, 64)


def module(work: Work) -> nn.Module:
    """Return the network of a work, in eval mode and float32."""
    return of_kind(work.kind, dict(work.sizes))


def of_kind(kind: str, sizes: dict[str, int]) -> nn.Module:
    with torch.device("meta"):
        made = KINDS[kind](sizes)
    made.load_state_dict(torch.load(_weights(kind, sizes), weights_only=True), assign=True)
    return made.eval().requires_grad_(False)


def in_float64(kind: str, sizes: dict[str, int], x: Any) -> Any:
    """Return the output for ``x``, a NumPy array of float64."""
    with torch.no_grad():
        return of_kind(kind, sizes).double()(torch.from_numpy(x)).numpy()


def facts(work: Work) -> dict[str, Any]:
    """Return the operations of a call (products and sums) and the bytes of the weights."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        made = KINDS[work.kind](dict(work.sizes)).eval()
        given = torch.empty(work.inputs["x"])
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            made(given)
    weights = sum(v.numel() * 4 for v in made.parameters())
    return {"flops": counter.get_total_flops(), "weights_bytes": weights}


def _weights(kind: str, sizes: dict[str, int]) -> Path:
    """Return the file of the weights, which all sizes of the input share."""
    layers = {k: v for k, v in sizes.items() if k in ("small", "hidden")}
    with torch.device("meta"):
        shapes = {name: tuple(v.shape) for name, v in KINDS[kind](sizes).state_dict().items()}
    key = hashlib.sha256(
        repr((layers, shapes, SEED, torch.__version__, metadata.version("torchvision"))).encode()
    ).hexdigest()[:12]
    path = folder("networks") / f"{kind}-{key}.pt"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        torch.save(_initialized(kind, sizes).state_dict(), partial)
        partial.replace(path)
    return path


def _initialized(kind: str, sizes: dict[str, int]) -> nn.Module:
    torch.manual_seed(SEED)
    made = KINDS[kind](sizes)
    if isinstance(made, Transformer):
        nn.init.normal_(made.token, std=0.02)
        nn.init.normal_(made.position, std=0.02)
    norms = [m for m in made.modules() if isinstance(m, nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, 0.0, 0.2)
            # an average of all passes, of which there is one
            norm.momentum = None
        if norms:
            for layer in made.modules():
                layer.train(isinstance(layer, nn.BatchNorm2d))
            made(torch.rand(CALIBRATION) * 2 - 1)
    return made


def vision() -> Any:
    """Return torchvision. Its models need no operator that it compiles, so declare those.

    torchvision registers two of them by name at its import, which fails where its own library does
    not load: a build for GPUs beside a PyTorch for CPUs.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


OPERATORS = torch.library.Library("torchvision", "FRAGMENT")


def resnet50(sizes: dict[str, int]) -> nn.Module:
    resnet = vision().models.resnet
    if sizes["small"]:
        return resnet.ResNet(
            resnet.Bottleneck, [1, 1, 1, 1], num_classes=SMALL_CLASSES, width_per_group=16
        )
    return resnet.resnet50(num_classes=CLASSES)


def resnet18(sizes: dict[str, int]) -> nn.Module:
    resnet = vision().models.resnet
    if sizes["small"]:
        return resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=SMALL_CLASSES)
    return resnet.resnet18(num_classes=CLASSES)


def mobilenet_v2(sizes: dict[str, int]) -> nn.Module:
    mobilenet = vision().models.mobilenet
    if sizes["small"]:
        return mobilenet.MobileNetV2(
            num_classes=SMALL_CLASSES, width_mult=0.5,
            inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 1]],
        )  # fmt: skip
    return mobilenet.mobilenet_v2(num_classes=CLASSES)


def efficientnet_b0(sizes: dict[str, int]) -> nn.Module:
    efficientnet = vision().models.efficientnet
    if sizes["small"]:
        blocks = [efficientnet.MBConvConfig(1, 3, 1, 32, 16, 1, 1.0, 1.0),
                  efficientnet.MBConvConfig(6, 5, 2, 16, 24, 2, 1.0, 1.0)]  # fmt: skip
        return efficientnet.EfficientNet(blocks, 0.2, num_classes=SMALL_CLASSES, last_channel=64)
    return efficientnet.efficientnet_b0(num_classes=CLASSES)


def vit(sizes: dict[str, int]) -> nn.Module:
    small, side = sizes["small"], sizes["height"]
    if small:
        return Transformer(side, blocks=2, width=24, classes=SMALL_CLASSES)
    return Transformer(side, blocks=12, width=192, classes=CLASSES)


def lstm(sizes: dict[str, int]) -> nn.Module:
    return Recurrent(sizes["hidden"])


class Transformer(nn.Module):
    """A vision transformer, DeiT's smallest: patches of 16x16, three heads, a class token."""

    def __init__(self, side: int, blocks: int, width: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        # without values: random ones on the device "meta" would import much of torch.compile
        self.token = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, 1 + (side // 16) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads=3) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Block(nn.Module):
    """Attention, then two layers with GELU, each after a norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = fn.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.projection(seen.reshape(batch, length, width))
        return x + self.narrower(fn.gelu(self.wider(self.norm2(x))))


class Recurrent(nn.Module):
    """An LSTM of two layers. It returns the states of the last layer after each step."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


KINDS = {f.__name__: f for f in (resnet50, resnet18, mobilenet_v2, efficientnet_b0, vit, lstm)}
