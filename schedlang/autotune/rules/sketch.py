"""The object that the rules work on: a schedule, its knobs, and what is known of it so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from schedlang.autotune.allowance import most_work
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.access import Access, accesses, points_read
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.compute.work import flops, of_point
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Call, Var
from schedlang.expr.visit import postorder
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


@dataclass(frozen=True)
class Level:
    """A loop of a nest at which other stages may be computed, and the root axes it goes along.

    ``pieces``: how many iterations go along each of these, where they are several.
    """

    loop: Axis
    along: tuple[int, ...]
    extent: int
    pieces: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # along one axis there are as many as iterations
        known = len(self.pieces) == len(self.along) if self.pieces else len(self.along) <= 1
        assert known, "pieces of each axis"


@dataclass(frozen=True)
class OuterLoops:
    """The outer loops of ``head``, outermost first; on a GPU the threads of its blocks."""

    head: Tensor
    levels: tuple[Level, ...]
    threads: int = 0

    def iterations(self, innermost: Level) -> dict[int, int]:
        """Return how many iterations go along each root axis, in the levels down to one of them."""
        found: dict[int, int] = {}
        for level in self.levels:
            for along, count in zip(level.along, level.pieces or (level.extent,)):
                found[along] = found.get(along, 1) * count
            if level is innermost:
                break
        return found


@dataclass(frozen=True)
class Home:
    """The nest that a stage stands in, inside of how many of its levels (all, without a number),
    and which of its axes each data axis of the head is.
    """

    nest: OuterLoops
    along: Mapping[int, Axis]
    depth: int | None = None


@dataclass(frozen=True)
class Spot:
    """A loop of a nest."""

    nest: OuterLoops
    level: Level


@dataclass
class Sketch:
    """A schedule in the making. ``inlined`` stages have no loops, those of ``done`` have theirs;
    ``home`` says in which nest a stage stands whose producers may stand there too; ``timed`` are
    those whose first axis is a scan's time; ``again``: operations that are done again so far.
    """

    s: Schedule
    knobs: Knobs
    target: Target
    threads: int
    sizes: Mapping[Var, int] = field(default_factory=dict)
    inlined: set[Tensor] = field(default_factory=set)
    home: dict[Tensor, Home] = field(default_factory=dict)
    done: set[Tensor] = field(default_factory=set)
    timed: set[Tensor] = field(default_factory=set)
    again: float = 0

    def name(self, tensor: Tensor) -> str:
        return self.s[tensor].name

    def axis_name(self, tensor: Tensor, at: int) -> str:
        """Return what a knob calls a data axis: its name, or its position where axes have one name,
        or a stage is called like it.
        """
        names = [axis.name for axis in self.op(tensor).axis]
        stage = f"{self.name(tensor)}.{names[at]}"
        own = names.count(names[at]) == 1 and all(view.name != stage for view in self.s.stages)
        return names[at] if own else str(at)

    def op(self, tensor: Tensor) -> ComputeOp:
        """Return the operation of a stage as caches have left it."""
        op = self.s[tensor].op
        assert isinstance(op, ComputeOp)
        return op

    def stages(self) -> list[Tensor]:
        """Return the first output of each stage, producers before consumers; scans are left out."""
        return [v.outputs[0] for v in self.s.stages if isinstance(v.op, ComputeOp)]

    def extents(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return how long axes are, at least 1; symbolic ones at the sizes that are tuned for."""
        return tuple(
            max(1, a.extent if isinstance(a.extent, int) else int(evaluate(a.extent, self.sizes)))
            for a in axes
        )

    def last(self, tensor: Tensor) -> int:
        """Return the data axis, by position, whose neighbours stand side by side: the last long
        one."""
        axes = self.op(tensor).axis
        moving = range(self.held(tensor), len(axes))
        return next((at for at in reversed(moving) if self.long(axes[at])), len(axes) - 1)

    def bytes(self, tensor: Tensor) -> int:
        """Return the size of a tensor."""
        shape = (n if isinstance(n, int) else int(evaluate(n, self.sizes)) for n in tensor.shape)
        return math.prod(shape) * itemsize(tensor.dtype)

    def width(self, tensor: Tensor) -> int:
        """Return how many elements a vector holds; of several outputs the widest ones."""
        return min(self.target.vector_width(t.dtype) for t in self.s[tensor].outputs)

    def long(self, axis: Axis) -> bool:
        """Return whether an axis has more than one step, or may have."""
        return not isinstance(axis.extent, int) or axis.extent != 1

    def reads(self, tensor: Tensor) -> list[Access]:
        """Return what the computation of ``tensor`` reads, through what is inlined."""
        return accesses(self.op(tensor), self.inlined)

    def consumers(self, tensor: Tensor) -> list[Tensor]:
        """Return the stages that read an output of the stage of ``tensor``, through what is
        inlined."""
        found: dict[Tensor, None] = {tensor: None}
        for made in (waiting := [tensor]):
            outputs = self.s[made].outputs
            for view in self.s.stages:
                reader = view.outputs[0]
                if reader in found or not any(t in outputs for t in view.op.input_tensors):
                    continue
                found[reader] = None
                if reader in self.inlined:
                    waiting.append(reader)
        return [t for t in found if t is not tensor and t not in self.inlined]

    def attach(self, tensor: Tensor, spot: Spot | None) -> None:
        """Compute a stage in a loop, if one is given."""
        if spot is not None:
            self.s[tensor].compute_at(self.s[spot.nest.head], spot.level.loop)

    def leads(self, tensor: Tensor, levels: Sequence[Level], threads: int = 0) -> OuterLoops:
        """Return ``tensor`` heads a nest of these loops."""
        nest = OuterLoops(tensor, tuple(levels), threads)
        self.home[tensor] = Home(nest, dict(enumerate(self.op(tensor).axis)))
        return nest

    def steps_of_scan(self, tensor: Tensor) -> bool:
        """Return whether a stage is the start or a step of a scan, whose time is its first axis."""
        return any(isinstance(self.s[r].op, ScanOp) for r in self.consumers(tensor))

    def held(self, tensor: Tensor) -> int:
        """Return how many outer axes stay as they are: the time of what a scan computes each
        moment."""
        return int(tensor in self.timed)

    def sizes_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Return how many points there are along each data axis, at one moment of a scan."""
        axes, held = self.op(tensor).axis, self.held(tensor)
        return (*(1 for _ in axes[:held]), *self.extents(axes[held:]))

    def evaluations(self, tensor: Tensor) -> int:
        """Return how many times the body of a stage is evaluated."""
        op = self.op(tensor)
        return math.prod(self.extents((*op.axis, *op.reduce_axis)))

    @cached_property
    def least(self) -> int:
        """The operations of all outputs, each stage computed once."""
        return flops(self.s.outputs, self.sizes)

    def affords(self, more: float) -> bool:
        """Return whether so many operations more than the least leave it worth a measurement."""
        return self.least + more <= most_work(self.least)

    def work(self, tensor: Tensor, inlined: Collection[Tensor]) -> int:
        """Return the operations of a stage, with those of what is ``inlined`` into it."""
        op = self.op(tensor)
        made = (a.tensor.op for a in points_read(op, inlined) if a.tensor in inlined)
        each = of_point(op) + sum(of_point(x) for x in made if isinstance(x, ComputeOp))
        return self.evaluations(tensor) * each

    def fills(self, tensor: Tensor, length: int, size: int) -> bool:
        """Return whether pieces of ``size`` along ``length`` points are little more work than
        these."""
        padding = -(-length // size) * size / length - 1
        return self.affords(self.work(tensor, self.inlined) * padding)

    def calls(self, tensor: Tensor) -> int:
        """Return how many math functions stand in the body of a stage."""
        return sum(isinstance(n, Call) for n in postorder(self.op(tensor).roots))
