"""Attention, with the softmax of its rows in one pass over the scores, or with stored weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from schedlang.arrays.shapes import is_one, same
from schedlang.compute.custom_reducer import comm_reducer
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import max as largest
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const, select
from schedlang.tvm.tir import infinity
from schedlang.tvm.topi.checks import check_same, check_tensor
from schedlang.tvm.topi.rules import floats, one_of, operator
from schedlang.tvm.topi.stages import compute, result_dtype, wide_dtype

DIMS = ("batch", "sequence", "heads", "width")
# the axes of scores
NAMES = ["b", "h", "i", "j"]


@operator(
    query=floats(*DIMS),
    key=floats(*DIMS),
    value=floats(*DIMS),
    causal_mask=one_of(None, "TopLeft", "BottomRight"),
)
def attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    online: bool = True,
) -> Tensor:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` for each batch and head.

    It takes the arguments of TVM's ``R.nn.attention``: ``query`` is ``[batch, i, heads, width]``,
    ``key`` is ``[batch, j, heads, width]``, ``value`` is ``[batch, j, heads, columns]``, and the
    result ``[batch, i, heads, columns]``. ``key`` and ``value`` may have fewer heads, each for a
    group of equally many heads of the query. ``scale`` is ``1 / sqrt(width)`` by default. ``bias``
    is ``[batch, heads, i, j]``, with 1 for dimensions that broadcast. ``causal_mask="TopLeft"``
    lets row i see ``j <= i``, ``"BottomRight"`` lets the last row see all j. A row that sees
    nothing is NaN. Scores and sums of short floats are computed in float32.

    Its stages: ``attention_scores`` (the sum over the width), ``attention_masked`` (scaled, biased
    and masked), ``attention_rows`` (the largest score of a row and its softmax's sum in one
    reduction, an online softmax), ``attention_sum`` (the weighted sum of values) and ``attention``.
    So a schedule may compute a tile of scores where a tile of rows needs it. Source: M. Milakov and
    N. Gimelshein, "Online normalizer calculation for softmax", 2018.

    Without ``online``, ``attention_rows`` is the largest score of a row, ``attention_weights`` the
    exponentials of its scores minus this one, and ``attention_total`` their sum. That takes fewer
    exponentials, and suits a machine whose caches hold the scores of some rows.

    >>> import schedlang as sl
    >>> q, k, v = (sl.placeholder((1, 6, 2, 4), name=name) for name in "qkv")
    >>> attention(q, k, v, causal_mask="TopLeft")
    Tensor(attention: float32[1, 6, 2, 4])
    """
    asked = "topi.nn.attention"
    batch, rows, heads, width = query.shape
    length, columns = key.shape[1], value.shape[3]
    group = _check_shapes(asked, query, key, value)
    dtype = result_dtype(None, query, key, value)
    wide = wide_dtype(dtype)
    if scale is None:
        if not isinstance(width, int):
            raise ComputeError(f"{asked}: scale= must be given, since the width {width} is a size")
        scale = 1 / math.sqrt(width) if width else 1.0
    d, j_sum = reduce_axis(width, "d"), reduce_axis(length, "j")

    def head(h: Axis) -> Expr:
        return h if group == 1 else h // group

    def product(b: Axis, h: Axis, i: Axis, j: Axis) -> Reduction:
        return total(cast(query[b, i, h, d], wide) * cast(key[b, j, head(h), d], wide), axis=d)

    shape = (batch, heads, rows, length)
    scores = compute("attention_scores", shape, product, NAMES)
    visible = _visible(causal_mask, rows, length)
    extra = None if bias is None else _bias(asked, bias, shape)

    def score(b: Axis, h: Axis, i: Axis, j: Axis) -> Expr:
        scaled = scores[b, h, i, j] * const(scale, wide)
        if extra is not None:
            scaled = scaled + cast(extra(b, h, i, j), wide)
        return scaled if visible is None else select(visible(i, j), scaled, -infinity(wide))

    masked = compute("attention_masked", shape, score, NAMES)
    softmax = _online if online or same(length, 0) else _stored
    weight, sums = softmax(masked, wide)

    def weighted(b: Axis, i: Axis, h: Axis, c: Axis) -> Reduction:
        return total(weight(b, h, i, j_sum) * cast(value[b, j_sum, head(h), c], wide), axis=j_sum)

    result = (batch, rows, heads, columns)
    out = compute("attention_sum", result, weighted, ["b", "i", "h", "c"])
    return compute(
        "attention",
        result,
        lambda b, i, h, c: cast(out[b, i, h, c] / sums[b, h, i], dtype),
        ["b", "i", "h", "c"],
    )


def _online(masked: Tensor, wide: str) -> tuple[Callable[..., Expr], Tensor]:
    """Return the softmax's weights as expressions, and their sums by one pass over the scores."""
    shape, length = masked.shape[:-1], masked.shape[-1]
    j = reduce_axis(length, "j")
    top, sums = compute(
        "attention_rows",
        shape,
        lambda *i: ONLINE((masked[i + (j,)], const(1, wide)), axis=j),
        NAMES[:-1],
    )
    return lambda *i: call("exp", masked[i] - top[i[:-1]]), sums


def _stored(masked: Tensor, wide: str) -> tuple[Callable[..., Expr], Tensor]:
    """Return the softmax's weights, which are a stage, and their sums."""
    shape, length = masked.shape[:-1], masked.shape[-1]
    j, k = reduce_axis(length, "j"), reduce_axis(length, "j")
    top = compute("attention_rows", shape, lambda *i: largest(masked[i + (j,)], axis=j), NAMES[:-1])
    weights = compute(
        "attention_weights", masked.shape, lambda *i: call("exp", masked[i] - top[i[:-1]]), NAMES
    )
    sums = compute(
        "attention_total", shape, lambda *i: total(weights[i + (k,)], axis=k), NAMES[:-1]
    )
    return lambda *i: weights[i], sums


def _joined(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Return the largest element, and the sum of exponentials less it, of two parts of a row."""
    top = call("max", a[0], b[0])
    # a part whose maximum is the new one keeps its sum, also where both are infinite
    left, right = (
        select(binary("==", part[0], top), part[1], part[1] * call("exp", part[0] - top))
        for part in (a, b)
    )
    return top, left + right


ONLINE = comm_reducer(
    _joined,
    lambda top, sums: (-infinity(top), const(0, sums)),
    name="online_softmax",
    gradient="fold",
    trusted=True,
)


def _check_shapes(asked: str, query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return how many heads of the query share a head of the keys."""
    for what, other, dims in (("key", key, (0, 3)), ("value", value, (0,))):
        for k in dims:
            check_same(
                asked,
                query.shape[k],
                f"the {DIMS[k]} of query {query.name}",
                other.shape[k],
                f"the {DIMS[k]} of {what} {other.name}",
            )
    for k in (1, 2):
        check_same(
            asked,
            key.shape[k],
            f"the {DIMS[k]} of key {key.name}",
            value.shape[k],
            f"the {DIMS[k]} of value {value.name}",
        )
    heads, shared = query.shape[2], key.shape[2]
    if same(heads, shared):
        return 1
    if not isinstance(heads, int) or not isinstance(shared, int) or not shared or heads % shared:
        raise ComputeError(
            explain(
                f"{asked} with {heads} heads of query {query.name}",
                f"they do not divide into groups for the {shared} heads of key {key.name}",
                "Give the key as many heads, or a number that divides them.",
            )
        )
    return heads // shared


def _visible(mask: str | None, rows: Extent, length: Extent) -> Callable[[Axis, Axis], Expr] | None:
    if mask is None:
        return None
    if mask == "TopLeft":
        return lambda i, j: j <= i
    return lambda i, j: j <= i + (as_expr(length) - rows)


def _bias(asked: str, bias: Any, shape: tuple[Extent, ...]) -> Callable[..., Expr]:
    check_tensor(asked, bias, "bias", "batch", "heads", "rows", "columns")
    fits = all(is_one(own) or same(own, full) for own, full in zip(bias.shape, shape))
    if not fits:
        raise ComputeError(
            f"{asked}: bias {bias.name} of shape {shape_text(bias.shape)} does not broadcast to "
            f"the scores of shape {shape_text(shape)}"
        )

    def element(*at: Axis) -> Expr:
        place = [
            0 if is_one(own) and not is_one(full) else i
            for i, own, full in zip(at, bias.shape, shape)
        ]
        return bias[tuple(place)]

    return element
