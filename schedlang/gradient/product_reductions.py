"""The sites of a product reduction: the adjoint of a factor is the product of the others.

That product is computed without a division, so that it is right where factors are 0, and so are its
own derivatives. For few factors, each product leaves out one. More factors are multiplied from both
ends, by a recurrence that stores the partial products.

Source: PyTorch's ``prod_backward``, which multiplies cumulative products from both ends if a factor
is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.define import define
from schedlang.compute.ragged import without_ranges
from schedlang.compute.reduce import prod as reduce_prod
from schedlang.compute.tensor import ComputeOp
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.algebra import times
from schedlang.gradient.folds import fold_sites
from schedlang.gradient.ragged import copies, replace_axes
from schedlang.gradient.stage_sites import Found, Head, Walk
from schedlang.gradient.weighted import weighted_sites
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin

# the most factors for which the product of the others is computed factor by factor
_MOST_FACTORS = 8


def product_sites(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of the factors of a product, given its adjoint."""
    count = Lin.of(1)
    for axis in op.reduce_axis:
        count = count * to_lin(axis.extent)
    few = count.const is not None and count.const <= _MOST_FACTORS and op.init is None
    # the step of a recurrence contains no other recurrence
    if few or (walk.by_row and op.init is None):
        others = _others(op)
        return weighted_sites(walk, op, heads, lambda flow, element: times(flow, others))
    return fold_sites(walk, op, heads)


def _others(op: ComputeOp) -> Expr:
    """Return a read of the products of all factors but one, in a stage of their own."""
    data = [Axis(axis.name, axis.extent) for axis in op.axis]
    left_out = [Axis(axis.name, axis.extent) for axis in op.reduce_axis]
    lows = [to_expr(to_lin(axis.lo)) for axis in op.reduce_axis]
    at = copies(op.reduce_axis, dict(zip(op.axis, data)))
    where: Expr | None = None
    for axis, low, own in zip(op.reduce_axis, lows, left_out):
        test = Binary("!=", at[axis] - low, own, "bool")
        where = test if where is None else Binary("|", where, test, "bool")
    rest = without_ranges(op.where, len(op.limits))
    if rest is not None:
        where = replace_axes(rest, at) if where is None else both(where, replace_axes(rest, at))
    axes = [at[axis] for axis in op.reduce_axis]
    total = reduce_prod(replace_axes(op.body[0], at), axis=axes, where=where)
    tensor = define(f"{op.outputs[0].name}.others", (*data, *left_out), total)
    return tensor(*op.axis, *(axis - low for axis, low in zip(op.reduce_axis, lows)))
