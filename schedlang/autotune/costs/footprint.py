"""How many bytes the accesses of a statement ask of each level of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from schedlang.expr.dtypes import itemsize
from schedlang.expr.linear import Div, Lin, Mod
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.simplify import to_lin
from schedlang.ir.nodes import Buffer, For

LINE = 64
# bytes that a core has at each level, and the bytes a cycle that come from the level behind it
CACHES = ((24 << 10, 32.0), (768 << 10, 10.0), (8 << 20, 4.0))


@dataclass(frozen=True)
class Reach:
    """An access: a buffer and its indices."""

    buffer: Buffer
    indices: tuple[Expr, ...]


def line_traffic(
    accesses: Sequence[Reach], loops: Sequence[For], extent: Callable[[For], int]
) -> list[float]:
    """Bytes that miss each of :data:`CACHES` while ``loops`` run.

    For each level the outer loops whose data it cannot hold bring what is inside of them anew in
    each iteration.
    """
    spans = [_spans(access, loops, extent) for access in accesses]
    # bytes of each access by how many of the outer loops are taken out
    sizes = [[_bytes(a, inner) for inner in span] for a, span in zip(accesses, spans)]
    found = []
    for capacity, _ in CACHES:
        depth = 0
        while depth < len(loops) and sum(s[depth] for s in sizes) > capacity:
            depth += 1
        # the loop around what fits goes from one piece to the next, and meets each line once
        swept = max(0, depth - 1)
        times = prod(extent(f) for f in loops[:swept])
        total = times * sum(size[swept] for size in sizes)
        found.append(total)
    return found


def _spans(access: Reach, loops: Sequence[For], extent: Callable[[For], int]) -> list[list[float]]:
    """How many indices each dimension takes while the loops from some depth on run."""
    lins = [to_lin(index) for index in access.indices]
    found = []
    for depth in range(len(loops) + 1):
        inner = {f.axis: extent(f) for f in loops[depth:]}
        found.append([_span(lin, inner) for lin in lins])
    return found


def _span(lin: Lin, inner: dict[Axis, int]) -> float:
    """The number of values of an index, holes counted."""
    total = 1.0
    for product, coef in lin.terms.items():
        if not product:
            continue
        parts: list[float] = []
        for atom in product:
            if isinstance(atom, Axis):
                parts.append(inner.get(atom, 1) - 1)
            elif isinstance(atom, (Div, Mod)):
                width = _span(atom.num, inner) - 1
                size = atom.den.const or 1
                parts.append(width / size if isinstance(atom, Div) else min(width, size - 1))
            else:
                parts.append(0)
        total += abs(coef) * (prod(parts) if len(parts) == 1 else max(parts, default=0))
    return total


def _bytes(access: Reach, spans: Sequence[float]) -> float:
    shape = access.buffer.shape
    size = float(itemsize(access.buffer.dtype))
    if not spans:
        return LINE
    *outer, last = (
        min(span, float(e)) if isinstance(e, int) else span for span, e in zip(spans, shape)
    )
    # whole rows next to each other make up one run
    row = last * size
    if not (outer and isinstance(shape[-1], int) and last >= shape[-1]):
        row = -(-row // LINE) * LINE
    return max(float(LINE), prod(outer, start=1.0) * row)


__all__ = ["CACHES", "LINE", "Reach", "line_traffic"]
