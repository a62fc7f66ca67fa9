"""A run of the user's function in a trace, with what it would do once and in no later call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain, user_location
from schedlang.language.foreign import functions_of_user
from schedlang.tracing.code import Use, uses_of
from schedlang.tracing.control import converted
from schedlang.tracing.trace import KNOWN, Trace, current
from schedlang.tracing.varying import refuse_draws


def run(
    trace: Trace,
    function: Callable[..., Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    """Return what ``function`` returns.

    Raises :class:`~schedlang.errors.ComputeTypeError` if it draws random numbers from a generator
    that is not an argument, or compares the type of an array.
    """
    values = [*args, *named.values()]
    trace.uses = uses_of([function, *values])
    uses = trace.uses.uses
    _refuse_type_tests(trace, uses)
    with refuse_draws(trace, uses, values):
        traced = converted(function)
        trace.code = getattr(traced, "__code__", None)
        return call_traced(traced, args, named)


def call_traced(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the result of a traced function.

    Where NumPy refuses an array without values, the error explains why.
    """
    try:
        with functions_of_user():
            return function(*args, **named)
    except NameError as error:
        _refuse_unassigned(error)
        raise
    except TypeError as error:
        _refuse_list(error, function, args, named)
        if "unhashable type: 'TracedArray'" in str(error):
            raise ComputeTypeError(
                explain(
                    f"an array of {current().title} as a key of a dict, or in a set "
                    f"({user_location(error)})",
                    "its elements are unknown while the function is traced",
                    "Take a list, or keys that are known: numbers, strings.",
                )
            ) from error
        if not str(error).startswith("expected a sequence of integers or a single integer"):
            raise
        # NumPy's own message does not say why an array of the trace is not an integer
        raise ComputeTypeError(
            explain(
                f"an array of {current().title} where NumPy takes an integer "
                f"({user_location(error)})",
                "its elements are unknown while the function is traced",
                KNOWN,
            )
        ) from error
    except ValueError as error:
        if not str(error).startswith("setting an array element with a sequence"):
            raise
        title, place = current().title, user_location(error)
        raise ComputeTypeError(
            explain(
                f"an assignment into a NumPy array in {title} ({place})",
                "its elements would be values that are unknown while the function is traced",
                "Make the array part of the trace: np.zeros_like(x), or np.zeros(shape, dtype, "
                "like=x), where x is an argument.",
            )
        ) from error


def _refuse_unassigned(error: NameError) -> None:
    """Raise for a name that only a loop or a side of an ``if`` assigns, which may not run."""
    words = re.match("(cannot access )?(local|free) variable '(\\w+)'", str(error))
    if words:
        name = words[3]
        raise ComputeTypeError(
            explain(
                f"{name} in {current().title} ({user_location(error)})",
                f"only a loop or a side of an if assigns {name}; it does not run before this line, "
                "or elements that are unknown while the function is traced decide whether it does",
                f"Assign to {name} before the loop or the if.",
            )
        ) from error


def _refuse_list(
    error: TypeError, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Raise if a list of numbers was given for the array that the function computes with."""
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    for name, value in [*zip(names, args), *named.items()]:
        kind = type(value).__name__
        if isinstance(value, (list, tuple)) and _are_numbers(value) and kind in str(error):
            raise ComputeTypeError(
                explain(
                    f"{current().title}({name}=[...]) ({user_location(error)})",
                    f"{name} is a {kind} of {len(value)} in the function, too: {error}",
                    f"Pass an array: np.array({name}).",
                )
            ) from error


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return whether sequences hold numbers and sequences of numbers alone."""
    return bool(values) and all(
        _are_numbers(v) if isinstance(v, (list, tuple)) else getattr(v, "ndim", 0) == 0
        for v in values
    )


def _refuse_type_tests(trace: Trace, uses: Sequence[Use]) -> None:
    """Raise for a statement such as ``type(x) is np.ndarray``, which is false for traced arrays."""
    statements = {_statement(trace, use) for use in uses if use.value is type}
    for use in uses:
        if use.value is np.ndarray and _statement(trace, use) in statements:
            place = trace.statements.at(use.code, use.line)
            raise ComputeTypeError(
                explain(
                    f"type(...) and np.ndarray in {trace.title} at line {place.line}, "
                    f"`{place.text}`",
                    "the arrays of a traced function are of another type",
                    "Write isinstance(x, np.ndarray).",
                )
            )


def _statement(trace: Trace, use: Use) -> tuple[CodeType, int]:
    """Return the statement of a line, which it may share with other lines."""
    return use.code, trace.statements.at(use.code, use.line).line
