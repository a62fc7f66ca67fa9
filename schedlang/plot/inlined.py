"""The elements of an inlined stage that its readers evaluate, found from their reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schedlang.analysis.points_of_stage import reads_with_conditions
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import PlotError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.visit import postorder
from schedlang.state.placement import Placement
from schedlang.state.state import Inline, State


@dataclass(frozen=True, eq=False)
class InlinedReads:
    """The reads of the inlined stage ``producer``, also through other inlined stages.

    ``known`` are the values of sizes, and ``call`` names the caller in messages.
    """

    state: State
    placement: Placement
    producer: str
    known: Mapping[Any, int]
    call: str

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the producer."""
        return tuple(map(self._number, self.state.stages[self.producer].outputs[0].shape))

    def of(self, stage: str, index: list[Any], count: int) -> list[np.ndarray]:
        """Return the flat elements of the producer that ``count`` elements of ``stage`` evaluate.

        ``index`` has an array for each dimension of ``stage``. There is an array for each read that
        differs; a reduction evaluates all of its terms.
        """
        op = self.state.stages[stage].op
        assert isinstance(op, ComputeOp)
        values: dict[Any, Any] = dict(self.known)
        rank = len(op.reduce_axis)
        values.update(zip(op.axis, (np.asarray(k).reshape(-1, *[1] * rank) for k in index)))
        space = [count]
        for k, axis in enumerate(op.reduce_axis, 1):
            low, extent = self._number(axis.lo), self._number(axis.extent)
            values[axis] = np.arange(low, low + extent).reshape([-1, *[1] * (rank - k)])
            space.append(extent)
        elements: list[np.ndarray] = []
        visited: set[Any] = set()
        for read, conditions in reads_with_conditions(op):
            key = (read.tensor, str(read), tuple((str(cond), holds) for cond, holds in conditions))
            if key not in visited:
                visited.add(key)
                elements += self._through(read, conditions, values, tuple(space))
        return elements

    def _number(self, extent: Any) -> int:
        return extent if isinstance(extent, int) else int(evaluate(extent, self.known))

    def _through(
        self, read: Read, held: Any, values: Mapping[Any, Any], space: tuple[int, ...]
    ) -> list[np.ndarray]:
        """Return the elements of the producer that a read evaluates, at the points of ``space``."""
        name = self.state.defined.get(read.tensor)
        inlined = name is not None and isinstance(self.placement.attach[name], Inline)
        if name is None or (name != self.producer and not inlined):
            return []
        roots = [*read.indices, *(cond for cond, _ in held)]
        if any(isinstance(node, Read) for node in postorder(roots)):
            raise PlotError(f"{self.call}: an index of {self.producer} depends on data")
        mask = np.ones(space, bool)
        for cond, holds in held:
            mask = mask & (np.asarray(evaluate(cond, values)) == holds)
        at = [np.broadcast_to(np.asarray(evaluate(i, values)), space)[mask] for i in read.indices]
        count = int(mask.sum())
        if name != self.producer:
            return self.of(name, at, count)
        # an array without dimensions has one element for each point
        flat = np.ravel_multi_index(tuple(at), self.shape) if at else np.zeros(count, np.int64)
        return [np.asarray(flat)]
