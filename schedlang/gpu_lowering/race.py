"""A race between two threads, with the accesses of other threads to the elements around it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from schedlang.gpu_lowering.race_grid import Access, Grid, grid, thread_name
from schedlang.gpu_lowering.race_html import race_html

# the elements to each side of a race whose accesses are kept
AROUND = 10


@dataclass(frozen=True)
class Race:
    """A race on an element of ``buffer``: ``first`` and ``second`` are the two accesses.

    ``accesses`` are all accesses to the elements around it since the last barrier, in the order of
    addresses; the two are among them. ``stage`` is the stage of the second access.
    """

    buffer: str
    stage: str
    first: Access
    second: Access
    accesses: tuple[Access, ...]

    @cached_property
    def grid(self) -> Grid:
        """The accesses by thread and element."""
        return grid(self.first, self.second, self.accesses)

    def __str__(self) -> str:
        element = f"{self.buffer}[{', '.join(map(str, self.second.element))}]"
        return (
            f"{thread_name(self.first.thread)} {self.first.what} {element}, and "
            f"{thread_name(self.second.thread)} {self.second.what} it, without a barrier in "
            "between "
            f"(stage {self.stage})"
        )

    def _repr_html_(self) -> str:
        return race_html(str(self), self.buffer, self.grid)
