"""The model that the arguments of ``sl.network`` describe, and the checks of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.graph import operations, placeholders, variables
from schedlang.compute.tensor import PlaceholderOp, Tensor, declaration
from schedlang.compute.whole import refuse_functions
from schedlang.errors import CallTypeError, NetworkError, explain, nearest, text_of
from schedlang.expr.nodes import Var
from schedlang.ir.arguments import sizes_of
from schedlang.networks.model import Model


def model_of(outputs: Any, params: Mapping[Any, Any] | None) -> Model:
    """Return the model that the arguments of ``sl.network`` describe.

    Raises :class:`~schedlang.errors.CallTypeError` for outputs that are not tensors and for weights
    that are not a dict, and :class:`~schedlang.errors.NetworkError` for weights that do not fit.
    """
    if params is not None and not isinstance(params, Mapping):
        raise CallTypeError(
            f"sl.network(..., params={text_of(params)}): give a dict of arrays, by placeholders or "
            "by their names; a target is target=..."
        )
    if isinstance(outputs, Model):
        if params:
            raise NetworkError(
                explain(
                    "sl.network of an imported model with params",
                    "the model has its own weights",
                    "Leave params out, or pass model.outputs.",
                )
            )
        return outputs
    tensors = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    refuse_functions("sl.network", *tensors)
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise CallTypeError(
            f"sl.network({text_of(outputs)}): give a tensor, a list of them, or a model "
            "that sl.frontend.from_torch or sl.frontend.from_onnx imported"
        )
    read = placeholders(tensors)
    values = _weights(read, params)
    for tensor in values:
        if isinstance(tensor, Tensor) and not all(isinstance(e, int) for e in tensor.shape):
            raise NetworkError(
                explain(
                    f"the weight {declaration(tensor)}",
                    "its extents must be numbers: the extents of its array",
                    "Declare the placeholder with the shape of the array.",
                )
            )
    inputs = tuple(t for t in read if t not in values)
    single = not isinstance(outputs, (list, tuple))
    return Model(tensors, inputs, values, structure=0 if single else tuple(range(len(tensors))))


def check_outputs(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Raise :class:`~schedlang.errors.NetworkError` for outputs that no call can write."""
    # a call knows the size of an output alone if it is given the array: net(x, out=y)
    known = sizes_of((*inputs, *outputs))
    for scalar in variables(outputs):
        if scalar.is_size and scalar not in known:
            raise NetworkError(
                explain(
                    f"sl.network with the size {scalar.name} of {_first_use(scalar, outputs)}",
                    "no extent of an input or an output determines it",
                    f"Make {scalar.name} an extent of an input, as in sl.placeholder(("
                    f"{scalar.name}, ...)), or put a number in its place.",
                )
            )
        if not scalar.is_size:
            raise NetworkError(
                explain(
                    f"sl.network with the scalar {scalar.name}",
                    "a call takes arrays alone",
                    f'Read it from a tensor: {scalar.name} = sl.placeholder((), "{scalar.dtype}"), '
                    f"and {scalar.name}[()] in expressions.",
                )
            )
    for tensor in outputs:
        if isinstance(tensor.op, PlaceholderOp):
            raise NetworkError(
                explain(
                    f"sl.network with the output {tensor.name}",
                    "it is an input, so that no kernel computes it",
                    "Leave it out, or return a copy, such as sl.named('copy', x + 0).",
                )
            )
        if list(outputs).count(tensor) > 1:
            raise NetworkError(f"sl.network: the output {tensor.name} is given twice")


def _first_use(size: Var, outputs: Sequence[Tensor]) -> str:
    """Return a phrase for the first tensor behind ``outputs`` that has or reads a size."""
    tensors = (
        op.output() if isinstance(op, PlaceholderOp) else op.outputs[0]
        for op in operations(outputs)
    )
    first = next(tensor for tensor in tensors if size in variables([tensor]))
    if isinstance(first.op, PlaceholderOp):
        return f"input {declaration(first)}"
    return f"stage {first.name}"


def _weights(read: Sequence[Tensor], params: Mapping[Any, Any] | None) -> dict[Tensor, Any]:
    """Return the arrays of weights by their placeholders, which may be given by name."""
    if params is None:
        return {}
    by_name: dict[str, list[Tensor]] = {}
    for tensor in read:
        by_name.setdefault(tensor.name, []).append(tensor)
    weights: dict[Tensor, Any] = {}
    for key, value in params.items():
        if not isinstance(key, str):
            if isinstance(key, Tensor) and not isinstance(key.op, PlaceholderOp):
                raise NetworkError(
                    explain(
                        f"sl.network with an array for {key.name}",
                        "a stage computes it, and arrays are for placeholders alone",
                        "Give the arrays of the placeholders that it is computed of, or put a "
                        "placeholder in its place.",
                    )
                )
            if isinstance(key, Tensor) and key not in read:
                name = nearest(key.name, by_name)
                raise NetworkError(
                    explain(
                        f"sl.network with an array for {key.name}",
                        f"no stage reads this placeholder{name}",
                        "Leave it out, or give the placeholder that the stages read.",
                    )
                )
            weights[key] = value
            continue
        named = by_name.get(key, [])
        if len(named) != 1:
            why = (
                f"{len(named)} placeholders have that name"
                if named
                else f"no stage reads a placeholder of that name{nearest(key, by_name)}"
            )
            raise NetworkError(
                explain(f"sl.network with params[{key!r}]", why, "Give the placeholder as the key.")
            )
        if named[0] in params:
            raise NetworkError(f"sl.network with params: the weight {key} is given twice")
        weights[named[0]] = value
    return weights
