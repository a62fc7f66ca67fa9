"""Which elements stores reach: each output element once, none twice by iterations run together.

Proofs are structural: an index that is a mixed-radix number over its loops reaches each value of
a range once. What no proof covers is counted, where the loops are small enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from schedlang.compute.bounds import facts_of
from schedlang.errors import VerifyError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin, total
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.simplify import merge_div_mod, to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Buffer, For, If, Load

MOST_POINTS = 2**18
# points of one index that are tried, so many at a time
MOST_TRIED = 2**24


@dataclass(frozen=True, eq=False)
class Site:
    """A statement with the loops and guards around it, outer to inner."""

    store: Any
    loops: tuple[For, ...]
    guards: tuple[If, ...]


Span = tuple[Lin, Lin]


def scope_of(loops: Sequence[For]) -> Ranges:
    """The ranges of loop variables."""
    return Ranges({loop.axis: (ZERO, to_lin(loop.extent) - 1) for loop in loops})


def check_finalised(buffer: Buffer, sites: Sequence[Site]) -> None:
    """Each element of ``buffer`` is written once, other than by combining into it."""
    plain = [s for s in sites if s.store.reducer is None]
    if any(to_lin(e).const == 0 for e in buffer.shape):
        return
    if any(g.predicate for s in plain for g in s.guards):
        return
    if not plain:
        raise VerifyError(f"{buffer.name} is never written")
    whole = [(ZERO, to_lin(e)) for e in buffer.shape]
    spans = [_box(s) for s in plain]
    known = [box for box in spans if box is not None]
    if len(known) == len(plain) and _one_box(known) == whole:
        return
    if len(plain) == 1 and _flat_cover(buffer, plain[0]):
        return
    counts = _counts(buffer, plain)
    if counts is not None and (counts != 1).any():
        where = [int(k) for k in np.argwhere(counts != 1)[0]]
        raise VerifyError(f"{buffer.name}{where} is finalised {int(counts[tuple(where)])} times")


def _box(site: Site) -> list[Span] | None:
    """The box that a store covers once, if its indices are mixed-radix numbers over its loops."""
    ranges = scope_of(site.loops)
    indices = [to_lin(i, ranges=ranges) for i in site.store.indices]
    extents = {loop.axis: to_lin(loop.extent) for loop in site.loops}
    used: set[Axis] = set()
    spans: list[Span] = []
    for lin in indices:
        found = _radix(lin, extents)
        if found is None or used & found[1]:
            return None
        spans.append((found[0], found[0] + found[2]))
        used |= found[1]
    if any(axis not in used and extent.const != 1 for axis, extent in extents.items()):
        return None
    for guard in sorted(site.guards, key=lambda g: not _has_axis(g.cond)):
        if not _has_axis(guard.cond) and _empty_without(guard.cond, spans, ranges):
            continue
        if not _clip(guard.cond, indices, spans, ranges):
            return None
    return [(lo, merge_div_mod(hi)) for lo, hi in spans]


def _radix(lin: Lin, extents: dict[Axis, Lin]) -> tuple[Lin, set[Axis], Lin] | None:
    """``(start, axes, count)``: ``lin`` takes each value of ``start .. start + count`` once."""
    start = ZERO
    digits: list[tuple[Axis, Lin]] = []
    for product, coef in lin.terms.items():
        axes = [leaf for leaf in Lin({product: 1}).leaves() if isinstance(leaf, Axis)]
        if not axes:
            start = start + Lin({product: coef})
            continue
        rest = tuple(atom for atom in product if atom is not axes[0])
        if len(axes) > 1 or len(rest) != len(product) - 1:
            return None
        digits.append((axes[0], Lin({rest: coef})))
    if len({axis for axis, _ in digits}) != len(digits):
        return None
    count = Lin.of(1)
    left = list(digits)
    while left:
        # a digit of extent 1 stands still whatever its weight
        found = next((d for d in left if d[1] == count or extents[d[0]].const == 1), None)
        if found is None:
            return None
        left.remove(found)
        if extents[found[0]].const != 1:
            count = count * extents[found[0]]
    return start, {axis for axis, _ in digits}, count


def _has_axis(cond: Expr) -> bool:
    return any(isinstance(n, Axis) for n in postorder([cond]))


def _empty_without(cond: Expr, spans: list[Span], ranges: Ranges) -> bool:
    """Return whether there is nothing in ``spans`` for sizes for which ``cond`` does not hold."""
    if _conjuncts(cond) != 1:
        return False
    known = ranges.assuming(facts_of(cond, False, ranges))
    return any(known.le(merge_div_mod(hi), lo) for lo, hi in spans)


def _clip(cond: Expr, indices: Sequence[Lin], spans: list[Span], ranges: Ranges) -> bool:
    """Cut ``spans`` by a guard that compares one index with a number; whether it is one."""
    facts = facts_of(cond, True, ranges)
    if len(facts) != _conjuncts(cond):
        return False
    for fact in facts:
        for k, lin in enumerate(indices):
            above, below = lin - fact, -fact - lin
            lo, hi = spans[k]
            if not _moves(above):
                limit = above + 1
                if not ranges.le(limit, hi):
                    return False
                spans[k] = (lo, limit)
                break
            if not _moves(below):
                limit = -below
                if not ranges.le(lo, limit):
                    return False
                spans[k] = (limit, hi)
                break
        else:
            return False
    return True


def _moves(lin: Lin) -> bool:
    return any(isinstance(leaf, Axis) for leaf in lin.leaves())


def _conjuncts(cond: Expr) -> int:
    """How many comparisons ``cond`` joins by ``&``; 0 where it does anything else."""
    count, stack = 0, [cond]
    while stack:
        node = stack.pop()
        op = getattr(node, "op", "")
        if op == "&":
            stack += node.children
        elif op in ("<", "<=", ">", ">="):
            count += 1
        else:
            return 0
    return count


def _one_box(boxes: list[list[Span]]) -> list[Span] | None:
    """Boxes that touch along one dimension joined, until one is left."""
    left = list(boxes)
    while len(left) > 1:
        pairs = ((a, b, _join(left[a], left[b])) for a, b in permutations(range(len(left)), 2))
        found = next(((a, b, box) for a, b, box in pairs if box is not None), None)
        if found is None:
            return None
        a, b, box = found
        left = [x for k, x in enumerate(left) if k not in (a, b)] + [box]
    return left[0] if left else None


def _join(a: list[Span], b: list[Span]) -> list[Span] | None:
    differ = [k for k in range(len(a)) if a[k] != b[k]]
    if len(differ) != 1:
        return None
    (k,) = differ
    if a[k][1] != b[k][0]:
        return None
    return [*a[:k], (a[k][0], b[k][1]), *a[k + 1 :]]


def _flat(buffer: Buffer, indices: Sequence[Lin]) -> Lin:
    """The position of an element, its indices joined where they are parts of one loop."""
    strides = [Lin.of(1)]
    for k in reversed(range(1, len(buffer.shape))):
        strides.insert(0, strides[0] * to_lin(buffer.shape[k]))
    return merge_div_mod(total(i * s for i, s in zip(indices, strides)))


def _flat_cover(buffer: Buffer, site: Site) -> bool:
    """Return whether the position of the element is a mixed-radix number over the loops."""
    ranges = scope_of(site.loops)
    flat = _flat(buffer, [to_lin(i, ranges=ranges) for i in site.store.indices])
    extents = {loop.axis: to_lin(loop.extent) for loop in site.loops}
    found = _radix(flat, extents)
    if found is None or any(a not in found[1] and e.const != 1 for a, e in extents.items()):
        return False
    size = prod((to_lin(e) for e in buffer.shape), start=Lin.of(1))
    spans = [(found[0], found[0] + found[2])]
    if not all(_clip(g.cond, [flat], spans, ranges) for g in site.guards):
        return False
    return spans[0] == (ZERO, size)


def _grid(loops: Sequence[For], tests: Sequence[Expr], wanted: Sequence[Expr]) -> Any:
    """Values of the loop variables over all iterations where ``tests`` hold; ``None`` if too many.

    Only loops that ``wanted`` or a test depends on vary.
    """
    needed = {
        n for e in (*tests, *wanted) for n in postorder([e]) if isinstance(n, (Axis, Var, Load))
    }
    varying = [loop for loop in loops if loop.axis in needed]
    if any(isinstance(n, (Var, Load)) for n in needed) or any(
        not isinstance(x.extent, int) for x in varying
    ):
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
    """An iteration for which ``index`` leaves ``0..extent``: its value and where; ``()`` if none.

    ``None`` where that cannot be decided here.
    """
    if any(loop.extent == 0 for loop in loops if isinstance(loop.extent, int)):
        return ()
    if not isinstance(extent, int):
        return None
    decided = [t for t in tests if not _unknowns(t)]
    near = _related(index, decided)
    found = _first_outside(index, extent, loops, near)
    if found and len(near) < len(tests):
        # the other tests may still keep every iteration away
        return _first_outside(index, extent, loops, tests)
    return found


def _unknowns(root: Expr) -> bool:
    return any(isinstance(n, (Var, Load)) for n in postorder([root]))


def _related(index: Expr, tests: Sequence[Expr]) -> list[Expr]:
    """The tests that share loop variables with ``index``, directly or through each other."""
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
    if any(_unknowns(root) for root in roots):
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
        # a test may keep a division by zero away from what follows it
        with np.errstate(all="ignore"):
            for test in tests:
                keep &= evaluate(test, values)
            at = np.broadcast_to(evaluate(index, values), flat.shape)
        wrong = np.flatnonzero(keep & ((at < 0) | (at >= extent)))
        if wrong.size:
            first = wrong[0]
            where = ", ".join(f"{axis.name} = {int(row[first])}" for axis, row in values.items())
            return int(at[first]), where or "it runs"
    return ()


def _counts(buffer: Buffer, sites: Sequence[Site]) -> np.ndarray | None:
    """How often each element is written, where that can be counted."""
    if buffer.size is None or buffer.size > MOST_POINTS:
        return None
    shape = tuple(buffer.shape)
    counts = np.zeros(shape, int)
    for site in sites:
        loops: list[Expr] = [loop.axis for loop in site.loops]
        found = _grid(site.loops, [g.cond for g in site.guards], [*site.store.indices, *loops])
        if found is None:
            return None
        values, count = found
        index = tuple(np.broadcast_to(evaluate(i, values), (count,)) for i in site.store.indices)
        np.add.at(counts, index, 1)
    return counts


def check_races(
    loop: For, position: int, stores: Sequence[Site], loads: Sequence[tuple[Load, Site | None]]
) -> None:
    """No two iterations of ``loop`` write one element, or one reads what another writes."""
    written: dict[Buffer, list[Site]] = {}
    for site in stores:
        for buffer in site.store.buffers:
            if _shared_by_threads(loop, buffer):
                continue
            written.setdefault(buffer, []).append(site)
            if not _apart(
                buffer, loop, position, site, site.store.indices, site, site.store.indices
            ):
                what = "combined into" if site.store.reducer is not None else "written"
                raise VerifyError(
                    f"{buffer.name} is {what} by several iterations of {loop.kind} loop "
                    f"{loop.axis.name} at the same element (stage {site.store.stage})"
                )
    for load, reader in loads:
        for site in written.get(load.buffer, ()):
            assert reader is not None
            if not _apart(
                load.buffer, loop, position, site, site.store.indices, reader, load.indices
            ):
                raise VerifyError(
                    f"{load.buffer.name} is read by one iteration of {loop.kind} loop "
                    f"{loop.axis.name} and written by another (stage {site.store.stage})"
                )


def _shared_by_threads(loop: For, buffer: Buffer) -> bool:
    # barriers order what threads of a block do with storage they share: the CUDA checks see to it
    return loop.tag.startswith("threadIdx") and buffer.scope in ("shared", "global")


def _apart(
    buffer: Buffer, loop: For, position: int, a: Site, first: Sequence[Expr], b: Site,
    second: Sequence[Expr],
) -> bool:  # fmt: skip
    """Return whether different iterations of ``loop`` reach different elements at both indices."""
    outer = {x.axis for x in a.loops[:position]}
    ranges = scope_of((*a.loops, *b.loops))
    left = [to_lin(i, ranges=ranges) for i in first]
    right = [to_lin(i, ranges=ranges) for i in second]
    for x, y in zip(left, right):
        low, high = ranges.interval(x - y)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return True
        if x == y and _separates(x, loop, outer, ranges):
            return True
    flat = _flat(buffer, left)
    if flat == _flat(buffer, right) and _separates(flat, loop, outer, ranges):
        return True
    return not _collide(loop, position, a, first, b, second, buffer)


def _separates(lin: Lin, loop: For, outer: set[Axis], ranges: Ranges) -> bool:
    """Return whether ``lin`` differs between iterations of ``loop`` for all loops inside."""
    own = 0
    inner: list[tuple[int, Lin]] = []
    for product, coef in lin.terms.items():
        axes = {leaf for leaf in Lin({product: 1}).leaves() if isinstance(leaf, Axis)} - outer
        if not axes:
            continue
        if loop.axis in axes:
            if product != (loop.axis,):
                return False
            own = coef
        else:
            inner.append((coef, Lin({product: coef})))
    if own == 0:
        return False
    extent = to_lin(loop.extent).const
    if extent == 0:
        return True
    fine = [part for coef, part in inner if extent is None or coef % (own * extent)]
    low, high = ranges.interval(total(fine))
    return low is not None and high is not None and high - low < abs(own)


def _collide(
    loop: For, position: int, a: Site, first: Sequence[Expr], b: Site, second: Sequence[Expr],
    buffer: Buffer,
) -> bool:  # fmt: skip
    """Return whether two iterations of ``loop`` are shown to reach one element; else False."""
    if buffer.size is None or any(not isinstance(e, int) for e in buffer.shape):
        # with sizes unknown, an index that ignores the loop is the same for all of its iterations
        return (
            first is second
            and not any(n is loop.axis for i in first for n in postorder([i]))
            and not any(n is loop.axis for g in a.guards for n in postorder([g.cond]))
        )
    reached = []
    for site, indices in ((a, first), (b, second)):
        axes: list[Expr] = [x.axis for x in site.loops[: position + 1]]
        found = _grid(site.loops, [g.cond for g in site.guards], [*indices, *axes])
        if found is None:
            return False
        values, count = found
        rows = [np.broadcast_to(values[x.axis], (count,)) for x in site.loops[: position + 1]]
        at = [np.broadcast_to(evaluate(i, values), (count,)) for i in indices]
        shape = (*(int(x.extent) for x in site.loops[:position]), *buffer.shape)
        key = (
            np.ravel_multi_index((*rows[:-1], *at), shape, mode="clip")
            if shape
            else np.zeros(count, int)
        )
        reached.append((key, rows[-1]))
    return _meet(*reached[0], *reached[1], prod(shape))  # type: ignore[arg-type]


def _meet(key: Any, at: Any, other_key: Any, other_at: Any, size: int) -> bool:
    """Return whether different iterations reach one element, of ``size``, on either side."""
    if size > MOST_POINTS:
        found, numbers = np.unique(np.concatenate([key, other_key]), return_inverse=True)
        key, other_key = np.split(numbers.reshape(-1), [len(key)])
        size = len(found)
    who, other_who = np.full(size, -1), np.full(size, -1)
    # of several iterations the last one stays; the others then differ from it on the other side
    who[key], other_who[other_key] = at, other_at
    met, other_met = other_who[key], who[other_key]
    return bool(
        ((met >= 0) & (met != at)).any() or ((other_met >= 0) & (other_met != other_at)).any()
    )


__all__ = ["Site", "check_finalised", "check_races", "leaves_bounds"]
