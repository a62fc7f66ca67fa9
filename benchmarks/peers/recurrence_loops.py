"""The loops that a numba user writes for recurrences, on one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from benchmarks.works.recurrences import FACTOR

ZERO, ONE = np.float32(0), np.float32(1)


@njit
def filter_1(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 0]
        for t in range(1, x.shape[1]):
            y[i, t] = y[i, t - 1] * FACTOR + x[i, t]


@njit
def filter_1_backward(x: Any, y: Any) -> None:
    n = x.shape[1]
    for i in range(x.shape[0]):
        y[i, n - 1] = x[i, n - 1]
        for t in range(n - 2, -1, -1):
            y[i, t] = y[i, t + 1] * FACTOR + x[i, t]


@njit
def filter_0(x: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        y[0, i] = x[0, i]
    for t in range(1, x.shape[0]):
        for i in range(x.shape[1]):
            y[t, i] = y[t - 1, i] * FACTOR + x[t, i]


@njit
def filter_0_backward(x: Any, y: Any) -> None:
    n = x.shape[0]
    for i in range(x.shape[1]):
        y[n - 1, i] = x[n - 1, i]
    for t in range(n - 2, -1, -1):
        for i in range(x.shape[1]):
            y[t, i] = y[t + 1, i] * FACTOR + x[t, i]


@njit
def sums_1(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        total = ZERO
        for t in range(x.shape[1]):
            total += x[i, t]
            y[i, t] = total


@njit
def sums_0(x: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        y[0, i] = x[0, i]
    for t in range(1, x.shape[0]):
        for i in range(x.shape[1]):
            y[t, i] = y[t - 1, i] + x[t, i]


@njit
def sigmoid(a: Any) -> Any:
    return ONE / (ONE + np.exp(-a))


@njit(fastmath=True)
def lstm(x: Any, w: Any, y: Any) -> None:
    hidden = w.shape[1]
    gates = np.empty(4 * hidden, np.float32)
    for b in range(x.shape[1]):
        h, c = np.zeros(hidden, np.float32), np.zeros(hidden, np.float32)
        for t in range(x.shape[0]):
            for j in range(4 * hidden):
                total = x[t, b, j]
                for k in range(hidden):
                    total += h[k] * w[j, k]
                gates[j] = total
            for j in range(hidden):
                new = sigmoid(gates[hidden + j]) * np.tanh(gates[2 * hidden + j])
                c[j] = sigmoid(gates[j]) * c[j] + new
                h[j] = sigmoid(gates[3 * hidden + j]) * np.tanh(c[j])
                y[t, b, j] = h[j]
