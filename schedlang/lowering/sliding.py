"""Sliding windows: storage outside a loop keeps what earlier iterations computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.ir.nodes import If
from schedlang.lowering.drafts import Draft, block
from schedlang.lowering.region import Box
from schedlang.stage.state import Stage


@dataclass(frozen=True)
class Slide:
    """Rows of dimension ``dim`` up to ``before`` are kept from the last iteration of ``var``."""

    dim: int
    before: Lin
    var: Axis


def find_slide(stage: Stage, box: Box | None, var: Axis | None, kind: str | None) -> Slide | None:
    """Return the part that ``stage`` need not compute again at this loop.

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
    return Slide(k, before, var)


def _moves(bound: Lin | None, var: Axis) -> bool:
    return bound is None or any(leaf is var for leaf in bound.leaves())


def _step(bound: Lin, var: Axis) -> int | None:
    return (bound.substitute({var: Lin.of(var) + 1}) - bound).const


def new_rows_only(stage: Stage, slide: Slide, at: Lin, drafts: Sequence[Draft]) -> list[Draft]:
    """Return ``drafts``, which compute row ``at``, in the first iteration or past the kept rows."""
    first = Binary("==", slide.var, Const(0, "int64", True), "bool")
    cond = Binary("|", first, _above(at, slide.before), "bool")
    return [If(cond, block(drafts), f"{stage.name} slides along {slide.var.name}")]


def _above(at: Lin, bound: Lin) -> Expr:
    """Return ``at > bound``, what stands on both sides left out."""
    rest = at - bound
    left = Lin({p: c for p, c in rest.terms.items() if p and c > 0})
    return Binary(">", to_expr(left), to_expr(left - rest), "bool")
