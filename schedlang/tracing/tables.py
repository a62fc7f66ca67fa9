"""Arrays with known elements, such as ``np.arange(6.0)``, in which a traced function writes.

They are arrays of NumPy, whose elements may be indices and ends of ranges. A trace that stops where
something unknown is written into one is run once more, in which they are arrays of the trace.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from schedlang.errors import SchedlangError
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.names import inside

Result = TypeVar("Result")


@dataclass
class Tables:
    """A trace's choice about arrays with known elements, of names that are written.

    They are arrays of the trace if ``traced``. ``seen`` says that the trace met one.
    """

    traced: bool = False
    seen: bool = False

    def takes(self, value: Any) -> bool:
        """Return whether a new array of NumPy becomes an array of the trace."""
        is_known = isinstance(value, np.ndarray) and not is_traced(value)
        if not is_known or not value.ndim or value.dtype.kind not in "biufc":
            return False
        if _references(value) > _NEW or (
            value.base is not None and sys.getrefcount(value.base) > _OF_BASE
        ):
            # another name would not see what is written
            return False
        self.seen = True
        return self.traced


def with_tables(trace: Callable[[Tables], Result]) -> Result:
    """Return the result of a trace, in which arrays are known where that is possible."""
    tables = Tables()
    try:
        return trace(tables)
    except SchedlangError:
        if not tables.seen:
            raise
        try:
            return trace(Tables(traced=True))
        except SchedlangError:
            pass
        raise


def names_written(statements: Sequence[ast.stmt]) -> set[str]:
    """Return the names of arrays in which statements may write.

    >>> sorted(names_written(ast.parse("a[0] = 1; b += c; np.exp(c, out=d); e = 2").body))
    ['a', 'b', 'd']
    """
    names = set()
    for node in inside(statements):
        target: Any = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
            while isinstance(target, ast.Subscript):
                target = target.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.keyword) and node.arg == "out":
            target = node.value
        if isinstance(target, ast.Name):
            names.add(target.id)
    return names


def _references(value: Any) -> int:
    return sys.getrefcount(value)


class _Measured:
    """The references to a new array in ``Tables.takes``: one for each function on the way there."""

    def takes(self, value: Any) -> tuple[int, int]:
        return _references(value), sys.getrefcount(value.base)


def _of_new(value: Any) -> tuple[int, int]:
    """Return the references to an array, which a caller as in ``control`` has, and to its base."""
    return _Measured().takes(value)


_NEW, _OF_BASE = _of_new(np.empty(1)[:])
