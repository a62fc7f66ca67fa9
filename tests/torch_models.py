"""Networks in torch.nn, at small sizes: the architectures that people import."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")
nn, F = torch.nn, torch.nn.functional


class Function(nn.Module):  # type: ignore[misc, name-defined]
    """A module whose forward is ``function(*args)``, in evaluation mode; ``parts`` are layers."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)
        self.eval()

    def forward(self, *args: Any) -> Any:
        return self.function(*args, **dict(self.named_children()))


class Block(nn.Module):  # type: ignore[misc, name-defined]
    """The basic block of ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Any) -> Any:
        kept = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += kept
        return self.relu(out)


class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
    """The block of ResNet-50."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):  # type: ignore[misc, name-defined]
    """A ResNet of two stages, with basic blocks or with bottlenecks."""

    def __init__(self, bottleneck: bool = False, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        if bottleneck:
            self.layer1 = nn.Sequential(Bottleneck(width, width, 2 * width))
            self.layer2 = nn.Sequential(Bottleneck(2 * width, width, 2 * width, 2))
        else:
            self.layer1 = nn.Sequential(Block(width, width), Block(width, width))
            self.layer2 = nn.Sequential(Block(width, 2 * width, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(x, 1))


class Inverted(nn.Module):  # type: ignore[misc, name-defined]
    """The inverted residual of MobileNetV2; with squeeze and SiLU, that of EfficientNet."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, expand: int, efficient: bool
    ) -> None:
        super().__init__()
        hidden = inputs * expand
        act = nn.SiLU if efficient else nn.ReLU6
        self.expand = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), act()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden), act(),
        )  # fmt: skip
        self.squeeze = None
        if efficient:
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, 4, 1), nn.SiLU(),
                nn.Conv2d(4, hidden, 1), nn.Sigmoid(),
            )  # fmt: skip
        self.project = nn.Sequential(
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        out = self.depthwise(self.expand(x))
        if self.squeeze is not None:
            out = out * self.squeeze(out)
        out = self.project(out)
        return x + out if self.residual else out


class MobileNet(nn.Module):  # type: ignore[misc, name-defined]
    """MobileNetV2 of three blocks, or EfficientNet of as many."""

    def __init__(self, efficient: bool = False, classes: int = 10) -> None:
        super().__init__()
        act = nn.SiLU if efficient else nn.ReLU6
        self.features = nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), act()),
            Inverted(8, 8, 1, 2, efficient), Inverted(8, 12, 2, 3, efficient),
            Inverted(12, 12, 1, 2, efficient),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, classes))

    def forward(self, x: Any) -> Any:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    """Attention by hand: one product for queries, keys and values, and a softmax."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        split = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
            out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):  # type: ignore[misc, name-defined]
    """A block of a transformer, with its attention ``"mha"``, ``"hand"`` or ``"fused"``."""

    def __init__(self, width: int, heads: int, attention: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.whole = attention == "mha"
        self.attn = (
            nn.MultiheadAttention(width, heads, batch_first=True)
            if self.whole
            else Attention(width, heads, attention == "fused")
        )
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        x = x + (self.attn(y, y, y, need_weights=False)[0] if self.whole else self.attn(y))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):  # type: ignore[misc, name-defined]
    """A vision transformer: patches, a class token, positions, blocks, and a head."""

    def __init__(
        self, attention: str = "mha", width: int = 16, depth: int = 2, size: int = 32
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.positions = nn.Parameter(torch.randn(1, (size // 8) ** 2 + 1, width) * 0.1)
        self.blocks = nn.Sequential(*(Encoder(width, 4, attention) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Tagger(nn.Module):  # type: ignore[misc, name-defined]
    """A tag for each word: an embedding, a recurrent network of two layers, and a product."""

    def __init__(self, kind: str = "LSTM", batch_first: bool = True, both: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6, padding_idx=0)
        layer = getattr(nn, kind)
        self.rnn = layer(
            6, 5, num_layers=2, batch_first=batch_first, bidirectional=both, dropout=0.2
        )
        self.tags = nn.Linear(10 if both else 5, 4)

    def forward(self, words: Any) -> Any:
        states, last = self.rnn(self.words(words))
        return {"tags": self.tags(states), "last": last}


class MLP(nn.Sequential):  # type: ignore[misc, name-defined]
    """Three layers with a batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__(
            nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 8),
            nn.Tanh(), nn.Linear(8, 3), nn.LogSoftmax(dim=1),
        )  # fmt: skip


class UNet(nn.Module):  # type: ignore[misc, name-defined]
    """A small U-Net: pooling, upsampling, transposed convolutions, and joined channels."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, padding="same", padding_mode="reflect")
        self.norm = nn.GroupNorm(2, 4)
        self.pool = nn.AvgPool2d(2)
        self.middle = nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1)
        self.out = nn.Conv2d(12, 2, 1)

    def forward(self, x: Any) -> Any:
        left = F.hardswish(self.norm(self.down(x)))
        middle = F.leaky_relu(self.middle(self.pool(left)), 0.1)
        wide = F.interpolate(middle[:, ::2], scale_factor=2, mode="bilinear")
        return self.out(torch.cat([left, self.up(middle), wide], dim=1))


def randomized(module: Any, seed: int = 0) -> Any:
    """Return ``module`` in evaluation mode, with random statistics in its batch norms."""
    torch.manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats:
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.normal_(layer.weight, 1, 0.2)
            nn.init.normal_(layer.bias, 0, 0.2)
    return module.eval()
