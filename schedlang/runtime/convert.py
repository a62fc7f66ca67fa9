"""te's ``tvm.runtime.convert``: Python's values as the values that expressions have."""

from __future__ import annotations

from typing import Any

from schedlang.errors import ComputeTypeError
from schedlang.signatures import public


@public
def convert(value: Any) -> Any:
    """Return a number as a constant, a list or tuple of such values as a tuple of constants.

    A constant adapts to the dtype of the other operand. Everything that expressions and packed
    functions take already is unchanged: tensors, axes, texts, functions. Raise
    :class:`~schedlang.errors.ComputeTypeError` for a set.

    >>> convert(3), convert([1, 2.5])
    (3, (1, 2.5))
    >>> convert(3).value
    3
    """
    if isinstance(value, (bool, int, float)):
        # a saved network runs without the language
        from schedlang.language.construct import const

        return const(value)
    if isinstance(value, (list, tuple)):
        return tuple(convert(item) for item in value)
    if isinstance(value, dict):
        return {key: convert(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        raise ComputeTypeError(f"tvm.runtime.convert({value!r}): a set has no order; give a list")
    return value
