"""The memory that an array of a trace names: storage, or a view of an array.

Where NumPy's answer depends on strides, as in ``reshape``, a view has a *layout*: an array of NumPy
with the same shape and strides, whose elements nothing reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

import numpy as np
from numpy.lib.stride_tricks import as_strided

from schedlang.arrays.shapes import same_shape
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, explain
from schedlang.tracing.conditional import write_where
from schedlang.tracing.trace import Storage, Trace, Value, current
from schedlang.tracing.unknown import line_text

# the value of a view from the base's value; and the base's new value from its old one and the
# view's
Read = Callable[[Value], Value]
Write = Callable[[Value, Any], Value]


@dataclass(eq=False)
class View:
    """The elements that an array of a trace names: all of ``storage``, or a part in a view.

    A view reads and writes through its ``base``. Without ``write`` it is read-only, and ``why``
    gives the reason. It is ``ordered`` if its elements lie in memory in the same order as the
    elements of ``base``; ``mirrored`` makes the same view of a layout. It may be one of ``others``
    in place of ``base``, or one of ``known``, arrays of NumPy in which the function may write.
    ``item`` is the index that chose it. Elements that NumPy has ``copied``, in this trace, become a
    storage of their own when they are written.
    """

    storage: Storage
    base: Optional[View] = None
    read: Optional[Read] = None
    write: Optional[Write] = None
    mirrored: Optional[Callable[[np.ndarray], np.ndarray]] = None
    ordered: bool = False
    why: str = ""
    item: Any = None
    copied: Optional[Trace] = None
    others: tuple[View, ...] = ()
    known: tuple[np.ndarray, ...] = ()
    _seen: Optional[tuple[list[Value], Value]] = None

    @property
    def value(self) -> Value:
        """The present value, a tensor or, of a 0-d array, an expression."""
        return self._value({})

    def _value(self, known: dict[int, Value]) -> Value:
        """Return the present value; ``known`` has the values of views on the way to it."""
        if self.base is None:
            return current().read(self.storage)
        if id(self) not in known:
            assert self.read is not None
            below = [view._value(known) for view in (self.base, *self.others)]
            seen = None if self.known else self._seen
            if seen is None or any(a is not b for a, b in zip(seen[0], below)):
                self._seen = seen = (below, self.read(below[0]))
            known[id(self)] = seen[1]
        return known[id(self)]

    def assign(self, value: Value) -> None:
        """Replace the value; if this is a view, replace the value of its base, too."""
        trace = current()
        if self.base is None:
            write_where(trace, self.storage, value)
        elif self.copied is not None and self.copied is trace:
            trace.assume_rows(self.why)
            start = self.value if trace.conditions else value
            self.storage, self.base = trace.new(start, rows=True), None
            write_where(trace, self.storage, value)
        elif self.write is None:
            refuse_assignment("" if self.copied else self.why)
        else:
            self.base.assign(self.write(self.base.value, value))

    @property
    def in_order(self) -> bool:
        """True if NumPy puts the elements of a result in the order of this array row by row."""
        if self.base is None:
            return self.storage.in_order
        alike = all(view.in_order for view in (self.base, *self._alike))
        return self.ordered and alike and all(a.flags.c_contiguous for a in self.known)

    @property
    def layout(self) -> np.ndarray | None:
        """An array of NumPy with the same shape and strides; ``None`` if they are unknown."""
        if self.base is None:
            shape = _shape(self.value)
            if self.storage.strides is not None:
                extents: Any = shape
                return as_strided(np.empty(1, "int8"), extents, self.storage.strides)
            return by_rows(shape) if self.storage.rows else None
        below = None if self.mirrored is None else self.base.layout
        if below is None or self.mirrored is None:
            return None
        layouts = [*self.known, *(view.layout for view in self._alike)]
        if any(other is None or _steps(other) != _steps(below) for other in layouts):
            return None
        return self.mirrored(below)

    @property
    def _alike(self) -> list[View]:
        """The others of the shape of the base, which this view may be."""
        assert self.base is not None
        shape = _shape(self.base.value)
        return [view for view in self.others if same_shape(_shape(view.value), shape)]


def _steps(array: np.ndarray) -> list[int]:
    """Return the strides of an array, in elements."""
    return [stride // array.itemsize for stride in array.strides]


def storages_of(array: Any) -> list[Storage]:
    """Return all memory that an array may name."""
    return list(dict.fromkeys(view.storage for view in _below(array._view)))


def _below(view: View) -> Iterator[View]:
    waiting = [view]
    while waiting:
        view = waiting.pop()
        yield view
        if view.base is not None:
            waiting += [view.base, *view.others]


class Unchanged:
    """The memory that an array may name, with the values that it has now."""

    def __init__(self, array: Any) -> None:
        self.trace: Trace = current()
        self.values = [(s, self.trace.read(s)) for s in storages_of(array)]
        self.known = [(a, a.tobytes()) for view in _below(array._view) for a in view.known]

    def still(self) -> bool:
        """Return whether no assignment changed the array since then."""
        return not any(
            self.trace.read(storage) is not value or current().changes(storage, self.trace)
            for storage, value in self.values
        ) and all(array.tobytes() == elements for array, elements in self.known)

    def keep(self, refuse: Callable[[], NoReturn]) -> None:
        """Let loops around this line ``refuse`` if their bodies change the array after it."""
        trace = current()
        while trace is not self.trace and trace.around is not None:
            trace.unsure.update((storage, refuse) for storage, _ in self.values)
            trace = trace.around


def _shape(value: Value) -> tuple[Any, ...]:
    return value.shape if isinstance(value, Tensor) else ()


def by_rows(shape: tuple[Any, ...]) -> np.ndarray | None:
    """Return a layout of elements that lie row by row; ``None`` if an extent is symbolic."""
    if not all(isinstance(extent, int) for extent in shape):
        return None
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return as_strided(np.empty(1, "int8"), shape, strides[::-1])


def part_of(layout: np.ndarray) -> np.ndarray:
    """Return the layout of the real or imaginary parts, every second number of complex ones."""
    return as_strided(layout, layout.shape, [2 * stride for stride in layout.strides])


def refuse_assignment(why: str) -> NoReturn:
    """Raise for an assignment to a view through which a trace cannot write."""
    raise ComputeError(
        explain(
            f"an assignment to elements of a view in {line_text()}",
            why or "it may be a view of another array, which a trace does not follow",
            "Assign to the array itself, or to a copy: np.copy(x).",
        )
    )
