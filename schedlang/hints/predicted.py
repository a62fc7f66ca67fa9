"""The predicted time of a nest for advice: the tuner's estimate, and what it leaves out.

The estimate ranks the candidates of a search, which all have vectors and threads. Advice compares
schedules with and without them, so it also has to know which loops LLVM vectorizes by itself, that
the reads of a stencil share lines, and that cores share the bandwidth of memory. LLVM vectorizes
math functions, too: over 65,536 float32, plain loops of 22 functions took 0.83 to 1.36 times as
long as their vectors (AVX-512).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt

from schedlang.autotune.costs.averages import average_loops
from schedlang.autotune.costs.estimate import (
    CYCLE,
    Estimate,
    costs,
    launching,
    overlap,
    parallel_loop,
    slowest_share,
)
from schedlang.diagnostics.sites import extent_of
from schedlang.expr.dtypes import is_float
from schedlang.expr.nodes import Axis
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, Stmt, Store, block_of, walk, with_held
from schedlang.ir.rewrite import substitute
from schedlang.machine.loops.plain_loops import FEWEST, could_be_vectorized
from schedlang.target import Target

# the pragma of a loop that LLVM vectorizes by itself, and the cycles in which one starts: it tests
# whether arrays overlap, and ends in scalars
BY_LLVM, START = "by llvm", 12.0


@dataclass(frozen=True)
class Prediction(Estimate):
    """The predicted cost of a nest. ``memory``: the seconds in which it waits for memory."""

    memory: float


def predict(nest: Nest, target: Target, threads: int) -> Prediction:
    """Return the predicted time of ``nest`` on ``threads`` cores of ``target``, a CPU.

    The caches of a core are its own, but all cores together read memory no faster than
    ``sqrt(threads)`` times as fast as one. That is between desktops, where two cores take all of
    the bandwidth, and servers.
    """
    cycles, work, waiting, launches = 0.0, 0.0, 0.0, set()
    vectors = with_vectors_of_llvm(average_loops(nest, {}), target)
    for cost in costs(vectors, target, grouped=True):
        *caches, memory = cost.traffic
        outer = parallel_loop(cost.loops) if threads > 1 else None
        share = shared = 1.0
        if outer is not None:
            launches.add(outer)
            share = slowest_share(outer[0], threads)
            shared = max(share, 1 / sqrt(threads))
        compute = cost.compute + START * _starts(cost.loops)
        cycles += overlap(compute * share, sum(caches) * share + memory * shared)
        work += cost.flops
        waiting += memory * shared
    cycles += sum(launching(times) for _, times in launches)
    return Prediction(cycles * CYCLE, work, waiting * CYCLE)


def _starts(loops: Sequence[For]) -> float:
    """Return how often a loop that LLVM vectorizes starts; 0 if there is none."""
    at = next((k for k, f in enumerate(loops) if (BY_LLVM, None) in f.pragmas), None)
    return 0.0 if at is None else float(prod(map(extent_of, loops[:at])))


def with_vectors_of_llvm(nest: Nest, target: Target) -> Nest:
    """Return ``nest`` with the plain loops that LLVM vectorizes by itself as vectorized loops."""
    body = _vectorize_loops(nest.body, target)
    assert isinstance(body, Block)
    return replace(nest, body=body)


def _vectorize_loops(stmt: Stmt, target: Target) -> Stmt:
    if isinstance(stmt, For) and stmt.instruction is not None:
        # nothing runs its loops
        return stmt
    if not isinstance(stmt, For) or not _is_vectorized(stmt):
        return with_held(stmt, lambda inner: _vectorize_loops(inner, target))
    loop = replace(stmt, pragmas=(*stmt.pragmas, (BY_LLVM, None)))
    if any(isinstance(inner, For) for inner, _ in walk(stmt.body)):
        return _around_unrolled(loop, target)
    # the passes take vectors of a known length: a size counts as what estimates assume
    return replace(loop, kind="vectorize", extent=extent_of(stmt))


def _around_unrolled(loop: For, target: Target) -> For:
    """Return a loop around loops that LLVM unrolls as a loop over vectors, one of each statement.

    So their sums stay in registers.
    """
    stored = (b.dtype for s, _ in walk(loop.body) if isinstance(s, Store) for b in s.buffers)
    width = min(map(target.vector_width, stored))
    times = -(-extent_of(loop) // width)
    outer, lanes = Axis(f"{loop.axis.name}.outer", times), Axis(f"{loop.axis.name}.inner", width)
    body = substitute(_unroll(loop.body, lanes), {loop.axis: outer * width + lanes})
    return replace(loop, axis=outer, extent=times, body=block_of(body))


def _unroll(stmt: Stmt, lanes: Axis) -> Stmt:
    if isinstance(stmt, Store):
        return For(lanes, lanes.extent, "vectorize", Block((stmt,)), stmt.buffers[0].name)
    inside = with_held(stmt, lambda inner: _unroll(inner, lanes))
    return replace(inside, kind="unroll") if isinstance(inside, For) else inside


def _is_vectorized(loop: For) -> bool:
    if isinstance(loop.extent, int) and loop.extent < FEWEST:
        return False
    updates = [s for s, _ in walk(loop.body) if isinstance(s, Store) and s.reducer is not None]
    # a maximum is the same in any order, also of floats
    any_order = all(waits_for_nothing(s) for s in updates)
    return could_be_vectorized(loop, any_order)


def waits_for_nothing(update: Store) -> bool:
    """Return whether LLVM may reduce in any order: a minimum or maximum, or of integers."""
    reducer = update.reducer
    assert reducer is not None
    return reducer.name in ("max", "min") or not any(is_float(b.dtype) for b in update.buffers)
