"""Loops that become functions: numba compiles parallel loops so, and Python nests few blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlang.ir.nodes import Block, For, Stmt, Strips, block_of, walk, with_fields, with_held
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.strips import BECOMES_FUNCTION, becomes_lanes, most_lanes

# loops that a function nests: Python allows 20 blocks
DEEPEST_LOOPS = 16


@dataclass(frozen=True)
class _Place:
    """The ``loops`` of the function around, and whether a parallel loop or lanes are around.

    ``deep`` says that a function of the nest may have too many loops.
    """

    deep: bool
    loops: int = 0
    in_parallel: bool = False
    in_lanes: bool = False


def mark_functions(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with a pragma on the loops that become functions.

    These are the outermost parallel loops, and loops inside of ``DEEPEST_LOOPS`` others. Unrolled
    loops, and vectorized loops of one vector, do not count as loops of a function.
    """
    deep = any(depth >= DEEPEST_LOOPS for _, depth in walk(body))
    if not (deep or job.may_have("parallel")):
        return body
    return block_of(_marked(body, job, _Place(deep)))


def becomes_function(loop: For | Strips) -> bool:
    """Return whether ``loop``, or its body if it is parallel, becomes a function."""
    if isinstance(loop, Strips):
        return loop.function
    return any(name == BECOMES_FUNCTION for name, _ in loop.pragmas)


def loops_inside(loop: For, around: int) -> int:
    """Return how many loops of its function are around the body of a marked ``loop``.

    ``around`` is the number of those around the loop.
    """
    if becomes_function(loop):
        return 0 if loop.kind == "parallel" else 1
    return around + 1


def _marked(stmt: Stmt, job: LoopJob, place: _Place) -> Stmt:
    if not isinstance(stmt, For):
        return with_held(stmt, lambda inner: _marked(inner, job, place))
    lanes = becomes_lanes(stmt, job.target)
    if not is_loop(stmt, job):
        inside = replace(place, in_lanes=place.in_lanes or lanes)
        return with_held(stmt, lambda inner: _marked(inner, job, inside))
    parallel = stmt.kind == "parallel" and not place.in_parallel and not place.in_lanes
    if parallel or place.loops >= DEEPEST_LOOPS:
        stmt = with_fields(stmt, pragmas=(*stmt.pragmas, (BECOMES_FUNCTION, None)))
    if parallel and not place.deep:
        return stmt
    inside = _Place(
        place.deep,
        loops_inside(stmt, place.loops),
        place.in_parallel or parallel,
        place.in_lanes or lanes,
    )
    return with_held(stmt, lambda inner: _marked(inner, job, inside))


def is_loop(loop: For, job: LoopJob) -> bool:
    """Return whether ``loop`` is a loop of the kernel, and not written out.

    Inside of lanes, unrolled loops are always written out; they count as the target says.
    """
    if not isinstance(loop.extent, int):
        return True
    if becomes_lanes(loop, job.target):
        return loop.extent > most_lanes(loop, job.target)
    return loop.kind != "unroll" or not job.target.facts.unrolls


__all__ = ["DEEPEST_LOOPS", "BECOMES_FUNCTION", "becomes_function", "is_loop", "loops_inside",
           "mark_functions"]  # fmt: skip
