"""``for`` and ``while`` of a traced function: kept as loops where they can be, else unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schedlang.arrays.shapes import extent, same_shape
from schedlang.errors import ComputeTypeError, SchedlangError, explain
from schedlang.expr.nodes import Expr
from schedlang.tracing.array import array_of, wrap
from schedlang.tracing.branches import choose, is_unknown, merged
from schedlang.tracing.called import TracedRange, TracedZip
from schedlang.tracing.carry_checks import LoopSource, title_of
from schedlang.tracing.creation import create
from schedlang.tracing.leaves import flatten, is_traced, rebuilt
from schedlang.tracing.leaving import PREFIX
from schedlang.tracing.loops import run_loop, run_while
from schedlang.tracing.masked import MaskedElements
from schedlang.tracing.ranged import RangedElements
from schedlang.tracing.rebound import LoopNames, is_array
from schedlang.tracing.recurrence import ends_early
from schedlang.tracing.spans import End, extent_between, known_end, of_lengths, range_of
from schedlang.tracing.states import NOTHING, UNBOUND, State, is_data
from schedlang.tracing.trace import Trace, current
from schedlang.tracing.unchanged import unchanged
from schedlang.tracing.unknown import line_text

# a loop of so few iterations is unrolled, unless it has a loop in it
FEW = 4

# the carries of a loop that elements may end: whether it goes on, and its last iteration
ON, AT = f"{PREFIX}on", f"{PREFIX}at"

# what a body may raise that works with Python's numbers only
_UNKNOWN = (SchedlangError, TypeError, ValueError, IndexError, NameError, AttributeError, KeyError)


class _ElementsEnd(Exception):
    """Elements decide whether the body of a loop ends it."""


@dataclass(frozen=True)
class Items:
    """The items of a loop: ``count`` of them, and ``at`` returns one by its number.

    The items are numbers from ``first`` on, unless that is ``None``.
    """

    count: End
    at: Callable[[Any], Any]
    first: int | None = None


def items_of(given: Any) -> Items | None:
    """Return the items of a range of integers, or the rows of an array; else ``None``."""
    if isinstance(given, range):
        first, numbers = given.start, _count_of(given)
        if given.step == 1:
            return Items(numbers, lambda k: first + k if first else k, first)
        return Items(numbers, lambda k: first + given.step * k)
    if isinstance(given, TracedRange):
        start, stop = known_end(given.start), known_end(given.stop)
        if start is None or stop is None or is_traced(given.step) or not given.step:
            return None
        ends = (start, stop) if given.up else (stop, start)
        count = extent((extent_between(*ends) + abs(given.step) - 1) // abs(given.step))
        if given.step == 1 and isinstance(start, int) and start == 0:
            return Items(count, lambda i: i, 0)
        return Items(count, lambda k: given.start + given.step * k)
    if isinstance(given, TracedZip):
        parts = [items_of(part) for part in given.parts]
        return _items_together([part for part in parts if part is not None], len(parts))
    if is_traced(given) and given.ndim:
        rows = known_end(given.extents[0])
        return None if rows is None else Items(rows, lambda k: given[k])
    return None


def _count_of(numbers: range) -> int:
    """Return how many numbers a range has; raise for more than an index of a kernel counts."""
    try:
        return len(numbers)
    except OverflowError:
        raise ComputeTypeError(
            explain(
                f"{numbers} in {line_text()}",
                "it has more numbers than int64, the dtype of the indices of loops, holds",
                f"Let the range end at most {2**63 - 1} numbers after its start.",
            )
        ) from None


def _items_together(parts: Sequence[Items], count: int) -> Items | None:
    """Return the items of several iterables side by side; ``None`` unless all are known to end."""
    ends = [part.count for part in parts]
    numbers = [end for end in ends if isinstance(end, int)]
    if len(parts) < count or (len(numbers) < count and not same_shape(ends[1:], ends[:-1])):
        return None
    shortest = min(numbers) if len(numbers) == count else ends[0]
    return Items(shortest, lambda k: tuple(part.at(k) for part in parts))


def has_items(given: Any) -> Any:
    """Return whether a loop over what :func:`run_kept` took has an iteration.

    It is a bool, or a scalar of bool over lengths and the indices of loops around.
    """
    items = items_of(given)
    assert items is not None
    least, _ = range_of(items.count)
    # a trace that needs an iteration runs in no other call
    if least or any(same_shape((items.count,), (needed,)) for needed in current().outermost.needs):
        return True
    return wrap(items.count) > 0 if isinstance(items.count, Expr) else items.count > 0


def run_kept(trace: Trace, given: Any, body: Callable[[Any], Any], state: State) -> bool:
    """Trace the body of a loop once; return whether Python is to run the loop instead."""
    items = items_of(given)
    if items is None:
        return True
    if isinstance(items.count, int) and items.count == 0:
        return False
    if isinstance(items.count, int):
        if items.count < 2 or (items.count <= FEW and not state.nested):
            if isinstance(given, TracedRange):
                for k in range(items.count):
                    body(items.at(k))
                return False
            return True
    before = state.values()
    containers = unchanged(trace, before, body)
    point = trace.point()
    try:
        try:
            after = _Kept(trace, items, body, state, before).run(given)
        except _ElementsEnd:
            containers.undo()
            trace.go_back(point)
            point = trace.point()
            after = _Kept(trace, items, body, state, before, stops=True).run(given)
        changed = containers.undo()
        if changed:
            raise ComputeTypeError(f"it changes {changed}")
    except _UNKNOWN as error:
        containers.undo()
        trace.go_back(point)
        state.set(before)
        if isinstance(given, TracedRange):
            raise
        own = f"{title_of(trace, LoopSource(state.line, []))}: "
        trace.outermost.unrolled[state.line] = _reason(error).removeprefix(own)
        return True
    unset = [n for n in state.names if n in state.live and before[n] is UNBOUND]
    if any(after[name] is not UNBOUND for name in unset):
        _need_an_iteration(trace, items.count, " and ".join(unset), state.line)
    state.set(after)
    return False


def _need_an_iteration(trace: Trace, count: End, names: str, line: int) -> None:
    """Let calls in which a symbolic range is empty have traces of their own.

    Only the body of the loop at a ``line`` assigns ``names``. Raise in a trace of all calls.
    """
    if isinstance(count, int) or range_of(count)[0] or of_lengths(count) is None:
        return
    if trace.outermost.closed:
        raise ComputeTypeError(
            explain(
                f"{names} after the loop at line {line} of {trace.outermost.title}",
                f"the loop has {count} iterations, which may be none, and only its body assigns "
                f"{names}",
                f"Assign to {names} before the loop.",
            )
        )
    trace.outermost.needs.append(count)


def run_kept_while(
    trace: Trace, again: Any, test: Callable[[], Any], body: Callable[[], Any], state: State
) -> None:
    """Run a loop that elements may end, whose ``test`` has the value ``again``."""
    before = state.values()
    carried = [n for n in state.names if n in state.carried | state.live and is_data(before[n])]
    containers = unchanged(trace, before, test, body)
    names = LoopNames(state.line, counted=False)
    # the body assigns these first
    own = [n for n in state.names if n in state.live and before[n] is UNBOUND]
    ends: dict[str, Any] = {}

    def step(parts: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        state.set({**before, **dict(zip(carried, parts))})
        names.before_iteration(parts)
        left = body()
        changed = containers.undo()
        if changed:
            raise ComputeTypeError(
                explain(
                    f"the while at line {state.line} of {trace.title}",
                    f"its body changes {changed}, and how often it runs depends on elements that "
                    "are unknown while the function is traced",
                    "Assign to names and to elements of arrays in the body.",
                )
            )
        if not is_unknown(left):
            more = False if left else test()
        else:
            more = merged(np.logical_not(left), test, bool, NOTHING)
        values = {name: _result(name, state.value(name)) for name in carried}
        try:
            values = names.after_iteration(values, parts)
        except ComputeTypeError as error:
            raise ComputeTypeError(
                explain(
                    f"the while at line {state.line} of {trace.title}",
                    f"{error}, and a loop on elements keeps arrays of their own",
                    "Assign a copy in the body: np.copy(...).",
                )
            ) from None
        for name in own:
            ends[name] = _zeros(state.value(name), ends.get(name))
        return more, list(values.values())

    def run() -> Sequence[Any]:
        starts = {name: before[name] for name in carried}
        own_names = ["the test", *_names_of_parts(starts)]
        source = LoopSource(state.line, own_names)
        return run_while(trace, again, step, list(starts.values()), body.__code__, source)

    if own:
        point = trace.point()
        run()
        trace.go_back(point)
        state.set(before)
        zeros = {name: value for name, value in ends.items() if is_data(value)}
        carried += zeros
        before |= zeros
    after = dict(zip(carried, run()))
    state.set({**before, **names.after_loop(after, before)})


def _names_of_parts(values: dict[str, Any]) -> list[str]:
    """Return the name of each array and number that names have."""
    return [name for name, value in values.items() for _ in flatten(value)[0]]


def _zeros(value: Any, before: Any = None) -> Any:
    """Return zeros in the form of a value, for a name to which nothing was assigned yet.

    A value that has no array of the trace stays as it is. A number of Python in ``before``, the
    zeros of a trace in which no number has a dtype yet, stays one.
    """
    leaves, form = flatten(value)
    if not any(map(is_traced, leaves)):
        return value
    zeros = list(map(_zero, leaves))
    known, other = flatten(before)
    if other == form:
        zeros = [a if type(a) in (bool, int, float) else b for a, b in zip(known, zeros)]
    return rebuilt(form, zeros)


def _zero(leaf: Any) -> Any:
    if not is_traced(leaf):
        return leaf
    # a number of Python takes the dtype of what it meets
    number = leaf.__class__ in (bool, int, float)
    if number:
        return leaf.__class__(0)
    if all(isinstance(extent, int) for extent in leaf.extents):
        zeros = np.zeros(leaf.extents, leaf.dtype)
        # a view of one element, x[..., i], is an array
        return zeros[()] if leaf.is_scalar else zeros
    return array_of(create(np.zeros, leaf.extents, leaf.dtype), rows=True)


def _result(name: str, value: Any) -> Any:
    """Return the value of a name; what the loop returns has arrays of its own.

    Nothing in the loop runs after it returns, so that no later write changes these arrays.
    """
    if not name.startswith(PREFIX):
        return value
    leaves, form = flatten(value)
    return rebuilt(form, [array_of(v.value) if is_array(v) and v.is_view else v for v in leaves])


def _last(given: Any, items: Items, before: Any, at: Any = None) -> Any:
    """Return the last item, the one ``at`` a place if elements end the loop there.

    If there may be none, it may be the value ``before`` the loop.
    """
    if not isinstance(given, TracedRange):
        last = given[-1] if at is None else items.at(at)
    else:
        last = wrap(items.at(items.count - 1 if at is None else at))
    least, _ = range_of(items.count)
    if (least is not None and least >= 1) or not is_data(before):
        return last
    if any(map(is_array, flatten([last, before])[0])):
        raise ComputeTypeError("its last row is another array if there are no rows")
    return choose(wrap(items.count) > 0, last, before)


def end_of(numbers: range | TracedRange) -> Any:
    """Return the number that follows the last one of a range."""
    if isinstance(numbers, range):
        return numbers.start + len(numbers) * numbers.step
    items = items_of(numbers)
    # both ends are known where a while is a loop over a range
    assert items is not None
    return wrap(items.at(items.count))


def _name(target: str) -> str:
    """Return the name of an index for kernels; a name such as ``_`` is not used."""
    return "t" if not target or target.startswith("_") else target


def _reason(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class _Kept:
    """One loop that is traced once."""

    def __init__(
        self,
        trace: Trace,
        items: Items,
        body: Callable[[Any], Any],
        state: State,
        before: dict[str, Any],
        stops: bool = False,
    ) -> None:
        self.trace, self.items, self.body, self.state, self.before = (
            trace, items, body, state, before
        )  # fmt: skip
        # elements may end the loop
        self.stops = stops
        counted = isinstance(items.count, int) and not stops
        self.memory = LoopNames(state.line, counted)
        self.constant: dict[str, Any] = {}

    def run(self, given: Any) -> dict[str, Any]:
        """Return the values of the names after the loop."""
        state, items = self.state, self.items
        starts: dict[str, Any] = {ON: np.True_, AT: 0} if self.stops else {}
        starts |= {
            name: self.before[name]
            for name in state.names
            if name in state.carried and self._is_carried(name)
        }
        # an iteration that does not assign to a name reads the value of one before
        read = {*state.live, *(n for n in state.carried if self.before[n] is UNBOUND)}
        last = [n for n in state.names if n in read and n not in starts and n != state.target]
        last = [n for n in last if not self._is_same(n)]
        last = [n for n in last if n in state.rebound or n in state.carried]
        if any(self.before[n] is UNBOUND or n not in state.carried for n in last):
            # with these, a loop that elements end keeps the values of its last iteration
            starts |= self._placeholders(starts, last)
        names = list(starts)

        def step(i: Any, carry: Any) -> Any:
            return tuple(self._step(i, dict(zip(names, carry)), names))

        code, head = self.body.__code__, f"line {state.line}"
        name = _name(state.target or state.counter)
        index = ("k", 0) if items.first is None else (name, items.first)
        init = tuple(starts.values())
        elements = given.value if is_traced(given) and len(given.shape) == 1 else None
        source = LoopSource(state.line, _names_of_parts(starts), index)
        ended = run_loop(self.trace, 0, items.count, step, init, code, head, source, self.stops)
        ends = self.memory.after_loop(dict(zip(names, ended or ())), self.before)
        after = {name: UNBOUND for name in state.names} | ends
        at = after.pop(AT, None)
        after.pop(ON, None)
        for name in state.names:
            if name not in starts and self._is_same(name):
                after[name] = self.before[name]
        if state.target in state.live:
            if elements is not None and given.value is not elements:
                raise ComputeTypeError(
                    f"its body changes the array of which {state.target} is the last"
                )
            after[state.target] = _last(given, items, self.before[state.target], at)
        return after | self.constant

    def _is_carried(self, name: str) -> bool:
        value = self.before[name]
        # x += y on an array changes the array itself
        is_array = is_traced(value) and not value.is_scalar
        return is_data(value) and (name in self.state.rebound or not is_array)

    def _is_same(self, name: str) -> bool:
        return self.before[name] is not UNBOUND and name not in self.state.rebound

    def _step(self, i: Any, parts: dict[str, Any], names: Sequence[str]) -> list[Any]:
        self.state.set({**self.before, **parts})
        self.memory.before_iteration(list(parts.values()))
        item = self.items.at(i)
        run = partial(self.body, item)
        masked = self.stops and not ends_early(self.trace.rule)
        left = merged(parts[ON], run, bool, self.state) if masked else run()
        if is_unknown(left) and not self.stops:
            raise _ElementsEnd
        if not is_unknown(left) and left:
            raise ComputeTypeError("its first iteration is its last one")
        target = self.state.target
        if target in self.state.live and not self.stops and self.state.value(target) is not item:
            raise ComputeTypeError(f"its body assigns to {target}, which is read after it")
        for name, old in self.before.items():
            new = self.state.value(name)
            same = new is old or (not is_traced(new) and not is_traced(old) and _equal(new, old))
            if name in names or name == self.state.target or same:
                continue
            if name in self.state.carried and old is not UNBOUND:
                raise ComputeTypeError(f"{name} is another object in the next iteration")
        own = {}
        if masked:
            on = parts[ON]
            own = {ON: np.logical_and(on, np.logical_not(left)), AT: choose(on, i, parts[AT])}
        elif self.stops:
            own = {ON: np.logical_not(left) if is_unknown(left) else np.True_, AT: i}
        values = {n: own[n] if n in own else _result(n, self.state.value(n)) for n in names}
        return list(self.memory.after_iteration(values, list(parts.values())).values())

    def _placeholders(self, starts: dict[str, Any], last: Sequence[str]) -> dict[str, Any]:
        """Return zeros in place of the first values of names that the body assigns anew."""
        ends: dict[str, Any] = {}
        zeros: dict[str, Any] = {}

        def step(i: Any, carry: Any) -> Any:
            parts = dict(zip(starts, carry))
            values = self._step(i, parts, list(starts))
            for name in last:
                value = ends[name] = self.state.value(name)
                if value is not self.before[name] and any(map(is_traced, flatten(value)[0])):
                    # shapes are known as long as the trace of the body runs
                    zeros[name] = _zeros(value)
            return tuple(values)

        point = self.trace.point()
        source = LoopSource(self.state.line, _names_of_parts(starts))
        run_loop(self.trace, 0, self.items.count, step, tuple(starts.values()),
                 self.body.__code__, "", source, self.stops)  # fmt: skip
        for name, value in ends.items():
            if is_data(self.before[name]) and not isinstance(self.items.count, int):
                # the range may be empty
                zeros[name] = self.before[name]
            elif name not in zeros and self.stops and is_data(value):
                zeros[name] = value
            elif name not in zeros and value is not UNBOUND:
                if isinstance(value, (MaskedElements, RangedElements)):
                    raise ComputeTypeError(f"elements decide how many elements {name} has")
                self.constant[name] = value
        self.trace.go_back(point)
        return zeros


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, (int, float, str, bool)) and a == b
