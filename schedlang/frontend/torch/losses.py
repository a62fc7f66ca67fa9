"""Losses that ATen has as one operator."""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute import math, reduce
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.frontend.torch.calls import Call, Operator, of_dtype
from schedlang.language.calls import call as function_of
from schedlang.language.construct import cast, select
from schedlang.tvm.topi.stages import compute, wide_dtype


def multilabel_margin_loss(call: Call, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The labels of a row end at the first negative one.

    PyTorch's decomposition counts margins to labels that are not there; its kernel does not.
    """
    single = x.ndim < 2
    if not x.ndim:
        x, target = expand_dims(x, 0), expand_dims(target, 0)
    if single:
        x, target = expand_dims(x, 0), expand_dims(target, 0)
    rows, count = x.shape
    wide = wide_dtype(x.dtype)

    def length(n: Axis) -> Any:
        k = reduce_axis(count, "k")
        return reduce.min(select(target.element((n, k)) < 0, cast(k, "int64"), count), k)

    lengths = compute("length", (rows,), length)

    def is_label(n: Axis, i: Axis) -> Any:
        k = reduce_axis(count, "k")
        return math.any((target.element((n, k)) == i) & (k < lengths.element((n,))), axis=k)

    labels = compute("is_label", (rows, count), is_label)

    def margins(n: Axis) -> Any:
        k, i = reduce_axis(count, "k"), reduce_axis(count, "i")
        label = function_of("max", function_of("min", target.element((n, k)), count - 1), 0)
        away = cast(x.element((n, label)), wide) - cast(x.element((n, i)), wide)
        counts = (k < lengths.element((n,))) & ~labels.element((n, i))
        return reduce.sum(select(counts, function_of("max", 1 - away, 0), 0), [k, i])

    loss = topi.divide(compute("margins", (rows,), margins), cast(count, wide))
    if reduction:
        loss = topi.mean(loss) if reduction == 1 else topi.sum(loss)
    elif single and not call.shape:
        loss = squeeze(loss, 0)
    return of_dtype(loss, call.dtype)


OPERATORS: dict[str, Operator] = {"multilabel_margin_loss.default": multilabel_margin_loss}
