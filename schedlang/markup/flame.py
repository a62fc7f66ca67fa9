"""Flame charts as SVG: boxes as wide as the time that they took, callers above what they call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlang.markup.text import escape

WIDTH, ROW, LETTER, GAP = 960.0, 22, 7.3, 1.0
# narrower boxes cannot be seen
NARROWEST = 0.5
# light colours for dark text, which people with any colour vision tell apart (Okabe and Ito)
COLOURS = ("#56b4e9", "#e69f00", "#3fbf9b", "#f0e442", "#cc9fbb", "#f5a47a", "#9fb4e8", "#c9c9c9")


@dataclass(frozen=True)
class Box:
    """A part of a chart: its label, the title under the pointer, its size and its parts.

    ``group`` chooses the colour. The sizes of the parts add up to at most ``size``.
    """

    label: str
    title: str
    size: float
    group: str = ""
    parts: tuple[Box, ...] = ()


def flame(root: Box, label: str) -> str:
    """Return a flame chart as an SVG element, which ``label`` describes.

    >>> chart = flame(Box("f", "f: 2 s", 2.0, "f", (Box("<g>", "g: 1 s", 1.0, "g"),)), "times of f")
    >>> chart.count("<rect"), "&lt;g&gt;" in chart
    (2, True)
    """
    placed = list(_placed(root))
    height = (1 + max(depth for _, _, depth, _ in placed)) * ROW
    colours = group_colours(box.group for box, *_ in placed)
    body = "".join(_box(box, x, depth, width, colours) for box, x, depth, width in placed)
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH:g} {height}" '
        f'width="{WIDTH:g}" height="{height}" style="max-width: 100%; height: auto" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">{body}</svg>'
    )


def bars(rows: Sequence[tuple[str, str, float]], label: str) -> str:
    """Return bars as an SVG element: for each its label, its title and its length.

    >>> bars([("thread 0", "1 s", 1.0), ("thread 1", "2 s", 2.0)], "threads").count("<rect")
    2
    """
    most = max((size for _, _, size in rows), default=0.0)
    left = LETTER * max((len(name) for name, _, _ in rows), default=0) + 8
    body = ""
    for k, (name, title, size) in enumerate(rows):
        y = k * ROW
        width = (WIDTH - left) * size / most if most else 0.0
        body += (
            f'<text x="0" y="{y + 15}" fill="currentColor">{escape(name)}</text>'
            f'<rect x="{left:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" '
            f'fill="{COLOURS[0]}"><title>{escape(title)}</title></rect>'
        )
    height = max(1, len(rows)) * ROW
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH:g} {height}" '
        f'width="{WIDTH:g}" height="{height}" style="max-width: 100%; height: auto" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">{body}</svg>'
    )


def group_colours(groups: Iterator[str] | Sequence[str]) -> Mapping[str, str]:
    """Return a colour for each group, in order; the colours repeat after eight."""
    return {g: COLOURS[k % len(COLOURS)] for k, g in enumerate(dict.fromkeys(groups))}


def _placed(root: Box) -> Iterator[tuple[Box, float, int, float]]:
    """Yield each box that can be seen with its left edge, its depth and its width."""
    scale = WIDTH / root.size if root.size > 0 else 0.0
    stack: list[tuple[Box, float, int]] = [(root, 0.0, 0)]
    while stack:
        box, x, depth = stack.pop()
        width = WIDTH if box is root else box.size * scale
        if width < NARROWEST:
            continue
        yield box, x, depth, width
        for part in box.parts:
            stack.append((part, x, depth + 1))
            x += part.size * scale


def _box(box: Box, x: float, depth: int, width: float, colours: Mapping[str, str]) -> str:
    y = depth * ROW
    rect = (
        f'<rect x="{x:.2f}" y="{y}" width="{max(width - GAP, NARROWEST):.2f}" '
        f'height="{ROW - 2}" rx="2" fill="{colours[box.group]}"/>'
    )
    fits = int((width - 8) / LETTER)
    label = box.label if len(box.label) <= fits else f"{box.label[: fits - 1]}…"
    text = f'<text x="{x + 4:.2f}" y="{y + 14}" fill="#1c2230">{escape(label)}</text>'
    return f"<g><title>{escape(box.title)}</title>{rect}{text if fits > 2 else ''}</g>"
