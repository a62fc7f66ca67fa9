"""Recurrences that are independent for each row: filters, cumulative sums, an LSTM over a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import schedlang as sl

Arrays = tuple["np.ndarray[Any, Any]", ...]
FACTOR = np.float32(0.9)
STEPS, BATCH, HIDDEN = 64, 32, 64


@dataclass(frozen=True)
class Recurrence:
    """A recurrence: its name, its result, its arrays, NumPy's result, and the name of its loops."""

    name: str
    result: Callable[[], sl.Tensor]
    arrays: Callable[[], Arrays]
    expected: Callable[..., Any]
    loops: str


def recurrences(size: int) -> Iterator[Recurrence]:
    """Yield the recurrences over matrices of ``size`` rows and columns, then the LSTM."""
    for along in (1, 0):
        for back in (False, True):
            yield Recurrence(
                f"filter along axis {along}{', backward' * back}",
                partial(filtered, size, along, back),
                lambda: (random(size, size),),
                partial(by_numpy, along=along, back=back),
                f"filter_{along}{'_backward' * back}",
            )
    for along in (1, 0):
        yield Recurrence(
            f"cumulative sums along axis {along}",
            partial(summed, size, along),
            lambda: (random(size, size),),
            partial(np.cumsum, axis=along, dtype="float64"),
            f"sums_{along}",
        )
    yield Recurrence(
        f"LSTM, {STEPS} steps, batch {BATCH}, {HIDDEN} states", lstm,
        lambda: (random(STEPS, BATCH, 4 * HIDDEN), random(4 * HIDDEN, HIDDEN) / np.float32(8)),
        lstm_by_numpy, "lstm",
    )  # fmt: skip


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")


def filtered(size: int, along: int, back: bool) -> sl.Tensor:
    """Declare ``y[t] = 0.9*y[t - 1] + x[t]`` along an axis, or from its end ``back``."""
    X, S = (sl.placeholder((size, size), name=name) for name in "XS")

    def at(t: Any) -> Any:
        return size - 1 - t if back else t

    def given(t: Any, i: Any) -> Any:
        return X[i, at(t)] if along else X[at(t), i]

    first = sl.compute((1, size), lambda t, i: given(0, i), name="first")
    step = sl.compute((size, size), lambda t, i: S[t - 1, i] * 0.9 + given(t, i), name="step")
    R = sl.scan(first, step, S, inputs=[X], name="R")
    if not along and not back:
        return R
    return sl.compute((size, size), lambda a, b: R[at(b), a] if along else R[at(a), b], name="Y")


def summed(size: int, along: int) -> sl.Tensor:
    X: Any = sl.placeholder((size, size), name="X")
    sums: sl.Tensor = np.cumsum(X, axis=along)  # type: ignore[assignment]
    return sums


def by_numpy(x: Any, along: int, back: bool) -> Any:
    rows = np.moveaxis(x.astype("float64"), along, 0)
    rows = rows[::-1] if back else rows
    made = rows.copy()
    for t in range(1, len(rows)):
        made[t] = made[t - 1] * FACTOR + rows[t]
    return np.moveaxis(made[::-1] if back else made, 0, along)


def lstm() -> sl.Tensor:
    """Declare an LSTM whose inputs are products already."""
    shape = (STEPS + 1, BATCH, HIDDEN)
    X = sl.placeholder((STEPS, BATCH, 4 * HIDDEN), name="X")
    W, k = sl.placeholder((4 * HIDDEN, HIDDEN), name="W"), sl.reduce_axis(HIDDEN, name="k")
    h, c = (sl.placeholder(shape, name=name) for name in "hc")
    product = sl.compute(
        (STEPS + 1, BATCH, 4 * HIDDEN),
        lambda t, b, j: sl.sum(h[t - 1, b, k] * W[j, k], axis=k), name="product",
    )  # fmt: skip

    def gate(n: int, t: Any, b: Any, j: Any) -> Any:
        return X[t - 1, b, n * HIDDEN + j] + product[t, b, n * HIDDEN + j]

    cell = sl.compute(
        shape,
        lambda t, b, j: (
            sl.sigmoid(gate(0, t, b, j)) * c[t - 1, b, j]
            + sl.sigmoid(gate(1, t, b, j)) * sl.tanh(gate(2, t, b, j))
        ),
        name="cell",
    )
    hidden = sl.compute(
        shape, lambda t, b, j: sl.sigmoid(gate(3, t, b, j)) * sl.tanh(cell[t, b, j]), name="hidden"
    )
    zeros = [
        sl.compute((1, BATCH, HIDDEN), lambda *_: sl.const(0, "float32"), name=name)
        for name in ("h0", "c0")
    ]
    states, _ = sl.scan(zeros, [hidden, cell], [h, c], inputs=[X, W], name="lstm")
    return sl.compute((STEPS, BATCH, HIDDEN), lambda t, b, j: states[t + 1, b, j], name="Y")


def lstm_by_numpy(x: Any, w: Any) -> Any:
    h = c = np.zeros((BATCH, HIDDEN))
    made = []
    for moment in x.astype("float64"):
        keep, new, value, shown = np.split(moment + h @ w.T, 4, axis=1)
        c = c / (1 + np.exp(-keep)) + np.tanh(value) / (1 + np.exp(-new))
        h = np.tanh(c) / (1 + np.exp(-shown))
        made.append(h)
    return np.stack(made)
