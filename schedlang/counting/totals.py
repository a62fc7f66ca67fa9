"""From the regions and the tally of an instrumented nest to counts of its lines and stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from schedlang.counting.records import Counts
from schedlang.counting.regions import Region, Runs
from schedlang.counting.rows import Access, Instrumented, Row
from schedlang.counting.work import Work
from schedlang.expr.dtypes import itemsize
from schedlang.machine.nodes import Alloc, Array, For, Run

# the lines brought into each level by the accesses of each site; empty without caches
Lines = Sequence[Sequence[int]]


class Totals:
    """The counts of an instrumented nest that has run, by row, by stage and in all.

    ``bytes_of`` gives the size of scratch storage.
    """

    def __init__(
        self, instrumented: Instrumented, runs: Runs, bytes_of: Callable[[Array], int], lines: Lines
    ) -> None:
        self._made = instrumented
        self._rows = instrumented.rows
        self._own = [_own(row, runs, bytes_of, lines) for row in instrumented.rows]
        self._none = Counts(lines=(0,) * len(lines))
        self._sums: dict[int, Counts] = {}

    def rows(self) -> tuple[Counts, ...]:
        """Return the counts of each row: of the statement itself, or of all that a loop does."""
        return tuple(self._row(at) for at in range(len(self._rows)))

    def total(self) -> Counts:
        """Return the counts of the whole kernel."""
        return self._block(*self._entry)

    def stages(self) -> dict[str, Counts]:
        """Return the counts of each stage, in the order of the nest."""
        parts: dict[str, list[Counts]] = {}
        for at in self._reached(*self._entry):
            if self._rows[at].stage:
                parts.setdefault(self._rows[at].stage, []).append(self._own[at])
        by_stage: dict[str, Counts] = {}
        for stage, counts in parts.items():
            added = sum(counts, self._none)
            if added.evaluations or added.loads or added.stores or added.operations:
                live = self._peak(*self._entry, stage)
                by_stage[stage] = replace(added, peak_bytes=live)
        return by_stage

    @property
    def _entry(self) -> tuple[int, int]:
        return self._made.functions[self._made.nest.entry.name]

    def _row(self, at: int) -> Counts:
        if at not in self._sums:
            inner = self._inner(at)
            own = self._own[at]
            if inner is not None:
                own = replace(own + self._block(*inner), runs=own.runs)
            self._sums[at] = own
        return self._sums[at]

    def _block(self, start: int, end: int) -> Counts:
        total = self._none
        for at in self._statements(start, end):
            total = total + self._row(at)
        return replace(total, peak_bytes=self._peak(start, end))

    def _statements(self, start: int, end: int) -> Iterator[int]:
        """Yield the rows of the statements of a block, without those in them."""
        while start < end:
            yield start
            start = self._rows[start].end

    def _inner(self, at: int) -> tuple[int, int] | None:
        """Return the rows of the statements in a loop, a branch or a called function."""
        row = self._rows[at]
        if isinstance(row.stmt, Run):
            return self._made.functions[row.stmt.function]
        return (at + 1, row.end) if row.end > at + 1 else None

    def _peak(self, start: int, end: int, stage: str | None = None) -> int:
        """Return the most bytes of storage, or of storage of ``stage``, live at one time in a
        block.

        Storage lives to the end of its block.
        """
        live = most = 0
        for at in self._statements(start, end):
            row, inner = self._rows[at], self._inner(at)
            if isinstance(row.stmt, Alloc) and stage in (None, row.stage):
                live += self._own[at].peak_bytes
            within = 0 if inner is None else self._peak(*inner, stage)
            most = max(most, live + within)
        return most

    def _reached(self, start: int, end: int) -> Iterator[int]:
        """Yield rows in the order of their first run."""
        for at in range(start, end):
            yield at
            stmt = self._rows[at].stmt
            if isinstance(stmt, Run):
                yield from self._reached(*self._made.functions[stmt.function])


def _own(row: Row, runs: Runs, bytes_of: Callable[[Array], int], lines: Lines) -> Counts:
    """Return the counts of a statement itself, without the statements in it."""
    times = runs(row.region)
    operations: Counter[Work] = Counter()
    for (region, work), each in row.work.items():
        operations[work] += each * runs(region)
    loads = [a for a in row.accesses if a.kind == "load"]
    stores = [a for a in row.accesses if a.kind in ("store", "stream")]
    allocated = bytes_of(row.stmt.array) if isinstance(row.stmt, Alloc) and times else 0
    counted_region = (
        row.inside if isinstance(row.stmt, For) and row.inside is not None else row.region
    )
    assignment = row.assignment
    return Counts(
        runs=runs(counted_region),
        evaluations=0
        if assignment is None
        else _elements(assignment.elements, assignment.active, row.region, runs),
        loads=sum(_of(a, runs) for a in loads),
        stores=sum(_of(a, runs) for a in stores),
        load_requests=sum(runs(a.region) for a in loads if not a.opaque),
        store_requests=sum(runs(a.region) for a in stores if not a.opaque),
        loaded_bytes=sum(_of(a, runs) * itemsize(a.array.dtype) for a in loads),
        stored_bytes=sum(_of(a, runs) * itemsize(a.array.dtype) for a in stores),
        prefetches=sum(runs(a.region) for a in row.accesses if a.kind == "prefetch"),
        operations={work: n for work, n in operations.items() if n},
        allocated_bytes=allocated * times,
        peak_bytes=allocated,
        lines=tuple(sum(level[a.site] for a in row.accesses) for level in lines),
    )


def _of(access: Access, runs: Runs) -> int:
    return _elements(access.elements, access.active, access.region, runs)


def _elements(each: int, active: int, region: Region, runs: Runs) -> int:
    return runs.at(active) if active >= 0 else each * runs(region)
