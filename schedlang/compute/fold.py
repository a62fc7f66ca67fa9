"""Reductions in NumPy, by ufuncs, by matrix products and by custom combiners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.compute.reduce import Reducer, extreme_value
from schedlang.expr import dtypes
from schedlang.expr.evaluate import plan
from schedlang.expr.nodes import Binary, Call

# sums and products of shorter floats accumulate in float64 and are rounded once
ACCUMULATORS = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex64": "complex128",
}


@dataclass(frozen=True)
class Masked:
    """Rows of elements, one array a part, and where they are kept (``None``: everywhere)."""

    parts: tuple[np.ndarray, ...]
    kept: Any = None

    def __getitem__(self, key: Any) -> Masked:
        mask = None if self.kept is None else self.kept[key]
        return Masked(tuple(p[key] for p in self.parts), mask)

    def followed_by(self, rest: Masked) -> Masked:
        parts = tuple(np.concatenate(pair) for pair in zip(self.parts, rest.parts))
        mask = None if self.kept is None else np.concatenate([self.kept, rest.kept])
        return Masked(parts, mask)


def ufunc_of(reducer: Reducer) -> Any:
    """Return the NumPy ufunc that combines as ``reducer`` does, or ``None``."""
    if len(reducer.lhs) != 1:
        return None
    (x,), (y,), (result,), (unit,) = reducer.lhs, reducer.rhs, reducer.result, reducer.identity
    if not any(all(c is v for c, v in zip(result.children, pair)) for pair in ((x, y), (y, x))):
        return None
    ufunc: Any
    if isinstance(result, Binary) and result.op in ("+", "*"):
        ufunc, neutral = (np.add, 0) if result.op == "+" else (np.multiply, 1)
    elif isinstance(result, Binary) and result.op in "&|" and result.dtype == "bool":
        ufunc, neutral = (np.logical_or, False) if result.op == "|" else (np.logical_and, True)
    elif isinstance(result, Call) and result.fn in ("min", "max"):
        ufunc = np.minimum if result.fn == "min" else np.maximum
        neutral = extreme_value(x.dtype, largest=result.fn == "min").value
    else:
        return None
    return ufunc if unit.value == neutral else None


def combine(
    reducer: Reducer, left: Sequence[np.ndarray], right: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Return ``left`` and ``right``, one array a part, combined element by element."""
    values = {**dict(zip(reducer.lhs, left)), **dict(zip(reducer.rhs, right))}
    shape = np.broadcast_shapes(left[0].shape, right[0].shape)
    results = plan(reducer.result).run(values)
    return tuple(np.broadcast_to(r, shape) for r in results)


def combine_kept(reducer: Reducer, left: Masked, right: Masked) -> Masked:
    """Return ``left`` and ``right`` combined where both are kept, else the one that is kept."""
    both = combine(reducer, left.parts, right.parts)
    if left.kept is None and right.kept is None:
        return Masked(both)
    here = np.True_ if left.kept is None else left.kept
    there = np.True_ if right.kept is None else right.kept
    parts = tuple(
        np.where(there, np.where(here, z, y), x) for x, y, z in zip(left.parts, right.parts, both)
    )
    return Masked(parts, here | there)


def fold(reducer: Reducer, rows: Masked) -> Masked:
    """Return the rows of each part reduced to one, by combining neighbours in a tree.

    Rows that are not kept are left out, not replaced by the identity: it may tie with an element.
    """
    while len(rows.parts[0]) > 1:
        even = len(rows.parts[0]) // 2 * 2
        joined = combine_kept(reducer, rows[0:even:2], rows[1:even:2])
        rows = joined.followed_by(rows[even:])
    return rows[0]


def contraction(
    a: Any, b: Any, lengths: Sequence[int], folded: int, dtype: str
) -> np.ndarray | None:
    """Return the sum of ``a * b`` over the first ``folded`` axes, as a matrix product in float64.

    ``a`` and ``b`` broadcast to ``lengths``. Return ``None`` if a product could overflow ``dtype``
    or an operand is not finite, since the result then depends on the order of rounding and summing.
    """
    if not _largest(a) * _largest(b) <= dtypes.largest(dtype):
        return None
    ndim = len(lengths)
    left, right = _wide(a, ndim), _wide(b, ndim)
    scale = 1.0
    shared: list[int] = []
    for k in range(folded):
        if left.shape[k] == right.shape[k] == lengths[k]:
            shared.append(k)
        elif left.shape[k] != 1:
            left = left.sum(axis=k, keepdims=True)
        elif right.shape[k] != 1:
            right = right.sum(axis=k, keepdims=True)
        else:
            scale *= lengths[k]
    batch: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for k in range(folded, ndim):
        wide = (left.shape[k] != 1, right.shape[k] != 1)
        (batch if all(wide) else rows if wide[0] else columns).append(k)
    m, n, depth = (
        math.prod(s.shape[k] for k in group)
        for s, group in ((left, rows), (right, columns), (left, shared))
    )
    lead = [left.shape[k] for k in batch]
    summed = [k for k in range(folded) if k not in shared]
    x = left.transpose(batch + rows + shared + columns + summed).reshape(*lead, m, depth)
    y = right.transpose(batch + shared + columns + rows + summed).reshape(*lead, depth, n)
    shape = lead + [left.shape[k] for k in rows] + [right.shape[k] for k in columns]
    result = (x @ y).reshape(shape)
    order = batch + rows + columns
    return result.transpose([order.index(k) for k in range(folded, ndim)]) * scale


def _wide(value: Any, ndim: int) -> np.ndarray:
    array = np.asarray(value, np.float64)
    return array.reshape((1,) * ndim) if array.ndim == 0 else array


def _largest(value: Any) -> float:
    return max(float(np.max(value)), -float(np.min(value)))
