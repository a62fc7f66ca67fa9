"""The seven families of operators that networks are made of, at sizes that networks have.

Rows of ``benchmarks/cpu.py`` stand beside those that only this table has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erf, sqrt
from typing import Any

import numpy as np

from benchmarks.works import convolution, linear, memory
from benchmarks.works.convolution import windows
from benchmarks.works.linear import DRIFT
from benchmarks.works.work import Shape, Work

_erf = np.frompyfunc(erf, 1, 1)


def sigmoid(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


def elements(title: str, kind: str, inputs: Mapping[str, Shape], oracle: Any) -> Work:
    """Return a function of single elements; the first input has the shape of the result."""
    shape = next(iter(inputs.values()))
    return Work(f"{title} {_by(shape)}", kind, {}, inputs, {"y": shape}, oracle, "copy")


def add(*shape: int) -> Work:
    return elements("add", "add", {"a": shape, "b": shape}, lambda a, b: a + b)


def bias_relu(*shape: int) -> Work:
    """Return ``relu(x + b)`` with a number ``b`` for each channel."""
    return elements(
        "bias and relu", "bias_relu", {"x": shape, "b": (shape[1],)},
        lambda x, b: np.maximum(x + b[:, None, None], 0),
    )  # fmt: skip


def activation(kind: str, *shape: int) -> Work:
    return elements(kind, kind, {"x": shape}, ACTIVATIONS[kind])


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: sigmoid(x),
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / sqrt(2)).astype("float64")),
}


def dense(rows: int, inputs: int, outputs: int) -> Work:
    """Return a linear layer, whose weights are ``[outputs, inputs]``, with its bias."""
    return Work(
        f"dense {rows}x{inputs}>{outputs}", "dense",
        {"rows": rows, "inputs": inputs, "outputs": outputs},
        {"x": (rows, inputs), "w": (outputs, inputs), "b": (outputs,)}, {"y": (rows, outputs)},
        lambda x, w, b: x @ w.T + b, "fma", flops=2.0 * rows * inputs * outputs,
        atol=DRIFT * inputs,
    )  # fmt: skip


def average_pool(size: int, channels: int, k: int, batch: int = 1) -> Work:
    """Return means over windows of ``k`` by ``k`` that lie side by side."""
    shape = (batch, channels, size, size)
    return Work(
        f"average pool {k}x{k}/{k} {_by(shape)}", "average_pool", {"k": k}, {"x": shape},
        {"y": (batch, channels, size // k, size // k)},
        lambda x: np.stack([windows(image, k, k, 0).mean(axis=(3, 4)) for image in x]), "copy",
    )  # fmt: skip


def global_pool(size: int, channels: int, batch: int) -> Work:
    """Return the mean of each channel: a network's last pooling."""
    shape = (batch, channels, size, size)
    return Work(
        f"global average pool {_by(shape)}", "global_pool", {}, {"x": shape},
        {"y": (batch, channels, 1, 1)}, lambda x: x.mean(axis=(2, 3), keepdims=True), "copy",
    )  # fmt: skip


def lstm(steps: int, batch: int, hidden: int) -> Work:
    """Return an LSTM over a sequence, with gates input, forget, cell, output and two biases."""

    def oracle(x: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
        h = c = np.zeros((batch, hidden))
        states = []
        for given in x:
            i, f, g, o = np.split(given @ w_x.T + h @ w_h.T + b_x + b_h, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        return np.stack(states)

    return _recurrent("LSTM", 4, steps, batch, hidden, oracle)


def gru(steps: int, batch: int, hidden: int) -> Work:
    """Return a GRU over a sequence, with gates reset, update, new and two biases, as PyTorch's."""

    def oracle(x: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
        h = np.zeros((batch, hidden))
        states = []
        for given in x:
            by_input = np.split(given @ w_x.T + b_x, 3, axis=1)
            by_state = np.split(h @ w_h.T + b_h, 3, axis=1)
            r, z = (sigmoid(a + b) for a, b in zip(by_input[:2], by_state))
            h = (1 - z) * np.tanh(by_input[2] + r * by_state[2]) + z * h
            states.append(h)
        return np.stack(states)

    return _recurrent("GRU", 3, steps, batch, hidden, oracle)


def _recurrent(title: str, gates: int, steps: int, batch: int, hidden: int, oracle: Any) -> Work:
    states = (steps, batch, hidden)
    weights, bias = (gates * hidden, hidden), (gates * hidden,)
    return Work(
        f"{title} {steps} steps of {batch}x{hidden}", f"{title.lower()}_sequence",
        {"steps": steps, "batch": batch, "hidden": hidden},
        {"x": states, "w_x": weights, "w_h": weights, "b_x": bias, "b_h": bias}, {"y": states},
        oracle, "fma", flops=2.0 * steps * batch * gates * hidden * 2 * hidden,
        low=-0.1, high=0.1,
    )  # fmt: skip


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _named(works: Sequence[Work], *starts: str) -> tuple[Work, ...]:
    """Return, for each start of a name, the work that has it."""
    return tuple(next(w for w in works if w.name.startswith(f"{start} ")) for start in starts)


OPERATORS: dict[str, tuple[Work, ...]] = {
    "element-wise": (
        add(4096, 4096), bias_relu(8, 256, 56, 56), memory.chain(16 << 20),
        memory.transpose(4096),
    ),
    "matrix": (
        linear.sgemm(1024, 1024, 1024), linear.sgemm(3136, 64, 576), linear.gemv(4096, 4096),
        linear.batched(64, 128, 128, 64), dense(128, 768, 3072), dense(1, 2048, 1000),
    ),
    "convolution": _named(
        convolution.WORKS, "conv C1", "conv C2", "conv C5", "conv C9", "conv C12", "depthwise D3",
        "depthwise D7",
    ),
    "reduction": (
        memory.row_sum(4096, 4096), memory.column_sum(4096, 4096), memory.layer_norm(4096, 1024),
    ),
    "activation": (
        activation("relu", 8, 64, 112, 112), activation("sigmoid", 1024, 4096),
        activation("silu", 8, 96, 112, 112), activation("gelu", 1024, 3072),
        memory.softmax(4096, 1024),
    ),
    "pooling": (
        convolution.max_pool(112, 64), average_pool(56, 128, 2), global_pool(7, 2048, 8),
    ),
    "recurrent": (lstm(64, 1, 512), lstm(50, 16, 256), gru(64, 1, 512), gru(50, 16, 256)),
}  # fmt: skip


__all__ = [
    "OPERATORS", "activation", "add", "average_pool", "bias_relu", "dense", "global_pool", "gru",
    "lstm",
]  # fmt: skip
