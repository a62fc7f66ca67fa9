"""Text out of files and from compilers as it may be shown; whole numbers of the user's."""

from __future__ import annotations

import operator
import re
from typing import Any

from schedlang.expr.nodes import Expr

# what XML forbids, what moves a cursor and what turns the direction of text around
_UNSHOWN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def plain(text: str) -> str:
    """Return ``text`` with what cannot be shown written out, as Python would.

    >>> print(plain("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return _UNSHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str, most: int = 80) -> str:
    """Return ``text`` in a message: on one line, and not long.

    >>> print(one_line("AMD\\x1b[31m\\nEPYC"))
    AMD\\x1b[31m\\nEPYC
    """
    shown = plain(text[: most + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def whole(value: Any) -> int | None:
    """Return a whole number as an ``int``, NumPy's too; ``None`` for anything else.

    >>> import numpy as np
    >>> whole(np.int64(4)), whole(4.0), whole(True)
    (4, None, None)
    """
    if isinstance(value, (bool, Expr)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


__all__ = ["one_line", "plain", "whole"]
