"""Padding, with a constant or with elements of the tensor; a negative width cuts elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.arrays.rearranging import pad as padded
from schedlang.arrays.shapes import axis_numbers
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Const, Expr
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value, number

MODES = ("constant", "reflect", "edge", "wrap")


def pad_of_attributes(
    call: Call, data: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return _pad(call, data, pads, None, mode, value)


def pad(
    call: Call,
    data: Tensor,
    pads: Known,
    constant_value: Value | None = None,
    axes: Known | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    filler: Any = 0
    if constant_value is not None:
        alone = not constant_value.ndim or constant_value.shape == (1,)
        if constant_value.dtype != data.dtype or not alone:
            raise call.refused(f"its constant_value must be a scalar of {data.dtype}")
        constant = number(constant_value) if isinstance(constant_value, Known) else None
        if isinstance(constant, Const):
            filler = constant.value
        else:
            # NaN, and what a call computes
            filler = reshape(call.tensor(constant_value), ())
    over = None if axes is None else call.integers(axes, "axes")
    return _pad(call, data, call.sizes(pads, "pads"), over, mode, filler)


def _pad(
    call: Call,
    data: Tensor,
    pads: Sequence[Extent],
    axes: Sequence[int] | None,
    mode: str,
    value: Any,
) -> Tensor:
    if mode not in MODES:
        raise call.refused(f"its attribute 'mode' is {mode!r:.40}, not one of {', '.join(MODES)}")
    dims = axis_numbers(None if axes is None else tuple(axes), data.ndim, str(call.node), "axes")
    if len(pads) != 2 * len(dims):
        raise call.refused(f"its pads are {len(pads)} widths, but must be {2 * len(dims)}")
    widths: list[tuple[Extent, Extent]] = [(0, 0)] * data.ndim
    for k, before, after in zip(dims, pads, pads[len(dims) :]):
        widths[k] = (before, after)
    cut = [slice(_cut(b) or None, -_cut(a) or None) for b, a in widths]
    if any(s != slice(None) for s in cut):
        data = data[tuple(cut)]
    added = [tuple(e if isinstance(e, Expr) else max(e, 0) for e in pair) for pair in widths]
    if not any(isinstance(e, Expr) or e for pair in added for e in pair):
        return data
    if mode == "constant":
        return padded(data, added, constant_values=value)
    return padded(data, added, mode)


def _cut(width: Extent) -> int:
    """Return how many elements a negative width cuts."""
    return -width if isinstance(width, int) and width < 0 else 0


OPERATORS: Table = {
    "Pad": {2: pad_of_attributes, **since(pad, 11, 13, 18, 19, 21, 23, 24, 25)},
}
