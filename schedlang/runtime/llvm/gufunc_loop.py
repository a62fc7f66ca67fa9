"""The loop of a generalized ufunc: the kernel, called once for each element of the loop dimensions.

The kernel takes contiguous arrays of the core dimensions. An operand whose core dimensions are not
contiguous is copied to memory of the heap before a call, or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from schedlang.runtime.llvm.dialect import I64
from schedlang.runtime.llvm.entry import INT, OBJECT
from schedlang.runtime.llvm.heap import allocate, free
from schedlang.runtime.llvm.statements import STATUS
from schedlang.runtime.llvm.symbols import MEMORY_ERROR
from schedlang.runtime.llvm.ufunc_loop import BYTE, LOOP, POINTER, clear_flags, may_fork
from schedlang.runtime.numba_internals import cgutils
from schedlang.runtime.numba_parallel import launch_loop

# bytes of operands from which on several threads compute; a launch takes 3 microseconds
FORKED = 1 << 17


@dataclass(frozen=True)
class GufuncLoop:
    """The form of a loop: ``sizes`` of elements in bytes, the inputs' first, and their count.

    ``cores`` are the core dimensions of each operand, by the positions of their sizes among the
    dimensions that NumPy gives. ``kernel`` is the name of the function, which takes the sizes at
    the positions ``given`` behind its arrays.
    """

    sizes: tuple[int, ...]
    inputs: int
    cores: tuple[tuple[int, ...], ...]
    kernel: str
    given: tuple[int, ...]
    floats: bool = True
    forks: bool = True

    def print(self, module: ir.Module, symbol: str, function: Callable[[str], ir.Function]) -> None:
        """Print the loop as the function ``symbol``; ``function`` has the kernel's by name."""
        _Loop(self, module, symbol, function(self.kernel)).print()


class _Loop:
    def __init__(
        self, form: GufuncLoop, module: ir.Module, symbol: str, kernel: ir.Function
    ) -> None:
        self.form, self.module, self.symbol, self.kernel = form, module, symbol, kernel
        self.count = len(form.sizes)
        self.lengths = 1 + max((at for core in form.cores for at in core), default=-1)

    def print(self) -> None:
        form = self.form
        target = ir.Function(self.module, LOOP, self.symbol)
        target.attributes.add("nounwind")
        builder = ir.IRBuilder(target.append_basic_block("entry"))
        pointers, dimensions, steps, _ = target.args

        def read(place: ir.Value, at: int) -> ir.Value:
            return builder.load(builder.gep(place, [I64(at)]))

        n = read(dimensions, 0)
        places = [read(pointers, k) for k in range(self.count)]
        apart = [read(steps, k) for k in range(self.count)]
        lengths = [read(dimensions, 1 + k) for k in range(self.lengths)]
        ranks = sum(len(core) for core in form.cores)
        inner = [read(steps, self.count + k) for k in range(ranks)]
        given = [*places, *apart, *lengths, *inner]
        failed = cgutils.alloca_once_value(builder, I64(0))
        one = self._one()

        def each(inside: ir.IRBuilder, index: ir.Value, given: Sequence[ir.Value],
                 failed: ir.Value) -> None:  # fmt: skip
            places, apart, rest = given[: self.count], given[self.count : 2 * self.count], given
            here = [
                inside.gep(place, [inside.mul(index, step)]) for place, step in zip(places, apart)
            ]
            status = inside.call(one, [*here, *rest[2 * self.count :]])
            with inside.if_then(cgutils.is_not_null(inside, status), likely=False):
                inside.store(I64(1), failed)

        end = builder.append_basic_block("end")
        if form.forks:
            with builder.if_then(self._is_large(builder, n, lengths), likely=False):
                with builder.if_then(may_fork(builder)):
                    shared = cgutils.make_anonymous_struct(builder, [failed, *given])

                    def iteration(inside: ir.IRBuilder, held: ir.Value, index: ir.Value) -> None:
                        values = [inside.extract_value(held, k) for k in range(1 + len(given))]
                        each(inside, index, values[1:], values[0])

                    launch_loop(builder, self.symbol, n, shared, iteration)
                    builder.branch(end)
        with cgutils.for_range(builder, n) as loop:
            each(builder, loop.index, given, failed)
        builder.branch(end)
        builder.position_at_end(end)
        if form.floats:
            clear_flags(builder)
        lacked = cgutils.is_not_null(builder, builder.load(failed))
        with builder.if_then(lacked, likely=False):
            self._raise(builder)
        builder.ret_void()

    def _is_large(
        self, builder: ir.IRBuilder, n: ir.Value, lengths: Sequence[ir.Value]
    ) -> ir.Value:
        """Emit whether there is work for several threads."""
        work: ir.Value = I64(0)
        for core, size in zip(self.form.cores, self.form.sizes):
            work = builder.add(work, self._bytes(builder, core, size, lengths))
        several = builder.icmp_signed(">", n, I64(1))
        large = builder.icmp_signed(">=", builder.mul(work, n), I64(FORKED))
        return builder.and_(several, large)

    def _bytes(
        self, builder: ir.IRBuilder, core: Sequence[int], size: int, lengths: Sequence[ir.Value]
    ) -> ir.Value:
        total: ir.Value = I64(size)
        for at in core:
            total = builder.mul(total, lengths[at])
        return total

    def _raise(self, builder: ir.IRBuilder) -> None:
        """Emit that Python has an error, of which NumPy's call tells."""
        module = builder.module

        def call(name: str, result: ir.Type, *args: ir.Value) -> ir.Value:
            kind = ir.FunctionType(result, [a.type for a in args])
            return builder.call(cgutils.get_or_insert_function(module, kind, name), args)

        known = module.globals.get(MEMORY_ERROR)
        error = ir.GlobalVariable(module, BYTE, MEMORY_ERROR) if known is None else known
        content = cgutils.make_bytearray(b"no memory for the arrays of a ufunc\0")
        text = builder.bitcast(cgutils.global_constant(module, "message", content), OBJECT)
        state = call("PyGILState_Ensure", INT)
        call("PyErr_SetString", ir.VoidType(), error, text)
        call("PyGILState_Release", ir.VoidType(), state)

    def _one(self) -> ir.Function:
        """Print the function that computes one element of the loop dimensions, and return it.

        It returns whether memory was lacking.
        """
        form = self.form
        ranks = sum(len(core) for core in form.cores)
        numbers = self.lengths + ranks
        kind = ir.FunctionType(STATUS, [*[POINTER] * self.count, *[I64] * numbers])
        target = ir.Function(self.module, kind, f"one.{self.symbol}")
        target.linkage = "internal"
        target.attributes.add("nounwind")
        builder = ir.IRBuilder(target.append_basic_block("entry"))
        places = list(target.args[: self.count])
        lengths = list(target.args[self.count : self.count + self.lengths])
        inner = list(target.args[self.count + self.lengths :])
        status = cgutils.alloca_once_value(builder, STATUS(0))
        used, blocks, strides = [], [], []
        for core, size in zip(form.cores, form.sizes):
            own, inner = inner[: len(core)], inner[len(core) :]
            strides.append(own)
            blocks.append(self._block(builder, core, size, lengths, own, status))
        for place, block in zip(places, blocks):
            used.append(builder.select(cgutils.is_null(builder, block), place, block))
        with builder.if_then(builder.icmp_unsigned("==", builder.load(status), STATUS(0))):
            for k in range(form.inputs):
                with builder.if_then(cgutils.is_not_null(builder, blocks[k])):
                    self._copy(builder, k, lengths, strides[k], places[k], used[k], inwards=True)
            arguments = [
                builder.bitcast(place, wanted)
                for place, wanted in zip(used, self.kernel.function_type.args)
            ]
            result = builder.call(self.kernel, [*arguments, *(lengths[at] for at in form.given)])
            if self.kernel.function_type.return_type == STATUS:
                builder.store(result, status)
            for k in range(form.inputs, self.count):
                with builder.if_then(cgutils.is_not_null(builder, blocks[k])):
                    self._copy(builder, k, lengths, strides[k], places[k], used[k], inwards=False)
        for block in blocks:
            free(builder, block)
        builder.ret(builder.load(status))
        return target

    def _block(
        self, builder: ir.IRBuilder, core: Sequence[int], size: int, lengths: Sequence[ir.Value],
        strides: Sequence[ir.Value], status: ir.Value,
    ) -> ir.Value:  # fmt: skip
        """Emit memory for a contiguous copy of an operand; null if it is contiguous."""
        block = cgutils.alloca_once_value(builder, POINTER(None))
        follows: ir.Value = ir.IntType(1)(1)
        wanted: ir.Value = I64(size)
        for at, stride in zip(reversed(core), reversed(strides)):
            single = builder.icmp_signed("<=", lengths[at], I64(1))
            next_one = builder.icmp_signed("==", stride, wanted)
            follows = builder.and_(follows, builder.or_(single, next_one))
            wanted = builder.mul(wanted, lengths[at])
        with builder.if_then(builder.not_(follows)):
            memory = allocate(builder, self._bytes(builder, core, size, lengths))
            builder.store(memory, block)
            with builder.if_then(cgutils.is_null(builder, memory), likely=False):
                builder.store(STATUS(1), status)
        return builder.load(block)

    def _copy(
        self, builder: ir.IRBuilder, k: int, lengths: Sequence[ir.Value],
        strides: Sequence[ir.Value], place: ir.Value, block: ir.Value, inwards: bool,
    ) -> None:  # fmt: skip
        """Emit the copy of an operand to its block, or from it."""
        word = ir.IntType(8 * self.form.sizes[k])

        def copy(core: Sequence[int], strides: Sequence[ir.Value], here: ir.Value,
                 at: ir.Value) -> None:  # fmt: skip
            if not core:
                held = builder.gep(builder.bitcast(block, word.as_pointer()), [at])
                given = builder.bitcast(here, word.as_pointer())
                source, target = (given, held) if inwards else (held, given)
                builder.store(builder.load(source, align=1), target, align=1)
                return
            with cgutils.for_range(builder, lengths[core[0]]) as loop:
                inside = builder.gep(here, [builder.mul(loop.index, strides[0])])
                index = builder.add(builder.mul(at, lengths[core[0]]), loop.index)
                copy(core[1:], strides[1:], inside, index)

        copy(self.form.cores[k], strides, place, I64(0))


__all__ = ["GufuncLoop"]
