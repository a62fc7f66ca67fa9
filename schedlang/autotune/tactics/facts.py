"""The facts that a tactic may ask for, all immutable: about a computation, and about its stages.

They follow from the state of a schedule and from what is decided so far. Steps change the schedule
and not the facts: :meth:`StageFacts.after` returns the facts about the schedule after the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from schedlang.autotune.tactics.access import Access, points_read
from schedlang.autotune.tactics.scheduled import (
    AttachPoint,
    OuterLoops,
    Placement,
    Scheduled,
)
from schedlang.autotune.work_bound import most_work
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.compute.work import flops, of_point
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Call, Var
from schedlang.expr.visit import postorder
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import Stage, State
from schedlang.target import Target

T = TypeVar("T")
# threads must save so many times what their first start costs, about 60 microseconds: a machine
# that has other work starts one of them some milliseconds late
# nobody has measured this value
MARGIN = 32.0
# so many times, if threads wait for work, as they do between the kernels of a network
# nobody has measured this value
TEAM_MARGIN = 2.0


@dataclass(frozen=True)
class Problem:
    """The computation of ``outputs``, to be scheduled for ``threads`` cores of a target.

    ``sizes`` are the values of symbolic sizes to tune for. Where a kernel runs among others,
    ``cold`` are the names of its inputs that come from memory in each call, and ``team`` says that
    other threads wait for work when it starts. Records of ``compiler``, one of the target's or
    empty for the default one, come before other records.
    """

    outputs: tuple[Tensor, ...]
    target: Target
    threads: int = 1
    sizes: Mapping[Var, int] = field(default_factory=dict)
    cold: frozenset[str] = frozenset()
    team: bool = False
    compiler: str = ""

    def extents(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return the extents of axes, at least 1; symbolic ones at the sizes to tune for."""
        return tuple(
            max(1, a.extent if isinstance(a.extent, int) else int(evaluate(a.extent, self.sizes)))
            for a in axes
        )

    def bytes(self, tensor: Tensor) -> int:
        """Return the size of a tensor in bytes."""
        shape = (n if isinstance(n, int) else int(evaluate(n, self.sizes)) for n in tensor.shape)
        return math.prod(shape) * itemsize(tensor.dtype)

    @property
    def margin(self) -> float:
        """The factor by which threads must save more than their first start costs."""
        return TEAM_MARGIN if self.team else MARGIN

    @cached_property
    def least(self) -> int:
        """The operations of all outputs, each stage computed once."""
        return flops(self.outputs, self.sizes)

    def worth_measuring(self, more: float) -> bool:
        """Return whether a candidate with ``more`` operations than the least is worth measuring."""
        return self.least + more <= most_work(self.least)


@dataclass(frozen=True, eq=False)
class Dataflow:
    """The stages of a schedule at one moment, and what is decided about them.

    ``scan_stages`` are the stages whose first axis is the time axis of a scan.
    """

    problem: Problem
    state: State
    decided: Scheduled = field(default_factory=Scheduled)
    scan_stages: frozenset[Tensor] = frozenset()
    _known: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)

    def then(self, s: Schedule, *decided: Scheduled) -> Dataflow:
        """Return the dataflow after some steps, with what else is ``decided`` by then."""
        return replace(self, state=s.state, decided=self.decided.join(*decided))

    @cached_property
    def stages(self) -> tuple[Tensor, ...]:
        """The first output of each stage with loops of its own, producers before consumers."""
        known = self.state.stages.values()
        return tuple(stage.outputs[0] for stage in known if isinstance(stage.op, ComputeOp))

    @cached_property
    def in_order(self) -> tuple[Tensor, ...]:
        """The first outputs of :attr:`stages`, and of calls that can compute a box at a time."""
        return tuple(
            stage.outputs[0]
            for stage in self.state.stages.values()
            if isinstance(stage.op, ComputeOp)
            or (isinstance(stage.op, ExternOp) and stage.op.boxes is not None)
        )

    @cached_property
    def every_stage(self) -> tuple[Stage, ...]:
        """The stages, scans among them."""
        return tuple(self.state.stages.values())

    def stage(self, tensor: Tensor) -> StageFacts:
        """Return the facts about the stage that defines ``tensor``."""
        facts = self._facts.get(tensor)
        if facts is None:
            facts = self._facts[tensor] = StageFacts(self, tensor)
        return facts

    def once(self, key: tuple[object, ...], derive: Callable[[], T]) -> T:
        """Return what ``derive`` returns, which depends on the objects of ``key`` alone.

        All dataflows that follow from one share the answers.
        """
        if key not in self._known:
            self._known[key] = derive()
        known: T = self._known[key]
        return known

    def points(self, op: ComputeOp, inlined: frozenset[Tensor]) -> list[Access]:
        """Return what :func:`~schedlang.autotune.tactics.access.points_read` does, once."""
        return self.once(("points", op, inlined), lambda: points_read(op, inlined))

    def ops_until(self, tensor: Tensor) -> tuple[object, ...]:
        """Return the operations of the stage of ``tensor`` and of all stages before it."""
        ops: list[object] = []
        for stage in self.every_stage:
            ops.append(stage.op)
            if stage.outputs[0] is tensor:
                break
        return tuple(ops)

    @cached_property
    def _facts(self) -> dict[Tensor, StageFacts]:
        return {}


@dataclass(frozen=True, eq=False)
class StageFacts:
    """The facts about the stage of ``tensor`` in a dataflow."""

    flow: Dataflow
    tensor: Tensor

    def after(self, s: Schedule, tensor: Tensor | None = None) -> StageFacts:
        """Return the facts about this stage, or about the stage of ``tensor``, after some steps."""
        return self.flow.then(s).stage(self.tensor if tensor is None else tensor)

    @cached_property
    def stage(self) -> Stage:
        stage = self.flow.state.of(self.tensor)
        assert stage is not None, f"{self.tensor.name} has no stage"
        return stage

    @property
    def problem(self) -> Problem:
        return self.flow.problem

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def op(self) -> ComputeOp:
        """The operation, as cache stages and rfactor left it."""
        op = self.stage.op
        assert isinstance(op, ComputeOp)
        return op

    @property
    def is_reduction(self) -> bool:
        return self.op.reducer is not None

    @property
    def is_scatter(self) -> bool:
        """True if updates compute the places of the elements."""
        return self.op.destination is not None

    @property
    def is_output(self) -> bool:
        """True if the stage computes a result, which is at root."""
        return self.flow.state.is_output(self.stage)

    @property
    def feeds_call(self) -> bool:
        """True if a user's function reads the stage, as an array."""
        return self.flow.state.extern_reader(self.stage) is not None

    @property
    def stays(self) -> bool:
        """True if the stage stays at root: a result or a scatter, which updates any elements."""
        return self.is_output or self.is_scatter

    @property
    def attached(self) -> AttachPoint | None:
        """The loop at which the stage is computed; ``None`` at root."""
        return self.flow.decided.attached.get(self.tensor)

    def axis_name(self, at: int) -> str:
        """Return the name of a data axis in knobs: its own, or its position if ambiguous."""
        names = [axis.name for axis in self.op.axis]
        is_stage = f"{self.name}.{names[at]}" in self.flow.state.stages
        return names[at] if names.count(names[at]) == 1 and not is_stage else str(at)

    @property
    def time_axes(self) -> int:
        """The number of leading time axes: 1 for a stage of a scan, otherwise 0."""
        return int(self.tensor in self.flow.scan_stages)

    @property
    def data_axes(self) -> list[Axis]:
        """The data axes without the time axis of a scan."""
        return list(self.op.axis[self.time_axes :])

    @cached_property
    def last(self) -> int:
        """The position of the contiguous data axis: the last one longer than 1."""
        axes = self.op.axis
        own = range(self.time_axes, len(axes))
        return next((at for at in reversed(own) if is_long(axes[at])), len(axes) - 1)

    @property
    def width(self) -> int:
        """The elements of every output that a vector holds."""
        return min(self.problem.target.vector_width(t.dtype) for t in self.stage.outputs)

    def extents(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return the extents of axes, see :meth:`Problem.extents`."""
        return self.problem.extents(axes)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The points along each data axis, in one time step of a scan."""
        axes, times = self.op.axis, self.time_axes
        return (*(1 for _ in axes[:times]), *self.extents(axes[times:]))

    @property
    def results(self) -> int:
        """The number of points of all data axes."""
        return math.prod(self.extents(self.op.axis))

    @property
    def reduction_steps(self) -> int:
        """The number of reduction steps of one result."""
        return math.prod(self.extents(self.op.reduce_axis))

    @property
    def evaluations(self) -> int:
        """The number of evaluations of the body."""
        return math.prod(self.extents(self.op.domain))

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """Facts that several tactics derive about the stage, by keys of theirs."""
        return {}

    @cached_property
    def reads(self) -> list[Access]:
        """The reads of the stage, including the reads of stages inlined into it."""
        inlined = self.flow.decided.inlined
        return [a for a in self.flow.points(self.op, inlined) if a.tensor not in inlined]

    @cached_property
    def consumers(self) -> list[Tensor]:
        """The stages that read this one, directly or through inlined ones."""
        inlined = self.flow.decided.inlined
        readers: dict[Tensor, None] = {self.tensor: None}
        for producer in (waiting := [self.tensor]):
            outputs = set(self.flow.stage(producer).stage.outputs)
            for stage in self.flow.every_stage:
                reader = stage.outputs[0]
                if reader in readers or outputs.isdisjoint(stage.op.input_tensors):
                    continue
                readers[reader] = None
                if reader in inlined:
                    waiting.append(reader)
        return [t for t in readers if t is not self.tensor and t not in inlined]

    @property
    def is_scan_step(self) -> bool:
        """True if the stage is the start or the update of a scan."""
        readers = (self.flow.state.of(reader) for reader in self.consumers)
        return any(reader is not None and reader.is_scan for reader in readers)

    def placed(self, nest: OuterLoops, axes: Sequence[Axis] | None = None) -> Scheduled:
        """Return the decision that the stage is scheduled in ``nest``, and its producers may be.

        ``axes`` are the axes of the stage along which the data axes of the nest's head move, by
        default all of them.
        """
        place = Placement(nest, dict(enumerate(self.op.axis if axes is None else axes)))
        return Scheduled(frozenset({self.tensor}), placements={self.tensor: place})

    def work(self, inlined: Collection[Tensor]) -> int:
        """Return the operations of the stage and of the stages ``inlined`` into it."""
        points = self.flow.points(self.op, frozenset(inlined))
        inlined_ops = (a.tensor.op for a in points if a.tensor in inlined)
        each = of_point(self.op) + sum(of_point(x) for x in inlined_ops if isinstance(x, ComputeOp))
        return self.evaluations * each

    def little_padding(self, length: int, size: int) -> bool:
        """Return whether padding ``length`` points to whole pieces of ``size`` is little work."""
        padding = -(-length // size) * size / length - 1
        return self.problem.worth_measuring(self.work(self.flow.decided.inlined) * padding)

    @property
    def math_calls(self) -> int:
        """The number of math function calls in the body."""
        return sum(isinstance(node, Call) for node in postorder(self.op.roots))


def is_long(axis: Axis) -> bool:
    """Return whether the extent of an axis is not known to be 1."""
    return not isinstance(axis.extent, int) or axis.extent != 1
