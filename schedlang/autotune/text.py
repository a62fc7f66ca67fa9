"""Text from files and compilers, made safe to show, and a check for integers."""

from __future__ import annotations

import operator
import re
from typing import Any

from schedlang.expr.nodes import Expr

# characters that XML forbids, that move the cursor or that change the direction of text
_UNSHOWN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped as in Python.

    >>> print(printable("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return _UNSHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str, most: int = 80) -> str:
    """Return ``text`` on one line of at most ``most`` characters, for a message.

    >>> print(one_line("AMD\\x1b[31m\\nEPYC"))
    AMD\\x1b[31m\\nEPYC
    """
    shown = printable(text[: most + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def whole(value: Any) -> int | None:
    """Return an integer, also one of NumPy's, as an ``int``; ``None`` for anything else.

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


__all__ = ["one_line", "printable", "whole"]
