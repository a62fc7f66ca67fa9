"""Reductions over dimensions, places of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number, axis_numbers
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.table import Function, Table, since
from schedlang.frontend.onnx.values import Known
from schedlang.language.calls import call as math
from schedlang.language.composed import norm_of
from schedlang.tvm.tir import max_value, min_value

# (tensor, dimensions, keepdims) to the reduction
Reduce = Callable[[Tensor, Any, bool], Tensor]


def _by_attribute(reduce: Reduce) -> Function:
    """Return a reduction as before opset 18, with the dimensions as an attribute."""

    def operator(
        call: Call, data: Tensor, *, axes: list[int] | None = None, keepdims: Flag = 1
    ) -> Tensor:
        return _reduced(call, reduce, data, axes, keepdims, 0)

    return operator


def _by_input(reduce: Reduce) -> Function:
    def operator(
        call: Call,
        data: Tensor,
        axes: Known | None = None,
        *,
        keepdims: Flag = 1,
        noop_with_empty_axes: Flag = 0,
    ) -> Tensor:
        over = None if axes is None else call.integers(axes, "axes")
        return _reduced(call, reduce, data, over, keepdims, noop_with_empty_axes)

    return operator


def _reduced(
    call: Call, reduce: Reduce, data: Tensor, axes: list[int] | None, keepdims: int, noop: int
) -> Tensor:
    # no dimensions are all of them, or none
    if not axes and noop:
        over: tuple[int, ...] = ()
    else:
        over = axis_numbers(tuple(axes) if axes else None, data.ndim, str(call.node), "axes")
    return reduce(data, over, bool(keepdims))


def _sum(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return topi.sum(data, axes, keep) if axes else data


def _prod(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return topi.prod(data, axes, keep) if axes else data


def _max(data: Tensor, axes: Any, keep: bool) -> Tensor:
    if data.dtype == "bool":
        return topi.any(data, axes, keep) if axes else data
    return topi.max(data, axes, keep) if axes else data


def _min(data: Tensor, axes: Any, keep: bool) -> Tensor:
    if data.dtype == "bool":
        return topi.all(data, axes, keep) if axes else data
    return topi.min(data, axes, keep) if axes else data


def _mean(data: Tensor, axes: Any, keep: bool) -> Tensor:
    if dtypes.is_float(data.dtype):
        return topi.mean(data, axes, keep) if axes else data
    # of integers, rounded toward zero
    count = 1
    for k in axes:
        count = data.shape[k] * count
    return topi.divide(_sum(data, axes, keep), topi.full((), data.dtype, count)) if axes else data


def _l1(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return _sum(topi.abs(data), axes, keep)


def _square(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return _sum(array("squares", lambda v: v * v, data), axes, keep)


def _l2(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return _of_floats(lambda x: array("norm", norm_of, x), _square(data, axes, keep))


def _log_sum(data: Tensor, axes: Any, keep: bool) -> Tensor:
    return _of_floats(topi.log, _sum(data, axes, keep))


def _log_sum_exp(data: Tensor, axes: Any, keep: bool) -> Tensor:
    """The largest element is taken out of the sum, so that it does not overflow."""
    floats = data if dtypes.is_float(data.dtype) else topi.cast(data, "float64")
    if not axes:
        return data
    top = topi.max(floats, axes, True)
    # of infinite elements only, the differences would be NaN
    least, most = min_value(floats.dtype), max_value(floats.dtype)
    low = array("largest", lambda v: math("max", math("min", v, most), least), top)
    sums = topi.sum(array("exps", lambda v, t: math("exp", v - t), floats, low), axes, keep)
    tops = low if keep else topi.reshape(low, sums.shape)
    result = array("log_sum_exp", lambda s, t: math("log", s) + t, sums, tops)
    return result if result.dtype == data.dtype else topi.cast(result, data.dtype)


def _of_floats(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    result = function(x)
    return result if result.dtype == x.dtype else topi.cast(result, x.dtype)


def _place(kind: Callable[..., Tensor]) -> Function:
    """Return the function of the place of an extreme, the first one on ties, as int64."""

    def operator(
        call: Call, data: Tensor, *, axis: int = 0, keepdims: Flag = 1, select_last_index: Flag = 0
    ) -> Tensor:
        along = axis_number(axis, data.ndim, str(call.node))
        return topi.cast(kind(data, along, bool(keepdims), bool(select_last_index)), "int64")

    return operator


def _running(function: Callable[..., Tensor]) -> Function:
    def operator(
        call: Call, x: Tensor, axis: Known, *, exclusive: Flag = 0, reverse: Flag = 0
    ) -> Tensor:
        along = axis_number(call.integer(axis, "axis"), x.ndim, str(call.node))
        data = topi.flip(x, along) if reverse else x
        sums = function(data, along, None, bool(exclusive))
        return topi.flip(sums, along) if reverse else sums

    return operator


def _entry(reduce: Reduce, *versions: int, input_since: int = 18) -> dict[int, Function]:
    by_attribute, by_input = _by_attribute(reduce), _by_input(reduce)
    return {v: by_input if v >= input_since else by_attribute for v in versions}


OPERATORS: Table = {
    "ReduceSum": _entry(_sum, 1, 11, 13, input_since=13),
    "ReduceMean": _entry(_mean, 1, 11, 13, 18),
    "ReduceProd": _entry(_prod, 1, 11, 13, 18),
    "ReduceMax": _entry(_max, 1, 11, 12, 13, 18, 20),
    "ReduceMin": _entry(_min, 1, 11, 12, 13, 18, 20),
    "ReduceL1": _entry(_l1, 1, 11, 13, 18),
    "ReduceL2": _entry(_l2, 1, 11, 13, 18),
    "ReduceSumSquare": _entry(_square, 1, 11, 13, 18),
    "ReduceLogSum": _entry(_log_sum, 1, 11, 13, 18, 28),
    "ReduceLogSumExp": _entry(_log_sum_exp, 1, 11, 13, 18, 28),
    "ArgMax": since(_place(topi.argmax), 1, 11, 12, 13),
    "ArgMin": since(_place(topi.argmin), 1, 11, 12, 13),
    "CumSum": since(_running(topi.cumsum), 11, 14),
    "CumProd": since(_running(topi.cumprod), 26),
}
