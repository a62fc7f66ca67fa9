"""Weights and buffers of a module as placeholders with their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor, placeholder
from schedlang.compute.torch_tensors import tensor_as_numpy
from schedlang.errors import CallTypeError, FrontendError, explain
from schedlang.expr import dtypes
from schedlang.frontend.model_names import Names


def dtype_of(kind: Any, what: str) -> str:
    """Return the name of a dtype of PyTorch.

    Raises :class:`~schedlang.errors.FrontendError` for one that computations do not have.
    """
    name = str(kind).removeprefix("torch.")
    if name not in dtypes.DTYPES or dtypes.is_complex(name):
        complex_ = name.startswith(("complex", "cfloat"))
        raise FrontendError(
            explain(
                f"from_torch: {what} is {name}",
                "a network computes with real numbers"
                if complex_
                else "no computation has this dtype",
                "Keep the real and the imaginary part in tensors of their own."
                if complex_
                else "Convert it, such as by .float() or .dequantize().",
            )
        )
    return name


def params_of(
    values: Iterable[tuple[Any, str, Any]], names: Names
) -> tuple[dict[Any, Tensor], dict[Tensor, np.ndarray]]:
    """Return the placeholder of each node, and the array of each placeholder.

    ``values`` are nodes with the name and the value of their weight. Nodes of one weight, which is
    tied, have one placeholder.
    """
    tensors: dict[Any, Tensor] = {}
    arrays: dict[Tensor, np.ndarray] = {}
    by_identity: dict[tuple[Any, ...], Tensor] = {}
    for node, name, value in values:
        key = _identity(value)
        if key not in by_identity:
            array = _array(name, value)
            dtype = dtype_of(value.dtype, f"weight {name}")
            by_identity[key] = placeholder(array.shape, dtype, name=names.new(name))
            arrays[by_identity[key]] = array
        tensors[node] = by_identity[key]
    return tensors, arrays


def _identity(value: Any) -> tuple[Any, ...]:
    """Return a key that is the same for tensors that are one array."""
    if not value.numel() or value.device.type == "meta":
        return (id(value),)
    return (value.data_ptr(), tuple(value.shape), value.stride(), value.dtype)


def _array(name: str, value: Any) -> np.ndarray:
    plain = value.detach()
    dtype_of(plain.dtype, f"weight {name}")
    try:
        memory = tensor_as_numpy(plain, name)
    except CallTypeError as error:
        raise FrontendError(f"from_torch: weight {error}") from None
    # a copy, which later training of the module does not change
    return np.array(memory, order="C", copy=True)


def quantized_layer(module: Any) -> str:
    """Return the first layer of a module with quantized weights or arithmetic; "" if none."""
    for path, layer in module.named_modules():
        place = type(layer).__module__.split(".")
        if place[0] == "torch" and "quantized" in place:
            return str(path) or type(layer).__name__
    named: Mapping[str, Any] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return next((path for path, value in named.items() if value.is_quantized), "")
