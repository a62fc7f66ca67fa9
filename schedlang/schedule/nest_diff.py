"""The difference of two nests: a unified diff as text, side by side as HTML."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from schedlang.ir.html import nest_lines
from schedlang.ir.nest import Nest
from schedlang.markup.bundle import InNotebooks
from schedlang.markup.fragment import fragment
from schedlang.markup.name_table import NameTable
from schedlang.markup.text import escape

NEAR = 2


class NestDiff(InNotebooks, str):
    """A unified diff of two printed nests, which a notebook shows side by side."""

    __slots__ = ("_after", "_before", "_title")

    _before: Nest
    _after: Nest
    _title: str

    def __reduce__(self) -> Any:
        return str, (str(self),)

    def _repr_html_(self) -> str:
        names = NameTable()
        sides = sides_html(nest_lines(self._before, names), nest_lines(self._after, names))
        return fragment(f'<div class="head">{escape(self._title)}</div>{sides}', len(names))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # IPython prefers its own text of strings to the text of the bundle
        printer.text(str(self))


def nest_diff(before: Nest, after: Nest, title: str) -> NestDiff:
    """Return the difference of two nests, under a title."""
    lines = difflib.unified_diff(
        str(before).splitlines(), str(after).splitlines(), "before", title, n=NEAR, lineterm=""
    )
    diff = NestDiff("\n".join(lines))
    diff._before, diff._after, diff._title = before, after, title
    return diff


def sides_html(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> str:
    """Return the lines of two nests side by side as HTML; changed lines are coloured.

    A line is its text, and its HTML.
    """
    left: list[str] = []
    right: list[str] = []
    for old, new, changed in pair_lines([text for text, _ in before], [text for text, _ in after]):
        left.append(_line(None if old is None else before[old][1], "removed", "−", changed))
        right.append(_line(None if new is None else after[new][1], "added", "+", changed))
    blocks = (f'<div class="block">{"".join(side)}</div>' for side in (left, right))
    panes = "".join(f'<div class="pane">{block}</div>' for block in blocks)
    return f'<div class="sides">{panes}</div>'


def _line(html: str | None, kind: str, mark: str, changed: bool) -> str:
    if html is None:
        return '<pre class="line gap"></pre>'
    if not changed:
        return f'<pre class="line"><s> </s> {html}</pre>'
    return f'<pre class="line {kind}"><s>{mark}</s> {html}</pre>'


def pair_lines(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[int | None, int | None, bool]]:
    """Yield the numbers of the lines that stand beside each other, and whether they differ.

    >>> list(pair_lines(["a", "b"], ["a", "c", "d"]))
    [(0, 0, False), (1, 1, True), (None, 2, True)]
    """
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        for n in range(max(a_end - a, b_end - b)):
            one = a + n if a + n < a_end else None
            other = b + n if b + n < b_end else None
            yield one, other, kind != "equal"
