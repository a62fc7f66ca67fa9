"""Refusals of schedule steps, with the loop nest and the guilty loop marked."""

from __future__ import annotations

from typing import NoReturn

from schedlang.errors import ScheduleError, explain
from schedlang.expr.nodes import Axis
from schedlang.ir.printer import INDENT, statement_lines
from schedlang.ir.nodes import For, walk
from schedlang.stage.relations import parts
from schedlang.stage.state import Stage, State

CONTEXT = 6


def refuse(
    asked: str, why: str, hint: str = "", state: State | None = None, axis: Axis | None = None
) -> NoReturn:
    """Raise :class:`ScheduleError`; with ``state`` and ``axis`` the nest is shown, marked there."""
    nest = "" if state is None or axis is None else marked_nest(state, axis)
    raise ScheduleError(explain(asked, why, hint, nest))


def marked_nest(state: State, axis: Axis) -> str:
    """The lines of the nest around the loop over ``axis``, which gets an arrow."""
    from schedlang.lowering.lower import lower_state

    nest = lower_state(state, strict=False)
    lines: list[str] = []
    mark = -1
    for stmt, depth in walk(nest.body):
        if isinstance(stmt, For) and stmt.axis is axis and mark < 0:
            mark = len(lines)
        lines += [INDENT * depth + line for line in statement_lines(stmt, nest.names)]
    if mark < 0:
        return ""
    width = max(len(line) for line in lines[mark : mark + 2]) + 4
    lines[mark] = f"{lines[mark]:<{width}}<-- here"
    shown = lines[max(0, mark - CONTEXT) : mark + CONTEXT + 1]
    indent = min(len(line) - len(line.lstrip()) for line in shown)
    return "\n".join(line[indent:] for line in shown)


def leaf_position(state: State, stage: Stage, axis: object, asked: str) -> int:
    """Where ``axis`` stands among the loops of ``stage``; a refusal that says why it does not."""
    if not isinstance(axis, Axis):
        refuse(asked, f"{axis!r} is no axis", f"The loops of {stage.name}: {_loops(stage)}.")
    for position, leaf in enumerate(stage.leaf):
        if leaf is axis:
            return position
    relation = stage.made_from(axis)
    if relation is not None:
        made = ", ".join(a.name for a in parts(relation))
        refuse(
            asked, f"{axis.name} is no loop any more: it was made into {made}",
            f"Use {made}. The loops of {stage.name}: {_loops(stage)}.",
        )  # fmt: skip
    owner = next(
        (s for s in state.stages.values() if any(a is axis for a in (*s.leaf, *s.roots))), None
    )
    whose = f"belongs to stage {owner.name}" if owner is not None else "belongs to no stage here"
    refuse(asked, f"{axis.name} {whose}", f"The loops of {stage.name}: {_loops(stage)}.")


def _loops(stage: Stage) -> str:
    return ", ".join(a.name for a in stage.leaf) or "none"


def plain(state: State, stage: Stage, axis: Axis, asked: str) -> None:
    """Refuse an axis that is annotated already or that other stages are attached to."""
    kind = stage.kinds.get(axis)
    if kind is not None:
        refuse(
            asked, f"{axis.name} is already {_participle(kind)}",
            "Split, fuse and annotate a loop before it gets its kind.", state, axis,
        )  # fmt: skip
    held = next(
        (s for s in state.stages.values() for spot in (s.attach, s.store)
         if getattr(spot, "axis", None) is axis), None,
    )  # fmt: skip
    if held is not None:
        refuse(
            asked, f"stage {held.name} is computed at {axis.name}, which would be gone",
            f"Split and fuse first, then s[{held.name}].compute_at(...).",
        )  # fmt: skip


def _participle(kind: str) -> str:
    return {"vectorize": "vectorized", "unroll": "unrolled"}.get(
        kind, kind if kind in ("parallel",) else f"bound to {kind}"
    )
