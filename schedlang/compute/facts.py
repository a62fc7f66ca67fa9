"""``assume``: facts about the elements of an integer input, which each call checks.

A kernel cannot know what an index array holds. A declared fact bounds ragged ranges, so that loops
and storage have a box, and each call tests it before it computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from schedlang.compute.read import Read
from schedlang.compute.tensor import Extent, PlaceholderOp, Tensor
from schedlang.compute.whole import refuse_traced
from schedlang.errors import CallError, ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import ArrayRead, Axis, Const, Expr
from schedlang.expr.visit import postorder
from schedlang.index.elements import Elements, Ends
from schedlang.index.simplify import simplify, to_lin
from schedlang.signatures import public


@dataclass(frozen=True)
class Facts:
    """The facts that are declared of the elements of an input.

    If it is ``monotonic``, no element along the last dimension is less than the one before.
    ``within`` holds their least and largest value, both included.
    """

    monotonic: bool = False
    within: Optional[tuple[Extent, Extent]] = None


@public
def assume(tensor: Tensor, *, monotonic: bool = False, within: Any = None) -> Tensor:
    """Declare facts about the elements of an integer input, and return the input.

    With ``monotonic``, no element along the last dimension is less than the one before it.
    ``within=(low, high)`` bounds all elements, both ends included; the ends are integers or
    expressions over sizes. Ranges that read the input then lie in a box, and a read at its elements
    is checked where you write it, like a read at an axis. Later facts add to earlier ones. Declare
    them before the computation that reads the input.

    Each call of a kernel or of ``sl.reference`` checks the facts, and raises
    :class:`~schedlang.errors.CallError` that names the first element that breaks one. For a weight,
    ``sl.network`` and ``sl.load`` check them once. A kernel checks an array of NumPy once if it and
    all arrays that it is a view of are read-only: with ``array.flags.writeable = False`` you vouch
    that the elements stay. Or call :meth:`~schedlang.runtime.kernel.Kernel.bound` of a kernel,
    which checks the arrays, and then its function as often as you like.

    Raises :class:`~schedlang.errors.ComputeTypeError` for anything but an integer input, and
    :class:`~schedlang.errors.ComputeError` for an empty ``within``.

    >>> import numpy as np, schedlang as sl
    >>> n, nnz = sl.var("n"), sl.var("nnz")
    >>> indptr = sl.placeholder((n + 1,), "int32", name="indptr")
    >>> data = sl.placeholder((nnz,), name="data")
    >>> indptr = sl.assume(indptr, monotonic=True, within=(0, nnz))
    >>> def row(i):
    ...     k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
    ...     return sl.sum(data[k], axis=k)
    >>> rows = sl.compute((n,), row, name="rows")
    >>> values = np.array([1, 2, 4], "float32")
    >>> sl.reference(rows)(data=values, indptr=np.array([0, 2, 2, 3], "int32"))
    array([3., 0., 4.], dtype=float32)
    """
    refuse_traced("sl.assume", tensor)
    if not isinstance(tensor, Tensor):
        raise ComputeTypeError(
            f"sl.assume({type(tensor).__name__}): facts are about the elements of a tensor made by "
            "sl.placeholder; pass the tensor itself"
        )
    op = tensor.op
    if not isinstance(op, PlaceholderOp):
        raise ComputeTypeError(
            explain(
                f"sl.assume({tensor.name}, ...)",
                f"{tensor.name} is computed, and facts are checked when a call passes an input",
                "Make it an input with sl.placeholder, or clamp what you read from it with sl.max "
                "and sl.min.",
            )
        )
    if not dtypes.is_integer(tensor.dtype):
        raise ComputeTypeError(
            f"sl.assume({tensor.name}, ...): {tensor.name} is {tensor.dtype}, but facts are about "
            "integers, which are bounds of ranges and indices"
        )
    if monotonic and not tensor.ndim:
        raise ComputeError(
            f"sl.assume({tensor.name}, monotonic=True): {tensor.name} is 0-d, so that it has no "
            "order; leave monotonic out"
        )
    before = op.facts or Facts()
    ends = before.within if within is None else _ends(tensor, within)
    op.facts = Facts(bool(monotonic) or before.monotonic, ends)
    return tensor


def _ends(tensor: Tensor, within: Any) -> tuple[Extent, Extent]:
    if not isinstance(within, (tuple, list)) or len(within) != 2:
        raise ComputeTypeError(
            f"sl.assume({tensor.name}, within={within!r}): give the least and the largest element, "
            "as in within=(0, n - 1)"
        )
    low, high = (_end(tensor, value) for value in within)
    if isinstance(low, int) and isinstance(high, int) and high < low:
        raise ComputeError(
            f"sl.assume({tensor.name}, within=({low}, {high})): no number lies in that range; give "
            "the least element first"
        )
    return low, high


def _end(tensor: Tensor, value: Any) -> Extent:
    if isinstance(value, Const) and isinstance(value.value, int):
        value = value.value
    if isinstance(value, Expr) and value.weak and value.dtype == dtypes.INDEX:
        if not any(isinstance(n, (Axis, ArrayRead)) for n in postorder([value])):
            simplest = simplify(value)
            return int(simplest.value) if isinstance(simplest, Const) else simplest
    if isinstance(value, (bool, Expr)) or not hasattr(value, "__index__"):
        raise ComputeTypeError(
            f"sl.assume({tensor.name}, within=...): {value!r} is not an end of a range; give an "
            'integer, or an expression over sizes made by sl.var("n")'
        )
    return int(value)


def facts_of(tensor: Tensor) -> Facts | None:
    """Return what is declared of the elements of ``tensor``; ``None`` if nothing is."""
    return tensor.op.facts if isinstance(tensor.op, PlaceholderOp) else None


def span_of(tensor: Tensor | None) -> Ends:
    """Return the declared least and largest element of ``tensor``, as polynomials."""
    facts = None if tensor is None else facts_of(tensor)
    if facts is not None and facts.within is not None:
        return to_lin(facts.within[0]), to_lin(facts.within[1])
    # an unsigned number is 0 or more
    unsigned = tensor is not None and tensor.dtype.startswith("uint")
    return (to_lin(0) if unsigned else None), None


def elements() -> Elements:
    """Return variables for reads of tensors, with the ranges that are declared."""

    def array_of(read: ArrayRead) -> Tensor:
        assert isinstance(read, Read)
        return read.tensor

    return Elements(array_of, lambda read: span_of(array_of(read)))


def check_facts(
    name: str, facts: Facts, array: np.ndarray, value_of: Callable[[Extent], int]
) -> None:
    """Raise :class:`~schedlang.errors.CallError` if ``array`` breaks one of ``facts``.

    ``name`` is the input's, and ``value_of`` gives the value of an end of a range.
    """
    if not array.size:
        return
    if facts.monotonic and array.shape[-1] > 1:
        falls = array[..., 1:] < array[..., :-1]
        if falls.any():
            at = tuple(int(k) for k in np.argwhere(falls)[0])
            next_ = (*at[:-1], at[-1] + 1)
            before, after = (", ".join(map(str, place)) for place in (at, next_))
            raise CallError(
                f"{name}[{after}] is {array[next_]}, less than {name}[{before}], "
                f"which is {array[at]}, but sl.assume({name}, monotonic=True) says that no element "
                f"is less than the one before it"
            )
    if facts.within is None:
        return
    low, high = map(value_of, facts.within)
    # the ends of a monotonic row are its least and its largest element
    ends = array[..., [0, -1]] if facts.monotonic else array
    if not _lie_within(ends, low, high):
        wrong = (array < low) | (array > high)
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        text = f"({facts.within[0]}, {facts.within[1]})"
        values = "" if text == f"({low}, {high})" else f" = ({low}, {high})"
        raise CallError(
            f"{name}[{', '.join(map(str, at)) or '()'}] is {array[at]}, but sl.assume({name}, "
            f"within={text}{values}) says that each element lies in {low}..{high}, {high} included"
        )


def _lie_within(values: np.ndarray, low: int, high: int) -> bool:
    """Return whether all elements are in ``low..high``, in one pass over them if ``low`` is 0."""
    if low or values.dtype.kind not in "iu":
        return low <= int(values.min()) and int(values.max()) <= high
    # a number below 0 has the bits of a large unsigned number
    largest = int(values.view(f"u{values.dtype.itemsize}").max())
    return largest <= min(high, int(np.iinfo(values.dtype).max))


__all__ = ["Facts", "assume", "check_facts", "elements", "facts_of", "span_of"]
