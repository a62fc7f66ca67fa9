"""Statements of a loop nest, whose values are expressions over loop variables and loads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional, Union

from schedlang.compute.reduce import Reducer
from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import ArrayRead, Axis, Expr
from schedlang.index.linear import Lin
from schedlang.state.layout import Layout

LOOP_KINDS = ("serial", "parallel", "vectorize", "unroll", "vthread", "thread")


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array: an argument, or storage that an :class:`Alloc` allocates.

    ``strides`` count elements; ``storage_align`` makes them larger than packed ones. ``double``
    asks for two copies, so that one is filled while the other is read.
    """

    name: str
    dtype: str
    shape: tuple[Union[int, Expr], ...]
    scope: str = "global"
    tensor: Optional[Tensor] = None
    strides: Optional[tuple[int, ...]] = None
    double: bool = False

    @property
    def size(self) -> int | None:
        """The number of elements with padding; ``None`` if it depends on sizes."""
        fixed = [e for e in self.shape if isinstance(e, int)]
        if len(fixed) < len(self.shape):
            return None
        if self.strides is not None and fixed:
            return self.strides[0] * fixed[0]
        return math.prod(fixed)

    @property
    def bytes(self) -> int | None:
        copies = 2 if self.double else 1
        return None if self.size is None else self.size * itemsize(self.dtype) * copies


@dataclass(frozen=True, eq=False, repr=False)
class Load(ArrayRead):
    """One element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    dtype: str
    weak: bool = False

    @property
    def source(self) -> str:
        return self.buffer.name

    def with_children(self, children: tuple[Expr, ...]) -> Load:
        return Load(self.buffer, children, self.dtype)


@dataclass(frozen=True, eq=False)
class For:
    """A loop in which ``axis`` runs over ``0..extent``.

    ``tag`` names the thread index of a loop of kind ``"thread"``.
    """

    axis: Axis
    extent: Union[int, Expr]
    kind: str
    body: Block
    stage: str
    tag: str = ""
    pragmas: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class If:
    """A guard: ``body`` runs if ``cond`` holds; ``note`` states the purpose of the guard.

    ``predicate`` marks a user's store predicate, which leaves elements unwritten on purpose.
    ``tail`` marks the guard of a split whose factor does not divide the extent. ``where`` marks
    the condition of a reduction: it skips updates, but not the initialization of an element.
    """

    cond: Expr
    body: Block
    note: str = ""
    predicate: bool = False
    tail: bool = False
    where: bool = False


@dataclass(frozen=True, eq=False)
class Store:
    """The assignment ``buffers[k][indices] = values[k]``, for all ``k`` at once.

    With a ``reducer``, the store combines the values with the elements it finds.
    """

    buffers: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    reducer: Optional[Reducer] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class Alloc:
    """An allocation that lives to the end of the enclosing block.

    ``origin`` is the tensor's element at index 0 of the buffer; indices are relative to it.
    ``layout`` maps a relative index to its place in the buffer; it is empty for the identity.
    """

    buffer: Buffer
    origin: tuple[Lin, ...] = ()
    layout: Layout = ()


@dataclass(frozen=True, eq=False)
class Fetch:
    """A hint that prefetches the cache line of one element."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier of a thread block: its threads wait here, then see each other's earlier writes."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """A warp shuffle: ``into[indices]`` of each thread becomes another's ``source[indices]``.

    The other thread of the warp is the one whose number differs in the bit ``distance`` (a
    butterfly). All buffers are local, and all threads of the warp take part.
    """

    into: tuple[Buffer, ...]
    source: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    distance: int


@dataclass(frozen=True, eq=False)
class Note:
    """A comment in the printed nest, which says where the schedule is not consistent yet."""

    text: str


@dataclass(frozen=True, eq=False)
class Block:
    stmts: tuple[Stmt, ...] = ()


Stmt = Union[For, If, Store, Alloc, Fetch, Barrier, Exchange, Note, Block]


def walk(root: Stmt) -> Iterator[tuple[Stmt, int]]:
    """Yield every statement with its depth in loops and guards, in program order."""
    stack: list[tuple[Stmt, int]] = [(root, 0)]
    while stack:
        stmt, depth = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, depth) for s in reversed(stmt.stmts))
            continue
        yield stmt, depth
        if isinstance(stmt, (For, If)):
            stack.append((stmt.body, depth + 1))


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that ``stmt`` evaluates itself, without those of its body."""
    if isinstance(stmt, Store):
        return (*stmt.indices, *stmt.values)
    if isinstance(stmt, If):
        return (stmt.cond,)
    if isinstance(stmt, (Fetch, Exchange)):
        return stmt.indices
    if isinstance(stmt, For) and isinstance(stmt.extent, Expr):
        return (stmt.extent,)
    return ()
