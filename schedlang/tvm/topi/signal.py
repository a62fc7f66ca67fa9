"""Discrete Fourier transforms of signals, as products with tables of cosines and sines."""

from __future__ import annotations

import math
from typing import Any

from schedlang.compute import reduce
from schedlang.compute.math import cos, sin
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import cast, select
from schedlang.tvm.topi.checks import check_numbers, check_same, check_shape, check_whole
from schedlang.tvm.topi.rules import floats, operator
from schedlang.tvm.topi.stages import compute


@operator(re_data=floats(), im_data=floats())
def dft(re_data: Any, im_data: Any, inverse: Any) -> list[Tensor]:
    """Return the discrete Fourier transform along the last axis: its real and imaginary parts.

    ``re_data`` and ``im_data`` have one shape ``[..., n]``, with a known ``n``, and one dtype.
    ``inverse`` transforms back, and divides by ``n``. An element is a sum of ``n`` products.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((2, 8), name="A"), sl.placeholder((2, 8), name="B")
    >>> dft(A, B, False)
    [Tensor(re: float32[2, 8]), Tensor(im: float32[2, 8])]
    """
    asked = "topi.dft"
    if not re_data.ndim:
        raise ComputeError(f"{asked}: re_data {re_data.name} has no axis to transform")
    check_shape(asked, im_data, "im_data", re_data.shape)
    n = check_whole(asked, re_data.shape[-1], "the last extent of re_data")
    kind, back = re_data.dtype, bool(getattr(inverse, "value", inverse))
    cosines, sines = _tables(n, n, n, kind)
    scale = 1 / n if back and n else 1.0

    def part(word: str, first: Tensor, second: Tensor, sign: int) -> Tensor:
        def element(*at: Axis) -> Any:
            k = reduce_axis(n, "k")
            index = (*at[:-1], k)
            a, b = first.element(index), cast(second.element(index), kind)
            products = a * cosines[at[-1], k], b * sines[at[-1], k]
            return reduce.sum(products[0] + products[1] * sign, k)

        sums = compute(f"{word}_sum" if back else word, re_data.shape, element)
        if not back:
            return sums
        return compute(word, sums.shape, lambda *at: sums.element(at) * scale)

    # forward, (a + ib)(cos - i sin) = (a cos + b sin) + i(b cos - a sin)
    sign = -1 if back else 1
    return [part("re", re_data, im_data, sign), part("im", im_data, re_data, -sign)]


@operator(window=floats("win_length"), data=floats())
def stft(
    data: Any, n_fft: int, hop_length: int, win_length: int, window: Any, normalized: Any,
    onesided: Any, output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """Return the Fourier transforms of windows of a signal: ``[batch, frequencies, frames, 2]``.

    ``data`` is ``[batch, n]``, and a window begins every ``hop_length`` elements, the last axis of
    the result has the real and the imaginary part. ``onesided`` keeps ``n_fft // 2 + 1``
    frequencies, ``normalized`` divides by the root of ``n_fft``. ``output_shape`` may say the shape
    again.

    >>> import schedlang as sl
    >>> A, w = sl.placeholder((2, 20), name="A"), sl.placeholder((8,), name="w")
    >>> stft(A, 8, 4, 8, w, False, True)
    Tensor(stft: float32[2, 5, 4, 2])
    """
    asked = "topi.stft"
    if data.ndim != 2:
        raise ComputeError(
            f"{asked}: data {data.name} has {data.ndim} dimensions; give 2, batch and time"
        )
    points, hop, length = (
        check_numbers(asked, value, what, (1,), 1)[0]
        for value, what in (
            (n_fft, "n_fft"),
            (hop_length, "hop_length"),
            (win_length, "win_length"),
        )
    )
    check_same(asked, window.shape[0], "the length of window", length, "win_length")
    time = check_whole(asked, data.shape[1], "the length of data")
    if time < points or points < length:
        raise ComputeError(
            f"{asked}: win_length={length}, n_fft={points} and the {time} elements of {data.name} "
            "must ascend"
        )
    frequencies = points // 2 + 1 if onesided else points
    shape = (data.shape[0], frequencies, (time - points) // hop + 1, 2)
    if output_shape is not None and tuple(output_shape) != shape:
        raise ComputeError(
            f"{asked}: output_shape={tuple(output_shape)}, but the result is {shape}"
        )
    cosines, sines = _tables(frequencies, length, length, data.dtype)
    scale = 1 / math.sqrt(points) if normalized else 1.0

    def element(b: Axis, f: Axis, t: Axis, part: Axis) -> Any:
        k = reduce_axis(length, "k")
        value = data[b, t * hop + k] * cast(window[k], data.dtype) * scale
        return reduce.sum(value * select(part < 1, cosines[f, k], -sines[f, k]), k)

    return compute("stft", shape, element)


def _tables(rows: int, columns: int, period: int, dtype: str) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of ``2 pi j k / period``, reduced to one turn first."""

    def table(word: str, function: Any) -> Tensor:
        def value(j: Axis, k: Axis) -> Expr:
            # a product of integers has no rounding error, also where it is many turns
            turn = cast((j * k) % period, "float64") * (2 * math.pi / period)
            return cast(function(turn), dtype)

        result: Tensor = compute(word, (rows, columns), value)
        return result

    return table("cosines", cos), table("sines", sin)


__all__ = ["dft", "stft"]
