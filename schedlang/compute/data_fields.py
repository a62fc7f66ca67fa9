"""The fields of a computation in its data form, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.errors import ComputeError
from schedlang.expr import dtypes
from schedlang.expr.names import check_name


def as_names(names: Any, count: int) -> list[str]:
    """Return the names of ``count`` outputs."""
    labels = [check_name(n, "a tensor") for n in as_list(names, "the names")]
    if len(labels) != count:
        raise ComputeError(f"got {len(labels)} names, expected {count}, one for each output")
    return labels


def as_list(value: Any, what: str) -> Sequence[Any]:
    """Return a list; ``what`` describes it in the error."""
    if not isinstance(value, (list, tuple)):
        raise ComputeError(f"{what} of the data is {shorten(value)}, not a list")
    return value


def as_flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ComputeError(f"a flag is {shorten(value)}, not true or false")
    return value


def as_bound(value: Any) -> int:
    """Return a bound of a size; raise for anything but a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ComputeError(f"a bound of a size is {shorten(value)}, not a number from 0 on")
    return value


def as_bounds(least: Any, most: Any) -> tuple[int, int | None]:
    """Return the least and the largest value of a size, which may have no largest one."""
    return as_bound(least), None if most is None else as_bound(most)


def as_dtype(value: Any) -> str:
    """Return the name of a dtype."""
    if not isinstance(value, str) or value not in dtypes.DTYPES:
        raise ComputeError(
            f"{shorten(value)} is not a dtype; choose one of {', '.join(dtypes.DTYPES)}"
        )
    return value


def shorten(value: Any) -> str:
    """Return a value as text of at most 40 characters."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
