"""Tensors made of attributes, shapes and numbers; small ones are known at import."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.shapes import extent, size_of
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.elements import array_dtype, dtype_of
from schedlang.frontend.onnx.limits import MOST_ELEMENTS, MOST_FOLDED, check_dims
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.symbolic import vector
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.construct import cast, const, select
from schedlang.tvm.topi.stages import compute


def as_known(array: np.ndarray, dtype: str = "") -> Known:
    """Return an array that is known at import, as the result of a node."""
    return Known("", array, dtype or array.dtype.name)


def constant(
    call: Call,
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
) -> Known:
    if value_string is not None or value_strings is not None:
        raise call.refused("its value is a string, which has no dtype here")
    values = [
        v if dtype is None else np.array(v, dtype)
        for v, dtype in (
            (value, None),
            (value_float, "float32"),
            (value_floats, "float32"),
            (value_int, "int64"),
            (value_ints, "int64"),
        )
        if v is not None
    ]
    if len(values) != 1:
        raise call.refused(f"it has {len(values)} values, but must have one")
    return as_known(np.asarray(values[0]))


def constant_of_shape(call: Call, input: Known, *, value: np.ndarray | None = None) -> Any:  # noqa: A002
    shape = call.sizes(input, "input")
    filler = np.zeros(1, "float32") if value is None else value
    if filler.size != 1:
        raise call.refused(f"its attribute 'value' has {filler.size} elements, not one")
    numbers = _numbers(call, shape)
    if numbers is not None and math.prod(numbers) <= MOST_FOLDED:
        return as_known(np.full(numbers, filler.reshape(-1)[0], filler.dtype))
    return topi.full(tuple(shape), filler.dtype.name, filler.reshape(-1)[0].item())


def _numbers(call: Call, shape: Sequence[Extent]) -> tuple[int, ...] | None:
    """Return a shape as numbers; ``None`` if it has a symbolic size."""
    call.check_ndim(len(shape))
    check_dims([e for e in shape if isinstance(e, int)], str(call.node))
    numbers = tuple(e for e in shape if isinstance(e, int))
    return numbers if len(numbers) == len(shape) else None


def shape(call: Call, data: Value, *, start: int = 0, end: int | None = None) -> Known:
    """The extents are known at import, also where they are symbolic sizes."""
    return as_known(vector(data.shape[slice(start, end)]), "int64")


def size(call: Call, data: Value) -> Known:
    count = size_of(data.shape)
    number = np.empty((), object if isinstance(count, Expr) else "int64")
    number[...] = count
    return as_known(number, "int64")


def range_(
    call: Call, start: Known, limit: Known, delta: Known, *, stash_type: int = 1
) -> Known | Tensor:
    dtype = start.dtype
    items = [v.items() for v in (start, limit, delta)]
    if any(len(v) != 1 for v in items) or {limit.dtype, delta.dtype} != {dtype}:
        raise call.refused("start, limit and delta must be scalars of one type")
    first, last, step = (v[0] for v in items)
    if isinstance(first, Expr) or isinstance(last, Expr) or isinstance(step, Expr):
        return _symbolic_range(call, first, last, step, dtype)
    if step == 0 or any(v != v or abs(v) == math.inf for v in (first, last, step)):
        raise call.refused(f"it has no end: from {first} to {last} by steps of {step}")
    steps = (last - first) / step
    # two large numbers may be further apart than the largest one
    if steps > MOST_ELEMENTS:
        raise call.refused(f"it has {steps:,.0f} elements, more than 2**33")
    count = math.ceil(max(steps, 0))
    if count <= MOST_FOLDED:
        return as_known((np.arange(count) * step + first).astype(array_dtype(dtype)))
    return _spaced(first, step, count, dtype)


def _spaced(first: Any, step: Any, count: Extent, dtype: str) -> Tensor:
    return compute(
        "range", (count,), lambda i: cast(i, dtype) * const(step, dtype) + cast(first, dtype)
    )


def _symbolic_range(call: Call, first: Any, last: Any, step: Any, dtype: str) -> Tensor:
    if isinstance(step, Expr) or step != 1:
        raise call.refused(f"of a symbolic size by steps of {step} it has no form here")
    count = extent(last - first) if isinstance(last, Expr) else extent(-first + last)
    return _spaced(first, 1, count, dtype)


def eye_like(call: Call, input: Value, *, dtype: int | None = None, k: int = 0) -> Tensor:  # noqa: A002
    kind = input.dtype if dtype is None else dtype_of(dtype, f"{call.node}: its attribute 'dtype'")
    if len(input.shape) != 2:
        raise call.refused(f"its input has {len(input.shape)} dimensions, but must have two")
    one, zero = const(1, kind), const(0, kind)
    return compute("eye", tuple(input.shape), lambda i, j: select(j.equal(i + k), one, zero))


OPERATORS: Table = {
    "Constant": since(constant, 1, 9, 11, 12, 13, 19, 21, 23, 24, 25),
    "ConstantOfShape": since(constant_of_shape, 9, 20, 21, 23, 24, 25),
    "Shape": since(shape, 1, 13, 15, 19, 21, 23, 24, 25),
    "Size": since(size, 1, 13, 19, 21, 23, 24, 25),
    "Range": since(range_, 11, 27),
    "EyeLike": since(eye_like, 9, 22),
}
