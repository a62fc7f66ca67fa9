"""The error of a model in fewer bits, layer by layer: of a quantized one against its floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log10
from typing import Any

import numpy as np

from schedlang.compute.graph import operations
from schedlang.compute.tensor import ComputeOp, Tensor, declaration
from schedlang.errors import FrontendError, explain
from schedlang.expr import dtypes
from schedlang.frontend.imported import Imported
from schedlang.markup.columns import align_columns
from schedlang.markup.text import printable
from schedlang.networks.entry import network
from schedlang.networks.model import FULL
from schedlang.signatures import public
from schedlang.target import TargetLike


@dataclass(frozen=True)
class QuantizationError:
    """Ratios of signal to noise in decibels: of each layer by its name, and of each output.

    A ratio is 20 times the decimal logarithm of the length of the float values over the length of
    their difference from the quantized ones, and infinite where these are equal.
    """

    layers: Mapping[str, float]
    outputs: tuple[float, ...]

    def __str__(self) -> str:
        names = [*map(printable, self.layers), *(f"output {k}" for k in range(len(self.outputs)))]
        ratios = [*self.layers.values(), *self.outputs]
        rows = [([f"{ratio:.1f}"], name) for name, ratio in zip(names, ratios)]
        return "\n".join(align_columns([(["dB"], "layer"), *rows], left=True))


@public
def quantization_error(
    floats: Imported, quantized: Imported, *arrays: Any, target: TargetLike | None = None
) -> QuantizationError:
    """Return how far a quantized model is from the same model in floats, on given inputs.

    ``floats`` and ``quantized`` are two imported models with equal inputs, and ``arrays`` one array
    for each input. Layers are compared that have one name and a result of one shape, in floats, in
    both models, and so are the outputs. Both models run as the file says, with ``fold=False``, as
    ONNX Runtime's ``qdq_loss_debug`` runs them without optimizations; its ``xmodel_err`` are the
    same ratios. Each layer becomes an output of a network for ``target``.

    Raises :class:`~schedlang.errors.FrontendError` for models with other inputs or outputs, and the
    errors of a call for arrays that do not fit.

    >>> import numpy as np, schedlang as sl
    >>> from schedlang import topi
    >>> x = sl.placeholder((4,), name="x")
    >>> near = sl.named("y", topi.divide(topi.round(topi.multiply(x, 10.0)), 10.0))
    >>> models = [sl.frontend.Imported((y,), (x,), {}) for y in (sl.named("y", x * 1.0), near)]
    >>> x0 = np.array([0.52, -1.04, 0.98, 0.33], "float32")
    >>> print(quantization_error(*models, x0, target="python"))
    layer       dB
    output 0  28.7
    """
    for what in ("inputs", "outputs"):
        first, second = ([_form(t) for t in getattr(m, what)] for m in (floats, quantized))
        if first != second:
            raise FrontendError(
                explain(
                    f"quantization_error of a model with the {what} {_shown(floats, what)} and one "
                    f"with {_shown(quantized, what)}",
                    "they are not one model, in floats and quantized",
                    "Give the model in floats first, and the quantized one that was made of it.",
                )
            )
    own, other = results_of(floats), results_of(quantized)
    common = [
        layer for layer, tensor in own.items() if layer in other and _alike(tensor, other[layer])
    ]
    exact = values_of(floats, [own[layer] for layer in common], arrays, target)
    near = values_of(quantized, [other[layer] for layer in common], arrays, target)
    ratios = [decibels(a, b) for a, b in zip(exact, near)]
    return QuantizationError(dict(zip(common, ratios)), tuple(ratios[len(common) :]))


def decibels(exact: np.ndarray, near: np.ndarray) -> float:
    """Return the ratio of signal to noise of an approximation, in decibels.

    >>> decibels(np.float32([3, 4]), np.float32([3, 4.5])), decibels(np.ones(2), np.ones(2))
    (20.0, inf)
    """
    signal, noise = (float(np.linalg.norm(v.astype("float64"))) for v in (exact, exact - near))
    if noise == 0:
        return inf
    return 20 * log10(signal / noise) if signal else -inf


def results_of(model: Imported) -> dict[str, Tensor]:
    """Return the last stage of each layer, by the name of the layer."""
    outputs = {*model.outputs}
    results = {}
    for op in operations(model.outputs):
        layer = model.layers.get(op.name)
        if layer is not None and isinstance(op, ComputeOp) and len(op.outputs) == 1:
            results[layer] = op.outputs[0]
    return {layer: tensor for layer, tensor in results.items() if tensor not in outputs}


def _alike(a: Tensor, b: Tensor) -> bool:
    return dtypes.is_float(a.dtype) and a.dtype == b.dtype and a.shape == b.shape


def values_of(
    model: Imported,
    layers: Sequence[Tensor],
    arrays: Sequence[Any],
    target: TargetLike | None,
    precision: str = FULL,
) -> list[np.ndarray]:
    """Return the values of layers and outputs of a model, computed as the model says.

    ``precision`` is the one of the factors of products.
    """
    tensors = (*layers, *model.outputs)
    whole = Imported(tensors, model.inputs, model.params, model.layers)
    result = network(whole, target=target, fold=False, winograd=False, precision=precision)(*arrays)
    return [np.asarray(v) for v in (result if isinstance(result, tuple) else (result,))]


def _form(tensor: Tensor) -> tuple[str, tuple[str, ...]]:
    return tensor.dtype, tuple(map(str, tensor.shape))


def _shown(model: Imported, what: str) -> str:
    return ", ".join(map(declaration, getattr(model, what)))


__all__ = ["QuantizationError", "decibels", "quantization_error", "results_of", "values_of"]
