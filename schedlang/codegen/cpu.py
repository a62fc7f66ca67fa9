"""Code generation for the CPU: a loop nest becomes the source of numba functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.codegen.context import Context
from schedlang.codegen.dialect import NAMES
from schedlang.codegen.names import Names, name_all
from schedlang.codegen.plain_loops import (
    is_latency_bound,
    is_plain,
    needs_overlap_test,
    should_stay_rolled,
    unaliased_arrays,
    vectors_at_once,
)
from schedlang.codegen.statements import DEEPEST_LOOPS, Frame, Statements
from schedlang.errors import BuildError, explain
from schedlang.expr import dtypes
from schedlang.expr.linear import Lin
from schedlang.expr.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Stmt,
)  # fmt: skip
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target

MOST_NESTS = 25
STACK_BYTES = 64 * 1024
STACK_TOTAL = 512 * 1024


@dataclass(frozen=True)
class Source:
    """The emitted source: functions (callees first), and the intrinsics that they use."""

    entry: str
    functions: tuple[str, ...]
    intrinsics: tuple[str, ...]
    math: tuple[str, ...]
    parallel: bool
    public: str
    parameters: tuple[str, ...]


def emit(nest: Nest, target: Target, public: str, fastmath: bool = False) -> Source:
    """Return the functions that run ``nest`` on flat arrays.

    ``fastmath`` allows the compiler to reorder sums. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    names = name_all(nest, [*NAMES, "_array", "_apart", "result"])
    writer = _Writer(nest, names, target, public, fastmath)
    entry = writer.function_name(f"{public}_kernel")
    parameters = [names[a] for a in nest.args] + [names[v] for v in nest.sizes]
    writer.function(entry, parameters, nest.body, Context({}))
    for loop in nest.loops:
        if any(n == NONTEMPORAL for n, _ in loop.pragmas) and loop.stage not in writer.streamed:
            raise BuildError(
                explain(
                    f"pragma({loop.axis.name}, {NONTEMPORAL!r}) on stage {loop.stage}",
                    "that loop stores no whole vectors of consecutive elements, and only such "
                    "stores can bypass the cache",
                    f"Vectorize a loop over the last dimension of {loop.stage}, and split it with "
                    "tail='cut', since lanes under a test are stored one by one.",
                )
            )  # fmt: skip
    return Source(
        entry, tuple(writer.functions), tuple(sorted(writer.used - {"inf", "nan"})),
        tuple(sorted(writer.used & {"inf", "nan"})), writer.any_parallel, public, tuple(parameters),
    )  # fmt: skip


class _Writer(Statements):
    """Writer of CPU kernels: collects the finished functions and the lines of the current one."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str, fastmath: bool
    ) -> None:
        super().__init__(nest, names, target, public)
        self.fastmath = fastmath
        self.any_parallel = False
        self.is_plain = is_plain(nest)
        self.apart = {names[b]: None for b in nest.buffers if b in unaliased_arrays(nest)}

    def function(
        self,
        name: str,
        parameters: Sequence[str],
        body: Block,
        context: Context,
        outlined: bool = False,
    ) -> None:
        """Emit one function; the functions outlined from it come before it."""
        outer, unfenced = self.frame, self.stores.unfenced
        self.frame = Frame(outlined=outer.outlined or outlined)
        self.stores.unfenced = False
        apart = [p for p in parameters if p in self.apart]
        if apart and needs_overlap_test(body):
            self.line(f"{self.use('apart')}({', '.join(apart)})")
        # names that the caller gave to values are not defined in this function
        self.block(body, replace(context, shared={}, named={}))
        if self.stores.unfenced:
            self.line(f"{self.use('stream_fence')}()")
        self.stores.unfenced = unfenced
        if not self.frame.lines:
            self.line("pass")
        options = "parallel=True, **OPTIONS" if self.frame.parallel else "**OPTIONS"
        head = f"@njit({options})\ndef {name}({', '.join(parameters)}):\n"
        text = head + "\n".join(self.frame.lines)
        self.frame = outer
        self.functions.append(text)

    def block(self, block: Block, context: Context) -> None:
        nests = sum(isinstance(s, (For, If)) for s in block.stmts)
        if nests > MOST_NESTS and context.lanes is None and not (context.mask or context.sums):
            self.parts(block, context)
        else:
            super().block(block, context)

    def parts(self, block: Block, context: Context) -> None:
        """Emit a long block as calls of several functions.

        numba's compile time grows with the square of a function's length.
        """
        part: list[Stmt] = []

        def flush() -> None:
            if part:
                body = Block(tuple(part))
                parameters = self.free(body, context)
                called = self.function_name(f"{self.public}_part")
                self.function(called, parameters, body, context)
                self.line(f"{called}({', '.join(parameters)})")
                part.clear()

        for stmt in block.stmts:
            if len(part) == MOST_NESTS:
                flush()
            if isinstance(stmt, Alloc):
                self.statement(stmt, context)
            else:
                part.append(stmt)
        flush()

    def loop(self, loop: For, context: Context) -> None:
        if loop.kind in ("thread", "vthread"):
            raise BuildError(
                explain(
                    f"building {self.nest.name} for the CPU",
                    f"{loop.axis.name} of stage {loop.stage} is bound to {loop.tag or 'vthread'}",
                    "Use s[...].parallel(axis) instead of bind, or build for "
                    'target="cuda" or "cuda-emulator", which runs GPU kernels on the CPU.',
                )
            )
        if any(name == NONTEMPORAL for name, _ in loop.pragmas):
            context = replace(context, stream=loop.stage)
        if loop.kind == "vectorize":
            self.vector(loop, context)
        elif loop.kind == "unroll" and isinstance(loop.extent, int):
            self.unrolled(loop, context)
        elif loop.kind == "parallel" and not self.frame.outlined and context.lanes is None:
            self.parallel(loop, context)
        elif self.frame.loops >= DEEPEST_LOOPS:
            self.outline(loop, context)
        else:
            self.plain(loop, context)

    def hints_after(self, loop: For, context: Context) -> None:
        if self.is_plain and should_stay_rolled(loop, self.fastmath):
            self.line(f"{self.use('rolled')}({vectors_at_once(loop, self.target)})")

    def latency_bound(self, loop: For, buffers: frozenset[Buffer]) -> bool:
        return self.is_plain and not self.fastmath and is_latency_bound(loop, buffers)

    def parallel(self, loop: For, context: Context) -> None:
        """Emit a prange over calls of a function, so that the body compiles as serial code."""
        self.any_parallel = True
        self.frame.parallel = True
        name, index = self.names[loop.axis], self.use("int64")
        called, parameters = self._outlined_function(loop, context, [name])
        self.line(f"for {name} in prange({self.extent(loop, context)}):")
        with self.indented():
            rest = "".join(f", {p}" for p in parameters)
            self.line(f"{called}({index}({name}){rest})")

    def outline(self, loop: For, context: Context) -> None:
        """Emit a deeply nested loop as a function of its own: Python allows 20 nested blocks."""
        called, parameters = self._outlined_function(
            replace(loop, body=Block((loop,))), context, []
        )
        self.line(f"{called}({', '.join(parameters)})")

    def _outlined_function(
        self, loop: For, context: Context, first: list[str]
    ) -> tuple[str, list[str]]:
        parameters = [p for p in self.free(loop.body, context) if p not in first]
        name = self.function_name(f"{loop.stage}_{loop.axis.name}")
        parallel = loop.kind == "parallel" and bool(first)
        self.function(name, [*first, *parameters], loop.body, context, outlined=parallel)
        return name, parameters

    def unrolled(self, loop: For, context: Context) -> None:
        """Emit the copies of an unrolled loop; all of them use the same stack storage.

        Otherwise the function's stack frame would hold the storage of every copy.
        """
        buffers = self.allocated(loop.body) if self.frame.copies == 1 else []
        # a buffer that shares its name with another is allocated in its own block
        count = Counter(self.names[b] for b in buffers)
        hoisted = {b for b in buffers if count[self.names[b]] == 1 and self._on_stack(b)}
        for buffer in (b for b in buffers if b in hoisted):
            self.allocate(buffer, context)
        self.frame.hoisted |= hoisted
        super().unrolled(loop, context)
        self.frame.hoisted -= hoisted

    def _on_stack(self, buffer: Buffer) -> bool:
        """Return whether the stack has room for ``buffer``."""
        room = min(STACK_BYTES, STACK_TOTAL - self.frame.stack)
        return buffer.size is not None and buffer.size * dtypes.itemsize(buffer.dtype) <= room

    def allocate(self, buffer: Buffer, context: Context) -> None:
        if buffer in self.frame.hoisted:
            return
        dtype = "uint16" if buffer.dtype == "float16" else buffer.dtype
        kind = self.use("boolean" if dtype == "bool" else dtype)
        size = buffer.size
        shape = ", ".join(str(e) for e in buffer.shape)
        note = f"  # {buffer.name}[{shape}]"
        if size is not None and self._on_stack(buffer):
            self.frame.stack += size * dtypes.itemsize(buffer.dtype)
            made = f"{self.use('stack_array')}({max(size, 1)}, {kind})"
            self.line(f"{self.names[buffer]} = {made}{note}")
            return
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count = str(size) if size is not None else self.expressions.index(total, context)
        self.line(f"{self.names[buffer]} = {self.use('heap_array')}({count}, {kind}){note}")


__all__ = ["Source", "emit"]
