"""Lesson 13: get a good schedule at once, read where it comes from, and go on from there.

A search measures hundreds of schedules. sl.autoschedule measures none: it takes a schedule of the
tuning databases, or lets the cost model decide. Read its steps, then improve them by hand.
"""

from __future__ import annotations

import numpy as np
from lesson import milliseconds

import schedlang as sl

ROWS, N, K = 1000, 200, 300


def dense() -> list[sl.Tensor]:
    """Return a dense layer with a bias and a relu: the inputs, then the result."""
    X, W = sl.placeholder((ROWS, K), name="X"), sl.placeholder((K, N), name="W")
    b = sl.placeholder((N,), name="b")
    k = sl.reduce_axis(K, name="k")
    P = sl.compute((ROWS, N), lambda i, j: sl.sum(X[i, k] * W[k, j], axis=k), name="P")
    Y = sl.compute((ROWS, N), lambda i, j: sl.max(P[i, j] + b[j], 0), name="Y")
    return [X, W, b, Y]


def main() -> None:
    tensors = dense()
    Y = tensors[-1]
    chosen = sl.autoschedule.choose(Y)
    print(f"from: {chosen.origin} {chosen.note}")
    s = chosen.schedule
    print(s)
    print(s.as_python())

    rng = np.random.default_rng(0)
    arrays = [rng.random(t.shape, dtype="float32") for t in tensors[:-1]]
    x, w, b = arrays
    want = np.maximum(x @ w + b, 0)
    plain, fast = (sl.build(schedule, tensors) for schedule in (sl.schedule(Y), s))
    for kernel in (plain, fast):
        np.testing.assert_allclose(kernel(*arrays), want, rtol=1e-4)
    for name, kernel in (("no schedule", plain), ("autoschedule", fast)):
        print(f"{name:14} {milliseconds(kernel, *arrays):8.3f} ms")

    # The same call schedules for another processor, or for a GPU that is not here.
    for target in (sl.Target("cpu", vector_bytes=16), sl.Target("cuda")):
        other = sl.autoschedule(Y, target)
        print(f"{target.kind}, {target.vector_bytes} bytes a vector: {len(other.steps)} steps")


if __name__ == "__main__":
    main()

# Exercise: search with sl.autotune(Y, trials=16), and call choose again. Where does the schedule
# come from now? Change ROWS to 1500: what does choose say, and which knobs did it keep?
