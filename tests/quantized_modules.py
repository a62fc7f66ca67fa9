"""Quantized modules of PyTorch: layers of dequantized values, and networks that torchao quantized.

Importing ``torch.ao.quantization.fx._decomposed`` declares the operators; torchao needs no more.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="imports modules of PyTorch: the extra torch")
import_module("torch.ao.quantization.fx._decomposed")

nn, F = torch.nn, torch.nn.functional
OPS = torch.ops.quantized_decomposed


class Layer(nn.Module):  # type: ignore[misc, name-defined]
    """A product or a convolution of dequantized values, whose result is quantized.

    ``data`` is the dtype of its integers. Weights are int8, with a scale for each output channel
    if ``channels``, else one for all.
    """

    def __init__(
        self,
        kernel: tuple[int, ...],
        data: str = "uint8",
        channels: bool = True,
        relu: bool = True,
        most: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(len(kernel))
        ends = torch.iinfo(getattr(torch, data))
        self.kernel, self.relu, self.channels, self.options = kernel, relu, channels, options
        self.data = (ends.min, ends.max if most is None else most, getattr(torch, data))
        self.zero = (120, 7) if data == "uint8" else (-9, 3)
        self.register_buffer("w", torch.randint(-127, 128, kernel, generator=drawn).to(torch.int8))
        scales = torch.rand(kernel[0], generator=drawn) * 0.02 + 0.001
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(kernel[0], dtype=torch.int64))
        self.register_buffer("bias", torch.randn(kernel[0], generator=drawn))
        self.eval()

    def forward(self, x: Any) -> Any:
        into = (0.0213, self.zero[0], *self.data)
        data = OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x, *into), *into)
        if self.channels:
            weights = OPS.dequantize_per_channel(
                self.w, self.scales, self.zeros, 0, -127, 127, torch.int8
            )
        else:
            weights = OPS.dequantize_per_tensor(self.w, 0.011, 0, -127, 127, torch.int8)
        if len(self.kernel) == 2:
            result = F.linear(data, weights, self.bias)
        else:
            conv = F.conv1d if len(self.kernel) == 3 else F.conv2d
            result = conv(data, weights, self.bias, **self.options)
        result = F.relu(result) if self.relu else result
        return OPS.quantize_per_tensor(result, 0.217, self.zero[1], *self.data)


class Pictures(nn.Module):  # type: ignore[misc, name-defined]
    """A small network: convolutions, a residual, both poolings and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv3 = nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.avg = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = F.relu(self.conv2(x) + x)
        x = F.relu(self.conv3(x))
        return self.fc(self.avg(x).flatten(1))


def perceptron() -> Any:
    """Return a network of three products."""
    return nn.Sequential(
        nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 16), nn.ReLU(), nn.Linear(16, 5)
    )


def x86(dynamic: bool = False) -> Any:
    """Return the quantizer for inductor: uint8, and int8 weights with a scale for each channel."""
    inductor = _torchao("quantization.pt2e.quantizer.x86_inductor_quantizer")
    config = inductor.get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
    return inductor.X86InductorQuantizer().set_global(config)


def symmetric(dynamic: bool = False) -> Any:
    """Return the quantizer for XNNPACK: int8, with one scale for all weights of a layer."""
    xnnpack = _torchao("testing.pt2e._xnnpack_quantizer")
    config = xnnpack.get_symmetric_quantization_config(is_per_channel=False, is_dynamic=dynamic)
    return xnnpack.XNNPACKQuantizer().set_global(config)


def quantized(module: Any, quantizer: Any, *shape: int) -> tuple[Any, Any]:
    """Return a module after its quantization, with the ranges of three inputs, and a fourth."""
    pt2e = _torchao("quantization.pt2e.quantize_pt2e")
    drawn = torch.Generator().manual_seed(0)
    inputs = [torch.randn(*shape, generator=drawn) for _ in range(4)]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module.eval(), (inputs[0],)).module()
        prepared = pt2e.prepare_pt2e(exported, quantizer)
        for x in inputs[:3]:
            prepared(x)
        return pt2e.convert_pt2e(prepared), inputs[3]


def with_powers_of_two(module: Any) -> Any:
    """Return a quantized module whose scales are powers of two, and whose biases are short.

    Dequantized values are then integers times a power of two. PyTorch's sums of their products are
    exact up to 2**24 units, in any order, so that results are the same in every bit.
    """
    for node in module.graph.nodes:
        if str(node.target).endswith("quantize_per_tensor.default"):
            x, scale, *rest = node.args
            node.args = (x, _power(scale), *rest)
    for name, value in [*module.named_buffers(), *module.named_parameters()]:
        if "_scale_" in name:
            value.copy_(torch.tensor([_power(v) for v in value.tolist()]))
        elif name.endswith("bias"):
            value.data.copy_(torch.round(value.data * 2**10) / 2**10)
    module.recompile()
    return module


def _power(scale: float) -> float:
    return float(2.0 ** round(math.log2(scale)))


def _torchao(module: str) -> Any:
    reason = "quantizes modules by torchao"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torchao", reason=reason)
        return pytest.importorskip(f"torchao.{module}", reason=reason)


Quantizer = Callable[[], Any]
