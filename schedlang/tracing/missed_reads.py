"""Reads of names that nothing was assigned to, where elements decide: calls raise Python's error.

The flags come from the source (:mod:`schedlang.tracing.unassigned`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.trace import Trace, running_trace

_ADVICE = "Assign to {0} before the loop or the if."


def missed_or(missed: Any, assigned: Any) -> Any:
    """Return whether a name was ``missed`` before, or is not ``assigned`` at a read of it."""
    if not is_traced(assigned):
        return missed if assigned else True
    here = np.logical_not(assigned)
    return here if missed is False else np.logical_or(missed, here)


def read_of(assigned: Any, value: Callable[[], Any], name: str) -> Any:
    """Return the value of a name that only one side of an expression reads."""
    trace = running_trace()
    if trace is not None and is_traced(assigned):
        place = trace.place()
        missed(np.logical_not(assigned), name, place.line if place else 0)
    return value()


def missed(flag: Any, name: str, line: int) -> None:
    """Let calls raise in which ``flag`` holds: a ``line`` read a name that nothing had assigned."""
    trace = running_trace()
    if trace is None or not is_traced(flag):
        # where elements do not decide, Python itself raises
        return
    where = f"{name} of {trace.outermost.title}"
    if trace.around is not None or trace.closed:
        raise ComputeTypeError(
            explain(
                f"{where} at line {line}",
                f"only a loop or a side of an if assigns {name}, elements decide whether it runs, "
                "and " + ("no tensor can raise" if trace.closed else "a loop calls the function"),
                _ADVICE.format(name),
            )
        )
    text = explain(
        where,
        f"line {line} reads it, and nothing was assigned to it in this call: only a loop or a side "
        "of an if does, and none ran",
        _ADVICE.format(name),
    )
    raise_where(trace, flag, text)


def raise_where(trace: Trace, flag: Any, text: str) -> None:
    """Let calls raise ``text`` in which ``flag`` holds, a scalar of bool of the outermost trace."""
    trace.missed.append((reduce(np.logical_and, trace.all_conditions(), flag), text))


def code_of(trace: Trace) -> tuple[list[Any], tuple[str, ...]]:
    """Return a result that is the number of the first name missed in a call, 0 if there is none.

    The second result has a text for each number, from 1 on. If there are no names, both are empty.
    """
    texts = tuple(dict.fromkeys(text for _, text in trace.missed))
    code: Any = 0
    for flag, text in reversed(trace.missed):
        code = np.where(flag, np.int64(texts.index(text) + 1), code)
    return ([code] if texts else []), texts


__all__ = ["code_of", "missed", "missed_or", "raise_where", "read_of"]
