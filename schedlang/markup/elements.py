"""Tables and code listings as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedlang.markup.text import escape


def table(head: Sequence[str], rows: Iterable[Sequence[str]], classes: Sequence[str]) -> str:
    """Return an HTML table of cells that are already HTML.

    ``classes`` has one class for each column, ``""`` for none.

    >>> table(["n"], [["1"]], ["number"]).splitlines()[1]
    '<tr><th scope="col" class="number">n</th></tr>'
    """

    def line(cells: Sequence[str], tag: str) -> str:
        start = 'th scope="col"' if tag == "th" else "td"
        filled_cells = (
            f'<{start} class="{c}">{cell}</{tag}>' if c else f"<{start}>{cell}</{tag}>"
            for cell, c in zip(cells, classes, strict=True)
        )
        return f"<tr>{''.join(filled_cells)}</tr>"

    lines = ['<div class="wide"><table>', line(head, "th"), *(line(row, "td") for row in rows)]
    return "\n".join([*lines, "</table></div>"])


def listing(text: str, label: str) -> str:
    """Return a block of code as HTML."""
    # a browser drops a line end right after the tag, so double it
    start = "\n" if text.startswith("\n") else ""
    return (
        f'<pre tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<code>{start}{escape(text)}</code></pre>"
    )


def folded_code(title: str, text: str) -> str:
    """Return a block of code as HTML that is hidden at first, under its title."""
    code = listing(text, title)
    return f'<details class="more"><summary>{escape(title)}</summary>{code}</details>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a list of terms with their values, which are text.

    >>> facts([("time", "< 1 ms")])
    '<dl><dt>time</dt><dd>&lt; 1 ms</dd></dl>'
    """
    listed = (f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in rows)
    return f"<dl>{''.join(listed)}</dl>"
