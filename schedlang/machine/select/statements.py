"""The part that CPU and GPU kernels share: guards, stores, lanes and unrolled loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from schedlang.expr.nodes import Axis, Expr
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Commit,
    Copies,
    Copy,
    Exchange,
    Fetch,
    For,
    If,
    Kept,
    Lanes,
    Masked,
    Note,
    Stmt,
    Store,
    Strips,
)
from schedlang.ir.numbers import number_of
from schedlang.ir.trimmed import trim_loop
from schedlang.machine import nodes as machine
from schedlang.machine.file_names import short_name
from schedlang.machine.identifiers import Names
from schedlang.machine.loops.functions import becomes_function
from schedlang.machine.loops.plain_loops import ROLLED
from schedlang.machine.loops.serpentine import turns_with
from schedlang.machine.nodes import Array, Function, Load, Num, Op, Prefetch, Reg, Value
from schedlang.machine.select.context import Context, Group
from schedlang.machine.select.evaluator import Evaluator
from schedlang.machine.select.stores import Stores
from schedlang.machine.select.sums import Sums, starts_of
from schedlang.machine.walks import operations, wide
from schedlang.target import Target


class Statements:
    """Builder of a kernel's statements; a subclass for each target builds loops and storage.

    A subclass leaves out the statements that its target's nests never contain: nests for a CPU have
    no barriers.
    """

    def __init__(self, nest: Nest, names: Names, target: Target, public: str) -> None:
        self.nest = nest
        self.public = public
        self.names = names
        self.target = target
        self.evaluator = Evaluator(names)
        self.stores = Stores(self.evaluator)

    def loop(self, loop: For, context: Context) -> None:
        """Build a loop of any kind."""
        raise NotImplementedError

    def allocate(self, buffer: Buffer, context: Context) -> None:
        """Build the allocation of a buffer."""
        raise NotImplementedError

    def invoke(self, stmt: Extern, context: Context) -> None:
        """Build the call of a user's function."""
        raise NotImplementedError

    def wait(self, stmt: Barrier | Commit | Exchange, context: Context) -> None:
        """Build a barrier, the end of a group of copies, or an exchange between threads."""
        raise NotImplementedError

    def block(self, block: Block, context: Context, **changes: Any) -> None:
        """Build the statements of a block; ``changes`` change ``context`` inside of it."""
        if changes:
            context = context._replace(**changes)
        for stmt in block.stmts:
            self.statement(stmt, context)

    @property
    def streamed(self) -> set[str]:
        """The stages whose stores bypass the cache."""
        return self.stores.streamed

    def emit(self, stmt: machine.Stmt) -> None:
        """Append a statement to the current block."""
        self.evaluator.emit(stmt)

    def finished(
        self,
        name: str,
        parameters: Sequence[Array | Reg],
        body: Sequence[machine.Stmt],
        number: int | None = None,
    ) -> Function:
        """Return the function under construction, complete."""
        return Function(name, tuple(parameters), tuple(body), number=number)

    def function_name(self, wanted: str) -> str:
        """Return a short name for a function, other than the name of the public function.

        An argument may have that name, since it hides the public function only locally.
        """
        name = self.names.fresh(short_name(wanted))
        return self.names.fresh(short_name(f"{wanted}_body")) if name == self.public else name

    def statement(self, stmt: Stmt, context: Context) -> None:
        """Build a statement; what it is made of has its number."""
        e = self.evaluator
        outer, e.number = e.number, number_of(stmt)
        self.build(stmt, context)
        e.number = outer

    def build(self, stmt: Stmt, context: Context) -> None:
        """Build a statement of any kind."""
        if isinstance(stmt, For):
            self.loop(stmt, context)
        elif isinstance(stmt, Store):
            self.stores.store(stmt, context)
        elif isinstance(stmt, Block):
            self.block(stmt, context)
        elif isinstance(stmt, Lanes):
            self.block(stmt.body, context, lanes=stmt)
        elif isinstance(stmt, Strips):
            self.strips(stmt, context)
        elif isinstance(stmt, Copies):
            self.copies(stmt, context)
        elif isinstance(stmt, Copy):
            self.copy(stmt, context)
        elif isinstance(stmt, Kept):
            self.kept(stmt, context)
        elif isinstance(stmt, If):
            self.guard(stmt, context)
        elif isinstance(stmt, Masked):
            self.masked(stmt, context)
        elif isinstance(stmt, Alloc):
            self.allocate(stmt.buffer, context)
        elif isinstance(stmt, Fetch):
            self.fetch(stmt, context)
        elif isinstance(stmt, Extern):
            self.invoke(stmt, context)
        elif isinstance(stmt, (Barrier, Commit, Exchange)):
            self.wait(stmt, context)
        else:
            assert isinstance(stmt, Note)

    def fetch(self, stmt: Fetch, context: Context) -> None:
        """Build one prefetch for all lanes, at the element that the first lane reads."""
        if context.lanes is not None:
            first = {context.lanes.axis: context.lanes.start}
            context = context._replace(values={**context.values, **first}, lanes=None, mask=None)
        offset = self.evaluator.offset(stmt.buffer, stmt.indices, context)
        at = self.evaluator.index(offset, context, stmt.buffer, stmt.indices)
        self.emit(Prefetch(self.evaluator.array(stmt.buffer), at, stmt.number))

    def copies(self, stmt: Copies, context: Context) -> None:
        if stmt.share:
            group = context.copies or Group(stmt.shared, stmt.blocks)
            inside = group.inside(stmt.copies[0].axis, len(stmt.copies))
            context = context._replace(copies=inside)
        for copy in stmt.copies:
            self.copy(copy, context)

    def copy(self, stmt: Copy, context: Context) -> None:
        self.block(stmt.body, context, values={**context.values, stmt.axis: Lin.of(stmt.at)})

    def guard(self, stmt: If, context: Context) -> None:
        cond = self.evaluator.value(stmt.cond, context)
        # values loaded under the test are undefined after it, as in the next unrolled copy
        with self.evaluator.collected() as body:
            self.block(stmt.body, context.branched)
        self.emit(machine.If(cond, tuple(body), note=stmt.note, number=stmt.number))

    def masked(self, stmt: Masked, context: Context) -> None:
        assert context.lanes is not None
        cond = wide(self.evaluator.value(stmt.cond, context), context.lanes.count)
        both = cond if context.mask is None else Op("&", cond, context.mask, cond.type)
        mask = self.evaluator.let(both, "m", stmt.note)
        self.block(stmt.body, context, mask=mask, leads=stmt.leads)

    def strips(self, stmt: Strips, context: Context) -> None:
        """Build a loop over the vectors of an axis."""
        index = self.evaluator.reg(stmt.axis)
        self.names.share(stmt.start, index.name)
        # registers of this loop are out of scope in the next copy of an unrolled loop
        with self.evaluator.collected(alone=stmt.function) as body:
            self.block(stmt.body, context.on_its_own if stmt.function else context.branched)
        built_loop = machine.For(
            index,
            Num(stmt.stop),
            tuple(body),
            stmt.step,
            label=label_of(stmt),
            function=stmt.function,
            stage=stmt.stage,
            axis=self.printed(stmt.axis),
            number=stmt.number,
        )
        self.emit(built_loop)

    def kept(self, stmt: Kept, context: Context) -> None:
        """Build statements whose sums are loaded before them and stored after them.

        A store of constants just before them is dropped, and the sums start from those constants.
        """
        sums = Sums(stmt.buffers, context.mask)
        with self.evaluator.collected() as inside:
            self.block(stmt.body, context, sums=sums)
        before = self.evaluator.stmts
        # lanes outside of a mask keep what was stored before it
        initial = {} if sums.mask is not None else starts_of(before, self.stores.constant, sums)
        for spot, start in initial.items():
            kept_sum = sums.named[spot]
            started = machine.Let(kept_sum.reg, start.value, number=start.number, stage=start.stage)
            before[before.index(start)] = started
            sums.named[spot] = replace(kept_sum, at=start.at)
        self.stores.read_sums(sums, initial)
        for emitted in inside:
            self.emit(emitted)
        self.stores.write_sums(sums)

    def plain(self, loop: For, context: Context, unrolled: bool = False) -> None:
        trim, index = trim_loop(loop), self.evaluator.reg(loop.axis)
        start = self.end(trim.start, f"{index.name}_start", context)
        stop = self.end(trim.stop, f"{index.name}_stop", context)
        function = becomes_function(loop)
        note = "parallel already outside" if loop.kind == "parallel" else ""
        # the compiler does not write out a loop of unknown length
        rolled = 0 if trim.tests else dict(loop.pragmas).get(ROLLED, 0)
        # none on a GPU: its passes do not look for such loops
        around, turn = turns_with(loop), index
        again = None if loop.again is None else self.evaluator.value(loop.again, context)
        with self.evaluator.collected(alone=function) as body:
            if around is not None:
                turn = self.counter(index, around, start, stop, context)
            self.block(trim.body, context.on_its_own if function else context)
        built_loop = machine.For(
            turn,
            stop,
            tuple(body),
            note=note,
            label=label_of(loop),
            rolled=rolled,
            unrolled=unrolled and not trim.tests,
            function=function,
            stage=loop.stage,
            axis=self.printed(loop.axis),
            number=loop.number,
            start=start,
            again=again,
        )
        self.emit(built_loop)

    def counter(self, index: Reg, around: Axis, start: Value, stop: Value, context: Context) -> Reg:
        """Assign the index of a serpentine loop, and return a register that counts its iterations.

        The index counts down where the index of the loop ``around`` is odd.
        """
        e, turn = self.evaluator, self.evaluator.fresh(f"{index.name}_turn", index.type)
        parity = Op("%", e.index(Lin.of(around), context), Num(2), index=True)
        even = Op("==", parity, Num(0), machine.Type("bool"))
        last: Value = Op("-", stop, Num(1), index=True)
        if isinstance(stop, Num):
            last = Num(stop.value - 1)
        if start != Num(0):
            last = Op("+", start, last, index=True)
        back = Op("-", last, turn, index=True)
        choice = machine.Choice(even, turn, back, index.type)
        self.emit(machine.Let(index, choice, number=e.number))
        return turn

    def printed(self, axis: Axis) -> str:
        """Return the name of a loop in the printed nest."""
        return self.nest.names.get(axis, axis.name)

    def extent(self, loop: For, context: Context) -> Value:
        """Return the end of the range of a loop that is not trimmed."""
        return self.end(loop.extent, "", context)

    def end(self, value: int | Expr, wanted: str, context: Context) -> Value:
        """Return an end of a loop's range; one that reads elements is a register of that name."""
        if isinstance(value, int):
            return Num(value)
        value_of_end = self.evaluator.index(to_lin(value, context.values), context)
        if any(isinstance(part, Load) for part in operations(value_of_end)):
            return self.evaluator.let(value_of_end, wanted)
        return value_of_end


def label_of(loop: For | Strips) -> str:
    """Return a name for a function of the body of ``loop``."""
    return f"{loop.stage}_{loop.axis.name}"
