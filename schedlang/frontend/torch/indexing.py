"""Operators of ATen that read at indices, and tensors made of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import extent, same
from schedlang.compute import reduce
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.torch.calls import Call, Operator, of_dtype
from schedlang.frontend.torch.shapes import slice_
from schedlang.language.calls import call as math
from schedlang.language.construct import as_expr, cast, select
from schedlang.tvm.topi.stages import compute, wide_dtype

# the modes of bags of embeddings; the other one is the mean
_SUM, _MAXIMUM = 0, 2


def embedding(call: Call, weight: Tensor, indices: Tensor) -> Tensor:
    """An index out of range reads the first or last row; PyTorch raises an error."""
    return topi.take(weight, indices, axis=0)


def embedding_bag(
    call: Call,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, None, None, None]:
    """Sums, means or maxima of the rows of bags, each from its offset to the next one.

    An index out of range reads the first or last row; PyTorch raises an error.
    """
    if any(call.used[1:]):
        raise call.refuse("its sizes of bags are read, which have no form here", "Read the rows.")
    count, width = indices.shape[0], weight.shape[1]
    bags = extent(offsets.shape[0] - int(include_last_offset))
    rows, wide = as_expr(weight.shape[0]), wide_dtype(weight.dtype)

    def place(value: Expr) -> Expr:
        return math("max", math("min", cast(value, "int64"), count), 0)

    def bounds(b: Axis) -> tuple[Expr, Expr]:
        following = offsets.element((math("min", b + 1, as_expr(offsets.shape[0]) - 1),))
        end = following if include_last_offset else select(b + 1 < bags, following, count)
        return place(offsets.element((b,))), place(end)

    def kept(k: Axis) -> Expr:
        return as_expr(True) if padding_idx < 0 else indices.element((k,)) != padding_idx

    def folded(b: Axis, d: Axis) -> Any:
        k = reduce_axis(bounds(b), "k")
        row = math("max", math("min", cast(indices.element((k,)), "int64"), rows - 1), 0)
        value = weight.element((row, d))
        if mode == _MAXIMUM:
            return reduce.max(value, k, kept(k))
        value = cast(value, wide)
        if per_sample_weights is not None:
            value = value * cast(per_sample_weights.element((k,)), wide)
        return reduce.sum(value, k, kept(k))

    def size(b: Axis) -> Any:
        k = reduce_axis(bounds(b), "k")
        return reduce.sum(as_expr(1), k, kept(k))

    result = compute("bag", (bags, width), folded)
    if mode != _SUM:
        sizes = compute("size", (bags,), size)

        def filled(b: Axis, d: Axis) -> Expr:
            value, number = result.element((b, d)), sizes.element((b,))
            if mode == _MAXIMUM:
                return select(number > 0, value, cast(0, value.dtype))
            return value / cast(math("max", number, 1), wide)

        result = compute("bag", (bags, width), filled)
    return of_dtype(result, call.dtype), None, None, None


def index_select(call: Call, x: Tensor, dim: int, index: Tensor) -> Tensor:
    along = dim % x.ndim
    # a 0-d index selects one element, whose dimension stays
    return topi.take(x, index if index.ndim else topi.expand_dims(index, 0), axis=along)


def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """An index out of range counts around; PyTorch raises an error."""
    if any(i is not None and i.dtype == "bool" for i in indices):
        raise call.refuse(
            "a mask selects a number of elements that depends on data",
            "Keep all elements, and choose: torch.where(mask, x, 0).",
        )
    placed = [slice(None) if i is None else _around(i, n) for i, n in zip(indices, x.shape)]
    return x[tuple(placed)]


def _around(index: Tensor, size: Any) -> Tensor:
    """Return indices from the start of a dimension; its last element is at -1, too."""
    return array("index", lambda i: cast(i, "int64") % size, index)


def gather(call: Call, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """An index out of range reads the first or last element; PyTorch raises an error."""
    if not index.ndim:
        row = gather(call, x, dim, topi.expand_dims(index, 0))
        return topi.reshape(row, ())
    if not x.ndim:
        x = topi.expand_dims(x, 0)
    along = dim % x.ndim
    for k, (own, wanted) in enumerate(zip(x.shape, index.shape)):
        if k != along and not same(own, wanted):
            x = slice_(call, x, k, 0, wanted, 1)
    last = as_expr(x.shape[along]) - 1
    places = array("index", lambda i: math("max", math("min", cast(i, "int64"), last), 0), index)
    return topi.gather(x, along, places)


def full(call: Call, size: Any, fill_value: Any) -> Tensor:
    return topi.full(size, call.dtype, fill_value)


def full_like(call: Call, x: Tensor, fill_value: Any) -> Tensor:
    return topi.full(x.shape, call.dtype, fill_value)


def scalar_tensor(call: Call, s: Any) -> Tensor:
    return topi.full((), call.dtype, s)


def _filled(value: int) -> Operator:
    """Return the operator of a new tensor; elements without a value are 0, too."""
    return lambda call, size: topi.full(size, call.dtype, value)


def empty_permuted(call: Call, size: Any, physical_layout: Any) -> Tensor:
    """The order of the dimensions in memory is not part of a value."""
    return topi.full(size, call.dtype, 0)


def arange(call: Call, start: Any = 0, end: Any = None, step: Any = 1) -> Tensor:
    return topi.arange(start, end, step, call.dtype)


def arange_to(call: Call, end: Any) -> Tensor:
    return topi.arange(0, end, 1, call.dtype)


OPERATORS: dict[str, Operator] = {
    "embedding.default": embedding, "index_select.default": index_select, "index.Tensor": index,
    "gather.default": gather, "full.default": full, "full_like.default": full_like,
    "scalar_tensor.default": scalar_tensor, "zeros.default": _filled(0), "ones.default": _filled(1),
    "empty.memory_format": _filled(0), "empty_permuted.default": empty_permuted,
    **dict.fromkeys(("_embedding_bag.default", "_embedding_bag_forward_only.default"),
                    embedding_bag),
    "arange.start_step": arange, "arange.start": arange,
    "arange.default": arange_to,
}  # fmt: skip
