"""The sites of a reduction: how much each of its elements counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from schedlang.compute.define import define
from schedlang.compute.fold import ufunc_of
from schedlang.compute.joint import alone
from schedlang.compute.reduce import max as reduce_max
from schedlang.compute.reduce import min as reduce_min
from schedlang.compute.reduce import sum as reduce_sum
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError, explain
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Call, Expr
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.algebra import choose, divide, guard_value, number
from schedlang.gradient.derivative import TRACED, Flow, Traced, value_children
from schedlang.gradient.folds import fold_sites
from schedlang.gradient.product_reductions import product_sites
from schedlang.gradient.ragged import conjuncts, number_rows, replace_axes
from schedlang.gradient.simplify import scope, substitute
from schedlang.gradient.stage_sites import Found, Head, Walk, sites, sites_of
from schedlang.gradient.weighted import beside, weighted_sites
from schedlang.index.linear import to_expr
from schedlang.index.simplify import to_lin

# reducers whose results are indices
_INDEX_REDUCERS = ("argmin", "argmax")


def compute_sites(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the reads of a stage, each with its site, given the adjoints of its outputs.

    Raises :class:`~schedlang.errors.ComputeError` for what has no derivative.
    """
    if op.destination is not None:
        return _scattered(walk, op, heads)
    if op.reducer is None:
        return sites_of(walk, op, heads)
    return _reduced(walk, op, heads)


def _scattered(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of a scatter that sums: an update counts as the element that it adds to."""
    assert op.destination is not None
    head = heads[0]
    if ufunc_of(op.combiner) is not np.add or not isinstance(head, Adjoint):
        name = op.outputs[0].name
        raise ComputeError(
            explain(
                f"sl.gradient through stage {op.name}",
                f"it is a scatter that combines updates by {op.combiner.name}, and of scatters "
                "only sums of floats have gradients",
                f"Give the derivative of the stage: sl.gradient(..., rules={{{name}: ...}}).",
            )
        )
    held = () if op.where is None else (op.where,)
    flow = head.at((*op.destination, *walk.batch))
    axes = (*op.domain, *walk.batch)
    all_sites: Found = []
    for tensor, site in sites(walk, op, [(op.body[0], flow)], op.reduce_axis, held, ()):
        moved = site if isinstance(site, Traced) else replace(site, axes=axes)
        all_sites.append((tensor, moved))
    if op.init is not None:
        start = head.at((*op.axis, *walk.batch))
        all_sites += sites(walk, op, [(op.init[0], start)], (), (), heads)
    return all_sites


def _reduced(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    if op.combiner.parts:
        return _joint(walk, op, heads)
    if not any(isinstance(head, Adjoint) for head in heads):
        return _traced(walk, op)
    ufunc = ufunc_of(op.combiner)
    if ufunc is np.add:
        return weighted_sites(walk, op, heads, lambda flow, element: flow)
    if ufunc is np.multiply:
        return product_sites(walk, op, heads)
    if ufunc in (np.minimum, np.maximum):
        return weighted_sites(walk, op, heads, _extreme_rule(walk, op))
    if op.combiner.gradient == "fold":
        return fold_sites(walk, op, heads)
    name = op.outputs[0].name
    raise ComputeError(
        explain(
            f"sl.gradient through stage {op.name}",
            f"its reducer {op.combiner.name} is a custom one, whose derivative is not declared",
            "Declare that the combiner is differentiable where it is made: "
            f'sl.comm_reducer(..., name="{op.combiner.name}", gradient="fold"), which keeps all '
            f"partial results. Or give the derivative of the stage: "
            f"sl.gradient(..., rules={{{name}: ...}}).",
        )
    )


def _joint(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of several reductions in one loop: the sites of each that has an adjoint."""
    all_sites: Found = []
    for part in op.combiner.parts:
        own = [heads[place] for place in part.places]
        if any(head is not None for head in own):
            all_sites += _reduced(walk, alone(op, part), own)
    return all_sites


def _traced(walk: Walk, op: ComputeOp) -> Found:
    """Return the reads of a reduction to integers: its elements have no adjoint.

    An index of the smallest or largest element is a step function of the elements.
    """
    if op.combiner.name in _INDEX_REDUCERS:
        return []
    flows: list[tuple[Expr, Flow]] = [(body, TRACED) for body in (*op.body, *(op.init or ()))]
    return sites(walk, op, flows, op.reduce_axis, (), ())


def _extreme_rule(walk: Walk, op: ComputeOp) -> Callable[[Expr, Expr], Expr]:
    """Return the rule of a minimum or maximum: equal elements share its adjoint, as in torch.

    An element that may be rounded differently where it is computed again is stored, and compared
    with the extreme of what is stored.
    """
    best, dtype = walk.element(op.outputs[0], op.axis), op.outputs[0].dtype
    zero, one = number(0, dtype), number(1, dtype)
    body, init = op.body[0], op.init[0] if op.init else None
    stored = {id(body): body}
    if not _is_exact(body):
        stored[id(body)] = element = _stored(walk, op)
        smaller = ufunc_of(op.combiner) is np.minimum
        function = reduce_min if smaller else reduce_max
        best = beside(op, "stored", function, element, init)[tuple(op.axis)]

    def wins(value: Expr) -> Expr:
        compared = stored.get(id(value), value)
        return Binary("==", compared, best, "bool")

    def counted(value: Expr) -> Expr:
        return choose(wins(value), one, zero, False)

    ties = beside(op, "ties", reduce_sum, counted(body), None if init is None else counted(init))

    def rule(flow: Expr, element: Expr) -> Expr:
        return choose(wins(element), divide(flow, ties[tuple(op.axis)]), zero, False)

    return rule


def _stored(walk: Walk, op: ComputeOp) -> Expr:
    """Return a read of the elements of a reduction, in a stage that stores them.

    The elements of all ranges of a monotonic tensor are stored in one row.
    """
    body, held, data = op.body[0], conjuncts([] if op.where is None else [op.where]), list(op.axis)
    ragged = [axis for axis in op.reduce_axis if axis.bounds is not None]
    numbering = number_rows(walk.rows, data, held, ragged) if ragged else None
    if numbering is not None:
        axis, row, rest = numbering
        points = scope((*op.axis, *op.reduce_axis))
        data.remove(axis)
        body, *held = (substitute(v, {axis: row}, points) for v in (body, *rest))
    lows = [to_expr(to_lin(axis.lo)) for axis in op.reduce_axis]
    axes = [Axis(axis.name, axis.extent) for axis in (*data, *op.reduce_axis)]
    at: dict[Axis, Expr] = dict(zip(data, axes))
    for axis, low, own in zip(op.reduce_axis, lows, axes[len(data) :]):
        at[axis] = own + low
    body = guard_value([reduce(both, held)], body) if held else body
    tensor = define(f"{op.outputs[0].name}.elements", tuple(axes), replace_axes(body, at))
    return tensor(*data, *(axis - low for axis, low in zip(op.reduce_axis, lows)))


def _is_exact(body: Expr) -> bool:
    """Return whether ``body`` has the same value wherever it is computed.

    A product in a sum may be contracted, and a math function may have a vector version.
    """
    stack = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op in ("+", "-"):
            if any(isinstance(c, Binary) and c.op == "*" for c in node.children):
                return False
        elif isinstance(node, Call) and node.fn not in ("min", "max", "abs", "sqrt"):
            return False
        stack += value_children(node)
    return True
