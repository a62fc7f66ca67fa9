"""Groups of stages that are attached together: te's ``s.create_group``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlang.compute.tensor import PlaceholderOp
from schedlang.errors import text_of
from schedlang.schedule.refuse import refuse
from schedlang.state.state import Root

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Group:
    """The stages from some inputs to some outputs, producers before consumers.

    Its one step is a step of each of its stages.
    """

    schedule: Schedule
    stages: tuple[str, ...]

    def compute_at(self, parent: Any, axis: Any) -> None:
        """Compute the group inside loop ``axis`` of ``parent``, as ``compute_at`` of each stage.

        Stages that have a place already keep it. Afterwards a stage may be attached to another one
        of the group. Raise :class:`~schedlang.errors.ScheduleError` if a stage cannot be computed
        there.

        >>> import schedlang as sl
        >>> A = sl.placeholder((8,), name="A")
        >>> B = sl.compute((8,), lambda i: A[i] + 1, name="B")
        >>> C = sl.compute((8,), lambda i: B[i] * 2, name="C")
        >>> D = sl.compute((8,), lambda i: C[i] - 3, name="D")
        >>> s = sl.schedule(D)
        >>> s.create_group(outputs=C, inputs=A).compute_at(s[D], D.op.axis[0])
        >>> print(s)
        D(A: float32[8]) -> D: float32[8]
        <BLANKLINE>
        for i in 0..8:
          B: float32[1]   global, 4 B
          B[0] = A[i] + 1
          C: float32[1]   global, 4 B
          C[0] = B[0] * 2
          D[i] = C[0] - 3
        """
        # a copy first, so that a refused step leaves the schedule as it was
        for schedule in (self.schedule.copy(), self.schedule):
            for name in reversed(self.stages):
                if isinstance(schedule.state.stages[name].attach, Root):
                    schedule[name].compute_at(schedule[parent], axis)


def stages_between(schedule: Schedule, outputs: Any, inputs: Any, include: bool) -> Group:
    """Return the group of the stages that ``outputs`` need and that need ``inputs``."""
    first, last = (list(v) if isinstance(v, (list, tuple)) else [v] for v in (inputs, outputs))
    state, asked = schedule.state, f"create_group({', '.join(map(text_of, last))}, ...)"
    starts = {t.op for t in first}
    own = {schedule[t].name for t in first if not isinstance(t.op, PlaceholderOp)}
    members = set(own) if include else set()
    behind: set[str] = set()
    waiting = [schedule[t].name for t in last]
    while waiting:
        name = waiting.pop()
        if name not in behind and name not in own:
            behind.add(name)
            read = (state.defined.get(t) for t in state.stages[name].op.input_tensors)
            waiting += [n for n in read if n is not None]
    inside: set[str] = set()
    for name, stage in state.stages.items():
        reads = stage.op.input_tensors
        if name in behind and any(t.op in starts or state.defined.get(t) in inside for t in reads):
            inside.add(name)
    members |= inside
    if not members:
        refuse(
            asked,
            "no stage lies between these outputs and inputs",
            "Give outputs that are computed from the inputs.",
        )
    return Group(schedule, tuple(n for n in state.stages if n in members))
