"""Sums that stay in registers while a reduction loop runs.

An update of memory in each iteration waits for the previous iteration's store. Where a reduction
loop updates the same elements in every iteration, these become registers, which are loaded before
the loop and stored after it. LLVM calls this scalar promotion; Exo, ``stage_mem(..., accum=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder, preorder
from schedlang.ir.accesses import loads, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Kept,
    Load,
    Stmt,
    Store,
    block_of,
    expressions,
    walk,
    with_fields,
    with_held,
)
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.functions import (
    DEEPEST_LOOPS,
    becomes_function,
    is_loop,
    loops_inside,
)
from schedlang.machine.loops.job import MOST_COPIES, LoopJob
from schedlang.machine.loops.strips import becomes_lanes, most_lanes
from schedlang.target import Target


def keep_sums(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with each reduction loop whose sums stay in registers in a :class:`Kept`."""
    return block_of(_kept(body, job, ())) if job.steps else body


@dataclass(frozen=True)
class _Place:
    """The ``loops`` of the function around a statement, and the ``copies`` made of it.

    ``lanes`` is the vectorized loop around, with the lanes of one vector.
    """

    loops: int = 0
    copies: int = 1
    lanes: For | None = None


def _kept(stmt: Stmt, job: LoopJob, around: tuple[For, ...]) -> Stmt:
    if not isinstance(stmt, For):
        return with_held(stmt, lambda inner: _kept(inner, job, around))
    if _may_keep(stmt):
        buffers = _buffers(stmt, job, _place(around, job))
        if buffers:
            return Kept(buffers, Block((stmt,)))
    inside = (*around, stmt)
    return with_held(stmt, lambda inner: _kept(inner, job, inside))


def _may_keep(loop: For) -> bool:
    """Return whether ``loop`` is of a kind that may keep sums."""
    return loop.axis.is_reduce and loop.kind in ("serial", "unroll")


def _place(around: Sequence[For], job: LoopJob) -> _Place:
    """Return the place of a statement inside of the loops ``around``."""
    place = _Place()
    for loop in around:
        place = _inside(loop, job, place)
    return place


def _inside(loop: For, job: LoopJob, place: _Place) -> _Place:
    """Return the place of the body of ``loop``."""
    lanes = place.lanes
    if becomes_lanes(loop, job.target):
        assert isinstance(loop.extent, int)
        most = most_lanes(loop, job.target)
        lanes = loop if loop.extent <= most else with_fields(loop, extent=most)
    if not is_loop(loop, job):
        written = loop.extent if loop.kind == "unroll" and isinstance(loop.extent, int) else 1
        return _Place(place.loops, place.copies * written, lanes)
    copies = 1 if becomes_function(loop) else place.copies
    return _Place(loops_inside(loop, place.loops), copies, lanes)


def _buffers(loop: For, job: LoopJob, place: _Place) -> frozenset[Buffer]:
    """Return the buffers whose sums stay in registers inside of ``loop``."""
    around = () if place.lanes is None else (place.lanes,)
    steps, target = job.steps.get(loop.stage, ()), job.target
    if not target.facts.vector_arithmetic:
        buffers = kept_by_thread(loop, target, steps, around)
    else:
        most = target.vector_registers
        buffers = kept_buffers(loop, target.vector_width, most, steps, around)
    if not buffers:
        return buffers
    inside = [(s, depth) for s, depth in walk(loop.body) if isinstance(s, For)]
    deepest = place.loops + max((depth for _, depth in inside), default=0) + 1
    copied = _too_many_copies([s for s, _ in inside], target, place.copies)
    return frozenset() if deepest >= DEEPEST_LOOPS or copied else buffers


def _too_many_copies(loops: Sequence[For], target: Target, copies: int) -> bool:
    """Return whether the vectors of ``loops`` in a reduction, written out, are too many copies."""
    strips = [
        vectors(f.extent, most_lanes(f, target))
        for f in loops
        if f.kind == "vectorize" and isinstance(f.extent, int)
    ]
    unrolled = [f.extent for f in loops if f.kind == "unroll" and isinstance(f.extent, int)]
    most = max(strips, default=1)
    return most > 1 and copies * prod(unrolled) * most > MOST_COPIES


def kept_buffers(
    loop: For,
    widest: Callable[[str], int],
    most: int,
    steps: Container[Axis],
    outside: tuple[For, ...] = (),
) -> frozenset[Buffer]:
    """Return the buffers that ``loop`` updates, if all their sums can stay in registers inside it.

    Return no buffer otherwise.

    ``widest`` gives the lanes of a vector of a dtype, ``most`` is the number of registers for sums,
    ``steps`` are the reduction axes of the loop's stage, and ``outside`` is a loop around it whose
    iterations are the lanes of a vector. A reduction's ``where``, and a test of reduction axes and
    unrolled axes alone, only skip iterations, so the sums may stay in registers. Any other test may
    keep an index in bounds, so the sums inside of it may not.
    """
    none: frozenset[Buffer] = frozenset()
    if not _may_keep(loop):
        return none
    inside = stores(loop.body)
    updates = [s.stmt for s in inside if s.stmt.reducer is not None]
    buffers = frozenset(b for s in updates for b in s.buffers)
    if not updates or any(s.atomic or (s.scatters and _may_meet(s)) for s in updates):
        return none
    # a test around computed indices may keep them in bounds, whatever it depends on
    computed = any(s.scatters for s in updates)
    if any(isinstance(s, Alloc) and s.buffer in buffers for s, _ in walk(loop.body)):
        return none
    registers = 0
    for site in inside:
        if not buffers & set(site.stmt.buffers):
            continue
        around = (*outside, loop, *site.loops)
        skips = (g.where or skips_iterations(g, steps, around) for g in site.guards)
        passes = not site.guards if computed else all(skips)
        vectors = vectors_of(site.stmt, around, widest) if passes else None
        if vectors is None:
            return none
        registers += vectors
    return none if registers > most or _used_otherwise(loop.body, buffers) else buffers


def kept_by_thread(
    loop: For, target: Target, steps: Container[Axis], outside: tuple[For, ...] = ()
) -> frozenset[Buffer]:
    """Return the buffers whose sums a GPU thread keeps in registers, as :func:`kept_buffers` does.

    They are buffers of global and shared memory: local storage is in registers already.
    """
    none: frozenset[Buffer] = frozenset()
    copies = ("unroll", "vectorize")
    if any(isinstance(s, For) and s.kind in copies for s, _ in walk(loop.body)):
        return none
    buffers = kept_buffers(loop, target.vector_width, target.vector_registers, steps, outside)
    return none if any(b.scope == "local" for b in buffers) else buffers


def steps_of(loop: For, nest: Nest) -> set[Axis]:
    """Return the reduction axes of the stage of ``loop``."""
    return {f.axis for f in nest.loops if f.stage == loop.stage and f.axis.is_reduce}


def vectors(lanes: int, width: int) -> int:
    """Return the number of vectors of ``width`` lanes that hold ``lanes``, rounded up."""
    return -(-lanes // width)


def skips_iterations(test: If, steps: Container[Axis], around: tuple[For, ...]) -> bool:
    """Return whether ``test`` depends on reduction axes ``steps`` and unrolled axes alone.

    Such a test skips iterations and keeps no index in bounds.
    """
    unrolled = {loop.axis for loop in around if loop.kind == "unroll"}
    axes = [node for node in postorder([test.cond]) if isinstance(node, Axis)]
    return not test.predicate and bool(axes) and all(a in steps or a in unrolled for a in axes)


def _used_otherwise(body: Block, buffers: frozenset[Buffer]) -> bool:
    """Return whether a statement other than an update reads or writes ``buffers``."""
    for stmt, _ in walk(body):
        if isinstance(stmt, Store) and stmt.reducer is None and buffers & set(stmt.buffers):
            return True
        if any(load.buffer in buffers for load in loads(expressions(stmt))):
            return True
    return False


def vectors_of(
    store: Store,
    around: tuple[For, ...],
    widest: Callable[[str], int],
    registers: Callable[[int, int], int] = vectors,
) -> int | None:
    """Return how many registers the sums of ``store`` take; ``None`` if they cannot stay in them.

    ``registers(lanes, width)`` counts the registers of ``lanes`` when one holds ``width`` lanes.
    """
    count = len(store.buffers)
    for loop in around:
        if loop.kind == "serial":
            if any(_moves(i, loop.axis) for i in store.indices):
                return None
        elif loop.kind in ("unroll", "vectorize") and isinstance(loop.extent, int):
            if loop.kind == "unroll":
                count *= loop.extent if any(_moves(i, loop.axis) for i in store.indices) else 1
                continue
            lanes = min(widest(b.dtype) for b in store.buffers)
            # lanes far apart are fine: they are gathered before the loop and scattered after it
            if not all(lane_step(flat(b, store.indices), loop.axis) for b in store.buffers):
                return None
            count *= registers(loop.extent, lanes)
        else:
            return None
    return count


def _may_meet(store: Store) -> bool:
    """Return whether different indices of ``store`` may be equal: they depend on data or sizes."""
    return any(isinstance(node, (Load, Var)) for node in postorder(store.indices))


def _moves(index: Expr, axis: Axis) -> bool:
    return index is axis or (
        bool(index.children) and any(node is axis for node in preorder([index]))
    )
