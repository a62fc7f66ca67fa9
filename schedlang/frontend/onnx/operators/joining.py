"""Joined tensors, parts and slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.arrays.joining import concatenate
from schedlang.arrays.shapes import axis_number
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known

# ends of slices that are far out stand for the end of any dimension
_FAR = 2**31 - 1


def concat(call: Call, *inputs: Tensor, axis: int) -> Tensor:
    check_dtypes(call, *inputs)
    return inputs[0] if len(inputs) == 1 else concatenate(list(inputs), axis)


def split_of_attribute(
    call: Call,
    input: Tensor,  # noqa: A002
    *,
    axis: int = 0,
    split: list[int] | None = None,
) -> list[Tensor]:
    return _split(call, input, axis, split, None)


def split(
    call: Call,
    input: Tensor,  # noqa: A002
    split: Known | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> list[Tensor]:
    """Equal parts, with a last one that may be smaller, or parts of the sizes ``split``."""
    sizes = None if split is None else call.integers(split, "split")
    if sizes is not None and num_outputs is not None:
        raise call.refused("it has both 'split' and 'num_outputs'")
    return _split(call, input, axis, sizes, num_outputs)


def _split(
    call: Call, x: Tensor, axis: int, sizes: Sequence[int] | None, number: int | None
) -> list[Tensor]:
    along = axis_number(axis, x.ndim, str(call.node))
    extent = x.shape[along]
    if not isinstance(extent, int):
        raise call.refused(
            f"dimension {along} has the symbolic extent {extent}, whose parts are not known",
            "Import the model with a number for this size: shapes={...}.",
        )
    count = len(call.node.outputs)
    if sizes is None:
        if number is not None and number != count:
            raise call.refused(f"it has {count} outputs, but num_outputs={number}")
        if number is None and extent % count:
            raise call.refused(f"{extent} elements do not divide into {count} equal parts")
        each = -(-extent // count)
        sizes = [max(min(each, extent - k * each), 0) for k in range(count)]
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != extent:
        raise call.refused(f"its {count} outputs of {list(sizes)} are not parts of {extent}")
    parts, start = [], 0
    for size in sizes:
        parts.append(_taken(x, {along: slice(start, start + size)}))
        start += size
    return parts


def _taken(x: Tensor, slices: dict[int, slice]) -> Tensor:
    return x[tuple(slices.get(k, slice(None)) for k in range(x.ndim))]


def slice_of_attribute(
    call: Call, data: Tensor, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Tensor:
    return _sliced(call, data, starts, ends, axes, None)


def slice_(
    call: Call,
    data: Tensor,
    starts: Known,
    ends: Known,
    axes: Known | None = None,
    steps: Known | None = None,
) -> Tensor:
    return _sliced(
        call,
        data,
        call.sizes(starts, "starts"),
        call.sizes(ends, "ends"),
        None if axes is None else call.integers(axes, "axes"),
        None if steps is None else call.integers(steps, "steps"),
    )


def _sliced(
    call: Call,
    data: Tensor,
    starts: Sequence[Extent],
    ends: Sequence[Extent],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Tensor:
    dims = list(range(len(starts))) if axes is None else list(axes)
    by = [1] * len(starts) if steps is None else list(steps)
    if not len(starts) == len(ends) == len(dims) == len(by) or len(dims) > data.ndim:
        raise call.refused("its starts, ends, axes and steps have different lengths")
    slices = {}
    for axis, start, end, step in zip(dims, starts, ends, by):
        if step == 0:
            raise call.refused("one of its steps is 0")
        along = axis_number(axis, data.ndim, str(call.node), "axes")
        if along in slices:
            raise call.refused(f"it slices dimension {along} twice")
        slices[along] = slice(_start(start, step), _end(end, step, data.shape[along]), step)
    return _taken(data, slices)


def _start(start: Extent, step: int) -> Any:
    """Return the start of a slice; one that is far out is the start of the whole dimension."""
    if isinstance(start, Expr):
        return start
    if (step > 0 and start <= -_FAR) or (step < 0 and start >= _FAR):
        return None
    return start


def _end(end: Extent, step: int, size: Extent) -> Any:
    if isinstance(end, Expr):
        return end
    if (step > 0 and end >= _FAR) or (step < 0 and end <= -_FAR):
        return None
    # before the first element, which for Python would count from the end
    if step < 0 and isinstance(size, int) and end < -size:
        return None
    return end


OPERATORS: Table = {
    "Concat": since(concat, 4, 11, 13),
    "Split": {**since(split_of_attribute, 2, 11), **since(split, 13, 18)},
    "Slice": {1: slice_of_attribute, **since(slice_, 10, 11, 13)},
}
