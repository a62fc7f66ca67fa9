"""Lesson 7: handwritten digits, classified by a small network whose layers are one kernel.

Plain NumPy trains 64-32-10 on scikit-learn's digits. The kernel then runs both layers and picks
the largest score; its batch is a symbolic size, so that one kernel serves one digit or a thousand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lesson import milliseconds

import schedlang as sl
from schedlang.errors import missing_extra

PIXELS, HIDDEN, CLASSES = 64, 32, 10


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures and labels to train on, and to test with."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise SystemExit(missing_extra("scikit-learn", "examples", "This lesson")) from None
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


def train(x: np.ndarray, y: np.ndarray, epochs: int = 60) -> list[np.ndarray]:
    """Weights and biases of two layers, by gradient descent on the cross entropy."""
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
    # a picture at a time, its layers in order; hidden units are the lanes of one vector
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

    found, expected = by_name(unseen), with_numpy(unseen, weights)
    np.testing.assert_array_equal(found, expected)
    accuracy = float((found == truth).mean())
    assert accuracy > 0.93
    print(f"{len(truth)} digits never seen in training: {accuracy:.1%} right, as with NumPy")
    for k in (0, 1):
        print("\n".join("".join(" .:+*#@"[int(v * 6.99)] * 2 for v in r)
                        for r in unseen[k].reshape(8, 8)), f"\n    is a {found[k]}")  # fmt: skip
    assert by_name(np.ascontiguousarray(unseen[:1]))[0] == expected[0]
    # so small a network times the call: checks, and threads to wake whatever there is to do;
    # NumPy's few library calls are faster for one digit, and on a few cores for all of these
    for count in (1, 32, len(truth)):
        part = np.ascontiguousarray(unseen[:count])
        ours, numpys = milliseconds(by_name, part), milliseconds(with_numpy, part, weights)
        print(f"{count:>4} digits: {ours * 1e3:8.1f} µs, NumPy {numpys * 1e3:8.1f} µs")


if __name__ == "__main__":
    main()

# Exercise: several pictures at a time use each weight they load more than once. Split i by 4, move
# the inner loop inside the reduction, and unroll it.
