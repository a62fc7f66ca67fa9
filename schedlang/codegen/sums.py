"""Sums that stay in registers while the innermost reduction loops run.

An update of memory in each iteration waits for the store before it. Where the elements that a
reduction loop updates stand still, they are named values inside of it: read ahead of the loop, or
begun with the constant that would be stored there, and written behind it. Exo calls this
``stage_mem(..., accum=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
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
from schedlang.target import Target

if TYPE_CHECKING:
    from schedlang.codegen.context import Text

# where a sum stands: its buffer, its offset (of the first lane), its lanes (0 for one element) and
# how far apart these are
Spot = tuple[Buffer, Lin, int, int]


@dataclass(frozen=True)
class Sum:
    """One named value, and the offset it is read from and written to, as text.

    ``before`` are the lines that the offset needs first.
    """

    name: str
    at: str
    before: tuple[str, ...] = ()


@dataclass
class Sums:
    """The named values of one reduction loop, found as its body is written.

    ``index`` are the names of index arithmetic that stands ahead of the loop, by its text. With
    ``waits``, each step adds to one sum, so that an addition takes as long as a step.
    """

    buffers: frozenset[Buffer]
    index: dict[str, Text] = field(default_factory=dict)
    named: dict[Spot, Sum] = field(default_factory=dict)
    waits: bool = False


@dataclass(frozen=True)
class Start:
    """A store of a constant: the line, and the offset and the value in it, as text."""

    spot: Spot
    line: str
    at: str
    value: str


@dataclass(frozen=True)
class Starts:
    """The stores of constants that the lines written last hold: a sum may begin with one.

    ``first`` and ``end`` are the places of those lines, which are ``depth`` deep.
    """

    first: int = 0
    end: int = 0
    depth: int = 0
    found: tuple[Start, ...] = ()

    def followed(self, first: int, end: int, depth: int, found: tuple[Start, ...]) -> Starts:
        """Return the starts after one more store; there are none if it does not store constants."""
        if not found:
            return Starts()
        if (self.end, self.depth) == (first, depth):
            return Starts(self.first, end, depth, (*self.found, *found))
        return Starts(first, end, depth, found)

    def of(self, sums: Sums) -> dict[Spot, Start]:
        """Return the start of each sum, for buffers where every sum was stored exactly once."""
        begun: dict[Spot, Start] = {}
        for buffer in sums.buffers:
            starts = [s for s in self.found if s.spot[0] is buffer]
            spots = {s.spot: s for s in starts}
            if len(spots) == len(starts) and set(spots) == {
                k for k in sums.named if k[0] is buffer
            }:
                begun |= spots
        return begun


def kept_buffers(
    loop: For, widest: Callable[[str], int], most: int, steps: Container[Axis],
    outside: tuple[For, ...] = (),
) -> frozenset[Buffer]:  # fmt: skip
    """Return the buffers whose sums can be named values inside ``loop``; none if there are others.

    ``widest`` gives the lanes of a vector of a dtype, ``most`` the registers to hold the sums,
    ``steps`` are the reduction axes of the loop's stage, ``outside`` a loop around it whose
    iterations are the lanes of a vector. A reduction's ``where``, and a test that speaks of steps
    and of unrolled loops alone, leave out steps: the sums stand where they stand. Another may keep
    an element in bounds.
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
            if stmt.where or leaves_out_steps(stmt, steps, around):
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
    """Return the buffers whose sums a GPU's thread names inside ``loop``, as :func:`kept_buffers`.

    Only those of global and shared memory: local storage is in registers already.
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
    """Return the vectors of ``width`` lanes that ``lanes`` fill, the last perhaps in part."""
    return -(-lanes // width)


def leaves_out_steps(test: If, steps: Container[Axis], around: tuple[For, ...]) -> bool:
    """Return whether ``test`` depends on steps and unrolled loops alone, so that no sum waits."""
    written = {loop.axis for loop in around if loop.kind == "unroll"}
    axes = [node for node in postorder([test.cond]) if isinstance(node, Axis)]
    return not test.predicate and bool(axes) and all(a in steps or a in written for a in axes)


def _used_otherwise(body: Block, buffers: frozenset[Buffer]) -> bool:
    """Return whether something but an update reads or writes ``buffers``."""
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
    """Return the registers that the sums of ``store`` take; ``None`` where they move.

    ``registers`` gives those of so many lanes, where so many fit in one.
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
            # lanes far apart, too, are gathered ahead of the loop and scattered behind it
            if not all(lane_step(flat(b, store.indices), loop.axis) for b in store.buffers):
                return None
            count *= registers(loop.extent, lanes)
        else:
            return None
    return count


def _moves(index: Expr, axis: Axis) -> bool:
    return any(node is axis for node in postorder([index]))


__all__ = [
    "Start",
    "Starts",
    "Sum",
    "Sums",
    "kept_buffers",
    "kept_by_thread",
    "leaves_out_steps",
    "steps_of",
    "vectors",
    "vectors_of",
]
