"""The data of loop construction: the whole schedule, a place in it, the loops of one stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.ir.findings import Findings
from schedlang.ir.nodes import Alloc
from schedlang.lowering.allocation import allocate
from schedlang.lowering.drafts import Draft
from schedlang.lowering.region import Pending
from schedlang.lowering.sliding_windows import Slide
from schedlang.lowering.trampoline import Task
from schedlang.state.placement import Placement, Problem
from schedlang.state.plan import Dim, Peel, Plan, Threads, make_plan
from schedlang.state.state import At, Stage, State


@dataclass(frozen=True, eq=False)
class Job:
    """The data that every pass over one schedule shares.

    ``alias`` maps the parts of a scan to its output. ``given`` are the arguments, whose storage
    exists outside the nest. ``prefetched`` are the tensors that some loop prefetches.
    ``unclipped`` are the tensors that are read past their ends, so that their boxes are not
    clipped; ``clipped`` are those whose boxes had to be clipped all the same. ``folds`` allows to
    keep only the rows in use of a sliding window. ``findings`` are about all schedules of the
    computation.
    """

    state: State
    placement: Placement
    given: frozenset[Tensor]
    alias: Mapping[Tensor, Tensor]
    names: Mapping[str, str] = field(default_factory=dict)
    prefetched: frozenset[Tensor] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    unclipped: set[Tensor] = field(default_factory=set)
    clipped: set[Tensor] = field(default_factory=set)
    folds: bool = True
    findings: Findings = field(default_factory=Findings)

    def needs_box(self, tensor: Tensor) -> bool:
        """Return whether the region read of ``tensor`` determines the region computed."""
        name = self.state.defined.get(tensor)
        if name is None or tensor in self.alias:
            return False
        return tensor not in self.given or isinstance(self.placement.attach[name], At)

    def storage(self, stage: Stage, dims: Sequence[Dim], scope: str) -> list[Alloc]:
        """Return the allocations for ``dims`` of ``stage``; arguments need none."""
        allocations = allocate(stage, dims, scope, self.names.get(stage.name, stage.name))
        return [a for a in allocations if a.buffer.tensor not in self.given]

    def storage_at_root(self, stage: Stage, dims: Sequence[Dim], scope: str) -> list[Alloc]:
        """Return the allocations of a stage at root, which schedules with equal ones share."""
        if stage.is_scan or stage.layout or stage.align:
            return self.storage(stage, dims, scope)
        title = self.names.get(stage.name, stage.name)
        copies = (stage.double_buffer, stage.pipeline)
        key = ("storage", stage.outputs, tuple(dims), scope, title, copies)
        return self.findings.once((*key, self.given), lambda: self.storage(stage, dims, scope))


@dataclass(frozen=True)
class Loop:
    """A loop in scope around a stage."""

    var: Axis
    extent: Lin
    tag: str


@dataclass(frozen=True)
class Scope:
    """The ranges, loops and threads in scope where a stage is placed.

    ``at_root`` says that no other stage is around: loops of one iteration are not in scope.
    ``times`` has the row that the step of each scan around computes.
    """

    ranges: Ranges
    loops: tuple[Loop, ...] = ()
    threads: Threads = Threads()
    at_root: bool = False
    times: Mapping[str, Lin] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Nesting:
    """A stage whose loops are under construction: its box, its plan, its leaf axes.

    ``init`` builds the initialization of a reduction, ``updating`` the loops that follow it.
    ``innermost`` builds what is inside of all loops, by default one point of the stage.
    """

    job: Job
    stage: Stage
    dims: tuple[Dim, ...]
    scope: Scope
    peel: Peel
    plan: Plan
    leaf: tuple[Axis, ...]
    slides: tuple[Slide, ...] = ()
    init: bool = False
    updating: bool = False
    innermost: Callable[[Nesting, Scope], Task] | None = None

    @property
    def hidden(self) -> set[Axis | None]:
        """The loop variables out of scope: of reductions at first, then of scattered axes.

        In a scan, these are the variables of the loops further inside.
        """
        if self.stage.is_scan:
            return {self.plan.variables.get(a) for a in self.stage.leaf[len(self.leaf) :]} - {None}
        away = self.stage.reduce_leaves if self.init else self.stage.scattered_leaves
        return {self.plan.variables.get(a) for a in away if self.init or self.updating} - {None}

    def with_plan(self, peel: Peel) -> Nesting:
        plan = make_plan(self.stage, self.dims, self.scope.ranges, peel, self.scope.threads)
        return replace(self, peel=peel, plan=plan)


Made = tuple[list[Draft], Pending]
