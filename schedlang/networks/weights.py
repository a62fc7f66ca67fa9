"""The arrays of weights, checked against the placeholders that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.compute.arrays import as_numpy
from schedlang.compute.facts import Facts, check_facts, facts_of
from schedlang.compute.graph import operations
from schedlang.compute.tensor import Extent, PlaceholderOp, Tensor, declaration, shape_text
from schedlang.errors import CallError, NetworkError, explain
from schedlang.markup.text import printable


def weight_array(
    tensor: Any,
    value: Any,
    outputs: Sequence[Tensor] = (),
    layers: Mapping[str, str] | None = None,
) -> np.ndarray:
    """Return the array of a weight, in the byte order of this machine.

    Errors name the layer of ``outputs`` that reads it; ``layers`` has the layer of each stage.
    Raises :class:`~schedlang.errors.NetworkError` if the array does not fit or breaks a fact that
    ``sl.assume`` declared, and if ``tensor`` is not a placeholder.
    """
    if not isinstance(tensor, Tensor) or not isinstance(tensor.op, PlaceholderOp):
        name = tensor.name if isinstance(tensor, Tensor) else repr(tensor)
        raise NetworkError(
            explain(
                f"params with {name}",
                f"{name} is not a placeholder, so it takes no array",
                "Give a dict of placeholders, made by sl.placeholder, and arrays.",
            )
        )
    array = as_numpy(value, f"the array of weight {tensor.name}")
    same = len(array.shape) == tensor.ndim and all(
        not isinstance(own, int) or own == n for own, n in zip(tensor.shape, array.shape)
    )
    if not same or array.dtype.name != tensor.dtype:
        raise NetworkError(
            explain(
                f"the weight {declaration(tensor)}{_reader(tensor, outputs, layers)}",
                f"its array is {array.dtype.name} of shape {shape_text(array.shape)}",
                "Give an array of the dtype and shape of the placeholder.",
            )
        )
    # the name of a dtype does not say its byte order, which kernels and digests rely on
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    try:
        check_facts(tensor.name, Facts(*weight_facts(tensor)), array, _number)
    except (CallError, NetworkError) as error:
        asked = f"the weight {declaration(tensor)}{_reader(tensor, outputs, layers)}"
        raise NetworkError(f"{asked}: {error}") from None
    return array


def weight_facts(tensor: Tensor) -> tuple[bool, tuple[int, int] | None]:
    """Return what ``sl.assume`` declared of a weight: whether it is monotonic, and its range.

    Raises :class:`~schedlang.errors.NetworkError` for a range that depends on sizes.
    """
    facts = facts_of(tensor) or Facts()
    if facts.within is None:
        return facts.monotonic, None
    low, high = facts.within
    if not (isinstance(low, int) and isinstance(high, int)):
        raise NetworkError(
            explain(
                f"sl.assume({tensor.name}, within=({low}, {high}))",
                "the range depends on sizes of a call, and weights are checked ahead of all calls",
                f"Declare a range of numbers, or make {tensor.name} an input of the network.",
            )
        )
    return facts.monotonic, (low, high)


def _number(end: Extent) -> int:
    assert isinstance(end, int)
    return end


def _reader(tensor: Tensor, outputs: Sequence[Tensor], layers: Mapping[str, str] | None) -> str:
    """Return a phrase for the layer that reads a weight, empty if none is known."""
    for op in operations(outputs) if layers else ():
        layer = layers.get(op.name) if layers and tensor in op.input_tensors else None
        if layer:
            return f" of layer {printable(layer)}"
    return ""
