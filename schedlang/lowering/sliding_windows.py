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


def find_slides(
    stage: Stage, box: Box | None, loops: Sequence[tuple[Axis | None, str]]
) -> tuple[Slide, ...]:
    """Return the sliding windows of ``stage`` along ``loops``, which are (variable, kind).

    The loops lie between the storage of ``stage`` and its computation, the innermost last. Each
    may move one dimension of the box, forward and by the same step at both ends. A dimension that
    several of them move slides along none, and neither does a loop that moves several dimensions.
    """
    if box is None:
        return ()
    variables = [var for var, _ in loops if var is not None]
    spans = list(enumerate(zip(box.lo, box.hi)))
    moved = {v: [k for k, (lo, hi) in spans if _moves(v, lo) or _moves(v, hi)] for v in variables}
    slides = []
    for var, kind in loops:
        if var is None or kind not in ("", "unroll") or len(moved[var]) != 1:
            continue
        (dim,) = moved[var]
        if sum(dim in moved[v] for v in variables) == 1:
            slide = _slide_along(var, dim, box)
            slides += [] if slide is None else [slide]
    return tuple(slides)


def _slide_along(var: Axis, dim: int, box: Box) -> Slide | None:
    lo, hi = box.lo[dim], box.hi[dim]
    if lo is None or hi is None:
        return None
    moved = step(hi, var)
    if moved is None or moved <= 0 or step(lo, var) != moved:
        return None
    before = hi.substitute({var: Lin.of(var) - 1})
    overlap = (before - lo).const
    if overlap is not None and overlap < 0:
        return None
    return Slide(dim, before, var)


def _moves(var: Axis, bound: Lin | None) -> bool:
    return bound is None or any(leaf is var for leaf in bound.leaves())


def new_rows_only(stage: Stage, slide: Slide, at: Lin, drafts: Sequence[Draft]) -> list[Draft]:
    """Guard ``drafts``, which compute row ``at``: run in the first iteration, or for a new row."""
    first = Binary("==", slide.var, Const(0, "int64", True), "bool")
    cond = Binary("|", first, _above(at, slide.before), "bool")
    note = f"{stage.name} slides along {slide.var.name}"
    return [If(cond, block(drafts), note, slides=True)]


def _above(at: Lin, bound: Lin) -> Expr:
    """Return ``at > bound`` with common terms cancelled."""
    rest = at - bound
    left = Lin({p: c for p, c in rest.terms.items() if p and c > 0})
    return Binary(">", to_expr(left), to_expr(left - rest), "bool")
