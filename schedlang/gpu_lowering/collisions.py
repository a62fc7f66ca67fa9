"""Collisions: whether different threads of a block may reach one element, and need a barrier.

A proof compares the indices of two accesses, or else enumerates all threads and elements. Two
accesses that cannot be proven disjoint count as a collision.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gpu_lowering.enumeration import reached, share_element
from schedlang.gpu_lowering.program import Launch
from schedlang.index.linear import ZERO, Div, Lin, Mod, Product
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import merge_div_mod, to_lin
from schedlang.ir.nodes import Buffer, For
from schedlang.ir.offsets import flat


@dataclass(frozen=True, eq=False)
class Access:
    """A read or write of shared storage, with the loops and conditions around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stage: str
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Between:
    """The context that two accesses share: the threads, and the loops around both.

    Both accesses are in the same iteration of the loops ``same``. The second is one iteration
    ahead in the loops ``moving``. They are in different iterations of ``apart``.
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
    """Yield the indices of both accesses in each form; equal indices mean one element."""
    left, right = ([to_lin(i) for i in access.indices] for access in (a, b))
    yield left, right
    if any(isinstance(atom, (Div, Mod)) for lin in (*left, *right) for atom in lin.atoms()):
        # the row and the column of an element may come from one fused axis
        yield tuple([merge_div_mod(flat(x.buffer, x.indices))] for x in (a, b))  # type: ignore[misc]


def _apart(a: Access, b: Access, left: Indices, right: Indices, between: Between) -> bool:
    """Return whether no two threads reach one element, by ``left`` and by ``right``."""
    loops = (*a.loops, *b.loops)
    # a loop may have a symbolic extent
    uncounted = {x.axis for x in loops if not isinstance(x.extent, int)}
    fixed = {x.axis for x in between.same} & uncounted
    free = {*between.threads, *(x.axis for x in loops)} - fixed
    loose = free - {x.axis for x in (*between.same, *between.moving)}
    step: dict[Axis | Var, Lin] = {x.axis: Lin.of(x.axis) + 1 for x in between.moving}
    ranges = _ranges(between.launch, a.loops), _ranges(between.launch, b.loops)
    pairs = _digits(left, right, ranges, free)
    if any(_differ(x, y.substitute(step), loose) for x, y in pairs):
        return True
    if between.apart is not None and any(_same_step(between.apart.axis, x, y) for x, y in pairs):
        return True
    pairs = _modulo_uncounted(_without_common_terms(pairs, free), uncounted - fixed)
    threads = set(between.threads)
    of_threads = [pair for pair in pairs if threads & _leaves_of(pair)]
    tries = [of_threads, pairs] if len(of_threads) < len(pairs) else [pairs]
    return any(_enumerated_apart(a, b, some, between) for some in tries)


def _enumerated_apart(
    a: Access, b: Access, pairs: Sequence[tuple[Lin, Lin]], between: Between
) -> bool:
    """Return whether enumeration shows that no two threads have equal ``pairs``."""
    keys = [x for x in between.same if any(x.axis in _leaves_of(pair) for pair in pairs)]
    one = reached(a.loops, a.tests, [x for x, _ in pairs], keys, between.threads)
    two = reached(b.loops, b.tests, [y for _, y in pairs], keys, between.threads)
    return one is not None and two is not None and not share_element(one, two)


def _leaves_of(pair: tuple[Lin, Lin]) -> set[Any]:
    return {leaf for lin in pair for leaf in lin.leaves()}


def _ranges(launch: Launch, loops: Iterable[For]) -> Ranges:
    extents = {i.axis: i.extent for i in launch.indices} | {x.axis: x.extent for x in loops}
    return Ranges({axis: (ZERO, to_lin(extent) - 1) for axis, extent in extents.items()})


def _digits(
    left: Indices, right: Indices, ranges: tuple[Ranges, Ranges], free: Container[Expr]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if the indices are, by digits: ``n*x + y`` yields ``x``, ``y``.

    ``n`` is the same number for both accesses, and ``0 <= y < n``. Each access has its own loops
    and ``ranges``.
    """
    found: list[tuple[Lin, Lin]] = []
    one, other = ranges
    for x, y in zip(left, right):
        sizes = (s for s in _sizes(x, y, free) if _fits(x, s, one) and _fits(y, s, other))
        size = next(sizes, None)
        if size is None:
            found.append((x, y))
            continue
        (more, rest), (others, last) = _divided(x, size), _divided(y, size)
        found += [*_digits([more], [others], ranges, free), (rest, last)]
    return found


def _sizes(x: Lin, y: Lin, free: Container[Expr]) -> list[Lin]:
    """Return candidates for the weight of a digit: factors of terms in both indices."""
    numbers = [{abs(c) for p, c in lin.terms.items() if p and abs(c) > 1} for lin in (x, y)]
    atoms = [{atom for p in lin.terms if len(p) > 1 for atom in p} for lin in (x, y)]
    sizes = [atom for atom in atoms[0] & atoms[1] if _is_common((atom,), free)]
    return [*map(Lin.of, sorted(numbers[0] & numbers[1])), *map(Lin.of, sizes)]


def _fits(lin: Lin, size: Lin, ranges: Ranges) -> bool:
    """Return whether the part of ``lin`` that is no multiple of ``size`` lies in ``0..size``."""
    more, rest = _divided(lin, size)
    return bool(more.terms) and ranges.nonneg(rest) and ranges.nonneg(size - 1 - rest)


def _divided(lin: Lin, size: Lin) -> tuple[Lin, Lin]:
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


def _without_common_terms(
    pairs: Iterable[tuple[Lin, Lin]], free: Container[Expr]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without the terms that both sides share.

    A term without ``free`` axes is the same number for both: it depends on the block, on sizes or
    on loops of the host. A pair whose sides differ in such terms is dropped.
    """
    found = []
    for x, y in pairs:
        first, second = (
            Lin({p: c for p, c in lin.terms.items() if p and _is_common(p, free)}) for lin in (x, y)
        )
        if first == second:
            found.append((x - first, y - second))
    return found


def _is_common(product: Product, free: Container[Expr]) -> bool:
    return all(isinstance(n, (Axis, Var)) and n not in free for n in _leaves_of_product(product))


def _leaves_of_product(product: Product) -> Iterable[Any]:
    return Lin({product: 1}).leaves()


def _same_step(axis: Axis, x: Lin, y: Lin) -> bool:
    """Return whether both indices are ``axis`` times one factor, so that iterations differ."""
    terms = [p for p in x.terms if p]
    return (x - y).const == 0 and terms == [(axis,)]


def _modulo_uncounted(
    pairs: Iterable[tuple[Lin, Lin]], uncounted: set[Axis]
) -> list[tuple[Lin, Lin]]:
    """Return pairs that are equal if ``pairs`` are, without the loops ``uncounted``.

    ``c*i + x`` equals ``c*j + y`` only if ``x`` and ``y`` have the same remainder modulo ``c``.
    Pairs without that form are dropped.
    """
    found = []
    for x, y in pairs:
        steps = [
            (p, c) for lin in (x, y) for p, c in lin.terms.items()
            if any(map(uncounted.__contains__, _leaves_of_product(p)))
        ]  # fmt: skip
        if not steps:
            found.append((x, y))
            continue
        size = gcd(*(c for _, c in steps))
        if size == 1 or not all(len(p) == 1 and isinstance(p[0], Axis) for p, _ in steps):
            continue
        rests = [
            Lin({p: c for p, c in lin.terms.items() if not uncounted & set(_leaves_of_product(p))})
            for lin in (x, y)
        ]
        one, other = (Lin.of(Mod(rest, Lin.of(size))) for rest in rests)
        found.append((one, other))
    return found


def _differ(x: Lin, y: Lin, loose: Container[Expr]) -> bool:
    """Return whether two indices, which must not depend on the axes ``loose``, always differ."""
    if not all(_is_common(p, loose) for p in (*x.terms, *y.terms)):
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
    """Return ``lin`` as a ``Mod``, if it is a single one."""
    if len(lin.terms) != 1:
        return None
    ((product, coef),) = lin.terms.items()
    single = len(product) == 1 and coef == 1 and isinstance(product[0], Mod)
    return product[0] if single else None  # type: ignore[return-value]


__all__ = ["Access", "Between", "collide"]
