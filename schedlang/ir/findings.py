"""Facts about the parts of nests, kept for schedules that have parts in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
# the most findings that are kept, so that memory is bounded
# nobody has measured this value
MOST = 20_000
_UNKNOWN: Any = object()


@dataclass(eq=False)
class Findings:
    """Values by all that they follow from: parts of schedules and nests, and facts about them.

    A statement, a buffer and a stage never change and are equal to themselves alone, so that the
    same one has the same value in each nest. The keys keep them alive. Past ``MOST`` values, the
    earlier ones are forgotten.

    >>> findings = Findings()
    >>> [findings.once(("square", n), lambda: print("of", n) or n * n) for n in (3, 3)]
    of 3
    [9, 9]
    """

    known: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the value of a key, which ``find`` returns if nobody has asked yet."""
        value: T = self.known.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = find()
            self.keep(key, value)
        return value

    def keep(self, key: Hashable, value: object) -> None:
        """Keep the value of a key."""
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[key] = value
