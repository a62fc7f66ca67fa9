"""Writes at indices, as scatters; negative indices count from the end."""

from __future__ import annotations

from typing import Literal

from schedlang.arrays.shapes import axis_number, same
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.scattering import from_start, scattered, scattered_along
from schedlang.language.construct import as_expr, cast

# ONNX's names of what an update does
_COMBINE = {"none": "last", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def scatter_elements_11(
    call: Call, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0
) -> Tensor:
    return scatter_elements(call, data, indices, updates, axis=axis)


def scatter_elements_16(
    call: Call, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0,
    reduction: Literal["none", "add", "mul"] = "none",
) -> Tensor:  # fmt: skip
    return scatter_elements(call, data, indices, updates, axis=axis, reduction=reduction)


def scatter_elements(
    call: Call, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0,
    reduction: Literal["none", "add", "mul", "max", "min"] = "none",
) -> Tensor:  # fmt: skip
    """An update at an index that is out of range is dropped, so that no other memory is written."""
    along = axis_number(axis, data.ndim, str(call.node))
    _check(call, data, indices, updates)
    if indices.ndim != data.ndim or not _equal(indices.shape, updates.shape):
        raise call.refused(
            f"its data have the shape {shape_text(data.shape)}, its indices "
            f"{shape_text(indices.shape)} and its updates {shape_text(updates.shape)}"
        )

    return scattered_along(data, along, indices, updates.element, _COMBINE[reduction])


def scatter_nd_11(call: Call, data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return scatter_nd(call, data, indices, updates)


def scatter_nd_16(
    call: Call, data: Tensor, indices: Tensor, updates: Tensor, *,
    reduction: Literal["none", "add", "mul"] = "none",
) -> Tensor:  # fmt: skip
    return scatter_nd(call, data, indices, updates, reduction=reduction)


def scatter_nd(
    call: Call, data: Tensor, indices: Tensor, updates: Tensor, *,
    reduction: Literal["none", "add", "mul", "max", "min"] = "none",
) -> Tensor:  # fmt: skip
    """The last dimension of ``indices`` is the index of an element, or of a part of the data.

    An update at an index that is out of range is dropped.
    """
    _check(call, data, indices, updates)
    count = indices.shape[-1] if indices.ndim else None
    if not isinstance(count, int) or not 1 <= count <= data.ndim:
        raise call.refused("its indices need a last dimension of at most the data's dimensions")
    if not _equal(updates.shape, (*indices.shape[:-1], *data.shape[count:])):
        raise call.refused(
            f"its updates have the shape {shape_text(updates.shape)}, which fits neither its "
            f"indices of {shape_text(indices.shape)} nor its data of {shape_text(data.shape)}"
        )
    front = indices.ndim - 1

    def update(*at: Axis) -> tuple[tuple[Expr, ...], Expr]:
        places = (indices.element((*at[:front], k)) for k in range(count))
        index = (from_start(place, size) for place, size in zip(places, data.shape))
        return (*index, *at[front:]), updates.element(at)

    return scattered(data, updates.shape, update, _COMBINE[reduction])


def tensor_scatter(
    call: Call, past: Tensor, update: Tensor, write_indices: Tensor | None = None, *,
    axis: int = -2, mode: str = "linear",
) -> Tensor:  # fmt: skip
    """Write a block into a cache, from a place of its own in each batch; ``circular`` wraps it."""
    along = axis_number(axis, past.ndim, str(call.node))
    if along == 0 or update.ndim != past.ndim:
        raise call.refused("its axis is the batch, or its update has another number of dimensions")
    if mode not in ("linear", "circular"):
        raise call.refused(f"its mode is {mode[:40]!r}, neither linear nor circular")
    _check_dtypes(call, past, update)
    size, many = past.shape[along], update.shape[along]
    fits = _equal(update.shape, (*past.shape[:along], many, *past.shape[along + 1 :]))
    if not fits or (isinstance(size, int) and isinstance(many, int) and many > size):
        raise call.refused(
            f"its update has the shape {shape_text(update.shape)}, which does not fit its past "
            f"of {shape_text(past.shape)} along dimension {along}"
        )
    if write_indices is not None:
        _check_indices(call, write_indices)
        if not _equal(write_indices.shape, past.shape[:1]):
            raise call.refused(
                f"its write_indices have the shape {shape_text(write_indices.shape)}, but need one "
                "for each batch"
            )

    def written(*at: Axis) -> tuple[tuple[Expr, ...], Expr]:
        first = as_expr(0) if write_indices is None else write_indices.element(at[:1])
        place = cast(first, "int64") + at[along]
        place = place % as_expr(size) if mode == "circular" else place
        return (*at[:along], place, *at[along + 1 :]), update.element(at)

    return scattered(past, update.shape, written, "last")


def _check(call: Call, data: Tensor, indices: Tensor, updates: Tensor) -> None:
    _check_indices(call, indices)
    _check_dtypes(call, data, updates)


def _check_indices(call: Call, indices: Tensor) -> None:
    if indices.dtype not in ("int64", "int32"):
        raise call.refused(f"its indices are {indices.dtype}, but must be int32 or int64")


def _check_dtypes(call: Call, data: Tensor, updates: Tensor) -> None:
    if data.dtype != updates.dtype:
        raise call.refused(f"its data are {data.dtype}, and its updates {updates.dtype}")


def _equal(shape: tuple[Extent, ...], other: tuple[Extent, ...]) -> bool:
    return len(shape) == len(other) and all(map(same, shape, other))


OPERATORS: Table = {
    "Scatter": since(scatter_elements_11, 9, 11),
    "ScatterElements": {
        **since(scatter_elements_11, 11, 13), 16: scatter_elements_16, 18: scatter_elements,
    },
    "ScatterND": {**since(scatter_nd_11, 11, 13), 16: scatter_nd_16, 18: scatter_nd},
    "TensorScatter": since(tensor_scatter, 24),
}  # fmt: skip
