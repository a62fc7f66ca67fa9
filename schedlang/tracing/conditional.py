"""Assignments in the sides of an ``if`` whose test the trace does not know."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.stages import each
from schedlang.compute.math import all as all_of
from schedlang.compute.math import if_then_else
from schedlang.compute.read import reads
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Expr
from schedlang.index.simplify import to_lin
from schedlang.language.construct import as_expr, cast
from schedlang.tracing.choice import choice
from schedlang.tracing.indexing import (
    assign_elements,
    is_negation,
    parts_of_region,
    select,
)
from schedlang.tracing.spans import ranges_of_loops
from schedlang.tracing.spread import spread
from schedlang.tracing.trace import Region, Storage, Trace, Value


def write_where(trace: Trace, storage: Storage, value: Value) -> None:
    """Replace the value of ``storage`` where the conditions around the assignment hold."""
    tests = tuple(test.value for test in trace.conditions)
    before = trace.read(storage)
    region = trace.regions.get(value) if tests and isinstance(value, Tensor) else None
    if region is None or region.base is not before:
        for test in tests:
            value = _chosen(test, value, before)
        trace.write(storage, value)
        return
    region = Region(before, region.item, region.value, (*tests, *region.under))
    both = _of_both_sides(trace, region)
    while both is not None:
        region = both
        both = _of_both_sides(trace, region)
    trace.write(storage, assign_elements(region.base, region.item, region.value, region.under))


def _of_both_sides(trace: Trace, second: Region) -> Region | None:
    """Return one assignment for both sides of an ``if`` if both assign to one element."""
    first = trace.regions.get(second.base)
    if first is None or not first.under or len(first.under) != len(second.under):
        return None
    (*around, test), (*also_around, other) = first.under, second.under
    if not is_negation(test, other) or any(a is not b for a, b in zip(around, also_around)):
        return None
    if not isinstance(first.value, Expr) or not isinstance(second.value, Expr):
        return None
    ranges = ranges_of_loops()
    parts, also = parts_of_region(first), parts_of_region(second)
    for p, q in zip(parts, also):
        if p.extent is not None or q.extent is not None:
            return None
        if to_lin(p.start, ranges=ranges) != to_lin(q.start, ranges=ranges):
            return None
    values = [second.value, *(as_expr(q.start) for q in also)]
    if any(node.tensor is second.base for node in reads(values)):
        return None
    dtype = first.base.dtype
    value = choice(test, cast(first.value, dtype), cast(second.value, dtype))
    return Region(first.base, first.item, value, tuple(around))


def unconditional(region: Region) -> Region:
    """Return an assignment without conditions, of the old elements where they do not hold."""
    if not region.under:
        return region
    old = select(region.base, region.item)
    return Region(region.base, region.item, _chosen(all_of(*region.under), region.value, old))


def _chosen(condition: Any, new: Any, old: Value) -> Any:
    """Return ``new`` where a condition holds, and ``old`` elsewhere."""
    if not isinstance(old, Tensor):
        return choice(condition, cast(as_expr(new), old.dtype), old)
    source = spread(new, old.shape, "an assignment")
    return each(
        "chosen",
        old.shape,
        lambda *i: if_then_else(condition, cast(source(i), old.dtype), old[i]),
    )
