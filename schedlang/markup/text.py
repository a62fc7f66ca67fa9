"""Text made safe to show: without characters that move a cursor or mean something in HTML."""

from __future__ import annotations

import html
import re

# characters that XML forbids, that move the cursor or that change the direction of text
_UNSHOWN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def uncoloured(text: str) -> str:
    """Return ``text`` without the codes of a terminal's colours.

    >>> uncoloured("\x1b[1mbold\x1b[0m")
    'bold'
    """
    return _COLOURS.sub("", text)


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped as in Python.

    >>> print(printable("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return _UNSHOWN.sub(lambda match: ascii(match[0])[1:-1], text)


def escape(text: object) -> str:
    """Return ``text`` escaped for HTML and SVG, also for use in quoted attributes.

    >>> escape('</pre><b title="x">')
    '&lt;/pre&gt;&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(printable(str(text)), quote=True)
