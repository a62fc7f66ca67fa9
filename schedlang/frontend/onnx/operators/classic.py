"""Operators of the domain ``ai.onnx.ml``, which scikit-learn's models are exported with."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.composed import norm_of
from schedlang.language.construct import select


def zip_map(
    call: Call,
    x: Value,
    *,
    classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
) -> Value:
    """The tensor of probabilities, which the operator turns into a dict for each row."""
    return x


def array_feature_extractor(call: Call, x: Tensor, y: Value) -> Tensor:
    """Elements of the last dimension; elements of a vector are one row."""
    if y.dtype != "int64":
        raise call.refused(f"its indices are {y.dtype}, but must be int64")
    data = reshape(x, (1, x.shape[0])) if x.ndim == 1 else x
    places = call.tensor(y)
    flat = places if places.ndim == 1 else reshape(places, (-1,))
    return topi.take(data, flat, data.ndim - 1, mode="wrap")


def scaler(
    call: Call, x: Tensor, *, offset: list[float] | None = None, scale: list[float] | None = None
) -> Tensor:
    """``(x - offset) * scale`` in float32, of each feature or with one number for all."""
    data = x if x.dtype == "float32" else topi.cast(x, "float32")
    moved = _parameter(call, data, offset, "offset")
    factor = _parameter(call, data, scale, "scale")
    if moved is not None:
        data = topi.subtract(data, moved)
    return data if factor is None else topi.multiply(data, factor)


def _parameter(call: Call, x: Tensor, numbers: list[float] | None, what: str) -> Any:
    if numbers is None:
        return None
    if len(numbers) != 1 and (not x.ndim or len(numbers) != x.shape[-1]):
        raise call.refused(
            f"its attribute {what!r} has {len(numbers)} numbers for an input of shape {x.shape}"
        )
    constant = Known(f"{call.node.name}.{what}", np.array(numbers, "float32"), "float32")
    return call.operands(x, constant)[1]


def normalizer(call: Call, x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Each row over its norm; rows whose norm is 0 stay."""
    data = x if x.dtype == "float32" else topi.cast(x, "float32")
    along = axis_number(-1, data.ndim, str(call.node))
    if norm == "MAX":
        norms = topi.max(data, along, True)
    elif norm == "L1":
        norms = topi.sum(topi.abs(data), along, True)
    elif norm == "L2":
        squares = topi.sum(array("squares", lambda v: v * v, data), along, True)
        norms = array("norms", norm_of, squares)
    else:
        raise call.refused(f"its attribute 'norm' is {norm!r:.40}, not MAX, L1 or L2")
    return array("normalized", lambda v, n: select(n.equal(0), v, v / n), data, norms)


def linear_regressor(
    call: Call,
    x: Tensor,
    *,
    coefficients: list[float] | None = None,
    intercepts: list[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    return _linear(call, x, coefficients, intercepts, targets, post_transform)


def linear_classifier(
    call: Call,
    x: Tensor,
    *,
    coefficients: list[float],
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    intercepts: list[float] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label of the largest score, and the scores."""
    if classlabels_ints is None:
        raise call.refused(
            "its labels are strings, which have no dtype here",
            "Train the model with integers for labels.",
        )
    count = len(classlabels_ints)
    if count < 3 or len(coefficients) % count:
        raise call.refused(
            f"with {count} labels and {len(coefficients)} coefficients it has no form here"
        )
    scores = _linear(call, x, coefficients, intercepts, count, "NONE")
    labels = call.tensor(
        Known(f"{call.node.name}.labels", np.array(classlabels_ints, "int64"), "int64")
    )
    chosen = topi.take(labels, topi.argmax(scores, 1), 0, mode="fast")
    return chosen, _transformed(call, scores, post_transform)


def _linear(
    call: Call,
    x: Tensor,
    coefficients: list[float] | None,
    intercepts: list[float] | None,
    targets: int,
    post: str,
) -> Tensor:
    features = x.shape[-1] if x.ndim == 2 else None
    numbers = coefficients or []
    if not isinstance(features, int) or targets < 1 or len(numbers) != targets * features:
        raise call.refused(
            f"{len(numbers)} coefficients are not {targets} rows for an input of shape {x.shape}"
        )
    data = x if x.dtype == "float32" else topi.cast(x, "float32")
    rows = np.array(numbers, "float32").reshape(targets, features)
    product = topi.nn.dense(data, call.tensor(Known(f"{call.node.name}.weight", rows, "float32")))
    if intercepts is not None:
        if len(intercepts) not in (1, targets):
            raise call.refused(f"it has {len(intercepts)} intercepts for {targets} targets")
        bias = Known(f"{call.node.name}.bias", np.array(intercepts, "float32"), "float32")
        product = topi.add(product, call.operands(product, bias)[1])
    return _transformed(call, product, post)


def _transformed(call: Call, scores: Tensor, post: str) -> Tensor:
    if post == "NONE":
        return scores
    if post == "SOFTMAX":
        return topi.nn.softmax(scores)
    if post == "LOGISTIC":
        return topi.sigmoid(scores)
    raise call.refused(f"its attribute 'post_transform' is {post!r:.40}, which has no form here")


OPERATORS: Table = {
    "ZipMap": since(zip_map, 1),
    "ArrayFeatureExtractor": since(array_feature_extractor, 1),
    "Scaler": since(scaler, 1),
    "Normalizer": since(normalizer, 1),
    "LinearRegressor": since(linear_regressor, 1),
    "LinearClassifier": since(linear_classifier, 1),
}
