"""The order of the elements in a reduction, as the loops of its stage combine them."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.expr.nodes import Axis
from schedlang.state.relations import Fuse, Split
from schedlang.state.state import THREADS, Stage


def ordered_axes(stage: Stage) -> list[Axis] | None:
    """Return the reduction loops of ``stage`` in the nesting that keeps the element order.

    Return ``None`` if loops were fused out of that order.
    """
    axes = list(stage.op.reduce_axis)
    for r in stage.relations:
        if isinstance(r, Split):
            at = _place(axes, r.parent)
            if at is not None:
                axes[at : at + 1] = [r.outer, r.inner]
        elif isinstance(r, Fuse):
            at, inner = _place(axes, r.outer), _place(axes, r.inner)
            if at is not None and inner is not None:
                if inner != at + 1:
                    return None
                axes[at : at + 2] = [r.fused]
    return axes


def _place(axes: list[Axis], axis: Axis) -> int | None:
    return next((k for k, a in enumerate(axes) if a is axis), None)


def in_order(stage: Stage) -> bool:
    """Return whether one thread combines the elements of ``stage`` in their order."""
    bound = any(stage.kinds.get(a) in THREADS for a in nontrivial(stage.reduce_leaves))
    return not bound and loops_in_order(stage)


def loops_in_order(stage: Stage) -> bool:
    """Return whether the reduction loops of ``stage`` are nested in the order of the elements."""
    order = ordered_axes(stage)
    if order is None:
        return False
    loops, order = nontrivial(stage.reduce_leaves), nontrivial(order)
    return len(loops) == len(order) and all(a is b for a, b in zip(loops, order))


def nontrivial(axes: Iterable[Axis]) -> list[Axis]:
    """Return the axes with more than one iteration."""
    return [a for a in axes if not (isinstance(a.extent, int) and a.extent <= 1)]
