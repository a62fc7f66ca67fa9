"""The values of knobs, with the steps that they stand for: splits, orders, annotations, options.

A value is plain data in the tuning log, such as the sizes of a split; its class applies it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from schedlang.errors import TuningError, explain
from schedlang.schedule.schedule import Schedule

THREADS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "vthread",
)  # fmt: skip
ANNOTATIONS = ("none", "unroll", "vec", "fuse", *THREADS)


@dataclass
class SplitEntity:
    """The sizes of an axis after a split, the outermost first; -1 stands for what is left.

    >>> import schedlang as sl
    >>> C = sl.compute((64,), lambda i: i * 2, name="C")
    >>> s = sl.schedule(C)
    >>> SplitEntity([-1, 4, 8]).apply(s, C, C.op.axis[0])
    [i.outer, i.inner.outer, i.inner.inner]
    """

    size: list[int]

    @property
    def plain(self) -> list[int]:
        return self.size

    def apply(self, sch: Schedule, op: Any, axis: Any) -> list[Any]:
        """Split ``axis`` of the stage ``op`` into these sizes, and return the axes.

        Raise :class:`~schedlang.errors.ScheduleError` where a split is illegal.
        """
        axes = []
        for position in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, factor=math.prod(self.size[position:]))
            axes.append(outer)
        return [*axes, axis]

    def __repr__(self) -> str:
        return str(self.size)


@dataclass
class ReorderEntity:
    """An order of axes, as positions: the outermost first."""

    perm: list[int]

    @property
    def plain(self) -> list[int]:
        return self.perm

    def apply(self, sch: Schedule, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder ``axes`` of the stage ``op``, and return them in their new order.

        Where there are fewer axes than positions, positions beyond them are left out.
        """
        ordered = [axes[position] for position in self.perm if position < len(axes)]
        sch[op].reorder(*ordered)
        return ordered

    def __repr__(self) -> str:
        return str(self.perm)


@dataclass
class AnnotateEntity:
    """An annotation of each axis, or, of a cache, the positions of the axes to attach it at."""

    anns: list[Any]

    @property
    def plain(self) -> list[Any]:
        return self.anns

    def apply(
        self, sch: Schedule, op: Any, axes: Sequence[Any], axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None, vec_size: Sequence[int] | None = None, cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Annotate ``axes`` of the stage ``op``, and return them, fused ones as one.

        With ``source``, a list of caches for each position, the caches are attached instead. An
        axis of ``axis_lens`` iterations that is longer than ``max_unroll``, or has none of the
        ``vec_size``, makes the configuration ``cfg`` invalid. Raise
        :class:`~schedlang.errors.ScheduleError` where an annotation is illegal.
        """
        known = list(axes)
        if source is not None:
            for caches, position in zip(source, self.anns):
                for cache in caches:
                    sch[cache].compute_at(sch[op], known[position])
            return known
        for position, annotation in enumerate(self.anns):
            extent = None if axis_lens is None else axis_lens[position]
            if annotation == "unroll":
                if max_unroll and (extent or 0) > max_unroll:
                    cfg.raise_error("an axis is longer than max_unroll")
                sch[op].unroll(known[position])
            elif annotation == "vec":
                if vec_size and extent not in vec_size:
                    cfg.raise_error("a vectorized axis has none of the lengths vec_size")
                sch[op].vectorize(known[position])
            elif annotation == "fuse":
                known[position + 1] = sch[op].fuse(known[position], known[position + 1])
            elif annotation in THREADS:
                sch[op].bind(known[position], annotation)
        return known

    def __repr__(self) -> str:
        return str(self.anns)


@dataclass
class OtherOptionEntity:
    """One of the options of ``define_knob``."""

    val: Any

    @property
    def plain(self) -> Any:
        return self.val

    def __repr__(self) -> str:
        return str(self.val)


Entity = Union[SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity]


def checked_entity(entity: Any) -> Entity:
    """Return ``entity``; raise :class:`~schedlang.errors.TuningError` unless a knob may have it."""
    kinds = (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
    if not isinstance(entity, kinds):
        raise TuningError(
            explain(
                f"cfg[...] = {entity!r}",
                "this is not the value of a knob",
                "Give a SplitEntity, a ReorderEntity, an AnnotateEntity or an OtherOptionEntity.",
            )
        )
    return entity


__all__ = ["AnnotateEntity", "OtherOptionEntity", "ReorderEntity", "SplitEntity"]
