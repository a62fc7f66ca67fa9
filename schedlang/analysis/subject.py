"""The subject of an analysis: the outputs of a computation, a schedule, or a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import ComputeTypeError, explain
from schedlang.state.state import State


@dataclass(frozen=True, eq=False)
class Subject:
    """The outputs of a computation, and the state if a schedule is given."""

    outputs: tuple[Tensor, ...]
    state: State | None = None


def subject_of(what: Any, call: str) -> Subject:
    """Return the outputs and the state of ``what``; ``call`` names the caller in messages.

    Raise :class:`~schedlang.errors.ComputeTypeError` unless ``what`` is a tensor, a list of
    tensors, a schedule, or a kernel that knows its schedule.
    """
    scheduled = what if isinstance(getattr(what, "state", None), State) else None
    known = (Tensor, ComputeOp, ScanOp, ExternOp, list, tuple)
    if scheduled is None and not isinstance(what, known):
        own_schedule = getattr(what, "schedule", None)
        scheduled = (
            own_schedule if isinstance(getattr(own_schedule, "state", None), State) else None
        )
    if scheduled is not None:
        state: State = scheduled.state
        return Subject(state.outputs, state)
    items = what if isinstance(what, (list, tuple)) else [what]
    tensors = [t for item in items for t in _tensors(item, call)]
    if not tensors:
        raise ComputeTypeError(f"{call}([]): give at least one output tensor")
    return Subject(tuple(dict.fromkeys(tensors)))


def _tensors(item: Any, call: str) -> Sequence[Tensor]:
    if isinstance(item, Tensor):
        return [item]
    if isinstance(item, (ComputeOp, ScanOp, ExternOp)):
        return item.outputs
    if isinstance(item, (list, tuple)):
        return [t for inner in item for t in _tensors(inner, call)]
    raise ComputeTypeError(
        explain(
            f"{call}({type(item).__name__} {item!r})"[:200],
            "the argument is not a tensor, a list of tensors or a schedule",
            "Give what sl.compute or sl.schedule returns.",
        )
    )
