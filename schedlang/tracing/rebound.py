"""Names that refer to one of several arrays: after an ``if`` on elements, and after loops.

Which array a name refers to matters when one of them is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.tracing.array import TracedArray, array_of
from schedlang.tracing.calls import compute_once
from schedlang.tracing.leaves import flatten, is_traced, rebuilt
from schedlang.tracing.memory import Unchanged, storages_of
from schedlang.tracing.trace import Storage, Value, current
from schedlang.tracing.unknown import line_text


def is_array(value: Any) -> bool:
    """Return whether ``value`` is an array of a trace, which assignments may change."""
    return is_traced(value) and not value.is_scalar


def one_of(cond: Any, a: Any, b: Any) -> Any:
    """Return an array that is ``a`` where a scalar of bool holds, else ``b``.

    An assignment changes the one that it is.
    """

    def read(_: Value) -> Value:
        return _chosen(cond, a.value, b.value)

    def write(_: Value, value: Any) -> Value:
        b.assign(_chosen(cond, b.value, value))
        return _chosen(cond, value, a.value)

    return a.view_by(read, write, others=(b,), ordered=True, mirrored=lambda layout: layout)


def new_or_before(ran: Any, new: Any, before: Any) -> Any:
    """Return the array of a name after a loop that ``ran`` if a scalar of bool holds.

    It is ``new``, or the array ``before`` the loop, whose value ``new`` has then.
    """
    same = Unchanged(before)

    def read(base: Value) -> Value:
        # the body of a loop may change the array after this line
        is_same = current() is same.trace and same.still()
        return base if is_same else _chosen(ran, base, before.value)

    def write(_: Value, value: Any) -> Value:
        before.assign(_chosen(ran, before.value, value))
        return value

    return new.view_by(read, write, others=(before,), ordered=True, mirrored=lambda layout: layout)


class LoopNames:
    """The arrays that names refer to after an iteration of the loop at a ``line``, and after it.

    It is ``counted`` if it certainly has iterations, and all of them run.
    """

    def __init__(self, line: int, counted: bool) -> None:
        self.line, self.counted = line, counted
        self.begun: dict[Storage, Value] = {}
        # whether names may refer to one array after the loop, or to arrays around it
        self.shared = False
        self.around: list[Storage] = []

    def before_iteration(self, entering: Sequence[Any]) -> None:
        """Note the values with which names enter an iteration."""
        arrays = filter(is_array, flatten(list(entering))[0])
        self.begun = {a.storage: current().read(a.storage) for a in arrays}
        self.shared, self.around = False, []

    def after_iteration(self, values: dict[str, Any], entering: Sequence[Any]) -> dict[str, Any]:
        """Return the values of names after an iteration which they entered with other ones.

        A view of memory that another name has, too, becomes a copy. Raise ``ComputeTypeError`` if
        the loop writes to such memory, or if it is counted: unrolled, it needs no copy.
        """
        inner = current()
        own = {name: _storages(v) for name, v in zip(values, entering)}
        memory = {name: _storages(v) for name, v in values.items()}
        counts = Counter(storage for storages in memory.values() for storage in storages)

        def has_own_memory(name: str, array: Any) -> bool:
            return all(
                counts[s] == 1 and s.home is inner and (s not in self.begun or s in own[name])
                for s in storages_of(array)
            )

        def after(name: str, array: Any) -> Any:
            storages = storages_of(array)
            inside = all(s.home is inner for s in storages)
            if not array.is_view and inside:
                self.shared |= not self.counted and not has_own_memory(name, array)
                return array
            if has_own_memory(name, array) and not any(s in self.begun for s in storages):
                return array
            self._check_not_written(name)
            self.shared = True
            self.around += [s for s in storages if s.home is not inner]
            return array_of(array.value, array.in_order)

        return {name: _each_array(partial(after, name), v) for name, v in values.items()}

    def _check_not_written(self, name: str) -> None:
        inner = current()
        if (
            self.counted
            or inner.written
            or any(inner.read(s) is not v for s, v in self.begun.items())
        ):
            raise ComputeTypeError(f"{name} shares memory with another array after an iteration")

    def after_loop(self, after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
        """Return what names refer to after the loop, before which they had other values.

        Names that may refer to one array are not written, and read until an array is written that
        they may refer to.
        """
        if not self.shared:
            return after
        starts = [before[name] for name in after if name in before]
        others = list(filter(is_array, flatten(starts)[0]))
        others += [TracedArray(storage) for storage in self.around]
        why = f"since the loop at line {self.line} it may be the array of another name, too"
        kept = [Unchanged(other) for other in others]

        def read(base: Value) -> Value:
            for same in kept:
                if not same.still():
                    _refuse_stale(why)
                same.keep(partial(_refuse_stale, why))
            return base

        def guarded(array: Any) -> Any:
            if any(array is other for other in others):
                return array
            return array.view_by(
                read, others=others, why=why, ordered=True, mirrored=lambda layout: layout
            )

        return {name: _each_array(guarded, value) for name, value in after.items()}


def _each_array(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value whose arrays of the trace are replaced."""
    leaves, form = flatten(value)
    if not any(map(is_array, leaves)):
        return value
    return rebuilt(form, [change(leaf) if is_array(leaf) else leaf for leaf in leaves])


def _storages(value: Any) -> set[Storage]:
    """Return the memory of all arrays of a value."""
    return {s for array in filter(is_array, flatten(value)[0]) for s in storages_of(array)}


def _chosen(cond: Any, a: Any, b: Any) -> Value:
    value: Value = compute_once(np.where, (cond.value, a, b), {})
    return value


def _refuse_stale(why: str) -> NoReturn:
    raise ComputeError(
        explain(
            f"reading an array in {line_text()}, after an assignment to another one",
            f"{why}, and so have the old elements or the new ones",
            "Copy it in the loop: np.copy(x).",
        )
    )
