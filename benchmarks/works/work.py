"""A work as data: its inputs and outputs, its oracle, and the ceiling that bounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
Shape = tuple[int, ...]
ALIGNMENT = 64


@dataclass(frozen=True)
class Work:
    """One piece of work, the same for every implementation. All arrays are float32.

    ``kind`` selects an implementation's code and ``sizes`` are its parameters. ``oracle`` computes
    the outputs in float64 from the inputs by name. ``bound`` is the ceiling that bounds the work:
    ``"fma"`` (multiply-adds) or ``"copy"`` (memory). A result is right if it differs from the
    oracle by at most ``atol + rtol * |oracle|``, to which a whole network adds ``of_largest`` of
    the oracle's largest element. Inputs are uniform in ``[low, high)``.
    """

    name: str
    kind: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]
    oracle: Callable[..., Any] = field(repr=False)
    bound: str
    flops: float | None = None
    rtol: float = 1e-4
    atol: float = 1e-5
    low: float = -1.0
    high: float = 1.0
    of_largest: float = 0.0

    @property
    def bytes(self) -> float:
        """The least traffic: every input read once, every output written once."""
        return 4.0 * sum(prod(s) for s in (*self.inputs.values(), *self.outputs.values()))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the inputs, which are the same in every process."""
        rng = np.random.default_rng(crc32(self.name.encode()))
        made = {}
        for name, shape in self.inputs.items():
            made[name] = aligned(shape)
            rng.random(out=made[name], dtype="float32")
            made[name] *= np.float32(self.high - self.low)
            made[name] += np.float32(self.low)
        return made

    def empty(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return outputs full of NaN, so that a check finds elements that are left unwritten."""
        made = {name: aligned(shape) for name, shape in self.outputs.items()}
        for array in made.values():
            array.fill(np.nan)
        return made

    def expected(self, arrays: Arrays) -> tuple[np.ndarray[Any, Any], ...]:
        found = self.oracle(**{k: v.astype("float64") for k, v in arrays.items()})
        return found if isinstance(found, tuple) else (found,)

    def wrong(self, got: tuple[Any, ...], expected: tuple[Any, ...]) -> str:
        """Return the first error in ``got``, or an empty string."""
        if len(got) != len(expected):
            return f"{len(got)} results instead of {len(expected)}"
        for name, found, want in zip(self.outputs, got, expected):
            if tuple(found.shape) != tuple(want.shape):
                return f"{name} has shape {tuple(found.shape)} instead of {tuple(want.shape)}"
            if found.dtype != np.float32:
                return f"{name} is {found.dtype}"
            apart = np.abs(found - want) - self.rtol * np.abs(want)
            allowed = self.atol + self.of_largest * float(np.abs(want).max())
            if not (worst := float(apart.max())) <= allowed:
                more = f" more than {self.rtol:g} of its value" if self.rtol else ""
                return f"{name} is off by {worst:.3g}{more}, and {allowed:.3g} is allowed"
        return ""


def aligned(shape: Shape) -> np.ndarray[Any, Any]:
    """Return an array that starts on a cache line, so that all implementations align alike."""
    size = prod(shape) * 4
    raw = np.empty(size + ALIGNMENT, "uint8")
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view("float32").reshape(shape)


__all__ = ["Arrays", "Shape", "Work", "aligned"]
