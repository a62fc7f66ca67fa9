"""A persistent mapping: each version shares most of its contents with the previous one."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Generic, TypeVar

V = TypeVar("V")
MOST = 64


class PersistentMap(Mapping[str, V], Generic[V]):
    """A mapping with some values replaced, in the key order of its base.

    A schedule keeps its state after every step. Full copies would take memory quadratic in the
    number of stages.

    >>> first = PersistentMap({"a": 1, "b": 2})
    >>> dict(first.replaced({"a": 3})), dict(first)
    ({'a': 3, 'b': 2}, {'a': 1, 'b': 2})
    """

    __slots__ = ("_base", "_over")

    def __init__(self, base: Mapping[str, V], over: Mapping[str, V] | None = None) -> None:
        self._base = base
        self._over = over or {}

    def replaced(self, values: Mapping[str, V]) -> PersistentMap[V]:
        """Return a mapping with new values for some keys of this one."""
        over = {**self._over, **values}
        if len(over) > MOST:
            return PersistentMap({**self._base, **over})
        return PersistentMap(self._base, over)

    def __getitem__(self, key: str) -> V:
        return self._over[key] if key in self._over else self._base[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._base)

    def values(self) -> ValuesView[V]:
        """Return the values in the order of the keys."""
        return {**self._base, **self._over}.values()

    def items(self) -> ItemsView[str, V]:
        """Return the keys with their values."""
        return {**self._base, **self._over}.items()

    def __len__(self) -> int:
        return len(self._base)

    def __contains__(self, key: object) -> bool:
        return key in self._base
