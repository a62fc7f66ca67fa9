"""Fourier transforms, of a length that is known at import, as products with their matrices."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.shapes import axis_number, extent
from schedlang.arrays.shaping import reshape, swapaxes
from schedlang.compute.tensor import Extent, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.construct import as_expr
from schedlang.tvm.topi.stages import compute

# the most elements of the matrix of a transform: of 2048 points that are complex
MOST_ELEMENTS = 2**24


def dft(
    call: Call,
    x: Floats,
    dft_length: Known | None = None,
    axis: Known | None = None,
    *,
    inverse: Flag = 0,
    onesided: Flag = 0,
) -> Tensor:
    """The last dimension has the real and the imaginary part, or the real one alone."""
    along = -2 if axis is None else call.integer(axis, "axis")
    return _along(call, x, dft_length, along, bool(inverse), bool(onesided))


def dft_of_attribute(
    call: Call,
    x: Floats,
    dft_length: Known | None = None,
    *,
    axis: int = 1,
    inverse: Flag = 0,
    onesided: Flag = 0,
) -> Tensor:
    return _along(call, x, dft_length, axis, bool(inverse), bool(onesided))


def _along(
    call: Call, x: Tensor, given: Known | None, axis: int, inverse: bool, onesided: bool
) -> Tensor:
    k = axis_number(axis, x.ndim, str(call.node))
    parts = _parts(call, x)
    if k == x.ndim - 1:
        raise call.refused(f"its axis is {axis}, the dimension of real and imaginary parts")
    own = x.shape[k]
    if not isinstance(own, int):
        raise call.refused(
            f"its axis has the symbolic extent {own}, which decides its matrix",
            "Import the model with a number for this size: shapes={...}.",
        )
    whole = 2 * (own - 1) if inverse and onesided else own
    points = whole if given is None else call.integer(given, "dft_length")
    if points < 1:
        raise call.refused(f"it has {points} points")
    read = min(own, points // 2 + 1 if inverse and onesided else points)
    lines = swapaxes(x, k, -2)
    if read < own:
        whole_dims: list[Any] = [slice(None)] * (x.ndim - 2)
        lines = lines[tuple([*whole_dims, slice(0, read)])]

    def transform(units: np.ndarray) -> np.ndarray:
        if inverse:
            return (np.fft.irfft if onesided else np.fft.ifft)(units, points)
        return np.fft.fft(units, points)[:, : points // 2 + 1 if onesided else points]

    lead = lines.shape[:-2]
    result = _product(call, reshape(lines, (*lead, read * parts)), read, parts, transform, lead)
    return swapaxes(result, k, -2)


def stft(
    call: Call,
    signal: Floats,
    frame_step: Known,
    window: Value | None = None,
    frame_length: Known | None = None,
    *,
    onesided: Flag = 1,
) -> Tensor:
    """Frames of the signal, each times the window, in one product with a matrix of both."""
    step = call.integer(frame_step, "frame_step")
    real = signal if signal.ndim == 3 else topi.expand_dims(signal, 2)
    if real.ndim != 3 or step < 1:
        raise call.refused(f"its signal has {signal.ndim} dimensions and its frame_step is {step}")
    parts = _parts(call, real)
    if frame_length is not None:
        points: Any = call.integer(frame_length, "frame_length")
    elif window is not None and window.ndim == 1:
        points = window.shape[0]
    else:
        raise call.refused("it has neither a window nor a frame_length")
    other = window is not None and window.shape != (points,)
    if not isinstance(points, int) or points < 1 or other:
        raise call.refused(f"its frame_length is {points}, and its window has another shape")
    # only a known window becomes part of the matrix
    weights = window.array.astype("float64") if isinstance(window, Known) else None
    computed = window if isinstance(window, Tensor) else None
    batch, length, _ = real.shape
    count: Extent = extent((as_expr(length) - points) // step + 1)
    if isinstance(count, int) and count < 1:
        raise call.refused(f"its signal of {length} elements is shorter than a frame of {points}")

    def frame(b: Axis, f: Axis, j: Axis) -> Expr:
        part: Expr = real[b, f * step + j // parts, j % parts]
        return part if computed is None else part * computed[j // parts]

    frames = compute("frames", (batch, count, points * parts), frame, ["b", "f", "j"])

    def transform(units: np.ndarray) -> np.ndarray:
        weighted = units if weights is None else units * weights
        return np.fft.fft(weighted)[:, : points // 2 + 1 if onesided else points]

    return _product(call, frames, points, parts, transform, (batch, count))


def _parts(call: Call, x: Tensor) -> int:
    """Return 2 for complex elements, and 1 for real ones."""
    parts = x.shape[-1] if x.ndim > 1 else None
    if parts not in (1, 2):
        raise call.refused(f"its input has {parts} parts in the last dimension, not 1 or 2")
    return int(str(parts))


def _product(
    call: Call,
    rows: Tensor,
    points: int,
    parts: int,
    transform: Callable[[np.ndarray], np.ndarray],
    lead: Any,
) -> Tensor:
    """Return the transform of ``rows``, whose last dimension has all parts of all points."""
    if 2 * points * points * parts > MOST_ELEMENTS:
        raise call.refused(
            f"its {points} points are more than a product is good for",
            "Transform the signal before the network: np.fft.fft.",
        )
    units = np.eye(points)
    units = np.stack([units, units * 1j], 1).reshape(-1, points) if parts == 2 else units
    # of the half that they have, irfft ignores the imaginary part of the ends
    columns = transform(units)
    if np.iscomplexobj(columns):
        columns = np.stack([columns.real, columns.imag], -1)
    else:
        columns = columns[..., None]
    width = prod(columns.shape[1:])
    known = columns.reshape(len(units), width).astype(rows.dtype)
    matrix = call.tensor(Known(f"{call.node.name}.matrix", known, rows.dtype))
    product = call.main(topi.nn.matmul(rows, matrix))
    return reshape(product, (*lead, *columns.shape[1:]))


OPERATORS: Table = {
    "DFT": {17: dft_of_attribute, 20: dft},
    "STFT": since(stft, 17),
}
