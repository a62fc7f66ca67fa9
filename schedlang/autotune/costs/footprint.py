"""The bytes that the accesses of a statement move between cache levels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Var
from schedlang.host import LINE, Cache
from schedlang.index.linear import ZERO, Lin, Opaque, Product
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import Access
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import flat, lane_step, strides

# bytes of a step that a prefetcher follows
# nobody has measured this value
NEAR = 2 * LINE
# streams that the prefetchers of a core follow side by side
# nobody has measured this value
STREAMS = 16
# bytes of a page, inside of which virtual and physical addresses agree
# by definition of x86-64
PAGE = 4096


@dataclass(frozen=True)
class Footprint:
    """The part of a buffer that an access touches, as contiguous runs of ``lines`` each.

    ``steps`` gives, by dimension, the number of runs and the bytes from one to the next.
    """

    lines: float
    steps: tuple[tuple[float, int], ...]

    @property
    def bytes(self) -> float:
        return self._runs * self.lines * LINE

    @property
    def _runs(self) -> float:
        return prod((count for count, _ in self.steps), start=1.0)

    def lines_per_set(self, sets: int) -> float:
        """Return how many of the lines share a cache set.

        Runs that are a power of two apart start in few sets. Only the distance inside a page
        counts, since pages may be anywhere in memory.
        """
        way = sets * LINE

        def starts(*pitches: int) -> int:
            return way // max(LINE, gcd(way, PAGE, *pitches))

        each = prod((min(count, starts(pitch)) for count, pitch in self.steps), start=1.0)
        used = min(each, starts(*(pitch for _, pitch in self.steps))) * self.lines
        return self._runs * self.lines / min(sets, used)


def one_of_each_group(accesses: Sequence[Access]) -> list[Access]:
    """Return one access of each group whose indices differ by constants alone.

    The others find most of their lines in the cache, like the reads of a stencil: this is the group
    reuse of Wolf and Lam, "A data locality optimizing algorithm" (PLDI 1991).

    >>> from schedlang.expr.nodes import Axis
    >>> B, i, j = Buffer("B", "float32", (8, 8)), Axis("i", 6), Axis("j", 8)
    >>> len(one_of_each_group([Access(B, (i + k, j)) for k in range(3)] + [Access(B, (j, i))]))
    2
    """
    groups: dict[object, Access] = {}
    for access in accesses:
        lins = [to_lin(index) for index in access.indices]
        groups.setdefault((access.buffer, *(lin - lin.terms.get((), 0) for lin in lins)), access)
    return list(groups.values())


def line_traffic(
    accesses: Sequence[Access], loops: Sequence[For], extent: Callable[[For], int],
    caches: Sequence[Cache], resident: Collection[Buffer] = (), jumps: float = 1.0,
) -> list[float]:  # fmt: skip
    """Return the bytes that miss each of ``caches`` while ``loops`` run.

    If a cache cannot hold the data of an outer loop, its data are fetched again in each iteration.
    That is decided for all accesses together, and again for an access whose lines fall into few
    sets. The last level has the data of ``resident`` buffers before the call. The bytes of an
    access that :func:`_jumps` count ``jumps`` times, as no prefetcher fetches them.
    """
    # by depth: the footprint inside of that many outer loops
    kept = [_footprints(access, loops, extent) for access in accesses]
    needed = [sum(footprint.bytes for footprint in inside) for inside in zip(*kept)]
    factors = [jumps if jumps != 1 and _jumps(access, loops) else 1.0 for access in accesses]
    traffic = []
    for cache in caches:
        last = cache is caches[-1]
        depth = next((d for d, bytes_ in enumerate(needed) if bytes_ <= cache.size), len(loops))
        total = 0.0
        for access, footprints, factor in zip(accesses, kept, factors):
            if last and access.buffer in resident:
                continue
            own = depth
            # the last level hashes addresses to sets, so that no few sets fill up
            while (
                not last
                and own < len(loops)
                and (footprints[own].lines_per_set(cache.sets) > cache.ways)
            ):
                own += 1
            # the innermost loop whose data do not fit fetches each line once
            swept = max(0, own - 1)
            total += factor * prod(extent(f) for f in loops[:swept]) * footprints[swept].bytes
        traffic.append(total)
    return traffic


def _jumps(access: Access, loops: Sequence[For]) -> bool:
    """Return whether the innermost loop that moves an access skips lines from step to step.

    The lanes and the copies of a statement are one step. A few skipping steps inside of a loop that
    skips no lines are streams, each of which a prefetcher follows.
    """
    offset = flat(access.buffer, access.indices)
    size = itemsize(access.buffer.dtype)
    run, streams = size, 1
    for loop in reversed(loops):
        step = lane_step(offset, loop.axis)
        if step == 0:
            continue
        if loop.kind in ("vectorize", "unroll"):
            if step == run // size and isinstance(loop.extent, int):
                run *= loop.extent
            continue
        if step is not None and abs(step) * size <= max(run, NEAR):
            return False
        streams *= loop.extent if isinstance(loop.extent, int) else STREAMS + 1
        if step is None or streams > STREAMS:
            return True
    return streams > 1


def _footprints(
    access: Access, loops: Sequence[For], extent: Callable[[For], int]
) -> list[Footprint]:
    spans = _spans(access, loops, extent)
    footprints = [_footprint(access.buffer, spans[0])]
    for around, inside in pairwise(spans):
        # a loop that no index depends on changes nothing
        footprints.append(footprints[-1] if inside is around else _footprint(access.buffer, inside))
    return footprints


def _spans(access: Access, loops: Sequence[For], extent: Callable[[For], int]) -> list[list[float]]:
    """Return the width of each index's range, holes included, in the loops from each depth on.

    Loops further out and sizes count as fixed, and an unknown term adds nothing.
    """
    lins = [to_lin(index) for index in access.indices]
    moved: dict[Axis | Var, list[tuple[int, Product]]] = {}
    for at, lin in enumerate(lins):
        for product in lin.terms:
            for leaf in Lin({product: 1}).leaves():
                if not isinstance(leaf, Opaque):
                    moved.setdefault(leaf, []).append((at, product))
    ranges = Ranges(dict.fromkeys(moved, (ZERO, ZERO)))
    widths: list[dict[Product, int]] = [{} for _ in lins]
    spans = [[1.0] * len(lins)]
    for loop in reversed(loops):
        if loop.axis not in moved:
            spans.append(spans[-1])
            continue
        ranges.learn(loop.axis, ZERO, Lin.of(extent(loop) - 1))
        for at, product in moved[loop.axis]:
            low, high = ranges.interval(Lin({product: lins[at].terms[product]}))
            widths[at][product] = 0 if low is None or high is None else high - low
        spans.append([1.0 + sum(terms.values()) for terms in widths])
    return spans[::-1]


def _footprint(buffer: Buffer, spans: Sequence[float]) -> Footprint:
    size = itemsize(buffer.dtype)
    run = float(size)
    steps: list[tuple[float, int]] = []
    for span, length, stride in zip(
        reversed(spans), reversed(buffer.shape), reversed(strides(buffer))
    ):
        count = min(span, length) if isinstance(length, int) else span
        if count <= 1:
            continue
        # assume that an unknown distance fills all sets
        pitch = stride.const * size if stride.const is not None else LINE
        if not steps and pitch <= max(run, LINE) and stride.const is not None:
            run += (count - 1) * pitch
        else:
            steps.append((count, pitch))
    return Footprint(-(-run // LINE), tuple(steps))
