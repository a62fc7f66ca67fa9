"""A machine nest as Python: functions over flat arrays, in the dialect of the intrinsics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from schedlang.codegen.listing import Line
from schedlang.intrinsics.dialect import GPU_NAMES, NAMES
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Barrier,
    Body,
    For,
    Function,
    Hint,
    If,
    Invoke,
    Let,
    Prefetch,
    Run,
    SharedCopy,
    Stmt,
    Store,
    Thread,
    Value,
    View,
)
from schedlang.machine.text import Printer
from schedlang.machine.walks import is_endless

INDENT = "    "
INTRINSICS = frozenset({*NAMES, *GPU_NAMES})
# the names of ``math`` in values
CONSTANTS = frozenset({"inf", "nan"})
KNOWN = INTRINSICS | CONSTANTS


class StatementPrinter(Printer, ABC):
    """Printer of statements as lines; each target's subclass prints its allocations."""

    @abstractmethod
    def allocation(self, stmt: Alloc) -> str:
        """Return the call that allocates an array."""

    def view(self, stmt: View) -> str:
        """Return the call that makes an array of a part of another one."""
        raise NotImplementedError

    def body(self, body: Body, depth: int = 1) -> list[Line]:
        """Return the lines of a block."""
        lines = [line for stmt in body for line in self.statement(stmt, depth)]
        return lines or [Line(INDENT * depth + "pass")]

    def statement(self, stmt: Stmt, depth: int) -> list[Line]:
        margin, number = INDENT * depth, stmt.number
        if isinstance(stmt, For):
            hints = (Line(margin + hint, number) for hint in self._hints(stmt))
            return [*self.loop(stmt, depth), *hints]
        if isinstance(stmt, If):
            head = f"{margin}if {self(stmt.cond)}:{_comment(stmt.note)}"
            lines = [Line(head, number), *self.body(stmt.body, depth + 1)]
            if stmt.orelse:
                lines += [Line(f"{margin}else:", number), *self.body(stmt.orelse, depth + 1)]
            return lines
        line = Line(margin + self._line(stmt), number)
        if isinstance(stmt, Barrier) and stmt.pending is not None:
            return [Line(f"{margin}{self.use('wait_copies')}({stmt.pending})", number), line]
        return [line]

    def loop(self, stmt: For, depth: int) -> list[Line]:
        """Return the lines of a loop with its body."""
        note, margin = _comment(stmt.note), INDENT * depth
        head = f"{margin}for {stmt.index.name} in {self._range(stmt)}:{note}"
        if stmt.again is not None and is_endless(stmt):
            head = f"{margin}while {self(stmt.again)}:{note}"
        lines = [Line(head, stmt.number)]
        if stmt.again is not None and not is_endless(stmt):
            lines.append(Line(f"{margin}{INDENT}if not {self(stmt.again)}:", stmt.number))
            lines.append(Line(f"{margin}{INDENT * 2}break", stmt.number))
        return [*lines, *self.body(stmt.body, depth + 1)]

    def _hints(self, loop: For) -> list[str]:
        """Return the calls behind a loop that tell the compiler what to do with it."""
        rolled = [f"{self.use('rolled')}({loop.rolled})"] if loop.rolled else []
        return [*rolled, f"{self.use('unrolled')}()"] if loop.unrolled else rolled

    def _range(self, loop: For) -> str:
        name = "prange" if loop.parallel else "range"
        stop = self(loop.stop)
        if loop.step == 1 and loop.from_zero:
            return f"{name}({stop})"
        ends = f"{self(loop.start)}, {stop}"
        return f"{name}({ends})" if loop.step == 1 else f"{name}({ends}, {loop.step})"

    def _line(self, stmt: Stmt) -> str:
        if isinstance(stmt, Let):
            return f"{stmt.reg.name} = {self(stmt.value)}{_comment(stmt.note)}"
        if isinstance(stmt, Store):
            return self.store(stmt)
        if isinstance(stmt, Alloc):
            shape = ", ".join(str(e) for e in stmt.array.buffer.shape)
            allocation = self.allocation(stmt)
            return f"{stmt.array.name} = {allocation}  # {stmt.array.buffer.name}[{shape}]"
        if isinstance(stmt, View):
            shape = ", ".join(str(e) for e in stmt.array.buffer.shape)
            return f"{stmt.array.name} = {self.view(stmt)}  # {stmt.array.buffer.name}[{shape}]"
        if isinstance(stmt, Prefetch):
            return f"{self.use('prefetch')}({stmt.array.name}, {self(stmt.at)})"
        if isinstance(stmt, Hint):
            return f"{self.use(stmt.name)}({', '.join(a.name for a in stmt.args)})"
        if isinstance(stmt, Invoke):
            boxes = ", ".join(f"({', '.join(box)})" for box in self._boxes(stmt))
            return f"{self.use('invoke')}({stmt.table.name}, {stmt.position}, {boxes})"
        if isinstance(stmt, Run):
            arguments = ", ".join(self.argument(a) for a in stmt.args)
            return f"{stmt.function}({arguments}){_comment(stmt.note)}"
        if isinstance(stmt, Thread):
            return f"{stmt.reg.name} = cuda.{stmt.tag}{_comment(stmt.note)}"
        if isinstance(stmt, SharedCopy):
            places = f"{stmt.array.name}, {self(stmt.at)}, {stmt.source.name}, {self(stmt.start)}"
            return f"{self.use(stmt.how)}({places}, {stmt.count})"
        assert isinstance(stmt, Barrier)
        return "cuda.syncthreads()"

    def _boxes(self, stmt: Invoke) -> list[list[str]]:
        """Return the array, the start, the extents and the strides of each box."""
        boxes, at = [], 0
        for array, start, rank in zip(stmt.given, stmt.starts, stmt.ranks):
            sizes = [self(size) for size in stmt.sizes[at : at + 2 * rank]]
            parts = (sizes[:rank], sizes[rank:])
            tuples = [f"({', '.join(part)}{',' * (rank == 1)})" for part in parts]
            boxes.append([array.name, self(start), *tuples])
            at += 2 * rank
        return boxes

    def argument(self, given: Array | Value) -> str:
        return given.name if isinstance(given, Array) else self(given)

    def function(self, function: Function, decorator: str) -> tuple[Line, ...]:
        """Return the lines of a function."""
        listed = ", ".join(p.name for p in function.parameters)
        head = decorator, f"def {function.name}({listed}):"
        return (*(Line(text, function.number) for text in head), *self.body(function.body))


def _comment(note: str) -> str:
    return f"  # {note}" if note else ""


def definitions(
    nest: MachineNest, used: Collection[str], decorator: str
) -> tuple[tuple[Line, ...], ...]:
    """Return the functions that instructions call, if they are among the names ``used``."""
    if KNOWN.issuperset(used):
        return ()
    named = nest.definitions.values()
    return tuple((Line(decorator), *map(Line, text.splitlines())) for text in named)


def split_names(used: Sequence[str] | set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the intrinsics among the names that a source uses, and the names of ``math``."""
    return tuple(sorted(set(used) & INTRINSICS)), tuple(sorted(set(used) & CONSTANTS))
