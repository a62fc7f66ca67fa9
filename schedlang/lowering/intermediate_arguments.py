"""Checks of intermediate arguments: each must be computed whole, and each element once."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from schedlang.compute.bounds import check_reads
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.errors import BoundsError, VerifyError, explain, subscript
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.ir.accesses import stores
from schedlang.ir.cover import check_finalised
from schedlang.ir.nodes import Block, Buffer, If
from schedlang.state.placement import Placement, Problem
from schedlang.state.state import At, Inline, Stage, State


def scan_rows(state: State, placement: Placement, given: Container[Tensor]) -> Iterator[Problem]:
    """Yield a problem for each argument that a scan computes without storage of its own.

    These are the init and update of a scan, and inlined stages between its states and updates.
    """
    for stage in _given_stages(state, given):
        asked = f"{stage.name} among the arguments"
        for scan in state.stages.values():
            if not isinstance(scan.op, ScanOp):
                continue
            if any(t in (*scan.op.init, *scan.op.update) for t in stage.outputs):
                why = (
                    f"{stage.name} is part of scan {scan.name}, and its rows are stored in "
                    f"{scan.name}"
                )
                hint = f"Leave it out of the arguments and read the rows from {scan.name}."
                yield Problem(explain(asked, why, hint), stage.name)
        if stage.name not in placement.steps:
            yield from _rows_left_out(stage, asked)
        if stage.name in placement.steps and isinstance(stage.attach, Inline):
            why = (
                f"{stage.name} is inlined into a scan, which computes it row by row without "
                "storing it"
            )
            hint = (
                "Leave it out of the arguments, or leave out "
                f"{subscript(stage.name)}.compute_inline()."
            )
            yield Problem(explain(asked, why, hint), stage.name)


def _rows_left_out(stage: Stage, asked: str) -> Iterator[Problem]:
    """Yield a problem if a stage is only right in the rows that a scan reads."""
    declared = stage.outputs[0].op
    try:
        if isinstance(declared, ComputeOp):
            check_reads(declared, late=True)
    except BoundsError as error:
        hint = "Leave it out of the arguments: the rows that the scan reads are in bounds."
        yield Problem(explain(asked, str(error).splitlines()[0], hint), stage.name)


def not_whole(
    state: State, placement: Placement, buffers: Mapping[Tensor, Buffer], body: Block
) -> Iterator[Problem]:
    """Yield a problem for each argument that is not computed whole, or not proven to be, once."""
    for stage in _given_stages(state, buffers):
        loop = placement.attach[stage.name]
        if not isinstance(loop, At):
            yield from _elements_left_out(stage)
            continue
        asked = f"compute_at({loop.stage}, {loop.axis.name}) on stage {stage.name}"
        if stage.attach is not loop:
            asked = f"{stage.name} among the arguments, computed in the loop of scan {loop.stage}"
        arguments_here = [t for t in stage.outputs if t in buffers]
        others = [t.name for t in stage.outputs if t not in buffers]
        if others:
            why = (
                f"the argument {arguments_here[0].name} must be computed whole, but {others[0]}, "
                "which "
                "is computed with it, only where that loop reads it"
            )
            hint = f"Leave {stage.name} at root, or give both or neither as arguments."
            yield Problem(explain(asked, why, hint), stage.name)
            continue
        problem = _written_once(buffers[arguments_here[0]], body)
        if problem is not None:
            why = (
                f"{stage.name} is an argument, so each of its elements must be computed exactly "
                f"once, and {problem}"
            )
            hint = (
                f"Leave {stage.name} out of the arguments, or compute it at root and let the loop "
                f"read a copy:\nT = s.cache_read({stage.name}, 'local', [...]), "
                f"{subscript(stage.name)}.compute_root(), s[T].compute_at(...)"
            )
            yield Problem(explain(asked, why, hint), stage.name)


def _given_stages(state: State, given: Container[Tensor]) -> list[Stage]:
    """Return the stages that have an argument but no output of the schedule among their outputs."""
    return [
        s
        for s in state.stages.values()
        if any(t in given for t in s.outputs) and not state.is_output(s)
    ]


def _elements_left_out(stage: Stage) -> Iterator[Problem]:
    """Yield a problem if a store predicate leaves elements out, which only readers do not need."""
    if stage.predicate is None or any(
        isinstance(n, Axis) and n.kind == "thread" for n in postorder([stage.predicate])
    ):
        return
    why = (
        f"its store predicate {stage.predicate} leaves out elements that the other stages do not "
        "need, and the caller would read them"
    )
    hint = f"Leave {stage.name} out of the arguments, or schedule it without the predicate."
    yield Problem(explain(f"{stage.name} among the arguments", why, hint), stage.name)


def _written_once(buffer: Buffer, body: Block) -> str | None:
    """Return how ``body`` fails to write each element of ``buffer`` once, or ``None``."""
    # a store predicate leaves elements out on purpose, but does not excuse a second write
    sites = [
        replace(s, around=tuple(g for g in s.around if not (isinstance(g, If) and g.predicate)))
        for s in stores(body)
        if buffer in s.stmt.buffers
    ]
    try:
        proven = check_finalised(buffer, sites)
    except VerifyError as error:
        return f"at that loop this does not hold ({error})"
    return None if proven else "at that loop this is not proven"
