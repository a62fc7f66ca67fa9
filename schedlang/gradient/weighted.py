"""The sites of a reduction of single values, and other reductions over its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.compute.define import define
from schedlang.compute.ragged import without_ranges
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.gradient.derivative import Traced
from schedlang.gradient.ragged import copies, replace_axes
from schedlang.gradient.stage_sites import Found, Head, Walk, sites


def weighted_sites(
    walk: Walk, op: ComputeOp, heads: Sequence[Head], rule: Callable[[Expr, Expr], Expr]
) -> Found:
    """Return the sites of a reduction of single values.

    ``rule`` gives the adjoint of an element from the adjoint of the result and the element. The
    initial value is an element, too.
    """
    flow = walk.flow(heads[0], op)
    assert flow is not None and not isinstance(flow, Traced)
    held = () if op.where is None else (op.where,)
    body = op.body[0]
    all_sites = sites(walk, op, [(body, rule(flow, body))], op.reduce_axis, held, heads)
    if op.init is not None:
        all_sites += sites(walk, op, [(op.init[0], rule(flow, op.init[0]))], (), (), heads)
    return all_sites


def beside(
    op: ComputeOp, label: str, reduction: Callable[..., Any], element: Expr, init: Expr | None
) -> Tensor:
    """Return another reduction over the axes of ``op``, of ``element``, in a stage of its own."""
    axes = tuple(Axis(axis.name, axis.extent) for axis in op.axis)
    fresh = copies(op.reduce_axis, dict(zip(op.axis, axes)))
    own = without_ranges(op.where, len(op.limits))
    where = None if own is None else replace_axes(own, fresh)
    start = None if init is None else replace_axes(init, fresh)
    axis = [fresh[axis] for axis in op.reduce_axis]
    total = reduction(replace_axes(element, fresh), axis=axis, where=where, init=start)
    return define(f"{op.outputs[0].name}.{label}", axes, total)
