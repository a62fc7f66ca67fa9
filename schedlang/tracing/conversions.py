"""``np.array``, ``np.asarray`` and their like of arrays of a trace, and of lists with some."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from schedlang.arrays.creation import asarray
from schedlang.tracing.array import array_of
from schedlang.tracing.items import plain
from schedlang.tracing.leaves import flatten, is_traced
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text
from schedlang.tracing.views import is_contiguous

# the parameters of these functions that a trace knows
_PARAMETERS = signature(lambda a, dtype=None, *, copy=None, like=None: None)


def converted_array(function: Any, args: Any, named: Any) -> Any:
    """Return an array as NumPy's ``function`` does: the argument itself, or a copy.

    Anything without arrays of the trace, and what the function is asked besides a dtype and a copy,
    is left to NumPy.
    """
    leaves = flatten([list(args), named])[0]
    try:
        given = _PARAMETERS.bind(*args, **named)
    except TypeError:
        return function(*args, **named)
    if not any(map(is_traced, leaves)) or is_traced(given.arguments.get("dtype")):
        return function(*args, **named)
    value, dtype = given.arguments["a"], given.arguments.get("dtype")
    copy = given.arguments.get("copy", True if function is np.array else None)
    if not is_traced(value):
        return array_of(asarray(plain(value), dtype), rows=True)
    if value.is_scalar:
        # NumPy makes an array without dimensions
        value = array_of(value.value)
        return value if dtype is None else value.astype(dtype)
    if dtype is not None and value.dtype != dtype:
        return value.astype(dtype)
    return np.copy(value) if copy else value


def converted_scalar(function: Any, args: Any, named: Any) -> Any:
    """Return ``np.float64(x)`` and its like of an array or a scalar of the trace."""
    if named or len(args) != 1 or not is_traced(args[0]):
        return function(*args, **named)
    return args[0].astype(function)[()]


def rows_of(function: Any, args: Any, named: Any) -> Any:
    """Return ``np.ascontiguousarray(x)``: a copy unless the elements lie row by row."""
    if named or len(args) != 1 or not is_traced(args[0]):
        return function(*args, **named)
    given = args[0]
    if not given.shape:
        return np.reshape(given, 1)
    if is_contiguous(given):
        current().assume_rows(f"np.ascontiguousarray in {line_text()}")
        return given
    # NumPy copies what is known to be strided
    return given.copy() if given.layout is not None else np.reshape(np.ravel(given), given.shape)


def divided(function: Any, args: Any, named: Any) -> Any:
    """Return ``divmod(a, b)``."""
    if named or len(args) != 2 or not any(map(is_traced, args)):
        return function(*args, **named)
    return args[0] // args[1], args[0] % args[1]


__all__ = ["converted_array", "converted_scalar", "divided", "rows_of"]
