"""Arrays and lists with known elements that a traced function reads at unknown places.

``table[i]`` with an array of NumPy calls no method of ``i``, so rewritten code asks here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr.nodes import Cast
from schedlang.tracing.array import array_of, wrap
from schedlang.tracing.items import has_other_operators, plain
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.trace import current


def looked_up(table: Any, index: Any) -> Any:
    """Return ``table[index]``, in a trace where the ``index`` may be unknown."""
    if not _is_unknown(index):
        return table[index]
    if isinstance(table, np.ndarray) and not is_traced(table) and table.ndim:
        return table[index] if has_other_operators(table) else _of_known(table)[index]
    if _has_floats(table) and is_traced(index) and index.is_scalar and index.dtype.kind in "iu":
        # a float of Python, which takes the dtype of what it meets
        element = array_of(current().constant(np.array(table)))[index]
        return wrap(Cast(plain(element), "float64", weak=True))
    return table[index]


def _is_unknown(index: Any) -> bool:
    """Return whether an index has an array or a number of the trace."""
    if isinstance(index, tuple):
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


def _has_floats(table: Any) -> bool:
    return type(table) in (list, tuple) and bool(table) and all(type(v) is float for v in table)
