"""Operators of ATen that read at indices, and tensors made of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import same
from schedlang.compute.tensor import Tensor
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.frontend.torch.shapes import slice_
from schedlang.language.calls import call as math
from schedlang.language.construct import as_expr, cast


def embedding(call: Call, weight: Tensor, indices: Tensor) -> Tensor:
    """An index out of range reads the first or last row; PyTorch raises an error."""
    return topi.take(weight, indices, axis=0)


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


def arange(call: Call, start: Any = 0, end: Any = None, step: Any = 1) -> Tensor:
    return topi.arange(start, end, step, call.dtype)


def arange_to(call: Call, end: Any) -> Tensor:
    return topi.arange(0, end, 1, call.dtype)


OPERATORS: dict[str, Operator] = {
    "embedding.default": embedding, "index_select.default": index_select, "index.Tensor": index,
    "gather.default": gather, "full.default": full, "full_like.default": full_like,
    "scalar_tensor.default": scalar_tensor, "zeros.default": _filled(0), "ones.default": _filled(1),
    "empty.memory_format": _filled(0), "arange.start_step": arange, "arange.start": arange,
    "arange.default": arange_to,
}  # fmt: skip
