"""Statements of a loop nest, whose values are expressions over loop variables and loads.

The ``number`` of a statement is its place among the statements of the scheduled nest
(:mod:`schedlang.ir.numbers`). The statements that a pass makes of one keep its number.

A statement declares what its fields hold: ``HELD`` the statements in it, ``EXPRESSIONS`` what it
evaluates itself, ``POLYNOMIALS`` the ones among these in normal form, ``READ`` and ``WRITTEN`` the
buffers that it accesses at its indices, ``DEFINES`` the buffers that it allocates, and ``BINDS``
the axes that have a value in it. Walks, rewriting and substitution derive from this. A declared
field may be a tuple, or a number.

A statement that GPU lowering alone makes has its meaning in that package's emulation, lockstep
check and ``gpu_lowering/simt.py``, and its translation in ``machine/select/gpu.py``.

The last six statements are made by the passes of ``machine/loops``. They print and run in the
interpreter, but the passes of lowering and the verifier of nests do not know them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import is_
from typing import Any, Optional, TypeVar, Union

from schedlang.compute.reduce import Reducer
from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import ArrayRead, Axis, Expr
from schedlang.index.linear import Lin
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.fragments import Fragment
from schedlang.ir.extern_call import Extern, Touch
from schedlang.ir.statement import Statement as Statement
from schedlang.state.layout import Layout, Swizzle

LOOP_KINDS = ("serial", "parallel", "vectorize", "unroll", "vthread", "thread", "tensorize")


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array: an argument, or storage that an :class:`Alloc` allocates.

    ``strides`` count elements; ``storage_align`` makes them larger than packed ones. Of ``copies``
    that it asks for, one is read while the others are filled: by threads that write, or, if it is
    ``asynchronous``, by copies that go on while the threads compute. ``swizzles`` move elements
    within the buffer: indices are those before, and :mod:`schedlang.ir.offsets` has them. One with
    a ``whole`` is a view of every other element of that array, from element ``part`` on: the real
    or the imaginary parts of complex numbers. GPU lowering gives a fragment its ``fragment``; the
    last dimensions are then lanes and registers.
    """

    name: str
    dtype: str
    shape: tuple[Union[int, Expr], ...]
    scope: str = "global"
    tensor: Optional[Tensor] = None
    strides: Optional[tuple[int, ...]] = None
    copies: int = 1
    asynchronous: bool = False
    swizzles: tuple[Swizzle, ...] = ()
    whole: Optional[Buffer] = None
    part: int = 0
    fragment: Optional[Fragment] = None

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
        return None if self.size is None else self.size * itemsize(self.dtype) * self.copies


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

    @property
    def count(self) -> int:
        """The number of adjacent elements."""
        return 1

    def with_children(self, children: tuple[Expr, ...]) -> Load:
        return Load(self.buffer, children, self.dtype)


@dataclass(frozen=True, eq=False)
class For(Statement):
    """A loop over ``axis``, which runs over ``0..extent``.

    ``tag`` names the thread index of a loop of kind ``"thread"``. A loop of kind ``"tensorize"``
    and the loops in it are computed by an ``instruction``.
    """

    HELD = ("body",)
    EXPRESSIONS = ("extent", "again")
    BINDS = ("axis",)

    axis: Axis
    extent: Union[int, Expr]
    kind: str
    body: Block
    stage: str
    tag: str = ""
    pragmas: tuple[tuple[str, Any], ...] = ()
    number: Optional[int] = None
    instruction: Optional[Instruction] = None
    again: Optional[Load] = None  # a serial loop ends before an iteration in which it is false


@dataclass(frozen=True, eq=False)
class If(Statement):
    """A guard: ``body`` runs if ``cond`` holds; ``note`` states the purpose of the guard.

    ``predicate`` marks a user's store predicate, which leaves elements unwritten on purpose.
    ``tail`` marks the guard of a split whose factor does not divide the extent. ``where`` marks
    the condition of a reduction: it skips updates, but not the initialization of an element.
    ``slides`` marks the test of a sliding window, which skips rows that are computed already.
    A condition of a ragged range has the end of the axis's box at that side as ``limit``.
    ``bounds`` marks a test of the variable of the loop directly around, which the loop's range can
    replace (:mod:`schedlang.ir.trimmed`): its end is ``"inside"`` of that range, or ``"unknown"``.
    """

    HELD = ("body",)
    EXPRESSIONS = ("cond",)

    cond: Expr
    body: Block
    note: str = ""
    predicate: bool = False
    tail: bool = False
    where: bool = False
    slides: bool = False
    limit: Union[int, Expr, None] = None
    bounds: str = ""
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Store(Statement):
    """The assignment ``buffers[k][indices] = values[k]``, for all ``k`` at once.

    With a ``reducer``, the store combines the values with the elements it finds. A ``streamed`` one
    bypasses the cache. One that ``scatters`` has indices that may depend on reduction axes and on
    data, so that two iterations may update one element; if threads of a GPU may, it is ``atomic``.
    An ``asynchronous`` one copies elements of global to shared memory while its thread goes on.
    """

    EXPRESSIONS = ("indices", "values")
    WRITTEN = ("buffers",)

    buffers: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    reducer: Optional[Reducer] = None
    stage: str = ""
    streamed: bool = False
    scatters: bool = False
    atomic: bool = False
    asynchronous: bool = False
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Alloc(Statement):
    """An allocation that lives to the end of the enclosing block.

    ``origin`` is the tensor's element at index 0 of the buffer; indices are relative to it.
    ``layout`` maps a relative index to its place in the buffer; it is empty for the identity.
    """

    POLYNOMIALS = ("origin",)
    DEFINES = ("buffer",)

    buffer: Buffer
    origin: tuple[Lin, ...] = ()
    layout: Layout = ()
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Fetch(Statement):
    """A hint that prefetches the cache line of one element."""

    EXPRESSIONS = ("indices",)
    READ = ("buffer",)

    buffer: Buffer
    indices: tuple[Expr, ...]
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Barrier(Statement):
    """A barrier of a thread block: its threads wait here, then see each other's earlier writes.

    With ``pending``, each thread first waits until at most so many groups of its asynchronous
    copies are not there yet.
    """

    pending: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Commit(Statement):
    """The end of a group of asynchronous copies: what its thread copied since the last group."""


@dataclass(frozen=True, eq=False)
class Exchange(Statement):
    """A warp shuffle: ``into[indices]`` of each thread becomes another's ``source[indices]``.

    The other thread of the warp is the one whose number differs in the bit ``distance`` (a
    butterfly). All buffers are local, and all threads of the warp take part.
    """

    EXPRESSIONS = ("indices",)
    READ = ("source",)
    WRITTEN = ("into",)

    into: tuple[Buffer, ...]
    source: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    distance: int
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Note(Statement):
    """A comment in the printed nest, which says where the schedule is not consistent yet."""

    text: str
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Block(Statement):
    HELD = ("stmts",)

    stmts: tuple[Stmt, ...] = ()


@dataclass(frozen=True, eq=False)
class Lanes(Statement):
    """The values ``start .. start + count`` of a vectorized ``axis``, all at once."""

    HELD = ("body",)
    POLYNOMIALS = ("start",)
    BINDS = ("axis",)

    axis: Axis
    start: Lin
    count: int
    body: Block


@dataclass(frozen=True, eq=False)
class Strips(Statement):
    """A loop over the vectors of a vectorized ``axis``, whose first lanes are ``start``.

    ``start`` runs over ``0, step, ...`` below ``stop``. The loop may become a ``function``.
    """

    HELD = ("body",)
    BINDS = ("start", "axis")

    axis: Axis
    start: Axis
    stop: int
    step: int
    body: Block
    stage: str
    function: bool = False
    number: Optional[int] = None


@dataclass(frozen=True)
class Columns:
    """A block of ``count`` vectors that is read by rows and transposed in registers.

    Lane ``l`` of vector ``k`` is the element ``first + l*step + k``; ``axis`` counts the vectors.
    """

    buffer: Buffer
    first: Lin
    step: int
    count: int
    lanes: int
    axis: Axis


@dataclass(frozen=True, eq=False)
class Copy(Statement):
    """Statements with the number ``at`` in place of ``axis``."""

    HELD = ("body",)
    POLYNOMIALS = ("at",)
    BINDS = ("axis",)

    axis: Axis
    at: int
    body: Block


@dataclass(frozen=True, eq=False)
class Copies(Statement):
    """The copies of an unrolled loop's body, in the order of its iterations.

    ``share`` says that they consist of stores alone, so that they may share loads; ``shared`` are
    the loads and conditions that they share, and ``blocks`` the transposed blocks whose columns
    they read. The outermost of nested copies lists what all of them share and read.
    """

    HELD = ("copies",)

    copies: tuple[Copy, ...]
    share: bool = False
    shared: frozenset[Expr] = frozenset()
    blocks: frozenset[Columns] = frozenset()


@dataclass(frozen=True, eq=False)
class Kept(Statement):
    """Statements during which the elements of ``buffers`` that they update stay in registers."""

    HELD = ("body",)

    buffers: frozenset[Buffer]
    body: Block


@dataclass(frozen=True, eq=False)
class Masked(Statement):
    """A guard whose condition differs between lanes.

    ``leads`` says that the first lane passes it and all masks around it.
    """

    HELD = ("body",)
    EXPRESSIONS = ("cond",)

    cond: Expr
    body: Block
    note: str = ""
    leads: bool = False
    number: Optional[int] = None


Stmt = Union[
    For,
    If,
    Store,
    Alloc,
    Fetch,
    Touch,
    Extern,
    Barrier,
    Commit,
    Exchange,
    Note,
    Block,
    Lanes,
    Strips,
    Copies,
    Copy,
    Kept,
    Masked,
]
# statements that hold one block
Around = (For, If, Extern, Lanes, Strips, Copy, Kept, Masked)


def buffers_of(stmt: Stmt) -> tuple[Buffer, ...]:
    """Return the buffers that a statement itself accesses, without those that its values read."""
    return (*written_by(stmt), *read_by(stmt))


def written_by(stmt: Stmt) -> tuple[Buffer, ...]:
    """Return the buffers that a statement itself writes."""
    return _items_of(stmt, stmt.WRITTEN)


def read_by(stmt: Stmt) -> tuple[Buffer, ...]:
    """Return the buffers that a statement itself reads, without those that its values read."""
    return _items_of(stmt, stmt.READ)


def _items_of(stmt: Stmt, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return what the fields ``names`` hold; a tuple counts with each of its parts."""
    items: list[Any] = []
    for name in names:
        field = getattr(stmt, name)
        if type(field) is tuple:
            items += field
        else:
            items.append(field)
    return tuple(items)


def walk(root: Stmt) -> list[tuple[Stmt, int]]:
    """Return every statement with its depth in loops and guards, in program order."""
    entries: list[tuple[Stmt, int]] = []
    stack: list[tuple[Stmt, int]] = [(root, 0)]
    while stack:
        entry = stack.pop()
        stmt, depth = entry
        if isinstance(stmt, Block):
            stack += [(s, depth) for s in reversed(stmt.stmts)]
            continue
        entries.append(entry)
        for name in reversed(stmt.HELD):
            inner = getattr(stmt, name)
            if type(inner) is tuple:
                stack += [(s, depth + 1) for s in reversed(inner)]
            else:
                stack.append((inner, depth + 1))
    return entries


def defined_by(stmt: Stmt) -> tuple[Buffer, ...]:
    """Return the buffers that a statement itself allocates."""
    return _items_of(stmt, stmt.DEFINES)


def bound(stmt: Stmt) -> tuple[Axis, ...]:
    """Return the axes that have a value in the statements of ``stmt``."""
    return _items_of(stmt, stmt.BINDS)


def held_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements that ``stmt`` directly holds, in program order."""
    return _items_of(stmt, stmt.HELD)


Node = TypeVar("Node")


def with_fields(node: Node, **fields: Any) -> Node:
    """Return the statement ``node`` with other values of some fields.

    It does what :func:`dataclasses.replace` does, which spends most of its time on checks.
    """
    kind: Any = type(node)
    return kind(*[fields[n] if n in fields else getattr(node, n) for n in _names_of(kind)])


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


def with_held(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return ``stmt`` with ``change`` applied to the statements that it directly holds.

    The result is ``stmt`` itself if ``change`` returns each of them unchanged.
    """
    if isinstance(stmt, Block):
        stmts = tuple([change(s) for s in stmt.stmts])
        return stmt if all(map(is_, stmts, stmt.stmts)) else Block(stmts)
    if isinstance(stmt, Copies):
        # a copy is not a statement by itself
        copies = tuple([with_held(copy, change) for copy in stmt.copies])
        return stmt if all(map(is_, copies, stmt.copies)) else with_fields(stmt, copies=copies)
    for name in stmt.HELD:
        old = getattr(stmt, name)
        new = change(old)
        if new is not old:
            stmt = with_fields(stmt, **{name: block_of(new)})
    return stmt


def block_of(stmt: Stmt) -> Block:
    """Return ``stmt`` as a block."""
    return stmt if isinstance(stmt, Block) else Block((stmt,))


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that ``stmt`` evaluates itself, not those that its body evaluates."""
    if not stmt.EXPRESSIONS:
        return ()
    return tuple([e for e in _items_of(stmt, stmt.EXPRESSIONS) if isinstance(e, Expr)])
