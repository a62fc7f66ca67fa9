"""How many bytes the accesses of a statement ask of each level of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from schedlang.expr.dtypes import itemsize
from schedlang.expr.linear import Div, Lin, Mod
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.simplify import to_lin
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import strides

LINE = 64


@dataclass(frozen=True)
class Cache:
    """A level: the bytes that a core has of it, the lines of a set, and the bytes a cycle that come
    from the level behind it.
    """

    size: int
    ways: int
    rate: float

    @property
    def sets(self) -> int:
        return self.size // (self.ways * LINE)


CACHES = (Cache(32 << 10, 8, 32.0), Cache(1 << 20, 8, 16.0), Cache(16 << 20, 16, 8.0))


@dataclass(frozen=True)
class Reach:
    """An access: a buffer and its indices."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True)
class _Part:
    """What an access has of a buffer: ``runs`` of neighbours of ``lines`` each, which start at
    multiples of ``apart`` lines from each other.
    """

    runs: float
    lines: float
    apart: int

    @property
    def bytes(self) -> float:
        return self.runs * self.lines * LINE

    def ways(self, sets: int) -> float:
        """How many of its lines share a set of a cache, where most of them do."""
        starts = min(self.runs, sets // gcd(sets, self.apart))
        return self.runs * self.lines / min(sets, starts * self.lines)


def line_traffic(
    accesses: Sequence[Reach], loops: Sequence[For], extent: Callable[[For], int]
) -> list[float]:
    """Bytes that miss each of :data:`CACHES` while ``loops`` run.

    For each level the outer loops whose data it cannot hold bring what is inside of them anew in
    each iteration: all data together, and those of an access whose lines fall into few sets. What
    the last level holds whole is there from one call to the next.
    """
    # by how many of the outer loops are taken out
    parts = [_parts(access, loops, extent) for access in accesses]
    found = []
    for cache in CACHES:
        depth = 0
        while depth < len(loops) and sum(part[depth].bytes for part in parts) > cache.size:
            depth += 1
        total = 0.0
        for part in parts:
            own = depth
            while own < len(loops) and part[own].ways(cache.sets) > cache.ways:
                own += 1
            if not own and cache is CACHES[-1]:
                continue
            # the loop around what fits goes from one piece to the next, and meets each line once
            swept = max(0, own - 1)
            total += prod(extent(f) for f in loops[:swept]) * part[swept].bytes
        found.append(total)
    return found


def _parts(access: Reach, loops: Sequence[For], extent: Callable[[For], int]) -> list[_Part]:
    return [_part(access.buffer, spans) for spans in _spans(access, loops, extent)]


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


def _part(buffer: Buffer, spans: Sequence[float]) -> _Part:
    size = itemsize(buffer.dtype)
    run, runs, apart = float(size), 1.0, 0
    for span, length, stride in zip(
        reversed(spans), reversed(buffer.shape), reversed(strides(buffer))
    ):
        count = min(span, length) if isinstance(length, int) else span
        pitch = stride.const * size if stride.const is not None else None
        if pitch is not None and runs == 1 and run >= pitch:
            # whole rows next to each other make up one run
            run = count * pitch
        elif count > 1:
            runs *= count
            apart = gcd(apart, max(1, pitch // LINE) if pitch is not None else 1)
    return _Part(runs, -(-run // LINE), apart)


__all__ = ["CACHES", "LINE", "Cache", "Reach", "line_traffic"]
