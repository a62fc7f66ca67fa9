"""The counters of a GPU program: by kernel, and beside the lines of its program when printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from schedlang.gpu_lowering.counters import Counters
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.printer import launch_lines
from schedlang.gpu_lowering.program import Program
from schedlang.markup.columns import aligned

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
    """The counters of each kernel by its name; ``print`` shows them beside the program.

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
        return "\n\n".join(_table(lines) for lines in self.lines.values())


def _table(lines: Lines) -> str:
    total = lines[0][1]
    assert total is not None
    shared = total.shared_loads or total.shared_stores
    shown = [*GLOBAL, *(SHARED if shared else ()), *THREAD, *(THREAD_SHARED if shared else ())]
    rows = [([head[k] for head in shown], "") for k in (0, 1)]
    for text, counters in lines:
        numbers = [0 if counters is None else getattr(counters, name) for _, _, name in shown]
        rows.append(([f"{n:,}" if n else "" for n in numbers], text))
    names = ("barriers", "exchanges", "divergences")
    waits = [f"{name}: {n:,}" for name in names if (n := getattr(total, name))]
    return "\n".join([*aligned(rows), *waits])


__all__ = ["KernelCounters"]
