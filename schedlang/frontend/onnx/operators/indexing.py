"""Elements at indices; negative indices count from the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number, same
from schedlang.arrays.shaping import expand_dims, moveaxis
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.construct import as_expr, cast, select
from schedlang.tvm.topi.stages import compute


def gather(call: Call, data: Tensor, indices: Value, *, axis: int = 0) -> Tensor:
    """An index that is out of range counts around, so that no other memory is read."""
    along = axis_number(axis, data.ndim, str(call.node))
    _check_index(call, indices)
    if isinstance(indices, Known) and not indices.symbolic:
        _check_range(call, indices, data.shape[along])
        if not indices.ndim:
            items: list[Any] = [slice(None)] * data.ndim
            items[along] = int(indices.array)
            part = data[tuple(items)]
            # of a vector it is an element
            return part if isinstance(part, Tensor) else topi.full((), data.dtype, part)
    return topi.take(data, call.tensor(indices), along, mode="wrap")


def _check_index(call: Call, indices: Value) -> None:
    if indices.dtype not in ("int64", "int32"):
        raise call.refused(f"its indices are {indices.dtype}, but must be int32 or int64")


def _check_range(call: Call, indices: Known, size: Extent) -> None:
    """Raise for known indices that are out of range."""
    if not isinstance(size, int):
        return
    for index in indices.items():
        if isinstance(index, int) and not -size <= index < size:
            raise call.refused(f"its index {index} is out of range for {size} elements")


def _from_start(indices: Tensor, size: Extent) -> Tensor:
    """Return the indices, with negative ones counted from the start instead."""
    return array("index", lambda i: select(i < 0, i + cast(as_expr(size), i.dtype), i), indices)


def _check_elements(call: Call, sizes: Sequence[Extent], indices: Value) -> None:
    """Raise if a dimension that is read at indices has no element to read."""
    empty = [n for n in sizes if isinstance(n, int) and n == 0]
    if empty and not any(isinstance(n, int) and n == 0 for n in indices.shape):
        raise call.refused("a dimension of its data is empty, so it has no element to take")


def gather_elements(call: Call, data: Tensor, indices: Value, *, axis: int = 0) -> Tensor:
    """An index that is out of range counts around, as in :func:`gather`."""
    along = axis_number(axis, data.ndim, str(call.node))
    _check_index(call, indices)
    if indices.ndim != data.ndim:
        raise call.refused(f"its indices have {indices.ndim} dimensions, and its data {data.ndim}")
    for k, (own, wanted) in enumerate(zip(data.shape, indices.shape)):
        if k != along and not same(own, wanted):
            if not isinstance(own, int) or not isinstance(wanted, int) or wanted > own:
                raise call.refused(f"its indices have extent {wanted} in dimension {k} of {own}")
            data = data[tuple([slice(None)] * k + [slice(wanted)])]
    if isinstance(indices, Known):
        _check_range(call, indices, data.shape[along])
    size = data.shape[along]
    _check_elements(call, [size], indices)
    places = array("index", lambda i: cast(i, "int64") % size, call.tensor(indices))
    return topi.gather(data, along, places)


def gather_nd(call: Call, data: Tensor, indices: Value, *, batch_dims: int = 0) -> Tensor:
    """The last dimension of ``indices`` is the index of an element, or of a part of the data.

    An index that is out of range counts around in its dimension.
    """
    _check_index(call, indices)
    chosen = call.tensor(indices)
    count = chosen.shape[-1] if chosen.ndim else None
    if not isinstance(count, int) or count < 1 or not 0 <= batch_dims < chosen.ndim:
        raise call.refused("its indices need a last dimension whose extent is a number")
    if batch_dims + count > data.ndim:
        raise call.refused(f"its indices have {count} coordinates, more than its data")
    sizes = data.shape[batch_dims : batch_dims + count]
    _check_elements(call, sizes, indices)
    if isinstance(indices, Known):
        for k, size in enumerate(sizes):
            _check_range(call, Known("", indices.array[..., k], indices.dtype), size)

    def place(*at: Axis) -> Expr:
        index, extent_here = cast(chosen.element(tuple(at)), "int64"), as_expr(sizes[-1])
        for k in range(count - 2, -1, -1):
            extent_here = select(at[-1].equal(k), as_expr(sizes[k]), extent_here)
        return index % extent_here

    places = compute("index", chosen.shape, place)
    return topi.gather_nd(data, moveaxis(places, -1, 0), batch_dims)


def one_hot(call: Call, indices: Tensor, depth: Known, values: Tensor, *, axis: int = -1) -> Tensor:
    """``values`` are the value of the other elements, and the value of the one chosen."""
    numbers = depth.items()
    wrong = len(numbers) != 1 or isinstance(numbers[0], Expr) or not math.isfinite(numbers[0])
    if wrong or numbers[0] != int(numbers[0]) or numbers[0] < 1:
        raise call.refused("its depth must be one number of 1 or more, known at import")
    if values.shape != (2,):
        raise call.refused(f"its values have shape {values.shape}, but must be two")
    count = int(numbers[0])
    wide = indices if indices.dtype in ("int32", "int64") else topi.cast(indices, "int64")
    along = axis_number(axis, indices.ndim + 1, str(call.node))
    places = expand_dims(_from_start(wide, count), along)
    shape = (*indices.shape[:along], count, *indices.shape[along:])

    def element(*at: Axis) -> Expr:
        own = tuple(0 if k == along else i for k, i in enumerate(at))
        chosen = places.element(own).equal(cast(at[along], places.dtype))
        return select(chosen, values[1], values[0])

    return compute("one_hot", shape, element)


OPERATORS: Table = {
    "Gather": since(gather, 1, 11, 13),
    "GatherElements": since(gather_elements, 11, 13),
    "GatherND": since(gather_nd, 11, 12, 13),
    "OneHot": since(one_hot, 9, 11, 28),
}
