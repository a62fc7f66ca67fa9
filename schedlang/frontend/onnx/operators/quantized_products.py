"""Products of integers of 8 bits: sums of int32, which are exact, and their rescaling.

ONNX Runtime's form of a quantized result: the sum of int32 is converted to the dtype of the scales,
multiplied by ``a_scale * b_scale / y_scale``, rounded to the nearest integer (half to even), moved
by the zero point and limited to the dtype of the zero point.
"""

from __future__ import annotations

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import same
from schedlang.arrays.shaping import expand_dims, reshape, squeeze
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.frontend.convolutions import as_column, convolve
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.call import Call, Floats
from schedlang.frontend.onnx.operators.convolutions import check_shapes
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.operators.windows import windows
from schedlang.frontend.quantized import limited
from schedlang.language.calls import call as math
from schedlang.language.construct import binary, cast

# the dtypes of operands, and the dtype of their sums
BYTES, SUMS = ("uint8", "int8"), "int32"


def matmul_integer(
    call: Call,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
) -> Tensor:
    return call.main(_matmul(call, A, B, a_zero_point, b_zero_point))


def qlinear_matmul(
    call: Call,
    a: Tensor,
    a_scale: Floats,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Floats,
    b_zero_point: Tensor,
    y_scale: Floats,
    y_zero_point: Tensor,
) -> Tensor:
    if min(a.ndim, b.ndim) < 2:
        raise call.refused(f"its inputs have {a.ndim} and {b.ndim} dimensions, and matrices two")
    total = call.main(_matmul(call, a, b, a_zero_point, b_zero_point))
    return _rescaled(
        call, total, _of_rows(call, a_scale, a), _of_columns(call, b_scale, b),
        _of_rows(call, y_scale, total), _of_rows(call, y_zero_point, total),
    )  # fmt: skip


def conv_integer(
    call: Call,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    check_shapes(call, x, w, None, kernel_shape)
    slid = windows(call, x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    data = _differences(call, x, _number(call, x_zero_point))
    weights = _differences(call, w, _of_channels(call, w_zero_point, w))
    total = convolve(data, weights, slid.strides, slid.pads, slid.dilations, group, SUMS)
    return call.main(total)


def qlinear_conv(
    call: Call,
    x: Tensor,
    x_scale: Floats,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Floats,
    w_zero_point: Tensor,
    y_scale: Floats,
    y_zero_point: Tensor,
    B: Tensor | None = None,  # noqa: N803
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    total = conv_integer(
        call, x, w, x_zero_point, w_zero_point, auto_pad=auto_pad, dilations=dilations,
        group=group, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    if B is not None:
        check_shapes(call, x, w, B, kernel_shape)
        if B.dtype != SUMS:
            raise call.refused(f"its bias is {B.dtype}, but is added to sums of {SUMS}")
        total = call.biased(total, as_column(B, x.ndim - 2), SUMS)
    # the output channels are the first dimension of the weights, and the second one of the result
    scale = _of_channels(call, w_scale, w)
    if scale is not None and scale.ndim:
        scale = as_column(reshape(scale, (-1,)), x.ndim - 2)
    return _rescaled(
        call, total, _number(call, x_scale), scale, _number(call, y_scale),
        _number(call, y_zero_point),
    )  # fmt: skip


def _matmul(
    call: Call, a: Tensor, b: Tensor, a_zero_point: Tensor | None, b_zero_point: Tensor | None
) -> Tensor:
    """Return the product of the differences of two operands and their zero points, in int32."""
    if not a.ndim or not b.ndim:
        raise call.refused("one of its inputs is a scalar")
    left = expand_dims(a, 0) if a.ndim == 1 else a
    right = expand_dims(b, 1) if b.ndim == 1 else b
    product = topi.nn.matmul(
        _differences(call, left, _of_rows(call, a_zero_point, left)),
        _differences(call, right, _of_columns(call, b_zero_point, right)),
        None,
        SUMS,
    )
    gone = tuple(k for k, t in ((-2, a), (-1, b)) if t.ndim == 1)
    return squeeze(call.main(product), gone) if gone else product


def _differences(call: Call, x: Tensor, zero_point: Tensor | None) -> Tensor:
    """Return the elements of ``x`` minus the zero point, which broadcasts, in int32."""
    if x.dtype not in BYTES:
        raise call.refused(f"its input is {x.dtype}, not an integer of 8 bits")
    if zero_point is None:
        return cast_to(x, SUMS)
    check_dtypes(call, x, zero_point)
    return array("centred", lambda v, z: binary("-", cast(v, SUMS), cast(z, SUMS)), x, zero_point)


def _rescaled(
    call: Call,
    total: Tensor,
    a_scale: Tensor | None,
    b_scale: Tensor | None,
    y_scale: Tensor | None,
    y_zero_point: Tensor | None,
) -> Tensor:
    """Return sums of int32 times ``a_scale * b_scale / y_scale`` as integers of 8 bits."""
    assert a_scale is not None and b_scale is not None and y_scale is not None
    assert y_zero_point is not None
    check_dtypes(call, a_scale, b_scale, y_scale)
    if y_zero_point.dtype not in BYTES:
        raise call.refused(f"its output is {y_zero_point.dtype}, not an integer of 8 bits")
    scale = array("scale", lambda a, b, y: cast(a * b / y, "float32"), a_scale, b_scale, y_scale)
    scaled = array(
        "rescaled", lambda v, by: math("round", binary("*", cast(v, by.dtype), by)), total, scale
    )
    return limited(scaled, y_zero_point, y_zero_point.dtype)


def _number(call: Call, values: Tensor | None) -> Tensor | None:
    """Return the scale or the zero point of a whole tensor, without dimensions."""
    if values is not None and not all(same(extent, 1) for extent in values.shape):
        raise call.refused(
            f"its scale or zero point of shape {shape_text(values.shape)} is not one number"
        )
    return None if values is None else reshape(values, ())


def _of_rows(call: Call, values: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a scale or a zero point of a matrix, or of each of its rows, as it broadcasts."""
    return _along(call, values, x, (*x.shape[:-1], 1), -2)


def _of_columns(call: Call, values: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a scale or a zero point of a matrix, or of each of its columns, as it broadcasts."""
    return _along(call, values, x, (*x.shape[:-2], 1, x.shape[-1]), -1)


def _of_channels(call: Call, values: Tensor | None, w: Tensor) -> Tensor | None:
    """Return a scale or a zero point of weights, or of each of their first dimension."""
    return _along(call, values, w, (w.shape[0], *[1] * (w.ndim - 1)), 0)


def _along(
    call: Call, values: Tensor | None, x: Tensor, whole: tuple[Extent, ...], at: int
) -> Tensor | None:
    """Return one number, a number for each index of dimension ``at``, or an array of ``whole``."""
    if values is None:
        return None
    if all(same(extent, 1) for extent in values.shape):
        return reshape(values, ())
    if values.ndim == len(whole) and all(map(same, values.shape, whole)):
        return values
    if values.ndim == 1 and same(values.shape[0], x.shape[at]):
        at %= x.ndim
        return reshape(values, tuple(-1 if k == at else 1 for k in range(x.ndim)))
    raise call.refused(
        f"its scale or zero point of shape {shape_text(values.shape)} has no number for each index "
        f"of dimension {at % x.ndim} of {shape_text(x.shape)}"
    )


OPERATORS: Table = {
    "ConvInteger": since(conv_integer, 10),
    "MatMulInteger": since(matmul_integer, 10),
    "QLinearConv": since(qlinear_conv, 10),
    "QLinearMatMul": since(qlinear_matmul, 10, 21),
}
