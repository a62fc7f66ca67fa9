"""The columns of the counters of a GPU program, and their cells beside the lines of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from schedlang.gpu_lowering.counters import Counters
from schedlang.markup.columns import align_columns

Lines = Sequence[tuple[str, Optional[Counters]]]
Column = tuple[str, str, str]
# the two lines above a column, and the field that it shows
GLOBAL: tuple[Column, ...] = (
    ("global", "loads", "global_loads"),
    ("global", "stores", "global_stores"),
    ("sectors", "loaded", "global_load_sectors"),
    ("sectors", "stored", "global_store_sectors"),
)
SHARED: tuple[Column, ...] = (
    ("shared", "loads", "shared_loads"),
    ("shared", "stores", "shared_stores"),
    ("bank", "conflicts", "bank_conflicts"),
)
# the most of any thread
THREAD: tuple[Column, ...] = (
    ("most global", "reads", "most_global_reads"),
    ("most global", "writes", "most_global_writes"),
)
THREAD_SHARED: tuple[Column, ...] = (
    ("most shared", "reads", "most_shared_reads"),
    ("most shared", "writes", "most_shared_writes"),
)


def columns(total: Counters) -> list[Column]:
    """Return the columns of a kernel, with shared memory only if it uses some."""
    shared = total.shared_loads or total.shared_stores
    return [*GLOBAL, *(SHARED if shared else ()), *THREAD, *(THREAD_SHARED if shared else ())]


def cells(counters: Counters | None, shown: Sequence[Column]) -> list[str]:
    """Return the cells of a line; zeros are blank."""
    numbers = [0 if counters is None else getattr(counters, name) for *_, name in shown]
    return [f"{n:,}" if n else "" for n in numbers]


def notes(total: Counters) -> list[str]:
    """Return the counters of a kernel that have no column."""
    names = ("barriers", "exchanges", "matrix_products", "divergences")
    return [f"{name.replace('_', ' ')}: {n:,}" for name in names if (n := getattr(total, name))]


def kernel_text(lines: Lines, total: Counters) -> str:
    """Return the lines of a kernel with columns at their left, then the notes."""
    heads = columns(total)
    rows = [([head[k] for head in heads], "") for k in (0, 1)]
    rows += [(cells(counters, heads), text) for text, counters in lines]
    return "\n".join([*align_columns(rows), *notes(total)])
