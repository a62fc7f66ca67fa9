"""Sums that stay in registers while the innermost reduction loops run.

An update of memory in each iteration waits for the previous iteration's store. Where a reduction
loop updates the same elements in every iteration, these become local variables of the kernel. They
are loaded before the loop, or initialized with the constant that would be stored there, and stored
after it. Exo calls this ``stage_mem(..., accum=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
)  # fmt: skip
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.nodes import Let, Reg, Value, parts
from schedlang.machine.nodes import Load as MachineLoad
from schedlang.machine.nodes import Stmt as MachineStmt
from schedlang.machine.nodes import Store as MachineStore
from schedlang.target import Target

# the place of a sum in memory: its buffer, the offset of its first lane, its lanes (0 for one
# element) and the distance between lanes, in elements
Spot = tuple[Buffer, Lin, int, int]


@dataclass(frozen=True)
class Sum:
    """A register that holds a sum, and the offset that it is loaded from and stored to.

    ``before`` are the statements that compute the offset.
    """

    reg: Reg
    at: Value
    before: tuple[MachineStmt, ...] = ()


@dataclass
class Sums:
    """The registers for the sums of one reduction loop, collected as its body is built.

    ``index`` holds the registers of index arithmetic before the loop.
    ``latency_bound`` says that every iteration adds to the same sum, so that each addition waits
    for the previous one.
    """

    buffers: frozenset[Buffer]
    index: dict[Value, Reg] = field(default_factory=dict)
    named: dict[Spot, Sum] = field(default_factory=dict)
    latency_bound: bool = False


def starts_of(
    stmts: Sequence[MachineStmt], constant: Mapping[MachineStore, Spot], sums: Sums
) -> dict[Spot, MachineStore]:
    """Return the stores of constants at the end of ``stmts`` from which ``sums`` can start.

    ``constant`` holds the places of stores of constants. A buffer's sums start from them if each of
    its sums was stored exactly once.
    """
    found: list[MachineStore] = []
    for stmt in reversed(stmts):
        if isinstance(stmt, MachineStore) and stmt in constant:
            found.append(stmt)
        elif not isinstance(stmt, Let) or _reads_memory(stmt.value):
            break
    begun: dict[Spot, MachineStore] = {}
    for buffer in sums.buffers:
        own = [stmt for stmt in found if constant[stmt][0] is buffer]
        spots = {constant[stmt]: stmt for stmt in own}
        if len(spots) == len(own) and set(spots) == {k for k in sums.named if k[0] is buffer}:
            begun |= spots
    return begun


def _reads_memory(value: Value) -> bool:
    return any(isinstance(v, MachineLoad) for v in parts(value))


def kept_buffers(
    loop: For, widest: Callable[[str], int], most: int, steps: Container[Axis],
    outside: tuple[For, ...] = (),
) -> frozenset[Buffer]:  # fmt: skip
    """Return the buffers that ``loop`` updates, if all their sums can stay in registers inside it.

    Return no buffer otherwise.

    ``widest`` gives the lanes of a vector of a dtype, ``most`` is the number of registers for sums,
    ``steps`` are the reduction axes of the loop's stage, and ``outside`` is a loop around it whose
    iterations are the lanes of a vector. A reduction's ``where``, and a test of reduction axes and
    unrolled axes alone, only skip iterations, so the sums may stay in registers. Any other test may
    keep an index in bounds, so the sums inside of it may not.
    """
    none: frozenset[Buffer] = frozenset()
    if loop.kind not in ("serial", "unroll") or not loop.axis.is_reduce:
        return none
    updates = [s for s, _ in walk(loop.body) if isinstance(s, Store) and s.reducer is not None]
    buffers = frozenset(b for s in updates for b in s.buffers)
    if not updates or _used_otherwise(loop.body, buffers):
        return none
    held = 0
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(loop.body, (*outside, loop))]
    while stack:
        stmt, around = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, around) for s in stmt.stmts)
        elif isinstance(stmt, If):
            if stmt.where or skips_iterations(stmt, steps, around):
                stack.append((stmt.body, around))
            elif any(isinstance(s, Store) and buffers & set(s.buffers) for s, _ in walk(stmt)):
                return none
        elif isinstance(stmt, For):
            stack.append((stmt.body, (*around, stmt)))
        elif isinstance(stmt, Alloc) and stmt.buffer in buffers:
            return none
        elif isinstance(stmt, Store) and buffers & set(stmt.buffers):
            taken = vectors_of(stmt, around, widest)
            if taken is None:
                return none
            held += taken
    return buffers if held <= most else none


def kept_by_thread(
    loop: For, target: Target, steps: Container[Axis], outside: tuple[For, ...] = ()
) -> frozenset[Buffer]:
    """Return the buffers whose sums a GPU thread keeps in registers, as :func:`kept_buffers` does.

    They are buffers of global and shared memory: local storage is in registers already.
    """
    none: frozenset[Buffer] = frozenset()
    copies = ("unroll", "vectorize")
    if any(isinstance(s, For) and s.kind in copies for s, _ in walk(loop.body)):
        return none
    found = kept_buffers(loop, target.vector_width, target.vector_registers, steps, outside)
    return none if any(b.scope == "local" for b in found) else found


def steps_of(loop: For, nest: Nest) -> set[Axis]:
    """Return the reduction axes of the stage of ``loop``."""
    return {f.axis for f in nest.loops if f.stage == loop.stage and f.axis.is_reduce}


def vectors(lanes: int, width: int) -> int:
    """Return the number of vectors of ``width`` lanes that hold ``lanes``, rounded up."""
    return -(-lanes // width)


def skips_iterations(test: If, steps: Container[Axis], around: tuple[For, ...]) -> bool:
    """Return whether ``test`` depends on reduction axes ``steps`` and unrolled axes alone.

    Such a test skips iterations and keeps no index in bounds.
    """
    unrolled = {loop.axis for loop in around if loop.kind == "unroll"}
    axes = [node for node in postorder([test.cond]) if isinstance(node, Axis)]
    return not test.predicate and bool(axes) and all(a in steps or a in unrolled for a in axes)


def _used_otherwise(body: Block, buffers: frozenset[Buffer]) -> bool:
    """Return whether a statement other than an update reads or writes ``buffers``."""
    for stmt, _ in walk(body):
        if isinstance(stmt, Store) and stmt.reducer is None and buffers & set(stmt.buffers):
            return True
        roots: Iterable[Expr] = expressions(stmt)
        if any(isinstance(n, Load) and n.buffer in buffers for n in postorder(roots)):
            return True
    return False


def vectors_of(
    store: Store, around: tuple[For, ...], widest: Callable[[str], int],
    registers: Callable[[int, int], int] = vectors,
) -> int | None:  # fmt: skip
    """Return how many registers the sums of ``store`` take; ``None`` if they cannot stay in them.

    ``registers(lanes, width)`` counts the registers of ``lanes`` when one holds ``width`` lanes.
    """
    count = len(store.buffers)
    for loop in around:
        if loop.kind == "serial":
            if any(_moves(i, loop.axis) for i in store.indices):
                return None
        elif loop.kind in ("unroll", "vectorize") and isinstance(loop.extent, int):
            if loop.kind == "unroll":
                count *= loop.extent if any(_moves(i, loop.axis) for i in store.indices) else 1
                continue
            lanes = min(widest(b.dtype) for b in store.buffers)
            # lanes far apart are fine: they are gathered before the loop and scattered after it
            if not all(lane_step(flat(b, store.indices), loop.axis) for b in store.buffers):
                return None
            count *= registers(loop.extent, lanes)
        else:
            return None
    return count


def _moves(index: Expr, axis: Axis) -> bool:
    return any(node is axis for node in postorder([index]))


__all__ = [
    "Sum",
    "Sums",
    "kept_buffers",
    "kept_by_thread",
    "skips_iterations",
    "starts_of",
    "steps_of",
    "vectors",
    "vectors_of",
]
