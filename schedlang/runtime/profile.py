"""The profile of a kernel: the time of each stage and loop, as data, a table and a flame chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.errors import CallError
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.elements import facts, table
from schedlang.markup.flame import Box, bars, flame
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape, printable
from schedlang.runtime.timing import duration

# the time outside of any stage: the rows under these names come last
WAITING = "starting and waiting for threads"
OTHER = "outside of all loops"


@dataclass(frozen=True)
class Part:
    """The time of one loop, of the calls of a user's function, or of one kernel of a GPU.

    ``name`` is the name of the loop in the printed nest, and ``stage`` the name of its stage.
    ``depth`` counts the measured loops around it, and ``kind`` is ``"serial"``, ``"parallel"`` or
    ``"kernel"``. ``seconds`` are the time in one call, all ``times`` that it ran, and ``own`` the
    seconds outside of the measured loops in it. Inside of a parallel loop, both are the slowest
    thread's. ``threads`` are the seconds that each thread of a parallel loop worked.
    """

    name: str
    stage: str
    kind: str
    depth: int
    seconds: float
    own: float
    times: int
    threads: tuple[float, ...] = ()


@dataclass(frozen=True)
class Profile(InNotebooks):
    """The result of :meth:`Kernel.profile <schedlang.runtime.kernel.Kernel.profile>`.

    All times are seconds of one call, the fastest, which other work on the machine disturbed least.
    ``seconds`` is the whole call, and ``kernel_seconds`` the fastest without time stamps.
    ``stages`` are the times of the stages by name. If a stage is computed inside of another one,
    its time is not part of the other's. ``waiting`` is the time in which parallel loops start and
    wait for their slowest thread, ``other`` what is outside of all measured loops. These add up to
    ``seconds``. ``parts`` are the measured loops in program order, each before the loops in it.
    ``overhead`` is the time of the stamps themselves, which is not in ``seconds``. ``runs`` is the
    number of calls measured. ``notes`` say what was not measured on its own.

    A stamp waits until the instructions before it are done. So a kernel with stamps does not
    overlap the end of one loop with the start of the next, and loops that take less than about 100
    ns each time look longer than they are. If ``seconds`` and ``kernel_seconds`` differ, read the
    shares with care. A thread that waits for a core shows in ``waiting``. The file of the stamped
    nest lies beside the kernel's, under its name and ``_times``.
    """

    name: str
    target: str
    seconds: float
    kernel_seconds: float
    stages: Mapping[str, float]
    waiting: float
    other: float
    parts: tuple[Part, ...]
    overhead: float
    runs: int
    notes: tuple[str, ...] = field(default=())

    def __getitem__(self, name: str) -> float:
        """Return the seconds of a stage; :class:`~schedlang.errors.CallError` if unknown."""
        if name not in self.stages:
            stage_names = ", ".join(self.stages)
            raise CallError(
                f"the profile of {self.name} has no stage {name!r}; it has {stage_names}"
            )
        return self.stages[name]

    def __str__(self) -> str:
        lines = [self._headline(), ""]
        lines += _aligned(("stage", "time", "share"), [r[:3] for r in self._stage_rows()])
        if self.parts:
            lines += ["", *_aligned(_HEAD, self._part_rows())]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            ("a call", duration(self.seconds)),
            ("without time stamps", duration(self.kernel_seconds)),
            ("time stamps, subtracted", duration(self.overhead)),
            ("calls", str(self.runs)),
            *(("note", note) for note in self.notes),
        ]
        tables = [
            table(("stage", "time", "share"), _cells(self._stage_rows()), ("", "number", "number"))
        ]
        threads = ""
        if self.parts:
            tables.append(table(_HEAD, _cells(self._part_rows()), ("", "", "number", "number", "")))
            threads = "".join(_threads(part) for part in self.parts if len(part.threads) > 1)
        chart = flame(self._boxes(), f"flame chart: the times of the loops of {self.name}")
        head = f'<div class="head">profile of {escape(self.name)}</div>'
        return fragment(head + chart + threads + "".join(tables) + facts(rows))

    def _headline(self) -> str:
        return (
            f"{printable(self.name)}: {duration(self.seconds)} a call (without time stamps "
            f"{duration(self.kernel_seconds)}; the stamps took {duration(self.overhead)}, which is "
            f"subtracted)"
        )

    def _share(self, seconds: float) -> str:
        return f"{seconds / self.seconds:.1%}" if self.seconds > 0 else ""

    def _stage_rows(self) -> list[tuple[str, ...]]:
        rest = ((WAITING, self.waiting), (OTHER, self.other))
        rows = [*self.stages.items(), *((name, time) for name, time in rest if time > 0)]
        return [(printable(n), duration(time), self._share(time)) for n, time in rows]

    def _part_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for part in self.parts:
            name = "  " * part.depth + _title(part)
            busy = ", ".join(duration(t) for t in part.threads)
            times = f"{part.times:,}"
            rows.append((name, duration(part.seconds), self._share(part.seconds), times, busy))
        return rows

    def _boxes(self) -> Box:
        """Return the parts as boxes in boxes."""
        stack: list[tuple[Part | None, list[Box]]] = [(None, [])]

        def close(depth: int) -> None:
            while len(stack) > depth + 1:
                part, inside = stack.pop()
                assert part is not None
                title = f"{_title(part)}: {duration(part.seconds)}, {part.times:,}×"
                box = Box(_title(part), title, part.seconds, part.stage, tuple(inside))
                stack[-1][1].append(box)

        for part in self.parts:
            close(part.depth)
            stack.append((part, []))
        close(0)
        title = f"{self.name}: {duration(self.seconds)}"
        return Box(self.name, title, self.seconds, "", tuple(stack[0][1]))


_HEAD = ("loop", "time", "share", "times", "busy threads")


def _title(part: Part) -> str:
    """Return the name of a part and of its stage."""
    what = "" if part.kind == "serial" else f"{part.kind} "
    stage = "" if part.kind == "kernel" else f" of {printable(part.stage)}"
    return f"{what}{printable(part.name)}{stage}"


def _threads(part: Part) -> str:
    rows = [(f"thread {k}", duration(t), t) for k, t in enumerate(part.threads)]
    what = escape(f"{_title(part)}: the threads' times")
    return f'<div class="head">{what}</div>{bars(rows, f"threads of {part.name}")}'


def _cells(rows: list[tuple[str, ...]]) -> list[list[str]]:
    """Return rows of text as HTML; leading spaces stay."""
    cells = []
    for row in rows:
        indent = len(row[0]) - len(row[0].lstrip(" "))
        first = "&nbsp;" * indent + escape(row[0].lstrip(" "))
        cells.append([first, *(escape(c) for c in row[1:])])
    return cells


def _aligned(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return a table as lines: names to the left, numbers to the right."""
    all_rows = [head, *rows]
    widths = [max(len(row[k]) for row in all_rows) for k in range(len(head))]
    lines = []
    for row in all_rows:
        cells = [
            text.ljust(w) if k in (0, 4) else text.rjust(w)
            for k, (text, w) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
