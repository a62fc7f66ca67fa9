"""The memory of a network's module beside its arguments, and the places of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class ParamPlace:
    """A parameter of a network, whose elements begin at byte ``start`` of the array of all.

    ``monotonic`` and ``within`` are the facts that ``sl.assume`` declared of its elements.
    """

    name: str
    start: int
    dtype: str
    shape: tuple[int, ...]
    monotonic: bool = False
    within: Optional[tuple[int, int]] = None

    @property
    def has_facts(self) -> bool:
        return self.monotonic or self.within is not None


@dataclass(frozen=True)
class Storage:
    """The memory of a module beside its arguments, in bytes; ``threads`` counts for each thread.

    ``params`` are the places in ``param_bytes``.
    """

    params: tuple[ParamPlace, ...] = ()
    param_bytes: int = 0
    arena: int = 0
    threads: int = 0
