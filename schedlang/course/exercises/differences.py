"""The difference of a result from the expected one, in words that help to find the mistake."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schedlang.errors import CheckError

Array = np.ndarray[Any, Any]


class Shortfall(NamedTuple):
    """The reason why an answer is not right yet, and a hint, which may be empty.

    ``word`` is about this mistake alone, and stands instead of the hint of the exercise.
    """

    why: str
    hint: str = ""
    word: str = ""


def raise_shortfall(shortfall: Shortfall | None, hint: str) -> None:
    """Raise the error for what an answer lacks, if anything, with the ``hint`` of the exercise."""
    if shortfall is not None:
        lines = [*(shortfall.word or hint).splitlines(), *shortfall.hint.splitlines()]
        raise CheckError("\n".join([shortfall.why, *(f"  {line}" for line in lines)]))


def difference(name: str, result: Any, expected: Any, tolerance: float) -> Shortfall | None:
    """Return how ``found`` differs from ``expected``; ``None`` if it does not.

    ``tolerance`` is the accepted error, relative to the largest expected element if that is above
    1. NaN agrees with NaN.

    >>> found = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> print(difference("C", found, found.T, 1e-6).why)
    C[0, 1] is 2 and should be 3; 2 of 4 elements differ
    >>> difference("C", found, found.T, 1e-6).hint
    'C is the transpose of the expected result: exchange its two axes.'
    >>> difference("C", found, found + 1e-9, 1e-6) is None
    True
    """
    actual, want = np.asarray(result), np.asarray(expected)
    if actual.shape != want.shape:
        flipped = actual.ndim == 2 and _agrees(actual.T, want, tolerance)
        return Shortfall(
            f"{name} has shape {actual.shape}, and the expected result has shape {want.shape}",
            _TRANSPOSED.format(name) if flipped else "",
        )
    wrong = _wrong(actual, want, tolerance)
    if not wrong.any():
        return None
    places = np.argwhere(wrong)
    first = tuple(int(n) for n in places[0])
    at = f"[{', '.join(map(str, first))}]" if first else ""
    why = f"{name}{at} is {_text(actual[first])} and should be {_text(want[first])}"
    if actual.size > 1:
        why += f"; {_share(wrong, places)}"
    return Shortfall(why, _pattern(name, actual, want, tolerance))


_TRANSPOSED = "{} is the transpose of the expected result: exchange its two axes."


def _wrong(result: Array, want: Array, tolerance: float) -> Array:
    """Return where two arrays of one shape differ."""
    if "c" in (result.dtype.kind, want.dtype.kind):
        pairs = ((np.real(result), np.real(want)), (np.imag(result), np.imag(want)))
        return np.asarray(np.logical_or(*(_wrong(a, b, tolerance) for a, b in pairs)))
    if result.dtype.kind not in "iufb" or want.dtype.kind not in "iufb":
        return np.asarray(result != want)
    if result.dtype.kind in "iub" and want.dtype.kind in "iub":
        return np.asarray(result != want)
    a, b = result.astype("float64"), want.astype("float64")
    size = float(np.max(np.abs(b), initial=1.0, where=np.isfinite(b)))
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= tolerance * size
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))


def _agrees(result: Array, want: Array, tolerance: float) -> bool:
    return result.shape == want.shape and not _wrong(result, want, tolerance).any()


def _share(wrong: Array, places: Array) -> str:
    """Return how many elements differ, and where, if they share an index."""
    if wrong.all():
        return f"all {wrong.size:,} elements differ"
    text = f"{len(places):,} of {wrong.size:,} elements differ"
    for k, extent in enumerate(wrong.shape):
        if len(places) > 1 and extent > 1 and (places[:, k] == places[0, k]).all():
            return f"{text}, all with index {places[0, k]} in dimension {k}"
    return text


def _pattern(name: str, result: Array, want: Array, tolerance: float) -> str:
    """Return the likely mistake: a transposed, scaled or shifted result; "" if none fits."""
    if result.ndim == 2 and _agrees(result.T, want, tolerance):
        return _TRANSPOSED.format(name)
    if result.dtype.kind not in "iuf" or want.dtype.kind not in "iuf" or result.size < 3:
        return ""
    a, b = result.astype("float64"), want.astype("float64")
    if np.isfinite(a).all() and np.isfinite(b).all() and b.any():
        factor = float((a * b).sum() / (b * b).sum())
        if abs(factor) > 1e-3 and _agrees(a / factor, b, 4 * tolerance):
            return f"Every element is {factor:.4g} times the expected one."
    for k in range(result.ndim):
        late, early = [slice(None)] * result.ndim, [slice(None)] * result.ndim
        late[k], early[k] = slice(1, None), slice(None, -1)
        if result.shape[k] < 3:
            continue
        for ours, theirs in ((late, early), (early, late)):
            if _agrees(a[tuple(ours)], b[tuple(theirs)], tolerance):
                return f"{name} is shifted by one element in dimension {k}: look at its index."
    return ""


def _text(value: Any) -> str:
    return f"{value:.6g}" if np.asarray(value).dtype.kind == "f" else str(value)
