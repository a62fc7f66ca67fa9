"""The choice of stages that are computed where they are read."""

from __future__ import annotations

import math

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Read

# an expression is not computed more often than this many times: arithmetic, math functions
MOST, MOST_CALLS = 16, 4


def inline(sketch: Sketch) -> None:
    """Inline what each element of is read once; ask a knob about what is read more often.

    What calls math functions and is read often keeps a stage of its own, and so does a reduction,
    and what would be more work than a candidate may be.
    """
    s = sketch.s
    for tensor in sketch.stages():
        op = sketch.op(tensor)
        if op.reducer is not None or len(op.outputs) > 1 or tensor in s.outputs:
            continue
        if sketch.steps_of_scan(tensor):
            continue
        often = _times(sketch, tensor)
        copy = isinstance(op.body[0], Read)
        if not copy and often > (MOST_CALLS if sketch.calls(tensor) else MOST):
            continue
        more = _more(sketch, tensor) if often > 1 else 0
        if not sketch.affords(sketch.again + more):
            continue
        if often <= 1 or sketch.knobs.choice(f"{sketch.name(tensor)}.inline", [False, True]):
            s[tensor].compute_inline()
            sketch.inlined.add(tensor)
            sketch.again += more


def _more(sketch: Sketch, tensor: Tensor) -> int:
    """Return how many operations more it is to compute a stage where it is read."""
    before, after = sketch.inlined, sketch.inlined | {tensor}
    readers = sketch.consumers(tensor)
    grown = sum(sketch.work(r, after) - sketch.work(r, before) for r in readers)
    return grown - sketch.work(tensor, before)


def _times(sketch: Sketch, tensor: Tensor) -> float:
    """Return how often each element is read."""
    count = 0
    for reader in sketch.consumers(tensor):
        count += sketch.evaluations(reader) * sum(a.tensor is tensor for a in sketch.reads(reader))
    return count / math.prod(sketch.extents(sketch.op(tensor).axis))
