"""Lists and dicts that are arguments of a traced function: a call stores in them what the function
does.

The function runs once, on copies of the containers. What a copy holds afterwards, each call puts
into the caller's container: new results, other arguments, and what the function itself stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from schedlang.errors import CallError, ComputeTypeError, explain
from schedlang.tracing.items import is_traced
from schedlang.tracing.leaves import Form, container_of, sequence_of
from schedlang.tracing.masked import MaskedElements


@dataclass(frozen=True)
class OfCaller:
    """The container of the caller at ``place`` among the containers of a call."""

    place: int


@dataclass(frozen=True)
class OfResults:
    """The leaf at ``place`` among the results of a call."""

    place: int


@dataclass(frozen=True)
class HeldBefore:
    """The value in the caller's container at ``place`` under ``key`` before the call."""

    place: int
    key: Any


@dataclass(frozen=True)
class Kept:
    """A value of the function that each call stores as it is, such as a string."""

    value: Any


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a container of a ``kind``: parts, and for a dict their keys."""

    kind: type
    parts: tuple[Part, ...]
    keys: tuple[Any, ...] = ()


Part = Union[OfCaller, OfResults, HeldBefore, Kept, Contents]


@dataclass(frozen=True)
class Change:
    """The container of the caller at ``place``, the argument ``name``, holds ``contents`` now."""

    place: int
    name: str
    contents: Contents


@dataclass(frozen=True)
class Given:
    """A container that a trace got for the argument ``name``, with what it held then."""

    container: Any
    name: str
    place: int
    held: tuple[tuple[Any, ...], tuple[Any, ...]]

    @property
    def is_changed(self) -> bool:
        return not _same(self.held, _held(self.container))


@dataclass(frozen=True)
class Containers:
    """The containers among the arguments of a trace, by identity."""

    known: dict[int, Given] = field(default_factory=dict)

    def built(self, form: Form, leaves: Sequence[Any], name: str) -> Any:
        """Return nested containers of a ``form`` with these leaves, for the argument ``name``."""
        return self._built(form, iter(leaves), name)

    def _built(self, form: Form, leaves: Iterator[Any], name: str) -> Any:
        if form.kind is None:
            return None
        if form.kind == "leaf":
            return next(leaves)
        keys = form.keys if form.kind is dict else range(len(form.parts))
        parts = [
            self._built(part, leaves, f"{name}[{key!r}]") for key, part in zip(keys, form.parts)
        ]
        if issubclass(form.kind, tuple):
            return sequence_of(form.kind, parts)
        container: Any = dict(zip(keys, parts)) if form.kind is dict else parts
        self.known[id(container)] = Given(container, name, len(self.known), _held(container))
        return container

    def all(self) -> list[Any]:
        """Return the containers."""
        return [given.container for given in self.known.values()]

    def snapshot(self) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Return what all containers hold now."""
        return [_held(given.container) for given in self.known.values()]

    def changed_since(self, snapshot: Sequence[Any]) -> str:
        """Return the name of a container that holds other parts than in ``snapshot``, or ``""``."""
        pairs = zip(self.known.values(), snapshot)
        return next((g.name for g, then in pairs if not _same(then, _held(g.container))), "")

    def changes(self, leaves: list[Any]) -> tuple[Change, ...]:
        """Return the changes of the containers; arrays in them are added to ``leaves``."""
        contents: dict[int, Contents | None] = {}
        before = {
            id(value): HeldBefore(given.place, key)
            for given in self.known.values()
            for key, value in zip(given.held[0] or range(len(given.held[1])), given.held[1])
        }

        def part(value: Any) -> Part:
            known = self.known.get(id(value))
            if known is not None:
                return OfCaller(known.place)
            if container_of(value) is not None:
                return whole(value)
            if is_traced(value) or isinstance(value, (np.ndarray, MaskedElements)):
                leaves.append(value)
                return OfResults(len(leaves) - 1)
            _check_kept(value)
            return before.get(id(value), Kept(value))

        def whole(container: Any) -> Contents:
            # one container in two places stays one
            if id(container) not in contents:
                contents[id(container)] = None
                keys, parts = _held(container)
                parts = tuple(map(part, parts))
                contents[id(container)] = Contents(type(container), parts, keys)
            present = contents[id(container)]
            if present is None:
                raise ComputeTypeError(
                    f"{type(container).__name__} of the caller would hold itself: store a copy"
                )
            return present

        changed = [given for given in self.known.values() if given.is_changed]
        return tuple(Change(g.place, g.name, whole(g.container)) for g in changed)


def containers_of(value: Any) -> Iterator[Any]:
    """Yield the lists and dicts in nested containers, in the order of :class:`Containers`."""
    kind = container_of(value)
    if kind is None:
        return
    for part in value.values() if kind is dict else value:
        yield from containers_of(part)
    if not issubclass(kind, tuple):
        yield value


def check_apart(title: str, changes: Sequence[Change], containers: Sequence[Any]) -> None:
    """Raise ``CallError`` if a container that a function changes is given twice."""
    for change in changes:
        container = containers[change.place]
        if sum(other is container for other in containers) > 1:
            kind = type(container).__name__
            raise CallError(
                explain(
                    f"{title} changes {change.name}",
                    f"this {kind} stands twice among the arguments of the call, but was traced as "
                    "two",
                    f"Pass a copy: {kind}({change.name}).",
                )
            )


def store(changes: Sequence[Change], containers: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Put what a call computed into the caller's containers."""
    parts = _Parts(containers, leaves)
    # all values first: one container may hold another one
    values = [_items(change.contents, parts.value) for change in changes]
    for change, items in zip(changes, values):
        container = containers[change.place]
        container.clear()
        if isinstance(container, dict):
            container.update(items)
        else:
            container.extend(items)


@dataclass(frozen=True)
class _Parts:
    """The values of a call that containers store.

    It is a class, since a closure that calls itself would keep results alive.
    """

    containers: Sequence[Any]
    leaves: Sequence[Any]
    stored: dict[int, Any] = field(default_factory=dict)

    def value(self, part: Part) -> Any:
        if isinstance(part, OfCaller):
            return self.containers[part.place]
        if isinstance(part, OfResults):
            return self.leaves[part.place]
        if isinstance(part, HeldBefore):
            return self.containers[part.place][part.key]
        if isinstance(part, Kept):
            return part.value
        if id(part) not in self.stored:
            self.stored[id(part)] = sequence_of(part.kind, _items(part, self.value))
        return self.stored[id(part)]


def _items(contents: Contents, value_of: Callable[[Part], Any]) -> list[Any]:
    values = [value_of(part) for part in contents.parts]
    return list(zip(contents.keys, values)) if contents.kind is dict else values


def _check_kept(value: Any) -> None:
    """Raise for a container of another class that holds arrays of the trace."""
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        parts = value.values() if isinstance(value, dict) else value
        if any(is_traced(v) or isinstance(v, MaskedElements) for v in parts):
            kind = type(value).__name__
            raise ComputeTypeError(
                f"a {kind} of arrays is stored in a container of the caller: a traced function "
                f"stores arrays, and tuples, lists and dicts of them; write dict(...) or list(...)"
            )


def _held(container: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the keys of a dict, and what is in a container."""
    if isinstance(container, dict):
        return tuple(container), tuple(container.values())
    return (), tuple(container)


def _same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Return whether a container has the same keys, and the very same parts."""
    (keys, parts), (other_keys, other_parts) = one, other
    if len(parts) != len(other_parts) or keys != other_keys:
        return False
    return all(a is b for a, b in zip(parts, other_parts))
