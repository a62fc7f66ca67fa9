"""Records of what is decided about stages: each tactic returns one, and the driver joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis


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
        counts: dict[int, int] = {}
        for level in self.levels:
            for along, count in zip(level.along, level.pieces or (level.extent,)):
                counts[along] = counts.get(along, 1) * count
            if level is innermost:
                break
        return counts


@dataclass(frozen=True)
class Placement:
    """The place of a stage in a nest.

    ``along`` maps each data axis of the nest's head to the corresponding axis of the stage.
    ``depth`` is how many levels are around the stage; all of them if ``None``.
    """

    nest: OuterLoops
    along: Mapping[int, Axis]
    depth: int | None = None


@dataclass(frozen=True)
class AttachPoint:
    """A loop of a nest, at which a stage is computed."""

    nest: OuterLoops
    level: Level


@dataclass(frozen=True)
class Scheduled:
    """The decisions about some stages.

    * ``stages``: the stages that are scheduled.
    * ``inlined``: the stages that are computed inline.
    * ``attached``: the loops at which stages are computed; a stage without one is at root.
    * ``placements``: the places of scheduled stages; their producers may be computed there too.
    * ``recomputed``: the operations that are repeated.

    >>> from schedlang import placeholder
    >>> A, B = placeholder((8,), name="A"), placeholder((8,), name="B")
    >>> both = Scheduled(frozenset({A}), recomputed=2).join(Scheduled(inlined=frozenset({B})))
    >>> both.stages == {A}, both.inlined == {B}, both.recomputed
    (True, True, 2)
    """

    stages: frozenset[Tensor] = frozenset()
    inlined: frozenset[Tensor] = frozenset()
    attached: Mapping[Tensor, AttachPoint] = field(default_factory=dict)
    placements: Mapping[Tensor, Placement] = field(default_factory=dict)
    recomputed: float = 0

    def join(self, *others: Scheduled) -> Scheduled:
        """Return a record of all decisions; if two of them place a stage, the last one counts."""
        joined = self
        for other in others:
            joined = Scheduled(
                joined.stages | other.stages,
                joined.inlined | other.inlined,
                {**joined.attached, **other.attached},
                {**joined.placements, **other.placements},
                joined.recomputed + other.recomputed,
            )
        return joined
