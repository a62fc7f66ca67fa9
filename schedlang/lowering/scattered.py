"""Lowering of scatters: the update of an element at a computed place."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import ComputeOp
from schedlang.index.linear import ZERO
from schedlang.state.plan import Dim
from schedlang.state.state import Stage


def scatters(stage: Stage) -> bool:
    """Return whether ``stage`` is a scatter."""
    return isinstance(stage.op, ComputeOp) and stage.op.destination is not None


def scattered_whole(stage: Stage, dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return ``dims`` with the dimensions of a scatter's scattered axes whole.

    An update may reach any element there, whichever elements are read.
    """
    op = stage.op
    assert isinstance(op, ComputeOp)
    return tuple(
        Dim(ZERO, dim.size, size=dim.size) if axis in op.scattered else dim
        for axis, dim in zip(op.axis, dims)
    )


__all__ = ["scattered_whole", "scatters"]
