"""Updates of array elements at computed places, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.compute.fold import combine, ufunc_of
from schedlang.compute.reducer import Reducer
from schedlang.compute.tensor import ComputeOp, shape_text
from schedlang.errors import BoundsError, explain


@dataclass(frozen=True)
class Places:
    """The elements of ``op`` that are computed: a box of ``shape`` that starts at ``first``."""

    op: ComputeOp
    first: tuple[int, ...]
    shape: tuple[int, ...]

    def checked(
        self, indices: Sequence[np.ndarray], values: Sequence[np.ndarray], mask: np.ndarray | None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the flat position of each update that is ``kept``, and its values.

        Raises :class:`~schedlang.errors.BoundsError` for an index outside of the result.
        """
        if mask is not None:
            indices, values = [i[mask] for i in indices], [v[mask] for v in values]
        count = len(values[0])
        position = np.zeros(count, np.int64)
        for number, (index, first, extent) in enumerate(zip(indices, self.first, self.shape)):
            wrong = (index < first) | (index >= first + extent)
            if wrong.any():
                self._refuse(number, int(index[wrong][0]))
            position = position * extent + (index - first)
        return position, list(values)

    def _refuse(self, number: int, value: int) -> None:
        op = self.op
        assert op.destination is not None
        written = ", ".join(map(str, op.destination))
        raise BoundsError(
            explain(
                f"{op.name} updates {op.name}[{written}]",
                f"index {number} is {value}, but {op.name} of shape {shape_text(self.shape)} has "
                f"extent {self.shape[number]} there",
                'Correct the index, or leave such updates out with mode="drop" or where=....',
            )
        )


def update(
    reducer: Reducer, totals: Sequence[np.ndarray], at: np.ndarray, values: Sequence[np.ndarray]
) -> None:
    """Combine ``values`` into the elements of ``totals`` at the flat positions ``at``, in order.

    >>> from schedlang.compute.reduce import simple
    >>> total = np.zeros(3, "int64")
    >>> update(simple("sum", "int64"), [total], np.array([0, 2, 2]), [np.array([1, 2, 3])])
    >>> total
    array([1, 0, 5])
    """
    if not len(at):
        return
    flat = [total.reshape(-1) for total in totals]
    ufunc = ufunc_of(reducer)
    if ufunc is not None:
        ufunc.at(flat[0], at, values[0].astype(flat[0].dtype))
        return
    order = np.argsort(at, kind="stable")
    at, values = at[order], [v[order] for v in values]
    if reducer.overwrites:
        last = np.append(at[1:] != at[:-1], True)
        at, values = at[last], [v[last] for v in values]
    else:
        at, values = _folded(reducer, at, values)
        values = list(combine(reducer, [f[at] for f in flat], values))
    for one, value in zip(flat, values):
        one[at] = value


def _folded(
    reducer: Reducer, at: np.ndarray, values: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return one value for each of the sorted positions, by combining neighbours in a tree."""
    parts = list(values)
    while True:
        starts = np.append(True, at[1:] != at[:-1])
        if starts.all():
            return at, parts
        first = np.flatnonzero(starts)
        rank = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
        left = np.flatnonzero(rank % 2 == 0)
        paired = left[left + 1 < len(at)]
        paired = paired[at[paired] == at[paired + 1]]
        joined = combine(reducer, [p[paired] for p in parts], [p[paired + 1] for p in parts])
        for part, value in zip(parts, joined):
            part[paired] = value
        at, parts = at[left], [p[left] for p in parts]
