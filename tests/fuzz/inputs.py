"""Input values and sizes for calls of a random computation."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np

from schedlang.expr.bfloat import holding_dtype
from schedlang.expr.dtypes import array_dtype
from tests.fuzz.values import MOST_POINTS, Graph, Made

SIZES = (0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17)
# without the largest finite floats: whether they overflow depends on the order of a sum
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)


def other_sizes(rng: Random, g: Graph, count: int = 2) -> list[dict[str, int]]:
    """Draw up to ``count`` other sizes for the same computation."""
    found: list[dict[str, int]] = []
    for _ in range(20 * bool(g.sizes)):
        sizes = {n: rng.choice([s for s in SIZES if s >= g.least[n]]) for n in g.sizes}
        points = max(np.prod(shape_at(t, sizes) or (1,)) for t in g.tensors)
        if sizes not in (g.sizes, *found) and points <= 2 * MOST_POINTS:
            found.append(sizes)
        if len(found) == count:
            break
    return found


def shape_at(t: Made, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(eval(text, dict(sizes))) for text in t.shape)


def arrays(g: Graph, seed: int, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Draw small exact numbers, any 8-bit integers, and the special values of ``g.special``."""
    rng = np.random.default_rng(seed)
    made = {}
    for t in g.inputs:
        shape = shape_at(t, sizes)
        if t.name in g.ranges:
            values = rng.integers(*g.ranges[t.name], size=shape)
        elif t.dtype == "bool":
            values = rng.integers(0, 2, size=shape)
        elif "complex" in t.dtype:
            parts = rng.integers(-8, 9, size=(2, *shape)) / 4
            values = parts[0] + 1j * parts[1]
        elif "float" in t.dtype:
            values = rng.integers(-8, 9, size=shape) / 4
            if g.special:
                values = _mixed(rng, values, _special_floats(g, t.dtype))
        elif t.dtype in ("int8", "uint8"):
            info = np.iinfo(t.dtype)
            values = rng.integers(info.min, info.max, size=shape, endpoint=True)
        else:
            # whether a product of large floats overflows depends on its order
            values = rng.integers(0 if t.dtype[0] == "u" else -9, 10, size=shape)
            if g.special == "integer limits":
                info = np.iinfo(t.dtype)
                limits = [info.min, info.min + 1, info.max - 1, info.max, info.max // 2]
                values = _mixed(rng, values.astype(t.dtype), np.array(limits, t.dtype))
        with np.errstate(invalid="ignore"):
            made[t.name] = np.asarray(values).astype(array_dtype(t.dtype))
    return made


def _special_floats(g: Graph, dtype: str) -> np.ndarray:
    # bfloat16 has the exponents of float32
    info = np.finfo(holding_dtype(dtype))
    tiny = [info.smallest_subnormal, -info.smallest_subnormal, info.tiny / 2] if g.denormals else []
    return np.array([*SPECIAL, *tiny], "float64")


def _mixed(rng: np.random.Generator, values: np.ndarray, special: np.ndarray) -> np.ndarray:
    """Replace a random share of ``values``, or none of them, by values from ``special``."""
    share = rng.choice((0.0, 0.05, 0.3))
    return np.where(rng.random(values.shape) < share, rng.choice(special, values.shape), values)
