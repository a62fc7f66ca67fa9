"""Operators that choose or bound elements."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Const
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value, number


def where(call: Call, condition: Value, x: Value, y: Value) -> Any:
    if condition.dtype != "bool":
        raise call.refused(f"its condition is {condition.dtype}, but must be of bools")
    check_dtypes(call, x, y)
    return topi.where(*call.operands(condition, x, y))


def clip_to_numbers(
    call: Call,
    input: Tensor,  # noqa: A002
    *,
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
) -> Tensor:
    """A bound that is left out is the largest float32 in ONNX, which changes infinities alone."""
    return _clipped(input, min, max)


def clip(
    call: Call,
    input: Tensor,  # noqa: A002
    min: Value | None = None,  # noqa: A002
    max: Value | None = None,  # noqa: A002
) -> Tensor:
    """If ``min`` is more than ``max``, all elements are ``max``."""
    check_dtypes(call, *(v for v in (input, min, max) if v is not None))
    bounds = [_bound(v) for v in (min, max)]
    if all(v is None or k is not None for v, k in zip((min, max), bounds)):
        return _clipped(input, *bounds)
    clipped = input
    for bound, function in ((min, topi.maximum), (max, topi.minimum)):
        if bound is not None:
            if call.tensor(bound).ndim:
                raise call.refused("its bounds must be scalars")
            clipped = function(clipped, call.tensor(bound))
    return clipped


def _bound(value: Value | None) -> Any:
    constant = number(value) if isinstance(value, Known) else None
    return constant.value if isinstance(constant, Const) else None


def _clipped(x: Tensor, low: Any, high: Any) -> Tensor:
    if low is None and high is None:
        return x
    if high is None:
        return topi.nn.relu(x) if low == 0 else topi.maximum(x, low)
    if low is None:
        return topi.minimum(x, high)
    return topi.clip(x, low if low <= high else high, high)


def dropout(
    call: Call,
    data: Tensor,
    ratio: Value | None = None,
    training_mode: Known | None = None,
    *,
    seed: int = 0,
) -> list[Tensor]:
    """At inference every element stays, as the mask says."""
    if training_mode is not None and training_mode.array.any():
        raise call.refused(
            "it is in training mode, in which it drops elements at random",
            "Export the model for inference.",
        )
    return _kept(call, data, "bool")


def dropout_of_number(call: Call, data: Tensor, *, ratio: float = 0.5) -> list[Tensor]:
    """Before opset 10, the mask had the dtype of the data."""
    return _kept(call, data, "bool" if call.version >= 10 else data.dtype)


def _kept(call: Call, data: Tensor, dtype: str) -> list[Tensor]:
    masked = any(call.node.outputs[1:])
    return [data, topi.full(data.shape, dtype, 1)] if masked else [data]


OPERATORS: Table = {
    "Where": since(where, 9, 16),
    "Clip": {6: clip_to_numbers, **since(clip, 11, 12, 13)},
    "Dropout": {**since(dropout_of_number, 7, 10), **since(dropout, 12, 13, 22)},
}
