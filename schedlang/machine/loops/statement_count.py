"""The number of statements of a kernel, which its unrolled loops and vectors multiply.

Each loop alone makes at most ``MOST_COPIES`` copies. Many such loops make a kernel that no compiler
finishes, so it is refused before its statements exist.
"""

from __future__ import annotations

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, Copies, Copy, Lanes, Stmt, Store, held_statements, walk
from schedlang.machine.loops.job import LoopJob

# 17,600 take LLVM 24 seconds and half a gigabyte, and numba six times as long
MOST_STATEMENTS = 100_000


def refuse_many_statements(body: Block, job: LoopJob) -> Block:
    """Return ``body``, or raise :class:`~schedlang.errors.BuildError` for too many statements."""
    counts: dict[int, int] = {}
    total = _count(body, counts)
    if total <= MOST_STATEMENTS:
        return body
    hint = f"Unroll fewer or smaller loops, at most {MOST_STATEMENTS:,} statements in all."
    written_out = [s for s, _ in walk(body) if isinstance(s, Copies)]
    if written_out:
        largest = max(written_out, key=lambda copies: counts[id(copies)])
        stage = next((s.stage for s, _ in walk(largest) if isinstance(s, Store)), "")
        loops = " and ".join(f"{axis.name} ({count} copies)" for axis, count in _axes(largest))
        hint += f" Stage {stage} has {counts[id(largest)]:,} of them, by unrolling {loops}."
    raise BuildError(
        explain(
            f"kernel {job.nest.name}",
            f"with its unrolled loops and vectors written out, it has {total:,} statements, which "
            "would not compile in reasonable time or memory",
            hint,
        )
    )


def _count(stmt: Stmt, counts: dict[int, int]) -> int:
    """Return the number of statements in ``stmt``; copies of a loop's body share it."""
    known = counts.get(id(stmt))
    if known is None:
        grouping = isinstance(stmt, (Block, Copies, Copy, Lanes))
        known = (not grouping) + sum([_count(s, counts) for s in held_statements(stmt)])
        counts[id(stmt)] = known
    return known


def _axes(stmt: Stmt) -> list[tuple[Axis, int]]:
    """Return the axes of nested copies with the number of their copies, outer to inner."""
    axes: list[tuple[Axis, int]] = []
    left = [stmt]
    while left:
        stmt = left.pop()
        if isinstance(stmt, Copies):
            axes.append((stmt.copies[0].axis, len(stmt.copies)))
            # all copies have the same body
            left.append(stmt.copies[0])
        else:
            left += held_statements(stmt)[::-1]
    return axes
