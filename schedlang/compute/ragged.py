"""Ragged reduction axes, whose range depends on other axes or on elements of integer tensors.

Such an axis keeps a *box*: constant or symbolic ends around all its ranges, over which schedules,
bounds inference and storage work as for any axis. The range itself is a condition of the reduction,
as in Halide's ``RDom::where``, and lowering trims the loops by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedlang.compute.facts import elements
from schedlang.compute.read import Read
from schedlang.compute.tensor import Extent
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.lazy import both, eager, is_both
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.elements import MOST, Elements
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, upper
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary, cast

Bounds = tuple[Extent, Extent]
Swap = Mapping[Axis, Axis]
# the extent of an axis whose box is not known yet
_UNKNOWN = Var("unknown")


def is_ragged(value: Any) -> bool:
    """Return whether an end of a range depends on axes or on elements."""
    return isinstance(value, Expr) and any(
        isinstance(node, (Axis, Read)) for node in postorder([value])
    )


def ragged_axis(lo: Any, hi: Any, name: str) -> Axis:
    """Return an axis that runs over ``lo..hi``, one of which is ragged.

    Its box follows from the declared ranges of axes and elements. An end without such a bound is
    unknown until the axis is used: see :func:`give_boxes`.
    """
    bounds = _checked(lo, name), _checked(hi, name)
    facts = elements()
    first = _end(facts, bounds[0], False)
    last = _end(facts, bounds[1], True)
    return _with_box(name, bounds, first, last)


def _with_box(name: str, bounds: Bounds, first: Lin | None, last: Lin | None) -> Axis:
    if first is None or last is None:
        return Axis(name, _UNKNOWN, "reduce", bounds=bounds)
    length = last - first
    if length.const is not None and length.const < 0:
        length = Lin.of(0)
    elif length.const is None and not Ranges().nonneg(length):
        length = extreme("max", (length, Lin.of(0)), Ranges())
    start, extent = (
        lin.const if lin.const is not None else to_expr(lin) for lin in (first, length)
    )
    return Axis(name, extent, "reduce", start, bounds=bounds)


def has_box(axis: Axis) -> bool:
    """Return whether fixed ends are known around the ranges of an axis."""
    return axis.extent is not _UNKNOWN


def _checked(value: Any, name: str) -> Extent:
    """Return an end of a range, as an int or an expression of integers."""
    if isinstance(value, Const) and isinstance(value.value, int):
        return int(value.value)
    if isinstance(value, Expr):
        if not dtypes.is_integer(value.dtype):
            raise ComputeTypeError(
                explain(
                    f"sl.reduce_axis(..., name={name!r})",
                    f"an end of its range, {value}, is {value.dtype}, but ends are integers",
                    f"Convert it with sl.cast({value}, 'int64'), or divide with //.",
                )
            )
        for node in postorder([value]):
            if isinstance(node, Axis) and not has_box(node):
                raise ComputeError(
                    explain(
                        f"sl.reduce_axis(..., name={name!r})",
                        f"its range depends on {node.name}, whose own range {_text(node)} is not "
                        "known to lie between fixed ends",
                        _declare(node),
                    )
                )
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ComputeTypeError(
            f"the range of reduction axis {name} contains {value!r}; give integers"
        )
    return int(value)


def _end(facts: Elements, value: Extent, largest: bool) -> Lin | None:
    """Return the largest or least value of an end over all axes and elements, if it is known."""
    lin = facts.lin(value)
    ranges = facts.within(Ranges())
    end = upper(lin, ranges) if largest else lower(lin, ranges)
    if end is None:
        low, high = ranges.interval(lin)
        number = high if largest else low
        end = None if number is None else Lin.of(number)
    # without knowledge of an element, the end is astronomically large
    if end is None or abs(end.offset) >= (MOST.const or 0) // 4:
        return None
    return end


def _text(axis: Axis) -> str:
    assert axis.bounds is not None
    return f"({axis.bounds[0]}, {axis.bounds[1]})"


def _declare(axis: Axis) -> str:
    """Return how to give ``axis`` a box."""
    assert axis.bounds is not None
    reads = [
        n for n in postorder([b for b in axis.bounds if isinstance(b, Expr)]) if isinstance(n, Read)
    ]
    name = reads[0].tensor.name if reads else "T"
    return f"Declare the values that {name} holds: sl.assume({name}, within=(0, n))."


def give_boxes(
    name: str, axes: Sequence[Axis], roots: Sequence[Expr]
) -> tuple[tuple[Axis, ...], Swap]:
    """Return ``axes`` with a box each, and the axes that replace those without one.

    ``roots`` are what the reduction evaluates. An unknown end is the end of the tensor that is read
    at the axis itself: no other read could be in bounds.
    """
    swap: dict[Axis, Axis] = {}
    for axis in axes:
        if not has_box(axis):
            swap[axis] = _from_reads(name, axis, roots)
    if not swap:
        return tuple(axes), swap
    boxed_axes = []
    for axis in axes:
        axis_in_box = swap.get(axis, axis)
        if axis_in_box.bounds is not None:
            bounds = tuple(replace_axes(b, swap) for b in axis_in_box.bounds)
            if any(a is not b for a, b in zip(bounds, axis_in_box.bounds)):
                axis_in_box = swap[axis] = replace(axis_in_box, bounds=bounds)
        boxed_axes.append(axis_in_box)
    return tuple(boxed_axes), swap


def replace_axes(value: Any, swap: Swap) -> Any:
    """Return an expression with axes replaced."""
    if not swap or not isinstance(value, Expr):
        return value
    return rewrite(value, lambda node: swap.get(node) if isinstance(node, Axis) else None)


def _from_reads(name: str, axis: Axis, roots: Sequence[Expr]) -> Axis:
    assert axis.bounds is not None
    facts = elements()
    first, last = (_end(facts, bound, up) for bound, up in zip(axis.bounds, (False, True)))
    starts: list[Lin] = []
    stops: list[Lin] = []
    for read in (node for node in eager(roots) if isinstance(node, Read)):
        for index, extent in zip(read.indices, read.tensor.shape):
            shift = to_lin(index) - Lin.of(axis)
            if shift.const is not None:
                starts.append(-shift)
                stops.append(to_lin(extent) - shift)
    if first is None and starts:
        first = max(starts, key=lambda lin: lin.offset)
    if last is None and stops:
        last = min(stops, key=lambda lin: (lin.const is None, lin.const or 0))
    if first is None or last is None:
        raise ComputeError(
            explain(
                f"sl.{name}(..., axis={axis.name}) over {_text(axis)}",
                "the range is not known to lie between fixed ends",
                f"{_declare(axis)} Or read a tensor at {axis.name} itself.",
            )
        )
    return _with_box(axis.name, axis.bounds, first, last)


def with_ranges(
    axes: Sequence[Axis], where: Expr | None
) -> tuple[Expr | None, tuple[Extent | None, ...]]:
    """Return ``where`` after the ranges of ragged ``axes``, and the limits of its conditions.

    See :class:`~schedlang.compute.tensor.ComputeOp`. An end that equals the box's needs no test.
    """
    tests: list[Expr] = []
    limits: list[Extent | None] = []
    for axis in axes:
        if axis.bounds is None:
            continue
        ends = axis.lo, axis.lo + axis.extent
        for op, bound, limit in zip((">=", "<"), axis.bounds, ends):
            if is_ragged(bound) or to_lin(bound) != to_lin(limit):
                tests.append(binary(op, axis, _index(bound)))
                end = to_lin(limit)
                limits.append(end.const if end.const is not None else to_expr(end))
    for test in reversed(tests):
        where = test if where is None else both(test, where)
    return where, tuple(limits)


def _index(bound: Extent) -> Extent:
    weak = not isinstance(bound, Expr) or bound.weak
    return bound if weak else cast(bound, dtypes.INDEX)


def check_boxes(name: str, axes: Sequence[Axis], roots: Sequence[Expr]) -> None:
    """Raise ``ComputeError`` unless the box of each ragged axis is one that the language gives.

    ``roots`` are what the reduction evaluates.
    """
    for axis in axes:
        if axis.bounds is None:
            continue
        if not _same_box(axis, ragged_axis(*axis.bounds, axis.name)):
            if not _same_box(axis, _from_reads(name, axis, roots)):
                raise ComputeError(
                    f"{name}: axis {axis.name} over {_text(axis)} is recorded with the box "
                    f"{axis.lo}..{axis.lo + axis.extent}, which does not follow from its range"
                )


def _same_box(a: Axis, b: Axis) -> bool:
    return to_lin(a.lo) == to_lin(b.lo) and to_lin(a.extent) == to_lin(b.extent)


def without_ranges(where: Expr | None, count: int) -> Expr | None:
    """Return the user's part of ``where``, which comes after ``count`` conditions of ranges."""
    for _ in range(count):
        if where is None or not is_both(where):
            return None
        where = where.a
    return where
