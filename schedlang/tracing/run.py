"""A run of the user's function in a trace, with what it would do once and in no later call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.code import Use, uses_of
from schedlang.tracing.trace import Trace, call_traced
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
    uses = uses_of([function, *values])
    _refuse_type_tests(trace, uses)
    with refuse_draws(trace, uses, values):
        return call_traced(function, args, named)


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
