"""Operators of the seven families, as ``topi`` has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schedlang as sl
from benchmarks.works import Work
from schedlang import topi


def add(work: Work) -> list[sl.Tensor]:
    A, B = _given(work)
    return [A, B, topi.add(A, B)]


def bias_relu(work: Work) -> list[sl.Tensor]:
    X, B = _given(work)
    return [X, B, topi.nn.relu(topi.add(X, topi.expand_dims(B, 1, 2)))]


def dense(work: Work) -> list[sl.Tensor]:
    X, W, B = _given(work)
    return [X, W, B, topi.nn.dense(X, W, B)]


def column_sum(work: Work) -> list[sl.Tensor]:
    (X,) = _given(work)
    return [X, topi.sum(X, axis=0)]


def average_pool(work: Work) -> list[sl.Tensor]:
    (X,) = _given(work)
    k = work.sizes["k"]
    return [X, topi.nn.pool2d(X, k, k, 1, 0, "avg")]


def global_pool(work: Work) -> list[sl.Tensor]:
    (X,) = _given(work)
    return [X, topi.nn.global_pool(X, "avg")]


def lstm_sequence(work: Work) -> list[sl.Tensor]:
    X, Wi, Wh, Bi, Bh = _given(work)
    return [X, Wi, Wh, Bi, Bh, topi.nn.lstm(X, Wi, Wh, Bi, Bh)[0]]


def gru_sequence(work: Work) -> list[sl.Tensor]:
    X, Wi, Wh, Bi, Bh = _given(work)
    return [X, Wi, Wh, Bi, Bh, topi.nn.gru(X, Wi, Wh, Bi, Bh)]


def _given(work: Work) -> list[sl.Tensor]:
    return [sl.placeholder(shape, name=name.upper()) for name, shape in work.inputs.items()]


def _activation(kind: str, function: Callable[[Any], sl.Tensor]) -> Any:
    def made(work: Work) -> list[sl.Tensor]:
        (X,) = _given(work)
        return [X, function(X)]

    made.__name__ = kind
    return made


COMPUTATIONS = (
    add, bias_relu, dense, column_sum, average_pool, global_pool, lstm_sequence, gru_sequence,
    _activation("relu", topi.nn.relu), _activation("sigmoid", topi.sigmoid),
    _activation("silu", topi.nn.silu), _activation("gelu", topi.nn.gelu),
)  # fmt: skip
