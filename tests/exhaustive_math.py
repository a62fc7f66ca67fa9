"""The largest error of each float32 function that is a polynomial, over all float32 values.

    python -m tests.exhaustive_math [--stride N] [function ...]

Each function is compared with float64 at all 2**32 bit patterns, or at every N-th.  Errors are in
units in the last place (ulps) of the true result, where infinity counts as 2**128.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from schedlang.expr.functions import FUNCTIONS
from schedlang.intrinsics import cpu as intrinsics
from schedlang.intrinsics.cpu import int32, vload, vstore
from schedlang.intrinsics.cpu.vmath import float32_from_bits

CHUNK, LANES = 1 << 20, 16
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}


@numba.njit(**OPTIONS)
def true_sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x)) in float64."""
    return 1.0 / (1.0 + math.exp(-x))


# in float64, by name: of Python's math if it has the function
TRUE: dict[str, Any] = {
    **{f.called: getattr(math, f.library) for f in FUNCTIONS.values() if f.own_cpu and f.library},
    "sigmoid": true_sigmoid,
}


@numba.njit(**OPTIONS)
def error_in_ulps(got: float, true: float) -> float:
    """Return ``|got - true|`` in ulps of ``true`` as a float32."""
    if math.isnan(true) or math.isnan(got):
        return 0.0 if math.isnan(true) and math.isnan(got) else math.inf
    if math.isinf(got):
        got = math.copysign(2.0**128, got)
    true = min(max(true, -(2.0**128)), 2.0**128)
    exponent = max(math.frexp(true)[1] - 24, -149) if true != 0.0 else -149
    return abs(got - true) / 2.0**exponent


def sweeper(name: str, vectors: bool = False) -> Callable[[int], tuple[float, float]]:
    """Return a function that takes a stride and returns the largest error and its argument.

    The function is applied to single elements, or to ``vectors`` of 16, for which processors with
    AVX-512 have instructions of their own.
    """
    function, true = getattr(intrinsics, name), TRUE[name]

    @numba.njit(parallel=True, **OPTIONS)
    def sweep(stride: int, worst: np.ndarray, where: np.ndarray) -> None:
        for chunk in numba.prange(worst.size):
            got = np.empty(CHUNK, np.float32)
            first = (chunk * CHUNK * stride) - 2**31
            for i in range(CHUNK):
                x = float32_from_bits(int32(first + i * stride))
                got[i] = x if vectors else function(x)
            if vectors:
                for i in range(0, CHUNK, LANES):
                    vstore(got, i, function(vload(got, i, LANES)))
            for i in range(CHUNK):
                bits = first + i * stride
                if bits < 2**31:
                    x = float32_from_bits(int32(bits))
                    error = error_in_ulps(np.float64(got[i]), true(np.float64(x)))
                    if error > worst[chunk]:
                        worst[chunk] = error
                        where[chunk] = x

    def run(stride: int) -> tuple[float, float]:
        chunks = -(-(2**32) // (CHUNK * stride))
        worst, where = np.zeros(chunks), np.zeros(chunks, np.float32)
        sweep(stride, worst, where)
        return float(worst.max()), float(where[worst.argmax()])

    return run


def main() -> None:
    """Print two lines for each function."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("functions", nargs="*", default=list(TRUE))
    options = parser.parse_args()
    for name in options.functions:
        for form in ("elements", "vectors"):
            start = time.perf_counter()
            worst, where = sweeper(name, form == "vectors")(options.stride)
            seconds = time.perf_counter() - start
            print(f"{name:8s} {form} {worst:.4f} ulp at {where!r} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
