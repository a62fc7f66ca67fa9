"""Lesson 6: schedule softmax and layer normalization, whose rows need several reductions.

Each reduction is a stage. compute_at computes all stages of a row together. A reduction axis
cannot be vectorized, so rfactor splits each reduction into partial results, one for each lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import milliseconds

import schedlang as sl

ROWS, N = 2048, 768
LANES = sl.Target().vector_width("float32")


def partial(s: sl.Schedule, tensor: Any, row: Any, out: Any) -> None:
    """Reduce each row to LANES partial results in a vector, then reduce those to one."""
    # rfactor makes a stage of partial results with ki as a data axis, which can be vectorized.
    _, ki = s[tensor].split(s[tensor].op.reduce_axis[0], factor=LANES)
    lanes = s.rfactor(tensor, ki)
    # Compute both stages for each row of the output.
    s[tensor].compute_at(s[out], row)
    s[lanes].compute_at(s[out], row)
    lane, *rest = s[lanes].op.axis
    s[lanes].reorder(*rest, s[lanes].op.reduce_axis[0], lane)
    s[lanes].vectorize(lane)


def in_lanes(s: sl.Schedule, tensor: Any) -> None:
    _, lane = s[tensor].split(s[tensor].op.axis[1], factor=LANES)
    s[tensor].vectorize(lane)


def softmax() -> tuple[sl.Schedule, sl.Schedule]:
    X = sl.placeholder((ROWS, N), name="X")
    k, m = sl.reduce_axis(N, name="k"), sl.reduce_axis(N, name="m")
    # Subtract the row's maximum first, so that exp cannot overflow.
    top = sl.compute((ROWS,), lambda i: sl.max(X[i, k], axis=k), name="top")
    e = sl.compute((ROWS, N), lambda i, j: sl.exp(X[i, j] - top[i]), name="e")
    total = sl.compute((ROWS,), lambda i: sl.sum(e[i, m], axis=m), name="total")
    Y = sl.compute((ROWS, N), lambda i, j: e[i, j] / total[i], name="softmax")

    s = sl.schedule(Y)
    (row, _) = s[Y].op.axis
    partial(s, total, row, Y)
    s[e].compute_at(s[Y], row)
    partial(s, top, row, Y)
    in_lanes(s, e)
    in_lanes(s, Y)
    s[Y].parallel(row)
    return sl.schedule(Y), s


def layer_norm() -> tuple[sl.Schedule, sl.Schedule]:
    X = sl.placeholder((ROWS, N), name="X")
    gain, bias = sl.placeholder((N,), name="gain"), sl.placeholder((N,), name="bias")
    k, m = sl.reduce_axis(N, name="k"), sl.reduce_axis(N, name="m")
    total = sl.compute((ROWS,), lambda i: sl.sum(X[i, k], axis=k), name="total")
    d = sl.compute((ROWS, N), lambda i, j: X[i, j] - total[i] / N, name="d")
    squares = sl.compute((ROWS,), lambda i: sl.sum(d[i, m] * d[i, m], axis=m), name="squares")
    scale = sl.compute((ROWS,), lambda i: sl.rsqrt(squares[i] / N + 1e-5), name="scale")
    Y = sl.compute(
        (ROWS, N), lambda i, j: d[i, j] * scale[i] * gain[j] + bias[j], name="layer_norm"
    )

    s = sl.schedule(Y)
    (row, _) = s[Y].op.axis
    s[d].compute_inline()
    s[scale].compute_at(s[Y], row)
    partial(s, squares, row, Y)
    partial(s, total, row, Y)
    in_lanes(s, Y)
    s[Y].parallel(row)
    return sl.schedule(Y), s


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def numpy_layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * gain + bias


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(3, 5, (ROWS, N)).astype(np.float32)
    gain, bias = rng.normal(1, 0.1, (2, N)).astype(np.float32)
    for schedules, by_numpy, args in (
        (softmax(), numpy_softmax, (x,)),
        (layer_norm(), numpy_layer_norm, (x, gain, bias)),
    ):
        expected, out = by_numpy(*args), np.empty_like(x)
        for title, s in zip(("default schedule", "scheduled"), schedules):
            f = sl.build(s)
            print(f"\n{f.name}, {title}\n\n{s}\n")
            np.testing.assert_allclose(f(*args, out), expected, rtol=1e-4, atol=1e-5)
            print(f"{f.name}, {title}: {milliseconds(f, *args, out):.2f} ms")
        print(f"{f.name}, NumPy: {milliseconds(by_numpy, *args):.2f} ms")


if __name__ == "__main__":
    main()

# Exercise: inline e instead. Each element is then computed twice, for the sum and for the quotient,
# but never stored. Which is faster with exp? Which is faster with a cheap function?
