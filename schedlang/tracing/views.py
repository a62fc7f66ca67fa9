"""NumPy's functions that return a view of their argument, or the argument itself.

Such a result is a view of the traced array, or that array. Every other result is a new array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, Union

import numpy as np
from numpy.lib.stride_tricks import as_strided

from schedlang.arrays.functions import FORMS
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Expr
from schedlang.language.numpy_functions import name_of
from schedlang.tracing.calls import compute_once
from schedlang.tracing.items import is_traced, plain
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text

# a function of NumPy, its arguments by position, and those by name
Shared = Callable[[Any, Sequence[Any], dict[str, Any]], Any]
Value = Union[Tensor, Expr]
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


def _permuted(function: Any, first: Any, others: Any, named: Any) -> Any:
    ndim = _result(function, first, others, named).ndim  # type: ignore[union-attr]
    # the strides of the result say where each dimension comes from
    probe = as_strided(np.empty(1), (1,) * ndim, range(ndim))
    order = function(probe, *others, **named).strides
    back = [order.index(k) for k in range(ndim)]
    return first.view_by(
        lambda base: compute_once(function, (base, *others), named),
        lambda base, value: numpy.transpose(value, back),
    )


def _same_order(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return a view with dimensions of extent 1 added or left out."""
    value = _result(function, first, others, named)
    if function is not np.expand_dims and getattr(value, "shape", ()) == first.shape:
        return first
    return first.view_by(
        lambda base: compute_once(function, (base, *others), named),
        lambda base, value: numpy.reshape(value, getattr(base, "shape", ())),
        ordered=True,
    )


def _flipped(function: Any, first: Any, others: Any, named: Any) -> Any:
    if not first.ndim:
        # NumPy returns the element
        return NotImplemented
    _result(function, first, others, named)
    return first.view_by(
        lambda base: compute_once(function, (base, *others), named),
        lambda base, value: function(value, *others, **named),
    )


def _turned(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    turns = _option(function, others, named, "k", 1)
    axes = _option(function, others, named, "axes", (0, 1))
    return first.view_by(
        lambda base: compute_once(function, (base, *others), named),
        lambda base, value: numpy.rot90(value, -turns, axes),
    )


def _read_only(function: Any, first: Any, others: Any, named: Any) -> Any:
    _result(function, first, others, named)
    return first.view_by(
        lambda base: compute_once(function, (base, *others), named),
        why=f"NumPy returns a read-only view from np.{name_of(function)}",
    )


def _diagonal(function: Any, first: Any, others: Any, named: Any) -> Any:
    if first.ndim != 2:
        return NotImplemented
    return _read_only(function, first, others, named)


def _reshaped(function: Any, first: Any, others: Any, named: Any) -> Any:
    """Return a view, which is read after assignments to the array only if NumPy does not copy."""
    value = _result(function, first, others, named)
    if _option(function, others, named, "copy", None) is True:
        return _new(first, value)
    made_in, storage = current(), first.storage
    whole = made_in.read(storage)
    # an array that lies row by row has views of every shape
    certain = storage.rows and not first.is_view
    name, where = f"np.{function.__name__}", line_text()
    order = _option(function, others, named, "order", "C")
    if order in ("A", "K") and first.ndim > 1:
        if not certain:
            _refuse_order(f"{name}(order={order!r}) in {where}")
        current().assume_rows(f"{name}(order={order!r}) in {where}")

    def read(base: Value) -> Value:
        if made_in.read(storage) is not whole or current().changes(storage, made_in):
            if not certain:
                _refuse_stale(name, where)
            current().assume_rows(f"{name} in {where}")
        return compute_once(function, (base, *others), named)

    def write(base: Value, value: Any) -> Value:
        current().assume_rows(f"{name} in {where}")
        return numpy.reshape(value, getattr(base, "shape", ()))

    why = f"whether {name} copies there depends on the strides"
    return first.view_by(read, write if certain else None, ordered=True, why=why)


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
    parts = _result(function, first, others, named)

    def part(k: int) -> Any:
        return first.view_by(
            lambda base: compute_once(function, (base, *others), named)[k],
            ordered=True,
            why=f"it is a view of the array that np.{function.__name__} took",
        )

    return [part(k) for k in range(len(parts))]  # type: ignore[arg-type]


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
    probe = np.empty([min(e, 2) if isinstance(e, int) else 2 for e in first.shape], "int8")
    if not np.may_share_memory(probe, result(probe)):
        return NotImplemented
    return first.view_by(result, why="np.einsum without a sum returns a view of its operand")


def _broadcast(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    results = function(*plain(tuple(args)))
    same = all(np.shape(a) == t.shape for a, t in zip(args, results))
    return tuple(_stretched(a, t, same) for a, t in zip(args, results))


def _stretched(array: Any, model: Tensor, same: bool) -> Any:
    """Return the array itself if all have the ``same`` shape, else a view of ``model``'s shape."""
    if not is_traced(array):
        return array if same else numpy.broadcast_to(array, model.shape)
    if same:
        return _new(array, array.value) if array.is_scalar else array
    return array.view_by(
        lambda base: compute_once(np.broadcast_to, (base, model.shape), {}),
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


def refuse_assignment(why: str) -> NoReturn:
    """Raise for an assignment to a view through which a trace cannot write."""
    raise ComputeError(
        explain(
            f"an assignment to elements of a view in {line_text()}",
            why or "it may be a view of another array, which a trace does not follow",
            "Assign to the array itself, or to a copy: np.copy(x).",
        )
    )


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
