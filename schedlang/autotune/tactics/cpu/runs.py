"""Runs of reduction axes that read memory contiguously, so that vectors hold their steps."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.expr.nodes import Axis

# the fewest vectors of a contiguous run that are worth partial results in lanes
# nobody has measured this value
LEAST_RUN = 2


def run_of(stage: StageFacts) -> list[Axis]:
    """Return the longest run of last reduction axes that, fused, read memory contiguously.

    If there is none, the last axis alone may do if vectors hold what it reads, see
    :func:`fills_lanes`.
    """
    axes, reads = stage.op.reduce_axis, stage.reads
    for start in range(len(axes)):
        last = axes[start:]
        moving = [r for r in reads if not all(r.fixed(a) for a in last)]
        if moving and all(r.element_by_element(last) for r in moving):
            return list(last)
        if len(last) == 1 and fills_lanes(stage, last[0]):
            return list(last)
    return []


def fills_lanes(stage: StageFacts, axis: Axis) -> bool:
    """Return whether vector loads serve lanes along a reduction axis.

    Reads must be contiguous, close in memory, or of one element for all lanes; some may be gathered
    if others are loaded as vectors.
    """
    width, reads = stage.width, stage.reads
    moving = [r for r in reads if not r.fixed(axis)]
    vectors = [r for r in moving if r.contiguous(axis, width) or r.near(axis, width)]
    return bool(vectors) and all(r in vectors or r.gathered(axis) for r in moving)


def whole_vectors(stage: StageFacts, axis: Axis, counts: Sequence[int]) -> list[int]:
    """Return the ``counts`` of vectors whose lanes are loaded in the same way as a single vector.

    Indices with a quotient or a remainder may be contiguous over one vector and not over several.
    If no count qualifies, all are returned.
    """
    width, reads = stage.width, stage.reads

    def kind(read: Access, lanes: int) -> tuple[bool, bool]:
        return read.fixed(axis, lanes), read.contiguous(axis, lanes)

    one = [kind(read, width) for read in reads]
    return [n for n in counts if [kind(r, n * width) for r in reads] == one] or list(counts)
