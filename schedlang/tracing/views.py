"""NumPy's functions that return a view of their argument, or the argument itself.

Such a result is a view of the traced array, or that array. Every other result is a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.functions import FORMS
from schedlang.arrays.shapes import same_shape
from schedlang.arrays.stages import tensor_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.language.numpy_functions import name_of
from schedlang.tracing.calls import compute_once
from schedlang.tracing.indexing import assign_diagonal
from schedlang.tracing.items import is_traced, plain
from schedlang.tracing.memory import Read, Unchanged
from schedlang.tracing.trace import Value, current
from schedlang.tracing.unknown import line_text

# a function of NumPy, its arguments by position, and those by name
Shared = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
# makes a view of a layout
Mirrored = Callable[[np.ndarray], np.ndarray]
# NumPy's functions on tensors; NumPy's types do not know these calls
numpy: Any = np


def shared_result(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Return the result of a function of NumPy that shares memory with an argument.

    Return ``NotImplemented`` if it is a new array.
    """
    form = SHARED.get(function)
    return NotImplemented if form is None else form(function, args, named)


def _of_first(make: Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]) -> Shared:
    """Return the form of a function whose result shares memory with its first argument.

    ``make`` gets the function, that argument, and the others by position and by name.
    """

    def form(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        others, options = list(args), dict(named)
        first = others.pop(0) if others else options.pop(_names(function)[0], None)
        # NumPy copies the element of a scalar, and the arrays of a list
        if not is_traced(first) or first.is_scalar:
            return NotImplemented
        return make(function, first, plain(tuple(others)), plain(options))

    return form


def _names(function: Any) -> list[str]:
    return FORMS[name_of(function)].names


def _option(
    function: Any, others: Sequence[Any], named: dict[str, Any], name: str, default: Any
) -> Any:
    """Return the argument ``name`` of a call, where ``others`` follow the first one."""
    return dict(zip(_names(function)[1:], others), **named).get(name, default)


def _result(function: Any, first: Any, others: tuple[Any, ...], named: dict[str, Any]) -> Value:
    """Return the value of a result at present; raise for arguments that do not fit."""
    return compute_once(function, (first.value, *others), named)


def _new(first: Any, value: Value) -> Any:
    """Return a new array of the trace with ``value``."""
    return type(first)(current().new(value))


def _of_base(function: Any, others: Any, named: Any) -> tuple[Read, Mirrored]:
    """Return how a view by ``function`` reads its base, and makes its layout."""
    return (
        lambda base: compute_once(function, (base, *others), named),
        lambda layout: function(layout, *others, **named),
    )


def _permuted(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    read, mirrored = _of_base(function, others, named)
    return _by_axes(first, read, mirrored)


def _by_axes(first: Any, read: Read, mirrored: Mirrored) -> Any:
    """Return a view each of whose axes goes along one axis of the array, or along a diagonal."""
    ndim = first.ndim
    # in a small array the strides are 1, 2, 4, ...: in the view they say which axes it goes along
    strides = mirrored(np.empty((2,) * ndim, "int8", order="F")).strides
    places = [next(k for k, s in enumerate(strides) if s & 1 << axis) for axis in range(ndim)]

    def write(base: Value, value: Any) -> Value:
        if len(strides) == ndim:
            return numpy.transpose(value, places)
        return assign_diagonal(tensor_of(base, "a diagonal"), places, value)

    return first.view_by(read, write, mirrored=mirrored)


def _same_order(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return a view with dimensions of extent 1 added or left out."""
    value = _result(function, first, others, named)
    if function is not np.expand_dims and same_shape(getattr(value, "shape", ()), first.extents):
        return first
    read, mirrored = _of_base(function, others, named)
    return first.view_by(read, _shaped_back, ordered=True, mirrored=mirrored)


def _shaped_back(base: Value, value: Any) -> Value:
    """Return the value of an array after an assignment to a view of another shape."""
    return numpy.reshape(value, getattr(base, "shape", ()))


def _flipped(function: Any, first: Any, others: Any, named: Any) -> Any:
    if not first.ndim:
        # NumPy returns the element
        return NotImplemented
    _result(function, first, others, named)
    read, mirrored = _of_base(function, others, named)
    return first.view_by(
        read, lambda base, value: function(value, *others, **named), mirrored=mirrored
    )


def _turned(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    turns = _option(function, others, named, "k", 1)
    axes = _option(function, others, named, "axes", (0, 1))
    read, mirrored = _of_base(function, others, named)
    return first.view_by(
        read, lambda base, value: numpy.rot90(value, -turns, axes), mirrored=mirrored
    )


def _read_only(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    read, mirrored = _of_base(function, others, named)
    why = f"NumPy returns a read-only view from np.{name_of(function)}"
    return first.view_by(read, mirrored=mirrored, why=why)


def _diagonal(function: Any, first: Any, others: Any, named: Any) -> Any:
    if first.ndim != 2:
        return NotImplemented
    return _read_only(function, first, others, named)


def _reshaped(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return a view, or a copy where NumPy copies.

    The strides decide which. If a trace does not know them, the result is read until the array is
    written, and not written itself.
    """
    if _option(function, others, named, "order", "C") == "F" and first.ndim:
        return _by_columns(function, first, others, named)
    value = _result(function, first, others, named)
    copy = _option(function, others, named, "copy", None)
    if copy is True:
        return _new(first, value)
    made_in, kept = current(), Unchanged(first)
    name, where = f"np.{function.__name__}", line_text()
    order = _option(function, others, named, "order", "C")
    shape = value.shape if isinstance(value, Tensor) else ()
    shares = _shares(first, shape, function is np.ravel)
    if order in ("A", "K") and first.ndim > 1:
        name += f"(order={order!r})"
        if not is_contiguous(first):
            _refuse_order(f"{name} in {where}")
        current().assume_rows(f"{name} in {where}")
    if copy is False and not shares:
        _refuse_copy(f"{name}(copy=False) in {where}")

    def read(base: Value) -> Value:
        if not kept.still():
            if shares is None or (not shares and current() is not made_in):
                _refuse_stale(name, where)
            current().assume_rows(f"{name} in {where}")
            if not shares:
                return value
        if not shares:
            # the body of a loop may change the array after this line
            kept.keep(partial(_refuse_stale, name, where))
        return compute_once(function, (base, *others), named)

    def write(base: Value, value: Any) -> Value:
        current().assume_rows(f"{name} in {where}")
        return _shaped_back(base, value)

    if shares is False:
        return first.view_by(read, copied=made_in, why=f"{name} in {where}")
    return first.view_by(
        read,
        write if shares else None,
        ordered=True,
        mirrored=lambda layout: np.reshape(layout, shape, copy=False),
        why=f"whether {name} copies there depends on the strides",
    )


def _by_columns(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return the elements column by column: row by row they are the elements of the transpose."""
    if function is np.ravel:
        return np.ravel(first.T)
    shape = _option(function, others, named, "shape", None)
    copy = _option(function, others, named, "copy", None)
    reversed_shape = tuple(shape)[::-1] if isinstance(shape, (tuple, list)) else shape
    return np.reshape(first.T, reversed_shape, copy=copy).T


def is_contiguous(array: Any) -> bool:
    """Return whether the elements lie row by row in memory, one after the other."""
    if not array.is_view:
        return bool(array.storage.rows)
    return array.layout is not None and bool(array.layout.flags.c_contiguous)


def _shares(array: Any, shape: Any, contiguous: bool = False) -> bool | None:
    """Return whether NumPy reshapes an array without a copy; ``None`` if a trace cannot know.

    ``np.ravel`` copies what is not ``contiguous``, also where a view would do.
    """
    if is_contiguous(array):
        return True
    if array.layout is None:
        return None
    try:
        np.reshape(array.layout, shape, copy=False)
    except ValueError:
        return False
    return not contiguous


def reshaped_in_place(array: Any, shape: Any) -> Any:
    """Return the view that an array becomes by ``x.shape = shape``.

    Raises ``ComputeError`` for an argument, whose shape is the caller's, and where NumPy would have
    to copy.
    """
    asked = f"x.shape = {shape} in {line_text()}"
    if array.is_scalar:
        raise ComputeTypeError(
            f"{asked}: a scalar has no other shape; write y = np.reshape(x, ...)"
        )
    if array.storage.home is not current() or current().conditions:
        raise ComputeError(
            explain(
                asked,
                "the body of a loop and the sides of an if on elements are traced once, and x has "
                "one shape in all of them",
                f"Write y = x.reshape({shape}), and use y in place of x.",
            )
        )
    if not array.is_view and current().is_argument(array.storage):
        raise ComputeError(
            explain(
                asked,
                "x is an argument, and a call changes elements of the caller's arrays alone",
                f"Write y = x.reshape({shape}), and use y in place of x.",
            )
        )
    reshaped: Any = np.reshape(array, shape)
    shares = _shares(array, reshaped.extents)
    if not shares:
        why = "NumPy would have to copy the elements"
        if shares is None:
            why = "whether NumPy can do that depends on the strides, which a trace does not know"
        raise ComputeError(explain(asked, why, f"Write x = x.reshape({shape})."))
    current().assume_rows(asked)
    return reshaped


def in_one_row(array: Any) -> Any:
    """Return the elements as a vector, through which an assignment reaches any array."""
    return array.view_by(
        lambda base: compute_once(np.reshape, (base, (-1,)), {}), _shaped_back, ordered=True
    )


def _refuse_copy(asked: str) -> NoReturn:
    raise ComputeError(
        explain(asked, "NumPy may have to copy the elements there", "Leave copy= out.")
    )


def _refuse_order(asked: str) -> NoReturn:
    raise ComputeError(
        explain(
            asked,
            "the order of the elements depends on the strides, which a trace does not know",
            "Leave order= out, for elements row by row.",
        )
    )


def _refuse_stale(name: str, where: str) -> NoReturn:
    raise ComputeError(
        explain(
            f"reading what {name} returned in {where}, after an assignment to the array",
            "whether NumPy copies there depends on the strides, so it may have the old elements or "
            "the new ones",
            f"Call {name} again after the assignment, or copy before it: np.copy(x).",
        )
    )


def _parts(function: Any, first: Any, others: Any, named: Any) -> Any:
    least = {np.vsplit: 2, np.dsplit: 3}.get(function, 1)
    if first.ndim < least:
        raise ComputeError(
            f"np.{function.__name__} in {line_text()} takes arrays of {least} or more dimensions, "
            f"not {first.ndim}; np.split(x, ...) splits along axis 0"
        )
    parts = _result(function, first, others, named)
    axis = {np.vsplit: 0, np.dsplit: 2, np.hsplit: min(first.ndim - 1, 1)}.get(function)
    if axis is None:
        axis = _option(function, others, named, "axis", 0) % first.ndim
    extent = first.extents[axis]
    if not isinstance(extent, int):
        why = f"it is a view of the array that np.{function.__name__} took"
        return [
            first.view_by(
                lambda base, k=k: compute_once(function, (base, *others), named)[k],
                ordered=True,
                why=why,
            )
            for k in range(len(parts))  # type: ignore[arg-type]
        ]
    sections = _option(function, others, named, "indices_or_sections", 1)
    places = np.array_split(np.arange(extent), sections)
    # the slices that NumPy takes; one past the end has no elements
    starts = [int(p[0]) if p.size else extent for p in places]
    return [
        first[(slice(None),) * axis + (slice(start, start + p.size),)]
        for start, p in zip(starts, places)
    ]


def _unstacked(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    # as NumPy does it: vectors have scalars, which are copies
    return tuple(np.moveaxis(first, _option(function, others, named, "axis", 0), 0))


def _itself_if(name: str, value: Any, function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return the argument itself if the argument ``name`` has this ``value``."""
    if _option(function, others, named, name, 1) != value:
        return NotImplemented
    _result(function, first, others, named)
    return first


def _converted(function: Any, first: Any, others: Any, named: Any) -> Any:
    return first.astype(*others, **{k: v for k, v in named.items() if k != "device"})


def _replace_elements(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return the argument itself with its elements replaced, unless it is to be copied."""
    if _option(function, others, named, "copy", True):
        return NotImplemented
    value = _result(function, first, others, named)
    if np.issubdtype(first.dtype, np.inexact):
        first[...] = value
    # of an array without dimensions, NumPy returns the element
    return first if first.ndim else first[()]


def _einsum(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    arrays = [k for k, v in enumerate(args) if is_traced(v) or isinstance(v, np.ndarray)]
    one = len(arrays) == 1 and len(args) <= (2 if isinstance(args[0], str) else 3)
    if not one or named.get("out") is not None or args[arrays[0]].is_scalar:
        return NotImplemented
    at, first, options = arrays[0], args[arrays[0]], plain(dict(named))

    def result(array: Any) -> Any:
        return function(*args[:at], array, *args[at + 1 :], **options)

    result(first.value)
    # a small array of the same kind shows whether NumPy sums
    probe = np.empty((2,) * first.ndim, "int8")
    if not np.may_share_memory(probe, result(probe)):
        return NotImplemented
    return _by_axes(first, result, result)


def _broadcast(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    results = function(*plain(tuple(args)))
    return tuple(_stretched(a, t) for a, t in zip(args, results))


def _stretched(array: Any, model: Tensor) -> Any:
    """Return the array itself if it has the shape of ``model``, else a view of this shape."""
    if not is_traced(array):
        return np.broadcast_arrays(array, np.empty(tuple(model.shape)))[0]
    if same_shape(array.extents, model.shape):
        return _new(array, array.value) if array.is_scalar else array
    return array.view_by(
        lambda base: compute_once(np.broadcast_to, (base, model.shape), {}),
        mirrored=lambda layout: numpy.broadcast_to(layout, model.shape),
        why="np.broadcast_arrays returns views, in which elements share memory",
    )


def _grid(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    options = plain(dict(named))
    if options.get("copy", True):
        return NotImplemented
    # NumPy reshapes arrays to vectors, which may copy
    args = [np.reshape(a, -1) if is_traced(a) and a.ndim != 1 else a for a in args]
    vectors = plain(tuple(args))
    results = function(*vectors, **options)

    def part(k: int) -> Any:
        if not is_traced(args[k]):
            # the shapes of the others count, and not their elements
            shapes = [np.empty(np.shape(a)) for a in args]
            return function(*shapes[:k], args[k], *shapes[k + 1 :], **options)[k]
        return args[k].view_by(
            lambda base: function(*vectors[:k], base, *vectors[k + 1 :], **options)[k],
            why="np.meshgrid(copy=False) returns views, in which elements share memory",
        )

    return [part(k) for k in range(len(results))]


def _at_least(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    arrays = tuple(
        function(a)
        if not is_traced(a)
        else _new(a, function(a.value))
        if a.is_scalar
        else _same_order(function, a, (), {})
        for a in args
    )
    return arrays if len(arrays) > 1 else arrays[0]


def refuse_imaginary(base: Value, value: Any) -> NoReturn:
    """Raise for an assignment to the imaginary part of real numbers."""
    raise ComputeTypeError(
        f"an assignment to the imaginary part of an array of {base.dtype}: it holds real numbers; "
        "make it complex first, x.astype('complex128')"
    )


SHARED: dict[Any, Shared] = {
    **dict.fromkeys(
        (np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.matrix_transpose,
         np.linalg.matrix_transpose), _of_first(_permuted)),
    **dict.fromkeys((np.expand_dims, np.squeeze), _of_first(_same_order)),
    **dict.fromkeys((np.atleast_1d, np.atleast_2d, np.atleast_3d), _at_least),
    **dict.fromkeys((np.flip, np.fliplr, np.flipud), _of_first(_flipped)),
    np.rot90: _of_first(_turned),
    **dict.fromkeys((np.broadcast_to, np.diagonal, np.linalg.diagonal,
                     np.lib.stride_tricks.sliding_window_view), _of_first(_read_only)),
    np.diag: _of_first(_diagonal),
    **dict.fromkeys((np.reshape, np.ravel), _of_first(_reshaped)),
    **dict.fromkeys((np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
                    _of_first(_parts)),
    np.unstack: _of_first(_unstacked),
    np.diff: _of_first(partial(_itself_if, "n", 0)),
    np.linalg.matrix_power: _of_first(partial(_itself_if, "n", 1)),
    np.astype: _of_first(_converted),
    np.nan_to_num: _of_first(_replace_elements),
    np.einsum: _einsum,
    np.broadcast_arrays: _broadcast,
    np.meshgrid: _grid,
}  # fmt: skip
