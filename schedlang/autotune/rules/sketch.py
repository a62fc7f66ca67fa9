"""The sketch that the rules work on: a schedule, its knobs, and facts about its stages."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.access import Access, accesses, points_read
from schedlang.autotune.work_bound import most_work
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
    """A loop of a nest at which other stages may be computed.

    ``along`` are the data axes, by position, that the loop iterates over. ``pieces`` are its
    iterations along each of them, if there are several.
    """

    loop: Axis
    along: tuple[int, ...]
    extent: int
    pieces: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # a loop along one axis has all of its iterations there
        known = len(self.pieces) == len(self.along) if self.pieces else len(self.along) <= 1
        assert known, "pieces of each axis"


@dataclass(frozen=True)
class OuterLoops:
    """The outer loops of ``head``, outermost first; on a GPU with the threads of a block."""

    head: Tensor
    levels: tuple[Level, ...]
    threads: int = 0

    def iterations(self, innermost: Level) -> dict[int, int]:
        """Return the iterations along each data axis of ``head`` in the levels to ``innermost``."""
        found: dict[int, int] = {}
        for level in self.levels:
            for along, count in zip(level.along, level.pieces or (level.extent,)):
                found[along] = found.get(along, 1) * count
            if level is innermost:
                break
        return found


@dataclass(frozen=True)
class Home:
    """The place of a stage in a nest.

    ``along`` maps each data axis of the nest's head to the corresponding axis of the stage.
    ``depth`` is how many levels are around the stage; all of them if ``None``.
    """

    nest: OuterLoops
    along: Mapping[int, Axis]
    depth: int | None = None


@dataclass(frozen=True)
class Spot:
    """A loop of a nest, at which a stage is computed."""

    nest: OuterLoops
    level: Level


@dataclass
class Sketch:
    """A partial schedule, with the facts that the rules need.

    * ``inlined``: the stages that are computed inline.
    * ``done``: the stages that are scheduled.
    * ``home``: the place of each scheduled stage; its producers may be computed there too.
    * ``scan_stages``: the stages whose first axis is the time axis of a scan.
    * ``recomputed``: the operations that are repeated so far.
    """

    s: Schedule
    knobs: Knobs
    target: Target
    threads: int
    sizes: Mapping[Var, int] = field(default_factory=dict)
    inlined: set[Tensor] = field(default_factory=set)
    home: dict[Tensor, Home] = field(default_factory=dict)
    done: set[Tensor] = field(default_factory=set)
    scan_stages: set[Tensor] = field(default_factory=set)
    recomputed: float = 0

    def name(self, tensor: Tensor) -> str:
        return self.s[tensor].name

    def axis_name(self, tensor: Tensor, at: int) -> str:
        """Return the name of a data axis in knobs: its own, or its position if ambiguous."""
        names = [axis.name for axis in self.op(tensor).axis]
        stage = f"{self.name(tensor)}.{names[at]}"
        own = names.count(names[at]) == 1 and all(view.name != stage for view in self.s.stages)
        return names[at] if own else str(at)

    def op(self, tensor: Tensor) -> ComputeOp:
        """Return the current operation of a stage, which cache_write may have changed."""
        op = self.s[tensor].op
        assert isinstance(op, ComputeOp)
        return op

    def stages(self) -> list[Tensor]:
        """Return the first output of each stage but scans, producers before consumers."""
        return [v.outputs[0] for v in self.s.stages if isinstance(v.op, ComputeOp)]

    def extents(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return the extents of axes, at least 1; symbolic ones at the sizes to tune for."""
        return tuple(
            max(1, a.extent if isinstance(a.extent, int) else int(evaluate(a.extent, self.sizes)))
            for a in axes
        )

    def last(self, tensor: Tensor) -> int:
        """Return the position of the contiguous data axis: the last one longer than 1."""
        axes = self.op(tensor).axis
        own = range(self.time_axes(tensor), len(axes))
        return next((at for at in reversed(own) if self.long(axes[at])), len(axes) - 1)

    def bytes(self, tensor: Tensor) -> int:
        """Return the size of a tensor in bytes."""
        shape = (n if isinstance(n, int) else int(evaluate(n, self.sizes)) for n in tensor.shape)
        return math.prod(shape) * itemsize(tensor.dtype)

    def width(self, tensor: Tensor) -> int:
        """Return how many elements of every output a vector holds."""
        return min(self.target.vector_width(t.dtype) for t in self.s[tensor].outputs)

    def long(self, axis: Axis) -> bool:
        """Return whether the extent of an axis is not known to be 1."""
        return not isinstance(axis.extent, int) or axis.extent != 1

    def reads(self, tensor: Tensor) -> list[Access]:
        """Return the reads of ``tensor``, including those of stages inlined into it."""
        return accesses(self.op(tensor), self.inlined)

    def consumers(self, tensor: Tensor) -> list[Tensor]:
        """Return the stages that read the stage of ``tensor``, directly or through inlined ones."""
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
        """Compute a stage at a loop, if one is given."""
        if spot is not None:
            self.s[tensor].compute_at(self.s[spot.nest.head], spot.level.loop)

    def set_nest(self, tensor: Tensor, levels: Sequence[Level], threads: int = 0) -> OuterLoops:
        """Record and return the nest of these loops, with ``tensor`` as its head."""
        nest = OuterLoops(tensor, tuple(levels), threads)
        self.home[tensor] = Home(nest, dict(enumerate(self.op(tensor).axis)))
        return nest

    def is_scan_step(self, tensor: Tensor) -> bool:
        """Return whether a stage is the start or the update of a scan."""
        return any(isinstance(self.s[r].op, ScanOp) for r in self.consumers(tensor))

    def time_axes(self, tensor: Tensor) -> int:
        """Return the number of leading time axes: 1 for a stage of a scan, otherwise 0."""
        return int(tensor in self.scan_stages)

    def sizes_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the points along each data axis, in one time step of a scan."""
        axes, times = self.op(tensor).axis, self.time_axes(tensor)
        return (*(1 for _ in axes[:times]), *self.extents(axes[times:]))

    def evaluations(self, tensor: Tensor) -> int:
        """Return how many times the body of a stage is evaluated."""
        op = self.op(tensor)
        return math.prod(self.extents((*op.axis, *op.reduce_axis)))

    @cached_property
    def least(self) -> int:
        """The operations of all outputs, each stage computed once."""
        return flops(self.s.outputs, self.sizes)

    def worth_measuring(self, more: float) -> bool:
        """Return whether a candidate with ``more`` operations than the least is worth measuring."""
        return self.least + more <= most_work(self.least)

    def work(self, tensor: Tensor, inlined: Collection[Tensor]) -> int:
        """Return the operations of a stage, including those of stages ``inlined`` into it."""
        op = self.op(tensor)
        made = (a.tensor.op for a in points_read(op, inlined) if a.tensor in inlined)
        each = of_point(op) + sum(of_point(x) for x in made if isinstance(x, ComputeOp))
        return self.evaluations(tensor) * each

    def little_padding(self, tensor: Tensor, length: int, size: int) -> bool:
        """Return whether padding ``length`` points to whole pieces of ``size`` is little work."""
        padding = -(-length // size) * size / length - 1
        return self.worth_measuring(self.work(tensor, self.inlined) * padding)

    def math_calls(self, tensor: Tensor) -> int:
        """Return the number of math function calls in the body of a stage."""
        return sum(isinstance(n, Call) for n in postorder(self.op(tensor).roots))
