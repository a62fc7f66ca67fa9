"""The names that a page shows: all uses of one light up together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class Name(NamedTuple):
    """A name on a page: the number of its class, and a line that says what it is."""

    number: int
    title: str


class NameTable:
    """The names of one page, by what they stand for.

    >>> table = NameTable()
    >>> table.name("i", "i: a loop"), table.name("j", "j: a loop"), table.name("i", "again").number
    (Name(number=0, title='i: a loop'), Name(number=1, title='j: a loop'), 0)
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def name(self, key: Hashable, title: str) -> Name:
        """Return the name of what ``key`` stands for, under a title."""
        return Name(self._numbers.setdefault(key, len(self._numbers)), title)

    def __len__(self) -> int:
        return len(self._numbers)
