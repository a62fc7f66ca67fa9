"""Lines of code with the names in them marked, so that a page or a terminal can show them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from schedlang.markup.text import escape

# a name with dots, such as i.outer; a number; a comment to the end of the line; anything else
_TOKEN = re.compile(r"(?P<word>[^\W\d][\w.]*)|(?P<note>#.*)|(?P<other>[^\w#]+|\d[\w.]*)")


def tokens(
    line: str, names: Collection[str], keywords: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the parts of ``line``, each with its kind: ``name``, ``keyword``, ``note`` or ``""``.

    >>> list(tokens("for i in n:  # x", ["i"], ["for", "in"]))[:3]
    [('keyword', 'for'), ('', ' '), ('name', 'i')]
    """
    for token in _TOKEN.finditer(line):
        text = token.group()
        if token["note"]:
            yield "note", text
        elif text in names:
            yield "name", text
        else:
            yield ("keyword" if text in keywords else ""), text


def marked(line: str, titles: Mapping[str, str], keywords: Collection[str] = ()) -> str:
    """Return ``line`` as HTML: each name of ``titles`` in a span with its title.

    Comments and ``keywords`` are marked, too. Leading spaces are kept.

    >>> print(marked("for i in 0..8:   # tail", {"i": "a loop"}, ["for", "in"]))
    <b>for</b> <var data-name="i" title="a loop">i</var> <b>in</b> 0..8:   <em># tail</em>
    """
    found = []
    for kind, text in tokens(line, titles, keywords):
        shown = escape(text)
        if kind == "name":
            title = escape(titles[text])
            shown = f'<var data-name="{shown}" title="{title}">{shown}</var>'
        elif kind:
            tag = "em" if kind == "note" else "b"
            shown = f"<{tag}>{shown}</{tag}>"
        found.append(shown)
    return "".join(found)


__all__ = ["marked", "tokens"]
