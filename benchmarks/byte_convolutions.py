"""Convolutions of bytes, whose sums are int32: rows of ``python -m benchmarks.dot_products``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.byte_instructions import form_of
from benchmarks.works.convolution import CONV, windows

# vectors of output channels of a tile of sums
VECTORS = 2


@dataclass(frozen=True)
class Convolution:
    """A convolution of one picture of uint8 or int8 by weights of int8, in the order NCHW."""

    label: str
    data: str
    size: int
    channels: int
    filters: int
    kernel: int
    stride: int
    pad: int

    @property
    def name(self) -> str:
        kind = {"uint8": "u8", "int8": "s8"}[self.data]
        of = f"{self.size}^2x{self.channels}>{self.filters} {self.kernel}x{self.kernel}"
        return f"{kind} conv {self.label} {of}"

    @property
    def out(self) -> int:
        """The rows and columns of the result."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        taps = self.channels * self.kernel**2
        return 2.0 * self.filters * self.out**2 * taps

    def arrays(self) -> list[Any]:
        """Return the picture and the weights, which are the same for each implementation."""
        draw = np.random.default_rng(self.size)
        shapes = (
            (1, self.channels, self.size, self.size),
            (self.filters, self.channels, self.kernel, self.kernel),
        )
        limits = [np.iinfo(dtype) for dtype in (self.data, "int8")]
        return [
            draw.integers(end.min, end.max, shape, end.dtype, endpoint=True)
            for end, shape in zip(limits, shapes)
        ]

    def expected(self) -> Any:
        """Return the exact result."""
        x, w = (a.astype("float64") for a in self.arrays())
        columns = windows(x[0], self.kernel, self.stride, self.pad).transpose(1, 2, 0, 3, 4)
        sums = columns.reshape(self.out**2, -1) @ w.reshape(self.filters, -1).T
        return sums.T.reshape(1, self.filters, self.out, self.out)


LAYERS = ("C2", "C6", "C9")
CONVOLUTIONS = [
    Convolution(label, data, *CONV[int(label[1:]) - 1])
    for data in ("uint8", "int8")
    for label in LAYERS
]


def declared(work: Convolution) -> list[sl.Tensor]:
    """Return the operands, the padded picture and the plain convolution."""
    X = sl.placeholder((1, work.channels, work.size, work.size), work.data, name="X")
    W = sl.placeholder((work.filters, work.channels, *(work.kernel,) * 2), "int8", name="W")
    edges = (0, 0, work.pad, work.pad)
    XP = sl.pad(X, edges, edges, name="XP")
    c, v, u = (
        sl.reduce_axis(n, name=name)
        for n, name in ((work.channels, "c"), (work.kernel, "v"), (work.kernel, "u"))
    )

    def element(n: sl.Axis, o: sl.Axis, y: sl.Axis, x: sl.Axis) -> Any:
        pixel = XP[n, c, y * work.stride + v, x * work.stride + u]
        return sl.sum(pixel.astype("int32") * W[o, c, v, u].astype("int32"), axis=(c, v, u))

    Y = sl.compute((1, work.filters, work.out, work.out), element, name="Y")
    return [X, W, XP, Y]


def by_hand(work: Convolution) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Keep pixels by vectors of channels in registers, and pack four channels side by side.

    Weights of signed pixels are shifted, if the instruction wants an unsigned operand.
    """
    X, W, XP, Y = declared(work)
    form = form_of({"uint8": "u8", "int8": "s8"}[work.data])
    instruction, terms = form.instruction, form.terms
    s = sl.schedule(Y)
    tile = s.cache_write(Y, "local")
    if form.shifts(1, "int8"):
        packed, sums = s.shift_operand(tile, W, "uint8")
        _, y, x = (a for a in s[sums].op.axis if a.extent > 1 or a.name == "n")
        s[sums].reorder(y, *s[sums].op.reduce_axis, x)
        s[sums].vectorize(x)
        s[sums].parallel(y)
    else:
        packed = s.cache_read(W, "global", [tile])
    lanes = VECTORS * instruction.lanes
    s[packed].transform_layout(
        lambda o, c, v, u: (o // lanes, c // terms, v, u, o % lanes, c % terms)
    )
    s[XP].transform_layout(lambda n, c, y, x: (n, c // terms, y, x, c % terms))
    n, o, y, x = s[Y].op.axis
    pixels = max(f for f in range(1, form.pixels + 1) if work.out % f == 0)
    panel, lane = s[Y].split(o, factor=lanes)
    strip, pixel = s[Y].split(x, factor=pixels)
    s[Y].reorder(n, panel, y, strip, lane, pixel)
    s[Y].unroll(lane)
    s[Y].vectorize(pixel)
    s[Y].parallel(s[Y].fuse(n, panel))
    s[tile].compute_at(s[Y], strip)
    s[tile].transform_layout(lambda n, o, y, x: (n, y, x, o))
    n, o, y, x = s[tile].op.axis
    c, v, u = s[tile].op.reduce_axis
    over, step = s[tile].split(c, factor=terms)
    vector, across = s[tile].split(o, factor=instruction.lanes)
    s[tile].reorder(n, y, over, v, u, x, vector, across, step)
    s[tile].unroll(x)
    s[tile].unroll(vector)
    s[tile].tensorize(across, instruction)
    _pack(s, packed, XP, lanes, terms)
    return s, [X, W, Y]


def _pack(s: sl.Schedule, packed: sl.Tensor, XP: sl.Tensor, lanes: int, terms: int) -> None:
    """Copy the weights in panels, and four channels of the picture side by side."""
    o, c, v, u = s[packed].op.axis
    panel, lane = s[packed].split(o, factor=lanes)
    over, step = s[packed].split(c, factor=terms)
    s[packed].reorder(panel, over, step, v, u, lane)
    # the elements of a filter are adjacent, so that blocks are transposed in registers
    s[packed].unroll(s[packed].fuse(s[packed].fuse(step, v), u))
    s[packed].vectorize(lane)
    s[packed].parallel(panel)
    n, c, y, x = s[XP].op.axis
    over, step = s[XP].split(c, factor=terms)
    s[XP].reorder(n, over, y, x, step)
    s[XP].unroll(step)
    s[XP].vectorize(x)
    s[XP].parallel(s[XP].fuse(n, over))


def ours(work: Convolution, hand: bool) -> Callable[[], Any]:
    """Return a call of the schedule of this file, or of ``sl.autoschedule``."""
    if hand:
        s, tensors = by_hand(work)
    else:
        X, W, _, Y = declared(work)
        s, tensors = sl.autoschedule(Y), [X, W, Y]
    kernel, arrays = sl.build(s, tensors), work.arrays()
    out = np.empty((1, work.filters, work.out, work.out), "int32")
    return lambda: kernel(*arrays, out)


def torch_convolution(work: Convolution) -> Callable[[], Any]:
    """Return a call of PyTorch's quantized convolution, which rounds its result to bytes.

    It packs its weights ahead, which is not timed. Its pictures are uint8; those that stand for
    int8 have 128 as their zero.
    """
    import torch

    torch.backends.quantized.engine = "x86"
    x, w = (torch.from_numpy(a.astype("float32")) for a in work.arrays())
    zero = 128 if work.data == "int8" else 0
    pixels = torch.quantize_per_tensor(x, 1.0, zero, torch.quint8)
    weights = torch.quantize_per_tensor(w, 1.0, 0, torch.qint8)
    pads, steps, ones = ([n] * 2 for n in (work.pad, work.stride, 1))
    packed = torch.ops.quantized.conv2d_prepack(weights, None, steps, pads, ones, 1)
    scale = float(np.abs(work.expected()).max()) / 127
    return lambda: torch.ops.quantized.conv2d(pixels, packed, scale, 128)


def onnx_convolution(work: Convolution) -> Callable[[], Any]:
    """Return a call of ONNX Runtime's ConvInteger."""
    from benchmarks.peers.onnx_node import node_call

    x, w = work.arrays()
    options = {"pads": [work.pad] * 4, "strides": [work.stride] * 2}
    shape = (1, work.filters, work.out, work.out)
    return node_call("ConvInteger", {"x": x, "w": w}, shape, options)


def is_right(work: Convolution, result: Any) -> bool:
    """Return whether a result is exact; PyTorch's is rounded to bytes."""
    expected = work.expected()
    if hasattr(result, "dequantize"):
        apart = np.abs(result.dequantize().numpy() - expected)
        return bool(apart.max() <= 0.51 * result.q_scale())
    return bool(np.array_equal(result, expected))
