"""Denormal numbers as 0 in a linked nest: in its kernels, and in each thread of parallel loops.

A parallel loop starts in the mode of the caller: the threads of a pool are made at its first one,
and a new thread has the mode of the one that makes it. Where an iteration is one call, the function
that it calls changes the mode, so that the loop still is nothing but calls.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from schedlang.intrinsics.dialect import NAMES
from schedlang.machine.identifiers import Names
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    INDEX,
    Alloc,
    Body,
    Fn,
    For,
    Hint,
    Invoke,
    Let,
    Reg,
    Run,
    Stmt,
    View,
)
from schedlang.machine.walks import walk, with_bodies


def with_flushed_denormals(nest: MachineNest) -> MachineNest:
    """Return a linked nest whose kernels take denormal numbers as 0.

    Each thread has its own mode again after a kernel or an iteration of a parallel loop.

    >>> from schedlang.ir.nodes import Buffer, with_fields
    >>> from schedlang.machine.nodes import Array, Function, Load, Num, Store, Type
    >>> x = Array("x", Buffer("x", "float32", (8,)))
    >>> i, value = Reg("i"), Load("load", x, Reg("i"), Type("float32"))
    >>> loop = For(i, Num(8), (Store("store", x, i, value),))
    >>> kernel = Function("kernel", (x,), (loop, replace(loop, parallel=True)), parallel=True)
    >>> entry = Function("network", (x,), (Run("kernel", (x,)),))
    >>> print(with_flushed_denormals(MachineNest((kernel, entry))))
    kernel(x: float32[]):
      mode: int64 = flush_denormals()
      for i in 0..8:
        store(x, i, load(x, i))
      mode = restore_mode(mode)
      parallel i in 0..8:
        thread_mode: int64 = flush_denormals()
        store(x, i, load(x, i))
        thread_mode = restore_mode(thread_mode)
    <BLANKLINE>
    network(x: float32[]):
      kernel(x)
    """
    names = Names({*NAMES, *nest.identifiers()})
    mode, thread_mode = Reg(names.fresh("mode")), Reg(names.fresh("thread_mode"))
    flush = _Flush(mode, thread_mode, _threaded(nest))
    called = {stmt.function for stmt in nest.entry.body if isinstance(stmt, Run)}
    flushed = called | flush.threaded | _iterations(nest)
    functions = [
        replace(f, body=flush.body(f.body)) if f.name in flushed else f for f in nest.functions[:-1]
    ]
    return nest.with_functions([*functions, nest.entry])


def _threaded(nest: MachineNest) -> set[str]:
    """Return the functions that run a parallel loop, also by what they call."""
    names: set[str] = set()
    for function in nest.functions[:-1]:
        if any(_starts_threads(stmt, names) for stmt, _ in walk(function.body)):
            names.add(function.name)
    return names


def _iterations(nest: MachineNest) -> set[str]:
    """Return the functions that are all that an iteration of a parallel loop calls."""
    statements = (stmt for f in nest.functions[:-1] for stmt, _ in walk(f.body))
    loops = (stmt for stmt in statements if isinstance(stmt, For) and stmt.parallel)
    return {run.function for loop in loops if (run := _only_call(loop)) is not None}


def _only_call(loop: For) -> Run | None:
    """Return the call that is the whole body of a loop, ``None`` if it has another body."""
    first = loop.body[0] if len(loop.body) == 1 else None
    return first if isinstance(first, Run) else None


def _starts_threads(stmt: Stmt, threaded: Container[str]) -> bool:
    parallel = isinstance(stmt, For) and stmt.parallel
    return parallel or (isinstance(stmt, Run) and stmt.function in threaded)


@dataclass(frozen=True)
class _Flush:
    """The registers of modes, outside and inside parallel loops, and the ``threaded`` functions."""

    mode: Reg
    thread_mode: Reg
    threaded: set[str]

    def body(self, body: Body) -> Body:
        """Return a body that changes the mode around all statements that start no threads."""
        stmts_: list[Stmt] = []
        alone: list[Stmt] = []
        for stmt in body:
            if not any(_starts_threads(inner, self.threaded) for inner, _ in walk((stmt,))):
                alone.append(stmt)
                continue
            stmts_ += [*_flushed(alone, self.mode), self.around_threads(stmt)]
            alone = []
        return (*stmts_, *_flushed(alone, self.mode))

    def around_threads(self, stmt: Stmt) -> Stmt:
        """Return a statement that starts threads, with the mode changed inside of it."""
        if isinstance(stmt, For) and stmt.parallel:
            if _only_call(stmt) is not None:
                return stmt
            return replace(stmt, body=tuple(_flushed(stmt.body, self.thread_mode)))
        return with_bodies(stmt, self.body)


def _flushed(body: Iterable[Stmt], mode: Reg) -> list[Stmt]:
    """Return statements in the mode that flushes; those that compute nothing stay outside of it.

    So does a call of a user's function, which is a kernel of its own.
    """
    listed = list(body)
    first = next((k for k, s in enumerate(listed) if not isinstance(s, _OUTSIDE)), None)
    if first is None:
        return listed
    before = Let(mode, Fn("flush_denormals", (), INDEX))
    after = Let(mode, Fn("restore_mode", (mode,), INDEX))
    return [*listed[:first], before, *listed[first:], after]


_OUTSIDE = (Alloc, View, Hint, Invoke)
