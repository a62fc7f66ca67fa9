"""Sliding windows: storage outside a loop keeps what earlier iterations computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.ir.nodes import If
from schedlang.lowering.puts import Draft, block, map_puts
from schedlang.lowering.region import Box, Dim
from schedlang.stage.state import Stage

Slide = Callable[[list[Draft], Sequence[Dim]], list[Draft]]


def sliding_guard(
    stage: Stage, box: Box | None, var: Axis | None, kind: str | None
) -> Slide | None:
    """A filter for the nest of ``stage`` that leaves out rows it has computed before.

    It applies where exactly one dimension of the box moves with ``var``, forward and by the
    same step at both ends; elsewhere the whole box is computed again.
    """
    if box is None or var is None or kind not in (None, "", "unroll"):
        return None
    spans = enumerate(zip(box.lo, box.hi))
    moving = [k for k, (lo, hi) in spans if _moves(lo, var) or _moves(hi, var)]
    if len(moving) != 1:
        return None
    (k,) = moving
    lo, hi = box.lo[k], box.hi[k]
    if lo is None or hi is None:
        return None
    step = _step(hi, var)
    if step is None or step <= 0 or _step(lo, var) != step:
        return None
    before = hi.substitute({var: Lin.of(var) - 1})
    overlap = (before - lo).const
    if overlap is not None and overlap < 0:
        return None
    return lambda made, dims: _filtered(stage, made, k, before, var)


def _moves(bound: Lin | None, var: Axis) -> bool:
    return bound is None or any(leaf is var for leaf in bound.leaves())


def _step(bound: Lin, var: Axis) -> int | None:
    return (bound.substitute({var: Lin.of(var) + 1}) - bound).const


def _filtered(stage: Stage, made: list[Draft], dim: int, before: Lin, var: Axis) -> list[Draft]:
    """Each store of ``stage`` only for rows past ``before``, or in the first iteration."""

    def guard(put: Draft) -> Draft:
        first = Binary("==", var, Const(0, "int64", True), "bool")
        cond: Expr = Binary("|", first, _above(put.indices[dim], before), "bool")  # type: ignore[union-attr]
        return If(cond, block([put]), f"{stage.name} slides along {var.name}")

    return map_puts(made, stage.name, guard)


def _above(at: Lin, bound: Lin) -> Expr:
    """``at > bound``, what stands on both sides left out."""
    rest = at - bound
    left = Lin({p: c for p, c in rest.terms.items() if p and c > 0})
    return Binary(">", to_expr(left), to_expr(left - rest), "bool")
