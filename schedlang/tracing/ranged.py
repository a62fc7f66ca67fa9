"""Slices whose ends are elements, ``x[start[i] : start[i + 1]]``: vectors of unknown length.

Elementwise operations and indices, ``v @ x[columns]``, stay such vectors, whose elements are
computed where a sum or another reduction needs them. The reduction runs over a ragged axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.stages import read, stage
from schedlang.compute.math import if_then_else
from schedlang.compute.reduce import Reduction, prod, reduce_axis, truth
from schedlang.compute.reduce import max as max_of
from schedlang.compute.reduce import min as min_of
from schedlang.compute.reduce import sum as sum_of
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, cast
from schedlang.language.numpy_functions import name_of
from schedlang.tracing.indexing import select
from schedlang.tracing.leaves import is_traced
from schedlang.tracing.powers import check_power
from schedlang.tracing.spans import known_end, ranges_of_loops
from schedlang.tracing.unknown import line_text

# the element at an index of the vector that was sliced
Element = Callable[[Any], Expr]
Ends = tuple[Expr, Expr]


class RangedElements(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements ``at(k)`` for ``k`` in a range whose ends are values of the trace.

    Only numbers from 0 to ``extent`` are in the range. ``wrapped`` makes an array of the trace.
    """

    __slots__ = ("ends", "extent", "at", "wrapped")

    def __init__(
        self, ends: Ends, extent: Any, at: Element, wrapped: Callable[[Any], Any]
    ) -> None:
        self.ends, self.extent, self.at, self.wrapped = ends, extent, at, wrapped

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.at(Axis("k", 1)).dtype)

    @property
    def size(self) -> Any:
        start, stop = self.ends
        length: Any = np.maximum(stop - start, 0)  # type: ignore[call-overload]
        return self.wrapped(length)

    @property
    def shape(self) -> tuple[Any, ...]:
        return (self.size,)

    ndim = 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not named:
            return self._product(*inputs)
        if method != "__call__" or named or ufunc.nout > 1:
            self._refuse(f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else ""))
        parts = [self._element(v, f"np.{ufunc.__name__}") for v in inputs]
        check_power(ufunc, inputs, named)
        return self._new(lambda k: ufunc(*(part(k) for part in parts)))

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        if function in (np.dot, np.inner, np.vecdot) and len(args) == 2 and not named:
            return self._product(*args)
        name = name_of(function)
        if args and args[0] is self and name in (*_REDUCED, "size", "shape", "ndim"):
            if name in _REDUCED:
                return getattr(self, name)(*args[1:], **named)
            return getattr(self, name)
        self._refuse(f"np.{name}")

    def astype(self, dtype: Any) -> RangedElements:
        """Return the elements converted to ``dtype``."""
        at = self.at
        return self._new(lambda k: cast(at(k), np.dtype(dtype).name))

    def sum(self, axis: Any = None, dtype: Any = None) -> Any:
        """Return ``np.sum`` of the elements, 0 if there are none."""
        return self._reduced("sum", sum_of, axis, _summed(self.dtype, dtype))

    def prod(self, axis: Any = None, dtype: Any = None) -> Any:
        """Return ``np.prod`` of the elements, 1 if there are none."""
        return self._reduced("prod", prod, axis, _summed(self.dtype, dtype))

    def any(self, axis: Any = None) -> Any:
        """Return ``np.any`` of the elements, false if there are none."""
        return self._reduced("any", _truth("any"), axis, np.dtype("bool"))

    def all(self, axis: Any = None) -> Any:
        """Return ``np.all`` of the elements, true if there are none."""
        return self._reduced("all", _truth("all"), axis, np.dtype("bool"))

    def mean(self, axis: Any = None, dtype: Any = None) -> Any:
        """Return ``np.mean`` of the elements, NaN if there are none."""
        inexact = np.issubdtype(self.dtype, np.inexact)
        kind = np.dtype(dtype or (self.dtype if inexact else "float64"))
        return (self.sum(axis, dtype=kind) / self.size.astype(kind)).astype(kind)

    def max(self, axis: Any = None, initial: Any = None) -> Any:
        """Return ``np.max`` of the elements and ``initial``, without which none have no maximum."""
        return self._extreme("max", max_of, axis, initial)

    def min(self, axis: Any = None, initial: Any = None) -> Any:
        """Return ``np.min`` of the elements and ``initial``, without which none have no minimum."""
        return self._extreme("min", min_of, axis, initial)

    def dot(self, other: Any) -> Any:
        """Return ``np.dot`` with another vector of these indices."""
        return self._product(self, other)

    def _extreme(self, name: str, function: Any, axis: Any, initial: Any) -> Any:
        if initial is None:
            raise ComputeError(
                explain(
                    f"np.{name} of a slice whose ends are elements, in {line_text()}",
                    "NumPy raises an error if the slice is empty, and a kernel cannot",
                    f"Say what an empty slice has: np.{name}(x[a:b], initial=...).",
                )
            )
        extreme = np.maximum if name == "max" else np.minimum
        return extreme(self._reduced(name, function, axis, self.dtype), initial)

    def _product(self, one: Any, other: Any) -> Any:
        if not all(isinstance(v, RangedElements) for v in (one, other)):
            self._refuse("a product with an array")
        kind = np.result_type(one.dtype, other.dtype)
        product = one.astype(kind) * other.astype(kind)
        if kind.kind == "b":
            return product.any()
        return product._reduced("dot", sum_of, None, kind)

    def _reduced(self, word: str, function: Any, axis: Any, kind: np.dtype) -> Any:
        if axis not in (None, 0, -1):
            raise ComputeTypeError(
                f"np.{word} over axis {axis!r} in {line_text()}: the slice has one axis, 0"
            )
        k = reduce_axis(self.ends, name="k")
        value = self.at(k)
        source = value if kind == "bool" else cast(value, kind.name)
        reduced: Reduction = function(source, axis=k)
        return self.wrapped(stage(word, (), reduced)[()])

    def _new(self, at: Element) -> RangedElements:
        return RangedElements(self.ends, self.extent, at, self.wrapped)

    def _element(self, value: Any, asked: str) -> Element:
        """Return what an operand has at an index."""
        if isinstance(value, RangedElements):
            if not all(map(_same, value.ends, self.ends)) or value.extent != self.extent:
                raise ComputeError(
                    explain(
                        f"{asked} of two slices whose ends are elements, in {line_text()}",
                        f"one has the range {_text(self.ends)} and the other {_text(value.ends)}, "
                        "so nothing says that they have one length",
                        "Take slices by the same ends: x[a:b] and y[a:b].",
                    )
                )
            return value.at
        if np.ndim(value):
            self._refuse(f"{asked} with an array")
        fixed = value.value if is_traced(value) else value
        return lambda k: fixed

    def _refuse(self, asked: str) -> NoReturn:
        names = ", ".join(f"np.{name}" for name in _REDUCED)
        raise ComputeError(
            explain(
                f"{asked} of a slice whose ends are elements, in {line_text()}",
                "its length is unknown while the function is traced",
                "Such a slice may be used with operators on numbers and slices of the same ends, "
                f"as an index x[slice], with @, and with {names}.",
            )
        )

    def as_array(self) -> NoReturn:
        """Raise ``ComputeError``: nothing holds these elements."""
        self._refuse("an array")

    def __len__(self) -> NoReturn:
        self._refuse("len()")

    def __iter__(self) -> NoReturn:
        self._refuse("a loop over the elements")

    def __getitem__(self, item: Any) -> NoReturn:
        self._refuse("an index")

    def __setitem__(self, item: Any, value: Any) -> NoReturn:
        self._refuse("an assignment to elements")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self._refuse("a NumPy array")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name not in dir(np.ndarray):
            raise AttributeError(name)
        self._refuse(f".{name}")


_REDUCED = ("sum", "prod", "mean", "any", "all", "max", "min")


def ranged(array: Any, item: Any, wrapped: Callable[[Any], Any]) -> Any:
    """Return ``array[item]`` if it is a slice by elements, or an index by one; else ``None``."""
    items = item if isinstance(item, tuple) else (item,)
    chosen = [i for i in items if isinstance(i, RangedElements) or _by_elements(i)]
    if not chosen or not array.shape:
        return None
    if len(chosen) > 1 or len(items) != array.ndim or any(np.ndim(i) for i in _others(items)):
        raise ComputeError(
            explain(
                f"an index of an array of {array.ndim} dimensions in {line_text()}",
                "a slice whose ends are elements takes one dimension, and the others need numbers",
                "Give a number for each other dimension, x[i, a:b], in a loop over them.",
            )
        )
    place = next(k for k, i in enumerate(items) if i is chosen[0])
    value = array.value
    fixed = [i.value if is_traced(i) else i for i in items]

    def at_index(k: Any) -> Expr:
        return select(value, (*fixed[:place], chosen[0].at(k), *fixed[place + 1 :]))

    if isinstance(chosen[0], RangedElements):
        return RangedElements(chosen[0].ends, chosen[0].extent, at_index, wrapped)
    if chosen[0].step not in (None, 1):
        raise ComputeError(
            f"a slice whose ends are elements, with a step, in {line_text()}: its step must be 1"
        )
    extent = array.shape[place]
    start, stop = _placed(chosen[0].start, extent, 0), _placed(chosen[0].stop, extent, extent)
    ends: Any = (np.maximum(start, 0), np.minimum(stop, extent))  # type: ignore[call-overload]

    def element(k: Any) -> Expr:
        if array.value is not value:
            # NumPy's slice would show the new elements
            raise ComputeError(
                f"a slice whose ends are elements is read in {line_text()}, after an assignment to "
                "its array; take the slice after the assignment"
            )
        if isinstance(value, Tensor) and value.ndim == 1:
            return read(value, (k,))
        return select(value, (*fixed[:place], k, *fixed[place + 1 :]))

    return RangedElements(ends, extent, element, wrapped)


def _others(items: tuple[Any, ...]) -> list[Any]:
    return [i for i in items if not isinstance(i, RangedElements) and not isinstance(i, slice)]


def _by_elements(item: Any) -> bool:
    """Return whether an item is a slice with an end that is a value of the trace."""
    if not isinstance(item, slice):
        return False
    ends = [end for end in (item.start, item.stop) if is_traced(end) and not end.shape]
    return any(known_end(end) is None and end.dtype.kind in "iu" for end in ends)


def _placed(end: Any, extent: Any, default: Any) -> Expr:
    """Return an end of a slice as NumPy takes it: a negative one counts from the end.

    It may lie outside of the vector.
    """
    if end is None:
        return as_expr(default)
    value = as_expr(end.value if is_traced(end) else end)
    place = cast(value[()] if isinstance(value, Tensor) else value, "int64")
    unsigned = is_traced(end) and end.dtype.kind == "u"
    if not unsigned and not ranges_of_loops().nonneg(to_lin(place)):
        place = if_then_else(place < 0, place + extent, place)
    return place


def _same(a: Expr, b: Expr) -> bool:
    return a is b or str(a) == str(b) or to_lin(a, ranges=Ranges()) == to_lin(b, ranges=Ranges())


def _text(ends: Ends) -> str:
    return f"{ends[0]}..{ends[1]}"


def _summed(kind: np.dtype, asked: Any) -> np.dtype:
    """Return the dtype in which NumPy sums elements."""
    return np.dtype(asked) if asked is not None else np.zeros(0, kind).sum().dtype


def _truth(name: str) -> Callable[..., Reduction]:
    return lambda source, axis: truth(name, source, axis, None)


__all__ = ["RangedElements", "ranged"]
