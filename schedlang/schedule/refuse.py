"""Refusals of schedule steps, which show the loop nest with a mark at the loop in question."""

from __future__ import annotations

from typing import NoReturn

from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import ScheduleError, explain
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import For
from schedlang.ir.printer import INDENT, printed_names, statement_lines
from schedlang.ir.trimmed import printed_statements
from schedlang.lowering.lower import lower_state
from schedlang.state.plan import runs_over
from schedlang.state.state import State

CONTEXT = 6


def refuse(
    asked: str, why: str, hint: str = "", state: State | None = None, axis: Axis | None = None,
    beside: str = "",
) -> NoReturn:  # fmt: skip
    """Raise :class:`ScheduleError`; show the nest of ``state`` with ``axis`` marked, if given.

    The lines ``beside`` follow, of the nest that the loop should be.
    """
    nest = "" if state is None or axis is None else marked_nest(state, axis, last=bool(beside))
    raise ScheduleError(explain(asked, why, hint, "\n".join(filter(None, [nest, beside]))))


def marked_nest(state: State, axis: Axis, last: bool = False) -> str:
    """Return the lines of the nest around the loop over ``axis``, with an arrow at that loop.

    It is the first loop over it, or the ``last`` of the longest ones: of a reduction, the update
    and not the start, and of a split, no tail.
    """
    nest = lower_state(state, strict=False)
    lines: list[str] = []
    mark, longest, names_printed = -1, 0, printed_names(nest)
    for stmt, depth in printed_statements(nest.body):
        if isinstance(stmt, For) and runs_over(stmt.axis, axis):
            extent = stmt.extent if isinstance(stmt.extent, int) else longest
            if mark < 0 or (last and extent >= longest):
                mark, longest = len(lines), extent
        lines += [
            INDENT * depth + line for line in statement_lines(stmt, nest.names, names_printed)
        ]
    if mark < 0:
        return ""
    lines[mark] += "    <-- here"
    first, end = max(0, mark - CONTEXT), mark + CONTEXT + 1
    around = lines[first:end]
    indent = min(len(line) - len(line.lstrip()) for line in around)
    left_out = ["..."]
    above, below = left_out if first else [], left_out if end < len(lines) else []
    return "\n".join([*above, *(line[indent:] for line in around), *below])


def refuse_view(tensor: Tensor) -> None:
    """Raise if ``tensor`` is a view that stages read through instead of a stage of a schedule."""
    if isinstance(tensor.op, ComputeOp) and tensor.op.view:
        source = tensor.op.input_tensors[0].name
        refuse(
            f"s[{tensor.name}]",
            f"{tensor.name} is a view, and operations on arrays read {source} instead",
            "Name the view before you use it, which gives it a stage: "
            f'sl.named("{tensor.name}", ...).',
        )
