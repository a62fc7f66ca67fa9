"""The form of the tables: for each operator, its function in each opset that changed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
Table = dict[str, dict[int, Function]]


def since(function: Function, *versions: int) -> dict[int, Function]:
    """Return the entry of an operator whose changes, in these opsets, left ``function`` right.

    Such a change allows more dtypes, or adds an attribute that ``function`` takes.

    >>> since(len, 6, 13)
    {6: <built-in function len>, 13: <built-in function len>}
    """
    return dict.fromkeys(versions, function)
