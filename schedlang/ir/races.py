"""Race detection: no two concurrent iterations of a loop may access one element to write it.

A proof takes two different iterations of the loop, with arbitrary iterations of the loops inside,
and shows that they access different elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Optional

import numpy as np

from schedlang.errors import VerifyError
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.index.conditions import facts_of
from schedlang.index.linear import ZERO, Lin, Mod
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv
from schedlang.index.simplify import merge_div_mod, to_lin
from schedlang.ir.digits import coefficient
from schedlang.ir.enumeration import MOST_POINTS, grid
from schedlang.ir.nodes import Buffer, For, Load
from schedlang.ir.sites import Site, flat, orders


@dataclass(frozen=True, eq=False)
class Access:
    """An access to one element: the write of a store, or the read of a load."""

    buffer: Buffer
    site: Site
    at: tuple[Expr, ...]
    writes: bool

    @cached_property
    def indices(self) -> tuple[Lin, ...]:
        if self.writes:
            return tuple(map(merge_div_mod, self.site.indices))
        return tuple(merge_div_mod(to_lin(i, ranges=self.site.ranges)) for i in self.at)

    def place(self, order: Sequence[int]) -> Lin:
        """Return the flat position of the element in its buffer of dimensions in ``order``."""
        return flat(self.buffer, self.indices, order)


def check_races(
    loop: For, position: int, stores: Sequence[Site], loads: Sequence[tuple[Load, Site | None]]
) -> list[str]:
    """Raise if two iterations of ``loop`` access one element and one of them writes it.

    Return a sentence for each buffer whose accesses are not proven free of races.
    """
    written: dict[Buffer, list[Access]] = {}
    for site in stores:
        for buffer in site.store.buffers:
            if not _shared_by_threads(loop, buffer):
                made = Access(buffer, site, site.store.indices, True)
                written.setdefault(buffer, []).append(made)
    unproven: dict[str, None] = {}
    for a, b in _pairs(written, loads):
        apart = _differ_always(loop, position, a, b)
        if apart is False:
            raise VerifyError(_race_message(loop, a, b))
        if apart is None:
            unproven[
                f"it is not proven that the iterations of {loop.kind} loop {loop.axis.name} access "
                f"different elements of {a.buffer.name} (stage {a.site.store.stage})"
            ] = None
    return list(unproven)


def _pairs(
    written: dict[Buffer, list[Access]], loads: Sequence[tuple[Load, Site | None]]
) -> Iterator[tuple[Access, Access]]:
    """Yield each pair of accesses to one buffer, once; the first access writes."""
    for stores in written.values():
        for k, store in enumerate(stores):
            yield from ((store, other) for other in stores[k:])
    seen: set[tuple[int, Any]] = set()
    for load, reader in loads:
        assert reader is not None
        for store in written.get(load.buffer, ()):
            read = Access(load.buffer, reader, load.indices, False)
            # a loop body with many loads of one element yields the same pair many times
            key = (id(store), (id(reader), read.indices))
            if key not in seen:
                seen.add(key)
                yield store, read


def _race_message(loop: For, a: Access, b: Access) -> str:
    what = f"{a.buffer.name} is"
    by = f"of {loop.kind} loop {loop.axis.name}"
    stage = f"(stage {a.site.store.stage})"
    if not b.writes:
        return f"{what} read by one iteration {by} and written by another {stage}"
    done = "combined into" if a.site.store.reducer is not None else "written"
    return f"{what} {done} by several iterations {by} at the same element {stage}"


def _shared_by_threads(loop: For, buffer: Buffer) -> bool:
    # barriers order the accesses of a block's threads to storage they share; gpu_lowering checks it
    return loop.tag.startswith("threadIdx") and buffer.scope in ("shared", "global")


def _differ_always(loop: For, position: int, a: Access, b: Access) -> bool | None:
    """Return whether different iterations of ``loop`` access different elements.

    Return ``None`` if that is unknown.
    """
    other = _SecondIteration(loop, position, a, b)
    pairs = [*zip(a.indices, b.indices)]
    steps = [other.steps(x, y) for x, y in pairs]
    if any(map(other.quickly_differ, steps)):
        return True
    if any(other.differ_in_rolling_row(x, y) for x, y in pairs):
        return True
    if len(pairs) > 1:
        first, *rest = orders(a.buffer, (*a.indices, *b.indices))
        implied = _implied_pairs(pairs, a.site.ranges, b.site.ranges)
        joined = [(a.place(first), b.place(first)), *implied]
        further = [other.steps(x, y) for x, y in joined]
        if any(map(other.quickly_differ, further)) or any(map(other.differ, further)):
            return True
        if any(other.differ(other.steps(a.place(order), b.place(order))) for order in rest):
            return True
    if any(map(other.differ, steps)):
        return True
    if not (a.site.guards or b.site.guards) and all(map(other.meet, steps)):
        return False
    return _counted(loop, position, a, b)


def _implied_pairs(
    pairs: Sequence[tuple[Lin, Lin]], ranges: Ranges, others: Ranges
) -> list[tuple[Lin, Lin]]:
    """Return further pairs of indices that are equal if all ``pairs`` are.

    ``x // n`` and ``x % n`` yield ``x``: a packed layout ``(i // 4, j, i % 4)`` is about ``i``.
    """
    known, made = list(pairs), list(pairs)
    while made:
        found = []
        for x, y in known:
            one, two = _only_mod(x), _only_mod(y)
            if one is None or two is None or one.den != two.den or (one.num, two.num) in known:
                continue
            above = floordiv(one.num, one.den, ranges), floordiv(two.num, two.den, others)
            if above in known:
                found.append((one.num, two.num))
        known += found
        made = found
    return known[len(pairs) :]


def _only_mod(lin: Lin) -> Mod | None:
    if len(lin.terms) != 1:
        return None
    ((product, coef),) = lin.terms.items()
    atom = product[0] if len(product) == 1 and coef == 1 else None
    return atom if isinstance(atom, Mod) else None


# the difference of an index in two iterations as ``step*(v - v') + rest``: ``(step, rest)``
Steps = Optional[tuple[Lin, Lin]]


class _SecondIteration:
    """A second iteration of ``loop``, with its own variables for that loop and the loops inside."""

    def __init__(self, loop: For, position: int, a: Access, b: Access) -> None:
        self.loop, self.sites = loop, (a.site, b.site)
        self.extent = to_lin(loop.extent)
        inside = [x.axis for x in b.site.loops[position:]]
        self.twins: dict[Axis | Var, Axis] = {x: replace(x, name=f"{x.name}'") for x in inside}
        self.swap: dict[Axis | Var, Lin] = {x: Lin.of(twin) for x, twin in self.twins.items()}
        self.free = {x.axis for x in a.site.loops[position:]} | set(self.twins.values())
        self.twin = self.twins[loop.axis]

    @cached_property
    def ranges(self) -> Ranges:
        a, b = self.sites
        known: dict[Axis | Var, Any] = dict(a.ranges.known)
        known |= {self.twins.get(x, x): span for x, span in b.ranges.known.items()}
        return Ranges(known)

    @cached_property
    def known(self) -> Ranges:
        """The ranges, narrowed by the guards around both accesses."""
        a, b = self.sites
        facts = [f for g in a.guards for f in facts_of(g.cond, True, a.ranges)]
        facts += [
            f.substitute(self.swap) for g in b.guards for f in facts_of(g.cond, True, b.ranges)
        ]
        # the statement runs, so each loop around it has at least one iteration
        symbolic = {x.extent for x in (*a.loops, *b.loops) if isinstance(x.extent, Expr)}
        facts += [Lin.of(1) - to_lin(extent) for extent in symbolic]
        return self.ranges.assuming(tuple(facts)) if facts else self.ranges

    def quickly_differ(self, steps: Steps) -> bool:
        """Return whether the loop bounds alone prove that an index differs; see :meth:`differ`."""
        if steps is None:
            return False
        step, rest = self._with_positive_step(steps)
        size = step.const
        if size is None:
            return False
        low, high = self.ranges.interval(rest)
        if size == 0:
            return (low is not None and low > 0) or (high is not None and high < 0)
        return low is not None and high is not None and -size < low and high < size

    def differ_in_rolling_row(self, x: Lin, y: Lin) -> bool:
        """Return whether ``x`` and ``y`` are different rows of a rolling buffer.

        They are ``t % n`` and ``(t + d) % n``, where ``d`` is no multiple of ``n``.
        """
        one, two = _only_mod(x), _only_mod(y)
        if one is None or two is None or one.den != two.den or not one.den.const:
            return False
        apart = (one.num - two.num.substitute(self.swap)).const
        return apart is not None and apart % one.den.const != 0

    def differ(self, steps: Steps) -> bool:
        """Return whether an index provably differs between the two iterations.

        ``step*(v - v') + rest`` is not 0 if ``rest`` is smaller than ``step``. Multiples of
        ``step*extent`` in ``rest`` do not matter.
        """
        if steps is None:
            return False
        step, rest = self._with_positive_step(steps)
        if step == ZERO:
            return self.known.nonneg(rest - 1) or self.known.nonneg(-rest - 1)
        return self.known.nonneg(step - 1 - rest) and self.known.nonneg(step - 1 + rest)

    def meet(self, steps: Steps) -> bool:
        """Return whether the index is provably equal in some pair of different iterations."""
        if steps is None:
            return False
        (step, rest), most = steps, self.extent.const
        if step == ZERO:
            return rest == ZERO and (most is None or most > 1)
        if step.const is None or rest.const is None or rest.const % step.const:
            return False
        apart = abs(rest.const // step.const)
        return apart > 0 and (most is None or apart < most)

    def steps(self, x: Lin, y: Lin) -> Steps:
        own, mine = coefficient(x, self.loop.axis)
        other, theirs = coefficient(y.substitute(self.swap), self.twin)
        if own is None or other is None or own != other:
            return None
        return own, mine - theirs

    def _with_positive_step(self, steps: tuple[Lin, Lin]) -> tuple[Lin, Lin]:
        step, rest = steps
        if step == ZERO:
            return steps
        if (step.const or 0) < 0:
            step = -step
        return step, self._without_periods(rest, step)

    def _without_periods(self, rest: Lin, step: Lin) -> Lin:
        """Return ``rest`` without terms of inner loops that are multiples of ``step*extent``."""
        whole = (step * self.extent).const
        kept = {}
        for product, coef in rest.terms.items():
            free = any(leaf in self.free for leaf in Lin({product: 1}).leaves())
            if not free or not whole or coef % whole:
                kept[product] = coef
        return Lin(kept)


def _counted(loop: For, position: int, a: Access, b: Access) -> bool | None:
    """Return whether different iterations access different elements, by enumeration.

    Return ``None`` if there are too many iterations.
    """
    buffer = a.buffer
    if buffer.size is None or any(not isinstance(e, int) for e in buffer.shape):
        return None
    reached = []
    for access in (a, b):
        site = access.site
        around = site.loops[: position + 1]
        axes: list[Expr] = [x.axis for x in around]
        found = grid(site.loops, [g.cond for g in site.guards], [*access.at, *axes])
        if found is None:
            return None
        values, count = found
        rows = [np.broadcast_to(values[x.axis], (count,)) for x in around]
        at = [np.broadcast_to(evaluate(i, values), (count,)) for i in access.at]
        shape = (*(int(x.extent) for x in site.loops[:position]), *buffer.shape)
        key = (
            np.ravel_multi_index((*rows[:-1], *at), shape, mode="clip")
            if shape
            else np.zeros(count, int)
        )
        reached.append((key, rows[-1]))
    return not _collide(*reached[0], *reached[1], prod(shape))  # type: ignore[arg-type]


def _collide(key: Any, at: Any, other_key: Any, other_at: Any, size: int) -> bool:
    """Return whether different iterations of the two accesses reach one of ``size`` elements."""
    if size > MOST_POINTS:
        found, numbers = np.unique(np.concatenate([key, other_key]), return_inverse=True)
        key, other_key = np.split(numbers.reshape(-1), [len(key)])
        size = len(found)
    iteration_at, other_iteration_at = np.full(size, -1), np.full(size, -1)
    # only the last iteration is kept of several; the others then mismatch on the other side
    iteration_at[key], other_iteration_at[other_key] = at, other_at
    met, other_met = other_iteration_at[key], iteration_at[other_key]
    return bool(
        ((met >= 0) & (met != at)).any() or ((other_met >= 0) & (other_met != other_at)).any()
    )


__all__ = ["check_races"]
