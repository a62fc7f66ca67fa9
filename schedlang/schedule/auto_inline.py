"""Stages that are inlined all at once, by functions with te's names."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ScheduleError
from schedlang.schedule.schedule import Schedule
from schedlang.signatures import public
from schedlang.state.state import Root

ELSEWHERE = -1


@public
def AutoInlineInjective(sch: Schedule) -> None:
    """Inline each stage without a reduction that is not an output and has no steps yet.

    A stage that cannot be inlined keeps its loops.
    """
    _inline(sch, lambda op: True)


@public
def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline as :func:`AutoInlineInjective` those stages that read at their own axes alone."""
    _inline(sch, _reads_at_own_axes)


@public
def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline as :func:`AutoInlineInjective` those stages that read at some of their own axes."""
    _inline(sch, _reads_at_some_axes)


def _reads_at_own_axes(op: ComputeOp) -> bool:
    return all(_places(op, read) == [*range(len(op.axis))] for read in reads(op.roots))


def _reads_at_some_axes(op: ComputeOp) -> bool:
    return all(ELSEWHERE not in _places(op, read) for read in reads(op.roots))


def _places(op: ComputeOp, read: Read) -> list[int]:
    """Return which axis of ``op`` each index is; other indices are ``ELSEWHERE``."""
    # not by ==, which makes an expression of two indices
    number = {id(axis): k for k, axis in enumerate(op.axis)}
    return [number.get(id(index), ELSEWHERE) for index in read.indices]


def _inline(sch: Schedule, fits: Callable[[ComputeOp], bool]) -> None:
    for name in [*sch.state.stages]:
        stage = sch.state.stages[name]
        op = stage.op
        if not isinstance(op, ComputeOp) or op.reducer is not None or op.destination is not None:
            continue
        touched = stage.relations or stage.kinds or not isinstance(stage.attach, Root)
        if not touched and not sch.state.is_output(stage) and fits(op):
            try:
                sch[name].compute_inline()
            except ScheduleError:
                # such as a stage that a function of the user reads as an array
                continue


__all__ = ["AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective"]
