"""Values that assignments store in the elements of an array, and those that NumPy refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.tracing.items import assigned_value
from schedlang.tracing.leaves import flatten, is_traced
from schedlang.tracing.scalars import settle
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text

# NumPy's kinds of numbers from the least general one on
_KINDS = ("b", "iu", "f", "c")


def stored_value(value: Any, kind: np.dtype) -> Any:
    """Return the value of an assignment to elements of dtype ``kind``.

    Raises ``ComputeTypeError`` for an integer of Python beyond this dtype, and for complex numbers
    in real elements.
    """
    settle(value)
    for leaf in flatten(value)[0]:
        if kind.kind in "iu" and type(leaf) is int and not is_traced(leaf):
            _check_bounds(leaf, kind)
    stored = assigned_value(value)
    given = np.asarray(value).dtype if isinstance(stored, complex) else _dtype(stored)
    is_complex = given is not None and np.issubdtype(given, np.complexfloating)
    if is_complex and kind.kind not in "cb":
        raise ComputeTypeError(
            explain(
                f"a value of {given} in {_assigned()} of {kind} in {line_text()}",
                "its imaginary parts would be lost",
                "Store a part or the magnitude: z.real, z.imag or np.abs(z).",
            )
        )
    return stored


def check_in_place(given: np.dtype, kind: np.dtype) -> None:
    """Raise ``ComputeTypeError`` for a result that NumPy does not convert to ``kind`` in place."""
    if not np.can_cast(given, kind, "same_kind"):
        name = current_target()
        raise ComputeTypeError(
            explain(
                f"a result of {given} into {_assigned()} of {kind} in {line_text()}",
                f"NumPy does not convert {given} to {kind} in place, since its casting rule is "
                "'same_kind'",
                f"Assign it to the name, {name or 'x'} = ..., or convert it first: "
                f".astype({str(kind)!r}).",
            )
        )


def check_copied(value: Any, kind: np.dtype, casting: Any) -> None:
    """Raise ``ComputeTypeError`` for what ``np.copyto`` does not convert to ``kind``."""
    given = getattr(value, "dtype", None)
    if given is None and isinstance(value, (bool, int, float, complex)):
        fits = casting == "unsafe" or _rank(np.asarray(value).dtype) <= _rank(kind)
        given = np.asarray(value).dtype
    else:
        fits = given is None or np.can_cast(given, kind, casting)
    if not fits:
        raise ComputeTypeError(
            explain(
                f"np.copyto of {given} into an array of {kind} in {line_text()}",
                f"NumPy's rule {casting!r} excludes the conversion",
                f"Write x[...] = values, or convert it with .astype({str(kind)!r}).",
            )
        )


def _rank(kind: np.dtype) -> int:
    return next(rank for rank, kinds in enumerate(_KINDS) if kind.kind in kinds)


def _check_bounds(value: int, kind: np.dtype) -> None:
    bounds = np.iinfo(kind)
    if not bounds.min <= value <= bounds.max:
        raise ComputeTypeError(
            explain(
                f"{value} in {_assigned()} of {kind} in {line_text()}",
                f"Python integer {value} is out of bounds for {kind}, as in NumPy",
                "Give the array a dtype that holds it.",
            )
        )


def _dtype(value: Any) -> np.dtype | None:
    kind = getattr(value, "dtype", None)
    return None if kind is None else np.dtype(kind)


def current_target() -> str:
    """Return the variable that the user's statement assigns to, or ``""``."""
    place = current().place()
    return "" if place is None else place.target


def _assigned() -> str:
    return current_target() or "an array"
