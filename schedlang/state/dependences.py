"""Dependences between stages, computed once for all states with the same operations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.index.intervals import Interval
from schedlang.state.persistent_map import PersistentMap

if TYPE_CHECKING:
    from schedlang.state.state import Stage, State


@dataclass(frozen=True, eq=False)
class Dependences:
    """The dependences between stages.

    ``place`` numbers the stages in order. ``behind`` holds for each stage a bit set of the stages
    it depends on, directly or indirectly. ``scans`` names the scans.
    """

    place: Mapping[str, int]
    behind: Mapping[str, int]
    scans: tuple[str, ...]

    @cached_property
    def rows(self) -> dict[ScanOp, Mapping[Tensor, Interval]]:
        """The rows of states that the stages of each scan read, as far as they are known."""
        return {}

    def depends(self, reader: str, stage: str) -> bool:
        """Return whether ``reader`` reads ``stage``, directly or through others."""
        return bool(self.behind[reader] >> self.place[stage] & 1)


def dependences_of(state: State) -> Dependences:
    """Return the dependences between the stages of ``state``."""
    place: dict[str, int] = {}
    behind: dict[str, int] = {}
    scans: list[str] = []
    for number, (name, stage) in enumerate(state.stages.items()):
        mask = 0
        for tensor in stage.op.input_tensors:
            producer = state.defined.get(tensor)
            if producer in place:
                mask |= behind[producer] | 1 << place[producer]
        place[name], behind[name] = number, mask
        if isinstance(stage.op, ScanOp):
            scans.append(name)
    return Dependences(place, behind, tuple(scans))


Attachments = PersistentMap[tuple[str, ...]]


def owners(stage: Stage) -> set[str]:
    """Return the stages at whose loops ``stage`` is computed or stored."""
    loops = (getattr(loop, "stage", None) for loop in (stage.attach, stage.store))
    return {name for name in loops if name is not None}


def attachments_of(stages: Collection[Stage]) -> Attachments:
    """Return a map from each stage to the names of stages computed or stored at its loops."""
    attached: dict[str, tuple[str, ...]] = {stage.name: () for stage in stages}
    for stage in stages:
        for owner in owners(stage):
            attached[owner] = (*attached[owner], stage.name)
    return PersistentMap(attached)


def update_attachments(attachments: Attachments, old: Stage, new: Stage) -> Attachments:
    """Return ``attachments`` with stage ``old`` replaced by ``new``."""
    before, after = owners(old), owners(new)
    if before == after:
        return attachments
    remaining = {o: tuple(n for n in attachments[o] if n != old.name) for o in before - after}
    joined = {o: (*attachments[o], new.name) for o in after - before}
    return attachments.replaced(remaining | joined)
