"""Functions that random programs call: results, views, early returns, loops and writes."""

from __future__ import annotations

from typing import Any

import numpy as np


class Holder:
    """Attributes and methods that a program uses."""

    def __init__(self, v: Any, s: Any) -> None:
        self.v, self.s, self.count, self.parts = v, s, 0, [s]

    def add(self, t: Any) -> None:
        self.s = self.s * 0.5 + t

    def scaled(self, a: Any) -> Any:
        return a * 0.5 + self.s


def scaled(a: Any, s: Any) -> Any:
    return a * s + 0.5


def bump(a: Any) -> None:
    a += 1


def double_ends(a: Any) -> Any:
    a[0] *= 2
    a[-1] = a[0]
    return a


def longer(a: Any, b: Any) -> Any:
    if len(a) > len(b):
        return a
    return b


def capped(t: Any, limit: Any = 2.0) -> Any:
    t = t * 1.0
    if t > limit:
        return limit
    if t < -limit:
        return -limit
    return t


def total(a: Any) -> Any:
    s = 0.0
    for v in a:
        s += v
    return s


def running(a: Any, b: Any) -> Any:
    out = np.zeros(len(a))
    out[0] = b[0]
    for k in range(1, len(a)):
        out[k] = 0.5 * out[k - 1] + a[k]
    return out


def ends(a: Any) -> Any:
    return a[0], a[-1], a[::-1]
