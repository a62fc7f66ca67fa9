"""Counts as HTML: a table whose last column is the nest, and a table of the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.counting.records import Counts
from schedlang.counting.table import Nest, columns, line_cells, stage_cells
from schedlang.markup.elements import table
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape


def counts_html(
    name: str, nest: Nest, stages: Mapping[str, Counts], total: Counts, notes: Sequence[str]
) -> str:
    """Return the counts of the kernel ``name`` as HTML with its style."""
    levels = len(total.lines)
    heads, stage_heads = columns(levels)
    lines = []
    for line, counts in nest:
        lines.append([*line_cells(counts, levels), escape(line.text)])
    rows = [[escape(stage), *stage_cells(counts)] for stage, counts in stages.items()]
    rows.append(["total", *stage_cells(total)])
    parts = [
        f'<div class="head">counts of {escape(name)}</div>',
        table([*heads, ""], lines, [*["number"] * len(heads), "code"]),
        table(["stage", *stage_heads], rows, ["", *["number"] * len(stage_heads)]),
        *(f'<div class="head">{escape(note)}</div>' for note in notes),
    ]
    return fragment("".join(parts))
