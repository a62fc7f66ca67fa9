"""Operators of ATen that write at indices, as scatters; negative indices count from the end.

PyTorch refuses an index that is out of range. Here an update there is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import broadcast, is_one
from schedlang.arrays.shaping import broadcast_to, expand_dims, reshape
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.scattering import from_start, scattered, scattered_along
from schedlang.frontend.torch.calls import Call, Operator, combine, of_dtype
from schedlang.language.construct import as_expr, cast
from schedlang.tvm.tir import infinity, max_value, min_value

# PyTorch's names of what an update does
_COMBINE = {"sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod", "amax": "max",
            "amin": "min"}  # fmt: skip


def scatter(
    call: Call, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str | None = None
) -> Tensor:
    way = "last" if reduce is None else _combine(call, reduce)
    return _along(x, dim, index, src.element if src.ndim else lambda at: src.element(()), way)


def scatter_value(
    call: Call, x: Tensor, dim: int, index: Tensor, value: Any, reduce: str | None = None
) -> Tensor:
    way = "last" if reduce is None else _combine(call, reduce)
    number = as_expr(of_dtype(value, x.dtype))
    return _along(x, dim, index, lambda at: cast(number, x.dtype), way)


def scatter_add(call: Call, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return scatter(call, x, dim, index, src, "sum")


def scatter_reduce(
    call: Call, x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """A mean divides the sum by the number of its terms; integers are rounded down."""
    way = "sum" if reduce == "mean" else _combine(call, reduce)
    start = x
    if not include_self:
        written = _along(topi.full(x.shape, "bool", False), dim, index, lambda at: True, "any")
        start = topi.where(written, _identity(way, x.dtype), x)
    total = _along(start, dim, index, src.element, way)
    if reduce != "mean":
        return total
    ones = topi.full(x.shape, "int64", int(include_self))
    counts = _along(ones, dim, index, lambda at: 1, "sum")
    terms = of_dtype(combine("maximum", counts, 1), x.dtype)
    return combine("divide" if dtypes.is_float(x.dtype) else "floor_divide", total, terms)


def _identity(way: str, dtype: str) -> Any:
    """Return what changes no element that it is combined with."""
    if way in ("sum", "prod"):
        return of_dtype(int(way == "prod"), dtype)
    if dtypes.is_float(dtype):
        return infinity(dtype) if way == "min" else -infinity(dtype)
    return (max_value if way == "min" else min_value)(dtype)


def _combine(call: Call, reduce: str) -> str:
    if reduce not in _COMBINE:
        raise call.refuse(
            f"reduce={reduce!r} has no form here", f"Use one of {', '.join(_COMBINE)}."
        )
    return _COMBINE[reduce]


def _along(x: Tensor, dim: int, index: Tensor, value: Callable[..., Any], way: str) -> Tensor:
    """Return the updates ``value(axes)`` of ``x``, also of one element without dimensions."""
    if x.ndim and index.ndim:
        return scattered_along(x, dim % x.ndim, index, value, way)
    ends = 0 if index.ndim else None
    data = x if x.ndim else expand_dims(x, 0)
    places = index if ends == 0 else expand_dims(index, 0)
    written = scattered_along(data, 0, places, value if ends == 0 else lambda at: value(()), way)
    return written if x.ndim else reshape(written, ())


def index_put(
    call: Call,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool,
) -> Tensor:
    """Indices that are not beside each other come first in the shape of ``values``, as in NumPy."""
    given = [i for i in indices if i is not None]
    if any(i.dtype == "bool" for i in given):
        return _put_where(call, x, indices, values, accumulate)
    dims = [k for k, i in enumerate(indices) if i is not None]
    shape = broadcast([i.shape for i in given], "index_put")
    places = [broadcast_to(array("index", lambda i: cast(i, "int64"), i), shape) for i in given]
    together = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if together else 0
    rest: list[Extent] = [e for k, e in enumerate(x.shape) if k not in dims]
    domain = (*rest[:first], *shape, *rest[first:])
    source = broadcast_to(values, domain)
    end = first + len(shape)

    def update(*at: Axis) -> tuple[tuple[Expr, ...], Expr]:
        own: list[Any] = [*at[:first], *at[end:]]
        for k, place in zip(dims, places):
            own.insert(k, from_start(place.element(at[first:end]), x.shape[k]))
        return tuple(own), source.element(at)

    return scattered(x, domain, update, "sum" if accumulate else "last")


def _put_where(
    call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    """Return ``x`` with one value where a mask of its first dimensions is true."""
    mask = indices[0]
    if len(indices) != 1 or mask is None or not all(map(is_one, values.shape)):
        raise call.refuse(
            "a mask selects a number of elements that depends on data",
            "Choose between whole tensors: torch.where(mask, values, x).",
        )
    wide = reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
    value = reshape(values, ())
    return topi.where(wide, combine("add", x, value) if accumulate else value, x)


OPERATORS: dict[str, Operator] = {
    "scatter.src": scatter, "scatter.reduce": scatter, "scatter.value": scatter_value,
    "scatter.value_reduce": scatter_value, "scatter_add.default": scatter_add,
    "scatter_reduce.two": scatter_reduce, "index_put.default": index_put,
    "_unsafe_index_put.default": index_put,
}  # fmt: skip
