"""The points of one stage, counted from 0 as the loops of a nest, and what is counted over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schedlang.analysis.conditions import Held
from schedlang.analysis.evaluated import evaluations
from schedlang.analysis.points import Counter, Loops
from schedlang.compute.tensor import ComputeOp, Extent, Tensor
from schedlang.compute.work import of_point, of_start
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Expr, Read, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import rewrite

Sizes = Mapping[Var, Lin]


def stage_flops(
    op: ComputeOp, counter: Counter, first: Extent = 0, sizes: Sizes | None = None
) -> Any:
    """The operations of one stage, whole: an ``int``, or of sympy's.

    ``first`` is the row at which a scan's update starts; ``sizes`` has numbers for some sizes.
    """
    loops, shifted = _space(op, first, sizes)
    held = [] if op.where is None else [(shifted(op.where), True)]
    total = counter.count(loops, held) * of_point(op)
    each = of_start(op)
    return total + each * counter.count(loops[: len(op.axis)], []) if each else total


def stage_reads(op: ComputeOp, counter: Counter, first: Extent = 0) -> dict[Tensor, Any]:
    """How often a stage, computed whole, reads an element of each tensor."""
    loops, shifted = _space(op, first, None)
    data = loops[: len(op.axis)]
    held = [] if op.where is None else [(shifted(op.where), True)]
    found: dict[Tensor, Any] = {}
    parts: list[tuple[Sequence[Expr], Loops, list[Held]]] = [(op.body, loops, held)]
    parts += [((op.where,), loops, [])] if op.where is not None else []
    parts += [(op.init, data, [])] if op.init else []
    for roots, around, conditions in parts:
        for read, path in _reads(roots):
            led = [(shifted(cond), truth) for cond, truth in path]
            times = counter.count(around, [*conditions, *led])
            found[read.tensor] = found.get(read.tensor, 0) + times
    return found


def _reads(roots: Sequence[Expr]) -> Iterator[tuple[Read, tuple[Held, ...]]]:
    for root in roots:
        for node, path in evaluations(root):
            if isinstance(node, Read):
                yield node, path


def _space(
    op: ComputeOp, first: Extent, sizes: Sizes | None
) -> tuple[Loops, Callable[[Expr], Expr]]:
    """The loops of ``op`` from 0 on, and a function that brings its conditions there."""
    axes = (*op.axis, *op.reduce_axis)
    starts = [to_lin(axis.lo, sizes) for axis in axes]
    extents = [to_lin(axis.extent, sizes) for axis in axes]
    if op.axis and first != 0:
        starts[0] = starts[0] + to_lin(first, sizes)
        extents[0] = extents[0] - to_lin(first, sizes)
    moved: dict[Expr, Expr] = {
        axis: to_expr(Lin.of(axis) + start) for axis, start in zip(axes, starts) if start.terms
    }
    moved |= {size: to_expr(lin) for size, lin in (sizes or {}).items()}
    done: dict[int, Expr] = {}

    def swap(node: Expr) -> Expr | None:
        return moved.get(node) if isinstance(node, (Axis, Var)) else None

    def shifted(cond: Expr) -> Expr:
        return rewrite(cond, swap, done) if moved else cond

    return tuple(zip(axes, extents)), shifted


__all__ = ["stage_flops", "stage_reads"]
