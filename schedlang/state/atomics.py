"""The updates that threads of a GPU make atomically, since they may reach one element at once."""

from __future__ import annotations

from schedlang.compute.fold import ufunc_of
from schedlang.compute.reducer import Reducer
from schedlang.expr.nodes import Axis
from schedlang.state.scattered import apart, scatters
from schedlang.state.state import THREADS, Stage

# the intrinsic of each ufunc, and the dtypes that have it
OPERATIONS = {
    "add": "atomic_add", "multiply": "atomic_multiply", "minimum": "atomic_minimum",
    "maximum": "atomic_maximum",
}  # fmt: skip
DTYPES = ("int32", "int64", "uint32", "uint64", "float32", "float64")


def operation(reducer: Reducer) -> str | None:
    """Return the intrinsic that does the work of ``reducer`` atomically, or ``None``."""
    ufunc = ufunc_of(reducer)
    if ufunc is None or reducer.lhs[0].dtype not in DTYPES:
        return None
    return OPERATIONS.get(ufunc.__name__)


def meets_across_threads(stage: Stage, axis: Axis) -> bool:
    """Return whether threads of loop ``axis`` of a scatter may update one element.

    Threads run apart, so that all other loops may be in any iteration.
    """
    first = stage.with_(leaf=(axis, *(a for a in stage.leaf if a is not axis)))
    return axis.is_reduce and not apart(first, axis)


def is_atomic(stage: Stage) -> bool:
    """Return whether the updates of ``stage`` are atomic."""
    return scatters(stage.op) and any(
        stage.kinds.get(axis) in THREADS and meets_across_threads(stage, axis)
        for axis in stage.reduce_leaves
    )
