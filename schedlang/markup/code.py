"""Lines of code with the names in them marked, so that a page or a terminal can show them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from schedlang.markup.name_table import Name
from schedlang.markup.text import escape


@lru_cache(maxsize=4)
def _token(note: str) -> re.Pattern[str]:
    """Return the pattern of a token, where ``note`` begins a comment."""
    # a name with dots, such as i.outer; a comment to the end of the line, and the spaces before it;
    # a number; anything else
    start = rf"\s*{re.escape(note)}"
    word, other = r"(?P<word>[^\W\d][\w.]*)", rf"\d[\w.]*|(?:(?!{start})[^\w])+"
    return re.compile(rf"{word}|(?P<note>{start}.*)|(?P<other>{other})")


def tokens(
    line: str, names: Collection[str], keywords: Collection[str], note: str = "#"
) -> Iterator[tuple[str, str]]:
    """Yield the parts of ``line``, each with its kind: ``name``, ``keyword``, ``note`` or ``""``.

    ``note`` is what a comment begins with.

    >>> list(tokens("for i in n:  # x", ["i"], ["for", "in"]))[:3]
    [('keyword', 'for'), ('', ' '), ('name', 'i')]
    """
    for token in _token(note).finditer(line):
        text = token.group()
        if token["note"]:
            yield "note", text
        elif text in names:
            yield "name", text
        else:
            yield ("keyword" if text in keywords else ""), text


def mark_code(
    line: str,
    names: Mapping[str, Name],
    keywords: Collection[str] = (),
    defined: Collection[str] = (),
    note: str = "#",
) -> str:
    """Return ``line`` as HTML: each of ``names`` in an element of its class, with its title.

    ``defined`` are the names that the line defines. Comments and ``keywords`` are marked, too.
    Leading spaces are kept.

    >>> print(mark_code("for i in 0..8:   # tail", {"i": Name(3, "a loop")}, ["for", "in"], ["i"]))
    <b>for</b> <var class="v3 def" title="a loop">i</var> <b>in</b> 0..8:<em>   # tail</em>
    """
    parts = []
    for kind, text in tokens(line, names, keywords, note):
        html = escape(text)
        if kind == "name":
            name = names[text]
            title = f' title="{escape(name.title)}"' if name.title else ""
            definition = " def" if text in defined else ""
            html = f'<var class="v{name.number}{definition}"{title}>{html}</var>'
        elif kind:
            tag = "em" if kind == "note" else "b"
            html = f"<{tag}>{html}</{tag}>"
        parts.append(html)
    return "".join(parts)
