"""Lines of emitted source, each with the number of the statement that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Optional

# the names of the intrinsics for parallel loops in an emitted file, whose own names do not start so
PARALLEL_FOR, AS_TEAM, TEAM_FOR = "__parallel_for", "__as_team", "__team_for"


class Line(NamedTuple):
    """A line; ``number`` is the number of a statement of the loop nest, or ``None``."""

    text: str
    number: Optional[int] = None


@dataclass(frozen=True)
class Launch:
    """A function with parallel loops as numba compiles it: calls launch these.

    ``text`` stands in place of the function ``name``, from line ``line`` of the file on. If it
    starts a team of threads, ``by_team`` is the source of the function ``team``, which they run.
    """

    name: str
    line: int
    text: str
    team: str = ""
    by_team: str = ""


@dataclass(frozen=True)
class Listing:
    """The text of a file, as lines. ``launches`` launch its functions with parallel loops.

    >>> Listing((Line("for i in range(4):", 0), Line("    pass"))).numbers
    (0, None)
    """

    lines: tuple[Line, ...]
    launches: tuple[Launch, ...] = ()

    @cached_property
    def text(self) -> str:
        """The text of the file; its last line ends."""
        return "\n".join([line.text for line in self.lines]) + "\n"

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """For each line, the number of its statement, or ``None``."""
        return tuple([line.number for line in self.lines])


def spans(listing: Listing, parts: Iterable[Sequence[Line]]) -> list[tuple[int, int]]:
    """Return the first and the last line of each of the ``parts`` of ``listing``, from 1 on.

    >>> first, second = plain("a"), plain("b\\nc")
    >>> spans(Listing(tuple(join_parts([first, second], 1))), [first, second])
    [(1, 1), (3, 4)]
    """
    numbers = {id(line): number for number, line in enumerate(listing.lines, 1)}
    return [(numbers[id(part[0])], numbers[id(part[-1])]) for part in parts]


def plain(text: str) -> list[Line]:
    """Return the lines of ``text``, which come from no statement."""
    return [Line(line) for line in text.split("\n")]


def join_parts(parts: Iterable[Sequence[Line]], blank: int) -> list[Line]:
    """Return the lines of all ``parts``, with ``blank`` empty lines between them."""
    lines: list[Line] = []
    for part in parts:
        lines += [Line("")] * blank if lines else []
        lines += part
    return lines
