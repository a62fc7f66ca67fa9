"""Lesson 12: train a small network on handwritten digits; sl.gradient writes the backward pass.

The forward pass is a few stages that end in the loss. Its gradients by the weights are stages, too:
they print, take schedules, and run in the same kernel. One call of that kernel is a whole training
step: the loss, its gradients, and the new weights. With the name of a new folder behind it, the
lesson writes the trained network there as a program of C, for this machine or for the triple that
follows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from lesson import digits

import schedlang as sl

PIXELS, HIDDEN, CLASSES, BATCH = 64, 48, 10, 50
RATE, EPOCHS = 0.2, 40
LANES = sl.Target().vector_width("float32")


def product(A: sl.Tensor, B: sl.Tensor, name: str) -> sl.Tensor:
    k = sl.reduce_axis(B.shape[0], name="k")
    shape = (A.shape[0], B.shape[1])
    return sl.compute(shape, lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name=name)


def network(batch: int = BATCH) -> dict[str, sl.Tensor]:
    """Declare two layers, softmax, and the mean cross entropy of a batch."""
    X = sl.placeholder((batch, PIXELS), name="X")
    label = sl.placeholder((batch,), "int64", name="label")
    W1, b1 = sl.placeholder((PIXELS, HIDDEN), name="W1"), sl.placeholder((HIDDEN,), name="b1")
    W2, b2 = sl.placeholder((HIDDEN, CLASSES), name="W2"), sl.placeholder((CLASSES,), name="b2")
    T = product(X, W1, "T")
    H = sl.compute((batch, HIDDEN), lambda i, j: sl.max(T[i, j] + b1[j], 0), name="H")
    U = product(H, W2, "U")
    Z = sl.compute((batch, CLASSES), lambda i, j: U[i, j] + b2[j], name="Z")
    c, d = sl.reduce_axis(CLASSES, name="c"), sl.reduce_axis(CLASSES, name="d")
    i = sl.reduce_axis(batch, name="i")
    top = sl.compute((batch,), lambda i: sl.max(Z[i, c], axis=c), name="top")
    total = sl.compute((batch,), lambda i: sl.sum(sl.exp(Z[i, d] - top[i]), axis=d), name="total")
    each = sl.compute(
        (batch,), lambda i: sl.log(total[i]) + top[i] - Z[i, label[i]], name="each"
    )
    loss = sl.compute((), lambda: sl.sum(each[i] / batch, axis=i), name="loss")
    return {t.name: t for t in (X, label, W1, b1, W2, b2, T, H, U, Z, top, loss)}


def training_step(net: dict[str, sl.Tensor]) -> sl.Schedule:
    """Schedule the loss and the weights after a step of gradient descent."""
    weights = [net[name] for name in ("W1", "b1", "W2", "b2")]
    # The largest score only keeps exp small and cancels in the loss, so we take it as a constant.
    gradients = sl.gradient(net["loss"], weights, rules={net["top"]: None})
    rate = sl.var("rate", "float32")

    def moved(w: sl.Tensor, by: sl.Tensor) -> sl.Tensor:
        return sl.compute(w.shape, lambda *at: w[at] - rate * by[at], name=f"{w.name}_new")

    s = sl.schedule([net["loss"], *(moved(w, by) for w, by in zip(weights, gradients))])
    # Products: the columns are the lanes of a vector, and the reduction goes outside of them.
    for stage in (net["T"], net["U"], gradients[0], gradients[2], "H_grad"):
        row, column = s[stage].op.axis
        s[stage].reorder(row, *s[stage].op.reduce_axis, column)
        _, lane = s[stage].split(column, factor=LANES)
        s[stage].vectorize(lane)
    return s


def answers(net: dict[str, sl.Tensor]) -> sl.Tensor:
    """Declare the digits that the network sees in a batch."""
    c = sl.reduce_axis(CLASSES, name="c")
    Z = net["Z"]
    return sl.compute((Z.shape[0],), lambda i: sl.argmax(Z[i, c], axis=c), name="digit")


def program(weights: list[np.ndarray], folder: str, triple: str = "") -> None:
    """Write a program of C to a new folder, which sees the digit in one picture after the other."""
    net = network(batch=1)
    params = {net[name]: w for name, w in zip(("W1", "b1", "W2", "b2"), weights)}
    target = sl.Target("c", triple=triple)
    sl.network(answers(net), params, name="digits", target=target).save(folder, target="c")
    print(f"A program of C is in {folder}. Build and run it there:")
    print("  make && ./digits digits.weights PICTURES -")


def by_hand(x: np.ndarray, y: np.ndarray, weights: list[np.ndarray]) -> list[np.ndarray]:
    """Return the gradients as one writes them in NumPy."""
    w1, b1, w2, b2 = weights
    h = np.maximum(x @ w1 + b1, 0)
    z = h @ w2 + b2
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    back = (p @ w2.T) * (h > 0)
    return [x.T @ back, back.sum(0), h.T @ p, p.sum(0)]


def main() -> None:
    x, y, unseen, truth = digits()
    net = network()
    s = training_step(net)
    print(f"{s}\n")
    step, digit = sl.build(s), sl.build(sl.schedule(answers(net)))

    rng = np.random.default_rng(1)
    shapes = (PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)
    weights = [rng.normal(0, 0.2 * (len(n) == 2), n).astype(np.float32) for n in shapes]

    def trained(x: Any, y: Any, weights: Any, rate: float) -> Any:
        w1, b1, w2, b2 = weights
        return step(X=x, label=y, W1=w1, b1=b1, W2=w2, b2=b2, rate=rate)

    _, *after = trained(x[:BATCH], y[:BATCH], weights, 1.0)
    for w, new, by in zip(weights, after, by_hand(x[:BATCH], y[:BATCH], weights)):
        np.testing.assert_allclose(w - new, by, rtol=1e-3, atol=1e-5)
    print("One step gives the gradients that one writes by hand.")

    first = last = 0.0
    for epoch in range(EPOCHS):
        losses = []
        for part in rng.permutation(len(y)).reshape(-1, BATCH):
            loss, *weights = trained(x[part], y[part], weights, RATE)
            losses.append(float(loss))
        last = float(np.mean(losses))
        first = first or last
        if epoch % 10 == 9 or epoch == 0:
            print(f"epoch {epoch + 1:>2}: loss {last:.3f}")
    assert last < first / 10

    w1, b1, w2, b2 = weights
    right = 0
    for at in range(0, len(truth), BATCH):
        part = np.zeros((BATCH, PIXELS), np.float32)
        rows = unseen[at : at + BATCH]
        part[: len(rows)] = rows
        labels = digit(X=part, W1=w1, b1=b1, W2=w2, b2=b2)
        right += int((labels[: len(rows)] == truth[at : at + BATCH]).sum())
    accuracy = right / len(truth)
    print(f"{accuracy:.1%} of {len(truth)} digits that it never saw are right.")
    assert accuracy > 0.95
    if len(sys.argv) > 1:
        program(weights, *sys.argv[1:])


if __name__ == "__main__":
    main()

# Exercise: add momentum. Keep a velocity for each weight as another input and output of the step.
# How many more stages does the kernel have?
