"""Functions of NumPy that leave out, insert or replace elements at places that a trace knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, explain
from schedlang.tracing.leaves import flatten, is_traced
from schedlang.tracing.unknown import line_text

# NumPy's functions on arrays of a trace; NumPy's types do not know these calls
numpy: Any = np


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    array, at = _along(arr, axis)
    kept = _places("delete", np.delete, array.shape[at], obj)
    ends = [0, *(np.flatnonzero(np.diff(kept) != 1) + 1), len(kept)]
    runs = [kept[a:b] for a, b in zip(ends, ends[1:]) if a < b] or [kept]
    before = (slice(None),) * at
    if len(runs) > 4:
        return numpy.take(array, kept, axis=at)
    slices = [slice(int(r[0]), int(r[-1]) + 1) if len(r) else slice(0) for r in runs]
    return numpy.concatenate([array[before + (part,)] for part in slices], axis=at)  # noqa: RUF005


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    array, at = _along(arr, axis)
    if array.ndim > 1 and np.ndim(values):
        _refuse("insert", "rows are inserted as parts of a new array",
                "Write np.concatenate([x[:k], rows, x[k:]]).")  # fmt: skip
    count = max(np.size(obj), np.size(values)) if not np.ndim(obj) else len(np.atleast_1d(obj))
    extent = array.shape[at]
    order = _places("insert", np.insert, extent, obj, extent + np.arange(count))
    shape = (*array.shape[:at], count, *array.shape[at + 1 :])
    new = numpy.broadcast_to(numpy.reshape(values, -1) if np.ndim(values) else values, shape)
    new = new.astype(array.dtype)
    return numpy.take(numpy.concatenate([array, new], axis=at), order, axis=at)


def _along(array: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array and the axis of it, for no axis the vector of its elements."""
    if axis is None:
        return (array if array.ndim == 1 else numpy.ravel(array)), 0
    return array, range(array.ndim)[axis]


def _places(name: str, function: Callable[..., Any], extent: Any, obj: Any, *values: Any) -> Any:
    """Return which elements stay, as NumPy's function tells for the indices in their place."""
    if any(map(is_traced, flatten(obj)[0])) or not isinstance(extent, int):
        _refuse(name, "its places are unknown while the function is traced, and with them the "
                "shape of the result",
                "Keep the shape, with np.where(condition, x, other), or give places that are "
                "Python integers.")  # fmt: skip
    try:
        return function(np.arange(extent), obj, *values)
    except (IndexError, ValueError) as error:
        raise BoundsError(f"np.{name} in {line_text()}: {error}") from None


def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    if mode != "raise" or not is_traced(a):
        hint = "Write x.flat[np.clip(places, 0, x.size - 1)] = values."
        _refuse("put", f"mode={mode!r} has no form", hint)
    count = np.size(ind)
    if np.size(v) not in (1, count):
        v = _resize(v, (count,))
    a.flat[ind] = v if np.size(v) > 1 else numpy.reshape(v, ())[()]


def _putmask(a: Any, mask: Any, values: Any) -> None:
    if not is_traced(a) or np.shape(values) not in ((), np.shape(a)):
        _refuse("putmask", "its values are neither a number nor an array of the same shape",
                "Give a number or an array of that shape.")  # fmt: skip
    kind = a.dtype
    numpy.copyto(a, values.astype(kind) if is_traced(values) else np.asarray(values, kind),
                 where=mask)  # fmt: skip


def _resize(a: Any, new_shape: Any) -> Any:
    shape = tuple(new_shape) if isinstance(new_shape, (tuple, list)) else (new_shape,)
    row, total = numpy.ravel(a), prod(shape)
    copies = -(-total // row.size) if row.size else 0
    if not copies:
        return np.zeros_like(row, shape=shape)
    return numpy.reshape(numpy.concatenate([row] * copies)[:total], shape)


def _choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> Any:
    parts = [choices[k] for k in range(len(choices))]
    if mode not in ("clip", "wrap") or out is not None:
        why = "NumPy raises an error for a number without a choice, and a kernel cannot"
        _refuse("choose", why, "Give mode='clip' or mode='wrap'.")
    at = numpy.clip(a, 0, len(parts) - 1) if mode == "clip" else a % len(parts)
    return numpy.select([at == k for k in range(len(parts))], parts)


def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    known = is_traced(a) and a.ndim == 2 and all(isinstance(e, int) for e in a.shape)
    if wrap or not known:
        _refuse("fill_diagonal", "it has a form for matrices of known shapes without wrap=True",
                "Assign to elements: i = np.arange(n), and x[i, i] = value.")  # fmt: skip
    least = min(a.shape)
    values = numpy.ravel(val) if np.ndim(val) else val
    if np.ndim(val) and np.size(val) != least:
        values = _resize(values, (least,))
    numpy.einsum("ii->i", a[:least, :least])[...] = values


def _refuse(name: str, why: str, hint: str) -> NoReturn:
    raise ComputeError(explain(f"np.{name} in {line_text()}", why, hint))


def refuse_elements(function: Any, args: Any, named: Any) -> Any:
    """Raise for a function that needs the elements of an array one after the other."""
    if not any(map(is_traced, flatten([*args, *named.values()])[0])):
        return function(*args, **named)
    raise ComputeTypeError(
        explain(
            f"np.{function.__name__} of an array in {line_text()}",
            "its elements are unknown while the function is traced",
            "Loop over indices, for i in range(len(x)), which stays a loop; for the bytes of an "
            "array, pass it as an argument.",
        )
    )


PLACED: dict[Any, Callable[..., Any]] = {
    np.delete: _delete,
    np.insert: _insert,
    np.put: _put,
    np.putmask: _putmask,
    np.resize: _resize,
    np.choose: _choose,
    np.fill_diagonal: _fill_diagonal,
}
