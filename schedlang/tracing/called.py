"""Functions of Python and NumPy that mean something else in a traced function than outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import signature
from operator import index
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Cast
from schedlang.language.calls import call
from schedlang.tracing.array import array_of, wrap
from schedlang.tracing.branches import choose, condition_of, is_unknown
from schedlang.tracing.conversions import (
    converted_array,
    converted_scalar,
    divided,
    rows_of,
)
from schedlang.tracing.creation import create
from schedlang.tracing.forms import check_known
from schedlang.tracing.items import plain
from schedlang.tracing.leaves import flatten, is_traced
from schedlang.tracing.lookups import taken
from schedlang.tracing.missed_reads import raise_where
from schedlang.tracing.placed import refuse_elements
from schedlang.tracing.python_numbers import are_of_python, bool_of_python
from schedlang.tracing.spans import known_end, of_lengths, range_of
from schedlang.tracing.strided import strided
from schedlang.tracing.trace import current
from schedlang.tracing.unknown import line_text


@dataclass(frozen=True)
class TracedRange:
    """A range whose ends are values of a trace, or whose step is an index of one sign.

    It goes ``up`` or down.
    """

    start: Any
    stop: Any
    step: Any
    up: bool


class TracedZip:
    """The items of ``zip`` or ``enumerate`` over arrays of the trace, as an iterator."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)
        self._items: Iterator[Any] | None = None

    def __iter__(self) -> TracedZip:
        return self

    def __next__(self) -> Any:
        if self._items is None:
            self._items = zip(*self.parts)
        return next(self._items)


def _zip(function: Any, args: Any, named: Any) -> Any:
    if named or not args or not any(is_traced(a) and a.ndim for a in args):
        return function(*args, **named)
    return TracedZip(args)


def _enumerate(function: Any, args: Any, named: Any) -> Any:
    given = signature(lambda iterable, start=0: None).bind(*args, **named)
    given.apply_defaults()
    items, start = given.args
    if isinstance(items, TracedZip) and isinstance(start, int):
        # the shortest part ends all
        return TracedZip((range(start, start + 2**62), items))
    if not is_traced(items) or not items.ndim or not isinstance(start, int):
        return function(*args, **named)
    return TracedZip((_range(range, (start, start + items.shape[0]), {}), items))


def _range(_: Any, args: Any, named: Any) -> Any:
    if not any(map(is_traced, args)) or named or not 1 <= len(args) <= 3:
        return range(*args, **named)
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    if is_traced(step):
        known = known_end(step)
        least, most = (None, None) if known is None else range_of(known)
        up = least is not None and least > 0
        if not up and (most is None or most >= 0):
            # elements or lengths decide its direction
            return range(start, stop, step)
        return TracedRange(start, stop, step, up)
    if not index(step):
        # raises Python's error
        range(0, 0, step)
    return TracedRange(start, stop, step, step > 0)


def _extreme(function: Any, args: Any, named: Any) -> Any:
    """Return ``max`` or ``min`` as Python chooses: the first of equal values."""
    scalars = len(args) > 1 and not named and all(np.ndim(a) == 0 for a in args)
    if not scalars or not any(map(is_traced, args)):
        return function(*args, **named)
    shared = [a for a in args if is_traced(a) and not a.is_scalar]
    if any(a.is_view or current().is_argument(a.storage) for a in shared):
        name = function.__name__
        raise ComputeTypeError(
            explain(
                f"{name} of an array without dimensions in {line_text()}",
                "elements decide whether the result is this array, which later lines may change",
                f"Write np.{name}imum(a, b), or give its element, a[()].",
            )
        )
    ends = [end for end in map(known_end, args) if end is not None]
    if current().outermost.lengths and len(ends) == len(args):
        return wrap(reduce(lambda a, b: call(function.__name__, a, b), ends))
    if function is max:
        return reduce(lambda a, b: choose(b > a, b, a), args)
    return reduce(lambda a, b: choose(b < a, b, a), args)


def _number(dtype: Any) -> Callable[..., Any]:
    def convert(function: Any, args: Any, named: Any) -> Any:
        if named or len(args) != 1 or not is_traced(args[0]) or args[0].ndim:
            return function(*args, **named)
        if of_lengths(args[0]) is not None and args[0].dtype.kind != "i":
            # raises, since Python rounds it
            return function(args[0])
        if of_lengths(args[0]) is not None and dtype == "int64":
            return args[0]
        if function is int:
            check_integer(args[0][()])
        # a number of Python, which takes the dtype of what it meets
        return wrap(Cast(plain(args[0][()].astype(dtype)), dtype, weak=True))

    return convert


def check_integer(value: Any) -> None:
    """Let calls raise that convert a float to an integer that has none, such as nan.

    In the body of a loop, as for an index out of range, ``target="python"`` alone tells.
    """
    trace = current()
    if value.dtype.kind == "f" and trace.around is None and not trace.closed:
        text = explain(
            f"int() in {line_text()}",
            "its argument is nan, inf or beyond int64 in this call",
            "Choose a number for it before: int(np.nan_to_num(x)).",
        )
        raise_where(trace, np.logical_not(np.abs(value) < 2.0**63), text)


def _new(function: Any, args: Any, named: Any) -> Any:
    """Return an array that NumPy makes of nothing but its shape, as an array of the trace."""
    options = {k: v for k, v in named.items() if k not in ("order", "like")}
    traced = [v for v in flatten((args, options))[0] if is_traced(v)]
    if named.get("like") is not None and not traced:
        return function(*args, **named)
    if not all(of_lengths(v) is not None for v in traced):
        return function(*args, **named)
    maker = np.empty if function is np.ndarray else function
    check_known(maker, args, options)
    if np.dtype(_dtype(maker, args, options)).kind not in "biufc":
        return function(*args, **named)
    if current().closed or traced:
        args, options = plain(tuple(args)), plain(options)
    return array_of(create(maker, *args, **options), rows=True)


def _arange(function: Any, args: Any, named: Any) -> Any:
    """Return ``np.arange`` up to a symbolic length as an array of the trace."""
    if not any(of_lengths(v) is not None for v in (*args, *named.values())):
        return function(*args, **named)
    options = {k: v for k, v in named.items() if k != "like"}
    return array_of(create(function, *plain(tuple(args)), **plain(options)), rows=True)


def _length(function: Any, args: Any, named: Any) -> Any:
    """Return ``len`` of an array, whose length may be symbolic."""
    if named or len(args) != 1 or not is_traced(args[0]) or not args[0].ndim:
        return function(*args, **named)
    first = args[0].shape[0]
    return function(*args) if not is_traced(first) else first


def _dtype(maker: Any, args: Any, options: Any) -> Any:
    """Return the dtype of what a function makes, from an array of no size."""
    at = {np.zeros: 1, np.ones: 1, np.empty: 1, np.full: 2, np.eye: 3, np.identity: 1}[maker]
    given = args[at] if len(args) > at else options.get("dtype")
    if given is None:
        fill = args[1] if len(args) > 1 else options.get("fill_value")
        return np.asarray(fill).dtype if maker is np.full else float
    return given


def _new_like(function: Any, args: Any, named: Any) -> Any:
    if function is np.empty_like:
        made = _empty_like(*args, **named)
        if made is not None:
            return made
    value = function(*args, **named)
    return value if is_traced(value) or value.dtype.kind not in "biufc" else array_of(
        current().constant(value) if value.ndim else plain(value), rows=True)  # fmt: skip


def _empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
    **others: Any,
) -> Any:
    """Return an array in the form of one of the trace; ``None`` if another function makes it."""
    extents = getattr(prototype, "shape", ()) if shape is None else shape
    plain_shape = all(isinstance(e, int) for e in (extents if np.ndim(extents) else [extents]))
    if not is_traced(prototype) or others or current().closed or not plain_shape:
        return None
    rows = order == "C" or prototype.in_order
    return array_of(create(np.empty, extents, dtype or prototype.dtype), rows)


def _linspace(function: Any, args: Any, named: Any) -> Any:
    """Return evenly spaced numbers between numbers of the trace, as NumPy computes them."""
    given = signature(np.linspace).bind(*args, **named)
    given.apply_defaults()
    start, stop, num, endpoint, retstep, dtype, *_ = given.arguments.values()
    numbers = [v for v in (start, stop) if is_traced(v) and not v.ndim]
    if not numbers or is_traced(num) or np.ndim(start) or np.ndim(stop) or retstep or num < 1:
        return function(*args, **named)
    kind = np.result_type(*(v.dtype for v in numbers), np.float64)
    first = start * np.ones((), kind)[()]
    step = (stop - first) / max(num - 1 if endpoint else num, 1)
    values = array_of(create(np.arange, 0, num), rows=True) * step + first
    if endpoint and num > 1:
        values[-1] = stop
    return values if dtype is None else values.astype(dtype)


def _as_strided(function: Any, args: Any, named: Any) -> Any:
    given = signature(function).bind(*args, **named).arguments
    if not is_traced(given["x"]) or given["x"].is_scalar:
        return function(*args, **named)
    return strided(given["x"], given.get("shape"), given.get("strides"))


def _any_or_all(function: Any, args: Any, named: Any) -> Any:
    if named or len(args) != 1 or not is_traced(args[0]) or len(args[0].shape) != 1:
        return function(*args, **named)
    return truth((np.any if function is any else np.all)(args[0]))


def _round(function: Any, args: Any, named: Any) -> Any:
    if named or not args or not is_traced(args[0]) or args[0].shape:
        return function(*args, **named)
    if args[1:] in ((), (None,)):
        return _number("int64")(int, (np.rint(args[0]),), {})
    rounded = np.round(*args)
    is_of_python = are_of_python(args[:1])
    return _number(str(args[0].dtype))(float, (rounded,), {}) if is_of_python else rounded


def _truth(function: Any, args: Any, named: Any) -> Any:
    if named or len(args) != 1 or not is_unknown(args[0]):
        return function(*args, **named)
    return truth(condition_of(args[0]))


def _class(function: Any, args: Any, named: Any) -> Any:
    if named or len(args) != 1 or not is_traced(args[0]):
        return function(*args, **named)
    return args[0].__class__


def truth(condition: Any) -> Any:
    """Return a scalar of bool as a bool of Python."""
    return wrap(bool_of_python(plain(condition)))


_SCALARS = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
)  # fmt: skip
CALLED: dict[Any, Callable[[Any, Any, Any], Any]] = {
    range: _range,
    zip: _zip,
    enumerate: _enumerate,
    len: _length,
    max: _extreme,
    min: _extreme,
    int: _number("int64"),
    float: _number("float64"),
    np.arange: _arange,
    complex: _number("complex128"),
    bool: _truth,
    type: _class,
    any: _any_or_all,
    all: _any_or_all,
    round: _round,
    divmod: divided,
    **dict.fromkeys((np.nditer, np.ndenumerate, np.frombuffer), refuse_elements),
    np.linspace: _linspace,
    np.take: taken,
    np.lib.stride_tricks.as_strided: _as_strided,
    np.ascontiguousarray: rows_of,
    **dict.fromkeys((np.array, np.asarray, np.asanyarray), converted_array),
    **dict.fromkeys(_SCALARS, converted_scalar),
    **dict.fromkeys((np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.ndarray), _new),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like), _new_like),
}
