"""An ``if`` on the elements of arrays: both sides are computed, and each element is chosen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.shapes import is_one, same_shape, size_of
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import shape_text
from schedlang.errors import ComputeTypeError, SchedlangError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.tracing.array import TracedArray, plain, wrap
from schedlang.tracing.choice import choice
from schedlang.tracing.leaves import flatten, is_traced, rebuilt
from schedlang.tracing.leaving import PREFIX
from schedlang.tracing.python_numbers import bool_of_numpy, bool_of_python, expression_of
from schedlang.tracing.rebound import one_of
from schedlang.tracing.spans import of_lengths
from schedlang.tracing.states import UNBOUND, State, is_data
from schedlang.tracing.trace import Storage, current
from schedlang.tracing.unchanged import unchanged
from schedlang.tracing.unknown import line_text


def is_unknown(test: Any) -> bool:
    """Return whether the truth value of ``test`` depends on elements that a trace does not know."""
    is_single = is_traced(test) and (not test.ndim or is_one(size_of(test.extents)))
    return is_single and of_lengths(test) is None


def condition_of(test: TracedArray) -> Any:
    """Return a test as a scalar of bool."""
    scalar = test if not test.ndim else test.reshape(())[()]
    if scalar.dtype != bool:
        return scalar != 0
    value = scalar.value
    return wrap(bool_of_numpy(value)) if isinstance(value, Expr) and value.weak else scalar


def merged(
    test: TracedArray,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    state: State,
) -> Any:
    """Run both sides; return what the side that ``test`` chooses returns.

    An array that a side assigns to keeps its elements where the test chooses the other side. Raise
    ``ComputeTypeError`` if the sides leave values of different shapes or dtypes in a name, or if
    one changes a list, a dict, a set or an array with known elements, or cannot run.
    """
    trace, before, cond = current(), state.values(), condition_of(test)
    known = set(trace.values)
    place = trace.place()
    line = state.line or (place.line if place else 0)
    containers = unchanged(trace, before, then, orelse)
    title = f"the {state.word} at line {line}"
    with trace.only_where(cond), _one_side(title):
        first, after_first = then(), state.values()
    state.set(before)
    with trace.only_where(np.logical_not(cond)), _one_side(title):
        second, after_second = orelse(), state.values()
    changed = containers.undo()
    if changed:
        _refuse_change(title, changed)
    sides = _Sides(cond, title, known, containers.arrays())
    for name in state.names:
        a, b = after_first[name], after_second[name]
        if a is UNBOUND or b is UNBOUND:
            # a read of it is an error where its side did not run
            a = b = b if a is UNBOUND else a
        state.set({name: sides.chosen(a, b, name)})
    return sides.chosen(first, second, "")


# what a side may raise that runs with values for which Python runs the other one
_OF_A_SIDE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, ValueError,
)  # fmt: skip


@contextmanager
def _one_side(title: str) -> Iterator[None]:
    """Explain an error in a side, which may never run in Python."""
    try:
        yield
    except SchedlangError:
        raise
    except _OF_A_SIDE as error:
        raise ComputeTypeError(
            explain(
                f"{title} of {current().title}",
                f"one side raises {type(error).__name__}: {error}; both sides are traced, since "
                "elements decide which one runs",
                "Write each side so that it can run whatever the elements are.",
            )
        ) from error


def _refuse_change(title: str, changed: str) -> NoReturn:
    raise ComputeTypeError(
        explain(
            f"{title} of {current().title}",
            f"one side changes {changed}, and which side runs depends on elements that are unknown "
            "while the function is traced",
            "Assign to a name on both sides, and change the other object after the if.",
        )
    )


def choose(cond: Any, a: Any, b: Any) -> Any:
    """Return one of two numbers, the first where a scalar of bool holds."""
    if a is True and b is False:
        return wrap(bool_of_python(cond.value))
    if a is False and b is True:
        return wrap(bool_of_python(np.logical_not(cond).value))
    first, second = expression_of(a), expression_of(b)
    _check_integers(first, second)
    if first.dtype == second.dtype == "bool":
        of_python = first.weak and second.weak
        first, second = bool_of_numpy(first), bool_of_numpy(second)
        if of_python:
            return wrap(bool_of_python(if_then_else(cond.value, first, second)))
    # an expression: a read within it stays under the condition
    return wrap(choice(cond.value, first, second))


def _check_integers(a: Expr, b: Expr) -> None:
    """Raise for two numbers of which one is an integer of NumPy and both have another dtype.

    NumPy computes with the dtype of the one that elements choose, in which integers wrap around. A
    bool beside a number of another dtype of NumPy has operators of its own, too.
    """
    common, _ = dtypes.promote(a.dtype, a.weak, b.dtype, b.weak)
    exact = [v for v in (a, b) if not v.weak and v.dtype != common]
    if not any(dtypes.is_integer(v.dtype) for v in exact) and (
        a.weak or b.weak or all(v.dtype != "bool" for v in exact)
    ):
        return
    raise ComputeTypeError(
        explain(
            f"a number of {a.dtype} or {b.dtype} in {line_text()}",
            "elements decide which one it is, and so how later lines compute with it: integers "
            "wrap around, and bool has operators of its own",
            f"Convert both first, as in np.{common}(...).",
        )
    )


@dataclass(frozen=True)
class _Sides:
    """The sides of an ``if`` that messages call ``title``.

    ``known`` are the storages that were there before, and ``arrays`` the arrays of NumPy.
    """

    cond: Any
    title: str
    known: Collection[Storage]
    arrays: Sequence[np.ndarray]

    def chosen(self, a: Any, b: Any, name: str) -> Any:
        """Return the value after sides that leave ``a`` and ``b`` in a name, or return them."""
        if a is b:
            return a
        (ours, form), (theirs, other) = flatten(a), flatten(b)
        if form == other and all(map(_agree, ours, theirs)):
            return rebuilt(form, [self._value(x, y) for x, y in zip(ours, theirs)])
        own = name and not name.startswith(PREFIX)
        what = f"{name} is" if own else "the value is"
        raise ComputeTypeError(
            explain(
                f"{self.title} of {current().title}",
                f"{what} {_kind(a)} on one side and {_kind(b)} on the other, and which side runs "
                "depends on elements that are unknown while the function is traced",
                "Leave arrays of one shape and dtype, or numbers, on both sides.",
            )
        )

    def _value(self, a: Any, b: Any) -> Any:
        known = not is_traced(a) and not is_traced(b) and not np.ndim(a)
        if a is b or not is_data(a) or (known and _equal(a, b)):
            return a
        if _is_number(a):
            return choose(self.cond, a, b)
        if self._is_new(a) and self._is_new(b):
            return np.where(self.cond, a, b)
        if not is_traced(a) or not is_traced(b):
            why = f"since {self.title} it may be an array from before it"
            chosen: Any = np.where(self.cond, a, b)
            return chosen.view_by(
                lambda base: plain(np.where(self.cond, a, b)),
                others=[v for v in (a, b) if is_traced(v)],
                ordered=True,
                mirrored=lambda layout: layout,
                known=tuple(v for v in (a, b) if not is_traced(v)),
                why=why,
            )
        # the name refers to an array from before, whose elements may change later
        return one_of(self.cond, a, b)

    def _is_new(self, array: Any) -> bool:
        """Return whether an array was made on one of the sides."""
        if not is_traced(array):
            return not any(np.may_share_memory(array, other) for other in self.arrays)
        storage = array.storage
        return not array.is_view and storage.home is current() and storage not in self.known


def _agree(a: Any, b: Any) -> bool:
    """Return whether both sides leave numbers, arrays of one shape and dtype, or equal objects."""
    if not is_data(a) or not is_data(b):
        return type(a) is type(b) and (a is b or bool(a == b))
    if _is_number(a) or _is_number(b):
        return _is_number(a) and _is_number(b)
    return a.dtype == b.dtype and same_shape(_extents(a), _extents(b))


def _extents(value: Any) -> Sequence[Any]:
    extents: Sequence[Any] = value.extents if is_traced(value) else np.shape(value)
    return extents


def _is_number(value: Any) -> bool:
    return value.is_scalar if is_traced(value) else not np.ndim(value)


def _equal(a: Any, b: Any) -> bool:
    # 0.0 and -0.0 are equal
    return type(a) is type(b) and repr(a) == repr(b)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {', '.join(map(_kind, value)) or 'nothing'}"
    if not is_data(value):
        return f"an object of {type(value).__name__}"
    shape = value.extents if is_traced(value) else getattr(value, "shape", ())
    return f"{value.dtype} of shape {shape_text(shape)}" if shape else "a number"
