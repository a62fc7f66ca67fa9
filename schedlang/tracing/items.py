"""Arguments and indices in a traced function: the values of its arrays in their place."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from schedlang.arrays.creation import asarray
from schedlang.arrays.operands import axis_in
from schedlang.arrays.taking import MOST_CHOICES
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, SchedlangError, explain
from schedlang.expr.nodes import Expr
from schedlang.tracing.leaves import container_of, flatten, is_traced, sequence_of
from schedlang.tracing.spans import known_end
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text, refuse_element


def plain(value: Any) -> Any:
    """Return the values of traced arrays, and placeholders for NumPy's arrays. Anything else is
    returned unchanged.
    """
    if is_traced(value):
        return value.value
    if hasattr(type(value), "as_array"):
        # elements under a mask
        return value.as_array().value
    if isinstance(value, np.ndarray):
        if has_other_operators(value):
            name = type(value).__name__
            raise ComputeTypeError(
                explain(
                    f"a {name} in {line_text()}",
                    f"the operators of {name} differ from the operators of a trace's arrays",
                    "Use arrays: np.asarray(m) for a matrix, where x @ y is the product; "
                    "m.filled(v) for a masked array, with its mask as an array.",
                )
            )
        check_numbers(value, f"an array in {line_text()}", ComputeTypeError)
        return current().constant(value) if value.ndim else value[()]
    kind = container_of(value)
    if kind is dict:
        return {key: plain(v) for key, v in value.items()}
    if kind is not None:
        return sequence_of(kind, (plain(v) for v in value))
    return value


_CODES = "Pass numbers in their place: values, codes = np.unique(x, return_inverse=True)."
# by the kind of NumPy's dtype: what the elements are, and what to pass instead
_NO_NUMBERS = {
    "V": ("a structured array", "Pass its fields, each an array of numbers: x['{field}']."),
    "U": ("an array of strings", _CODES),
    "S": ("an array of bytes strings", _CODES),
    "T": ("an array of strings", _CODES),
    "O": ("an array of Python objects", "Convert it to numbers: x.astype('float64')."),
    "M": ("an array of dates", "Pass its numbers, x.astype('int64')."),
    "m": ("an array of time differences", "Pass its numbers, x.astype('int64')."),
}  # fmt: skip


def check_numbers(array: np.ndarray, what: str, error: type[SchedlangError]) -> None:
    """Raise an ``error`` for an array whose elements are not numbers."""
    if array.dtype.kind in _NO_NUMBERS and array.dtype.isbuiltin != 2:
        kind, hint = _NO_NUMBERS[array.dtype.kind]
        fields = array.dtype.names or ("a",)
        raise error(
            explain(
                f"{what} of dtype {array.dtype}",
                f"it is {kind}, and kernels compute with numbers",
                hint.format(field=fields[0]),
            )
        )


def has_other_operators(value: Any) -> bool:
    """Return whether an array is of a class that computes otherwise, such as ``np.matrix``."""
    names = ("__mul__", "__array_ufunc__", "__array_function__")
    return isinstance(value, np.ndarray) and any(
        getattr(type(value), name) is not getattr(np.ndarray, name) for name in names
    )


def assigned_value(value: Any) -> Any:
    """Return the value of an assignment, which may be a list of numbers."""
    return plain(np.asarray(value) if isinstance(value, (list, tuple)) else value)


def index_of(item: Any) -> Any:
    """Return an index with the values of traced arrays; scalars among them as expressions."""
    if isinstance(item, tuple):
        # a tuple in a tuple is an array of indices
        return tuple(index_of([*i] if isinstance(i, tuple) else i) for i in item)
    if isinstance(item, slice):
        return slice(*(_end(end) for end in (item.start, item.stop, item.step)))
    is_array = isinstance(item, np.ndarray) and not is_traced(item) and item.ndim
    if isinstance(item, list) or is_array:
        return _known_index(item)
    index = plain(item)
    if is_traced(item) and item.is_scalar and isinstance(index, Tensor):
        return index[()]
    return index


def _end(end: Any) -> Any:
    """Return an end of a slice, which may be an expression over the indices of loops."""
    if not is_traced(end):
        return end
    known = known_end(end)
    # raises, since it is unknown
    return operator.index(end) if known is None else known


def _known_index(item: Any) -> Any:
    """Return a list of indices, or an array of indices, as an index of a tensor.

    A short one stays a list; a longer one becomes a constant of the trace. Numbers of the trace
    become one of its arrays.
    """
    if isinstance(item, list):
        if any(map(is_traced, flatten(item)[0])):
            return asarray(plain(item))
        if not all(isinstance(v, (int, np.bool_, np.integer)) for v in flatten(item)[0]):
            return plain(item)
    elif not current().closed or item.dtype.kind not in "biu":
        return plain(item)
    array = np.asarray(item)
    if array.dtype == bool or array.size <= MOST_CHOICES:
        return array.tolist()
    return plain(array)


def refuse_axes(array: Any, item: Any) -> None:
    """Raise if an index has an axis of ``sl.compute``, which runs over the elements of a tensor."""
    for part in item if isinstance(item, tuple) else (item,):
        if isinstance(part, Expr) and axis_in(part) is not None:
            refuse_element(array)


def copies(item: Any) -> bool:
    """Return whether an index has an array, also a 0-d one, so that NumPy copies the elements."""
    items = item if isinstance(item, tuple) else (item,)
    return any(
        isinstance(i, (list, tuple, np.ndarray)) or (is_traced(i) and not i.is_scalar)
        for i in items
    )


def has_ellipsis(picked: Any) -> bool:
    return any(i is Ellipsis for i in (picked if isinstance(picked, tuple) else (picked,)))


def in_order(picked: Any) -> bool:
    """Return whether an index of slices and numbers keeps the order of elements in memory."""
    items = picked if isinstance(picked, tuple) else (picked,)
    return all(not isinstance(i, slice) or i.step is None or i.step > 0 for i in items)


def unknown_places(picked: Any) -> bool:
    """Return whether an index has arrays or bools, or places that only a call knows."""
    items = picked if isinstance(picked, tuple) else (picked,)
    return any(isinstance(i, (Expr, Tensor, list, np.ndarray, bool, np.bool_)) for i in items)


def with_all(picked: Any) -> tuple[Any, ...]:
    """Return an index with ``...``, by which NumPy returns a view of a single element, too."""
    items = picked if isinstance(picked, tuple) else (picked,)
    return items if any(i is Ellipsis for i in items) else (*items, Ellipsis)
