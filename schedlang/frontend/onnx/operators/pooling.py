"""Poolings of windows and of whole images."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.operators.table import Function, Table, since
from schedlang.frontend.onnx.operators.windows import windows
from schedlang.frontend.windows import largest_at
from schedlang.language.calls import call as math
from schedlang.language.composed import norm_of
from schedlang.language.construct import as_expr, binary
from schedlang.tvm.topi.stages import compute

POOLS = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}


def _pooled(
    call: Call,
    x: Tensor,
    kind: str,
    kernel_shape: list[int],
    strides: list[int] | None,
    dilations: list[int] | None,
    pads: list[int] | None,
    auto_pad: str,
    ceil_mode: int,
    count_include_pad: Flag = 0,
) -> Tensor:
    slid = windows(call, x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad)
    # of padding to SAME, the windows fit exactly
    up = bool(ceil_mode) and not auto_pad.startswith("SAME")
    return POOLS[x.ndim - 2](
        x,
        slid.kernel,
        slid.strides,
        slid.dilations,
        slid.pads,
        kind,
        up,
        count_include_pad=bool(count_include_pad),
    )


def max_pool(
    call: Call,
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    storage_order: Flag = 0,
    strides: list[int] | None = None,
) -> list[Tensor]:
    """``storage_order`` is the order of the indices of the largest elements."""
    pooled = _pooled(call, x, "max", kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if not any(call.node.outputs[1:]):
        return [pooled]
    slid = windows(call, x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad)

    def ends(k: int, i: Any) -> tuple[Any, Any]:
        return i * slid.strides[k] - slid.pads[k], x.shape[2 + k]

    places = largest_at(
        x, pooled.shape[2:], slid.kernel, slid.dilations, ends, columns=bool(storage_order)
    )
    channels, image = x.shape[1], prod(map(as_expr, x.shape[2:]), start=as_expr(1))

    def index(*at: Axis) -> Expr:
        # indices count through the whole input
        return places.element(at) + (at[0] * channels + at[1]) * image

    return [pooled, compute("index", places.shape, index)]


def average_pool(
    call: Call,
    x: Floats,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    count_include_pad: Flag = 0,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    return _pooled(
        call,
        x,
        "avg",
        kernel_shape,
        strides,
        dilations,
        pads,
        auto_pad,
        ceil_mode,
        count_include_pad,
    )


def _spatial(call: Call, x: Tensor) -> tuple[int, ...]:
    if x.ndim < 3:
        raise call.refused(f"its input has {x.ndim} dimensions, but needs 3 or more")
    return tuple(range(2, x.ndim))


def _global(kind: str, function: Callable[..., Tensor]) -> Function:
    def operator(call: Call, x: Floats) -> Tensor:
        axes = _spatial(call, x)
        return topi.nn.global_pool(x, kind) if len(axes) == 2 else function(x, axes, True)

    return operator


def lp_pool(
    call: Call,
    x: Floats,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    dilations: list[int] | None = None,
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The root of the sum of powers, as the mean of the window times its number of elements."""
    powers = array("powers", lambda v: _power(v, p), x)
    means = _pooled(
        call, powers, "avg", kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, 1
    )
    if ceil_mode and not auto_pad.startswith("SAME"):
        raise call.refused("with ceil_mode it has no form here", "Pad the input in its place.")
    count = 1
    for k in kernel_shape:
        count *= k
    return array("lp_pool", lambda v: _root(v * float(count), p), means)


def global_lp_pool(call: Call, x: Floats, *, p: int = 2) -> Tensor:
    powers = array("powers", lambda v: _power(v, p), x)
    return array("global_lp_pool", lambda v: _root(v, p), topi.sum(powers, _spatial(call, x), True))


def _power(value: Any, p: int) -> Any:
    size = math("abs", value)
    return size if p == 1 else value * value if p == 2 else binary("**", size, float(p))


def _root(value: Any, p: int) -> Any:
    return value if p == 1 else norm_of(value, p)


OPERATORS: Table = {
    "MaxPool": since(max_pool, 1, 8, 10, 11, 12, 22),
    "AveragePool": since(average_pool, 7, 10, 11, 19, 22),
    "LpPool": since(lp_pool, 2, 11, 18, 22),
    "GlobalAveragePool": since(_global("avg", topi.mean), 1, 22),
    "GlobalMaxPool": since(_global("max", topi.max), 1, 22),
    "GlobalLpPool": since(global_lp_pool, 2, 22),
}
