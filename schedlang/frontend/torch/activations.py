"""Activations of ATen."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.shapes import same
from schedlang.compute.tensor import Tensor
from schedlang.frontend.torch.calls import Call, Operator, combine


def _plain(name: str) -> Operator:
    operator = getattr(topi.nn, name)
    return lambda call, x: operator(x)


def relu6(call: Call, x: Tensor) -> Tensor:
    return topi.clip(x, 0, 6)


def hardtanh(call: Call, x: Tensor, min_val: Any, max_val: Any) -> Tensor:
    return topi.clip(x, min_val, max_val)


def leaky_relu(call: Call, x: Tensor, negative_slope: Any) -> Tensor:
    return topi.nn.leaky_relu(x, negative_slope)


def rrelu(call: Call, x: Tensor, lower: float, upper: float, training: bool) -> Tensor:
    """In evaluation, the slope of negative elements is the mean of its bounds."""
    if training:
        raise call.refuse("its slopes are drawn at random", "Call module.eval() first.")
    return topi.nn.leaky_relu(x, (lower + upper) / 2)


def prelu(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    if x.ndim < 2 or not weight.ndim or not same(weight.shape[0], x.shape[1]):
        return topi.where(combine("greater", x, 0), x, combine("multiply", x, weight))
    return topi.nn.prelu(x, weight)


def elu(call: Call, x: Tensor, alpha: Any, scale: Any, input_scale: Any) -> Tensor:
    if scale == 1 and input_scale == 1:
        return topi.nn.elu(x, alpha)
    negative = combine("multiply", topi.expm1(combine("multiply", x, input_scale)), alpha)
    return combine("multiply", topi.where(combine("greater", x, 0), x, negative), scale)


def celu(call: Call, x: Tensor, alpha: Any) -> Tensor:
    return elu(call, x, alpha, 1, 1 / alpha)


def gelu(call: Call, x: Tensor, approximate: str) -> Tensor:
    return topi.nn.gelu_tanh(x) if approximate == "tanh" else topi.nn.gelu(x)


def softplus(call: Call, x: Tensor, beta: Any, threshold: Any) -> Tensor:
    return topi.nn.softplus(x, beta, threshold)


def glu(call: Call, x: Tensor, dim: int) -> Tensor:
    left, gate = topi.split(x, 2, dim)
    return combine("multiply", left, topi.sigmoid(gate))


OPERATORS: dict[str, Operator] = {
    **{f"{name}.default": _plain(name) for name in ("relu", "silu", "mish", "log_sigmoid")},
    "hardsigmoid.default": _plain("hard_sigmoid"), "hardswish.default": _plain("hard_swish"),
    "relu6.default": relu6, "hardtanh.default": hardtanh, "leaky_relu.default": leaky_relu,
    "prelu.default": prelu, "elu.default": elu, "celu.default": celu, "gelu.default": gelu,
    "rrelu.default": rrelu, "softplus.default": softplus, "glu.default": glu,
}  # fmt: skip
