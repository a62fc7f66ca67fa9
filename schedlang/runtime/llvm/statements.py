"""Statements of the machine nest as LLVM's code: one function of it.

A register that is assigned once is a value of LLVM's, and any other one a place on the stack, of
which LLVM makes values again. An array on the heap is freed at the end of its block. A function
that has one returns whether memory was lacking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from schedlang.intrinsics import cpu, hints
from schedlang.intrinsics.cpu.extern import emit_invoke
from schedlang.intrinsics.memory import ALIGNMENT, memory_type, size_of
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Body,
    For,
    Hint,
    If,
    Invoke,
    Let,
    Num,
    Order,
    Prefetch,
    Reg,
    Run,
    Stmt,
    Store,
    View,
)
from schedlang.machine.walks import is_endless, walk
from schedlang.runtime.llvm.dialect import (
    I64,
    Context,
    Unprintable,
    array_type,
    call,
    literal,
    named,
)
from schedlang.runtime.llvm.heap import allocate, free
from schedlang.runtime.llvm.values import ValuePrinter
from schedlang.runtime.numba_internals import cgutils

STATUS = ir.IntType(32)
# what a function returns that lacked memory
FAILED = STATUS(1)


def pointer_type(array: Array) -> ir.Type:
    """Return the type of the address of an array's elements."""
    return memory_type(array_type(array.dtype).dtype, False).as_pointer()


def assigned_often(body: Body, parameters: Iterable[Array | Reg] = ()) -> frozenset[str]:
    """Return the names of registers that have several values: parameters have one before."""
    times = Counter(stmt.reg.name for stmt, _ in walk(body) if isinstance(stmt, Let))
    times.update(p.name for p in parameters if p.name in times)
    return frozenset(name for name, count in times.items() if count > 1)


class StatementPrinter(ValuePrinter):
    """Printer of the statements of one function of LLVM's.

    ``functions`` has the functions that it calls, by name, and ``known`` the values of its
    parameters. ``often`` are registers that several statements assign. ``at`` is told the line of
    each statement, from ``line`` on.
    """

    def __init__(
        self, context: Context, builder: ir.IRBuilder, functions: Mapping[str, ir.Function],
        known: Mapping[str, ir.Value], often: frozenset[str],
        at: Callable[[ir.IRBuilder, int], None], line: int,
    ) -> None:  # fmt: skip
        super().__init__(context, builder)
        self.functions, self.known, self.often = functions, dict(known), often
        self.at, self.line = at, line
        self._slots: dict[str, ir.Value] = {}
        # what is freed at the end of each block that is open, outer ones first
        self._heap: list[list[ir.Value]] = []
        self._print: dict[type, Callable[[Any], None]] = {
            Let: self._let, Store: self.store, For: self._loop, If: self._branch,
            Alloc: self._allocation, View: self._view, Prefetch: self._prefetch, Hint: self._hint,
            Run: self._call, Invoke: self._invoke,
        }  # fmt: skip

    def register(self, reg: Reg) -> ir.Value:
        """Return the value of a register."""
        slot = self._slots.get(reg.name)
        return self.known[reg.name] if slot is None else self.builder.load(slot)

    def array(self, array: Array) -> ir.Value:
        """Return the address of an array."""
        return self.known[array.name]

    def body(self, body: Body) -> None:
        """Emit the statements of a block."""
        self._heap.append([])
        for stmt in body:
            self.statement(stmt)
        if not body:
            # the line of its ``pass``
            self.line += 1
        self._free(self._heap.pop())

    def statement(self, stmt: Stmt) -> None:
        """Emit a statement."""
        write = self._print.get(type(stmt))
        if write is None:
            raise Unprintable(f"{type(stmt).__name__} has no form in LLVM's code")
        self.at(self.builder, self.line)
        self.line += 1
        write(stmt)

    def assign(self, reg: Reg, value: ir.Value) -> None:
        """Give a register its value."""
        if reg.name not in self.often:
            self.known[reg.name] = value
            return
        slot = self._slots.get(reg.name)
        if slot is None or slot.type.pointee != value.type:
            slot = cgutils.alloca_once(self.builder, value.type, name=reg.name)
            self._slots[reg.name] = slot
        self.builder.store(value, slot)

    def _let(self, stmt: Let) -> None:
        if isinstance(stmt.value, Order):
            self.orders[stmt.reg.name] = stmt.value
        else:
            if stmt.reg.type == INDEX and self.is_row(stmt.value):
                self.rows.add(stmt.reg.name)
            self.assign(stmt.reg, self(stmt.value))

    def _loop(self, stmt: For) -> None:
        if stmt.parallel:
            self.parallel(stmt)
            return
        builder = self.builder
        start, stop = self(stmt.start), self(stmt.stop)
        before = builder.block
        test, inside, after = (
            builder.append_basic_block(f"{stmt.index.name}.{part}")
            for part in ("test", "body", "end")
        )
        builder.branch(test)
        builder.position_at_end(test)
        index = builder.phi(I64, name=stmt.index.name)
        index.add_incoming(start, before)
        if stmt.again is None or not is_endless(stmt):
            goes_on = inside
            if stmt.again is not None:
                goes_on = builder.append_basic_block(f"{stmt.index.name}.again")
            builder.cbranch(builder.icmp_signed("<", index, stop), goes_on, after)
            builder.position_at_end(goes_on)
        if stmt.again is not None:
            # the lines of the test and of its ``break``
            self.line += 0 if is_endless(stmt) else 2
            builder.cbranch(self(stmt.again), inside, after)
            builder.position_at_end(inside)
        self.bind(stmt.index, index)
        self.body(stmt.body)
        following = builder.add(index, I64(stmt.step), flags=("nsw",))
        index.add_incoming(following, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        for hint in self.hints(stmt):
            hint()

    def bind(self, index: Reg, value: ir.Value) -> None:
        """Give the index of a loop its value."""
        self._slots.pop(index.name, None)
        self.known[index.name] = value

    def hints(self, loop: For) -> list[Callable[[], Any]]:
        """Return what emits the hints behind a loop, each of which has a line."""
        self.line += bool(loop.rolled) + loop.unrolled
        emitters: list[Callable[[], Any]] = []
        if loop.rolled:
            given = [literal(loop.rolled)]
            emitters.append(lambda: call(self.context, self.builder, cpu.rolled, given))
        if loop.unrolled:
            _, emit = hints.unrolled._defn(None)
            emitters.append(lambda: emit(self.context, self.builder, None, ()))
        return emitters

    def parallel(self, stmt: For) -> None:
        """Emit the launch of a parallel loop."""
        raise Unprintable("a parallel loop has no form here")

    def before(self, called: str) -> Sequence[ir.Value]:
        """Return what a function takes before its own arguments."""
        return ()

    def _branch(self, stmt: If) -> None:
        cond = self(stmt.cond)
        if not stmt.orelse:
            with self.builder.if_then(cond):
                self.body(stmt.body)
            return
        with self.builder.if_else(cond) as (first, second):
            with first:
                self.body(stmt.body)
            # the line of ``else``
            self.line += 1
            with second:
                self.body(stmt.orelse)

    def _allocation(self, stmt: Alloc) -> None:
        array, builder = stmt.array, self.builder
        kind = pointer_type(array)
        if stmt.place == "stack":
            assert isinstance(stmt.count, Num)
            with builder.goto_entry_block():
                block = builder.alloca(ir.ArrayType(kind.pointee, stmt.count.value))
                block.align = ALIGNMENT
            self.known[array.name] = builder.bitcast(block, kind)
            return
        if stmt.place != "heap":
            raise Unprintable(f"an array in {stmt.place} memory has no form on a CPU")
        size = size_of(array_type(array.dtype).dtype, False)
        # a size of zero may make an extent negative, whose loops are empty
        if isinstance(stmt.count, Num):
            total = I64(max(stmt.count.value, 0) * size)
        else:
            count = self(stmt.count)
            count = builder.select(builder.icmp_signed("<", count, I64(0)), I64(0), count)
            total = builder.mul(count, I64(size))
        block = allocate(builder, total)
        with builder.if_then(cgutils.is_null(builder, block), likely=False):
            self.fail()
        self._heap[-1].append(block)
        # an offset, not another address, keeps LLVM's knowledge that nothing else is there
        past = builder.and_(builder.ptrtoint(block, I64), I64(ALIGNMENT - 1))
        place = builder.gep(block, [builder.sub(I64(ALIGNMENT), past)])
        self.known[array.name] = builder.bitcast(place, kind)

    def fail(self) -> None:
        """Emit the return of a function that lacks memory."""
        for blocks in self._heap:
            self._free(blocks)
        self.builder.ret(FAILED)

    def _free(self, blocks: list[ir.Value]) -> None:
        for block in blocks:
            free(self.builder, block)

    def _view(self, stmt: View) -> None:
        place = self.builder.gep(self.array(stmt.whole), [self(stmt.start)])
        self.known[stmt.array.name] = self.builder.bitcast(place, pointer_type(stmt.array))

    def _prefetch(self, stmt: Prefetch) -> None:
        place = array_type(stmt.array.dtype), self.array(stmt.array)
        call(self.context, self.builder, cpu.prefetch, [place, (types.int64, self(stmt.at))])

    def _hint(self, stmt: Hint) -> None:
        given = [(array_type(a.dtype), self.array(a)) for a in stmt.args]
        if stmt.name == "apart":
            _, emit = hints.apart._defn(None, *(kind for kind, _ in given))
            emit(self.context, self.builder, None, [value for _, value in given])
        else:
            call(self.context, self.builder, named(stmt.name), given)

    def _invoke(self, stmt: Invoke) -> None:
        places = [
            self.builder.gep(self.array(array), [self(start)])
            for array, start in zip(stmt.given, stmt.starts)
        ]
        sizes = [self(size) for size in stmt.sizes]
        emit_invoke(self.builder, self.array(stmt.table), stmt.position, places, sizes)

    def _call(self, stmt: Run) -> None:
        called, before = self.functions[stmt.function], self.before(stmt.function)
        args = [
            self._array_given(a, p) if isinstance(a, Array) else self(a)
            for a, p in zip(stmt.args, called.args[len(before) :])
        ]
        status = self.builder.call(called, [*before, *args])
        if called.ftype.return_type != ir.VoidType():
            with self.builder.if_then(cgutils.is_not_null(self.builder, status), likely=False):
                self.fail()

    def _array_given(self, array: Array, parameter: ir.Argument) -> ir.Value:
        return self.builder.bitcast(self.array(array), parameter.type)
