"""The counts of one call of a kernel, as a mapping of its stages that prints as its nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedlang.counting.html import counts_html
from schedlang.counting.records import Counts
from schedlang.counting.table import counts_text
from schedlang.host import Cache
from schedlang.machine.printer import Line


@dataclass(frozen=True)
class LoopCounts:
    """A loop: its ``name``, the ``stage`` of its first statement, and all that it does.

    ``counts.runs`` are its iterations.
    """

    name: str
    stage: str
    counts: Counts


@dataclass(frozen=True, eq=False)
class KernelCounts(Mapping[str, Counts]):
    """The counts of a kernel's stages by their names; ``print`` shows them beside its nest.

    ``total``
        the counts of the whole kernel
    ``loops``
        the counts of each loop, in the order of the nest
    ``nest``
        the lines of the machine nest, each with its counts; ``None`` at lines without
    ``caches``
        the data caches that were simulated, the first level first
    ``written``
        the changed lines that each level wrote to the next
    ``streamed_bytes``
        bytes of stores that bypassed the caches
    ``sampled``
        1 if the lines are exact; else one line in so many was simulated, and the numbers of lines
        are estimates. All other counts are exact.
    ``not_simulated``
        the number of accesses, if there were too many to simulate the caches; else 0
    ``unknown``
        the names of functions of yours that the kernel calls: each call counts a load or a store of
        each element of its boxes, in order, and none of the function's arithmetic

    Each simulated level is set-associative, starts empty, and drops the least recently used line of
    a set. A store fetches its line first, and a changed line is written to the next level when it
    leaves. Stores that bypass the cache move no lines; prefetches move lines like loads. There is
    no hardware prefetcher. One core runs everything, parallel loops one iteration after the other.
    Each argument begins a page of 4 KiB, and each scratch array a line. Estimated lines are poor if
    all accesses fall into few sets, such as the accesses to one column of a matrix with rows of 4
    KiB.

    LLVM may do less than the machine nest: it may keep a value in a register that the nest loads
    twice, or small arrays on the stack. It adds no loads of arguments. A product and the addition
    after it count as two operations, although the processor may run them as one.
    """

    name: str
    stages: Mapping[str, Counts]
    total: Counts
    loops: tuple[LoopCounts, ...]
    nest: tuple[tuple[Line, Counts | None], ...]
    caches: tuple[Cache, ...] = ()
    written: tuple[int, ...] = ()
    streamed_bytes: int = 0
    sampled: int = 1
    not_simulated: int = 0
    unknown: tuple[str, ...] = ()

    def __getitem__(self, stage: str) -> Counts:
        return self.stages[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __str__(self) -> str:
        return counts_text(self.nest, self.stages, self.total, self.notes)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return counts_html(self.name, self.nest, self.stages, self.total, self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the arithmetic and the simulated caches."""
        total = self.total
        sentences = []
        if total.operations:
            sentences.append("operations: " + _listed(total.arithmetic))
        if total.calls:
            sentences.append("calls, by element: " + _listed(total.calls))
        if self.unknown:
            sentences.append(
                f"the arithmetic of {' and '.join(self.unknown)} is unknown; each element of its "
                "boxes counts as one load or store"
            )
        if total.prefetches:
            sentences.append(f"prefetches: {total.prefetches:,}")
        if self.not_simulated:
            sentences.append(
                f"caches were not simulated: {self.not_simulated:,} accesses would take minutes; "
                "count smaller arrays, or give a larger most="
            )
        if not self.caches:
            return tuple(sentences)
        sizes = ", ".join(
            f"L{k} {c.size // 1024:,} KiB, {c.ways} ways" for k, c in enumerate(self.caches, 1)
        )
        sentences.append(f"lines of 64 bytes into simulated caches of one core: {sizes}")
        back = ", ".join(f"L{k} {n:,}" for k, n in enumerate(self.written, 1))
        sentences.append(f"changed lines that a level wrote to the next: {back}")
        if self.streamed_bytes:
            sentences.append(f"stored past the caches: {self.streamed_bytes:,} bytes")
        if self.sampled > 1:
            sentences.append(
                f"estimated: one line in {self.sampled} was simulated, and lines are multiplied by "
                f"{self.sampled}; all other counts are exact"
            )
        return tuple(sentences)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times:,}" for name, times in counts.items())
