"""Names of the stages of a trace, taken from the variables that the function assigns."""

from __future__ import annotations

from schedlang.arrays.naming import rename
from schedlang.compute.tensor import PlaceholderOp
from schedlang.tracing.trace import Trace


def name_stages(trace: Trace) -> None:
    """Name the last stage that each statement made after the name that it assigns.

    The other stages of a statement keep the word of their operation. Stages that nobody has
    scheduled yet have no other owner than the trace.
    """
    for key, tensors in trace.made.items():
        target = trace.targets[key]
        own = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
        if target and own:
            rename(own[-1], target)
    for loop in trace.loops:
        name_stages(loop.body)
