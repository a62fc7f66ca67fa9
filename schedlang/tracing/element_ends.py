"""``for`` over a range whose ends are elements: a ``while`` with a counter of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Cast
from schedlang.language.construct import as_expr
from schedlang.tracing.array import plain, wrap
from schedlang.tracing.called import TracedRange
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.states import State
from schedlang.tracing.unknown import line_text


def as_while(
    numbers: TracedRange, body: Callable[[Any], Any], state: State
) -> tuple[Callable[[], Any], Callable[[], Any], State]:
    """Return the test, the body and the state of a ``while`` that runs ``body`` for ``numbers``."""
    stop, step = _of_python(numbers.stop), numbers.step
    # the name of a variable of the state, which an iteration may change
    _sl_counter = _of_python(numbers.start)

    def write(value: Any) -> None:
        nonlocal _sl_counter
        _sl_counter = value

    def test() -> Any:
        return _sl_counter < stop if numbers.up else _sl_counter > stop

    def iteration() -> Any:
        nonlocal _sl_counter
        item = _sl_counter
        left = body(item)
        _sl_counter = item + step
        return left

    return test, iteration, state.with_number("_sl_counter", lambda: _sl_counter, write)


def _of_python(end: Any) -> Any:
    """Return an end of a range as a number of Python, which the numbers of a range are."""
    if not is_traced(end):
        return end
    if end.ndim or end.dtype.kind not in "iu":
        kind = f"an array of shape {end.shape}" if end.ndim else f"a number of {end.dtype}"
        raise ComputeTypeError(
            explain(
                f"range(...) in {line_text()}",
                f"an end is {kind}, and Python takes integers",
                "Convert it first: int(...).",
            )
        )
    return wrap(Cast(as_expr(plain(end)), "int64", weak=True))
