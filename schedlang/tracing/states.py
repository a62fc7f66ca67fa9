"""The names that the parts of a traced function share: their values before and after each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from schedlang.tracing.leaves import flatten
from schedlang.tracing.trace import Trace


class Unbound:
    """The value of a name that nothing was assigned to."""

    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND = Unbound()


class State:
    """The ``names`` that a loop's body or the sides of an ``if`` assign, at a ``line``.

    ``rebound`` are assigned anew rather than by ``+=`` alone. ``carried`` may be read before they
    are assigned, and ``live`` are read later, those that are ``sure`` in any case. ``target`` is
    the name of the loop's index, which a ``counter`` is that the body of a ``while`` changes.
    ``nested`` says that there is a loop in the body, and ``ends`` that the body may end the loop.
    ``word`` is what messages call an ``if``.
    """

    def __init__(
        self,
        getters: Sequence[Callable[[], Any]],
        assign: Callable[[int, Any], None],
        names: Sequence[str],
        live: Collection[str],
        line: int,
        rebound: Collection[str] = (),
        carried: Collection[str] = (),
        target: str = "",
        nested: bool = False,
        counter: str = "",
        ends: bool = False,
        sure: Collection[str] = (),
        word: str = "if",
    ) -> None:
        self._getters, self._assign = getters, assign
        self.names, self.line, self.target, self.nested = names, line, target, nested
        self.counter, self.ends = counter, ends
        self.rebound, self.carried, self.live = set(rebound), set(carried), set(live)
        self.sure, self.word = set(sure), word

    def counted(self) -> State:
        """Return the state of a ``while`` whose counter is the index of a range.

        If only the test may end the loop, the range tells where the counter ends.
        """
        own = {self.counter}
        live = self.live if self.ends else self.live - own
        return State(
            self._getters, self._assign, self.names, live, self.line, self.rebound | own,
            self.carried - own, "", self.nested, self.counter, self.ends, self.sure,
        )  # fmt: skip

    def values(self) -> dict[str, Any]:
        """Return the present values of all names."""
        return {name: self.value(name) for name in self.names}

    def value(self, name: str) -> Any:
        """Return the present value of a name, or ``UNBOUND``."""
        try:
            return self._getters[list(self.names).index(name)]()
        except NameError:
            return UNBOUND

    def set(self, values: dict[str, Any]) -> None:
        """Assign to names."""
        for k, name in enumerate(self.names):
            if name in values:
                self._assign(k, values[name])


# the state of an expression, which assigns nothing
NOTHING = State([], lambda at, value: None, [], [], 0)


class Unchanged:
    """Objects that a body reads, with copies to undo changes, which a trace does not follow.

    They are lists, dicts and sets, attributes, and arrays of NumPy, whose elements are known.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._kept: list[tuple[Any, Any]] = []
        for value in values:
            self._keep(value, 0)

    def _keep(self, value: Any, depth: int) -> None:
        if _has_attributes(value):
            value = vars(value)
        is_array = type(value) is np.ndarray and value.flags.writeable
        is_container = type(value) in (list, dict, set)
        if not (is_array or is_container) or any(value is v for v, _ in self._kept):
            return
        self._kept.append((value, value.copy()))
        if depth < 3 and is_container:
            for part in value.values() if isinstance(value, dict) else value:
                self._keep(part, depth + 1)

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays of NumPy."""
        return [value for value, _ in self._kept if isinstance(value, np.ndarray)]

    def undo(self) -> bool:
        """Put back what they held; return whether one had changed."""
        changed = [(value, old) for value, old in self._kept if not _same_parts(value, old)]
        for value, old in changed:
            if isinstance(value, np.ndarray):
                value[...] = old
                continue
            value.clear()
            value.extend(old) if isinstance(value, list) else value.update(old)
        return bool(changed)


def unchanged(trace: Trace, before: dict[str, Any], *parts: Callable[..., Any]) -> Unchanged:
    """Return the containers and arrays that functions made of a function's parts can reach.

    ``before`` has the values of the names that they assign.
    """
    cells = [value for part in parts for value in _cells(part)]
    return Unchanged([*cells, *before.values(), *trace.containers.all()])


def _has_attributes(value: Any) -> bool:
    """Return whether a value is an object of a class of the user's, whose attributes may change."""
    own = type(value).__module__.partition(".")[0] in ("schedlang", "numpy", "builtins")
    attributes = getattr(value, "__dict__", None)
    return not own and type(attributes) is dict and not isinstance(value, type)


def _cells(part: Callable[..., Any]) -> list[Any]:
    values = []
    for cell in getattr(part, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            continue
    return values


def _same_parts(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.tobytes() == b.tobytes()
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(a[k] is b[k] for k in a)
    return a == b if isinstance(a, set) else all(x is y for x, y in zip(a, b))


def is_data(value: Any) -> bool:
    """Return whether a value consists of arrays and numbers."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(hasattr(v, "dtype") or isinstance(v, (int, float, complex))
                                for v in leaves)  # fmt: skip
