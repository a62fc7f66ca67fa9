"""Whole networks: the rows of ``benchmarks/networks.py``, and the same networks tiny, for a test.

``kind`` names the network and ``sizes`` its input; ``small`` is 1 where few layers of it remain.
``peers/network_models.py`` writes them with torch. A result is right within 1e-3 of the largest
output of the same network in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.works.work import Work

OF_LARGEST = 1e-3
CLASSES, SMALL_CLASSES = 1000, 10


def pictures(
    title: str, kind: str, height: int, width: int, batch: int = 1, small: int = 0
) -> Work:
    """Return a network that classifies ``batch`` pictures of three channels."""
    size = f"{height}^2" if height == width else f"{height}x{width}"
    name = f"{title} {size}{f' batch {batch}' if batch > 1 else ''}"
    classes = SMALL_CLASSES if small else CLASSES
    return _network(
        name, kind, {"batch": batch, "height": height, "width": width, "small": small},
        (batch, 3, height, width), (batch, classes),
    )  # fmt: skip


def sequence(title: str, kind: str, steps: int, hidden: int, small: int = 0) -> Work:
    """Return a recurrent network of two layers over one sequence, as wide as its state."""
    shape = (1, steps, hidden)
    return _network(
        f"{title} 2x{hidden} {steps} steps", kind,
        {"batch": 1, "steps": steps, "hidden": hidden, "small": small}, shape, shape,
    )  # fmt: skip


def _network(
    name: str, kind: str, sizes: dict[str, int], given: tuple[int, ...], made: tuple[int, ...]
) -> Work:
    if sizes["small"]:
        name = f"small {name}"
    return Work(
        name, kind, sizes, {"x": given}, {"y": made}, partial(_in_float64, kind, sizes), "fma",
        rtol=0.0, atol=0.0, of_largest=OF_LARGEST,
    )  # fmt: skip


def _in_float64(kind: str, sizes: dict[str, int], x: Any) -> Any:
    from benchmarks.peers.network_models import in_float64

    return in_float64(kind, sizes, x)


NETWORKS: tuple[Work, ...] = (
    pictures("ResNet-50", "resnet50", 224, 224),
    pictures("ResNet-50", "resnet50", 224, 224, batch=8),
    pictures("ResNet-50", "resnet50", 28, 28),
    pictures("ResNet-50", "resnet50", 32, 32),
    pictures("ResNet-50", "resnet50", 96, 96),
    pictures("ResNet-50", "resnet50", 375, 500),
    pictures("ResNet-18", "resnet18", 224, 224),
    pictures("MobileNetV2", "mobilenet_v2", 224, 224),
    pictures("EfficientNet-B0", "efficientnet_b0", 224, 224),
    pictures("ViT 12x192", "vit", 224, 224),
    sequence("LSTM", "lstm", 64, 512),
)
SMALL: tuple[Work, ...] = (
    pictures("ResNet-50", "resnet50", 32, 32, small=1),
    pictures("ResNet-50", "resnet50", 32, 32, batch=2, small=1),
    pictures("ResNet-50", "resnet50", 24, 36, small=1),
    pictures("ResNet-18", "resnet18", 32, 32, small=1),
    pictures("MobileNetV2", "mobilenet_v2", 32, 32, small=1),
    pictures("EfficientNet-B0", "efficientnet_b0", 32, 32, small=1),
    pictures("ViT 2x24", "vit", 32, 32, small=1),
    sequence("LSTM", "lstm", 5, 16, small=1),
)
