"""The choice of stages that are computed inline."""

from __future__ import annotations

import math

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.read import Read
from schedlang.compute.tensor import Tensor

# the most times that an inlined element is computed, without and with math functions
MOST, MOST_CALLS = 16, 4


def inline(sketch: Sketch) -> None:
    """Inline stages whose elements are each read once; of others, let a knob decide.

    A stage keeps its own loops if it is a reduction, if its elements are read too often for their
    cost, or if inlining it would exceed the work of a candidate worth measuring.
    """
    s = sketch.s
    for tensor in sketch.stages():
        op = sketch.op(tensor)
        if op.reducer is not None or len(op.outputs) > 1 or tensor in s.outputs:
            continue
        if sketch.is_scan_step(tensor):
            continue
        often = _times(sketch, tensor)
        copy = isinstance(op.body[0], Read)
        if not copy and often > (MOST_CALLS if sketch.math_calls(tensor) else MOST):
            continue
        more = _more(sketch, tensor) if often > 1 else 0
        if not sketch.worth_measuring(sketch.recomputed + more):
            continue
        if often <= 1 or sketch.knobs.choice(f"{sketch.name(tensor)}.inline", [False, True]):
            s[tensor].compute_inline()
            sketch.inlined.add(tensor)
            sketch.recomputed += more


def _more(sketch: Sketch, tensor: Tensor) -> int:
    """Return the additional operations of computing a stage inline."""
    before, after = sketch.inlined, sketch.inlined | {tensor}
    readers = sketch.consumers(tensor)
    grown = sum(sketch.work(r, after) - sketch.work(r, before) for r in readers)
    return grown - sketch.work(tensor, before)


def _times(sketch: Sketch, tensor: Tensor) -> float:
    """Return how often each element is read on average."""
    count = 0
    for reader in sketch.consumers(tensor):
        count += sketch.evaluations(reader) * sum(a.tensor is tensor for a in sketch.reads(reader))
    return count / math.prod(sketch.extents(sketch.op(tensor).axis))
