"""Loads and conditions that the copies of an unrolled loop share.

A register tile is fast because its copies use one load of an element several times. LLVM finds such
loads only if it can prove that no store between them writes the element.
"""

from __future__ import annotations

from collections.abc import Container

from schedlang.expr.nodes import Axis, Expr, Select
from schedlang.expr.visit import postorder
from schedlang.ir.accesses import loads
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Copies,
    Copy,
    Load,
    Stmt,
    block_of,
    buffers_of,
    expressions,
    held_statements,
    with_fields,
    with_held,
)
from schedlang.ir.rewrite import distinct
from schedlang.machine.loops.job import LoopJob

# operations and operands of a condition that copies share
MOST_PARTS = 64


def share_loads(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with the expressions listed that copies share, where they may share loads.

    These are the loads that do not depend on all of the unrolled axes, and the conditions of
    choices; of both, those that read no buffer which the copies write.
    """
    if not job.may_have("unroll"):
        return body
    return block_of(_shared(body))


def _shared(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Copies) or not stmt.share:
        return with_held(stmt, _shared)
    stored = {b for s in distinct(stmt) for b in buffers_of(s)}
    shared: set[Expr] = set()
    _find(stmt, (), stored, shared, set())
    return with_fields(stmt, shared=frozenset(shared))


def _find(
    stmt: Stmt,
    axes: tuple[Axis, ...],
    written: Container[Buffer],
    shared: set[Expr],
    seen: set[int],
) -> None:
    """Add the expressions of ``stmt`` that the copies of ``axes`` share to ``shared``.

    ``seen`` are statements whose expressions were added, by ``id``: copies hold one body.
    """
    if isinstance(stmt, Copies) and stmt.share:
        axes = (*axes, stmt.copies[0].axis)
    if isinstance(stmt, Copy):
        if id(stmt.body) in seen:
            return
        seen.add(id(stmt.body))
    for node in postorder(expressions(stmt)):
        if isinstance(node, Load) and _repeats(node, axes) and not _reads(node, written):
            shared.add(node)
        elif isinstance(node, Select) and _is_small(node.cond) and not _reads(node.cond, written):
            shared.add(node.cond)
    for inner in held_statements(stmt):
        _find(inner, axes, written, shared, seen)


def _repeats(load: Load, axes: tuple[Axis, ...]) -> bool:
    """Return whether several copies of ``axes`` read the element of ``load``."""
    own = set(postorder(load.indices))
    return not all(axis in own for axis in axes)


def _is_small(cond: Expr) -> bool:
    """Return whether copies compare the condition with others: that takes time for a large one."""
    return len(postorder([cond])) <= MOST_PARTS


def _reads(node: Expr, buffers: Container[Buffer]) -> bool:
    """Return whether ``node`` reads one of ``buffers``, in an index or elsewhere."""
    return any(load.buffer in buffers for load in loads([node]))
