"""Text from files and compilers on one line, and a check for integers."""

from __future__ import annotations

import operator
from typing import Any

from schedlang.expr.nodes import Expr
from schedlang.markup.text import printable


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
