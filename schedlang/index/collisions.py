"""Proofs that different threads of a block never reach one element."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.accesses import Access, meet_by_enumeration, related_axes
from schedlang.index.digits import equal_digits, is_common, varies
from schedlang.index.iterations import SecondIteration, differ_modulo
from schedlang.index.linear import Lin, Mod


@dataclass(frozen=True, eq=False)
class Between:
    """The context that two accesses share: the extents of the threads, and the loops around both.

    Both accesses are in the same iteration of the loops ``same``. The second is one iteration
    ahead in the loops ``moving``. They are in different iterations of ``apart``.
    """

    threads: Mapping[Axis, int]
    same: Sequence[Axis]
    moving: Sequence[Axis] = ()
    apart: Axis | None = None


def never_meet(a: Access, b: Access, between: Between) -> bool:
    """Return whether no two different threads reach one element, one by ``a`` and one by ``b``.

    The loops of an access include the threads. ``False`` means that this is not proven.

    >>> from schedlang.index.ranges import Ranges
    >>> t, u = Axis("t", 32), Lin.of(32)
    >>> own, next_ = (Access((Lin.of(t) + k,), ((t, u),), (), Ranges()) for k in (0, 1))
    >>> block = Between({t: 32}, [])
    >>> never_meet(own, own, block), never_meet(own, next_, block)
    (True, False)
    """
    loops = dict((*a.loops, *b.loops))
    # a loop may have a symbolic extent
    uncounted = {axis for axis, extent in loops.items() if extent.const is None}
    fixed = {axis for axis in between.same if axis in uncounted}
    free = {*between.threads, *loops} - fixed
    loose = free - {*between.same, *between.moving}
    step: dict[Axis | Var, Lin] = {axis: Lin.of(axis) + 1 for axis in between.moving}
    digits = equal_digits(
        a.indices, b.indices, (a.ranges, b.ranges), lambda atom: is_common((atom,), free)
    )
    if any(_differ(x, y.substitute(step), loose) for x, y in digits):
        return True
    if between.apart is not None:
        second = SecondIteration(between.apart, a, b, free - {*between.same})
        if any(second.differ(second.steps(x, y)) for x, y in digits):
            return True
    pairs = _modulo_uncounted(_without_common_terms(digits, free), uncounted - fixed)
    threads = list(between.threads)
    of_threads = [pair for pair in pairs if related_axes(threads, [pair])]
    tries = [of_threads, pairs] if len(of_threads) < len(pairs) else [pairs]
    return any(
        meet_by_enumeration(a, b, some, related_axes(between.same, some), between.threads) is False
        for some in tries
    )


def _without_common_terms(
    pairs: Iterable[tuple[Lin, Lin]], free: Container[Expr]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without the terms that both sides share.

    A term without ``free`` axes is the same number for both: it depends on the block, on sizes or
    on loops of the host. A pair whose sides differ in such terms is dropped.
    """
    reduced = []
    for x, y in pairs:
        first, second = (
            Lin({p: c for p, c in lin.terms.items() if p and is_common(p, free)}) for lin in (x, y)
        )
        if first == second:
            reduced.append((x - first, y - second))
    return reduced


def _modulo_uncounted(
    pairs: Iterable[tuple[Lin, Lin]], uncounted: set[Axis]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without the loops ``uncounted``.

    ``c*i + x`` equals ``c*j + y`` only if ``x`` and ``y`` have the same remainder modulo ``c``.
    Pairs without that form are dropped.
    """
    reduced = []
    for x, y in pairs:
        steps = [
            (p, c) for lin in (x, y) for p, c in lin.terms.items() if varies(Lin({p: 1}), uncounted)
        ]
        if not steps:
            reduced.append((x, y))
            continue
        size = gcd(*(c for _, c in steps))
        if size == 1 or not all(len(p) == 1 and isinstance(p[0], Axis) for p, _ in steps):
            continue
        rests = [
            Lin({p: c for p, c in lin.terms.items() if not varies(Lin({p: 1}), uncounted)})
            for lin in (x, y)
        ]
        one, other = (Lin.of(Mod(rest, Lin.of(size))) for rest in rests)
        reduced.append((one, other))
    return reduced


def _differ(x: Lin, y: Lin, loose: Container[Expr]) -> bool:
    """Return whether two indices, which must not depend on the axes ``loose``, always differ."""
    if not all(is_common(p, loose) for p in (*x.terms, *y.terms)):
        return False
    apart = (x - y).const
    return differ_modulo(x, y) if apart is None else apart != 0
