"""The accesses around a race as a grid: threads down, elements across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

# the threads that are shown
MOST_THREADS_SHOWN = 24

# a thread as its number in its block and the number of the block; None stands for several threads
Thread = Optional[tuple[int, int]]


@dataclass(frozen=True)
class Access:
    """An access of a thread to an element of a buffer.

    ``what`` is ``"wrote"`` or ``"read"`` for one before the statement at which the race was found,
    ``"writes"`` or ``"reads"`` for one in it.
    """

    thread: Thread
    element: tuple[int, ...]
    what: str


@dataclass(frozen=True)
class Grid:
    """Accesses by row and column: ``threads`` down, ``elements`` across.

    ``cells`` has what is done in a cell, and ``pair`` the two cells of the race.
    """

    threads: tuple[Thread, ...]
    elements: tuple[tuple[int, ...], ...]
    cells: Mapping[tuple[int, int], str]
    pair: tuple[tuple[int, int], tuple[int, int]]


def thread_name(thread: Thread) -> str:
    """Return the name of a thread in messages.

    >>> thread_name((31, 0)), thread_name(None)
    ('thread 31 of block 0', 'several threads')
    """
    return "several threads" if thread is None else "thread {} of block {}".format(*thread)


def grid(first: Access, second: Access, accesses: Sequence[Access]) -> Grid:
    """Return ``accesses`` as a grid; of many threads, those nearest to the element of the race.

    >>> before, now = Access((1, 0), (4,), "wrote"), Access((0, 0), (4,), "reads")
    >>> grid(before, now, [before, now, Access((1, 0), (5,), "reads")]).cells
    {(1, 0): 'wrote', (0, 0): 'reads', (1, 1): 'reads'}
    """
    elements = list(dict.fromkeys(a.element for a in accesses))
    columns = {element: k for k, element in enumerate(elements)}
    middle = columns[second.element]
    near = sorted(accesses, key=lambda a: abs(columns[a.element] - middle))
    chosen = list(dict.fromkeys(a.thread for a in (first, second, *near)))
    # several threads come first, then threads in the order of blocks
    threads = sorted(
        chosen[:MOST_THREADS_SHOWN], key=lambda t: (-1, -1) if t is None else (t[1], t[0])
    )
    rows = {thread: k for k, thread in enumerate(threads)}
    cells = {(rows[a.thread], columns[a.element]): a.what for a in accesses if a.thread in rows}
    pair = (rows[first.thread], middle), (rows[second.thread], middle)
    return Grid(tuple(threads), tuple(elements), cells, pair)
