"""Operators of the domain ``ai.onnx.ml``, which scikit-learn's models are exported with."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators import trees, vectors
from schedlang.frontend.onnx.operators.refused import TEXT
from schedlang.frontend.onnx.operators.scores import label_at, transformed, two_classes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.composed import norm_of
from schedlang.language.construct import binary, cast, const, select
from schedlang.tvm.topi.sorting import places_in
from schedlang.tvm.topi.stages import compute

# the most keys of a table that becomes a choice
MOST_CHOICES = 64


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
    multi_class: Flag = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label of the largest score, and the scores."""
    labels = classlabels_ints or classlabels_strings or []
    features = x.shape[-1] if x.ndim == 2 and isinstance(x.shape[-1], int) else 1
    single = len(labels) == 2 and len(coefficients) == features
    count = 1 if single else len(labels)
    scores = _linear(call, x, coefficients, intercepts, count, "NONE")
    scores = transformed(call, two_classes(scores, False) if single else scores, post_transform)
    return label_at(call, scores, classlabels_ints), scores


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
    return transformed(call, product, post)


def imputer(
    call: Call,
    x: Tensor,
    *,
    imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:
    """Values of a feature in place of those that are missing: NaN, or one number."""
    floats = imputed_value_floats is not None
    values = np.array(imputed_value_floats if floats else imputed_value_int64s or [], x.dtype)
    if x.ndim != 2 or len(values) not in (1, x.shape[1]):
        raise call.refused(f"it has {len(values)} values for an input of shape {x.shape}")
    number = replaced_value_float if floats else replaced_value_int64
    known = call.operands(x, Known(f"{call.node.name}.values", values, x.dtype))[1]
    if number != number:
        return array("imputed", lambda v, w: select(binary("!=", v, v), w, v), x, known)
    missing = const(number, x.dtype)
    return array("imputed", lambda v, w: select(v.equal(missing), w, v), x, known)


def binarizer(call: Call, x: Tensor, *, threshold: float = 0.0) -> Tensor:
    limit = const(threshold, x.dtype)
    return array("binarized", lambda v: cast(v > limit, x.dtype), x)


def one_hot_encoder(
    call: Call,
    x: Tensor,
    *,
    cats_int64s: list[int] | None = None,
    cats_strings: list[str] | None = None,
    zeros: Flag = 1,
) -> Tensor:
    """1 at the category that an element equals, in a last dimension of all of them.

    Without ``zeros`` an element of no category is an error elsewhere; here its row is 0, too.
    """
    if cats_strings:
        raise call.refused(*TEXT)
    if not cats_int64s or len({*cats_int64s}) < len(cats_int64s):
        raise call.refused("its categories are missing, or two of them are one")
    categories = np.array(cats_int64s, "int64")
    known = call.tensor(Known(f"{call.node.name}.categories", categories, "int64"))
    whole = x if x.dtype == "int64" else topi.cast(x, "int64")

    def element(*at: Axis) -> Expr:
        return cast(whole.element(at[:-1]).equal(known[at[-1]]), "float32")

    return compute("one_hot", (*x.shape, *known.shape), element)


def label_encoder(
    call: Call,
    x: Tensor,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: np.ndarray | None = None,
    keys_floats: list[float] | None = None,
    keys_int64s: list[int] | None = None,
    keys_strings: list[str] | None = None,
    keys_tensor: np.ndarray | None = None,
    values_floats: list[float] | None = None,
    values_int64s: list[int] | None = None,
    values_strings: list[str] | None = None,
    values_tensor: np.ndarray | None = None,
) -> Tensor:
    """The value beside the key that an element equals: a choice, or from a table if it is long."""
    if keys_strings or values_strings:
        raise call.refused(*TEXT)
    keys = np.asarray(first(keys_tensor, keys_int64s, keys_floats, []))
    values = np.asarray(first(values_tensor, values_int64s, values_floats, []))
    if len(keys) != len(values) or not len(keys) or values.dtype.kind not in "iuf":
        raise call.refused(f"it has {len(keys)} keys and {len(values)} values")
    dtype = "float32" if values_floats else values.dtype.name
    other = default_int64 if values_int64s else default_float
    other = other if default_tensor is None else default_tensor.item()
    if len(keys) > MOST_CHOICES:
        return _looked_up(call, x, keys.astype(x.dtype), values.astype(dtype), other)

    def element(v: Expr) -> Expr:
        chosen: Expr = const(other, dtype)
        for key, value in zip(reversed(keys.tolist()), reversed(values.tolist())):
            same = binary("!=", v, v) if key != key else v.equal(const(key, x.dtype))
            chosen = select(same, const(value, dtype), chosen)
        return chosen

    return array("encoded", element, x)


def _looked_up(call: Call, x: Tensor, keys: np.ndarray, values: np.ndarray, other: Any) -> Tensor:
    """Return the value beside the first key that an element equals, by a search in sorted keys."""
    numbers = keys == keys
    ordered, first_places = np.unique(keys[numbers], return_index=True)
    name, dtype = call.node.name, values.dtype.name
    table = call.tensor(Known(f"{name}.keys", ordered, x.dtype))
    results = call.tensor(Known(f"{name}.values", values[numbers][first_places], dtype))
    place = places_in(table, x, False, "int64")
    key, value = (topi.take(t, place, 0, mode="clip") for t in (table, results))
    of_nan = const(other if numbers.all() else values[~numbers][0].item(), dtype)

    def element(v: Expr, k: Expr, w: Expr) -> Expr:
        known = select(v.equal(k), w, const(other, dtype))
        return select(binary("!=", v, v), of_nan, known) if keys.dtype.kind == "f" else known

    return array("encoded", element, x, key, value)


def label_encoder_of_strings(
    call: Call,
    x: Tensor,
    *,
    classes_strings: list[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Tensor:
    raise call.refused(*TEXT)


def first(*given: Any) -> Any:
    """Return the first of several values that is given."""
    return next(v for v in given if v is not None)


OPERATORS: Table = {
    "ZipMap": since(zip_map, 1),
    "ArrayFeatureExtractor": since(array_feature_extractor, 1),
    "Scaler": since(scaler, 1),
    "Normalizer": since(normalizer, 1),
    "LinearRegressor": since(linear_regressor, 1),
    "LinearClassifier": since(linear_classifier, 1),
    "Imputer": since(imputer, 1),
    "Binarizer": since(binarizer, 1),
    "OneHotEncoder": since(one_hot_encoder, 1),
    "LabelEncoder": {1: label_encoder_of_strings, **since(label_encoder, 2, 4)},
    **trees.OPERATORS,
    **vectors.OPERATORS,
}
