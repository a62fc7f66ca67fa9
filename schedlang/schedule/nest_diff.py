"""The difference of two nests: a unified diff as text, side by side as HTML."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from schedlang.ir.html import KEYWORDS, titles_of
from schedlang.ir.nest import Nest
from schedlang.markup.code import marked
from schedlang.markup.fragment import fragment
from schedlang.markup.text import escape

NEAR = 2


class NestDiff(str):
    """A unified diff of two printed nests, which a notebook shows side by side."""

    __slots__ = ("_after", "_before", "_title")

    _before: Nest
    _after: Nest
    _title: str

    def __reduce__(self) -> Any:
        return str, (str(self),)

    def _repr_html_(self) -> str:
        head = f'<div class="head">{escape(self._title)}</div>'
        return fragment(head + sides_html(self._before, self._after))


def nest_diff(before: Nest, after: Nest, title: str) -> NestDiff:
    """Return the difference of two nests, under a title."""
    lines = difflib.unified_diff(
        str(before).splitlines(), str(after).splitlines(), "before", title, n=NEAR, lineterm=""
    )
    made = NestDiff("\n".join(lines))
    made._before, made._after, made._title = before, after, title
    return made


def sides_html(before: Nest, after: Nest) -> str:
    """Return two nests side by side as HTML; changed lines are coloured."""
    left, right = str(before).splitlines(), str(after).splitlines()
    titles = titles_of(before), titles_of(after)
    rows = "".join(
        f'<div class="line {a_class}">{marked(a, titles[0], KEYWORDS)}</div>'
        f'<div class="line {b_class}">{marked(b, titles[1], KEYWORDS)}</div>'
        for a, a_class, b, b_class in _pairs(left, right)
    )
    return f'<div class="sides">{rows}</div>'


def _pairs(left: list[str], right: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines that stand beside each other, each with its class."""
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        same = kind == "equal"
        for n in range(max(a_end - a, b_end - b)):
            one = left[a + n] if a + n < a_end else None
            other = right[b + n] if b + n < b_end else None
            yield (
                one or "", "" if same or one is None else "removed",
                other or "", "" if same or other is None else "added",
            )  # fmt: skip


__all__ = ["NestDiff", "nest_diff", "sides_html"]
