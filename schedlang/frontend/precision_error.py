"""The error of a network in a precision against the model in float64, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.compute.data import from_data, to_data
from schedlang.compute.tensor import Tensor
from schedlang.frontend.imported import Imported
from schedlang.frontend.quantization_error import (
    QuantizationError,
    decibels,
    results_of,
    values_of,
)
from schedlang.signatures import public
from schedlang.target import TargetLike

# the kinds of items of the data form whose first field is a dtype, not a name
_TYPED = ("const",)


@public
def precision_error(
    model: Imported, *arrays: Any, precision: str, target: TargetLike | None = "cuda"
) -> QuantizationError:
    """Return how far a network in a precision is from its model in float64, on given inputs.

    ``arrays`` has one array for each input of ``model``, and ``precision`` is as
    :func:`schedlang.network` takes it; ``"float32"`` is the error of a network without one. The
    network runs on ``target``, without folded scales, so that layers are the same as in the model.
    Its weights are the model's, and so are the inputs: NumPy computes in float64 from the same
    values. The result has a ratio in decibels for each layer with a result in float32, and for each
    output.

    Raises the errors of :func:`schedlang.network` and of a call of it.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang import topi
    >>> x, w = sl.placeholder((1, 2), name="x"), sl.placeholder((1, 2), name="w")
    >>> y = sl.named("fc", topi.nn.dense(x, w))
    >>> model = sl.frontend.Imported((y,), (x,), {w: np.array([[1, 0]], "float32")})
    >>> x0 = np.array([[1 + 2**-11, 2]], "float32")
    >>> print(precision_error(model, x0, precision="float16", target="cuda-emulator"))
    layer       dB
    output 0  66.2
    """
    layers = {name: t for name, t in results_of(model).items() if t.dtype == "float32"}
    near = values_of(model, list(layers.values()), arrays, target, precision)
    tensors = (*layers.values(), *model.outputs)
    wide = in_float64((*tensors, *model.inputs, *model.params))
    count, inputs = len(tensors), len(model.inputs)
    exact = Imported(
        wide[:count],
        wide[count : count + inputs],
        dict(zip(wide[count + inputs :], map(_wider, model.params.values()))),
    ).reference(*map(_wider, arrays))
    ratios = [decibels(a, b) for a, b in zip(exact if count > 1 else (exact,), near)]
    return QuantizationError(dict(zip(layers, ratios)), tuple(ratios[len(layers) :]))


def in_float64(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return tensors that compute the same, with float64 in place of float32.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> in_float64([sl.named("B", A * 0.5), A])
    (Tensor(B: float64[4]), Tensor(A: float64[4]))
    """
    data = to_data(tensors)
    for item in data["items"]:
        first = 1 if item[0] in _TYPED else 2
        item[first:] = ["float64" if field == "float32" else field for field in item[first:]]
    return tuple(from_data(data))


def _wider(array: Any) -> Any:
    return array.astype("float64") if str(array.dtype) == "float32" else array


__all__ = ["in_float64", "precision_error"]
