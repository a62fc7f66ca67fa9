"""The places at which a stage can be computed and stored, as steps to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.hints.steps import Steps
from schedlang.schedule.schedule import Schedule
from schedlang.state.placement import effective_readers, legal_loops, place
from schedlang.state.state import At, Attach, Inline, Root, State


@dataclass(frozen=True)
class Place:
    """The place of a stage: a loop to compute it at, and a loop to store it at.

    A ``None`` for the storage means that the stage is stored where it is computed.
    """

    attach: Attach
    store: At | Root | None = None


def producers(s: Schedule) -> list[str]:
    """Return the stages that can be placed: all but outputs and parts of a scan."""
    state = s.state
    scans = [stage.op for stage in state.stages.values() if isinstance(stage.op, ScanOp)]
    parts = {state.defined.get(t) for op in scans for t in (*op.init, *op.update)}
    return [
        name for name, stage in state.stages.items()
        if isinstance(stage.op, ComputeOp) and not state.is_output(stage) and name not in parts
    ]  # fmt: skip


def loops_around(s: Schedule, name: str) -> list[tuple[str, At]]:
    """Return the loops that enclose all readers of a stage, outer to inner, with their names."""
    state = s.state
    stage = state.stages[name]
    attach = place(state.updated(stage.with_(attach=Root(), store=None))).attach
    legal = legal_loops(state, attach, effective_readers(state)[name], stage)
    return [(axis.name, At(reader, axis)) for reader, axis in legal]


def present(state: State, name: str) -> Place:
    """Return where a stage is now."""
    placement = place(state)
    attach, store = placement.attach[name], placement.store.get(name)
    return Place(attach, None if _same(attach, store) else store)


def places(s: Schedule, name: str) -> Iterator[Place]:
    """Yield the places to try for a stage: inline, root, each loop with each place of storage."""
    yield Place(Inline())
    yield Place(Root())
    loops = [loop for _, loop in loops_around(s, name)]
    for number, loop in enumerate(loops):
        yield Place(loop)
        yield from (Place(loop, outer) for outer in loops[:number])
        yield Place(loop, Root())


def put(name: str, where: Place) -> Steps:
    """Return the step that places a stage."""

    def take(s: Schedule) -> None:
        view, stage = s[name], s.state.stages[name]
        if isinstance(where.attach, Inline):
            view.compute_inline()
            return
        # storage of the old place may not fit the new one
        if isinstance(stage.attach, At) or isinstance(where.attach, Root):
            view.compute_root()
        if isinstance(where.attach, At):
            view.compute_at(s[where.attach.stage], where.attach.axis)
        if isinstance(where.store, Root):
            view.store_root()
        elif isinstance(where.store, At):
            view.store_at(s[where.store.stage], where.store.axis)

    return Steps("compute_inline" if isinstance(where.attach, Inline)
                 else "compute_root" if isinstance(where.attach, Root)
                 else "compute_at" if where.store is None else "store_at", name, take)  # fmt: skip


def same_place(one: Place, other: Place) -> bool:
    return _same(one.attach, other.attach) and _same(one.store, other.store)


def _same(one: Attach | None, other: Attach | None) -> bool:
    if isinstance(one, At) and isinstance(other, At):
        return one.stage == other.stage and one.axis is other.axis
    return type(one) is type(other)
