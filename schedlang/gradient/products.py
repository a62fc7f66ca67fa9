"""The sites of a product reduction: a factor counts as much as the product of the others is.

That product is computed without a division, so that it is right where factors are 0, and so are its
own derivatives. Of few factors, each leaves out one. More of them are multiplied from both ends, by
a recurrence that stores the partial products.

Source: PyTorch's ``prod_backward``, which multiplies cumulative products from both ends if a factor
is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlang.compute.define import defined
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import reads
from schedlang.compute.reduce import Reduction
from schedlang.compute.reduce import prod as reduce_prod
from schedlang.compute.reduce import sum as reduce_sum
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError, explain
from schedlang.expr.lazy import both
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gradient.algebra import chosen, divided, number, times
from schedlang.gradient.folds import fold_sites
from schedlang.gradient.ragged import copies, replaced
from schedlang.gradient.stages import Found, Head, Walk
from schedlang.gradient.weighted import beside, weighted_sites
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin

# the most factors of which each product of the others is computed on its own
_MOST_FACTORS = 8
# the ``gradient`` of a reducer whose derivative is not known
ONCE = "once"


def product_sites(walk: Walk, op: ComputeOp, heads: Sequence[Head]) -> Found:
    """Return the sites of the factors of a product, given its adjoint.

    Raises :class:`~schedlang.errors.ComputeError` for a product that is only a part of another
    product's gradient, whose derivative is not derived: that of ranges between elements.
    """
    assert op.reducer is not None
    if op.reducer.gradient == ONCE:
        stem = op.outputs[0].name.rpartition(".")[0]
        raise ComputeError(
            explain(
                f"sl.gradient through stage {op.name}",
                f"it is a part of the gradient of {stem}, a product over ranges between elements, "
                "whose second derivative is not derived",
                f"Write {stem} as sl.exp of a sum of sl.log, if its factors are positive, or give "
                f"the derivative of the stage: sl.gradient(..., rules={{{op.outputs[0].name}: "
                "...}).",
            )
        )
    if any(_between_elements(axis) for axis in op.reduce_axis):
        return weighted_sites(walk, op, heads, _by_division(op))
    count = Lin.of(1)
    for axis in op.reduce_axis:
        count = count * to_lin(axis.extent)
    few = count.const is not None and count.const <= _MOST_FACTORS and op.init is None
    # the step of a recurrence contains no other recurrence
    if few or (walk.by_row and op.init is None):
        others = _others(op)
        return weighted_sites(walk, op, heads, lambda flow, element: times(flow, others))
    return fold_sites(walk, op, heads)


def _between_elements(axis: Axis) -> bool:
    """Return whether both ends of a range are read from tensors: its box may be far longer."""
    ends = axis.bounds or ()
    return bool(ends) and all(
        isinstance(end, Expr) and any(True for _ in reads([end])) for end in ends
    )


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
        where = replaced(rest, at) if where is None else both(where, replaced(rest, at))
    axes = [at[axis] for axis in op.reduce_axis]
    made = reduce_prod(replaced(op.body[0], at), axis=axes, where=where)
    tensor = defined(f"{op.outputs[0].name}.others", (*data, *left_out), made)
    value: Expr = tensor(*op.axis, *(axis - low for axis, low in zip(op.reduce_axis, lows)))
    return value


def _by_division(op: ComputeOp) -> Callable[[Expr, Expr], Expr]:
    """Return the rule of a product by its factors that are not 0, and the number of the others.

    It needs no storage for each factor, but has no derivative.
    """
    tensor = op.outputs[0]
    zero, one = number(0, tensor.dtype), number(1, tensor.dtype)

    def is_zero(value: Expr) -> Expr:
        return Binary("==", value, number(0, value.dtype), "bool")

    def counted(value: Expr) -> Expr:
        return chosen(is_zero(value), one, zero, False)

    def nonzero(value: Expr) -> Expr:
        return chosen(is_zero(value), one, value, False)

    body, init = op.body[0], op.init[0] if op.init else None
    first = None if init is None else (counted(init), nonzero(init))
    zeros = beside(op, "zeros", reduce_sum, counted(body), first and first[0])
    rest = beside(op, "nonzero", _once, nonzero(body), first and first[1])

    def rule(flow: Expr, element: Expr) -> Expr:
        count, others = zeros[tuple(op.axis)], rest[tuple(op.axis)]
        only = chosen(Binary("==", count, one, "bool"), times(flow, others), zero, False)
        each = chosen(is_zero(count), divided(times(flow, others), element), zero, False)
        return chosen(is_zero(element), only, each, False)

    return rule


def _once(*args: Expr, **options: object) -> Reduction:
    made = reduce_prod(*args, **options)  # type: ignore[arg-type]
    made.reducer = replace(made.reducer, gradient=ONCE)
    return made
