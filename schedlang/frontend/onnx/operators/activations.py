"""Activations, and softmaxes along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number, is_one, size_of
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call, Floats
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Function, Table, since
from schedlang.frontend.onnx.values import Value
from schedlang.language.calls import call as math
from schedlang.language.composed import soft_maximum
from schedlang.language.construct import const, select


def _plain(function: Callable[[Tensor], Tensor]) -> Function:
    def operator(call: Call, x: Floats) -> Tensor:
        return function(x)

    return operator


def relu(call: Call, x: Tensor) -> Tensor:
    return topi.nn.relu(x)


def leaky_relu(call: Call, x: Tensor, *, alpha: float = 0.009999999776482582) -> Tensor:
    return topi.nn.leaky_relu(x, alpha)


def prelu(call: Call, x: Value, slope: Value) -> Tensor:
    """``slope`` broadcasts to ``x``."""
    check_dtypes(call, x, slope)
    return array("prelu", lambda v, s: select(v < 0, v * s, v), *call.operands(x, slope))


def elu(call: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return topi.nn.elu(x, alpha)


def celu(call: Call, x: Floats, *, alpha: float = 1.0) -> Tensor:
    if alpha == 0:
        raise call.refused("its attribute 'alpha' is 0, by which it divides")
    return array("celu", lambda v: math("max", v, 0.0) + math(
        "min", math("expm1", v * (1 / alpha)) * alpha, 0.0), x)  # fmt: skip


def selu(
    call: Call, x: Floats, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> Tensor:
    return array(
        "selu", lambda v: select(v > 0, v, math("expm1", v) * alpha) * gamma, x
    )  # fmt: skip


def thresholded_relu(call: Call, x: Floats, *, alpha: float = 1.0) -> Tensor:
    return array("thresholded_relu", lambda v: select(v > alpha, v, const(0, v.dtype)), x)


def hard_sigmoid(
    call: Call, x: Floats, *, alpha: float = 0.20000000298023224, beta: float = 0.5
) -> Tensor:
    return array(
        "hard_sigmoid", lambda v: math("min", math("max", v * alpha + beta, 0.0), 1.0), x
    )  # fmt: skip


def gelu(call: Call, x: Tensor, *, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    return topi.nn.gelu(x) if approximate == "none" else topi.nn.gelu_tanh(x)


def softplus(x: Tensor) -> Tensor:
    return array("softplus", soft_maximum, x)


def softsign(x: Tensor) -> Tensor:
    return array("softsign", lambda v: v / (math("abs", v) + 1.0), x)


def shrink(call: Call, input: Floats, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:  # noqa: A002
    return array(
        "shrink",
        lambda v: select(
            v < -lambd, v + bias, select(v > lambd, v - bias, const(0, v.dtype))
        ), input,
    )  # fmt: skip


def swish(call: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    if alpha == 1:
        return topi.nn.silu(x)
    call.check_float(x)
    return array("swish", lambda v: v * math("sigmoid", v * alpha), x)


def softmax(call: Call, input: Tensor, *, axis: int = -1) -> Tensor:  # noqa: A002
    return topi.nn.softmax(input, axis)


def log_softmax(call: Call, input: Tensor, *, axis: int = -1) -> Tensor:  # noqa: A002
    return topi.nn.log_softmax(input, axis)


def hardmax(call: Call, input: Tensor, *, axis: int = -1) -> Tensor:  # noqa: A002
    """1 at the largest element, the first one on ties, and 0 elsewhere."""
    return _hardmax(input, axis_number(axis, input.ndim, str(call.node)))


def _over_rest(function: Callable[[Tensor, int], Tensor]) -> Function:
    """Return a softmax as before opset 13: over all elements of the dimensions from ``axis`` on."""

    def operator(call: Call, input: Tensor, *, axis: int = 1) -> Tensor:  # noqa: A002
        along = axis_number(axis, input.ndim, str(call.node))
        if all(map(is_one, input.shape[along + 1 :])):
            return function(input, along)
        rows = (size_of(input.shape[:along]), size_of(input.shape[along:]))
        return reshape(function(reshape(input, rows), 1), input.shape)

    return operator


def _hardmax(x: Tensor, along: int) -> Tensor:
    depth: Any = x.shape[along]
    return topi.one_hot(topi.argmax(x, along), 1, 0, depth, along, x.dtype)


OPERATORS: Table = {
    "Relu": since(relu, 6, 13, 14),
    "LeakyRelu": since(leaky_relu, 6, 16),
    "PRelu": since(prelu, 7, 9, 16),
    "Elu": since(elu, 6, 22),
    "Celu": since(celu, 12, 28),
    "Selu": since(selu, 6, 22),
    "ThresholdedRelu": since(thresholded_relu, 10, 22),
    "Sigmoid": since(_plain(topi.sigmoid), 6, 13),
    "Tanh": since(_plain(topi.tanh), 6, 13),
    "HardSigmoid": since(hard_sigmoid, 6, 22),
    "HardSwish": since(_plain(topi.nn.hard_swish), 14, 22),
    "Softplus": since(_plain(softplus), 1, 22),
    "Softsign": since(_plain(softsign), 1, 22),
    "Mish": since(_plain(topi.nn.mish), 18, 22),
    "Gelu": since(gelu, 20),
    "Swish": since(swish, 24),
    "Shrink": since(shrink, 9),
    "Softmax": {**since(_over_rest(topi.nn.softmax), 1, 11), 13: softmax},
    "LogSoftmax": {**since(_over_rest(topi.nn.log_softmax), 1, 11), 13: log_softmax},
    "Hardmax": {**since(_over_rest(_hardmax), 1, 11), 13: hardmax},
}
