"""The statements of a CPU kernel, as one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from schedlang.errors import BuildError, explain
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For
from schedlang.machine import nodes as machine
from schedlang.machine.names import Names
from schedlang.machine.nodes import Function, Hint, Num
from schedlang.machine.passes.outline import DEEPEST_LOOPS
from schedlang.machine.select.context import Context
from schedlang.machine.select.llvm_hints import (
    is_latency_bound,
    is_plain,
    needs_overlap_test,
    should_stay_rolled,
    unaliased_arrays,
    vectors_at_once,
)
from schedlang.machine.select.statements import Frame, Statements, label_of
from schedlang.state.state import NONTEMPORAL
from schedlang.target import Target


def select_cpu(
    nest: Nest, names: Names, target: Target, public: str, fastmath: bool
) -> tuple[Function, Callable[[str], str]]:
    """Return the kernel of ``nest`` as one function, and a function that makes unused names.

    ``fastmath`` allows the compiler to reorder sums. Raises
    :class:`~schedlang.errors.BuildError` for what a CPU cannot run, such as thread loops.
    """
    builder = _Entry(nest, names, target, public, fastmath)
    entry = builder.entry()
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
    return entry, builder.function_name


class _Entry(Statements):
    """Builder of a CPU kernel as one function."""

    def __init__(
        self, nest: Nest, names: Names, target: Target, public: str, fastmath: bool
    ) -> None:
        super().__init__(nest, names, target, public)
        self.fastmath = fastmath
        self.is_plain = is_plain(nest)

    def entry(self) -> Function:
        """Return the whole kernel."""
        e = self.evaluator
        name = self.function_name(f"{self.public}_kernel")
        parameters = [e.array(a) if isinstance(a, Buffer) else e.reg(a) for a in self.nest.args]
        parameters += [e.reg(v) for v in self.nest.sizes]
        with e.collected() as body:
            self.task(self.nest.body, Context({}))
        return self.finished(name, parameters, body)

    def task(self, body: Block, context: Context) -> None:
        """Build the statements of a function: the whole kernel, or the body of a parallel loop."""
        unfenced, self.stores.unfenced = self.stores.unfenced, False
        apart = [self.evaluator.array(b) for b in self.nest.buffers
                 if b in unaliased_arrays(self.nest)]  # fmt: skip
        if apart and needs_overlap_test(body):
            self.emit(Hint("apart", tuple(apart)))
        self.block(body, context)
        if self.stores.unfenced:
            self.emit(Hint("stream_fence"))
        self.stores.unfenced = unfenced

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
            self.deep(loop, context)
        else:
            self.plain(loop, context)

    def hints_after(self, loop: For, context: Context) -> None:
        if self.is_plain and should_stay_rolled(loop, self.fastmath):
            self.emit(Hint("rolled", (vectors_at_once(loop, self.target),)))

    def latency_bound(self, loop: For, buffers: frozenset[Buffer]) -> bool:
        return self.is_plain and not self.fastmath and is_latency_bound(loop, buffers)

    def parallel(self, loop: For, context: Context) -> None:
        """Build a parallel loop; its body becomes a function, so it uses no register from outside.
        """
        index = self.evaluator.reg(loop.axis)
        outer, self.frame = self.frame, Frame(outlined=True)
        with self.evaluator.collected() as body:
            self.task(loop.body, replace(context, shared={}, named={}))
        self.frame = outer
        stop = self.extent(loop, context)
        self.emit(machine.For(index, stop, tuple(body), parallel=True, label=label_of(loop)))

    def deep(self, loop: For, context: Context) -> None:
        """Build a loop that a pass moves to a function: Python allows 20 nested blocks."""
        outer, self.frame = self.frame, Frame(outlined=self.frame.outlined)
        self.loop(loop, replace(context, shared={}, named={}))
        self.frame = outer

    def allocate(self, buffer: Buffer, context: Context) -> None:
        array, size = self.evaluator.array(buffer), buffer.size
        if size is not None:
            self.emit(machine.Alloc(array, Num(max(size, 1)), ""))
            return
        total = Lin.of(1)
        for extent in buffer.shape:
            total = total * to_lin(extent)
        self.emit(machine.Alloc(array, self.evaluator.index(total, context), ""))


__all__ = ["select_cpu"]
