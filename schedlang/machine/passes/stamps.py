"""Time stamps around chosen loops: a machine nest that measures itself.

The nest has one parameter more, an array of int64. Each chosen loop has two elements of a row: the
sum of its time, in ticks, and how often it ran. The first row belongs to the code outside of
parallel loops, and the others to the threads of these. So no two threads write to one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.intrinsics.dialect import NAMES
from schedlang.ir.nodes import Buffer
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Array,
    Body,
    Fn,
    For,
    Function,
    Hint,
    Invoke,
    Let,
    Load,
    Num,
    Op,
    Reg,
    Run,
    Stmt,
    Store,
    Value,
)
from schedlang.machine.walks import walk, with_bodies, with_statements

# elements of two cache lines: processors fetch lines in pairs
PADDING = 16
WHOLE = 0


@dataclass(frozen=True)
class Slots:
    """The numbers of the measured parts, the whole kernel being the first.

    ``loops`` are loops as a whole. ``bodies`` are the iterations of parallel loops, on each thread.
    """

    loops: Mapping[For, int]
    bodies: Mapping[For, int]

    @property
    def width(self) -> int:
        """The elements of a row."""
        used = 2 * (1 + len(self.loops) + len(self.bodies))
        return -(-used // PADDING) * PADDING


def slots_of(loops: Sequence[For], bodies: Sequence[For] = ()) -> Slots:
    """Return slots for ``loops``, and for the iterations of the parallel loops ``bodies``."""
    numbers = iter(range(WHOLE + 1, WHOLE + 1 + len(loops) + len(bodies)))
    return Slots({loop: next(numbers) for loop in loops}, {loop: next(numbers) for loop in bodies})


def with_stamps(nest: MachineNest, slots: Slots, threads: int) -> MachineNest:
    """Return ``nest`` with time stamps around the loops of ``slots``, for that many threads.

    Its entry takes the array of times after its other parameters.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] * 2, name="B")
    >>> nest = sl.build(sl.schedule(B), target="python").machine_nest
    >>> print(with_stamps(nest, slots_of([nest.entry.body[0]]), 1))
    B_kernel(A: float32[], B: float32[], times: int64[]):
      start: int64 = ticks()
      start_i: int64 = ticks()
      for i in 0..4:
        store(B, i, load(A, i) * float32(2))
      store(times, 2, load(times, 2) + (ticks() - start_i))
      store(times, 3, load(times, 3) + 1)
      store(times, 0, load(times, 0) + (ticks() - start))
      store(times, 1, load(times, 1) + 1)
    """
    names = Names({*NAMES, *nest.identifiers()})
    buffer = Buffer("times", "int64", ((threads + 1) * slots.width,))
    writer = _Writer(nest, slots, names.fresh, Array(names.fresh("times"), buffer))
    return writer.nest()


def with_calls_in_loops(nest: MachineNest) -> MachineNest:
    """Return ``nest`` with a loop of one iteration around each call of a user's function.

    Stamps stand around loops. The axis of the loop has the name of the function.
    """
    names = Names({*NAMES, *nest.identifiers()})

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Invoke):
            return with_bodies(stmt, lambda body: with_statements(body, change))
        name, number = stmt.function.name, stmt.number
        index = Reg(names.fresh("call"))
        return For(index, Num(1), (stmt,), label=name, stage=stmt.stage, axis=name, number=number)

    functions = (replace(f, body=with_statements(f.body, change)) for f in nest.functions)
    return nest.with_functions(functions)


class _Writer:
    """The functions of a nest with stamps; ``fresh`` makes names.

    ``changed`` are the changed functions, and ``rows`` the ones among them that are given a row.
    """

    def __init__(
        self, nest: MachineNest, slots: Slots, fresh: Callable[[str], str], times: Array
    ) -> None:
        self.old = nest
        self.slots, self.fresh, self.times = slots, fresh, times
        self.known = {f.name: f for f in nest.functions}
        self.changed: dict[str, Function] = {}
        self.rows: set[str] = set()

    def nest(self) -> MachineNest:
        entry = self.old.entry
        body = self.around(self.body(entry.body, None), WHOLE, None, "start")
        self.changed[entry.name] = replace(
            entry, body=body, parameters=(*entry.parameters, self.times)
        )
        functions = (self.changed.get(f.name, f) for f in self.old.functions)
        return MachineNest(tuple(functions))

    def body(self, body: Body, row: Reg | None) -> Body:
        return tuple(stamped_stmt for stmt in body for stamped_stmt in self.statement(stmt, row))

    def statement(self, stmt: Stmt, row: Reg | None) -> Body:
        """Return a statement with the stamps in it and around it."""
        if isinstance(stmt, Run):
            return (self.called(stmt, row, None),)
        if not isinstance(stmt, For):
            return (with_bodies(stmt, lambda body: self.body(body, row)),)
        if stmt.parallel:
            (run,) = stmt.body
            assert isinstance(run, Run)
            inside: Stmt = replace(stmt, body=(self.called(run, row, stmt),))
        else:
            inside = replace(stmt, body=self.body(stmt.body, row))
        slot = self.slots.loops.get(stmt)
        if slot is None:
            return (inside,)
        return self.around((inside,), slot, row, f"start_{stmt.index.name}")

    def called(self, run: Run, row: Reg | None, loop: For | None) -> Run:
        """Return a call of a function, which may be the body of the parallel ``loop``."""
        function = self.known[run.function]
        slot = None if loop is None else self.slots.bodies.get(loop)
        inner = row
        if loop is not None:
            inner = Reg(self.fresh("row"))
        elif row is not None:
            inner = Reg(row.name)
        body = self.body(function.body, inner)
        if slot is not None:
            body = self.around(body, slot, inner, "start")
        if not _stamps(body, self.times):
            return run
        more: list[Array | Reg] = [self.times]
        if loop is not None:
            assert inner is not None
            body = _after_hints(body, (Let(inner, self.row_of_thread()),))
        elif row is not None:
            more.append(row)
        parameters = (*function.parameters, *more)
        self.changed[run.function] = replace(function, body=body, parameters=parameters)
        return replace(run, args=(*run.args, *more))

    def row_of_thread(self) -> Value:
        number = Op("+", Fn("thread_number", (), INDEX), Num(1), index=True)
        return Op("*", number, Num(self.slots.width), index=True)

    def around(self, body: Body, slot: int, row: Reg | None, wanted: str) -> Body:
        """Return ``body`` with a stamp before it and one after it, whose difference counts.

        ``wanted`` is a name for the register of the first.
        """
        start = Reg(self.fresh(wanted))
        passed = Op("-", _ticks(), start, index=True)
        added = (self.add(2 * slot, passed, row), self.add(2 * slot + 1, Num(1), row))
        return _after_hints((*body, *added), (Let(start, _ticks()),))

    def add(self, element: int, value: Value, row: Reg | None) -> Store:
        at: Value = Num(element)
        if row is not None:
            at = Op("+", row, at, index=True)
        before = Load("load", self.times, at, INDEX)
        return Store("store", self.times, at, Op("+", before, value, index=True))


def _ticks() -> Value:
    return Fn("ticks", (), INDEX)


def _stamps(body: Body, times: Array) -> bool:
    """Return whether ``body`` writes times, itself or in a function that it calls."""
    for stmt, _ in walk(body):
        if isinstance(stmt, Store) and stmt.array is times:
            return True
        if isinstance(stmt, Run) and times in stmt.args:
            return True
    return False


def _after_hints(body: Body, added: Body) -> Body:
    """Return ``body`` with ``added`` before it, but after the hints that a function begins with."""
    hints = 0
    while hints < len(body) and isinstance(body[hints], Hint):
        hints += 1
    return (*body[:hints], *added, *body[hints:])
