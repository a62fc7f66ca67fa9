"""Loop nest to a Python file of numba functions for the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.codegen.context import Context, Lanes
from schedlang.codegen.dialect import NAMES
from schedlang.codegen.expression import Expressions
from schedlang.codegen.names import Names, name_all
from schedlang.codegen.stores import Stores
from schedlang.codegen.sums import Sums, kept_buffers
from schedlang.codegen.truth import condition
from schedlang.errors import BuildError, explain
from schedlang.expr import dtypes
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Fetch,
    For,
    If,
    Let,
    Load,
    Note,
    Stmt,
    Store,
    expressions,
    walk,
)  # fmt: skip
from schedlang.stage.state import NONTEMPORAL
from schedlang.target import Target

DEEPEST_LOOPS = 16
DEEPEST_LINES = 96
MOST_NESTS = 25
MOST_COPIES = 1024
STACK_BYTES = 64 * 1024
STACK_TOTAL = 512 * 1024
INDENT = "    "
WIDTH = 98


@dataclass(frozen=True)
class Source:
    """Emitted text in parts: functions (callees first), and the intrinsics they use."""

    entry: str
    functions: tuple[str, ...]
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parallel: bool
    public: str
    parameters: tuple[str, ...]


def emit(nest: Nest, target: Target, public: str) -> Source:
    """The functions that run ``nest`` on flat arrays.

    Raises :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    names = name_all(nest, [*NAMES, "_array", "_apart", "result"])
    writer = _Writer(nest, names, target, public)
    entry = writer.function_name(f"{public}_kernel")
    parameters = [names[a] for a in nest.args] + [names[v] for v in nest.sizes]
    writer.function(entry, parameters, nest.body, Context({}))
    for loop in nest.loops:
        if any(n == NONTEMPORAL for n, _ in loop.pragmas) and loop.stage not in writer.streamed:
            raise BuildError(
                explain(
                    f"pragma({loop.axis.name}, {NONTEMPORAL!r}) on stage {loop.stage}",
                    "no whole vectors are stored next to each other inside that loop, and only "
                    "those can bypass the cache",
                    f"Vectorize a loop over the last dimension of {loop.stage}, and split it with "
                    "tail='cut', as lanes under a test are stored one by one.",
                )
            )  # fmt: skip
    return Source(
        entry, tuple(writer.functions), tuple(sorted(writer.used - {"inf", "nan"})),
        tuple(sorted(writer.used & {"inf", "nan"})), writer.any_parallel, public, tuple(parameters),
    )  # fmt: skip


@dataclass
class _Frame:
    """The function being written: its lines, and how deep in loops and blocks they are."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    loops: int = 0
    parallel: bool = False
    outlined: bool = False
    stack: int = 0
    copies: int = 1


class _Writer:
    """Collects finished functions, and the lines of the one being written."""

    def __init__(self, nest: Nest, names: Names, target: Target, public: str) -> None:
        self.nest = nest
        self.public = public
        self.names = names
        self.target = target
        self.functions: list[str] = []
        self.used: set[str] = set()
        self.any_parallel = False
        self._frame = _Frame()
        self._expressions = Expressions(names, self.line, self.use)
        self._stores = Stores(self._expressions)

    @property
    def streamed(self) -> set[str]:
        """The stages whose stores bypass the cache."""
        return self._stores.streamed

    def line(self, text: str) -> None:
        inner = (len(text) - len(text.lstrip())) // len(INDENT)
        if self._frame.depth + inner > DEEPEST_LINES:
            raise BuildError(
                f"{self.nest.name} nests more than {DEEPEST_LINES} choices and loops, and Python "
                "reads 100 levels: give the inner if_then_else a stage of its own"
            )
        self._frame.lines.append(INDENT * self._frame.depth + text)

    def use(self, name: str) -> str:
        self.used.add(name)
        return name

    def function_name(self, wanted: str) -> str:
        """A name for a function; arguments may hide the public one's, functions may not."""
        name = self.names.fresh(wanted)
        return self.names.fresh(f"{wanted}_body") if name == self.public else name

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._frame.depth += 1
        start = len(self._frame.lines)
        yield
        if len(self._frame.lines) == start:
            self.line("pass")
        self._frame.depth -= 1

    def function(
        self,
        name: str,
        parameters: Sequence[str],
        body: Block,
        context: Context,
        outlined: bool = False,
    ) -> None:
        """Emit one function; what it outlines comes before it."""
        outer, unfenced = self._frame, self._stores.unfenced
        self._frame = _Frame(outlined=outer.outlined or outlined)
        self._stores.unfenced = False
        # what the caller named is not known here
        self.block(body, replace(context, shared={}))
        if self._stores.unfenced:
            self.line(f"{self.use('stream_fence')}()")
        self._stores.unfenced = unfenced
        if not self._frame.lines:
            self.line("pass")
        options = "parallel=True, **OPTIONS" if self._frame.parallel else "**OPTIONS"
        head = f"@njit({options})\ndef {name}({', '.join(parameters)}):\n"
        text = head + "\n".join(self._frame.lines)
        self._frame = outer
        self.functions.append(text)

    def block(self, block: Block, context: Context) -> None:
        nests = sum(isinstance(s, (For, If)) for s in block.stmts)
        if nests > MOST_NESTS and context.lanes is None and not (context.mask or context.sums):
            self.parts(block, context)
            return
        for stmt in block.stmts:
            self.statement(stmt, context)

    def parts(self, block: Block, context: Context) -> None:
        """A long block as calls of functions: numba's time grows with the square of a function."""
        part: list[Stmt] = []

        def flush() -> None:
            if part:
                body = Block(tuple(part))
                parameters = self._free(body, context)
                called = self.function_name(f"{self.public}_part")
                self.function(called, parameters, body, context)
                self.line(f"{called}({', '.join(parameters)})")
                part.clear()

        for stmt in block.stmts:
            if isinstance(stmt, Let) or len(part) == MOST_NESTS:
                flush()
            if isinstance(stmt, (Alloc, Let)):
                self.statement(stmt, context)
            else:
                part.append(stmt)
        flush()

    def statement(self, stmt: Stmt, context: Context) -> None:
        if isinstance(stmt, For):
            self.loop(stmt, context)
        elif isinstance(stmt, If):
            self.guard(stmt, context)
        elif isinstance(stmt, Store):
            self._stores.store(stmt, context, WIDTH - len(INDENT) * self._frame.depth)
        elif isinstance(stmt, Alloc):
            self.allocate(stmt.buffer, context)
        elif isinstance(stmt, Fetch):
            self.fetch(stmt, context)
        elif isinstance(stmt, Let):
            name = self.names.give(stmt.var, stmt.var.name)
            self.line(f"{name} = {self._expressions.value(stmt.value, context).text}")
        elif isinstance(stmt, Block):
            self.block(stmt, context)
        else:
            assert isinstance(stmt, Note)

    def fetch(self, stmt: Fetch, context: Context) -> None:
        """One hint for all lanes: where the first one reads."""
        if context.lanes is not None:
            first = _with(context, context.lanes.axis, context.lanes.start)
            context = replace(first, lanes=None, mask="")
        offset = self._expressions.offset(stmt.buffer, stmt.indices, context)
        at = self._expressions.index(offset, context, stmt.buffer, stmt.indices)
        self.line(f"{self.use('prefetch')}({self.names[stmt.buffer]}, {at})")

    def loop(self, loop: For, context: Context) -> None:
        if loop.kind in ("thread", "vthread"):
            raise BuildError(
                explain(
                    f"building {self.nest.name} for the CPU",
                    f"{loop.axis.name} of stage {loop.stage} is bound to {loop.tag or 'vthread'}",
                    "Use s[...].parallel(axis) in place of bind; thread loops are checked and "
                    "printed, and have no code generator in this version.",
                )
            )
        if any(name == NONTEMPORAL for name, _ in loop.pragmas):
            context = replace(context, stream=loop.stage)
        if loop.kind == "vectorize":
            self.vector(loop, context)
        elif loop.kind == "unroll" and isinstance(loop.extent, int):
            self.unrolled(loop, context)
        elif loop.kind == "parallel" and not self._frame.outlined and context.lanes is None:
            self.parallel(loop, context)
        elif self._frame.loops >= DEEPEST_LOOPS:
            self.outline(loop, context)
        else:
            self.plain(loop, context)

    def unrolled(self, loop: For, context: Context) -> None:
        assert isinstance(loop.extent, int)
        outer = self._frame.copies
        self._frame.copies *= loop.extent
        if self._frame.copies > MOST_COPIES:
            raise BuildError(
                explain(
                    f"unroll({loop.axis.name}) on stage {loop.stage}",
                    f"with the unrolled loops around it that makes {self._frame.copies} copies of "
                    "the body, which would not compile in reasonable time or memory",
                    f"Unroll fewer or smaller loops, {MOST_COPIES} copies in all.",
                )
            )
        if loop.extent > 1 and context.lanes is None and _straight(loop):
            if not context.copies:
                written = {b for s, _ in walk(loop.body) for b in _buffers(s)}
                context = replace(context, written=frozenset(written), shared={})
            context = replace(context, copies={**context.copies, loop.axis: loop.extent})
        for k in range(loop.extent):
            self.block(loop.body, _with(context, loop.axis, Lin.of(k)))
        self._frame.copies = outer

    def plain(self, loop: For, context: Context) -> None:
        name = self.names[loop.axis]
        extent = self._extent(loop, context)
        serial = "  # parallel already outside" if loop.kind == "parallel" else ""
        sums = self._sums(loop, context)
        start = len(self._frame.lines)
        self.line(f"for {name} in range({extent}):{serial}")
        self._frame.loops += 1
        with self.indented():
            self.block(loop.body, context if sums is None else replace(context, sums=sums))
        self._frame.loops -= 1
        if sums is not None:
            inside, self._frame.lines = self._frame.lines[start:], self._frame.lines[:start]
            self._stores.read_sums(sums)
            self._frame.lines += inside
            self._stores.write_sums(sums)

    def _sums(self, loop: For, context: Context) -> Sums | None:
        """What the updates inside ``loop`` keep in registers, where they can."""
        nested = max((depth for s, depth in walk(loop.body) if isinstance(s, For)), default=0)
        if context.lanes is not None or context.sums is not None or context.mask:
            return None
        if self._frame.loops + nested + 1 >= DEEPEST_LOOPS:
            return None
        most = self.target.vector_registers
        buffers = kept_buffers(loop, self.target.vector_width, most)
        return Sums(buffers) if buffers else None

    def _extent(self, loop: For, context: Context) -> str:
        if isinstance(loop.extent, int):
            return str(loop.extent)
        return self._expressions.index(to_lin(loop.extent, context.values), context)

    def parallel(self, loop: For, context: Context) -> None:
        """A prange over a function of its own: what runs in parallel compiles as serial code."""
        self.any_parallel = True
        self._frame.parallel = True
        name, index = self.names[loop.axis], self.use("int64")
        called, parameters = self._outlined_function(loop, context, [name])
        self.line(f"for {name} in prange({self._extent(loop, context)}):")
        with self.indented():
            rest = "".join(f", {p}" for p in parameters)
            self.line(f"{called}({index}({name}){rest})")

    def outline(self, loop: For, context: Context) -> None:
        """Python nests 20 loops at most: deeper ones go to a function of their own."""
        called, parameters = self._outlined_function(
            replace(loop, body=Block((loop,))), context, []
        )
        self.line(f"{called}({', '.join(parameters)})")

    def _outlined_function(
        self, loop: For, context: Context, first: list[str]
    ) -> tuple[str, list[str]]:
        parameters = [p for p in self._free(loop.body, context) if p not in first]
        name = self.function_name(f"{loop.stage}_{loop.axis.name}")
        parallel = loop.kind == "parallel" and bool(first)
        self.function(name, [*first, *parameters], loop.body, context, outlined=parallel)
        return name, parameters

    def _free(self, body: Block, context: Context) -> list[str]:
        """Names used in ``body`` and defined outside of it."""
        inside: set[Any] = set()
        found: dict[str, None] = {context.mask: None} if context.mask else {}
        lanes = {} if context.lanes is None else {context.lanes.axis: context.lanes.start}
        known = {**context.values, **lanes}

        def mention(key: Any) -> None:
            if key not in inside and key in self.names:
                found.setdefault(self.names[key])

        for stmt, _ in walk(body):
            if isinstance(stmt, For):
                inside.add(stmt.axis)
            elif isinstance(stmt, Alloc):
                inside.add(stmt.buffer)
            elif isinstance(stmt, Let):
                self.names.give(stmt.var, stmt.var.name)
            roots = [*expressions(stmt), *self._shapes(stmt)]
            for node in postorder(roots):
                if isinstance(node, Load):
                    mention(node.buffer)
                if isinstance(node, (Axis, Var)):
                    value = known.get(node)
                    for leaf in [node] if value is None else postorder([to_expr(value)]):
                        mention(leaf)
            for buffer in _buffers(stmt):
                mention(buffer)
            if isinstance(stmt, Let):
                inside.add(stmt.var)
        return list(found)

    def _shapes(self, stmt: Stmt) -> list[Expr]:
        """Symbolic extents that a statement's offsets depend on."""
        buffers = list(_buffers(stmt))
        for root in expressions(stmt):
            buffers += [n.buffer for n in postorder([root]) if isinstance(n, Load)]
        return [e for b in buffers for e in b.shape if isinstance(e, Expr)]

    def guard(self, stmt: If, context: Context) -> None:
        note = f"  # {stmt.note}" if stmt.note else ""
        test = condition(stmt.cond, context)
        if isinstance(test, Const):
            if test.value:
                self.block(stmt.body, context)
            return
        cond = self._expressions.value(test, context)
        if not cond.lanes:
            self.line(f"if {cond.text}:{note}")
            with self.indented():
                self.block(stmt.body, context)
            return
        mask = self.names.fresh("m")
        both = f" & {context.mask}" if context.mask else ""
        self.line(f"{mask} = {cond.at(7) if both else cond.text}{both}{note}")
        self.block(stmt.body, replace(context, mask=mask))

    def vector(self, loop: For, context: Context) -> None:
        """The lanes of a vectorized loop: one vector, or strips of several and a rest."""
        assert isinstance(loop.extent, int)
        if context.lanes is not None:
            raise BuildError(
                f"stage {loop.stage} vectorizes {loop.axis.name} inside vectorized "
                f"{context.lanes.axis.name}: one loop of a nest can be the lanes; unroll the other"
            )
        widest = self._widest(loop)
        most = self.target.vector_width(widest) * 4
        whole, rest = divmod(loop.extent, most)
        if loop.extent <= most:
            self._pieces(loop, context, loop.extent, 0)
            return
        if self._frame.loops >= DEEPEST_LOOPS:
            self.outline(loop, context)
            return
        name = self.names[loop.axis]
        self.line(f"for {name} in range(0, {whole * most}, {most}):")
        self._frame.loops += 1
        with self.indented():
            start = Axis(f"{loop.axis.name}", loop.extent)
            self.names.share(start, name)
            self._lanes(loop, context, most, Lin.of(start))
        self._frame.loops -= 1
        self._pieces(loop, context, rest, whole * most)

    def _widest(self, loop: For) -> str:
        found = [b.dtype for s, _ in walk(loop.body) for b in _buffers(s)]
        return max(found, key=dtypes.itemsize, default="float32")

    def _pieces(self, loop: For, context: Context, count: int, start: int) -> None:
        """``count`` lanes as vectors of 2**k: others do not stay in registers."""
        while count:
            lanes = 1 << (count.bit_length() - 1)
            self._lanes(loop, context, lanes, Lin.of(start))
            start, count = start + lanes, count - lanes

    def _lanes(self, loop: For, context: Context, count: int, start: Lin) -> None:
        if count == 1:
            self.block(loop.body, _with(context, loop.axis, start))
            return
        self.block(loop.body, replace(context, lanes=Lanes(loop.axis, count, start)))

    def allocate(self, buffer: Buffer, context: Context) -> None:
        dtype = "uint16" if buffer.dtype == "float16" else buffer.dtype
        kind = self.use("boolean" if dtype == "bool" else dtype)
        size = buffer.size
        shape = ", ".join(str(e) for e in buffer.shape)
        note = f"  # {buffer.name}[{shape}]"
        if size is not None:
            room = min(STACK_BYTES, STACK_TOTAL - self._frame.stack)
            needed = size * dtypes.itemsize(buffer.dtype)
            if needed <= room:
                self._frame.stack += needed
                made = f"{self.use('stack_array')}({max(size, 1)}, {kind})"
                self.line(f"{self.names[buffer]} = {made}{note}")
                return
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count = str(size) if size is not None else self._expressions.index(total, context)
        self.line(f"{self.names[buffer]} = {self.use('heap_array')}({count}, {kind}){note}")


def _straight(loop: For) -> bool:
    """Whether the loop, written out, holds nothing but stores."""
    return all(isinstance(s, Store) or (isinstance(s, For) and s.kind in ("unroll", "vectorize"))
               for s, _ in walk(loop.body))  # fmt: skip


def _with(context: Context, axis: Axis, value: Lin) -> Context:
    return replace(context, values={**context.values, axis: value})


def _buffers(stmt: Stmt) -> Sequence[Buffer]:
    if isinstance(stmt, Store):
        return stmt.buffers
    return (stmt.buffer,) if isinstance(stmt, Fetch) else ()


__all__ = ["Source", "emit"]
