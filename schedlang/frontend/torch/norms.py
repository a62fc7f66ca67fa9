"""Norms and softmaxes of ATen."""

from __future__ import annotations

from functools import wraps
from typing import Any

from schedlang import topi
from schedlang.compute.tensor import Tensor
from schedlang.frontend.torch.calls import Call, Operator, of_dtype
from schedlang.tvm.topi.nn.norms import channel_norm


def batch_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    weight: Any,
    bias: Any,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
) -> Tensor:
    results = topi.nn.batch_norm(
        input, weight, bias, running_mean, running_var, 1, eps, bias is not None, weight is not None
    )
    return results[0]


@wraps(batch_norm)
def batch_norm_and_statistics(*args: Any, **named: Any) -> tuple[Tensor, None, None]:
    return batch_norm(*args, **named), None, None


def layer_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    normalized_shape: Any,
    weight: Any,
    bias: Any,
    eps: float,
) -> Tensor:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    return topi.nn.layer_norm(input, weight, bias, axes, eps)


def rms_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    normalized_shape: Any,
    weight: Any,
    eps: Any,
) -> Tensor:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    return topi.nn.rms_norm(input, weight, axes, _smallest(input) if eps is None else eps)


def _smallest(x: Tensor) -> float:
    """Return the distance from 1 to the next number of the dtype, PyTorch's default ``eps``."""
    return {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}.get(x.dtype, 2.0**-7)


def group_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    num_groups: int,
    weight: Any,
    bias: Any,
    eps: float,
) -> Tensor:
    axes = list(range(2, input.ndim))
    if not axes:
        # topi normalizes over one dimension or more besides the channels of a group
        normalized = topi.nn.group_norm(
            topi.expand_dims(input, 2), weight, bias, num_groups, 1, [2], eps
        )
        return topi.squeeze(normalized, 2)
    return topi.nn.group_norm(input, weight, bias, num_groups, 1, axes, eps)


def instance_norm(
    call: Call,
    input: Tensor,  # noqa: A002
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    eps: float,
) -> Tensor:
    if not use_input_stats:
        return batch_norm(call, input, weight, bias, running_mean, running_var, eps)
    return channel_norm(input, weight, bias, 1, list(range(2, input.ndim)), eps)


def batch_norm_of_batch(
    call: Call,
    input: Tensor,  # noqa: A002
    weight: Any,
    bias: Any,
    eps: float,
) -> tuple[Tensor, None, None]:
    """A batch norm without kept statistics: it normalizes by the statistics of its batch."""
    axes = [k for k in range(input.ndim) if k != 1]
    return channel_norm(input, weight, bias, 1, axes, eps), None, None


def softmax(call: Call, x: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return topi.full_like(x, 1)
    return topi.nn.softmax(of_dtype(x, call.dtype), dim)


def log_softmax(call: Call, x: Tensor, dim: int) -> Tensor:
    if not x.ndim:
        return topi.full_like(x, 0)
    return topi.nn.log_softmax(of_dtype(x, call.dtype), dim)


OPERATORS: dict[str, Operator] = {
    "batch_norm.default": batch_norm,
    "_native_batch_norm_legit_no_training.default": batch_norm_and_statistics,
    "_native_batch_norm_legit.no_stats": batch_norm_of_batch,
    "layer_norm.default": layer_norm, "rms_norm.default": rms_norm,
    "group_norm.default": group_norm, "instance_norm.default": instance_norm,
    "softmax.int": softmax, "log_softmax.int": log_softmax, "_softmax.default": softmax,
    "_log_softmax.default": log_softmax,
}  # fmt: skip
