"""Storage on the stack: small arrays are there, and copies of unrolled code share them."""

from __future__ import annotations

from collections import Counter

from schedlang.expr.dtypes import itemsize
from schedlang.ir.nodes import Buffer, with_fields
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Alloc, Array, Body, Function, Stmt
from schedlang.machine.passes.job import Job
from schedlang.machine.walks import walk, with_bodies, with_statements

STACK_BYTES = 64 * 1024
STACK_TOTAL = 512 * 1024


def place_storage(nest: MachineNest, job: Job) -> MachineNest:
    """Return ``nest`` with each array that fits there on the stack, and the others on the heap.

    An array of the stack that several statements allocate is allocated once, around them.
    Otherwise the function's stack frame would hold the storage of every copy.
    """
    return nest.with_functions(map(_in_function, nest.functions))


def _in_function(function: Function) -> Function:
    arrays = [s.array for s, _ in walk(function.body) if isinstance(s, Alloc)]
    if not arrays:
        return function
    times = Counter(arrays)
    buffers: dict[str, set[Buffer]] = {}
    for array in arrays:
        buffers.setdefault(array.name, set()).add(array.buffer)
    used, stack, shared = 0, set(), set()
    for array in arrays:
        once = times[array] > 1 and len(buffers[array.name]) == 1
        if array in stack and once:
            continue
        size = array.buffer.size
        need = 0 if size is None else size * itemsize(array.dtype)
        if size is not None and need <= min(STACK_BYTES, STACK_TOTAL - used):
            used += need
            stack.add(array)
            if once:
                shared.add(array)
    return with_fields(function, body=_placed(_hoist(function.body, shared), stack))


def _hoist(body: Body, shared: set[Array]) -> Body:
    """Return ``body`` with each of ``shared`` allocated once, in the innermost common block."""
    if not shared:
        return body
    block: list[Stmt] = []
    hoisted: set[Array] = set()
    holds = [_allocated(stmt) & shared for stmt in body]
    several = {a for a in shared if sum(a in arrays for arrays in holds) > 1}
    for stmt, arrays in zip(body, holds):
        for array in sorted(arrays & several - hoisted, key=lambda a: a.name):
            hoisted.add(array)
            first = next(s for s, _ in walk(body) if isinstance(s, Alloc) and s.array == array)
            block.append(first)
        rest = _without(stmt, arrays & several)
        if rest is not None:
            block.append(_inside(rest, arrays - several))
    return tuple(block)


def _allocated(stmt: Stmt) -> set[Array]:
    return {s.array for s, _ in walk((stmt,)) if isinstance(s, Alloc)}


def _without(stmt: Stmt, arrays: set[Array]) -> Stmt | None:
    """Return ``stmt`` without the allocations of ``arrays``; ``None`` if nothing is left."""
    if not arrays:
        return stmt
    if isinstance(stmt, Alloc):
        return None if stmt.array in arrays else stmt
    return with_bodies(stmt, lambda body: _all_without(body, arrays))


def _all_without(body: Body, arrays: set[Array]) -> Body:
    rest = (_without(stmt, arrays) for stmt in body)
    return tuple(stmt for stmt in rest if stmt is not None)


def _inside(stmt: Stmt, shared: set[Array]) -> Stmt:
    return with_bodies(stmt, lambda body: _hoist(body, shared))


def _placed(body: Body, stack: set[Array]) -> Body:
    """Return ``body`` with the place of each allocation; ``body`` itself if there is none."""
    return with_statements(body, lambda stmt: _placed_in(stmt, stack))


def _placed_in(stmt: Stmt, stack: set[Array]) -> Stmt:
    if isinstance(stmt, Alloc) and stmt.place is None:
        return with_fields(stmt, place="stack" if stmt.array in stack else "heap")
    return with_bodies(stmt, lambda body: _placed(body, stack))
