"""The machine nest of a CPU kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from schedlang.errors import BuildError, explain
from schedlang.expr import dtypes
from schedlang.expr.linear import Lin
from schedlang.expr.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Block, Buffer, For, If, Stmt
from schedlang.machine import nodes as machine
from schedlang.machine.context import Context
from schedlang.machine.names import Names, name_all
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Hint, Num, Reg, Run, Value
from schedlang.machine.plain_loops import (
    is_latency_bound,
    is_plain,
    needs_overlap_test,
    should_stay_rolled,
    unaliased_arrays,
    vectors_at_once,
)
from schedlang.machine.statements import DEEPEST_LOOPS, Frame, Statements
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target

MOST_NESTS = 25
STACK_BYTES = 64 * 1024
STACK_TOTAL = 512 * 1024


def machine_nest(
    nest: Nest, target: Target, public: str, reserved: Sequence[str], fastmath: bool = False
) -> MachineNest:
    """Return the functions that run ``nest`` on flat arrays.

    No name is one of ``reserved``. ``fastmath`` allows the compiler to reorder sums. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    names = name_all(nest, reserved)
    builder = _Functions(nest, names, target, public, fastmath)
    entry = builder.function_name(f"{public}_kernel")
    e = builder.evaluator
    parameters = [e.array(a) if isinstance(a, Buffer) else e.reg(a) for a in nest.args]
    parameters += [e.reg(v) for v in nest.sizes]
    builder.function(entry, parameters, nest.body, Context({}))
    for loop in nest.loops:
        if any(n == NONTEMPORAL for n, _ in loop.pragmas) and loop.stage not in builder.streamed:
            raise BuildError(
                explain(
                    f"pragma({loop.axis.name}, {NONTEMPORAL!r}) on stage {loop.stage}",
                    "that loop stores no whole vectors of consecutive elements, and only such "
                    "stores can bypass the cache",
                    f"Vectorize a loop over the last dimension of {loop.stage}, and split it with "
                    "tail='cut', since lanes under a test are stored one by one.",
                )
            )  # fmt: skip
    return MachineNest(tuple(builder.functions))


class _Functions(Statements):
    """Builder of CPU kernels: collects the finished functions."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str, fastmath: bool
    ) -> None:
        super().__init__(nest, names, target, public)
        self.fastmath = fastmath
        self.is_plain = is_plain(nest)
        self.apart = {names[b]: None for b in nest.buffers if b in unaliased_arrays(nest)}

    def function(
        self,
        name: str,
        parameters: Sequence[Array | Reg],
        body: Block,
        context: Context,
        outlined: bool = False,
    ) -> None:
        """Build one function; the functions outlined from it come before it."""
        outer, unfenced = self.frame, self.stores.unfenced
        self.frame = Frame(outlined=outer.outlined or outlined)
        self.stores.unfenced = False
        with self.evaluator.collected() as stmts:
            apart = [p for p in parameters if isinstance(p, Array) and p.name in self.apart]
            if apart and needs_overlap_test(body):
                self.emit(Hint("apart", tuple(apart)))
            # registers of the caller are not defined in this function
            self.block(body, replace(context, shared={}, named={}))
            if self.stores.unfenced:
                self.emit(Hint("stream_fence"))
        self.stores.unfenced = unfenced
        made = self.finished(name, parameters, stmts)
        self.frame = outer
        self.functions.append(made)

    def block(self, block: Block, context: Context) -> None:
        nests = sum(isinstance(s, (For, If)) for s in block.stmts)
        if nests > MOST_NESTS and context.lanes is None and not (context.mask or context.sums):
            self.parts(block, context)
        else:
            super().block(block, context)

    def parts(self, block: Block, context: Context) -> None:
        """Build a long block as calls of several functions.

        numba's compile time grows with the square of a function's length.
        """
        part: list[Stmt] = []

        def flush() -> None:
            if part:
                body = Block(tuple(part))
                parameters = self.free(body, context)
                called = self.function_name(f"{self.public}_part")
                self.function(called, parameters, body, context)
                self.emit(Run(called, tuple(parameters)))
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
            self.emit(Hint("rolled", (vectors_at_once(loop, self.target),)))

    def latency_bound(self, loop: For, buffers: frozenset[Buffer]) -> bool:
        return self.is_plain and not self.fastmath and is_latency_bound(loop, buffers)

    def parallel(self, loop: For, context: Context) -> None:
        """Build a parallel loop over calls of a function, so that its body compiles as serial code.
        """
        self.frame.parallel = True
        index = self.evaluator.reg(loop.axis)
        called, parameters = self._outlined_function(loop, context, [index])
        stop = self.extent(loop, context)
        args = (machine.Cast(index, machine.INDEX), *parameters)
        self.emit(machine.For(index, stop, (Run(called, args),), parallel=True))

    def outline(self, loop: For, context: Context) -> None:
        """Build a deeply nested loop as a function: Python allows 20 nested blocks."""
        called, parameters = self._outlined_function(
            replace(loop, body=Block((loop,))), context, []
        )
        self.emit(Run(called, tuple(parameters)))

    def _outlined_function(
        self, loop: For, context: Context, first: list[Reg]
    ) -> tuple[str, list[Array | Reg]]:
        parameters = [p for p in self.free(loop.body, context) if p not in first]
        name = self.function_name(f"{loop.stage}_{loop.axis.name}")
        parallel = loop.kind == "parallel" and bool(first)
        self.function(name, [*first, *parameters], loop.body, context, outlined=parallel)
        return name, parameters

    def unrolled(self, loop: For, context: Context) -> None:
        """Build the copies of an unrolled loop; all of them use the same stack storage.

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
        array, size = self.evaluator.array(buffer), buffer.size
        if size is not None and self._on_stack(buffer):
            self.frame.stack += size * dtypes.itemsize(buffer.dtype)
            self.emit(machine.Alloc(array, Num(max(size, 1)), "stack"))
            return
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        count: Value = Num(size) if size is not None else self.evaluator.index(total, context)
        self.emit(machine.Alloc(array, count, "heap"))


__all__ = ["machine_nest"]
