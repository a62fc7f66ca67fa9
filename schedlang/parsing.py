"""Python's syntax trees, which threads may ask for at the same time."""

from __future__ import annotations

import ast
from threading import Lock

# CPython 3.11 counts the depth of a tree for all threads together (its issue 106905)
_ONE_AT_A_TIME = Lock()


def parsed(source: str, path: str = "<unknown>") -> ast.Module:
    """Return the tree of ``source``. Raise ``SyntaxError`` as :func:`ast.parse` raises it.

    >>> ast.unparse(parsed("x=1"))
    'x = 1'
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source, path)
