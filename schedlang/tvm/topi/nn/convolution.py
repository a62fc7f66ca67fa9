"""Convolutions of any number of dimensions, in any layout, with groups."""

from __future__ import annotations

from typing import Any

from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import (
    SPATIAL,
    check_divides,
    check_layout,
    check_numbers,
    check_same,
    check_whole,
    laid_out,
)
from schedlang.tvm.topi.stages import compute, result_dtype
from schedlang.tvm.topi.windows import slide

# names of axes, by the letter of their dimension
OUTPUT_AXES = {"N": "n", "C": "f", "D": "z", "H": "y", "W": "x"}
REDUCE_AXES = {"C": "rc", "D": "rz", "H": "ry", "W": "rx"}


@public
def conv(
    inp: Any,
    filt: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``inp`` with ``filt``, of one to three dimensions, in any layout.

    ``data_layout`` orders ``N``, ``C`` and the dimensions that there are of ``D``, ``H`` and ``W``;
    the result has it, too. ``kernel_layout`` has ``O`` and ``I`` in place of ``N`` and ``C``; by
    default it is ``OIHW`` for ``NCHW``, and ``HWIO`` for others. The element at output channel f is
    the sum over rc, ry, rx of ``inp[n, rc, y*stride + ry*dilation, ...] * filt[f, rc, ry, rx]``,
    with ``inp`` padded by zeros. With ``groups``, an output channel sees only its group of input
    channels; ``I`` of ``filt`` is their number.

    ``stride`` and ``dilation`` are an integer or one for each dimension; ``padding`` is an integer,
    one for each dimension, ``(top, left, bottom, right)``, ``"VALID"`` or ``"SAME"``. Both factors
    are cast to ``out_dtype``, by default the dtype to which they promote.

    Raises :class:`~schedlang.errors.ComputeError` for a layout, channels, groups or a padding that
    do not fit, and for a window that does not fit in the padded input.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 9, 9), name="A"), sl.placeholder((6, 4, 3, 3), name="W")
    >>> conv(A, W, 2, 1, 1, 2, "NCHW")
    Tensor(group_conv2d_nchw: float32[1, 6, 5, 5])
    """
    count = len(data_layout) - 2 if isinstance(data_layout, str) else 0
    letters = SPATIAL[-count:] if 1 <= count <= 3 else "HW"
    name = f"{'group_' * (groups != 1)}conv{len(letters)}d_{str(data_layout).lower()}"
    asked = f"topi.nn.{name}"
    layout = check_layout("topi.nn.conv", data_layout, f"NC{letters}", "data_layout")
    if not kernel_layout:
        first = layout == f"NC{letters}"
        kernel_layout = f"OI{letters}" if first else f"{letters}IO"
    check_layout(asked, kernel_layout, f"OI{letters}", "kernel_layout")
    data = laid_out(asked, inp, "data", layout)
    kernel = laid_out(asked, filt, "kernel", kernel_layout)
    size, weights = dict(zip(layout, data.shape)), dict(zip(kernel_layout, kernel.shape))
    _check_groups(asked, data, kernel, size["C"], weights, groups)
    slid, counts, source = slide(
        asked, data, layout, kernel, kernel_layout, stride, padding, dilation
    )
    shape = {"N": size["N"], "C": weights["O"], **counts}
    dtype = result_dtype(out_dtype, data, kernel)
    reduced = {
        c: reduce_axis(slid[c].kernel if c in slid else weights["I"], REDUCE_AXES[c])
        for c in layout
        if c != "N"
    }

    def element(*axes: Axis) -> Reduction:
        at = dict(zip(layout, axes))
        channel: Expr = reduced["C"]
        if groups > 1:
            group = at["C"] // max(weights["O"] // groups, 1)
            channel = group * weights["I"] + channel
        read = {"N": at["N"], "C": channel, **{c: w.at(at[c], reduced[c]) for c, w in slid.items()}}
        weight = {**reduced, "O": at["C"], "I": reduced["C"]}
        product = cast(source[tuple(read[c] for c in layout)], dtype) * cast(
            kernel[tuple(weight[c] for c in kernel_layout)], dtype
        )
        return total(product, axis=list(reduced.values()))

    return compute(name, tuple(shape[c] for c in layout), element, [OUTPUT_AXES[c] for c in layout])


def _check_groups(
    asked: str, data: Tensor, kernel: Tensor, channels: Any, weights: dict[str, Any], groups: Any
) -> None:
    """Raise :class:`ComputeError` unless the channels of data and kernel fit."""
    (count,) = check_numbers(asked, groups, "groups", (1,), 1)
    if count == 1:
        check_same(
            asked,
            channels,
            f"the number of channels of data {data.name}",
            weights["I"],
            f"the number of input channels of kernel {kernel.name}",
        )
        return
    channels = check_whole(asked, channels, f"the number of channels of {data.name}")
    outputs = check_whole(asked, weights["O"], f"the number of output channels of {kernel.name}")
    for number, what in (
        (channels, f"channels of data {data.name}"),
        (outputs, f"output channels of kernel {kernel.name}"),
    ):
        check_divides(
            f"{asked} with groups={count}",
            number,
            count,
            f"the number of {what}",
            f"{count} equal groups",
        )
    check_same(
        asked,
        channels // count,
        f"the number of channels of data {data.name} in a group",
        weights["I"],
        f"the number of input channels of kernel {kernel.name}",
    )
