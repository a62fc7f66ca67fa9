"""The memory of an array in a traced function, and how its elements lie there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlang.tracing.trace import Trace


class Storage:
    """The memory of an array in a traced function; the traces hold its values.

    ``home`` is the trace that made it. ``line`` is where: text for messages. ``rows`` says that
    NumPy puts the elements row by row in memory, if the arguments' elements lie so. An argument
    that does not lie so may have ``strides``, in elements.
    """

    __slots__ = ("home", "line", "rows", "strides")

    def __init__(self, home: Trace, line: str, rows: bool = False) -> None:
        self.home = home
        self.line = line
        self.rows = rows
        self.strides: tuple[int, ...] | None = None

    @property
    def in_order(self) -> bool:
        """True if NumPy puts the elements of a result in the order of this array row by row."""
        steps = self.strides
        return self.rows if steps is None else steps[-1] > 0 and [*steps] == sorted(steps)[::-1]
