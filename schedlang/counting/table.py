"""Counts as text: columns at the margin of a nest, a table of its stages, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from schedlang.counting.records import Counts
from schedlang.machine.printer import Line
from schedlang.markup.columns import align_columns

Nest = Sequence[tuple[Line, Optional[Counts]]]


def columns(levels: int) -> tuple[list[str], list[str]]:
    """Return the headings of the columns of a nest, and of the columns of the stages."""
    lines = [f"L{level} lines" for level in range(1, levels + 1)]
    shared = ["loads", "stores", "scalar", "vector"]
    return ["runs", *shared, *lines], ["evaluations", *shared, "peak bytes", *lines]


def line_cells(counts: Counts | None, levels: int) -> list[str]:
    """Return the cells of a line of a nest; zeros are blank."""
    if counts is None:
        return [""] * (5 + levels)
    lines = counts.lines or (0,) * levels
    numbers = [counts.runs, counts.loads, counts.stores, counts.scalar, counts.vector, *lines]
    return [f"{n:,}" if n else "" for n in numbers]


def stage_cells(counts: Counts) -> list[str]:
    """Return the cells of a stage."""
    numbers = (counts.evaluations, counts.loads, counts.stores, counts.scalar, counts.vector,
             counts.peak_bytes, *counts.lines)  # fmt: skip
    return [f"{n:,}" for n in numbers]


def counts_text(
    nest: Nest, stages: Mapping[str, Counts], total: Counts, notes: Sequence[str]
) -> str:
    """Return a nest with columns at its left, then the stages and ``notes``.

    A loop's line has the counts of all that it does; ``runs`` are its iterations.
    """
    levels = len(total.lines)
    heads, stage_heads = columns(levels)
    rows = [(line_cells(counts, levels), line.text) for line, counts in nest]
    text = align_columns([(heads, ""), *rows])
    table = [(stage_cells(counts), name) for name, counts in stages.items()]
    table.append((stage_cells(total), "total"))
    text += ["", *align_columns([(stage_heads, "stage"), *table], left=True)]
    return "\n".join([*text, *([""] if notes else []), *notes])
