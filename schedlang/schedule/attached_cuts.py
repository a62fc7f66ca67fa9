"""Checks that a step keeps the requested cuts of tails in attached stages.

They need the size of the boxes that a stage computes, so the stage is lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schedlang.expr.nodes import Axis
from schedlang.ir.findings import Findings
from schedlang.lowering.lower import draft_problems
from schedlang.state.cuts import is_cut
from schedlang.state.primitives.refusal import refuse
from schedlang.state.primitives.table import PRIMITIVES
from schedlang.state.relations import Split
from schedlang.state.state import At, Stage, State


def check_attached_cuts(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any],
    findings: Findings,
) -> None:  # fmt: skip
    """Refuse a step after which a requested cut of an attached stage is impossible.

    A cut that was impossible ``before`` as well is not reported. ``findings`` are about other
    schedules of the computation: without them, each step would build the nests of all stages.
    """
    if PRIMITIVES[primitive].keeps_loops:
        return
    stage = after.stages[name]
    cuts = [r for r in stage.relations if isinstance(r, Split) and r.tail == "cut"]
    if not isinstance(stage.attach, At) or all(_stays(stage, cut) for cut in cuts):
        return
    problem = _lost_cut(after, stage, findings)
    if problem is not None and _lost_cut(before, stage, findings) is None:
        axis = next((value for value in _flat(args.values()) if isinstance(value, Axis)), None)
        refuse("an earlier tail='cut' could no longer be done", problem, before, axis)


def _stays(stage: Stage, cut: Split) -> bool:
    """Return whether a cut is possible in every box, so that ``stage`` need not be lowered.

    The extents of reduction axes do not depend on boxes.
    """
    constant = all(isinstance(axis.extent, int) for axis in stage.op.reduce_axis)
    return cut.parent.is_reduce and constant and is_cut(stage, cut)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arguments of a call, and those in lists of axes."""
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def _lost_cut(state: State, stage: Stage, findings: Findings) -> str | None:
    """Return why a requested cut of ``stage`` is impossible, given the present attachments."""
    text = f"tail='cut') on stage {stage.name}:"
    return next((problem for problem in draft_problems(state, findings) if text in problem), None)
