"""The part that CPU and GPU kernels share: guards, stores, lanes and unrolled loops."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from schedlang.errors import BuildError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.conditions import facts_of
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Exchange,
    Fetch,
    For,
    If,
    Load,
    Note,
    Stmt,
    Store,
    expressions,
    walk,
)  # fmt: skip
from schedlang.machine import nodes as machine
from schedlang.machine.names import Names, short_name
from schedlang.machine.nodes import Array, Function, Num, Op, Prefetch, Reg, Value
from schedlang.machine.passes.outline import DEEPEST_LOOPS
from schedlang.machine.select.context import Context, Lanes
from schedlang.machine.select.evaluator import Evaluator
from schedlang.machine.select.known_conditions import condition, first_lane
from schedlang.machine.select.stores import Stores
from schedlang.machine.select.sums import Sums, kept_buffers, starts_of, steps_of, vectors
from schedlang.target import Target

DEEPEST_BLOCKS = 96
MOST_COPIES = 1024
# vector registers that one vector of the source fills at most
STRIPS = 4
INDENT = "    "
WIDTH = 98


@dataclass
class Frame:
    """The depth of loops and blocks in the function under construction.

    ``outlined`` says whether it is inside of a parallel loop; ``copies`` counts those of unrolled
    loops around.
    """

    depth: int = 1
    loops: int = 0
    outlined: bool = False
    copies: int = 1


class Statements:
    """Builder of a kernel's statements; a subclass for each target builds loops and storage.

    A subclass leaves out the statements that its target's nests never contain: those of a CPU have
    no barriers.
    """

    def __init__(self, nest: Nest, names: Names, target: Target, public: str) -> None:
        self.nest = nest
        self.public = public
        self.names = names
        self.target = target
        self.frame = Frame()
        self.evaluator = Evaluator(names)
        self.stores = Stores(self.evaluator)

    def loop(self, loop: For, context: Context) -> None:
        """Build a loop of any kind."""
        raise NotImplementedError

    def allocate(self, buffer: Buffer, context: Context) -> None:
        """Build the allocation of a buffer."""
        raise NotImplementedError

    def allocated(self, body: Block) -> list[Buffer]:
        """Return the buffers that ``body`` allocates."""
        return [s.buffer for s, _ in walk(body) if isinstance(s, Alloc)]

    def deep(self, loop: For, context: Context) -> None:
        """Build a loop inside of as many loops as a function may nest."""
        raise NotImplementedError

    def wait(self, stmt: Barrier | Exchange, context: Context) -> None:
        """Build a barrier, or an exchange of values between threads."""
        raise NotImplementedError

    def block(self, block: Block, context: Context) -> None:
        inside = replace(context, named=dict(context.named))
        for stmt in block.stmts:
            self.statement(stmt, inside)

    @property
    def streamed(self) -> set[str]:
        """The stages whose stores bypass the cache."""
        return self.stores.streamed

    def emit(self, stmt: machine.Stmt) -> None:
        """Append a statement to the current block."""
        self.evaluator.emit(stmt)

    def finished(
        self, name: str, parameters: Sequence[Array | Reg], body: Sequence[machine.Stmt]
    ) -> Function:
        """Return the function under construction, complete.

        Raises :class:`BuildError` if it nests deeper than Python's parser allows.
        """
        deepest = max((depth for _, depth in machine.walk(tuple(body))), default=0)
        if deepest >= DEEPEST_BLOCKS:
            raise BuildError(
                f"{self.nest.name} nests more than {DEEPEST_BLOCKS} choices and loops, and Python "
                "allows 100 levels: give the inner if_then_else a stage of its own"
            )
        return Function(name, tuple(parameters), tuple(body))

    def function_name(self, wanted: str) -> str:
        """Return a short name for a function, other than that of the public function.

        An argument may have that name, since it hides the public function only locally.
        """
        name = self.names.fresh(short_name(wanted))
        return self.names.fresh(short_name(f"{wanted}_body")) if name == self.public else name

    @contextmanager
    def inside(self) -> Iterator[list[machine.Stmt]]:
        """Collect the body of a loop or a branch."""
        self.frame.depth += 1
        with self.evaluator.collected() as body:
            yield body
        self.frame.depth -= 1

    def statement(self, stmt: Stmt, context: Context) -> None:
        if isinstance(stmt, For):
            last = to_lin(stmt.extent) - 1
            known = context.known.extended(stmt.axis, Lin.of(0), last)
            self.loop(stmt, replace(context, known=known))
        elif isinstance(stmt, If):
            self.guard(stmt, context)
        elif isinstance(stmt, Store):
            self.store(stmt, context)
        elif isinstance(stmt, Alloc):
            self.allocate(stmt.buffer, context)
        elif isinstance(stmt, Fetch):
            self.fetch(stmt, context)
        elif isinstance(stmt, Block):
            self.block(stmt, context)
        elif isinstance(stmt, (Barrier, Exchange)):
            self.wait(stmt, context)
        else:
            assert isinstance(stmt, Note)

    def store(self, stmt: Store, context: Context) -> None:
        self.stores.store(stmt, context, WIDTH - len(INDENT) * self.frame.depth)

    def fetch(self, stmt: Fetch, context: Context) -> None:
        """Build one prefetch for all lanes, at the element that the first lane reads."""
        if context.lanes is not None:
            first = with_value(context, context.lanes.axis, context.lanes.start)
            context = replace(first, lanes=None, mask=None)
        offset = self.evaluator.offset(stmt.buffer, stmt.indices, context)
        at = self.evaluator.index(offset, context, stmt.buffer, stmt.indices)
        self.emit(Prefetch(self.evaluator.array(stmt.buffer), at))

    def unrolled(self, loop: For, context: Context) -> None:
        assert isinstance(loop.extent, int)
        outer = self.frame.copies
        self.frame.copies *= loop.extent
        if self.frame.copies > MOST_COPIES:
            raise BuildError(
                explain(
                    f"unroll({loop.axis.name}) on stage {loop.stage}",
                    f"with the unrolled loops around it, it makes {self.frame.copies} copies of "
                    "the body, which would not compile in reasonable time or memory",
                    f"Unroll fewer or smaller loops, at most {MOST_COPIES} copies in all.",
                )
            )
        if loop.extent > 1 and context.lanes is None and _only_stores(loop, set(context.values)):
            if not context.copies:
                written = {b for s, _ in walk(loop.body) for b in buffers_of(s)}
                context = replace(context, written=frozenset(written), shared={})
            context = replace(context, copies={**context.copies, loop.axis: loop.extent})
        with self.summing(loop, context) as inner:
            for k in range(loop.extent):
                self.block(loop.body, with_value(inner, loop.axis, Lin.of(k)))
        self.frame.copies = outer

    def guard(self, stmt: If, context: Context) -> None:
        test = condition(stmt.cond, context)
        if isinstance(test, Const):
            if test.value:
                of_copies = any(node in context.copies for node in postorder([stmt.cond]))
                self.block(stmt.body, replace(context, tested=context.tested or of_copies))
            return
        cond = self.evaluator.value(test, context)
        if not cond.type.lanes:
            facts = facts_of(stmt.cond, True, context.known)
            # values loaded under the test are undefined after it, as in the next unrolled copy
            inner = replace(
                context, known=context.known.assuming(facts), shared=dict(context.shared)
            )
            with self.inside() as body:
                self.block(stmt.body, inner)
            self.emit(machine.If(cond, tuple(body), note=stmt.note))
            return
        both = cond if context.mask is None else Op("&", cond, context.mask, cond.type)
        mask = self.evaluator.let(both, "m", stmt.note)
        leads = (context.leads or context.mask is None) and first_lane(test, context)
        self.block(stmt.body, replace(context, mask=mask, leads=leads))

    def vector(self, loop: For, context: Context) -> None:
        """Build a vectorized loop: as one vector, or as a loop over vectors and a remainder."""
        assert isinstance(loop.extent, int)
        if context.lanes is not None:
            raise BuildError(
                f"stage {loop.stage} vectorizes {loop.axis.name} inside the vectorized loop "
                f"{context.lanes.axis.name}, and only one loop of a nest can be vectorized: unroll "
                "the other"
            )
        most = self.strip_lanes(loop)
        whole, rest = divmod(loop.extent, most)
        if loop.extent <= most or self.adds_to_kept(loop, context) or self.writes_out(whole):
            for first in range(0, whole * most, most):
                self.lanes(loop, context, most, Lin.of(first))
            self.pieces(loop, context, rest, whole * most)
            return
        if self.frame.loops >= DEEPEST_LOOPS:
            self.deep(loop, context)
            return
        index = self.evaluator.reg(loop.axis)
        self.frame.loops += 1
        with self.inside() as body:
            start = Axis(f"{loop.axis.name}", loop.extent)
            self.names.share(start, index.name)
            # registers of this loop are out of scope in the next copy of an unrolled loop
            inner = replace(context, shared=dict(context.shared))
            self.lanes(loop, inner, most, Lin.of(start))
        self.frame.loops -= 1
        self.emit(machine.For(index, Num(whole * most), tuple(body), most, label=label_of(loop)))
        self.pieces(loop, context, rest, whole * most)

    def too_long(self, reduction: For) -> bool:
        """Return whether the vectors in ``reduction``, written out, are too many copies."""
        inside = [s for s, _ in walk(reduction.body) if isinstance(s, For)]
        strips = [
            vectors(f.extent, self.strip_lanes(f))
            for f in inside if f.kind == "vectorize" and isinstance(f.extent, int)
        ]  # fmt: skip
        unrolled = [f.extent for f in inside if f.kind == "unroll" and isinstance(f.extent, int)]
        most = max(strips, default=1)
        return most > 1 and self.frame.copies * prod(unrolled) * most > MOST_COPIES

    def adds_to_kept(self, loop: For, context: Context) -> bool:
        """Return whether ``loop`` updates sums that stay in registers.

        Such a loop cannot become a loop over vectors: each vector's sums need a name of their own,
        and an offset that is known before the reduction loop.
        """
        kept = context.sums.buffers if context.sums is not None else frozenset()
        return any(isinstance(s, Store) and kept & set(s.buffers) for s, _ in walk(loop.body))

    def writes_out(self, strips: int) -> bool:
        """Return whether ``strips`` vectors are written one after the other, not in a loop."""
        return False

    def strip_lanes(self, loop: For) -> int:
        """Return the most lanes of a vectorized loop that are written as one vector."""
        found = [b.dtype for s, _ in walk(loop.body) for b in buffers_of(s)]
        widest = max(found, key=dtypes.itemsize, default="float32")
        return self.target.vector_width(widest) * STRIPS

    def pieces(self, loop: For, context: Context, count: int, start: int) -> None:
        """Build ``count`` lanes as vectors of 2**k lanes, since only those stay in registers."""
        while count:
            lanes = 1 << (count.bit_length() - 1)
            self.lanes(loop, context, lanes, Lin.of(start))
            start, count = start + lanes, count - lanes

    def lanes(self, loop: For, context: Context, count: int, start: Lin) -> None:
        if count == 1:
            self.block(loop.body, with_value(context, loop.axis, start))
            return
        self.block(loop.body, replace(context, lanes=Lanes(loop.axis, count, start)))

    def plain(self, loop: For, context: Context) -> None:
        index, stop = self.evaluator.reg(loop.axis), self.extent(loop, context)
        note = "parallel already outside" if loop.kind == "parallel" else ""
        with self.summing(loop, context) as inner:
            self.frame.loops += 1
            with self.inside() as body:
                self.block(loop.body, inner)
            self.frame.loops -= 1
            self.emit(machine.For(index, stop, tuple(body), note=note, label=label_of(loop)))
            self.hints_after(loop, inner)

    def hints_after(self, loop: For, context: Context) -> None:
        """Build hints for the compiler after a loop; by default there are none."""

    @contextmanager
    def summing(self, loop: For, context: Context) -> Iterator[Context]:
        """Yield the context inside ``loop``, whose sums are loaded before it and stored after it.

        A store of constants just before the loop is dropped, and the sums start from those
        constants.
        """
        sums = self.sums_of(loop, context)
        if sums is None:
            yield context
            return
        with self.evaluator.collected() as inside:
            yield replace(context, sums=sums)
        before = self.evaluator.stmts
        initial = starts_of(before, self.stores.constant, sums)
        for spot, start in initial.items():
            kept = sums.named[spot]
            before[before.index(start)] = machine.Let(kept.reg, start.value)
            if not kept.before:
                sums.named[spot] = replace(kept, at=start.at)
        self.stores.read_sums(sums, initial)
        for stmt in inside:
            self.emit(stmt)
        self.stores.write_sums(sums)

    def sums_of(self, loop: For, context: Context) -> Sums | None:
        """Return the sums that the updates inside ``loop`` keep in registers, if any."""
        nested = max((depth for s, depth in walk(loop.body) if isinstance(s, For)), default=0)
        if not loop.axis.is_reduce or context.sums is not None or context.mask:
            return None
        if self.frame.loops + nested + 1 >= DEEPEST_LOOPS or self.too_long(loop):
            return None
        lanes = context.lanes
        around = () if lanes is None else (replace(loop, axis=lanes.axis, extent=lanes.count,
                                                   kind="vectorize"),)  # fmt: skip
        buffers = self.kept(loop, steps_of(loop, self.nest), around)
        if not buffers:
            return None
        return Sums(buffers, dict(context.named), latency_bound=self.latency_bound(loop, buffers))

    def latency_bound(self, loop: For, buffers: frozenset[Buffer]) -> bool:
        """Return True if each addition of a reduction loop waits for the previous one."""
        return False

    def kept(self, loop: For, steps: Container[Axis], around: tuple[For, ...]) -> frozenset[Buffer]:
        """Return the buffers whose sums stay in registers inside ``loop``."""
        target = self.target
        return kept_buffers(loop, target.vector_width, target.vector_registers, steps, around)

    def extent(self, loop: For, context: Context) -> Value:
        if isinstance(loop.extent, int):
            return Num(loop.extent)
        return self.evaluator.index(to_lin(loop.extent, context.values), context)

    def free_keys(self, body: Block, context: Context) -> list[Any]:
        """Return the buffers, axes and scalars that ``body`` uses and does not define."""
        inside: set[Any] = set()
        found: dict[Any, None] = {}
        lanes = {} if context.lanes is None else {context.lanes.axis: context.lanes.start}
        known = {**context.values, **lanes}

        def mention(key: Any) -> None:
            if key not in inside and key in self.names:
                found.setdefault(key)

        for stmt, _ in walk(body):
            if isinstance(stmt, For):
                inside.add(stmt.axis)
            elif isinstance(stmt, Alloc):
                inside.add(stmt.buffer)
            roots = [*expressions(stmt), *self._shapes(stmt)]
            for node in postorder(roots):
                if isinstance(node, Load):
                    mention(node.buffer)
                if isinstance(node, (Axis, Var)):
                    value = known.get(node)
                    for leaf in [node] if value is None else postorder([to_expr(value)]):
                        mention(leaf)
            for buffer in buffers_of(stmt):
                mention(buffer)
        return list(found)

    def _shapes(self, stmt: Stmt) -> list[Expr]:
        """Return the symbolic extents that a statement's offsets depend on."""
        buffers = list(buffers_of(stmt))
        for root in expressions(stmt):
            buffers += [n.buffer for n in postorder([root]) if isinstance(n, Load)]
        return [e for b in buffers for e in b.shape if isinstance(e, Expr)]


def label_of(loop: For) -> str:
    """Return a name for a function of the body of ``loop``."""
    return f"{loop.stage}_{loop.axis.name}"


def _only_stores(loop: For, known: set[Any]) -> bool:
    """Return whether the copies of an unrolled loop consist of stores alone.

    Its tests must depend only on ``known`` values and on unrolled axes, so that they are decided
    when the copies are written.
    """
    inside = [s for s, _ in walk(loop.body)]
    unrolled = {s.axis for s in inside if isinstance(s, For) and s.kind == "unroll"}
    decided = {*known, *unrolled, loop.axis}

    def plain(stmt: Stmt) -> bool:
        if isinstance(stmt, If):
            leaves = (n for n in postorder([stmt.cond]) if isinstance(n, (Axis, Var, Load)))
            return all(leaf in decided for leaf in leaves)
        return isinstance(stmt, Store) or (
            isinstance(stmt, For) and stmt.kind in ("unroll", "vectorize")
        )

    return all(map(plain, inside))


def with_value(context: Context, axis: Axis, value: Lin) -> Context:
    return replace(context, values={**context.values, axis: value})


def buffers_of(stmt: Stmt) -> Sequence[Buffer]:
    if isinstance(stmt, Store):
        return stmt.buffers
    if isinstance(stmt, Exchange):
        return (*stmt.into, *stmt.source)
    return (stmt.buffer,) if isinstance(stmt, Fetch) else ()
