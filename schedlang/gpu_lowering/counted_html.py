"""The counters of a GPU program as HTML: for each kernel a table whose last column is its text."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.gpu_lowering.counted_table import Lines, cells, columns, notes
from schedlang.gpu_lowering.counters import Counters
from schedlang.markup.elements import table
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape


def counters_html(kernels: Mapping[str, Counters], lines: Mapping[str, Lines]) -> str:
    """Return the counters of kernels by name, beside their lines, as HTML with its style."""
    return fragment("".join(_kernel(name, kernels[name], lines[name]) for name in kernels))


def _kernel(name: str, total: Counters, lines: Lines) -> str:
    heads_and_fields = columns(total)
    rows = [
        [*cells(counters, heads_and_fields), f"<code>{escape(text)}</code>"]
        for text, counters in lines
    ]
    heads = [f"{above} {below}" for above, below, _ in heads_and_fields]
    parts = [
        f'<div class="head">counters of kernel {escape(name)}</div>',
        table([*heads, ""], rows, [*["number"] * len(heads), ""]),
        *(f'<div class="head">{escape(note)}</div>' for note in notes(total)),
    ]
    return "".join(parts)
