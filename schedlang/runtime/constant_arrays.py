"""Arrays that stay as they are: what one was checked for need not be checked again."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np


def is_constant(array: Any) -> bool:
    """Return whether NumPy writes neither to an array nor to one that it is a view of.

    An array that another library or a file shares is none: somebody else may write to it.

    >>> a = np.arange(6)
    >>> part = a[2:]
    >>> part.flags.writeable = False
    >>> is_constant(part)
    False
    >>> a.flags.writeable = False
    >>> is_constant(part), is_constant(np.frombuffer(b"abc", "uint8"))
    (True, True)
    """
    while type(array) is np.ndarray:
        if array.flags.writeable:
            return False
        if array.base is None:
            return bool(array.flags.owndata)
        array = array.base
    return type(array) is bytes


class CheckedArrays:
    """The last constant array at each place of a call, and what it was checked for."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[weakref.ref[np.ndarray], Any]] = {}

    def __reduce__(self) -> tuple[type[CheckedArrays], tuple[()]]:
        # another process has other arrays
        return CheckedArrays, ()

    def has(self, place: int, array: Any, facts: Any) -> bool:
        """Return whether the array at ``place`` is constant and was checked for equal ``facts``."""
        last = self._last.get(place)
        return last is not None and last[0]() is array and last[1] == facts and is_constant(array)

    def add(self, place: int, array: Any, facts: Any) -> None:
        """Remember that the array at ``place`` was checked, if it is constant."""
        last = self._last.get(place)
        if is_constant(array):
            self._last[place] = weakref.ref(array), facts
        elif last is not None and last[0]() is array:
            # it may change, and be constant again
            del self._last[place]
