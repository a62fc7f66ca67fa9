"""The arrays of an exercise in the order of each side.

``sl.reference`` takes inputs in the order of a computation's reads, so that an answer may read them
in another order than the expected result does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

from schedlang.compute.graph import placeholders
from schedlang.compute.tensor import Tensor


def in_order(arrays: Sequence[Any], given: Sequence[str], wanted: Sequence[str]) -> list[Any]:
    """Return ``arrays``, which have the names ``given``, in the order of the names ``wanted``.

    Their order stays if the names are not the same ones, each once. Further arrays follow.

    >>> in_order([1, 2, 3], ["A", "B"], ["b", "a"])
    [2, 1, 3]
    """
    names = [name.casefold() for name in given]
    order = [name.casefold() for name in wanted]
    if sorted(names) != sorted(order) or len(set(names)) < len(names) or len(arrays) < len(names):
        return list(arrays)
    return [*(arrays[names.index(name)] for name in order), *arrays[len(names) :]]


def input_names(outputs: Sequence[Tensor]) -> list[str]:
    """Return the names of the inputs of a computation, in the order of ``sl.reference``."""
    return [tensor.name for tensor in placeholders(outputs)]


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the positional parameters of a function; none if it does not tell them.

    >>> parameter_names(lambda a, b, *, axis=0: a)
    ['a', 'b']
    """
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in parameters
        if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
