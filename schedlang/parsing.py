"""Python's syntax trees, which threads may ask for at the same time."""

from __future__ import annotations

import ast
import gc
from threading import Lock

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
        with _ONE_AT_A_TIME:
            return _parsed_without_collection(source, path)


def _parsed_without_collection(source: str, path: str) -> ast.Module:
    if not gc.isenabled():
        return ast.parse(source, path)
    gc.disable()
    try:
        return ast.parse(source, path)
    finally:
        gc.enable()
