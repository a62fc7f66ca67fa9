"""Lines of code as HTML, with the names in them marked, so that a page can light equal ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from schedlang.markup.text import escape

# a name with dots, such as i.outer; a number; a comment to the end of the line; anything else
_TOKEN = re.compile(r"(?P<word>[^\W\d][\w.]*)|(?P<note>#.*)|(?P<other>[^\w#]+|\d[\w.]*)")


def marked(line: str, titles: Mapping[str, str], keywords: Collection[str] = ()) -> str:
    """Return ``line`` as HTML: each name of ``titles`` in a span with its title.

    Comments and ``keywords`` are marked, too. Leading spaces are kept.

    >>> print(marked("for i in 0..8:   # tail", {"i": "a loop"}, ["for", "in"]))
    <b>for</b> <var data-name="i" title="a loop">i</var> <b>in</b> 0..8:   <em># tail</em>
    """
    found = []
    for token in _TOKEN.finditer(line):
        text = token.group()
        if token["note"]:
            found.append(f"<em>{escape(text)}</em>")
        elif text in titles:
            name, title = escape(text), escape(titles[text])
            found.append(f'<var data-name="{name}" title="{title}">{name}</var>')
        elif text in keywords:
            found.append(f"<b>{text}</b>")
        else:
            found.append(escape(text))
    return "".join(found)


__all__ = ["marked"]
