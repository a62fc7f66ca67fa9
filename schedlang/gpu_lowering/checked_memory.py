"""Memory of the simulated device, which checks every access and records its thread."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from schedlang.compute.places import update
from schedlang.compute.reducer import Reducer
from schedlang.errors import RaceError, VerifyError
from schedlang.expr.bfloat import as_array, holding_dtype
from schedlang.gpu_lowering.race import AROUND, Race
from schedlang.gpu_lowering.race_grid import Access, Thread, thread_name
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


@dataclass(frozen=True, eq=False)
class _Marks:
    """The last accesses of one kind to each element; ``what`` they did."""

    what: str
    thread: np.ndarray
    block: np.ndarray
    time: np.ndarray


def _thread(number: int) -> Thread:
    """Return the thread of a unique number, ``None`` for several threads."""
    return None if number == SEVERAL else (number % MOST_THREADS, number // MOST_THREADS)


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
        self.data = np.zeros((rows, self.size), holding_dtype(buffer.dtype))
        self.written = np.zeros((rows, self.size), bool)
        self.watched = watched
        if watched:
            marks = (rows, self.size)
            self.writer, self.reader = np.full(marks, NOBODY), np.full(marks, NOBODY)
            self.write_block, self.read_block = np.zeros(marks, int), np.zeros(marks, int)
            self.write_time, self.read_time = np.zeros(marks, int), np.zeros(marks, int)
            self.updater = np.full(marks, NOBODY)
            self.update_block, self.update_time = np.zeros(marks, int), np.zeros(marks, int)

    def fill(self, array: np.ndarray) -> None:
        self.data[0] = array.reshape(-1)
        self.written[:] = True

    def forget_threads(self) -> None:
        """Clear the records of accesses: kernels run one after the other and do not race."""
        if self.watched:
            self.writer[:] = NOBODY
            self.reader[:] = NOBODY
            self.updater[:] = NOBODY

    def offset(self, index: list[np.ndarray], active: np.ndarray, stage: str) -> np.ndarray:
        """Return the offset of each lane; raise if an active lane is outside the buffer."""
        total = np.zeros(active.shape, np.int64)
        for k, (at, extent, stride) in enumerate(zip(index, self.shape, self.strides)):
            wrong = active & ((at < 0) | (at >= extent))
            if wrong.any():
                value = int(np.broadcast_to(at, wrong.shape)[wrong][0])
                raise VerifyError(
                    f"{self.buffer.name}: index {k} is {value}, outside 0..{extent} (stage {stage})"
                )
            total = total + at * stride
        return np.where(active, total, 0)

    def load(self, lanes: Lanes, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements and the mask of those never written; raise on a race."""
        at = (lanes.rows, lanes.offsets)
        unset: np.ndarray = ~self.written[at]
        if self.watched:
            self._check_race(lanes, time, self._writes, "reads")
            self._check_race(lanes, time, self._updates, "reads")
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
            self._check_race(lanes, time, self._writes, "writes")
            self._check_race(lanes, time, self._reads, "writes")
            self._check_race(lanes, time, self._updates, "writes")
            self.writer[at] = lanes.thread_ids
            twice = self.writer[at] != lanes.thread_ids
            if twice.any():
                # two lanes of this statement
                first = int(np.argmax(twice))
                self._race(lanes, first, int(self.writer[at][first]), "writes", "writes", [])
            self.write_block[at], self.write_time[at] = lanes.blocks, time
        self.data[at] = values
        self.written[at] = ~unset

    def update(self, lanes: Lanes, reducer: Reducer, values: np.ndarray, time: np.ndarray) -> None:
        """Combine the values into their elements, one lane after the other.

        Raise if another thread accessed an element without an atomic update since the last barrier,
        or if an element was never written.
        """
        at = (lanes.rows, lanes.offsets)
        if not self.written[at].all():
            element = self.index(int(lanes.offsets[int(np.argmin(self.written[at]))]))
            raise VerifyError(
                f"{self.buffer.name}{element} is updated before it is written (stage {lanes.stage})"
            )
        if self.watched:
            self._check_race(lanes, time, self._writes, "writes")
            self._check_race(lanes, time, self._reads, "writes")
            earlier = self.updater[at] != NOBODY
            earlier &= (self.update_block[at] != lanes.blocks) | (self.update_time[at] == time)
            for marks, own in ((self.updater, lanes.thread_ids), (self.update_block, lanes.blocks)):
                updaters = np.where(earlier & (marks[at] != own), SEVERAL, own)
                marks[at] = updaters
                # of several lanes that update one element, the last is recorded: mark the element
                more = (updaters == SEVERAL) | ((marks[at] != own) & (marks[at] != SEVERAL))
                marks[lanes.rows[more], lanes.offsets[more]] = SEVERAL
            self.update_time[at] = time
        update(reducer, [self.data], lanes.rows * self.size + lanes.offsets, [values])

    @property
    def _updates(self) -> _Marks:
        return _Marks("wrote", self.updater, self.update_block, self.update_time)

    @property
    def _writes(self) -> _Marks:
        return _Marks("wrote", self.writer, self.write_block, self.write_time)

    @property
    def _reads(self) -> _Marks:
        return _Marks("read", self.reader, self.read_block, self.read_time)

    def _check_race(self, lanes: Lanes, time: np.ndarray, marks: _Marks, does: str) -> None:
        """Raise if another thread accessed an element with no barrier in between."""
        at = (lanes.rows, lanes.offsets)
        other = (marks.thread[at] != NOBODY) & (marks.thread[at] != lanes.thread_ids)
        near = (marks.block[at] != lanes.blocks) | (marks.time[at] == time)
        if (other & near).any():
            first = int(np.argmax(other & near))
            row, block = int(lanes.rows[first]), int(lanes.blocks[first])
            now = int(np.broadcast_to(time, lanes.offsets.shape)[first])
            touched = marks.thread[row] != NOBODY
            touched &= (marks.block[row] != block) | (marks.time[row] == now)
            before = [(int(marks.thread[row, k]), int(k)) for k in np.flatnonzero(touched)]
            self._race(lanes, first, int(marks.thread[at][first]), marks.what, does, before)

    def _race(
        self,
        lanes: Lanes,
        position: int,
        other: int,
        did: str,
        does: str,
        before: list[tuple[int, int]],
    ) -> None:
        """Raise for the access at ``position`` of ``lanes``, which races with thread ``other``.

        ``before`` are the threads and the offsets of accesses since the last barrier, which did
        ``did``.
        """
        offset, row = int(lanes.offsets[position]), lanes.rows[position]
        element = self.index(offset)
        own = int(lanes.threads[position]), int(lanes.blocks[position])
        first = _thread(other)
        history = [(thread, at, did) for thread, at in before]
        same = np.flatnonzero((lanes.rows == row) & (abs(lanes.offsets - offset) <= AROUND))
        history += [(int(lanes.thread_ids[k]), int(lanes.offsets[k]), does) for k in same]
        accesses = [
            Access(_thread(thread), tuple(self.index(at)), what)
            for thread, at, what in sorted(history, key=lambda access: access[1])
            if abs(at - offset) <= AROUND
        ]
        pair = Access(first, tuple(element), did), Access(own, tuple(element), does)
        race = Race(self.buffer.name, lanes.stage, *pair, tuple(accesses))
        what = {"wrote": "written", "writes": "written", "read": "read"}[did]
        raise RaceError(
            f"{self.buffer.name}{element} is {what} by {thread_name(first)} and accessed by "
            f"{thread_name(own)} "
            f"without a barrier in between (stage {lanes.stage})",
            self.buffer.name,
            tuple(element),
            first,
            own,
            race,
        )

    def index(self, offset: int) -> list[int]:
        """Return the index of the element at ``offset``; strides may be padded."""
        index_ = [0] * len(self.strides)
        for place in sorted(range(len(index_)), key=lambda k: -self.strides[k]):
            if self.shape[place] > 1:
                index_[place], offset = divmod(offset, self.strides[place])
        return index_

    def array(self) -> np.ndarray:
        """Return the first row in the buffer's shape."""
        steps = tuple(s * self.data.itemsize for s in self.strides)
        row = np.lib.stride_tricks.as_strided(self.data[0], self.shape, steps).copy()
        return as_array(row, self.buffer.dtype)
