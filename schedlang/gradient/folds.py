"""The sites of a reduction with a custom combiner: it is differentiated step by step.

The reduction becomes a recurrence that stores all partial results, and a second one that goes back
over them: the adjoint of a partial result is that of the next one times the derivative of the
combiner there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.define import defined
from schedlang.compute.scan import scan
from schedlang.compute.tensor import ComputeOp, Tensor, placeholder
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr, Select, Var
from schedlang.expr.visit import rewrite
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import number
from schedlang.gradient.derivative import TRACED, Flow, Traced, pullback
from schedlang.gradient.simplify import scope, substituted
from schedlang.gradient.stages import Found, Head, Walk, sites
from schedlang.index.linear import Lin, to_expr
from schedlang.index.rules import floordiv, mod
from schedlang.index.simplify import to_lin
from schedlang.language.calls import call


def fold_sites(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of the elements of a reduction, by the derivative of its combiner."""
    fold = _Fold(op, walk.batch)
    if fold.count.const == 0:
        # only the start counts, which is the result
        flows = [(start, walk.flow(head, op)) for start, head in zip(op.init or (), heads)]
        return sites(walk, op, [(v, f) for v, f in flows if f is not None], (), (), heads)
    partial = _partial_results(fold)
    by = _combiner_derivatives(op)
    back = _adjoints(fold, partial, by, walk, heads)
    q = _position(op)
    after = to_expr(fold.count - 1 - q)
    held = () if op.where is None else (op.where,)
    at = (*op.axis, *walk.batch)
    before = [p(to_expr(q), *op.axis) for p in partial]
    later = [None if b is None else b(after, *at) for b in back]
    by_element: list[tuple[Expr, Flow]] = []
    for part, body in enumerate(op.body):
        if not dtypes.is_float(body.dtype):
            by_element.append((body, TRACED))
            continue
        by_element.append((body, _in_step(op, by, by.rhs[part], part, before, op.body, later)))
    found = sites(walk, op, by_element, op.reduce_axis, held, ())
    if op.init is not None:
        last = to_expr(fold.count)
        starts: list[tuple[Expr, Flow]] = [
            (start, TRACED if b is None else b(last, *at)) for start, b in zip(op.init, back)
        ]
        found += sites(walk, op, starts, (), (), ())
    return found


class _Fold:
    """A reduction as a recurrence over its elements, in row-major order of the reduction axes."""

    def __init__(self, op: ComputeOp, batch: Sequence[Axis]) -> None:
        self.op = op
        self.batch = batch
        self.count = Lin.of(1)
        for axis in op.reduce_axis:
            self.count = self.count * to_lin(axis.extent)
        rows = self.count + 1
        self.rows: int | Expr = to_expr(rows) if rows.const is None else rows.const

    def axes(self, batch: Sequence[Axis] = ()) -> tuple[Axis, ...]:
        """Return new axes: that of the recurrence, and those of the data."""
        return (Axis("t", self.rows), *(Axis(a.name, a.extent) for a in (*self.op.axis, *batch)))

    def element(self, values: Sequence[Expr], q: Expr, data: Sequence[Expr]) -> list[Expr]:
        """Return ``values``, which are over the axes of the reduction, at its element ``q``."""
        at = {axis: to_lin(value) for axis, value in zip(self.op.axis, data)}
        rest, ranges = to_lin(q), scope(axis for axis in data if isinstance(axis, Axis))
        for axis in self.op.reduce_axis[:0:-1]:
            extent = to_lin(axis.extent)
            at[axis] = mod(rest, extent, ranges) + to_lin(axis.lo)
            rest = floordiv(rest, extent, ranges)
        first = self.op.reduce_axis[0]
        at[first] = rest + to_lin(first.lo)
        return [substituted(value, at, ranges) for value in values]


def _position(op: ComputeOp) -> Lin:
    """Return the number of an element in the order of the recurrence, over the reduction axes."""
    found = Lin.of(0)
    for axis in op.reduce_axis:
        found = found * to_lin(axis.extent) + Lin.of(axis) - to_lin(axis.lo)
    return found


def _partial_results(fold: _Fold) -> list[Tensor]:
    """Return the partial results of each part, of shape ``(elements + 1, ...)``."""
    op = fold.op
    reducer = op.reducer
    assert reducer is not None
    name = op.name
    shape = (fold.rows, *op.shape)
    states = [placeholder(shape, v.dtype, f"{name}.partial{k}") for k, v in enumerate(reducer.lhs)]
    first = tuple(Axis(a.name, a.extent) for a in (Axis("t", 1), *op.axis))
    at = dict(zip(op.axis, first[1:]))
    starts = op.init if op.init is not None else reducer.identity
    begun = [rewrite(v, lambda n: at.get(n) if isinstance(n, Axis) else None) for v in starts]
    init = _tensors(f"{name}.start", first, begun)
    t, *data = axes = fold.axes()
    # the row before the first is not computed, but its index must be in bounds
    q = call("max", t - 1, 0)
    where = [] if op.where is None else [op.where]
    moved = fold.element([*op.body, *where], q, data)
    elements, kept = moved[: len(op.body)], moved[len(op.body) :]
    previous = [s(t - 1, *data) for s in states]
    swap: dict[Expr, Expr] = dict(zip((*reducer.lhs, *reducer.rhs), (*previous, *elements)))
    combined = [_filled(result, swap) for result in reducer.result]
    if kept:
        combined = [Select(kept[0], c, p, c.dtype, True) for c, p in zip(combined, previous)]
    update = _tensors(f"{name}.step", axes, combined)
    found = scan(init, update, states, name=f"{name}.partials")
    return list(found) if isinstance(found, list) else [found]


@dataclass(frozen=True)
class _Derivatives:
    """The adjoints of a combiner's operands, over ``heads``, one for each part; 0 if absent."""

    heads: tuple[Var, ...]
    lhs: tuple[Expr | None, ...]
    rhs: tuple[Expr | None, ...]


def _combiner_derivatives(op: ComputeOp) -> _Derivatives:
    reducer = op.reducer
    assert reducer is not None
    heads = tuple(Var(f"head{k}", v.dtype, weak=False) for k, v in enumerate(reducer.lhs))
    roots: list[tuple[Expr, Flow]] = [
        (result, head if dtypes.is_float(head.dtype) else TRACED)
        for result, head in zip(reducer.result, heads)
    ]
    operands = {*reducer.lhs, *reducer.rhs}
    flows = pullback(op.name, roots, lambda leaf: isinstance(leaf, Var) and leaf in operands)
    known: dict[object, Expr] = {
        leaf: flow for leaf, flow in flows if not isinstance(flow, Traced)
    }
    left, right = (tuple(known.get(v) for v in side) for side in (reducer.lhs, reducer.rhs))
    return _Derivatives(heads, left, right)


def _in_step(
    op: ComputeOp, by: _Derivatives, derivative: Expr | None, part: int,
    before: Sequence[Expr], element: Sequence[Expr], after: Sequence[Expr | None],
) -> Expr:  # fmt: skip
    """Return a derivative of the combiner in one step.

    ``before`` is the partial result before it, and ``after`` the adjoint of the one after it.
    """
    reducer = op.reducer
    assert reducer is not None
    if derivative is None:
        return number(0, by.heads[part].dtype)
    swap: dict[Expr, Expr] = dict(zip((*reducer.lhs, *reducer.rhs), (*before, *element)))
    swap.update((head, value) for head, value in zip(by.heads, after) if value is not None)
    return _filled(derivative, swap)


def _filled(value: Expr, known: Mapping[Expr, Expr]) -> Expr:
    return rewrite(value, lambda node: known.get(node) if isinstance(node, Var) else None)


def _adjoints(
    fold: _Fold, partial: Sequence[Tensor], by: _Derivatives, walk: Walk, heads: Sequence[Head]
) -> list[Tensor | None]:
    """Return the adjoints of the partial results, from the last one back; none of an integer."""
    op = fold.op
    name = op.name
    parts = [k for k, v in enumerate(by.heads) if dtypes.is_float(v.dtype)]
    batch = walk.batch
    shape = (fold.rows, *op.shape, *(a.extent for a in batch))
    states = {k: placeholder(shape, by.heads[k].dtype, f"{name}.back{k}") for k in parts}
    first = tuple(Axis(a.name, a.extent) for a in (Axis("t", 1), *op.axis, *batch))
    init = _tensors(f"{name}.last", first, [
        head.at(first[1:]) if isinstance(head := heads[k], Adjoint)
        else number(0, by.heads[k].dtype)
        for k in parts
    ])  # fmt: skip
    t, *rest = axes = fold.axes(batch)
    data = rest[: len(op.axis)]
    # step t goes back over element count - t, whose row of partial results has that number
    q = to_expr(fold.count - Lin.of(t))
    # row 0 is not computed, but its index must be in bounds
    q = call("min", q, to_expr(fold.count - 1))
    where = [] if op.where is None else [op.where]
    moved = fold.element([*op.body, *where], q, data)
    elements, kept = moved[: len(op.body)], moved[len(op.body) :]
    after = [states[k](t - 1, *rest) if k in states else None for k in range(len(by.heads))]
    before = [p(q, *data) for p in partial]
    combined = [_in_step(op, by, by.lhs[k], k, before, elements, after) for k in parts]
    if kept:
        combined = [Select(kept[0], c, states[k](t - 1, *rest), c.dtype, True)
                    for k, c in zip(parts, combined)]  # fmt: skip
    update = _tensors(f"{name}.backstep", axes, combined)
    found: Any = scan(init, update, list(states.values()), name=f"{name}.partials_grad")
    made = dict(zip(parts, found if isinstance(found, list) else [found]))
    return [made.get(k) for k in range(len(by.heads))]


def _tensors(name: str, axes: tuple[Axis, ...], values: Sequence[Expr]) -> list[Tensor]:
    """Return the tensors of ``values`` over ``axes``, computed together."""
    made = defined(name, axes, tuple(values))
    return list(made)

