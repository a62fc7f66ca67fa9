"""Checks by enumeration: they evaluate indices and conditions at every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import For, Load

MOST_POINTS = 2**18
# the most iterations at which one index is evaluated, MOST_POINTS at a time
MOST_TRIED = 2**24


def grid(loops: Sequence[For], tests: Sequence[Expr], wanted: Sequence[Expr]) -> Any:
    """Return the values of the loop variables at all iterations where ``tests`` hold.

    Only loops on which ``wanted`` or a test depends are enumerated. Return ``None`` if there are
    too many iterations, or if an expression depends on anything but loops of constant extent.
    """
    needed = {
        n for e in (*tests, *wanted) for n in postorder([e]) if isinstance(n, (Axis, Var, Load))
    }
    varying = [loop for loop in loops if loop.axis in needed]
    known = {loop.axis for loop in loops}
    if any(n not in known for n in needed) or any(not isinstance(x.extent, int) for x in varying):
        return None
    lengths = [int(loop.extent) for loop in varying]
    if prod(lengths) > MOST_POINTS:
        return None
    points = np.indices(lengths).reshape(len(lengths), -1) if lengths else np.zeros((0, 1), int)
    values = {loop.axis: row for loop, row in zip(varying, points)}
    keep = np.ones(points.shape[1], bool)
    for test in tests:
        keep &= evaluate(test, values)
    return {axis: row[keep] for axis, row in values.items()}, int(keep.sum())


def leaves_bounds(
    index: Expr, extent: int | Expr, loops: Sequence[For], tests: Sequence[Expr]
) -> tuple[int, str] | tuple[()] | None:
    """Return a counterexample to ``0 <= index < extent``: the index and its iteration, as text.

    Return ``()`` if there is none, and ``None`` if enumeration cannot decide.
    """
    if any(loop.extent == 0 for loop in loops if isinstance(loop.extent, int)):
        return ()
    if not isinstance(extent, int):
        return None
    decided = [t for t in tests if not _depends_on_more(t, loops)]
    near = _related(index, decided)
    found = _first_outside(index, extent, loops, near)
    if found and len(near) < len(tests):
        # the remaining tests may exclude the iteration that was found
        return _first_outside(index, extent, loops, tests)
    return found


def _depends_on_more(root: Expr, loops: Sequence[For]) -> bool:
    """Return whether ``root`` depends on more than the variables of ``loops``."""
    known = {loop.axis for loop in loops}
    return any(isinstance(n, (Axis, Var, Load)) and n not in known for n in postorder([root]))


def _related(index: Expr, tests: Sequence[Expr]) -> list[Expr]:
    """Return the tests that share loop variables with ``index``, directly or through each other."""
    axes = {n for n in postorder([index]) if isinstance(n, Axis)}
    left = [(t, {n for n in postorder([t]) if isinstance(n, Axis)}) for t in tests]
    near: list[Expr] = []
    while True:
        found = [(t, own) for t, own in left if own & axes]
        if not found:
            return near
        left = [(t, own) for t, own in left if not own & axes]
        for test, own in found:
            near.append(test)
            axes |= own


def _first_outside(
    index: Expr, extent: int, loops: Sequence[For], tests: Sequence[Expr]
) -> tuple[int, str] | tuple[()] | None:
    roots = [*tests, index]
    if any(_depends_on_more(root, loops) for root in roots):
        return None
    needed = {n for root in roots for n in postorder([root]) if isinstance(n, Axis)}
    varying = [loop for loop in loops if loop.axis in needed]
    lengths = [loop.extent for loop in varying if isinstance(loop.extent, int)]
    count = prod(lengths)
    if len(lengths) < len(varying) or count > MOST_TRIED:
        return None
    for start in range(0, count, MOST_POINTS):
        flat = np.arange(start, min(count, start + MOST_POINTS))
        rows = np.unravel_index(flat, lengths) if lengths else ()
        values = {loop.axis: row for loop, row in zip(varying, rows)}
        keep = np.ones(flat.shape, bool)
        # a later expression may divide by zero at an iteration that a test excludes
        with np.errstate(all="ignore"):
            for test in tests:
                keep &= evaluate(test, values)
            at = np.broadcast_to(evaluate(index, values), flat.shape)
        wrong = np.flatnonzero(keep & ((at < 0) | (at >= extent)))
        if wrong.size:
            first = wrong[0]
            where = ", ".join(f"{axis.name} = {int(row[first])}" for axis, row in values.items())
            return int(at[first]), where and f" where {where}"
    return ()


__all__ = ["MOST_POINTS", "grid", "leaves_bounds"]
