"""The works as schedlang computations, without schedules.

The function of a kind takes a work and returns its tensors: the inputs in the work's order, then
the outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import schedlang as sl
from benchmarks.computations import families, gradients, operators, table
from benchmarks.works import Work

KINDS: dict[str, Callable[[Work], list[sl.Tensor]]] = {
    f.__name__: f
    for module in (table, families, gradients, operators)
    for f in module.COMPUTATIONS
}


def computation(work: Work) -> list[sl.Tensor]:
    """Return the tensors of a work: inputs, then outputs."""
    if work.kind not in KINDS:
        raise KeyError(f"{work.name}: no computation of kind {work.kind}, only {', '.join(KINDS)}")
    return KINDS[work.kind](work)


__all__ = ["KINDS", "computation"]
