"""Operators of ATen that order elements: sorts, the largest ones, medians, places in a sequence.

Sorts are topi's sorts by loops, which compare all pairs of an axis, so they are for short axes.
NaN is greater than all numbers, and equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.shapes import same
from schedlang.arrays.shaping import reshape, squeeze, swapaxes
from schedlang.compute import reduce
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis
from schedlang.frontend.ordering import check_length, first_in_order
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.language.calls import call as function_of
from schedlang.language.construct import cast, select
from schedlang.tvm.topi.sorting import places_in, ranks
from schedlang.tvm.topi.stages import compute


def sort(call: Call, x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    return _first(call, x, dim, None, descending)


def sort_stable(
    call: Call, x: Tensor, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Any, Any]:
    """Each sort is stable."""
    return sort(call, x, dim, descending)


def topk(
    call: Call, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True  # noqa: A002
) -> tuple[Any, Any]:  # fmt: skip
    """The elements are sorted in any case. The first of equal elements comes first."""
    return _first(call, x, dim, k, largest)


def _first(
    call: Call, x: Tensor, dim: int, count: int | None, descending: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the first ``count`` elements of the order along a dimension, and their indices."""
    if not x.ndim:
        values, places = _first(call, reshape(x, (1,)), 0, count, descending)
        return tuple(None if t is None else reshape(t, ()) for t in (values, places))  # type: ignore[return-value]
    return first_in_order(x, dim, count, descending, call.used, call.refuse)


def _ranks(call: Call, rows: Tensor, descending: bool) -> Tensor:
    """Return how many elements of the last dimension come before each one."""
    check_length(rows.shape[-1], call.refuse)
    return ranks(rows, descending)


def median(call: Call, x: Tensor) -> Tensor:
    if not x.ndim:
        return x
    flat = reshape(x, (-1,)) if x.ndim > 1 else x
    return _chosen(call, flat, 0, False, (_length(call, flat, 0) - 1) // 2, True)[0]


def median_dim(call: Call, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The lower one of two; NaN if one of the elements is."""
    middle = (_length(call, x, dim) - 1) // 2 if x.ndim else 0
    return _chosen(call, x, dim, keepdim, middle, True)


def kthvalue(call: Call, x: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _chosen(call, x, dim, keepdim, k - 1, False)


def _length(call: Call, x: Tensor, dim: int) -> int:
    length = x.shape[dim]
    if not isinstance(length, int):
        raise call.refuse(
            f"its axis has the symbolic extent {length}", "Give the axis a known extent."
        )
    return length


def _chosen(
    call: Call, x: Tensor, dim: int, keepdim: bool, place: int, nan_first: bool
) -> tuple[Tensor, Tensor]:
    """Return the element at ``place`` of the ascending order, and its index."""
    if not x.ndim:
        return x, topi.full((), "int64", 0)
    rows = swapaxes(x, dim, -1)
    ranks, length = _ranks(call, rows, False), rows.shape[-1]

    def index(*at: Axis) -> Any:
        k = reduce_axis(length, "k")
        key = cast(ranks.element((*at[:-1], k)) == place, "int32")
        if nan_first and dtypes.is_float(x.dtype):
            value = rows.element((*at[:-1], k))
            key = select(value != value, 2, key)  # noqa: PLR0124
        return reduce.argmax(key, k)

    shape = (*rows.shape[:-1], 1)
    indices = compute("index", shape, index)
    last = rows.shape[-1] - 1

    def element(*at: Axis) -> Any:
        chosen = function_of("max", function_of("min", indices.element(at), last), 0)
        return rows.element((*at[:-1], chosen))

    both = (compute("value", shape, element), indices)
    restored = [swapaxes(t, dim, -1) for t in both]
    values, places = restored if keepdim else [squeeze(t, dim % x.ndim) for t in restored]
    return values, places


def searchsorted(
    call: Call, sorted_sequence: Tensor, x: Any, right: bool = False, side: str | None = None
) -> Tensor:
    """The number of elements before a value; each is compared, so it takes a short sequence.

    The leading dimensions of a sequence of several are also the leading ones of the values.
    """
    return _counted(call, sorted_sequence, x, right or side == "right")


def bucketize(call: Call, x: Any, boundaries: Tensor, right: bool = False) -> Tensor:
    return _counted(call, boundaries, x, right)


def _counted(call: Call, sequence: Tensor, x: Any, right: bool) -> Tensor:
    values = x if isinstance(x, Tensor) else topi.full((), sequence.dtype, x)
    lead = sequence.ndim - 1
    shape: tuple[Extent, ...] = values.shape
    if lead and not all(map(same, sequence.shape[:-1], shape[:-1])):
        raise call.refuse(
            f"the values have the shape {shape}, which does not fit a sequence of {sequence.shape}",
            "Give both the same leading dimensions.",
        )
    return places_in(sequence, values, right, call.dtype)


OPERATORS: dict[str, Operator] = {
    "sort.default": sort, "sort.stable": sort_stable, "topk.default": topk,
    "median.default": median, "median.dim": median_dim, "kthvalue.default": kthvalue,
    "searchsorted.Tensor": searchsorted, "searchsorted.Scalar": searchsorted,
    "bucketize.Tensor": bucketize, "bucketize.Scalar": bucketize,
}  # fmt: skip
