"""Python's syntax trees, which threads may ask for at the same time."""

from __future__ import annotations

import ast
from threading import Lock

from schedlang.collection import no_collection

_ONE_AT_A_TIME = Lock()


def parse_source(source: str, path: str = "<unknown>") -> ast.Module:
    """Return the tree of ``source``. Raise ``SyntaxError`` as :func:`ast.parse` raises it.

    >>> ast.unparse(parse_source("x=1"))
    'x = 1'
    """
    try:
        return ast.parse(source, path)
    except SystemError:
        # CPython 3.11 counts the depth of a tree for all threads together (its issue 106905);
        # other threads run inside of a tree only where garbage is collected
        with _ONE_AT_A_TIME, no_collection():
            return ast.parse(source, path)
