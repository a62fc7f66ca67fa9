"""Losses, and how well two images match."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute import reduce
from schedlang.compute.math import abs as magnitude
from schedlang.compute.math import if_then_else
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Expr
from schedlang.language.construct import as_expr, const
from schedlang.tvm.topi.broadcast import divide
from schedlang.tvm.topi.checks import check_numbers, check_same, check_shape
from schedlang.tvm.topi.nn.padding import pad
from schedlang.tvm.topi.reduction import sum as total
from schedlang.tvm.topi.rules import floats, integers, one_of, operator
from schedlang.tvm.topi.stages import compute


@operator(
    predictions=floats(), targets=integers(), weights=floats("C classes"),
    reduction=one_of("mean", "sum", "none"),
)  # fmt: skip
def nll_loss(
    predictions: Any, targets: Any, weights: Any, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """Return ``-predictions[n, c, ...] * weights[c]`` of the class ``c = targets[n, ...]``.

    ``predictions`` are ``[N, C, dimensions]``, or ``[C]`` for a target of 0 dimensions. A target of
    ``ignore_index`` counts as 0. ``reduction`` is ``"none"``, ``"sum"``, or ``"mean"``: the sum by
    the sum of the weights.

    >>> import schedlang as sl
    >>> P, W = sl.placeholder((4, 10), name="P"), sl.placeholder((10,), name="W")
    >>> nll_loss(P, sl.placeholder((4,), "int32", name="T"), W, "none")
    Tensor(nll_loss: float32[4])
    """
    asked = "topi.nn.nll_loss"
    classes = predictions.shape[min(1, predictions.ndim - 1)]
    check_same(asked, weights.shape[0], "the number of weights", classes, "the number of classes")
    shape = (*predictions.shape[:1], *predictions.shape[2:]) if predictions.ndim > 1 else ()
    check_shape(asked, targets, "targets", shape)
    zero = const(0, predictions.dtype)

    def loss(*at: Any) -> Expr:
        c = targets.element(at)
        index = (*at[:1], c, *at[1:])
        value = -predictions.element(index) * weights[c]
        return if_then_else(c.equal(ignore_index), zero, value)

    def weight(*at: Any) -> Expr:
        c = targets.element(at)
        return if_then_else(c.equal(ignore_index), zero, weights[c])

    losses = compute("nll_loss", shape, loss)
    if reduction == "none" or (not shape and reduction == "sum"):
        return losses
    if reduction == "sum":
        return total(losses)
    counted = compute("weights", shape, weight)
    return divide(total(losses), total(counted)) if shape else divide(losses, counted)


@operator(
    data1=floats("N batch", "C channels", "H height", "W width"),
    data2=floats("N batch", "C channels", "H height", "W width"),
)
def correlation_nchw(
    data1: Any,
    data2: Any,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> Tensor:
    """Return how well windows of ``data1`` match displaced windows of ``data2``.

    The mean over a window of ``kernel_size`` (odd) and over channels is of products, or of
    distances without ``is_multiply``. Each displacement of up to ``max_displacement`` in steps of
    ``stride2`` is a channel of the result, and windows are ``stride1`` apart.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((1, 3, 10, 10), name="A"), sl.placeholder((1, 3, 10, 10), name="B")
    >>> correlation_nchw(A, B, 1, 4, 1, 1, 4, True)
    Tensor(correlation_nchw: float32[1, 81, 10, 10])
    """
    asked = "topi.nn.correlation_nchw"
    check_shape(asked, data2, "data2", data1.shape)
    (kernel,) = check_numbers(asked, [kernel_size], "kernel_size", (1,), 1)
    if kernel % 2 == 0:
        raise ComputeError(f"{asked}: kernel_size={kernel} is even, so that windows have no centre")
    (far,) = check_numbers(asked, [max_displacement], "max_displacement", (1,), 0)
    (step,) = check_numbers(asked, [stride1], "stride1", (1,), 1)
    (apart,) = check_numbers(asked, [stride2], "stride2", (1,), 1)
    ends = check_numbers(asked, padding, "padding", (1, 2, 4), 0)
    top, left, bottom, right = ends * (4 // len(ends))
    first, second = (
        pad(d, (0, 0, top, left), (0, 0, bottom, right)) if any(ends) else d for d in (data1, data2)
    )
    border, radius = far + (kernel - 1) // 2, far // apart
    width = 2 * radius + 1
    n, channels, *sides = first.shape
    rows, columns = (extent((as_expr(s) - 2 * border + step - 1) // step) for s in sides)
    if any(isinstance(size, int) and size < 1 for size in (rows, columns)):
        raise ComputeError(
            f"{asked}: {border} pixels at each side of {data1.name} are centres of no window "
            f"(kernel_size={kernel}, max_displacement={far}), which leaves none; give more padding"
        )
    c, dy, dx = (reduce_axis(e, k) for e, k in ((channels, "c"), (kernel, "dy"), (kernel, "dx")))
    scale = const(1 / (kernel * kernel), first.dtype)

    def element(b: Any, q: Any, i: Any, j: Any) -> Any:
        y, x = i * step + far + dy, j * step + far + dx
        down, along = (q // width - radius) * apart, (q % width - radius) * apart
        one, other = first[b, c, y, x], second[b, c, y + down, x + along]
        value = one * other if is_multiply else magnitude(one - other)
        return reduce.sum(value * scale / as_expr(channels), axis=(c, dy, dx))

    return compute("correlation_nchw", (n, width * width, rows, columns), element)


__all__ = ["correlation_nchw", "nll_loss"]
