"""A trace: the accesses of a kernel, in order, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedlang.counting.probes import layout
from schedlang.counting.rows import KINDS, Instrumented

# consecutive accesses that are kept or left out together
RUN = 256


@dataclass(frozen=True, eq=False)
class Trace:
    """The accesses of one call, in the order of one core.

    All arrays have one entry for each access that was kept. ``buffer`` and ``line`` are indices.

    ``address``
        the simulated byte address, int64: each argument begins a page of its own
    ``offset``
        bytes from the start of the array, int64
    ``size``
        bytes, int32; adjacent lanes of a vector are one access
    ``kind``
        0 load, 1 store, 2 prefetch, 3 store past the caches, uint8
    ``buffer``
        which of ``buffers``, the names of the arrays
    ``line``
        which line of ``nest``, the text of the machine nest by lines
    ``total``
        the accesses of the call. If there are more than were kept, ``every`` says that runs of 256
        consecutive accesses were kept, one in ``every``.
    """

    address: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    kind: np.ndarray
    buffer: np.ndarray
    line: np.ndarray
    buffers: tuple[str, ...]
    nest: tuple[str, ...]
    total: int
    every: int = 1

    @property
    def writes(self) -> np.ndarray:
        """Return which accesses are stores, a bool array."""
        return (self.kind == KINDS.index("store")) | (self.kind == KINDS.index("stream"))

    def __len__(self) -> int:
        return len(self.address)

    def __repr__(self) -> str:
        sampling = "" if self.every == 1 else f", one run of {RUN} in {self.every} kept"
        return f"<Trace of {self.total:,} accesses to {', '.join(self.buffers)}{sampling}>"


def log_model(total: int, every: int) -> np.ndarray:
    """Return an empty log of ``total`` accesses at most that keeps one run in ``every``, int64."""
    runs = -(-total // RUN)
    room = -(-runs // every) * RUN
    model = np.zeros(layout.EVENTS + 3 * room, np.int64)
    model[layout.ROOM], model[layout.EVERY], model[layout.RUN] = room, every, RUN
    return model


def trace_of(
    model: np.ndarray,
    instrumented: Instrumented,
    tally: np.ndarray,
    lines: list[int],
    nest: tuple[str, ...],
    every: int,
) -> Trace:
    """Return the trace that a run left in ``model``; ``lines`` are the lines of each site."""
    logged = int(model[layout.LOGGED])
    events = model[layout.EVENTS : layout.EVENTS + 3 * logged].reshape(-1, 3)
    address, packed, site = (np.ascontiguousarray(column) for column in events.T)
    arrays = list(instrumented.bases)
    buffer = np.array([arrays.index(a.array) for a in instrumented.sites], np.int32)
    starts = np.array([tally[instrumented.bases[a.array]] for a in instrumented.sites], np.int64)
    where = np.array(lines, np.int32)
    return Trace(
        address,
        address - starts[site],
        (packed // 4).astype(np.int32),
        (packed % 4).astype(np.uint8),
        buffer[site],
        where[site],
        tuple(a.name for a in arrays),
        nest,
        int(model[layout.SEEN]),
        every,
    )
