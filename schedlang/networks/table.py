"""A partition as a table, in text and in HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlang.markup.elements import table
from schedlang.markup.fragment import fragment
from schedlang.markup.sizes import bytes_text
from schedlang.markup.text import escape, printable

if TYPE_CHECKING:
    from schedlang.networks.partition import Part, Partition

# characters of a line of stages or layers
WIDTH = 40
_NUMBERS = ("MFLOP", "read", "written")


def partition_text(partition: Partition) -> str:
    """Return the table of a partition as text.

    The MFLOP count each arithmetic operation once, as ``sl.cost`` does. A question mark stands for
    a function of the user's, unless ``sl.extern`` was given its ``flops``.
    """
    head, rows = _head(partition), [_cells(part, partition) for part in partition.parts]
    lines: list[list[str]] = [list(head)]
    for row in rows:
        wrapped = [textwrap.wrap(cell, WIDTH) or [""] for cell in row[6:]]
        for k in range(max(map(len, wrapped))):
            first = row[:6] if k == 0 else [""] * 6
            lines.append([*first, *(cell[k] if k < len(cell) else "" for cell in wrapped)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    numbers = {k for k, name in enumerate(head) if name in _NUMBERS}
    text = [_headline(partition)]
    for line in lines:
        cells = (
            cell.rjust(width) if k in numbers else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths))
        )
        text.append("  ".join(cells).rstrip())
    return "\n".join([*text, *_notes(partition)])


def partition_html(partition: Partition) -> str:
    """Return the table of a partition as HTML."""
    head, rows = _head(partition), [_cells(part, partition) for part in partition.parts]
    classes = ["number" if name in _NUMBERS else "" for name in head]
    body = [[escape(cell) for cell in row] for row in rows]
    lines = [f"<p>{escape(line)}</p>" for line in (_headline(partition), *_notes(partition))]
    return fragment("\n".join([lines[0], table(head, body, classes), *lines[1:]]))


def _headline(partition: Partition) -> str:
    parts, stages = len(partition.parts), partition.stage_count
    order = ", in the order in which they run" if parts > 1 else ""
    return f"{parts} part{'s' * (parts != 1)} of {stages} stage{'s' * (stages != 1)}{order}"


def _head(partition: Partition) -> tuple[str, ...]:
    known = any(part.layers for part in partition.parts)
    return ("part", "kind", "result", *_NUMBERS, "stages", *(["layers"] if known else []))


def _cells(part: Part, partition: Partition) -> list[str]:
    results = ", ".join(f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in part.writes)
    cells = [
        part.name,
        part.kind,
        results,
        "?" if part.unknown else _millions(part.flops),
        bytes_text(part.read_bytes),
        bytes_text(part.written_bytes),
        ", ".join(part.stages),
    ]
    if any(other.layers for other in partition.parts):
        cells.append(", ".join(part.layers))
    return [printable(cell) for cell in cells]


def _millions(count: int) -> str:
    return "0" if count == 0 else "< 0.001" if count < 1000 else f"{count / 1e6:,.3f}"


def _notes(partition: Partition) -> Sequence[str]:
    if not partition.sizes:
        return ()
    listed = ", ".join(f"{name} = {number}" for name, number in partition.sizes.items())
    return (f"counted for {listed}",)
