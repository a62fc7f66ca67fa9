"""Lists of numbers, and of arrays, among the operands of NumPy's functions, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.creation import asarray
from schedlang.arrays.functions import FORMS
from schedlang.language.numpy_functions import name_of
from schedlang.tracing.items import plain
from schedlang.tracing.leaves import flatten, is_traced

# NumPy's parameters that take one array
_OPERANDS = {
    "a", "b", "x", "y", "v", "a1", "a2", "a_min", "a_max", "min", "max", "condition", "default",
    "values", "weights", "arr", "append", "prepend", "where",
}  # fmt: skip
# and those that take several
_SEVERAL = {"arrays", "choicelist", "condlist"}


def operand(value: Any) -> Any:
    """Return a list or tuple of numbers and arrays as NumPy makes an array of it.

    Anything else is returned unchanged.
    """
    if type(value) not in (list, tuple):
        return value
    leaves = flatten(value)[0]
    if any(map(is_traced, leaves)):
        return asarray(plain(value)) if all(map(_is_operand, leaves)) else value
    return np.asarray(value) if all(map(_is_operand, leaves)) else value


def _is_operand(value: Any) -> bool:
    kinds = (bool, int, float, complex, np.bool_, np.number)
    return is_traced(value) or isinstance(value, kinds)


def with_operands(
    function: Any, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call of NumPy's ``function``; its operands are not lists."""
    form = FORMS.get(name_of(function))
    if form is None:
        return tuple(args), dict(named)
    if form.variadic:
        # a list beside an array is its axes in np.einsum(x, [0, 1])
        lists = name_of(function) == "einsum" and not isinstance(args[0], str)
        return tuple(args if lists else map(operand, args)), dict(named)
    given = [_given(name, value) for name, value in zip(form.names, args)]
    return (*given, *args[len(given) :]), {k: _given(k, v) for k, v in named.items()}


def _given(name: str, value: Any) -> Any:
    if name in _SEVERAL and type(value) in (list, tuple):
        return type(value)(map(operand, value))
    return operand(value) if name in _OPERANDS else value
