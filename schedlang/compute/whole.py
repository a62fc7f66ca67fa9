"""The language's functions of whole tensors, which map over their elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.signatures import public

Function = TypeVar("Function", bound=Callable[..., Any])


def elementwise(word: str, function: Callable[..., Any], *values: Any) -> Any:
    """Return ``function(*values)``; if a value is a whole tensor, a stage named after ``word``."""
    for value in values:
        if isinstance(value, Tensor) and value.ndim:
            # set by schedlang.arrays, which imports this package
            return value._elementwise(word, function, *values)
    return function(*values)


def traceable(function: Function) -> Function:
    """Return a public ``function``, which then also takes arrays of a traced function.

    Their class applies it to their values: its method ``apply_traced``.
    """

    @public
    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        for value in (*args, *named.values()) if named else args:
            # defined by schedlang.tracing, which imports this package
            apply = getattr(type(value), "apply_traced", None)
            if apply is not None:
                return apply(function, args, named)
        return function(*args, **named)

    return called  # type: ignore[return-value]


def refuse_traced(asked: str, *values: Any) -> None:
    """Raise if one of ``values``, which ``asked`` takes as tensors, is an array of a trace."""
    for value in values:
        refuse = getattr(type(value), "refuse_outside", None)
        if refuse is not None:
            refuse(value, asked)


def refuse_functions(asked: str, *values: Any) -> None:
    """Raise if one of ``values``, which ``asked`` takes as tensors, is a function to trace."""
    for value in values:
        # a tensor lists similar names for one that it lacks
        function = value if isinstance(value, Tensor) else getattr(value, "function", value)
        if isinstance(function, FunctionType):
            name = function.__name__ if function.__name__.isidentifier() else "f"
            raise ComputeTypeError(
                explain(
                    f"{asked}({name})",
                    f"{name} is a function, and {asked} takes the tensors that it computes",
                    f"Trace it: C = sl.trace({name}, *args), with an array or a placeholder for "
                    f"each argument, then {asked}(C).",
                )
            )
