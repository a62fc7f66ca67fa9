"""Trimmed loops with the iterations that they have on average, since an estimate counts by extents.

The loops around are sampled. An element of a monotonic input is taken to grow evenly, another one
to be any number that ``sl.assume`` allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schedlang.compute.facts import facts_of
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Expr, Var
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, Load, Stmt, block_of, with_held
from schedlang.ir.trimmed import Trimmed, trim_loop

# samples of the loops around a trimmed one
# nobody has measured this value
SAMPLES = 256


class _UnknownError(LookupError):
    """Raised where nothing is known of an element."""


def average_loops(nest: Nest, sizes: Mapping[Var, int]) -> Nest:
    """Return ``nest`` with an average extent for each trimmed loop, without its tests.

    ``sizes`` are the values of the sizes. The result is for estimates: it computes nothing. If
    nothing is known of a loop, its extent is half of its box.

    >>> import schedlang as sl
    >>> A = sl.placeholder((100, 100), name="A")
    >>> def row(i):
    ...     k = sl.reduce_axis((0, i + 1), name="k")
    ...     return sl.sum(A[i, k], axis=k)
    >>> nest = sl.lower(sl.schedule(sl.compute((100,), row, name="S")))
    >>> 45 < average_loops(nest, {}).loops[-1].extent < 56
    True
    """
    if not any(trim_loop(loop).tests for loop in nest.loops):
        return nest
    sampler = _Sampler(np.random.default_rng(0), sizes)
    return replace(nest, body=block_of(sampler.stmt(nest.body, {})))


class _Sampler:
    """Samples of the loops around a statement, and of the elements that these loops read."""

    def __init__(self, rng: np.random.Generator, sizes: Mapping[Var, int]) -> None:
        self.rng = rng
        self.sizes = dict(sizes)

    def stmt(self, stmt: Stmt, values: Mapping[Any, Any]) -> Stmt:
        if not isinstance(stmt, For):
            return with_held(stmt, lambda inner: self.stmt(inner, values))
        loop = trim_loop(stmt)
        start, length = self.range_of(stmt, loop, values)
        at = start + np.floor(self.rng.random(SAMPLES) * np.maximum(length, 1)).astype(np.int64)
        body = Block(tuple(self.stmt(s, {**values, stmt.axis: at}) for s in loop.body.stmts))
        if not loop.tests or not isinstance(stmt.extent, int):
            # a size that is not known counts as in any other loop
            return replace(stmt, body=body)
        return replace(stmt, body=body, extent=max(1, round(float(length.mean()))))

    def range_of(
        self, loop: For, trim: Trimmed, values: Mapping[Any, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sampled starts and lengths of a loop's range."""
        try:
            start, stop = (self.value(end, values) for end in (trim.start, trim.stop))
        except _UnknownError:
            extent = loop.extent if isinstance(loop.extent, int) else 1
            stop = np.full(SAMPLES, max(1, extent // 2) if trim.tests else extent)
            return np.zeros(SAMPLES, np.int64), stop
        return start, np.maximum(stop - start, 0)

    def value(self, end: int | Expr, values: Mapping[Any, Any]) -> np.ndarray:
        if isinstance(end, int):
            return np.full(SAMPLES, end)
        try:
            sampled = evaluate(end, {**self.sizes, **values}, self.read)
        except KeyError as error:
            raise _UnknownError from error
        return np.broadcast_to(sampled, (SAMPLES,)).astype(np.int64)

    def read(self, load: Load, indices: Sequence[Any]) -> np.ndarray:
        tensor = load.buffer.tensor
        facts = None if tensor is None else facts_of(tensor)
        if facts is None or facts.within is None:
            raise _UnknownError
        low, high = (int(self.value(end, {})[0]) for end in facts.within)
        last = load.buffer.shape[-1]
        if not facts.monotonic or not isinstance(last, int):
            elements = self.rng.integers(low, max(low, high) + 1, SAMPLES)
        else:
            at = np.broadcast_to(indices[-1], (SAMPLES,))
            elements = low + (high - low) * np.clip(at, 0, last - 1) // max(last - 1, 1)
        return elements.astype(load.dtype)
