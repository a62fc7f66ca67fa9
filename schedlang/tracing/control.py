"""Functions that rewritten code (:mod:`schedlang.tracing.rewriting`) calls in place of syntax.

Where nothing depends on the elements of arrays, each does what Python does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from schedlang.tracing.array import array_of
from schedlang.tracing.branches import condition_of, is_unknown, merged
from schedlang.tracing.called import CALLED, TracedRange, truth
from schedlang.tracing.code import is_library, is_of_ctypes
from schedlang.tracing.element_ends import as_while
from schedlang.tracing.kept import end_of, has_items, items_of, run_kept, run_kept_while
from schedlang.tracing.leaves import flatten, is_traced
from schedlang.tracing.lookups import looked_up
from schedlang.tracing.missed_reads import missed, missed_or, read_of
from schedlang.tracing.source import from_source
from schedlang.tracing.spans import known_end
from schedlang.tracing.states import NOTHING, UNBOUND, State
from schedlang.tracing.trace import running_trace
from schedlang.tracing.unchanged import check_iterators, unchanged
from schedlang.tracing.unknown import refuse_c_function


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the user's as one that goes through this module, if it has a source."""
    trace = running_trace()
    if trace is None:
        return function
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return MethodType(converted(function.__func__), function.__self__)
    if not isinstance(function, FunctionType) or _is_plain(function):
        return function
    known = trace.outermost.converted
    if function not in known:
        known[function] = from_source(function, sys.modules[__name__]) or function
    return known[function]


def _is_plain(function: FunctionType) -> bool:
    """Return whether a function belongs to a library, whose code runs as it stands."""
    package = str(function.__module__).partition(".")[0]
    return is_library(function) or package in sys.stdlib_module_names


def _has_hash(function: Any) -> bool:
    """Return whether a function may be a key; functions of ctypes raise an error instead."""
    try:
        hash(function)
    except TypeError:
        return False
    return True


def call(function: Any, /, *args: Any, **named: Any) -> Any:
    """Return what a call in a traced function returns."""
    trace = running_trace()
    if trace is None:
        return function(*args, **named)
    check_iterators(trace, (*args, getattr(function, "__self__", None)))
    if is_of_ctypes(function) and any(map(is_traced, flatten((args, named))[0])):
        refuse_c_function(function)
    special = CALLED.get(function) if _has_hash(function) else None
    if special is not None:
        return special(function, args, named)
    return converted(function)(*args, **named)


def new_array(value: Any) -> Any:
    """Return the value of a name in whose elements the function writes."""
    trace = running_trace()
    if trace is None or not trace.outermost.tables.takes(value):
        return value
    return array_of(trace.constant(value), rows=bool(value.flags.c_contiguous))


# a:b:c in an index
slice_of = slice


def item(array: Any, index: Any) -> Any:
    """Return ``array[index]``."""
    return array[index] if running_trace() is None else looked_up(array, index)


def for_loop(items: Any, body: Callable[[Any], Any], state: State) -> Any:
    """Run ``body`` for each item until it returns true, which elements may decide.

    Return whether there is an iteration.
    """
    trace = running_trace()
    if trace is not None and isinstance(items, TracedRange) and items_of(items) is None:
        return while_loop(*as_while(items, body, state))
    if trace is not None and not run_kept(trace, items, body, state):
        return has_items(items)
    if trace is not None:
        check_iterators(trace, [items])
    on: Any = True
    ran = False
    for item in items:
        ran = True
        left = body(item) if on is True else merged(on, partial(body, item), _stays, state)
        if trace is not None and is_unknown(left):
            on = np.logical_and(on, np.logical_not(left))
        elif left:
            break
    return ran


def while_loop(
    test: Callable[[], Any],
    body: Callable[..., Any],
    state: State,
    step: int = 0,
    stop: Callable[[], Any] | None = None,
) -> Any:
    """Run ``body`` while ``test`` holds, until it returns true; elements may decide about both.

    Return whether there is an iteration. With ``stop``, the test compares this end and a counter to
    which each iteration adds ``step``, unless it is ``None``.
    """
    trace = running_trace()
    ran: Any = False
    if trace is None:
        while test():
            ran = True
            if body():
                break
        return ran
    if stop is not None:
        first, end = state.value(state.counter), stop()
        if _is_known(first) and _is_known(end):
            numbers = call(range, first, end, step)
            ran = for_loop(numbers, body, state.counted())
            if not state.ends:
                state.set({state.counter: end_of(numbers)})
            return ran
    again = test()
    ran = condition_of(again) if is_unknown(again) else bool(again)
    if not is_unknown(again) and again:
        # the first iteration tells whether elements may end the loop
        before, point = state.values(), trace.point()
        containers = unchanged(trace, before, test, body)
        left = body()
        if is_unknown(left):
            containers.undo()
            trace.go_back(point)
            state.set(before)
            run_kept_while(trace, True, test, body, state)
            return ran
        again = not left and test()
    while not is_unknown(again):
        if not again:
            return ran
        left = body()
        again = merged(np.logical_not(left), test, _stays, NOTHING) if is_unknown(left) else (
            not left and test()
        )  # fmt: skip
    run_kept_while(trace, again, test, body, state)
    return ran


def either_flag(one: Any, other: Any) -> Any:
    """Return a flag that holds if one of two does."""
    if not is_traced(one) or not is_traced(other):
        return (one or other) if not is_traced(one) else (other or one)
    return np.logical_or(one, other)


def end_of_range(stop: Callable[[], Any], *measured: Any) -> Any:
    """Return the end of a range; ``None`` if iterations may change what is ``measured`` for it."""
    fixed = (tuple, range, np.ndarray)
    return stop() if all(is_traced(v) or isinstance(v, fixed) for v in measured) else None


def _is_known(end: Any) -> bool:
    """Return whether the end of a range is an integer over numbers that are known."""
    return (type(end) is int or is_traced(end)) and known_end(end) is not None


def _stays() -> bool:
    """Return whether a body that does not run ends its loop."""
    return False


def branch(test: Any, then: Callable[[], Any], orelse: Callable[[], Any], state: State) -> Any:
    """Return what the side of an ``if`` returns that ``test`` chooses."""
    if running_trace() is not None and is_unknown(test):
        return merged(test, then, orelse, state)
    return then() if test else orelse()


def both(*parts: Callable[[], Any]) -> Any:
    """Return ``a and b and ...``."""
    return _joined(parts, False)


def either(*parts: Callable[[], Any]) -> Any:
    """Return ``a or b or ...``."""
    return _joined(parts, True)


def _joined(parts: Sequence[Callable[[], Any]], ends: bool) -> Any:
    """Return the first part whose truth value is ``ends``, else the last part."""
    value = parts[0]()
    if len(parts) == 1:
        return value
    return _unless(ends, value, partial(_joined, parts[1:], ends))


def _unless(ends: bool, value: Any, rest: Callable[[], Any]) -> Any:
    """Return a value if its truth value is ``ends``, else what ``rest`` returns."""
    if is_unknown(value):
        own = value
        if value.dtype == bool and not value.ndim:
            # the side that is taken tells its value, which proofs about the other side use
            own = ends if value.__class__ is bool else np.bool_(ends)
        then, orelse = ((lambda: own), rest) if ends else (rest, (lambda: own))
        return merged(condition_of(value), then, orelse, NOTHING)
    return value if bool(value) is ends else rest()


def compared(
    first: Any, compare: Callable[[Any, Any], Any], operand: Callable[[], Any], *others: Any
) -> Any:
    """Return ``a < b < c``: each operand runs once at most."""
    second = operand()
    value = compare(first, second)
    if not others:
        return value
    return _unless(False, value, partial(compared, second, *others))


def opposite(value: Any) -> Any:
    """Return ``not value``."""
    return truth(np.logical_not(condition_of(value))) if is_unknown(value) else not value


def is_same(a: Any, b: Any) -> Any:
    """Return ``a is b``; a bool of Python is ``True`` or ``False``, and one of NumPy neither."""
    for one, other in ((a, b), (b, a)):
        if is_traced(one) and one.__class__ is bool and type(other) is bool:
            return one if other else opposite(one)
    return a is b


def is_other(a: Any, b: Any) -> Any:
    """Return ``a is not b``."""
    return opposite(is_same(a, b))


def choice(test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return ``a if test else b``."""
    if is_unknown(test):
        return merged(test, a, b, NOTHING)
    return a() if test else b()


__all__ = [
    "UNBOUND",
    "State",
    "both",
    "branch",
    "call",
    "choice",
    "compared",
    "either",
    "for_loop",
    "item",
    "missed",
    "missed_or",
    "opposite",
    "read_of",
    "slice_of",
]
