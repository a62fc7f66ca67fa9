"""A race as HTML: threads over elements, with the two accesses that race marked."""

from __future__ import annotations

from schedlang.gpu_lowering.race_grid import Grid, thread_name
from schedlang.markup.flame import COLOURS, LETTER
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape

SIDE = 20
# the letter and the colour of what a thread does
MARKS = {
    "wrote": ("W", COLOURS[1]),
    "read": ("R", COLOURS[3]),
    "writes": ("W", COLOURS[0]),
    "reads": ("R", COLOURS[0]),
}
KEY = "W: writes, R: reads; blue: in the statement at which the race was found, else before it"


def race_html(sentence: str, buffer: str, grid: Grid) -> str:
    """Return a race as HTML with its style: a sentence, a grid of accesses, and their key."""
    names = [thread_name(t) for t in grid.threads]
    labels = [", ".join(map(str, e)) for e in grid.elements]
    left = round(LETTER * max(map(len, names)) + 10)
    top = round(LETTER * max(map(len, labels)) + 12)
    parts = []
    for k, label in enumerate(labels):
        x = left + k * SIDE + SIDE * 0.7
        parts.append(
            f'<text x="{x:.0f}" y="{top - 6}" fill="currentColor" '
            f'transform="rotate(-90 {x:.0f} {top - 6})">{escape(label)}</text>'
        )
    for k, name in enumerate(names):
        y = top + k * SIDE
        parts.append(f'<text x="0" y="{y + 14}" fill="currentColor">{escape(name)}</text>')
    for (row, column), what in grid.cells.items():
        letter, colour = MARKS[what]
        x, y = left + column * SIDE, top + row * SIDE
        title = f"{names[row]} {what} {buffer}[{labels[column]}]"
        edge = ' stroke="#d55e00" stroke-width="3"' if (row, column) in grid.pair else ""
        parts.append(
            f'<g><title>{escape(title)}</title><rect x="{x + 1}" y="{y + 1}" width="{SIDE - 2}" '
            f'height="{SIDE - 2}" fill="{colour}"{edge}/><text x="{x + 6}" y="{y + 14}" '
            f'fill="#1c2230">{letter}</text></g>'
        )
    width, height = left + SIDE * len(labels) + 4, top + SIDE * len(names) + 4
    chart = (
        f'<svg role="img" aria-label="{escape(sentence)}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="max-width: 100%; height: auto" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">'
        f"{''.join(parts)}</svg>"
    )
    head = f'<div class="head">{escape(sentence)}</div>'
    return fragment(f'{head}<div class="wide">{chart}</div><div class="head">{KEY}</div>')
