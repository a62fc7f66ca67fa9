"""Lowering of scatters: the update of an element at a computed place."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import explain
from schedlang.index.linear import ZERO
from schedlang.state.plan import Dim, Threads
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


def blocks_in_kernel(stage: Stage, threads: Threads) -> str:
    """Return why a scatter cannot be computed inside a kernel, or an empty string.

    Its initialization and its updates must then be in one block: blocks do not wait for each other.
    """
    loops = (*stage.scattered_leaves, *(stage.reduce_leaves if scatters(stage) else ()))
    wrong = next((a for a in loops if stage.kinds.get(a, "").startswith("blockIdx")), None)
    if wrong is None or not threads.known:
        return ""
    return explain(
        f'bind({wrong.name}, "{stage.kinds[wrong]}") on stage {stage.name}',
        f"it is inside a loop bound to {threads.known[0][0]}, in whose kernel blocks would update "
        "elements that other blocks still have to initialize",
        f"Bind {wrong.name} to threadIdx, or keep the loops around it serial.",
    )
