"""Trimming: loops over ragged ranges run over the range, and not over the whole box around it.

The conditions of a ragged range stand at the innermost statement. Here each serial loop all of
whose effects are under such a condition gets a test of its own variable, the weakest that follows
from it: ``k < i + 1`` around a split by 8 becomes ``k.outer < (i + 8)//8``. What prints or runs the
loop takes these tests as its range (:mod:`schedlang.ir.trimmed`). Halide does so for the predicates
of an ``RDom`` (``TrimNoOps.cpp``, ``BoundsInference``'s ``simplify_predicates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from schedlang.compute.facts import span_of
from schedlang.expr.nodes import ArrayRead, Axis, Binary
from schedlang.expr.visit import axes_in
from schedlang.index.conditions import compares_indices
from schedlang.index.elements import Elements
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.relax import lower, relax, upper
from schedlang.index.rules import floordiv
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import accesses, loads, written_buffers
from schedlang.ir.findings import Findings
from schedlang.ir.nodes import Block, Buffer, For, If, Load, Stmt, Store, held_statements, walk
from schedlang.ir.rewrite import replace_statements, storage, with_each

Facts = frozenset[Lin]


def trim(block: Block, findings: Findings) -> Block:
    """Return ``block`` with the loops over ragged ranges trimmed.

    ``findings`` are about other nests with the same statements.
    """
    tests = [
        test
        for stmt in block.stmts
        for test in findings.once(("limits", stmt), partial(_limits, stmt))
    ]
    if not tests:
        return block
    trimmer = _Trimmer(Elements(_buffer, lambda read: span_of(_buffer(read).tensor)))
    for test in tests:
        trimmer.note_limit(test)
    return trimmer.block(block, _Place(Ranges()))


def _limits(stmt: Stmt) -> list[If]:
    """Return the conditions of ragged ranges in a statement."""
    return [s for s, _ in walk(stmt) if isinstance(s, If) and s.limit is not None]


def _buffer(read: ArrayRead) -> Buffer:
    assert isinstance(read, Load)
    return read.buffer


@dataclass(frozen=True)
class _Place:
    """The ranges of the loops around, the range conditions that hold, and the threads around."""

    ranges: Ranges
    held: Facts = frozenset()
    threads: tuple[For, ...] = ()
    in_kernel: bool = False

    def inside(self, loop: For) -> _Place:
        ranges = self.ranges.extended(loop.axis, ZERO, to_lin(loop.extent) - 1)
        bound = loop.kind == "vthread" or loop.tag.startswith("threadIdx")
        return replace(
            self,
            ranges=ranges,
            threads=(*self.threads, loop) if bound else self.threads,
            in_kernel=self.in_kernel or loop.kind in ("thread", "vthread"),
        )


@dataclass(eq=False)
class _Trimmer:
    elements: Elements

    def note_limit(self, test: If) -> None:
        """Note that an end of a ragged range lies in its box."""
        assert isinstance(test.cond, Binary) and test.limit is not None
        end, limit = self.elements.lin(test.cond.b), to_lin(test.limit)
        if test.cond.op == "<":
            self.elements.narrow(end, None, limit)
        else:
            self.elements.narrow(end, limit, None)

    def fact(self, test: If, ranges: Ranges) -> Lin:
        """Return the polynomial that is at most 0 if the condition of a range holds."""
        cond = test.cond
        assert isinstance(cond, Binary)
        a, b = (self.elements.lin(side, ranges) for side in (cond.a, cond.b))
        return a - b + 1 if cond.op == "<" else b - a

    def block(self, block: Block, place: _Place) -> Block:
        return replace_statements(block, lambda stmt: self.stmt(stmt, place))

    def stmt(self, stmt: Stmt, place: _Place) -> Sequence[Stmt]:
        if isinstance(stmt, If):
            if stmt.limit is None:
                inside = self.block(stmt.body, place)
                return inside.stmts if self.implied(stmt, place) else [replace(stmt, body=inside)]
            fact = self.fact(stmt, place.ranges)
            inside = self.block(stmt.body, replace(place, held=place.held | {fact}))
            if fact in place.held or self.proven(-fact, place):
                return inside.stmts
            return [replace(stmt, body=inside)]
        if isinstance(stmt, For):
            return [self.loop(stmt, place)]
        return [with_each(stmt, lambda inner: self.stmt(inner, place))]

    def implied(self, test: If, place: _Place) -> bool:
        """Return whether ``test``, of a tail or ``where``, holds wherever the ranges inside do."""
        if not (test.tail or test.where) or not compares_indices(test.cond):
            return False
        if not isinstance(test.cond, Binary) or test.cond.op != "<":
            return False
        if _bounds_sums(test):
            return False
        facts = self.necessary(test, place.ranges, set()) or frozenset()
        a, b = (self.elements.lin(side, place.ranges) for side in (test.cond.a, test.cond.b))
        return self.proven(b - a - 1, replace(place, held=place.held | facts))

    def loop(self, loop: For, place: _Place) -> For:
        inside = place.inside(loop)
        tests: list[tuple[Binary, bool]] = []
        if loop.kind == "serial" and not (_holds_kernels(loop) and not place.in_kernel):
            needed_facts = self.necessary(loop.body, inside.ranges, set(storage(loop.body)))
            facts: Facts | None = self.usable(loop, needed_facts)
            together = _is_shared(loop)
            for thread in place.threads:
                # threads that wait for each other run the same iterations, and a loop over virtual
                # threads later moves into this one
                if together or thread.kind == "vthread":
                    facts = self.relaxed(facts, thread, inside.ranges)
            for fact in sorted(facts or (), key=str):
                test = self.test(loop, fact, place)
                if test is not None:
                    tests.append(test)
                    if abs(fact.terms[(loop.axis,)]) == 1:
                        inside = replace(inside, held=inside.held | {fact})
        body = self.block(loop.body, inside)
        # the start first, as in a range
        for cond, is_inside in sorted(tests, key=lambda test: test[0].op):
            bounds = "inside" if is_inside else "unknown"
            body = Block((If(cond, body, where=True, bounds=bounds),))
        return replace(loop, body=body)

    def usable(self, loop: For, facts: Facts | None) -> Facts:
        """Return the facts that can be tested before an iteration of ``loop``."""
        changed = written_buffers(loop.body).union(storage(loop.body))
        return frozenset(f for f in facts or () if changed.isdisjoint(self.buffers(f)))

    def buffers(self, fact: Lin) -> set[Buffer]:
        """Return the buffers whose elements ``fact`` depends on."""
        reads = self.elements.reads
        roots = [reads[leaf] for leaf in fact.leaves() if leaf in reads]  # type: ignore[index]
        return {load.buffer for load in loads(roots)}

    def necessary(self, stmt: Stmt, ranges: Ranges, stored: set[Buffer]) -> Facts | None:
        """Return what holds whenever ``stmt`` has an effect; ``None`` if it never has one.

        Stores to the buffers ``stored`` have none, since nothing outside reads them.
        """
        if isinstance(stmt, For):
            inner = ranges.extended(stmt.axis, ZERO, to_lin(stmt.extent) - 1)
            return self.relaxed(self.necessary(stmt.body, inner, stored), stmt, inner)
        if isinstance(stmt, If):
            facts = self.necessary(stmt.body, ranges, stored)
            if facts is None:
                return None
            if stmt.limit is not None:
                return facts | {self.fact(stmt, ranges)}
            # a guard may keep the index of an element in bounds
            axes = set(axes_in([stmt.cond]))
            return frozenset(f for f in facts if not self.reads_at(f, axes))
        if isinstance(stmt, Store):
            return None if stored.issuperset(stmt.buffers) else frozenset()
        by_part = [self.necessary(s, ranges, stored) for s in held_statements(stmt)]
        certain = [f for f in by_part if f is not None]
        return frozenset.intersection(*certain) if certain else None

    def reads_at(self, fact: Lin, axes: set[Axis]) -> bool:
        """Return whether ``fact`` depends on an element whose index depends on ``axes``."""
        reads = self.elements.reads
        roots = [reads[leaf] for leaf in fact.leaves() if isinstance(leaf, Axis) and leaf in reads]
        return not axes.isdisjoint(axes_in(roots))

    def relaxed(self, facts: Facts | None, loop: For, ranges: Ranges) -> Facts | None:
        """Return what follows from ``facts`` in some iteration of ``loop``."""
        if facts is None:
            return None
        relaxed = set()
        for fact in facts:
            if self.reads_at(fact, {loop.axis}):
                continue
            last = to_lin(loop.extent) - 1
            here = self.elements.within(ranges)
            least = relax(fact, loop.axis, ZERO, last, here, up=False)
            if least is not None:
                relaxed.add(least)
        return frozenset(relaxed)

    def test(self, loop: For, fact: Lin, place: _Place) -> tuple[Binary, bool] | None:
        """Return the test of the variable of ``loop`` that ``fact`` demands; ``None`` if it holds.

        The flag says whether its end is proven to lie in the range of the loop.
        """
        axis, extent = loop.axis, to_lin(loop.extent)
        step = fact.terms.get((axis,), 0)
        rest = fact - Lin.of(axis) * step
        if not step or self.elements.depend(rest, {axis}):
            return None
        here = self.elements.within(place.ranges)
        size = Lin.of(abs(step))
        if step > 0:
            stop = floordiv(size - rest, size, here)
            if self.proven(stop - extent, place):
                return None
            inside = self.at_most(stop, extent, place)
            return Binary("<", axis, self.elements.expr(stop), "bool"), inside
        start = floordiv(rest + (size - 1), size, here)
        if self.proven(-start, place):
            return None
        inside = self.at_most(ZERO, start, place)
        return Binary(">=", axis, self.elements.expr(start), "bool"), inside

    def proven(self, lin: Lin, place: _Place) -> bool:
        """Return whether ``lin`` is proven to be 0 or more."""
        return self.elements.within(place.ranges).assuming(tuple(place.held)).nonneg(lin)

    def at_most(self, a: Lin, b: Lin, place: _Place) -> bool:
        """Return whether ``a <= b`` is proven, also by the bounds of each over sizes alone."""
        if self.proven(b - a, place):
            return True
        here = self.elements.within(place.ranges)
        high, low = upper(a, here), lower(b, here)
        return high is not None and low is not None and here.nonneg(low - high)


def _bounds_sums(test: If) -> bool:
    """Return whether ``test`` keeps in bounds what a reduction loop inside of it updates.

    The sums of such a loop may wait in registers, and are loaded and stored even if it is empty.
    """
    loops = [s for s, _ in walk(test.body) if isinstance(s, For) and s.axis.is_reduce]
    return bool(loops) and any(not axis.is_reduce for axis in axes_in([test.cond]))


def _holds_kernels(loop: For) -> bool:
    """Return whether kernels of a GPU are inside of ``loop``, if it is a loop of the host."""
    return any(isinstance(s, For) and s.kind in ("thread", "vthread") for s, _ in walk(loop.body))


def _is_shared(loop: For) -> bool:
    """Return whether the threads of a block work together inside of ``loop``.

    Those that reduce together combine their sums after it.
    """
    for stmt, _ in walk(loop.body):
        if isinstance(stmt, For) and stmt.kind == "thread":
            if not stmt.axis.is_reduce or stmt.stage != loop.stage:
                return True
        if any(access.buffer.scope == "shared" for access in accesses(stmt)):
            return True
    return False
