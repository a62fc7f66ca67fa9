"""A whole page around pieces of HTML."""

from __future__ import annotations

from schedlang.markup.text import escape

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 1.5rem; font: 1rem/1.5 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { body { background: #14171d; color: #e6e9ef; } }
h1 { font-size: 1.3rem; }
"""


def page(title: str, body: str, heading: bool = True) -> str:
    """Return a page with ``body``, which is HTML, under ``title``, which is text.

    Without a ``heading``, only the browser's tab shows the title.
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    above = f"<h1>{escape(title)}</h1>" if heading else ""
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{above}{body}</body></html>\n'
    )
