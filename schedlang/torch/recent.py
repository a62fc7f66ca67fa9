"""The graphs and kernels that an operator keeps of its latest calls, by shapes and dtypes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# the values that are kept, those used latest
MOST = 64


class Recent(Generic[K, V]):
    """Values by keys, each made when it is first asked for; those not used for longest go first.

    >>> squares = Recent(2)
    >>> [squares.value(k, lambda: k * k) for k in (1, 2, 1, 3)], len(squares)
    ([1, 4, 1, 9], 2)
    >>> squares.value(1, lambda: "made again"), squares.value(2, lambda: "made again")
    (1, 'made again')
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._values)

    def value(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of ``key``; one thread at a time makes values."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
            return self._values[key]
