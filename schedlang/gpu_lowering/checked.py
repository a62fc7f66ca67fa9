"""Memory of a simulated device: every access checked, and who touched which element when."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from schedlang.errors import VerifyError
from schedlang.ir.nodes import Buffer

NOBODY, SEVERAL = -1, -2
# more than any block has
MOST_THREADS = 2**16


@dataclass(frozen=True, eq=False)
class Spot:
    """Where lanes access a buffer: the row and the offset of each active lane, and its thread."""

    rows: np.ndarray
    offsets: np.ndarray
    threads: np.ndarray
    blocks: np.ndarray
    stage: str

    @property
    def who(self) -> np.ndarray:
        """The thread of each lane, apart from those of other blocks."""
        return self.blocks * MOST_THREADS + self.threads


class Memory:
    """A buffer with one row of elements for all lanes, for each block, or for each thread.

    For each element the last write and read are kept: the thread, its block (or that several read
    it), and how many barriers that had passed. Unless ``watched`` is true races are not looked for.
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
        """Forget which thread accessed what: kernels run one after the other and do not race."""
        if self.watched:
            self.writer[:] = NOBODY
            self.reader[:] = NOBODY

    def offset(self, index: list[np.ndarray], active: np.ndarray, stage: str) -> np.ndarray:
        """The offset of each lane; an active one outside of the buffer is an error."""
        total = np.zeros(active.shape, np.int64)
        for k, (at, extent, stride) in enumerate(zip(index, self.shape, self.strides)):
            wrong = active & ((at < 0) | (at >= extent))
            if wrong.any():
                value = int(np.broadcast_to(at, wrong.shape)[wrong][0])
                raise VerifyError(
                    f"{self.buffer.name}: index {k} is {value}, outside of 0..{extent} "
                    f"(stage {stage})"
                )
            total = total + at * stride
        return np.where(active, total, 0)

    def load(self, spot: Spot, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The elements, and which of them nothing has set; a race is an error."""
        at = (spot.rows, spot.offsets)
        unset: np.ndarray = ~self.written[at]
        if self.watched:
            self._meet(spot, time, self.writer, self.write_block, self.write_time, "written")
            others = (self.reader[at] != NOBODY) & (self.reader[at] != spot.who)
            elsewhere = others & (self.read_block[at] != spot.blocks)
            now = elsewhere | (others & (self.read_time[at] == time))
            self.reader[at] = np.where(now, SEVERAL, spot.who)
            self.read_block[at] = np.where(elsewhere, SEVERAL, spot.blocks)
            self.read_time[at] = time
            # lanes that read one element together: the last one stands there
            for last, own in ((self.reader, spot.who), (self.read_block, spot.blocks)):
                more = (last[at] != own) & (last[at] != SEVERAL)
                last[spot.rows[more], spot.offsets[more]] = SEVERAL
        values: np.ndarray = self.data[at]
        return values, unset

    def store(self, spot: Spot, values: np.ndarray, unset: np.ndarray, time: np.ndarray) -> None:
        """Write; elements that other threads have touched since the last barrier are a race.

        What is made of values that nothing has set counts as not set.
        """
        at = (spot.rows, spot.offsets)
        if self.watched:
            self._meet(spot, time, self.writer, self.write_block, self.write_time, "written")
            self._meet(spot, time, self.reader, self.read_block, self.read_time, "read")
            self.writer[at] = spot.who
            twice = self.writer[at] != spot.who
            if twice.any():
                self._race(spot, int(spot.offsets[twice][0]), "written")
            self.write_block[at], self.write_time[at] = spot.blocks, time
        self.data[at] = values
        self.written[at] = ~unset

    def _meet(
        self, spot: Spot, time: np.ndarray, who: np.ndarray, block: np.ndarray, when: np.ndarray,
        what: str,
    ) -> None:  # fmt: skip
        """Refuse an access to what another thread has touched with no barrier in between."""
        at = (spot.rows, spot.offsets)
        other = (who[at] != NOBODY) & (who[at] != spot.who)
        near = (block[at] != spot.blocks) | (when[at] == time)
        if (other & near).any():
            self._race(spot, int(spot.offsets[other & near][0]), what)

    def _race(self, spot: Spot, offset: int, what: str) -> None:
        raise VerifyError(
            f"{self.buffer.name}{self.index(offset)} is {what} by one thread and accessed by "
            f"another with no barrier in between (stage {spot.stage})"
        )

    def index(self, offset: int) -> list[int]:
        """The index of the element at ``offset``."""
        found = []
        for stride, extent in zip(self.strides, self.shape):
            found.append(offset // stride % max(extent, 1))
        return found

    def array(self) -> np.ndarray:
        """The first row in the buffer's shape."""
        steps = tuple(s * self.data.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(self.data[0], self.shape, steps).copy()
