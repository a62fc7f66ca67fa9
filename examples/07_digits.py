"""Lesson 7: classify handwritten digits with a small network, compiled into one kernel.

NumPy trains a 64-32-10 network on scikit-learn's digits. Our kernel computes both layers and the
digit with the largest score. The batch size is symbolic: one kernel takes any number of digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import digits, milliseconds

import schedlang as sl

PIXELS, HIDDEN, CLASSES = 64, 32, 10


def train(x: np.ndarray, y: np.ndarray, epochs: int = 60) -> list[np.ndarray]:
    """Train by gradient descent on the cross entropy. Return both layers' weights and biases."""
    rng = np.random.default_rng(1)
    w1 = rng.normal(0, 0.2, (PIXELS, HIDDEN)).astype(np.float32)
    w2 = rng.normal(0, 0.2, (HIDDEN, CLASSES)).astype(np.float32)
    b1, b2 = np.zeros(HIDDEN, np.float32), np.zeros(CLASSES, np.float32)
    for _ in range(epochs):
        for part in np.array_split(rng.permutation(len(y)), len(y) // 32):
            h = np.maximum(x[part] @ w1 + b1, 0)
            z = h @ w2 + b2
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(part)), y[part]] -= 1
            p *= np.float32(0.2 / len(part))
            back = (p @ w2.T) * (h > 0)
            w2 -= h.T @ p
            b2 -= p.sum(axis=0)
            w1 -= x[part].T @ back
            b1 -= back.sum(axis=0)
    return [w1, b1, w2, b2]


def network() -> sl.Schedule:
    n = sl.var("n")
    X = sl.placeholder((n, PIXELS), name="X")
    W1, b1 = sl.placeholder((PIXELS, HIDDEN), name="W1"), sl.placeholder((HIDDEN,), name="b1")
    W2, b2 = sl.placeholder((HIDDEN, CLASSES), name="W2"), sl.placeholder((CLASSES,), name="b2")
    k, h = sl.reduce_axis(PIXELS, name="k"), sl.reduce_axis(HIDDEN, name="h")
    c = sl.reduce_axis(CLASSES, name="c")
    T = sl.compute((n, HIDDEN), lambda i, j: sl.sum(X[i, k] * W1[k, j], axis=k), name="T")
    H = sl.compute((n, HIDDEN), lambda i, j: sl.max(T[i, j] + b1[j], 0), name="H")
    U = sl.compute((n, CLASSES), lambda i, j: sl.sum(H[i, h] * W2[h, j], axis=h), name="U")
    Z = sl.compute((n, CLASSES), lambda i, j: U[i, j] + b2[j], name="Z")
    digit = sl.compute((n,), lambda i: sl.argmax(Z[i, c], axis=c), name="digit")

    s = sl.schedule(digit)
    (i,) = s[digit].op.axis
    for stage in (Z, H):
        s[stage].compute_inline()
    # Compute both layers for one picture at a time, with a layer's units as the lanes of a vector.
    for stage in (U, T):
        s[stage].compute_at(s[digit], i)
        s[stage].reorder(s[stage].op.reduce_axis[0], *s[stage].op.axis)
        s[stage].vectorize(s[stage].op.axis[1])
    s[digit].parallel(i)
    return s


def with_numpy(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    w1, b1, w2, b2 = weights
    return np.argmax(np.maximum(x @ w1 + b1, 0) @ w2 + b2, axis=1)


def main() -> None:
    x, y, unseen, truth = digits()
    weights = train(x, y)
    s = network()
    print(f"{s}\n")
    f = sl.build(s)
    w1, b1, w2, b2 = weights

    def by_name(pictures: np.ndarray) -> Any:
        return f(X=pictures, W1=w1, b1=b1, W2=w2, b2=b2)

    labels, expected = by_name(unseen), with_numpy(unseen, weights)
    np.testing.assert_array_equal(labels, expected)
    accuracy = float((labels == truth).mean())
    assert accuracy > 0.93
    print(f"{accuracy:.1%} of {len(truth)} test digits are right. NumPy gives the same answers.")
    for k in (0, 1):
        print("\n".join("".join(" .:+*#@"[int(v * 6.99)] * 2 for v in r)
                        for r in unseen[k].reshape(8, 8)), f"\n    is a {labels[k]}")  # fmt: skip
    assert by_name(np.ascontiguousarray(unseen[:1]))[0] == expected[0]
    # For so small a network the call costs the most: it checks arguments and wakes threads. NumPy's
    # few library calls are faster for one digit, and with few cores for each of these batches.
    for count in (1, 32, len(truth)):
        part = np.ascontiguousarray(unseen[:count])
        ours, numpys = milliseconds(by_name, part), milliseconds(with_numpy, part, weights)
        print(f"{count:>4} at a time: {ours * 1e3:8.1f} µs, NumPy {numpys * 1e3:8.1f} µs")


if __name__ == "__main__":
    main()

# Exercise: compute four pictures at a time, so that each weight is loaded once for all four. Split
# i by 4, move the inner loop inside the reduction, and unroll it.
