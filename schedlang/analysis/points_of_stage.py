"""The operations and reads of one stage, counted over its points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schedlang.analysis.points import Counter, Loops
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Extent, Tensor
from schedlang.compute.work import of_point, of_start
from schedlang.expr.evaluation_order import along, evaluations
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.conjunctions import Held
from schedlang.index.linear import ONE, ZERO, Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.lowering.drafts import DraftRead
from schedlang.lowering.instantiate import instantiate

Sizes = Mapping[Var, Lin]


def stage_flops(
    op: ComputeOp, counter: Counter, first: Extent = 0, sizes: Sizes | None = None
) -> Any:
    """Return the operations of one stage, computed whole: an ``int`` or a sympy expression.

    ``first`` is the row at which a scan's update starts. ``sizes`` gives numbers for some sizes.
    """
    loops, shifted = _space(op, first, sizes)
    held = [] if op.where is None else [(shifted(op.where), True)]
    total = counter.count(_updating(op, loops), held) * of_point(op)
    each = of_start(op)
    return total + each * counter.count(loops[: len(op.axis)], []) if each else total


def _updating(op: ComputeOp, loops: Loops) -> Loops:
    """Return the ``loops`` that run around the body: all but a scatter's scattered axes."""
    return tuple(loop for loop in loops if not any(loop[0] is a for a in op.scattered))


def stage_reads(op: ComputeOp, counter: Counter, first: Extent = 0) -> dict[Tensor, Any]:
    """Return how many elements of each tensor a stage reads when it is computed whole.

    Equal reads in one statement count once, since lowering merges them.
    """
    loops, starts = _loops(op, first, None)
    ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in loops})
    values = {
        axis: start if extent == ONE else Lin.of(axis) + start
        for (axis, extent), start in zip(loops, starts)
    }
    rest = iter(instantiate(op.roots, values, {}, ranges).roots)
    body = [next(rest) for _ in op.updates]
    where = [] if op.where is None else [next(rest)]
    inner = _updating(op, loops)
    parts: list[tuple[Sequence[Expr], Loops, tuple[Held, ...]]] = [
        (body, inner, tuple((cond, True) for cond in where)),
        (where, inner, ()),
        (list(rest), loops[: len(op.axis)], ()),
    ]
    numbers: dict[Tensor, Any] = {}
    for roots, around, held in parts:
        for read, path in _reads(roots, held):
            times = counter.count(around, path)
            numbers[read.tensor] = numbers.get(read.tensor, 0) + times
    return numbers


def reads_with_conditions(op: ComputeOp) -> Iterator[tuple[Read, tuple[Held, ...]]]:
    """Yield each read of a stage, with the conditions under which it is evaluated."""
    where = () if op.where is None else ((op.where, True),)
    for roots, held in ((op.updates, where), (op.roots[len(op.updates) :], ())):
        for read, path in _reads(roots, held):
            assert isinstance(read, Read)
            yield read, path


def _reads(
    roots: Sequence[Expr], held: tuple[Held, ...]
) -> Iterator[tuple[Read | DraftRead, tuple[Held, ...]]]:
    for root in roots:
        for node, path in evaluations(root, held, along):
            if isinstance(node, (Read, DraftRead)):
                yield node, path


def _loops(op: ComputeOp, first: Extent, sizes: Sizes | None) -> tuple[Loops, list[Lin]]:
    """Return the loops of ``op``, shifted to start at 0, and their actual starts."""
    axes = (*op.axis, *op.reduce_axis)
    starts = [to_lin(axis.lo, sizes) for axis in axes]
    extents = [to_lin(axis.extent, sizes) for axis in axes]
    if op.axis and first != 0:
        starts[0] = starts[0] + to_lin(first, sizes)
        extents[0] = extents[0] - to_lin(first, sizes)
    return tuple(zip(axes, extents)), starts


def _space(
    op: ComputeOp, first: Extent, sizes: Sizes | None
) -> tuple[Loops, Callable[[Expr], Expr]]:
    """Return the loops of ``op``, shifted to start at 0, and a function that shifts conditions."""
    loops, starts = _loops(op, first, sizes)
    moved: dict[Expr, Expr] = {
        axis: to_expr(Lin.of(axis) + start)
        for (axis, _), start in zip(loops, starts)
        if start.terms
    }
    moved |= {size: to_expr(lin) for size, lin in (sizes or {}).items()}
    memo: dict[int, Expr] = {}

    def swap(node: Expr) -> Expr | None:
        return moved.get(node) if isinstance(node, (Axis, Var)) else None

    def shifted(cond: Expr) -> Expr:
        return rewrite(cond, swap, memo) if moved else cond

    return loops, shifted
