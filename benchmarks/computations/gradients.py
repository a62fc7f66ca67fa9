"""The gradients of convolutions, as ``sl.gradient`` makes them."""

from __future__ import annotations

import schedlang as sl
from benchmarks.computations import table
from benchmarks.works import Work


def gradient_by_input(work: Work) -> list[sl.Tensor]:
    X, W, Y = _convolution(work)
    G = sl.placeholder(work.inputs["g"], name="G")
    return [G, W, sl.gradient(Y, X, G)]


def gradient_by_weights(work: Work) -> list[sl.Tensor]:
    X, W, Y = _convolution(work)
    G = sl.placeholder(work.inputs["g"], name="G")
    return [G, X, sl.gradient(Y, W, G)]


def _convolution(work: Work) -> list[sl.Tensor]:
    """Return the input, the weights and the result of the convolution."""
    sizes = work.sizes
    groups, outputs = sizes["groups"], work.inputs["g"]
    if "x" in work.inputs:
        x, w = work.inputs["x"], work.outputs["dw"]
    else:
        x, w = work.outputs["dx"], work.inputs["w"]
    forward = Work(
        work.name, "depthwise" if groups > 1 else "conv2d", sizes, {"x": x, "w": w},
        {"y": outputs}, work.oracle, work.bound,
    )  # fmt: skip
    make = table.depthwise if groups > 1 else table.conv2d
    return make(forward)


COMPUTATIONS = (gradient_by_input, gradient_by_weights)
