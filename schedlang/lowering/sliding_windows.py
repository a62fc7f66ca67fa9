"""Sliding windows: storage outside a loop keeps the rows that earlier iterations computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.index.digits import step
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.nodes import If
from schedlang.lowering.drafts import Draft, block
from schedlang.lowering.region import Box
from schedlang.state.state import Stage


@dataclass(frozen=True)
class Slide:
    """A sliding window: rows up to ``before`` in dimension ``dim`` exist already.

    The preceding iteration of ``var`` computed them.
    """

    dim: int
    before: Lin
    var: Axis


def find_slide(stage: Stage, box: Box | None, var: Axis | None, kind: str | None) -> Slide | None:
    """Return the sliding window of ``stage`` at the loop over ``var``, or ``None``.

    Exactly one dimension of the box must move with ``var``, forward and by the same step at both
    ends. Otherwise each iteration computes the whole box.
    """
    if box is None or var is None or kind not in (None, "", "unroll"):
        return None
    spans = enumerate(zip(box.lo, box.hi))
    moving = [k for k, (lo, hi) in spans if _varies_with(lo, var) or _varies_with(hi, var)]
    if len(moving) != 1:
        return None
    (k,) = moving
    lo, hi = box.lo[k], box.hi[k]
    if lo is None or hi is None:
        return None
    moved = step(hi, var)
    if moved is None or moved <= 0 or step(lo, var) != moved:
        return None
    before = hi.substitute({var: Lin.of(var) - 1})
    overlap = (before - lo).const
    if overlap is not None and overlap < 0:
        return None
    return Slide(k, before, var)


def _varies_with(bound: Lin | None, var: Axis) -> bool:
    return bound is None or any(leaf is var for leaf in bound.leaves())


def new_rows_only(stage: Stage, slide: Slide, at: Lin, drafts: Sequence[Draft]) -> list[Draft]:
    """Guard ``drafts``, which compute row ``at``: run in the first iteration, or for a new row."""
    first = Binary("==", slide.var, Const(0, "int64", True), "bool")
    cond = Binary("|", first, _above(at, slide.before), "bool")
    return [If(cond, block(drafts), f"{stage.name} slides along {slide.var.name}")]


def _above(at: Lin, bound: Lin) -> Expr:
    """Return ``at > bound`` with common terms cancelled."""
    rest = at - bound
    left = Lin({p: c for p, c in rest.terms.items() if p and c > 0})
    return Binary(">", to_expr(left), to_expr(left - rest), "bool")
