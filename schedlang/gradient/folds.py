"""The sites of a reduction with a custom combiner: it is differentiated step by step.

The reduction becomes a recurrence that stores all partial results, and a second one that goes back
over them: the adjoint of a partial result is the next one's times the derivative of the combiner
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.ragged import without_ranges
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Tensor, placeholder
from schedlang.expr import dtypes
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Expr, Select, Var
from schedlang.expr.visit import rewrite
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import choose, number
from schedlang.gradient.derivative import TRACED, Flow, Traced, pullback
from schedlang.gradient.ragged import number_rows, range_conditions, replace_axes
from schedlang.gradient.simplify import scope, substitute
from schedlang.gradient.stage_sites import Found, Head, Walk, sites
from schedlang.index.linear import Lin, to_expr
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import to_lin
from schedlang.language.calls import call
from schedlang.language.construct import binary, cast


def fold_sites(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of the elements of a reduction, by the derivative of its combiner."""
    fold = _Fold(walk, op)
    if fold.count.const == 0:
        # only the start counts, which is the result
        flows = [(start, walk.flow(head, op)) for start, head in zip(op.init or (), heads)]
        return sites(walk, op, [(v, f) for v, f in flows if f is not None], (), (), heads)
    partial = _partial_results(fold)
    by = _combiner_derivatives(op)
    back = _adjoints(fold, partial, by, heads)
    q = _position(op)
    after = to_expr(fold.count - 1 - q)
    held = () if op.where is None else (op.where,)
    at = (*fold.data, *walk.batch)
    here = fold.here()
    before = here.before([p(to_expr(q), *fold.data) for p in partial])
    later = here.after([None if b is None else b(after, *at) for b in back], heads, walk.batch)
    by_element: list[tuple[Expr, Flow]] = []
    for part, body in enumerate(op.body):
        if not dtypes.is_float(body.dtype):
            by_element.append((body, TRACED))
            continue
        by_element.append((body, _in_step(op, by, by.rhs[part], part, before, op.body, later)))
    element_sites = sites(walk, op, by_element, op.reduce_axis, held, ())
    if op.init is not None:
        first, empty = fold.ends()
        starts: list[tuple[Expr, Flow]] = []
        for start, b, head in zip(op.init, back, heads):
            flow: Flow = TRACED if b is None else b(to_expr(fold.count - first), *at)
            if empty is not None and isinstance(flow, Expr):
                own = _head_at(head, flow.dtype, (*op.axis, *walk.batch))
                flow = choose(empty, own, flow, True)
            starts.append((start, flow))
        element_sites += sites(walk, op, starts, (), (), ())
    return element_sites


def _head_at(head: Head, dtype: str, indices: Sequence[Expr]) -> Expr:
    return head.at(indices) if isinstance(head, Adjoint) else number(0, dtype)


class _Fold:
    """A reduction as a recurrence over its elements, in row-major order of the reduction axes.

    The elements of all ranges of a monotonic tensor are one row, in which each range begins anew:
    ``row`` is then the data axis of the range, with its value at an element, and not one of
    ``data``, the other data axes.
    """

    def __init__(self, walk: Walk, op: ComputeOp) -> None:
        self.op = op
        self.batch = walk.batch
        self.count = Lin.of(1)
        for axis in op.reduce_axis:
            self.count = self.count * to_lin(axis.extent)
        rows = self.count + 1
        self.rows: int | Expr = to_expr(rows) if rows.const is None else rows.const
        self.data = list(op.axis)
        self.kept = op.where
        self.row: tuple[Axis, Expr] | None = None
        self.inside: Expr | None = None
        if len(op.reduce_axis) == 1:
            ranges = range_conditions(op.reduce_axis)
            numbering = number_rows(walk.rows, self.data, ranges, op.reduce_axis)
            if numbering is not None:
                axis, row, tests = numbering
                self.data.remove(axis)
                self.row = axis, to_expr(row)
                self.inside = reduce(both, tests)
                self.kept = without_ranges(op.where, len(op.limits))

    def axes(self, batch: Sequence[Axis] = ()) -> tuple[Axis, ...]:
        """Return new axes: the axis of the recurrence, then the axes of the data."""
        return (Axis("t", self.rows), *(Axis(a.name, a.extent) for a in (*self.data, *batch)))

    def ends(self) -> tuple[Lin, Expr | None]:
        """Return the number of the first element, and the condition that there is none.

        The condition is ``None`` for a range of its own, which includes the empty one.
        """
        if self.row is None:
            return Lin.of(0), None
        (axis,) = self.op.reduce_axis
        low, high = _bounds(axis)
        return to_lin(low) - to_lin(axis.lo), binary(">=", low, high)

    def here(self) -> _Step:
        """Return the step of an element, over the axes of the reduction."""
        op = self.op
        first: Expr | None = None
        last: Expr | None = None
        if self.row is not None:
            (axis,) = op.reduce_axis
            low, high = _bounds(axis)
            first, last = binary("==", axis, low), binary("==", axis + 1, high)
        starts = op.init if op.init is not None else op.combiner.identity
        return _Step(op.axis, op.body, starts, self.kept, self.inside, first, last)

    def step(self, q: Expr, data: Sequence[Expr]) -> _Step:
        """Return the step of element number ``q``, at values of the other data axes."""
        at = {axis: to_lin(value) for axis, value in zip(self.data, data)}
        rest, ranges = to_lin(q), scope(axis for axis in data if isinstance(axis, Axis))
        for axis in self.op.reduce_axis[:0:-1]:
            extent = to_lin(axis.extent)
            at[axis] = mod(rest, extent, ranges) + to_lin(axis.lo)
            rest = floordiv(rest, extent, ranges)
        outer = self.op.reduce_axis[0]
        at[outer] = rest + to_lin(outer.lo)
        if self.row is not None:
            axis, row = self.row
            at[axis] = to_lin(substitute(row, at, ranges))
        return self.here().moved(lambda value: substitute(value, at, ranges))


def _bounds(axis: Axis) -> tuple[Expr, Expr]:
    """Return the ends of a range between elements."""
    assert axis.bounds is not None
    low, high = (cast(bound, dtypes.INDEX) for bound in axis.bounds)
    return low, high


@dataclass(frozen=True)
class _Step:
    """The step of an element: its values, and the ``starts`` of its range.

    ``data`` are the indices of the result. ``inside`` says whether the element is in a range, and
    ``first`` and ``last`` whether it is an end of that; they are absent if there is one range.
    """

    data: Sequence[Expr]
    elements: Sequence[Expr]
    starts: Sequence[Expr]
    kept: Expr | None
    inside: Expr | None
    first: Expr | None
    last: Expr | None

    def moved(self, move: Callable[[Expr], Expr]) -> _Step:
        def one(value: Expr | None) -> Expr | None:
            return None if value is None else move(value)

        data, elements, starts = (
            [move(value) for value in values] for values in (self.data, self.elements, self.starts)
        )
        return _Step(
            data,
            elements,
            starts,
            one(self.kept),
            one(self.inside),
            one(self.first),
            one(self.last),
        )

    def before(self, stored: Sequence[Expr]) -> list[Expr]:
        """Return the partial results before the element; ``stored`` has the last ones that are
        stored."""
        if self.first is None:
            return list(stored)
        return [choose(self.first, a, b, True) for a, b in zip(self.starts, stored)]

    def after(
        self, stored: Sequence[Expr | None], heads: Sequence[Head], batch: Sequence[Expr]
    ) -> list[Expr | None]:
        """Return the adjoints of the partial results after the element; none of an integer."""
        if self.last is None:
            return list(stored)
        at = (*self.data, *batch)
        return [
            None if b is None else choose(self.last, _head_at(head, b.dtype, at), b, True)
            for b, head in zip(stored, heads)
        ]

    def counted(
        self, new: Sequence[Expr], old: Sequence[Expr], stored: Sequence[Expr]
    ) -> list[Expr]:
        """Return ``new`` if the element counts, ``old`` if not, ``stored`` if it is in no range."""
        results = list(new)
        if self.kept is not None:
            results = [Select(self.kept, a, b, a.dtype, True) for a, b in zip(results, old)]
        if self.inside is not None:
            results = [Select(self.inside, a, b, a.dtype, True) for a, b in zip(results, stored)]
        return results


def _position(op: ComputeOp) -> Lin:
    """Return the number of an element in the order of the recurrence, over the reduction axes."""
    position = Lin.of(0)
    for axis in op.reduce_axis:
        position = position * to_lin(axis.extent) + Lin.of(axis) - to_lin(axis.lo)
    return position


def _partial_results(fold: _Fold) -> list[Tensor]:
    """Return the partial results of each part, of shape ``(elements + 1, ...)``."""
    op = fold.op
    reducer = op.combiner
    name = op.name
    shape = (fold.rows, *(a.extent for a in fold.data))
    states = [placeholder(shape, v.dtype, f"{name}.partial{k}") for k, v in enumerate(reducer.lhs)]
    first = tuple(Axis(a.name, a.extent) for a in (Axis("t", 1), *fold.data))
    begun: Sequence[Expr] = reducer.identity
    if op.init is not None and fold.row is None:
        at: dict[Axis, Expr] = dict(zip(op.axis, first[1:]))
        begun = [replace_axes(start, at) for start in op.init]
    init = _tensors(f"{name}.start", first, begun)
    t, *data = axes = fold.axes()
    # the row before the first is not computed, but its index must be in bounds
    step = fold.step(call("max", t - 1, 0), data)
    stored = [s(t - 1, *data) for s in states]
    previous = step.before(stored)
    swap: dict[Expr, Expr] = dict(zip((*reducer.lhs, *reducer.rhs), (*previous, *step.elements)))
    combined = [_filled(result, swap) for result in reducer.result]
    update = _tensors(f"{name}.step", axes, step.counted(combined, previous, stored))
    partials = scan(init, update, states, name=f"{name}.partials")
    return list(partials) if isinstance(partials, list) else [partials]


@dataclass(frozen=True)
class _Derivatives:
    """The adjoints of a combiner's operands, over ``heads``, one for each part; 0 if absent."""

    heads: tuple[Var, ...]
    lhs: tuple[Expr | None, ...]
    rhs: tuple[Expr | None, ...]


def _combiner_derivatives(op: ComputeOp) -> _Derivatives:
    reducer = op.combiner
    heads = tuple(Var(f"head{k}", v.dtype, weak=False) for k, v in enumerate(reducer.lhs))
    roots: list[tuple[Expr, Flow]] = [
        (result, head if dtypes.is_float(head.dtype) else TRACED)
        for result, head in zip(reducer.result, heads)
    ]
    operands = {*reducer.lhs, *reducer.rhs}
    flows = pullback(op.name, roots, lambda leaf: isinstance(leaf, Var) and leaf in operands)
    adjoints: dict[object, Expr] = {
        leaf: flow for leaf, flow in flows if not isinstance(flow, Traced)
    }
    left, right = (tuple(adjoints.get(v) for v in side) for side in (reducer.lhs, reducer.rhs))
    return _Derivatives(heads, left, right)


def _in_step(
    op: ComputeOp,
    by: _Derivatives,
    derivative: Expr | None,
    part: int,
    before: Sequence[Expr],
    element: Sequence[Expr],
    after: Sequence[Expr | None],
) -> Expr:
    """Return a derivative of the combiner in one step.

    ``before`` is the partial result before it, and ``after`` the adjoint of the one after it.
    """
    reducer = op.combiner
    if derivative is None:
        return number(0, by.heads[part].dtype)
    swap: dict[Expr, Expr] = dict(zip((*reducer.lhs, *reducer.rhs), (*before, *element)))
    swap.update((head, value) for head, value in zip(by.heads, after) if value is not None)
    return _filled(derivative, swap)


def _filled(value: Expr, known: Mapping[Expr, Expr]) -> Expr:
    return rewrite(value, lambda node: known.get(node) if isinstance(node, Var) else None)


def _adjoints(
    fold: _Fold, partial: Sequence[Tensor], by: _Derivatives, heads: Sequence[Head]
) -> list[Tensor | None]:
    """Return the adjoints of the partial results, from the last one back; none of an integer."""
    op = fold.op
    name = op.name
    parts = [k for k, v in enumerate(by.heads) if dtypes.is_float(v.dtype)]
    batch = fold.batch
    shape = (fold.rows, *(a.extent for a in (*fold.data, *batch)))
    states = {k: placeholder(shape, by.heads[k].dtype, f"{name}.back{k}") for k in parts}
    first = tuple(Axis(a.name, a.extent) for a in (Axis("t", 1), *fold.data, *batch))
    init = _tensors(
        f"{name}.last",
        first,
        [
            # each range ends with the adjoint of its result
            _head_at(heads[k] if fold.row is None else None, by.heads[k].dtype, first[1:])
            for k in parts
        ],
    )
    t, *rest = axes = fold.axes(batch)
    data, own_batch = rest[: len(fold.data)], rest[len(fold.data) :]
    # step t goes back over element count - t, whose row of partial results has that number;
    # row 0 is not computed, but its index must be in bounds
    q = call("min", to_expr(fold.count - Lin.of(t)), to_expr(fold.count - 1))
    step = fold.step(q, data)
    stored = [states[k](t - 1, *rest) if k in states else None for k in range(len(by.heads))]
    after = step.after(stored, heads, own_batch)
    before = step.before([p(q, *data) for p in partial])
    combined = [_in_step(op, by, by.lhs[k], k, before, step.elements, after) for k in parts]
    added, old = (
        [value for k in parts if (value := values[k]) is not None] for values in (after, stored)
    )
    update = _tensors(f"{name}.backstep", axes, step.counted(combined, added, old))
    scanned: Any = scan(init, update, list(states.values()), name=f"{name}.partials_grad")
    by_part = dict(zip(parts, scanned if isinstance(scanned, list) else [scanned]))
    return [by_part.get(k) for k in range(len(by.heads))]


def _tensors(name: str, axes: tuple[Axis, ...], values: Sequence[Expr]) -> list[Tensor]:
    """Return the tensors of ``values`` over ``axes``, computed together."""
    tensors = define(name, axes, tuple(values))
    return list(tensors)
