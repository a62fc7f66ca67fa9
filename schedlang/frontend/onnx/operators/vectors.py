"""Support vector machines: weighted sums of kernels of each row with the support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import extent
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.scores import label_at, transformed, two_classes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known
from schedlang.language.calls import call as math
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.tvm.topi.stages import compute


def svm_regressor(
    call: Call,
    x: Tensor,
    *,
    coefficients: list[float] | None = None,
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: Flag = 0,
    post_transform: str = "NONE",
    rho: list[float] | None = None,
    support_vectors: list[float] | None = None,
) -> Tensor:
    """The sum of kernels, plus ``rho``; of one class, 1 where it is positive and -1 elsewhere."""
    weights = np.array(coefficients or [], "float32")
    if not rho or n_supports < 0:
        raise call.refused("its attribute 'rho' is missing, or it has a negative number of vectors")
    data = x if x.dtype == "float32" else topi.cast(x, "float32")
    if n_supports:
        kernels = _kernels(call, data, n_supports, support_vectors, kernel_type, kernel_params)
    else:
        kernels = data
    if kernels.ndim != 2 or not isinstance(kernels.shape[1], int):
        raise call.refused(f"its input has {x.ndim} dimensions, not rows of features")
    sums = _weighted(call, kernels, weights.reshape(1, -1), np.array(rho[:1], "float32"))
    if one_class:
        sums = array("side", lambda s: select(s > 0, const(1, s.dtype), const(-1, s.dtype)), sums)
    return transformed(call, sums, post_transform)


def svm_classifier(
    call: Call,
    x: Tensor,
    *,
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    coefficients: list[float] | None = None,
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: list[float] | None = None,
    prob_b: list[float] | None = None,
    rho: list[float] | None = None,
    support_vectors: list[float] | None = None,
    vectors_per_class: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Each pair of classes has a score, by which it votes; the label has the most votes."""
    if prob_a or prob_b:
        raise call.refused(
            "probabilities of support vectors are found by iterations whose number depends on data",
            "Export the model with probability=False; the scores have the same order.",
        )
    groups = vectors_per_class or []
    count, classes = sum(groups), len(groups)
    if not count or classes < 2 or min(groups) < 0:
        raise call.refused(
            f"its classes have {groups} support vectors", "LinearClassifier needs none."
        )
    numbers, limits = np.array(coefficients or [], "float32"), np.array(rho or [], "float32")
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    fits = numbers.size == (classes - 1) * count and len(limits) == len(pairs)
    if not fits or numbers.min() >= 0:
        raise call.refused(
            f"its {numbers.size} coefficients and {len(limits)} values of 'rho' do not fit {count} "
            f"vectors of {classes} classes"
        )
    table, ends = numbers.reshape(classes - 1, count), np.cumsum([0, *groups])
    weights = np.zeros((len(pairs), count), "float32")
    for row, (i, j) in zip(weights, pairs):
        for own, other in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            row[part] = table[other, part]
    data = x if x.dtype == "float32" else topi.cast(x, "float32")
    kernels = _kernels(call, data, count, support_vectors, kernel_type, kernel_params)
    scores = _weighted(call, kernels, weights, limits)
    votes = _votes(scores, pairs, classes)
    shown = two_classes(scores, False) if len(pairs) == 1 else scores
    return label_at(call, votes, classlabels_ints), transformed(call, shown, post_transform)


def _votes(scores: Tensor, pairs: list[tuple[int, int]], classes: int) -> Tensor:
    """Return how many pairs vote for each class."""

    def vote(b: Axis, c: Axis) -> Expr:
        votes: Any = const(0, "int32")
        for k, (i, j) in enumerate(pairs):
            first = scores[b, k] > 0
            votes = votes + cast((c.equal(i) & first) | (c.equal(j) & ~first), "int32")
        counted: Expr = votes
        return counted

    return compute("votes", (scores.shape[0], extent(as_expr(classes))), vote, ["b", "c"])


def _weighted(call: Call, kernels: Tensor, weights: np.ndarray, rho: np.ndarray) -> Tensor:
    """Return the sums of kernels times weights, plus ``rho``."""
    if weights.shape[1] != kernels.shape[1]:
        raise call.refused(f"it has {weights.shape[1]} coefficients for {kernels.shape[1]} terms")
    table = call.tensor(Known(f"{call.node.name}.weight", weights, "float32"))
    bias = call.tensor(Known(f"{call.node.name}.rho", rho, "float32"))
    return topi.add(topi.nn.dense(kernels, table), bias)


def _kernels(
    call: Call,
    x: Tensor,
    count: int,
    vectors: list[float] | None,
    kind: str,
    params: list[float] | None,
) -> Tensor:
    """Return the kernel of each row and each support vector."""
    features = x.shape[1] if x.ndim == 2 else None
    if not isinstance(features, int) or len(vectors or []) != count * features:
        raise call.refused(
            f"its support vectors have {len(vectors or [])} numbers: not {count} vectors for an "
            f"input of shape {x.shape}"
        )
    gamma, offset, degree = [*(params or []), 0.0, 0.0, 0.0][:3]
    known = np.array(vectors, "float32").reshape(count, features)
    table = call.tensor(Known(f"{call.node.name}.vectors", known, "float32"))
    if kind == "RBF":
        k = reduce_axis(features, "k")

        def square(b: Axis, v: Axis) -> Any:
            difference = x[b, k] - table[v, k]
            return total(difference * difference, axis=k)

        squares = compute("distance", (x.shape[0], table.shape[0]), square, ["b", "v"])
        return array("kernel", lambda s: math("exp", s * -gamma), squares)
    products = topi.nn.dense(x, table)
    if kind == "LINEAR":
        return products
    if kind == "SIGMOID":
        return array("kernel", lambda s: math("tanh", s * gamma + offset), products)
    if kind != "POLY" or degree not in range(1, 65):
        raise call.refused(f"its kernel is {kind!r:.40} of degree {degree}, which has no form here")

    def power(s: Any) -> Any:
        base = s * gamma + offset
        result = base
        for _ in range(int(degree) - 1):
            result = result * base
        return result

    return array("kernel", power, products)


OPERATORS: Table = {
    "SVMClassifier": since(svm_classifier, 1),
    "SVMRegressor": since(svm_regressor, 1),
}
