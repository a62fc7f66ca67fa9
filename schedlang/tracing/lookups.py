"""Arrays and lists with known elements that a traced function reads at unknown places.

Neither ``table[i]`` nor ``np.take(table, i)`` of an array of NumPy calls a method of ``i``, so
rewritten code asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from schedlang.arrays.creation import asarray
from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Cast
from schedlang.tracing.array import array_of, wrap
from schedlang.tracing.items import has_other_operators, plain
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.spans import known_end
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text


def looked_up(table: Any, index: Any) -> Any:
    """Return ``table[index]``, in a trace where the ``index`` may be unknown."""
    if not _is_unknown(index):
        return table[index]
    if isinstance(table, np.ndarray) and not is_traced(table) and table.ndim:
        return table[index] if has_other_operators(table) else _of_known(table)[index]
    if type(table) in (list, tuple) and is_traced(index) and index.is_scalar:
        return _of_numbers(table, index)
    return table[index]


def taken(function: Any, args: Any, named: Any) -> Any:
    """Return ``np.take`` of an array with known elements at unknown places."""
    given = signature(function).bind(*args, **named).arguments
    table, index = given["a"], given["indices"]
    if is_traced(table) or not _is_unknown(index):
        return function(*args, **named)
    rest = {name: value for name, value in given.items() if name not in ("a", "indices")}
    places = array_of(asarray(plain(index))) if isinstance(index, (tuple, list)) else index
    return function(_of_known(np.asarray(table)), places, **rest)


def _of_numbers(table: Sequence[Any], index: Any) -> Any:
    """Return the number of a list that is at an unknown place.

    Python's ``for`` over the places themselves has the numbers, which may be sizes.
    """
    kinds = set(map(type, table))
    kind = kinds.pop() if len(kinds) == 1 else None
    if index.dtype.kind not in "iu" or (kind is not float and known_end(index) is not None):
        return table[index]
    if kind not in (float, int, bool):
        raise ComputeTypeError(
            explain(
                f"an element of a {type(table).__name__} in {line_text()}",
                "its place is unknown while the function is traced, and its elements are not all "
                "floats, all integers or all bools",
                "Make it an array before: table = np.array([...]), and table[k] is its element.",
            )
        )
    # a number of Python, which takes the dtype of what it meets
    element = plain(array_of(current().constant(np.array(table)))[index])
    return wrap(Cast(element, element.dtype, weak=True))


def _is_unknown(index: Any) -> bool:
    """Return whether an index has an array or a number of the trace."""
    if isinstance(index, (tuple, list)):
        return any(map(_is_unknown, index))
    if isinstance(index, slice):
        return any(map(is_traced, (index.start, index.stop, index.step)))
    return is_traced(index) or hasattr(type(index), "as_array")


def _of_known(table: np.ndarray) -> Any:
    """Return an array of NumPy as an array of the trace, which shows what is written later."""
    start = array_of(plain(table), rows=bool(table.flags.c_contiguous))
    return start.view_by(
        lambda _: plain(table),
        known=(table,),
        ordered=True,
        mirrored=lambda layout: layout,
        why="its array has known elements, and the place is unknown while the function is traced",
    )
