"""Checks that what an iteration of a loop leaves may enter the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.arrays.shapes import same_shape
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, explain
from schedlang.expr.visit import postorder
from schedlang.tracing.array import TracedArray
from schedlang.tracing.carried import dtype_of
from schedlang.tracing.memory import storages_of
from schedlang.tracing.trace import Carry, Trace, Value


@dataclass(frozen=True)
class LoopSource:
    """A loop of the user's source: its ``line``, and the name of each part of its carry.

    ``index`` is the name of its index, and the first value that it has.
    """

    line: int
    names: Sequence[str]
    index: tuple[str, int] = ("i", 0)


def title_of(trace: Trace, source: LoopSource | None) -> str:
    """Return what messages call the body of a loop in ``trace``."""
    if source is None:
        return f"the body of sl.fori_loop in {trace.title}"
    return f"the loop at line {source.line} of {trace.outermost.title}"


def check_aliases(
    inner: Trace,
    leaves: Sequence[object],
    entering: Sequence[TracedArray],
    before: Sequence[Value],
    same: Sequence[bool],
    source: LoopSource | None,
) -> None:
    """Raise if the body assigns to an array that another name of the carry may refer to."""
    homes = [storages_of(leaf) if isinstance(leaf, TracedArray) else [] for leaf in leaves]
    counts = Counter(storage for storages in homes for storage in storages)
    for k, (array, storages) in enumerate(zip(entering, homes)):
        part = f"part {k} of its carry" if source is None else source.names[k]
        assigned = inner.values[array.storage] is not before[k]
        if assigned and not same[k]:
            problem = f"it assigns to elements of {part} and then makes it another array"
        elif not array.is_scalar and any(s in inner.written for s in storages):
            problem = f"it assigns to elements of the array that {part} begins as"
        elif assigned and any(s in inner.outer or counts[s] > 1 for s in storages):
            problem = f"it assigns to elements of {part}, which it also uses by another name"
        else:
            continue
        advice = (
            "Begin with a copy, np.copy(x), and return a new array, or assign to arrays from "
            "around the loop and leave init out."
            if source is None
            else f"Let {part} begin as a copy, np.copy(x), and either assign to its elements, "
            f"{part}[...] = value, or to the name."
        )
        raise ComputeError(
            explain(
                inner.title, f"{problem}, so two names are one array in the first iteration", advice
            )
        )


def check_fits(carry: Carry, k: int, inner: Trace, source: LoopSource | None) -> None:
    """Raise unless the value after an iteration may follow that before it."""
    shapes = [v.shape if isinstance(v, Tensor) else () for v in (carry.entering, carry.leaving)]
    kinds = carry.entering.dtype, dtype_of(carry.leaving)
    if same_shape(*shapes) and kinds[0] == kinds[1]:
        return
    part = f"part {k} of the carry" if source is None else source.names[k]
    lengths = postorder([e for e in shapes[1] if not isinstance(e, int)])
    if any(node in inner.sizes for node in lengths):
        raise ComputeError(
            explain(
                inner.title,
                f"elements decide how many elements {part} has after an iteration",
                "Keep all elements, and a mask of those that count: np.where(mask, x, 0).",
            )
        )
    before, after = (
        f"{kind} of shape {shape_text(shape)}" if shape else f"a number of {kind}"
        for kind, shape in zip(kinds, shapes)
    )
    raise ComputeError(
        explain(
            inner.title,
            f"{part} is {before} before an iteration and {after} after it",
            "Keep the shape, and convert with .astype(...), so that one array can hold both.",
        )
    )
