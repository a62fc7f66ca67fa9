"""Memory of the simulated device, which checks every access and records its thread."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from schedlang.errors import RaceError, VerifyError
from schedlang.ir.nodes import Buffer

NOBODY, SEVERAL = -1, -2
# exceeds the threads of any block
MOST_THREADS = 2**16


@dataclass(frozen=True, eq=False)
class Lanes:
    """An access to a buffer: the row, the offset and the thread of each active lane."""

    rows: np.ndarray
    offsets: np.ndarray
    threads: np.ndarray
    blocks: np.ndarray
    stage: str

    @property
    def thread_ids(self) -> np.ndarray:
        """The thread of each lane, numbered uniquely over all blocks."""
        return self.blocks * MOST_THREADS + self.threads


class Memory:
    """A buffer with one row of elements in all, or one for each block or each thread.

    Each element records its last write and its last read: the thread, the block, and the number of
    barriers passed. A mark stands for several readers. Races are detected only if ``watched`` is
    true.
    """

    def __init__(self, buffer: Buffer, shape: tuple[int, ...], rows: int, watched: bool) -> None:
        self.buffer = buffer
        self.shape = shape
        packed = tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
        self.strides = buffer.strides or packed
        last = sum((n - 1) * s for n, s in zip(shape, self.strides))
        self.size = last + 1 if all(shape) else 0
        self.data = np.zeros((rows, self.size), buffer.dtype)
        self.written = np.zeros((rows, self.size), bool)
        self.watched = watched
        if watched:
            marks = (rows, self.size)
            self.writer, self.reader = np.full(marks, NOBODY), np.full(marks, NOBODY)
            self.write_block, self.read_block = np.zeros(marks, int), np.zeros(marks, int)
            self.write_time, self.read_time = np.zeros(marks, int), np.zeros(marks, int)

    def fill(self, array: np.ndarray) -> None:
        self.data[0] = array.reshape(-1)
        self.written[:] = True

    def forget_threads(self) -> None:
        """Clear the records of accesses: kernels run one after the other and do not race."""
        if self.watched:
            self.writer[:] = NOBODY
            self.reader[:] = NOBODY

    def offset(self, index: list[np.ndarray], active: np.ndarray, stage: str) -> np.ndarray:
        """Return the offset of each lane; raise if an active lane is outside the buffer."""
        total = np.zeros(active.shape, np.int64)
        for k, (at, extent, stride) in enumerate(zip(index, self.shape, self.strides)):
            wrong = active & ((at < 0) | (at >= extent))
            if wrong.any():
                value = int(np.broadcast_to(at, wrong.shape)[wrong][0])
                raise VerifyError(
                    f"{self.buffer.name}: index {k} is {value}, outside 0..{extent} "
                    f"(stage {stage})"
                )
            total = total + at * stride
        return np.where(active, total, 0)

    def load(self, lanes: Lanes, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements and the mask of those never written; raise on a race."""
        at = (lanes.rows, lanes.offsets)
        unset: np.ndarray = ~self.written[at]
        if self.watched:
            self._check_race(lanes, time, self.writer, self.write_block, self.write_time, "written")
            others = (self.reader[at] != NOBODY) & (self.reader[at] != lanes.thread_ids)
            elsewhere = others & (self.read_block[at] != lanes.blocks)
            now = elsewhere | (others & (self.read_time[at] == time))
            self.reader[at] = np.where(now, SEVERAL, lanes.thread_ids)
            self.read_block[at] = np.where(elsewhere, SEVERAL, lanes.blocks)
            self.read_time[at] = time
            # if several lanes read one element, only the last is recorded: mark the element
            for last, own in ((self.reader, lanes.thread_ids), (self.read_block, lanes.blocks)):
                more = (last[at] != own) & (last[at] != SEVERAL)
                last[lanes.rows[more], lanes.offsets[more]] = SEVERAL
        values: np.ndarray = self.data[at]
        return values, unset

    def store(self, lanes: Lanes, values: np.ndarray, unset: np.ndarray, time: np.ndarray) -> None:
        """Write the values; raise if another thread accessed an element since the last barrier.

        A value computed from elements that were never written counts as never written.
        """
        at = (lanes.rows, lanes.offsets)
        if self.watched:
            self._check_race(lanes, time, self.writer, self.write_block, self.write_time, "written")
            self._check_race(lanes, time, self.reader, self.read_block, self.read_time, "read")
            self.writer[at] = lanes.thread_ids
            twice = self.writer[at] != lanes.thread_ids
            if twice.any():
                first = int(np.argmax(twice))
                self._race(lanes, first, int(self.writer[at][first]), "written")
            self.write_block[at], self.write_time[at] = lanes.blocks, time
        self.data[at] = values
        self.written[at] = ~unset

    def _check_race(
        self, lanes: Lanes, time: np.ndarray, thread_of: np.ndarray, block: np.ndarray,
        when: np.ndarray, what: str,
    ) -> None:  # fmt: skip
        """Raise if another thread accessed an element with no barrier in between."""
        at = (lanes.rows, lanes.offsets)
        other = (thread_of[at] != NOBODY) & (thread_of[at] != lanes.thread_ids)
        near = (block[at] != lanes.blocks) | (when[at] == time)
        if (other & near).any():
            first = int(np.argmax(other & near))
            self._race(lanes, first, int(thread_of[at][first]), what)

    def _race(self, lanes: Lanes, position: int, other: int, what: str) -> None:
        """Raise for the access at ``position`` of ``lanes``, and that of thread ``other``."""
        element = self.index(int(lanes.offsets[position]))
        own = int(lanes.threads[position]), int(lanes.blocks[position])
        first = None if other == SEVERAL else (other % MOST_THREADS, other // MOST_THREADS)
        who = "several threads" if first is None else "thread {} of block {}".format(*first)
        raise RaceError(
            f"{self.buffer.name}{element} is {what} by {who} and accessed by thread {own[0]} of "
            f"block {own[1]} without a barrier in between (stage {lanes.stage})",
            self.buffer.name, tuple(element), first, own,
        )

    def index(self, offset: int) -> list[int]:
        """Return the index of the element at ``offset``; strides may be padded."""
        found = [0] * len(self.strides)
        for place in sorted(range(len(found)), key=lambda k: -self.strides[k]):
            if self.shape[place] > 1:
                found[place], offset = divmod(offset, self.strides[place])
        return found

    def array(self) -> np.ndarray:
        """Return the first row in the buffer's shape."""
        steps = tuple(s * self.data.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(self.data[0], self.shape, steps).copy()
