"""The order in which parts run, chosen so that little memory is live at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")


def order_for_memory(
    items: Sequence[Item],
    reads: Mapping[Item, Sequence[Any]],
    writes: Mapping[Item, Sequence[Any]],
    size: Mapping[Any, int],
) -> list[Item]:
    """Return ``items`` in an order in which each follows those whose results it reads.

    It is the order of ``items``, which must be such an order, unless a greedy choice keeps less
    memory live: among the items that can run, the item after which least is live. ``size`` has the
    bytes of each result that is not kept to the end; others count nothing.

    >>> reads = {"a": [], "b": ["A"], "c": [], "d": ["C"], "e": ["B", "D"]}
    >>> writes = {"a": ["A"], "b": ["B"], "c": ["C"], "d": ["D"], "e": []}
    >>> order_for_memory("acbde", reads, writes, {"A": 9, "B": 1, "C": 9, "D": 1})
    ['a', 'b', 'c', 'd', 'e']
    """
    given = list(items)
    order = _greedy(given, reads, writes, size)
    better = peak(order, reads, writes, size) < peak(given, reads, writes, size)
    return order if better else given


def peak(
    order: Sequence[Item],
    reads: Mapping[Item, Sequence[Any]],
    writes: Mapping[Item, Sequence[Any]],
    size: Mapping[Any, int],
) -> int:
    """Return the most bytes of results that are live at once: until their last reader has run."""
    last = {result: place for place, item in enumerate(order) for result in reads[item]}
    live = most = 0
    for place, item in enumerate(order):
        live += sum(size.get(result, 0) for result in writes[item])
        most = max(most, live)
        ended = dict.fromkeys((*reads[item], *writes[item]))
        live -= sum(size.get(r, 0) for r in ended if last.get(r, place) == place)
    return most


def _greedy(
    items: Sequence[Item],
    reads: Mapping[Item, Sequence[Any]],
    writes: Mapping[Item, Sequence[Any]],
    size: Mapping[Any, int],
) -> list[Item]:
    maker = {result: item for item in items for result in writes[item]}
    readers: dict[Any, set[Item]] = {}
    waits: dict[Item, set[Item]] = {}
    for item in items:
        waits[item] = {maker[r] for r in reads[item] if r in maker}
        for result in reads[item]:
            readers.setdefault(result, set()).add(item)
    place = {item: k for k, item in enumerate(items)}
    next_ones: dict[Item, list[Item]] = {item: [] for item in items}
    for item, needed in waits.items():
        for other in needed:
            next_ones[other].append(item)

    def grows(item: Item) -> tuple[int, int]:
        """Return by how much more is live after an item, and its place, which decides ties."""
        more = sum(size.get(r, 0) for r in writes[item] if readers.get(r))
        freed = sum(size.get(r, 0) for r in dict.fromkeys(reads[item]) if readers[r] == {item})
        return more - freed, place[item]

    ready = [item for item in items if not waits[item]]
    order: list[Item] = []
    while ready:
        item = min(ready, key=grows)
        ready.remove(item)
        order.append(item)
        for result in reads[item]:
            readers[result].discard(item)
        for other in next_ones[item]:
            waits[other].discard(item)
            if not waits[other]:
                ready.append(other)
    return order
