"""Checks of bounds by enumeration, for indices that no proof shows to be in their buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expr.nodes import Axis, Expr
from schedlang.index.enumeration import first_outside, leaves_of, spans_of
from schedlang.ir.nodes import For


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
    axes = {loop.axis for loop in loops}
    decided = [t for t in tests if axes.issuperset(leaves_of([t]))]
    near = _related_tests(index, decided)
    outside = _first_outside(index, extent, loops, near)
    if outside and len(near) < len(tests):
        # the remaining tests may exclude the iteration that was found
        return _first_outside(index, extent, loops, tests)
    return outside


def _related_tests(index: Expr, tests: Sequence[Expr]) -> list[Expr]:
    """Return the tests that share loop variables with ``index``, directly or through each other."""
    axes = set(leaves_of([index]))
    rest = [(t, set(leaves_of([t]))) for t in tests]
    near: list[Expr] = []
    while True:
        linked = [(t, own) for t, own in rest if own & axes]
        if not linked:
            return near
        rest = [(t, own) for t, own in rest if not own & axes]
        for test, own in linked:
            near.append(test)
            axes |= own


def _first_outside(
    index: Expr, extent: int, loops: Sequence[For], tests: Sequence[Expr]
) -> tuple[int, str] | tuple[()] | None:
    spans = spans_of([*tests, index], _spans(loops))
    outside = (
        None
        if spans is None
        else first_outside(index, extent, [(test, True) for test in tests], spans)
    )
    if not outside:
        return outside
    value, point = outside
    where = ", ".join(f"{axis.name} = {at}" for axis, at in point.items())
    return value, where and f" where {where}"


def _spans(loops: Sequence[For]) -> dict[Axis, tuple[int, int] | None]:
    return {x.axis: (0, x.extent) if isinstance(x.extent, int) else None for x in loops}
