"""The part that CPU and GPU writers share: guards, stores, lanes and unrolled loops as source."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from schedlang.codegen.context import Context, Lanes
from schedlang.codegen.expression import Expressions
from schedlang.codegen.names import Names, short_name
from schedlang.codegen.stores import Stores
from schedlang.codegen.sums import Start, Starts, Sum, Sums, kept_buffers, steps_of, vectors
from schedlang.codegen.truth import condition, first_lane
from schedlang.compute.bounds import facts_of
from schedlang.errors import BuildError, explain
from schedlang.expr import dtypes
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
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
from schedlang.target import Target

DEEPEST_LINES = 96
DEEPEST_LOOPS = 16
MOST_COPIES = 1024
# vector registers that one vector of the source fills at most
STRIPS = 4
INDENT = "    "
WIDTH = 98


@dataclass
class Frame:
    """The function being written: its lines, and the depth of loops and blocks they are in.

    ``hoisted`` are the buffers allocated before an unrolled loop, whose copies use them in turn.
    ``starts`` are the constants that the last lines store.
    """

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    loops: int = 0
    parallel: bool = False
    outlined: bool = False
    stack: int = 0
    copies: int = 1
    hoisted: set[Buffer] = field(default_factory=set)
    starts: Starts = Starts()


class Statements:
    """Writer of a kernel's statements; a subclass for each target writes loops and storage.

    A subclass leaves out the statements that its target's nests never contain: those of a CPU have
    no barriers.
    """

    def __init__(self, nest: Nest, names: Names, target: Target, public: str) -> None:
        self.nest = nest
        self.public = public
        self.names = names
        self.target = target
        self.functions: list[str] = []
        self.used: set[str] = set()
        self.frame = Frame()
        self.expressions = Expressions(names, self.line, self.use)
        self.stores = Stores(self.expressions)

    def loop(self, loop: For, context: Context) -> None:
        """Write a loop of any kind."""
        raise NotImplementedError

    def allocate(self, buffer: Buffer, context: Context) -> None:
        """Write the allocation of a buffer."""
        raise NotImplementedError

    def allocated(self, body: Block) -> list[Buffer]:
        """Return the buffers that ``body`` allocates."""
        return [s.buffer for s, _ in walk(body) if isinstance(s, Alloc)]

    def outline(self, loop: For, context: Context) -> None:
        """Write a loop as a function of its own, and a call of it."""
        raise NotImplementedError

    def wait(self, stmt: Barrier | Exchange, context: Context) -> None:
        """Write a barrier, or an exchange of values between threads."""
        raise NotImplementedError

    def block(self, block: Block, context: Context) -> None:
        inside = replace(context, named=dict(context.named))
        for stmt in block.stmts:
            self.statement(stmt, inside)

    @property
    def streamed(self) -> set[str]:
        """The stages whose stores bypass the cache."""
        return self.stores.streamed

    def line(self, text: str) -> None:
        inner = (len(text) - len(text.lstrip())) // len(INDENT)
        if self.frame.depth + inner > DEEPEST_LINES:
            raise BuildError(
                f"{self.nest.name} nests more than {DEEPEST_LINES} choices and loops, and Python "
                "allows 100 levels: give the inner if_then_else a stage of its own"
            )
        self.frame.lines.append(INDENT * self.frame.depth + text)

    def use(self, name: str) -> str:
        self.used.add(name)
        return name

    def function_name(self, wanted: str) -> str:
        """Return a short name for a function, other than that of the public function.

        An argument may have that name, since it hides the public function only locally.
        """
        name = self.names.fresh(short_name(wanted))
        return self.names.fresh(short_name(f"{wanted}_body")) if name == self.public else name

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.frame.depth += 1
        start = len(self.frame.lines)
        yield
        if len(self.frame.lines) == start:
            self.line("pass")
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
        frame, first = self.frame, len(self.frame.lines)
        found = self.stores.store(stmt, context, WIDTH - len(INDENT) * frame.depth)
        frame.starts = frame.starts.followed(first, len(frame.lines), frame.depth, found)

    def fetch(self, stmt: Fetch, context: Context) -> None:
        """Emit one prefetch for all lanes, at the element that the first lane reads."""
        if context.lanes is not None:
            first = with_value(context, context.lanes.axis, context.lanes.start)
            context = replace(first, lanes=None, mask="")
        offset = self.expressions.offset(stmt.buffer, stmt.indices, context)
        at = self.expressions.index(offset, context, stmt.buffer, stmt.indices)
        self.line(f"{self.use('prefetch')}({self.names[stmt.buffer]}, {at})")

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
        note = f"  # {stmt.note}" if stmt.note else ""
        test = condition(stmt.cond, context)
        if isinstance(test, Const):
            if test.value:
                of_copies = any(node in context.copies for node in postorder([stmt.cond]))
                self.block(stmt.body, replace(context, tested=context.tested or of_copies))
            return
        cond = self.expressions.value(test, context)
        if not cond.lanes:
            facts = facts_of(stmt.cond, True, context.known)
            self.line(f"if {cond.text}:{note}")
            # values loaded under the test are undefined after it, as in the next unrolled copy
            inside = replace(
                context, known=context.known.assuming(facts), shared=dict(context.shared)
            )
            with self.indented():
                self.block(stmt.body, inside)
            return
        mask = self.names.fresh("m")
        both = f" & {context.mask}" if context.mask else ""
        self.line(f"{mask} = {cond.at(7) if both else cond.text}{both}{note}")
        leads = (context.leads or not context.mask) and first_lane(test, context)
        self.block(stmt.body, replace(context, mask=mask, leads=leads))

    def vector(self, loop: For, context: Context) -> None:
        """Emit a vectorized loop: as one vector, or as a loop over vectors and a remainder."""
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
            self.outline(loop, context)
            return
        name = self.names[loop.axis]
        self.line(f"for {name} in range(0, {whole * most}, {most}):")
        self.frame.loops += 1
        with self.indented():
            start = Axis(f"{loop.axis.name}", loop.extent)
            self.names.share(start, name)
            # names defined in this loop are out of scope in the next copy of an unrolled loop
            inner = replace(context, shared=dict(context.shared))
            self.lanes(loop, inner, most, Lin.of(start))
        self.frame.loops -= 1
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
        """Emit ``count`` lanes as vectors of 2**k lanes, since only those stay in registers."""
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
        name = self.names[loop.axis]
        extent = self.extent(loop, context)
        serial = "  # parallel already outside" if loop.kind == "parallel" else ""
        with self.summing(loop, context) as inner:
            self.line(f"for {name} in range({extent}):{serial}")
            self.frame.loops += 1
            with self.indented():
                self.block(loop.body, inner)
            self.frame.loops -= 1
            self.hints_after(loop, inner)

    def hints_after(self, loop: For, context: Context) -> None:
        """Write hints for the compiler after a loop; by default there are none."""

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
        start, starts = len(self.frame.lines), self.frame.starts
        yield replace(context, sums=sums)
        inside, self.frame.lines = self.frame.lines[start:], self.frame.lines[:start]
        just_before = (starts.end, starts.depth) == (start, self.frame.depth)
        initial = starts.of(sums) if just_before else {}
        for spot, constant in initial.items():
            sums.named[spot] = self.initialized(sums.named[spot], constant, starts.first)
        self.stores.read_sums(sums, initial)
        self.frame.lines += inside
        self.stores.write_sums(sums)

    def initialized(self, kept: Sum, start: Start, first: int) -> Sum:
        """Return a sum whose variable is initialized in place of the store ``start``.

        The line of that store is searched from line ``first`` on.
        """
        margin = INDENT * self.frame.depth
        place = self.frame.lines.index(margin + start.line, first)
        self.frame.lines[place] = f"{margin}{kept.name} = {start.value}"
        return kept if kept.before else replace(kept, at=start.at)

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

    def extent(self, loop: For, context: Context) -> str:
        if isinstance(loop.extent, int):
            return str(loop.extent)
        return self.expressions.index(to_lin(loop.extent, context.values), context)

    def free(self, body: Block, context: Context) -> list[str]:
        """Return the names that ``body`` uses and that are defined outside of it."""
        found = {context.mask: None} if context.mask else {}
        found.update((self.names[key], None) for key in self.free_keys(body, context))
        return list(found)

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
