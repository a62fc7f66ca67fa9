"""Matrix products, and layers made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.works.work import Work

# the tolerance per term of a dot product; float32 sums in any order stay well below it
DRIFT = 2e-7


def sgemm(m: int, n: int, k: int) -> Work:
    name = f"sgemm {m}^3" if m == n == k else f"sgemm {m}x{n}x{k}"
    return Work(
        name, "sgemm", {"m": m, "n": n, "k": k}, {"a": (m, k), "b": (k, n)}, {"c": (m, n)},
        lambda a, b: a @ b, "fma", flops=2.0 * m * n * k, atol=DRIFT * k,
    )  # fmt: skip


def gemv(n: int, k: int) -> Work:
    return Work(
        f"gemv {n}x{k}", "gemv", {"n": n, "k": k}, {"a": (n, k), "x": (k,)}, {"y": (n,)},
        lambda a, x: a @ x, "copy", flops=2.0 * n * k, atol=DRIFT * k,
    )  # fmt: skip


def batched(count: int, m: int, n: int, k: int) -> Work:
    return Work(
        f"batched {count}x({m}x{k}x{n})", "batched", {"count": count, "m": m, "n": n, "k": k},
        {"a": (count, m, k), "b": (count, k, n)}, {"c": (count, m, n)},
        lambda a, b: a @ b, "fma", flops=2.0 * count * m * n * k, atol=DRIFT * k,
    )  # fmt: skip


def lstm_cell(batch: int, hidden: int) -> Work:
    """Return one step of an LSTM, with gates input, forget, cell, output.

    The input is as wide as the state.
    """

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    def oracle(x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any) -> tuple[Any, Any]:
        i, f, g, o = np.split(x @ w_x.T + h @ w_h.T + bias, 4, axis=1)
        c_next = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c_next), c_next

    state = (batch, hidden)
    return Work(
        f"LSTM cell {batch}x{hidden}", "lstm_cell", {"batch": batch, "hidden": hidden},
        {"x": state, "h": state, "c": state, "w_x": (4 * hidden, hidden),
         "w_h": (4 * hidden, hidden), "bias": (4 * hidden,)},
        {"h_next": state, "c_next": state}, oracle, "fma",
        flops=2.0 * batch * 4 * hidden * 2 * hidden, low=-0.1, high=0.1,
    )  # fmt: skip


def attention(heads: int, length: int, width: int) -> Work:
    def oracle(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(width)
        e = np.exp(scores - scores.max(axis=2, keepdims=True))
        return e / e.sum(axis=2, keepdims=True) @ v

    shape = (heads, length, width)
    return Work(
        f"attention {heads}x{length}x{width}", "attention",
        {"heads": heads, "length": length, "width": width},
        {"q": shape, "k": shape, "v": shape}, {"out": shape}, oracle, "fma",
        flops=4.0 * heads * length * length * width, low=-2.0, high=2.0,
    )  # fmt: skip


WORKS = (
    *(sgemm(n, n, n) for n in (512, 1024, 2048)),
    sgemm(1000, 1003, 997),
    sgemm(3136, 64, 576),
    gemv(4096, 4096),
    batched(64, 128, 128, 64),
)
LAYERS = (lstm_cell(64, 512), attention(8, 512, 64))
