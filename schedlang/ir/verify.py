"""The verifier, which checks every nest that is built.

A nest must be well-formed. Every access must be in bounds. Each output element must be finalised
once. Loops whose iterations run concurrently must be free of races: if an iteration of a
``parallel``, ``vectorize``, ``vthread`` or thread loop writes an element, no other iteration of
that loop accesses it. Atomic updates of one element do not race with each other.

The verifier first looks for a proof from the structure of the nest (``ir/cover.py``,
``ir/races.py``). Such a proof costs the same at any size and covers symbolic sizes.

* It reads an index as a mixed-radix number whose digits are the loops around it. A guard restricts
  the range of a digit, or combines several digits into one. The two parts of a cut loop are joined.
  A loop of fused axes is one digit of the element's position, if the dimensions are taken in the
  order of the axes. Otherwise it is several digits, which ``f // n`` and ``f % n`` select; each
  divisor must be a multiple of the one before, and the loop's extent of all. Both may be symbolic.
  If such a loop is split, its parts become one number first.
* For races, it compares one index in two different iterations. The difference is
  ``step*(v - v') + rest``, which is not 0 if ``rest`` is smaller than ``step``. Two equal indices
  have equal digits, and a fused loop whose quotients and remainders are all equal is in the same
  iteration.

If there is no such proof, the verifier enumerates, up to the limits of ``index/enumeration.py``. In
the end each rule is proven, refuted (a :class:`~schedlang.errors.VerifyError`), or open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schedlang.compute.read import Read
from schedlang.errors import OutOfBoundsError, VerifyError, explain
from schedlang.expr.dtypes import LARGEST_BYTES
from schedlang.expr.evaluation_order import evaluations, under
from schedlang.expr.nodes import Axis, Const, Expr, Select, Var
from schedlang.expr.visit import postorder
from schedlang.index.conditions import extent_inside, facts_of, facts_of_extent
from schedlang.index.intervals import inside, of_expression
from schedlang.index.linear import Lin, Opaque
from schedlang.index.positive import at_least_one, divisors
from schedlang.index.quotients import within
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import Site
from schedlang.ir.cover import check_finalised
from schedlang.ir.enumeration import leaves_bounds
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    LOOP_KINDS,
    Alloc,
    Block,
    Buffer,
    Fetch,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    held_statements,
)
from schedlang.ir.predicate_threads import BOUND, kernel_tags
from schedlang.ir.printer import expr_text
from schedlang.ir.races import check_races

TOGETHER = ("parallel", "vectorize", "vthread", "thread")


@dataclass(frozen=True)
class Unproven:
    """An index that was not proven to lie in ``0..extent``.

    ``exact`` is false if the index or a condition around it depends on data, which only a run
    knows. ``sized`` is true if it depends on sizes. ``loops`` and ``tests`` are the loops and the
    conditions around it, and ``stores`` is true if an element is written.
    """

    buffer: Buffer
    position: int
    index: Expr
    stage: str
    exact: bool = True
    sized: bool = False
    loops: tuple[For, ...] = ()
    tests: tuple[Expr, ...] = ()
    stores: bool = False

    @property
    def needs_sizes(self) -> bool:
        """True if the sizes of a call can decide it: it depends on sizes and not on data."""
        return self.exact and self.sized

    def refusal(self, what: str) -> str:
        """Return the message that refuses ``what`` (a build or a call) for this index."""
        name, extent = self.buffer.name, self.buffer.shape[self.position]
        return explain(
            f"{what} stage {self.stage}",
            f"index {self.position} of {name}, {self.index}, cannot be proven to lie in "
            f"0..{extent}, and has too many values to check each of them",
            f"Clamp it with sl.max(0, sl.min(index, {extent} - 1)), or guard the read with "
            f"sl.if_then_else((index >= 0) & (index < {extent}), {name}[...], ...).",
        )


@dataclass(frozen=True)
class Report:
    """The properties of a nest that the verifier could neither prove nor refute.

    ``accesses`` are indices that may leave their buffer; they are checked at the call. ``open``
    holds sentences about outputs that may not be written exactly once, and loops that may race.
    """

    accesses: list[Unproven]
    open: tuple[str, ...]


def verify(nest: Nest) -> list[Unproven]:
    """Raise :class:`~schedlang.errors.VerifyError` if ``nest`` breaks a rule.

    Return the accesses that are not proven in bounds, for checks at the call.
    """
    return report(nest).accesses


def report(nest: Nest) -> Report:
    """Check ``nest`` as :func:`verify` does; return everything that is not proven."""
    first = _report(nest, counting=False)
    # proofs take less time than counting iterations
    return _report(nest, counting=True) if first.open else first


def _report(nest: Nest, counting: bool) -> Report:
    """Check ``nest``; with ``counting``, count iterations where no proof applies."""
    walker = _Walker(nest, counting)
    walker.walk()
    open_ = dict.fromkeys(walker.open)
    for output in nest.outputs:
        sites = [s for s in walker.sites if output in s.stmt.buffers]
        if not check_finalised(output, sites, counting):
            open_[
                f"it is not proven that each element of {output.name} is written exactly once"
            ] = None
    return Report(walker.unproven, tuple(open_))


class _Walker:
    """One pass over the statements, which tracks the scope of each."""

    def __init__(self, nest: Nest, counting: bool) -> None:
        self.nest = nest
        self.counting = counting
        self.ranges = Ranges()
        self.loops: list[For] = []
        self.around: list[Stmt] = []
        self.facts: list[tuple[Lin, ...]] = [()]
        self.depth: dict[Buffer, int] = {a: 0 for a in nest.args if isinstance(a, Buffer)}
        self.scalars: set[Expr] = {a for a in nest.args if isinstance(a, Var)} | set(nest.sizes)
        self.axes: set[Axis] = set()
        self.sites: list[Site] = []
        self.together: list[tuple[int, list[Site], list[tuple[Load, Site | None]]]] = []
        self.unproven: list[Unproven] = []
        self.open: list[str] = []
        self.stage = ""

    def walk(self) -> None:
        stack: list[tuple[str, Any]] = [("visit", self.nest.body)]
        while stack:
            what, item = stack.pop()
            if what == "visit":
                self.visit(item, stack)
            elif what == "loop":
                self.leave_loop(item)
            elif what == "guard":
                self.around.pop()
                self.facts.pop()
            else:
                self.forget(item)

    def visit(self, stmt: Stmt, stack: list[tuple[str, Any]]) -> None:
        if isinstance(stmt, Block):
            stack.append(("block", stmt))
        elif isinstance(stmt, Store):
            # it may stand in no loop of its stage
            self.stage = stmt.stage or self.stage
        for value in expressions(stmt):
            self.expression(value, stmt)
        if isinstance(stmt, For):
            self.enter_loop(stmt)
            stack.append(("loop", stmt))
        elif isinstance(stmt, If):
            if stmt.cond.dtype != "bool":
                self.fail(f"the condition {self.text(stmt.cond)} is {stmt.cond.dtype}")
            self.around.append(stmt)
            self.facts.append(self.facts[-1] + facts_of(stmt.cond, True, self.ranges))
            stack.append(("guard", stmt))
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, Alloc):
            if stmt.buffer in self.depth:
                self.fail(f"{stmt.buffer.name} has storage already")
            if (stmt.buffer.bytes or 0) >= LARGEST_BYTES:
                self.fail(
                    f"{stmt.buffer.name} takes {stmt.buffer.bytes} bytes of storage, more "
                    "than an address can reach"
                )
            self.depth[stmt.buffer] = len(self.loops)
        elif isinstance(stmt, Fetch):
            self.access(stmt.buffer, stmt.indices, exact=False)
        stack += [("visit", inner) for inner in reversed(held_statements(stmt))]

    def forget(self, block: Block) -> None:
        for stmt in block.stmts:
            if isinstance(stmt, Alloc):
                del self.depth[stmt.buffer]

    def enter_loop(self, loop: For) -> None:
        if loop.kind not in LOOP_KINDS:
            self.fail(f"loop {loop.axis.name} is of unknown kind {loop.kind!r}")
        if loop.again is not None and (loop.kind != "serial" or loop.again.dtype != "bool"):
            self.fail(f"loop {loop.axis.name} is {loop.kind}, and {self.text(loop.again)} ends it")
        if loop.axis in self.axes:
            self.fail(f"loop {loop.axis.name} stands inside another loop over the same variable")
        if isinstance(loop.extent, int) and loop.extent < 0:
            self.fail(f"loop {loop.axis.name} has extent {loop.extent}")
        declared = loop.axis.extent
        if isinstance(loop.extent, int) and isinstance(declared, int) and loop.extent > declared:
            # simplification relies on the axis's own extent
            self.fail(f"loop {loop.axis.name} runs to {loop.extent}, but its axis to {declared}")
        extent = extent_inside(to_lin(loop.extent))
        self.axes.add(loop.axis)
        self.ranges.learn(loop.axis, Lin.of(0), extent - 1)
        if loop.kind in TOGETHER and extent.const != 1:
            self.together.append((len(self.loops), [], []))
        self.loops.append(loop)
        self.around.append(loop)
        self.facts.append(self.facts[-1] + facts_of_extent(extent))
        self.stage = loop.stage

    def leave_loop(self, loop: For) -> None:
        self.loops.pop()
        self.around.pop()
        self.facts.pop()
        if self.together and self.together[-1][0] == len(self.loops):
            position, stores, loads = self.together.pop()
            self.open += check_races(loop, position, stores, loads, self.counting)
        self.axes.discard(loop.axis)

    def expression(self, root: Expr, stmt: Stmt) -> None:
        """Check that leaves are in scope and loads in bounds.

        Loads in a lazy branch are checked under its condition.
        """
        lazy = False
        loads: list[Load] = []
        for node in postorder([root]):
            if isinstance(node, Axis):
                if node not in self.axes and not self.is_thread_predicate(node, stmt):
                    self.fail(f"{node.name} is used outside its loop")
            elif isinstance(node, Var):
                if node not in self.scalars:
                    self.fail(f"{node.name} is not an argument and has no value here")
            elif isinstance(node, Load):
                loads.append(node)
            elif isinstance(node, Select):
                lazy = lazy or node.lazy
            elif isinstance(node, Read):
                self.fail(f"{node} has no storage")
        for load_, facts, conds in (
            _guarded(root, self.facts[-1], self.ranges)
            if lazy
            else ((load, self.facts[-1], ()) for load in loads)
        ):
            if load_.dtype != load_.buffer.dtype:
                self.fail(f"{self.text(load_)} is read as {load_.dtype}, not {load_.buffer.dtype}")
            self.access(load_.buffer, load_.indices, True, facts, conds)
        if self.together:
            here = Site(stmt, tuple(self.around)) if loads else None
            for load in loads:
                for position, _, loads_there in self.together:
                    if self.depth[load.buffer] <= position:
                        loads_there.append((load, here))

    def is_thread_predicate(self, axis: Axis, stmt: Stmt) -> bool:
        """Return whether ``stmt`` is a predicate over a thread of the kernel around it."""
        region = next((x for x in self.loops if x.kind in BOUND), None)
        named = isinstance(stmt, If) and stmt.predicate and region is not None
        return named and region is not None and axis.tag in kernel_tags(region)

    def access(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        exact: bool,
        facts: tuple[Lin, ...] | None = None,
        conds: tuple[Expr, ...] = (),
        stores: bool = False,
    ) -> None:
        if buffer not in self.depth:
            self.fail(f"{buffer.name} is used where it has no storage")
        if len(indices) != len(buffer.shape):
            self.fail(
                f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(indices)} indices"
            )
        facts_here = self.facts[-1] if facts is None else facts
        for position, (index, extent) in enumerate(zip(indices, buffer.shape)):
            if index.dtype != "int64":
                self.fail(f"index {self.text(index)} of {buffer.name} is {index.dtype}")
            if not self.inside(index, extent, facts_here):
                self.check_by_enumeration(buffer, position, index, extent, exact, conds, stores)

    def inside(self, index: Expr, extent: int | Expr, facts: tuple[Lin, ...]) -> bool:
        """Return whether ``0 <= index < extent`` is proven."""
        if isinstance(extent, int):
            if inside(of_expression(index, self.ranges.of_atom), (0, extent - 1)):
                return True
        lin = to_lin(index, ranges=self.ranges)
        ranges = self.ranges.assuming(facts)
        if by_data(lin):
            # which element it is depends on data, but not that there is one
            return at_least_one(to_lin(extent), ranges)
        # a remainder is less than its divisor, unless that is 0
        proven = within(lin, to_lin(extent), ranges)
        return proven and all(at_least_one(size, ranges) for size in divisors(lin))

    def check_by_enumeration(
        self,
        buffer: Buffer,
        position: int,
        index: Expr,
        extent: int | Expr,
        exact: bool,
        conds: tuple[Expr, ...],
        stores: bool,
    ) -> None:
        """Check, by enumeration, an index that is not proven in bounds.

        Fail if the index leaves its bounds; record it as unproven if that cannot decide.
        """
        tests = [*(g.cond for g in self.around if isinstance(g, If)), *conds]
        runs = [x.extent for x in self.loops if isinstance(x.extent, Expr)]
        known_late = by_data(to_lin(index, ranges=self.ranges))
        # of an index that depends on data, any value is outside of an empty dimension
        nothing = known_late and isinstance(extent, int) and extent == 0
        tried = Const(0, "int64") if nothing else index
        outside = leaves_bounds(tried, extent, self.loops, tests) if exact else None
        if outside is None:
            # no check before the run can decide a condition on data
            exact = exact and not any(map(_gathers, (*tests, *runs)))
            extents = [*runs, *([extent] if isinstance(extent, Expr) else [])]
            sized = any(isinstance(n, Var) for n in postorder([index, *tests, *extents]))
            around = tuple(self.loops), tuple(tests), stores
            self.unproven.append(
                Unproven(buffer, position, index, self.stage, exact, sized, *around)
            )
        elif outside:
            value = f"is {outside[0]}{outside[1]}, outside 0..{extent}"
            if nothing:
                value = f"cannot lie in 0..0{outside[1]}"
            text = f"index {position} of {buffer.name}, {self.text(index)}, {value}"
            if stores:
                self.fail(text)
            self.fail(text, OutOfBoundsError, "Guard the read with sl.if_then_else(cond, ..., 0).")

    def store(self, store: Store) -> None:
        reducer = store.reducer
        if len(store.values) != len(store.buffers):
            self.fail(f"{len(store.values)} values are stored to {len(store.buffers)} buffers")
        if reducer is not None and len(reducer.result) != len(store.buffers):
            self.fail(
                f"{reducer.name} combines {len(reducer.result)} values, not {len(store.buffers)}"
            )
        for buffer, value in zip(store.buffers, store.values):
            if value.dtype != buffer.dtype:
                self.fail(
                    f"{value.dtype} {self.text(value)} is stored to {buffer.dtype} {buffer.name}"
                )
            self.access(buffer, store.indices, exact=True, stores=True)
        site = Site(store, tuple(self.around))
        self.sites.append(site)
        for position, stores, _ in self.together:
            if any(self.depth[b] <= position for b in store.buffers):
                stores.append(site)

    def text(self, value: Expr) -> str:
        return expr_text(value, self.nest.names)

    def fail(self, why: str, kind: type[VerifyError] = VerifyError, hint: str = "") -> None:
        stage = self.stage or self.nest.name
        raise kind(explain(self.nest.name, f"{why} (in stage {stage})", hint))


# facts about sizes, and conditions, in a branch of a lazy choice
_Guards = tuple[tuple[Lin, ...], tuple[Expr, ...]]


def _guarded(
    root: Expr, base: tuple[Lin, ...], ranges: Ranges
) -> Iterator[tuple[Load, tuple[Lin, ...], tuple[Expr, ...]]]:
    """Yield each load of ``root`` with the facts and conditions under which it is evaluated."""

    def inside(around: _Guards, cond: Expr, holds: bool) -> _Guards:
        return around[0] + facts_of(cond, holds, ranges), under(around[1], cond, holds)

    around: _Guards = base, ()
    for node, (facts, conds) in evaluations(root, around, inside):
        if isinstance(node, Load):
            yield node, facts, conds


def by_data(lin: Lin) -> bool:
    """Return whether an index depends on data, which only a run knows."""
    return any(isinstance(leaf, Opaque) and _gathers(leaf.expr) for leaf in lin.leaves())


def _gathers(root: Expr) -> bool:
    """Return whether ``root`` depends on data: loaded elements or scalar arguments."""
    return any(
        isinstance(n, Load) or (isinstance(n, Var) and not n.is_size) for n in postorder([root])
    )
