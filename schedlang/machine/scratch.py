"""Storage of a kernel that its caller gives: parameters in place of arrays on the heap.

A kernel that others surround, as in a network, then allocates nothing. The arrays of a function are
views of its parameter ``scratch``, one behind the other; the views of blocks that follow each other
share memory. The function of a parallel loop takes the scratch of all threads, and uses the part of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Optional, TypeGuard, Union

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Var
from schedlang.ir.nodes import Buffer, with_fields
from schedlang.machine.alignment import BYTES, align_up
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Array,
    Body,
    Fn,
    For,
    Function,
    Hint,
    Num,
    Op,
    Run,
    Stmt,
    View,
)
from schedlang.machine.walks import bodies, walk, with_bodies, with_statements


@dataclass(frozen=True)
class Scratch:
    """A kernel whose storage is given: its nest, and the bytes that a caller gives it.

    The entry of ``nest`` takes an array of ``shared`` bytes, and one of ``per_thread`` bytes for
    each thread, as its last parameters; where a number is 0 it has no such parameter.
    """

    nest: MachineNest
    shared: int
    per_thread: int


def byte_array(name: str, size: Union[int, Var]) -> Array:
    """Return an array of ``size`` bytes, where other arrays have their place."""
    return Array(name, Buffer(name, BYTES, (size,)))


def with_scratch(nest: MachineNest, numbered: bool = True) -> Scratch:
    """Return the kernel ``nest`` with storage that its caller gives in place of the heap.

    Arrays whose size is only known at a call stay on the heap, and so do those inside of a parallel
    loop that has other parallel loops in it: a thread may begin one of its iterations while another
    one waits. Where threads are not ``numbered``, all arrays inside of parallel loops stay there.

    >>> import schedlang as sl
    >>> A = sl.placeholder((40000,), name="A")
    >>> B = sl.compute((40000,), lambda i: A[i] * 2, name="B")
    >>> C = sl.compute((40000,), lambda i: B[39999 - i] + 1, name="C")
    >>> made = with_scratch(sl.build(sl.schedule(C), [A, C], target="python").machine_nest)
    >>> print(made.nest)
    C_kernel(A: float32[], C: float32[], scratch: uint8[]):
      apart(A, C, scratch)
      B: float32[40000]   from byte 0 of scratch on, 156.2 KiB
      for i in 0..40000:
        store(B, i, load(A, i) * float32(2))
      for i in 0..40000:
        store(C, i, load(B, 39999 - i) + float32(1))
    >>> made.shared, made.per_thread
    (160000, 0)
    """
    functions = _Functions({f.name: f for f in nest.functions}, Names(nest.identifiers()), numbered)
    changed_functions = [functions.function(f) for f in nest.functions]
    entry = functions.needs[nest.entry.name]
    return Scratch(nest.with_functions(changed_functions), entry.shared, entry.per_thread)


@dataclass(frozen=True)
class _Need:
    """The bytes that a function needs.

    One that a parallel loop calls needs ``per_thread`` alone, all others ``shared`` for themselves
    and those that they call.
    """

    shared: int = 0
    per_thread: int = 0


@dataclass
class _Functions:
    """The functions so far, callees first."""

    functions: Mapping[str, Function]
    names: Names
    numbered: bool
    needs: dict[str, _Need] = field(default_factory=dict)

    def __post_init__(self) -> None:
        serial: set[str] = set()
        parallel: set[str] = set()
        for function in self.functions.values():
            _called(function.body, False, serial, parallel)
        # the functions of parallel loops, unless others call them, too
        self.tasks = frozenset(parallel - serial)
        self.kept = frozenset(
            name for task in parallel if self._on_heap(task) for name in self._reached(task)
        ) | (parallel & serial)

    def _reached(self, name: str) -> set[str]:
        """Return the functions that ``name`` calls, also through others, and itself."""
        runs = (s for s, _ in walk(self.functions[name].body) if isinstance(s, Run))
        return {name}.union(*(self._reached(run.function) for run in runs))

    def _on_heap(self, name: str) -> bool:
        return not self.numbered or any(self.functions[n].parallel for n in self._reached(name))

    def function(self, function: Function) -> Function:
        """Return ``function`` with parameters for the storage of it and of what it calls."""
        name = function.name
        if name in self.kept:
            self.needs[name] = _Need()
            return function
        peak = self.peak(function.body, 0)
        own = byte_array(self.names.fresh("scratch"), peak) if peak else None
        place = _Place(self, own)
        body = place.body(function.body, 0)
        if own is not None and name in self.tasks:
            threads = self.for_threads()
            start = Op("*", Fn("thread_number", (), INDEX), Num(peak), INDEX, index=True)
            body = (View(own, threads, start, Num(peak)), *body)
            storage = [threads]
            self.needs[name] = _Need(0, peak)
        else:
            storage = [array for array in (own, place.threads) if array is not None]
            self.needs[name] = _Need(peak, place.per_thread)
        if not storage:
            return function
        parameters = (*function.parameters, *storage)
        return with_fields(function, parameters=parameters, body=_apart(body, storage))

    def peak(self, body: Body, top: int) -> int:
        """Return the end of the storage of a block that begins at byte ``top``."""
        most = top
        for stmt in body:
            if _is_moved(stmt):
                most = max(most, top := _end(stmt, top))
            elif isinstance(stmt, Run):
                most = max(most, top + self.needs[stmt.function].shared)
            elif not _is_parallel(stmt):
                most = max((most, *(self.peak(inner, top) for inner in bodies(stmt))))
        return most

    def for_threads(self) -> Array:
        """Return an array with the scratch of all threads of a call."""
        return byte_array(self.names.fresh("thread_scratch"), Var("bytes"))


@dataclass
class _Place:
    """The storage of one function: its ``own`` array, and the storage of the threads that it
    starts."""

    functions: _Functions
    own: Optional[Array]
    per_thread: int = 0
    threads: Optional[Array] = None

    def body(self, body: Body, top: int) -> Body:
        """Return a block whose storage begins at byte ``top``."""
        block: list[Stmt] = []
        for stmt in body:
            if _is_moved(stmt):
                assert self.own is not None
                block.append(View(stmt.array, self.own, Num(top), stmt.count, stmt.number))
                top = _end(stmt, top)
            elif isinstance(stmt, Run):
                block += self.call(stmt, top)
            elif _is_parallel(stmt):
                block.append(with_bodies(stmt, self.tasks))
            else:
                block.append(with_bodies(stmt, partial(self.body, top=top)))
        return tuple(block)

    def call(self, stmt: Run, top: int) -> list[Stmt]:
        """Return a call outside of parallel loops, which is given what lies behind ``top``."""
        need = self.functions.needs[stmt.function]
        stmts: list[Stmt] = []
        storage: list[Array] = []
        if need.shared:
            assert self.own is not None
            rest = self.own
            if top:
                rest = byte_array(self.functions.names.fresh("scratch"), need.shared)
                stmts.append(View(rest, self.own, Num(top), Num(need.shared)))
            storage.append(rest)
        storage += self.for_threads(need)
        return [*stmts, with_fields(stmt, args=(*stmt.args, *storage))]

    def tasks(self, body: Body) -> Body:
        """Return the body of a parallel loop, whose functions are given the scratch of all threads.

        What it allocates itself stays on the heap.
        """
        return with_statements(body, self.task)

    def task(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Run):
            storage = self.for_threads(self.functions.needs[stmt.function])
            return with_fields(stmt, args=(*stmt.args, *storage))
        return with_bodies(stmt, self.tasks)

    def for_threads(self, need: _Need) -> list[Array]:
        if not need.per_thread:
            return []
        self.per_thread = max(self.per_thread, need.per_thread)
        if self.threads is None:
            self.threads = self.functions.for_threads()
        return [self.threads]


def _is_moved(stmt: Stmt) -> TypeGuard[Alloc]:
    """Return whether this is an array of the heap whose size is known."""
    return isinstance(stmt, Alloc) and stmt.place == "heap" and isinstance(stmt.count, Num)


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.parallel


def _end(stmt: Alloc, start: int) -> int:
    """Return the first byte behind an array that begins at byte ``start``."""
    assert isinstance(stmt.count, Num)
    return align_up(start + int(stmt.count.value) * itemsize(stmt.array.dtype))


def _called(body: Body, inside: bool, serial: set[str], parallel: set[str]) -> None:
    """Add the functions that ``body`` calls to those called in parallel loops or to the others."""
    for stmt in body:
        if isinstance(stmt, Run):
            (parallel if inside else serial).add(stmt.function)
        for inner in bodies(stmt):
            _called(inner, inside or _is_parallel(stmt), serial, parallel)


def _apart(body: Body, given: Sequence[Array]) -> Body:
    """Return ``body`` with a hint that the arrays ``given`` share memory with no other."""
    for position, stmt in enumerate(body):
        if isinstance(stmt, Hint) and stmt.name == "apart":
            hint = with_fields(stmt, args=(*stmt.args, *given))
            return (hint, *body[:position], *body[position + 1 :])
    return (Hint("apart", tuple(given)), *body)
