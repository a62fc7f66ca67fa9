"""Decide whether different threads of a block may reach one element, and so need a barrier.

The proof compares the indices of two accesses, else enumerates all threads and elements. An access
that cannot be proven apart counts as a collision.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Div, Lin, Mod, Product
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.simplify import merge_div_mod, to_lin
from schedlang.gpu_lowering.enumeration import others, reached
from schedlang.gpu_lowering.program import Launch
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import flat


@dataclass(frozen=True, eq=False)
class Access:
    """A read or write of shared storage, with the loops and tests around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stage: str
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Between:
    """The surroundings that two accesses share: the threads, and the loops around both.

    Both accesses are in the same iteration of the loops ``same``, the second is one ahead in
    ``moving``, and they are in different iterations of ``apart``.
    """

    launch: Launch
    same: Sequence[For]
    moving: Sequence[For] = ()
    apart: For | None = None

    @property
    def threads(self) -> dict[Axis, int]:
        return {i.axis: int(i.extent) for i in self.launch.block}


def collide(a: Access, b: Access, between: Between) -> bool:
    """Return whether different threads may reach one element, one by ``a`` and one by ``b``."""
    return not any(_apart(a, b, x, y, between) for x, y in _forms(a, b))


Indices = Sequence[Lin]


def _forms(a: Access, b: Access) -> Iterable[tuple[Indices, Indices]]:
    """Return the indices of both in each equivalent form: equal indices mean one element."""
    left, right = ([to_lin(i) for i in access.indices] for access in (a, b))
    yield left, right
    if any(isinstance(atom, (Div, Mod)) for lin in (*left, *right) for atom in lin.atoms()):
        # a fused axis is the row and the column of an element together
        yield tuple([merge_div_mod(flat(x.buffer, x.indices))] for x in (a, b))  # type: ignore[misc]


def _apart(a: Access, b: Access, left: Indices, right: Indices, between: Between) -> bool:
    """Return whether ``left`` and ``right`` reach no element by different threads."""
    loops = (*a.loops, *b.loops)
    # how often a loop runs may be known at the call only
    uncounted = {x.axis for x in loops if not isinstance(x.extent, int)}
    fixed = {x.axis for x in between.same} & uncounted
    free = {*between.threads, *(x.axis for x in loops)} - fixed
    loose = free - {x.axis for x in (*between.same, *between.moving)}
    step: dict[Axis | Var, Lin] = {x.axis: Lin.of(x.axis) + 1 for x in between.moving}
    ranges = _ranges(between.launch, a.loops), _ranges(between.launch, b.loops)
    pairs = _digits(left, right, ranges, free)
    if any(_differ(x, y.substitute(step), loose) for x, y in pairs):
        return True
    if between.apart is not None and any(_counts(between.apart.axis, x, y) for x, y in pairs):
        return True
    pairs = _bounded(_without_alike(pairs, free), uncounted - fixed)
    threads = set(between.threads)
    of_threads = [pair for pair in pairs if threads & _leaves_of(pair)]
    tries = [of_threads, pairs] if len(of_threads) < len(pairs) else [pairs]
    return any(_tried_apart(a, b, some, between) for some in tries)


def _tried_apart(a: Access, b: Access, pairs: Sequence[tuple[Lin, Lin]], between: Between) -> bool:
    """Return whether enumeration shows that no two threads have equal ``pairs``."""
    keys = [x for x in between.same if any(x.axis in _leaves_of(pair) for pair in pairs)]
    one = reached(a.loops, a.tests, [x for x, _ in pairs], keys, between.threads)
    two = reached(b.loops, b.tests, [y for _, y in pairs], keys, between.threads)
    return one is not None and two is not None and not others(one, two)


def _leaves_of(pair: tuple[Lin, Lin]) -> set[Any]:
    return {leaf for lin in pair for leaf in lin.leaves()}


def _ranges(launch: Launch, loops: Iterable[For]) -> Ranges:
    extents = {i.axis: i.extent for i in launch.indices} | {x.axis: x.extent for x in loops}
    return Ranges({axis: (ZERO, to_lin(extent) - 1) for axis, extent in extents.items()})


def _digits(
    left: Indices, right: Indices, ranges: tuple[Ranges, Ranges], free: Container[Expr]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if the indices are: ``x`` and ``y`` of ``n*x + y`` if ``y < n``.

    ``n`` is the same number for both accesses. Each access has its own loops and ``ranges``.
    """
    found: list[tuple[Lin, Lin]] = []
    one, other = ranges
    for x, y in zip(left, right):
        sizes = (s for s in _sizes(x, y, free) if _fits(x, s, one) and _fits(y, s, other))
        size = next(sizes, None)
        if size is None:
            found.append((x, y))
            continue
        (more, rest), (others, last) = _parted(x, size), _parted(y, size)
        found += [*_digits([more], [others], ranges, free), (rest, last)]
    return found


def _sizes(x: Lin, y: Lin, free: Container[Expr]) -> list[Lin]:
    """Return the candidates that terms of both may be multiples of: numbers and sizes of loops."""
    numbers = [{abs(c) for p, c in lin.terms.items() if p and abs(c) > 1} for lin in (x, y)]
    atoms = [{atom for p in lin.terms if len(p) > 1 for atom in p} for lin in (x, y)]
    sizes = [atom for atom in atoms[0] & atoms[1] if _alike((atom,), free)]
    return [*map(Lin.of, sorted(numbers[0] & numbers[1])), *map(Lin.of, sizes)]


def _fits(lin: Lin, size: Lin, ranges: Ranges) -> bool:
    """Return whether the part that is no multiple of ``size`` lies in ``0..size``."""
    more, rest = _parted(lin, size)
    return bool(more.terms) and ranges.nonneg(rest) and ranges.nonneg(size - 1 - rest)


def _parted(lin: Lin, size: Lin) -> tuple[Lin, Lin]:
    """Return ``x`` and ``y`` with ``lin == size*x + y``."""
    number, more, rest = size.const, ZERO, ZERO
    for product, coef in lin.terms.items():
        if number is None:
            ((atom,),) = size.terms
            at = [n for n, f in enumerate(product) if type(f) is type(atom) and f == atom]
            others = (*product[: at[0]], *product[at[0] + 1 :]) if len(at) == 1 else ()
            times, left = (coef, 0) if len(at) == 1 else (0, coef)
        else:
            others = product
            times, left = divmod(coef, number) if not product or coef % number == 0 else (0, coef)
        more = more + (Lin({others: times}) if times else 0)
        rest = rest + (Lin({product: left}) if left else 0)
    return more, rest


def _without_alike(
    pairs: Iterable[tuple[Lin, Lin]], free: Container[Expr]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without the terms that both sides share.

    A term that depends on no ``free`` axis is the same number for both: the block, sizes, loops of
    the host. A dimension that has such a term on one side only is dropped.
    """
    found = []
    for x, y in pairs:
        first, second = (
            Lin({p: c for p, c in lin.terms.items() if p and _alike(p, free)}) for lin in (x, y)
        )
        if first == second:
            found.append((x - first, y - second))
    return found


def _alike(product: Product, free: Container[Expr]) -> bool:
    return all(isinstance(n, (Axis, Var)) and n not in free for n in _of(product))


def _of(product: Product) -> Iterable[Any]:
    return Lin({product: 1}).leaves()


def _counts(axis: Axis, x: Lin, y: Lin) -> bool:
    """Return whether two indices have the same multiple of ``axis``, so iterations never meet."""
    terms = [p for p in x.terms if p]
    return (x - y).const == 0 and terms == [(axis,)]


def _bounded(pairs: Iterable[tuple[Lin, Lin]], uncounted: set[Axis]) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without some loops.

    ``c*i + x`` and ``c*j + y`` are equal only where ``x`` and ``y`` leave one remainder modulo
    ``c``. Dimensions without that form are dropped.
    """
    found = []
    for x, y in pairs:
        steps = [
            (p, c) for lin in (x, y) for p, c in lin.terms.items()
            if any(map(uncounted.__contains__, _of(p)))
        ]  # fmt: skip
        if not steps:
            found.append((x, y))
            continue
        size = gcd(*(c for _, c in steps))
        if size == 1 or not all(len(p) == 1 and isinstance(p[0], Axis) for p, _ in steps):
            continue
        rests = [
            Lin({p: c for p, c in lin.terms.items() if not uncounted & set(_of(p))})
            for lin in (x, y)
        ]
        one, other = (Lin.of(Mod(rest, Lin.of(size))) for rest in rests)
        found.append((one, other))
    return found


def _differ(x: Lin, y: Lin, loose: Container[Expr]) -> bool:
    """Return whether two indices are never equal while all but the axes ``loose`` are the same."""
    if not all(_alike(p, loose) for p in (*x.terms, *y.terms)):
        return False
    apart = (x - y).const
    if apart is not None:
        return apart != 0
    one, other = _remainder(x), _remainder(y)
    if one is None or other is None or one.den != other.den:
        return False
    gap, size = (one.num - other.num).const, one.den.const
    return gap is not None and size is not None and gap % size != 0


def _remainder(lin: Lin) -> Mod | None:
    """Return ``lin`` as a remainder, if it is one."""
    if len(lin.terms) != 1:
        return None
    ((product, coef),) = lin.terms.items()
    single = len(product) == 1 and coef == 1 and isinstance(product[0], Mod)
    return product[0] if single else None  # type: ignore[return-value]


__all__ = ["Access", "Between", "collide"]
