"""Convolutions, of one to three dimensions, and transposed ones."""

from __future__ import annotations

from schedlang import topi
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.frontend.convolutions import as_column, convolve, convolve_transposed
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.operators.windows import Windows, windows


def conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    check_dtypes(call, x, w, *([] if b is None else [b]))
    check_shapes(call, x, w, b, kernel_shape)
    slid = windows(call, x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    wide = dtypes.register_dtype(x.dtype)
    convolved = convolve(x, w, slid.strides, slid.pads, slid.dilations, group, wide)
    return call.biased(convolved, as_column(b, x.ndim - 2), x.dtype)


def check_shapes(
    call: Call, x: Tensor, w: Tensor, b: Tensor | None, kernel_shape: list[int] | None
) -> None:
    """Raise for operands of a convolution whose shapes do not fit."""
    if x.ndim < 3 or w.ndim != x.ndim or (b is not None and b.ndim != 1):
        raise call.refused(
            f"its input has {x.ndim} dimensions and its weights {w.ndim}; both must have the same "
            "number, of 3 or more, and the bias one"
        )
    if kernel_shape is not None and tuple(kernel_shape) != w.shape[2:]:
        raise call.refused(
            f"its attribute 'kernel_shape' is {kernel_shape}, but its weights have shape {w.shape}"
        )


def conv_transpose(
    call: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    check_dtypes(call, x, w, *([] if b is None else [b]))
    check_shapes(call, x, w, b, kernel_shape)
    count = x.ndim - 2
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    slid = windows(
        call,
        x.shape[2:],
        w.shape[2:],
        strides,
        dilations,
        pads,
        "NOTSET" if same or output_shape is not None else auto_pad,
    )
    extra = list(output_padding or [0] * count)
    if len(extra) != count:
        raise call.refused(f"its attribute 'output_padding' has {len(extra)} numbers, not {count}")
    # a dilated convolution has zeros between its weights
    weights = topi.nn.dilate(w, (1, 1, *slid.dilations)) if max(slid.dilations) > 1 else w
    widths = slid.pads
    if output_shape is not None or same:
        widths = _from_shape(call, x, slid, extra, output_shape, auto_pad == "SAME_UPPER")
    if group > 1 and count != 2:
        raise call.refused(
            f"of {count} dimensions it has no form here with {group} groups",
            "Export the model with a transposed convolution of two dimensions.",
        )
    wide = dtypes.register_dtype(x.dtype)
    convolved = convolve_transposed(x, weights, slid.strides, widths, extra, group, wide)
    return call.biased(convolved, as_column(b, count), x.dtype)


def _from_shape(
    call: Call, x: Tensor, slid: Windows, extra: list[int], shape: list[int] | None, upper: bool
) -> tuple[int, ...]:
    """Return the pads that lead to an output of ``shape``; by default of stride times the input."""
    before, after = [], []
    # a shape of all dimensions begins with batch and channels
    spatial = list(shape or [])[-(x.ndim - 2) :]
    for k, (size, kernel, s, d) in enumerate(
        zip(x.shape[2:], slid.kernel, slid.strides, slid.dilations)
    ):
        if not isinstance(size, int):
            raise call.refused(
                f"the extent {size} of its input is symbolic, but decides its padding",
                "Import the model with a number for this size: shapes={...}.",
            )
        if shape is not None and len(spatial) != x.ndim - 2:
            raise call.refused(f"its attribute 'output_shape' is {shape}, of another rank")
        target = spatial[k] if shape is not None else size * s
        total = s * (size - 1) + extra[k] + (kernel - 1) * d + 1 - target
        if total < 0:
            raise call.refused(
                f"an output of extent {target} is larger than it can make, {target + total}"
            )
        first = total // 2 if upper else total - total // 2
        before.append(first)
        after.append(total - first)
    return (*before, *after)


OPERATORS: Table = {
    "Conv": since(conv, 1, 11, 22),
    "ConvTranspose": since(conv_transpose, 1, 11, 22),
}
