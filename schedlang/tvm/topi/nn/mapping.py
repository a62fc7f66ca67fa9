"""Elementwise operators by channel, and flattened batches."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import size_of
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.signatures import public
from schedlang.tvm.topi.checks import MEANINGS, check_shape, check_tensor, laid_out
from schedlang.tvm.topi.rules import operator, tensor
from schedlang.tvm.topi.stages import compute, stage_of

# names of the axes of each layout
AXES = {"NCHW": "nchw", "NHWC": "nhwc", "NCHWc": ["n", "c", "h", "w", "ci"]}


@operator(data=tensor())
def flatten(data: Any) -> Tensor:
    """Return ``data`` with all dimensions after the first one in a row.

    >>> import schedlang as sl
    >>> flatten(sl.placeholder((2, 3, 4), name="A"))
    Tensor(reshape: float32[2, 12])
    """
    if not data.ndim:
        raise ComputeError(f"topi.nn.flatten of {data.name}: it has no dimension to keep")
    return stage_of(reshape(data, (data.shape[0], size_of(data.shape[1:]))), data)


@public
def scale_shift_nchw(Input: Any, Scale: Any, Shift: Any) -> Tensor:
    """Return ``Input * Scale[c] + Shift[c]``, by the channel c of ``NCHW``.

    >>> import schedlang as sl
    >>> A, s = sl.placeholder((1, 3, 4, 4), name="A"), sl.placeholder((3,), name="s")
    >>> scale_shift_nchw(A, s, s)
    Tensor(scale_shift_nchw: float32[1, 3, 4, 4])
    """
    return _scale_shift(Input, Scale, Shift, "NCHW")


@public
def scale_shift_nhwc(Input: Any, Scale: Any, Shift: Any) -> Tensor:
    """Return ``Input * Scale[c] + Shift[c]``, by the channel c of ``NHWC``.

    >>> import schedlang as sl
    >>> A, s = sl.placeholder((1, 4, 4, 3), name="A"), sl.placeholder((3,), name="s")
    >>> scale_shift_nhwc(A, s, s)
    Tensor(scale_shift_nhwc: float32[1, 4, 4, 3])
    """
    return _scale_shift(Input, Scale, Shift, "NHWC")


@public
def scale_shift_nchwc(Input: Any, Scale: Any, Shift: Any) -> Tensor:
    """Return ``Input * Scale[C, c] + Shift[C, c]``, by the channel ``C``, ``c`` of ``NCHWc``.

    >>> import schedlang as sl
    >>> A, s = sl.placeholder((1, 3, 4, 4, 8), name="A"), sl.placeholder((3, 8), name="s")
    >>> scale_shift_nchwc(A, s, s)
    Tensor(scale_shift_nchwc: float32[1, 3, 4, 4, 8])
    """
    return _scale_shift(Input, Scale, Shift, "NCHWc")


def _scale_shift(data: Any, scale: Any, shift: Any, layout: str) -> Tensor:
    name = f"scale_shift_{layout.lower()}"
    asked = f"topi.nn.{name}"
    laid_out(asked, data, "Input", layout)
    channels = [place for place, letter in enumerate(layout) if letter in "Cc"]
    for operand, what in ((scale, "Scale"), (shift, "Shift")):
        check_tensor(asked, operand, what, *(MEANINGS[layout[place]] for place in channels))
        check_shape(asked, operand, what, [data.shape[place] for place in channels])

    def element(*axes: Axis) -> Expr:
        channel = tuple(axes[place] for place in channels)
        return data[axes] * scale[channel] + shift[channel]

    return compute(name, data.shape, element, AXES[layout])
