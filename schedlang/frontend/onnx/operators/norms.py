"""Norms: by given statistics, over dimensions, over groups of channels."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.language.calls import call as math
from schedlang.language.composed import norm_of
from schedlang.language.construct import select
from schedlang.tvm.topi.nn.norms import channel_norm

_SMALL = 9.999999747378752e-06


def batch_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = _SMALL,
    momentum: float = 0.8999999761581421,
    training_mode: Flag = 0,
) -> Tensor:
    if training_mode:
        raise call.refused("it is in training mode", "Export the model after model.eval().")
    call.only_outputs(1, "running_mean and running_var")
    return topi.nn.batch_norm(x, scale, b, input_mean, input_var, 1, epsilon)[0]


def batch_norm_of_images(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = _SMALL,
    momentum: float = 0.8999999761581421,
    spatial: Flag = 1,
) -> Tensor:
    if not spatial:
        raise call.refused("with spatial=0, statistics of each pixel, it has no form here")
    return batch_norm_with_outputs(call, x, scale, b, mean, var, epsilon=epsilon)


def batch_norm_with_outputs(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = _SMALL,
    momentum: float = 0.8999999761581421,
) -> Tensor:
    """Before opset 14, outputs of statistics were what asked for training."""
    return batch_norm(call, x, scale, b, mean, var, epsilon=epsilon)


def layer_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = _SMALL,
    stash_type: int = 1,
) -> Tensor:
    """``stash_type`` is the type of its sums; short floats are summed in float32 here."""
    call.only_outputs(1, "Mean and InvStdDev")
    axes = list(range(axis_number(axis, x.ndim, str(call.node)), x.ndim))
    gamma, beta = _over(call, scale, x, axes), _over(call, b, x, axes)
    return topi.nn.layer_norm(x, gamma, beta, axes, epsilon)


def rms_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = _SMALL,
    stash_type: int = 1,
) -> Tensor:
    axes = list(range(axis_number(axis, x.ndim, str(call.node)), x.ndim))
    return topi.nn.rms_norm(x, _over(call, scale, x, axes), axes, epsilon)


def _over(call: Call, given: Tensor | None, x: Tensor, axes: list[int]) -> Any:
    """Return a parameter broadcast to the dimensions ``axes`` of ``x``."""
    shape = tuple(x.shape[k] for k in axes)
    if given is None or given.shape == shape:
        return given
    return topi.broadcast_to(given, shape)


def instance_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    scale: Tensor,
    b: Tensor,
    *,
    epsilon: float = _SMALL,
) -> Tensor:
    return channel_norm(input, scale, b, 1, list(range(2, input.ndim)), epsilon)


def group_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = _SMALL,
    stash_type: int = 1,
) -> Tensor:
    axes = list(range(2, x.ndim))
    if axes:
        return topi.nn.group_norm(x, scale, bias, num_groups, 1, axes, epsilon)
    normalized = topi.nn.group_norm(
        topi.expand_dims(x, 2), scale, bias, num_groups, 1, [2], epsilon
    )
    return reshape(normalized, x.shape)


def group_norm_by_group(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = _SMALL,
) -> Tensor:
    """In opset 18, scale and bias had an element for each group."""
    channels = x.shape[1] if x.ndim > 1 else 0
    if not isinstance(channels, int) or num_groups < 1 or channels % num_groups:
        raise call.refused(f"{channels} channels do not divide into {num_groups} groups")
    each = channels // num_groups
    wide = [topi.repeat(v, each, 0) for v in (scale, bias)]
    return group_norm(call, x, *wide, num_groups=num_groups, epsilon=epsilon)


def lrn(
    call: Call,
    x: Tensor,
    *,
    size: int,
    alpha: float = 9.999999747378752e-05,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Tensor:
    return topi.nn.lrn(x, size, 1, alpha, beta, bias)


def lp_normalization(call: Call, input: Floats, *, axis: int = -1, p: int = 2) -> Tensor:  # noqa: A002
    """Where the norm is 0, the elements are 0."""
    if p not in (1, 2):
        raise call.refused(f"its attribute 'p' is {p}, but must be 1 or 2")
    powers = array("powers", lambda v: math("abs", v) if p == 1 else v * v, input)
    sums = topi.sum(powers, axis_number(axis, input.ndim, str(call.node)), True)

    def value(v: Any, total: Any) -> Any:
        norm = total if p == 1 else norm_of(total)
        return select(norm > 0, v / norm, v * 0.0)

    return array("lp_normalization", value, input, sums)


def mean_variance(call: Call, x: Floats, *, axes: list[int] | None = None) -> Tensor:
    """The deviation has 1e-9 added, as in ONNX's own definition."""
    over = tuple([0, 2, 3] if axes is None else axes)
    means = topi.mean(x, over, True)
    squares = topi.mean(array("squares", lambda v, m: (v - m) * (v - m), x, means), over, True)
    return array("normalized", lambda v, m, s: (v - m) / (norm_of(s) + 1e-9), x, means, squares)


OPERATORS: Table = {
    "BatchNormalization": {
        7: batch_norm_of_images,
        9: batch_norm_with_outputs,
        **since(batch_norm, 14, 15),
    },
    "LayerNormalization": since(layer_norm, 17),
    "RMSNormalization": since(rms_norm, 23),
    "InstanceNormalization": since(instance_norm, 6, 22),
    "GroupNormalization": {18: group_norm_by_group, 21: group_norm},
    "LRN": since(lrn, 1, 13),
    "LpNormalization": since(lp_normalization, 1, 22),
    "MeanVarianceNormalization": since(mean_variance, 9, 13),
}
