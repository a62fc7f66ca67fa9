"""The counters of a GPU program: by kernel, and beside the lines of its program when shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from schedlang.gpu_lowering.counters import Counters
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.printer import launch_lines
from schedlang.gpu_lowering.program import Program
from schedlang.markup.bundle import mime_bundle
from schedlang.markup.columns import aligned
from schedlang.markup.elements import table
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape

Lines = tuple[tuple[str, Optional[Counters]], ...]
# the two lines above a column, and the field that it shows
GLOBAL = (
    ("global", "loads", "global_loads"), ("global", "stores", "global_stores"),
    ("sectors", "loaded", "global_load_sectors"), ("sectors", "stored", "global_store_sectors"),
)  # fmt: skip
SHARED = (
    ("shared", "loads", "shared_loads"), ("shared", "stores", "shared_stores"),
    ("bank", "conflicts", "bank_conflicts"),
)  # fmt: skip
# the most of any thread
THREAD = (
    ("most global", "reads", "most_global_reads"), ("most global", "writes", "most_global_writes"),
)  # fmt: skip
THREAD_SHARED = (
    ("most shared", "reads", "most_shared_reads"), ("most shared", "writes", "most_shared_writes"),
)  # fmt: skip


class KernelCounters(dict[str, Counters]):
    """The counters of each kernel by name; ``print`` and notebooks show them beside the program.

    ``lines`` has the lines of each kernel, each with its counters, or ``None``.
    """

    def __init__(self, ledgers: Mapping[str, Ledger], program: Program) -> None:
        super().__init__({name: ledger.total for name, ledger in ledgers.items()})
        self.lines: dict[str, Lines] = {}
        for launch in program.launches:
            ledger = ledgers[launch.name]
            head, *rest = launch_lines(program.nest, launch)
            self.lines[launch.name] = (
                (head[0], ledger.total),
                *((text, None if stmt is None else ledger.lines[stmt]) for text, stmt in rest),
            )

    def __str__(self) -> str:
        return "\n\n".join(_text(lines) for lines in self.lines.values())

    def _repr_html_(self) -> str:
        return fragment("".join(map(_html, self.lines.values())))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), str(self))


def _text(lines: Lines) -> str:
    shown = _columns(lines)
    heads = [([head[k] for head in shown], "") for k in (0, 1)]
    return "\n".join([*aligned([*heads, *_rows(lines, shown)]), *_waits(lines)])


def _html(lines: Lines) -> str:
    shown = _columns(lines)
    rows = [[*numbers, escape(text)] for numbers, text in _rows(lines, shown)]
    heads = [*(f"{above} {below}" for above, below, _ in shown), ""]
    notes = (f'<div class="head">{note}</div>' for note in _waits(lines))
    return "".join([table(heads, rows, [*["number"] * len(shown), "code"]), *notes])


def _columns(lines: Lines) -> list[tuple[str, str, str]]:
    """Return the columns of a kernel: those of shared memory only if it accesses some."""
    total = _total(lines)
    shared = total.shared_loads or total.shared_stores
    return [*GLOBAL, *(SHARED if shared else ()), *THREAD, *(THREAD_SHARED if shared else ())]


def _rows(
    lines: Lines, shown: Sequence[tuple[str, str, str]]
) -> list[tuple[list[str], str]]:
    """Return the cells of each line; a zero is left blank."""
    found = []
    for text, counters in lines:
        numbers = [0 if counters is None else getattr(counters, name) for _, _, name in shown]
        found.append(([f"{n:,}" if n else "" for n in numbers], text))
    return found


def _waits(lines: Lines) -> list[str]:
    """Return the counts that belong to the kernel as a whole, as text."""
    total = _total(lines)
    names = ("barriers", "exchanges", "divergences")
    return [f"{name}: {n:,}" for name in names if (n := getattr(total, name))]


def _total(lines: Lines) -> Counters:
    total = lines[0][1]
    assert total is not None
    return total


__all__ = ["KernelCounters"]
