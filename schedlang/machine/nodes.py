"""The machine nest: functions of statements over flat arrays, with typed scalars and vectors.

A value has a :class:`Type`: a dtype and a number of lanes. Offsets count elements. The names in it
are those of the emitted file. The ``number`` of a statement or a function is that of the statement
of the loop nest from which it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Optional, Union

from schedlang.expr import dtypes
from schedlang.ir.nodes import Buffer


class Type(NamedTuple):
    """A dtype, and the lanes of a vector; 0 lanes is a scalar.

    A ``float16`` or ``bfloat16`` value is a ``float32`` that holds one.
    """

    dtype: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"{self.dtype}x{self.lanes}" if self.lanes else self.dtype


INDEX = Type(dtypes.INDEX)


@dataclass(frozen=True)
class Array:
    """A flat array: an argument, or storage of the kernel."""

    name: str
    buffer: Buffer

    @property
    def dtype(self) -> str:
        return self.buffer.dtype


@dataclass(frozen=True)
class Reg:
    """A named value: a register, the index of a loop, a size or a scalar argument."""

    name: str
    type: Type = INDEX


@dataclass(frozen=True)
class Num:
    """A constant."""

    value: Any
    type: Type = INDEX


@dataclass(frozen=True)
class Order:
    """The lanes of a shuffled load: lane ``l`` reads the element ``lanes[l]``."""

    lanes: tuple[int, ...]

    @property
    def type(self) -> Type:
        return Type(dtypes.INDEX, len(self.lanes))


@dataclass(frozen=True)
class Op:
    """A binary operation. A scalar operand of a vector operation stands for all lanes.

    ``index`` marks arithmetic on indices, which never overflows; other integers wrap around.
    """

    op: str
    a: Value
    b: Value
    type: Type = INDEX
    index: bool = False


@dataclass(frozen=True)
class Neg:
    """The operation ``-`` or ``~`` on one value."""

    op: str
    a: Value
    type: Type = INDEX


@dataclass(frozen=True)
class Cast:
    """A conversion to another dtype, with NumPy's rules."""

    a: Value
    type: Type


@dataclass(frozen=True)
class Splat:
    """A vector whose lanes are all ``a``."""

    a: Value
    type: Type


@dataclass(frozen=True)
class Iota:
    """The vector ``0, 1, 2, ...``."""

    type: Type


@dataclass(frozen=True)
class Fn:
    """A call of a function of the dialect. ``index`` marks ``min`` and ``max`` of indices."""

    name: str
    args: tuple[Value, ...]
    type: Type
    index: bool = False


@dataclass(frozen=True)
class Both:
    """The truth of ``a and b``; ``b`` is evaluated only if ``a`` holds."""

    a: Value
    b: Value
    type: Type = Type("bool")


@dataclass(frozen=True)
class Choice:
    """``a if cond else b``; only one of them is evaluated."""

    cond: Value
    a: Value
    b: Value
    type: Type


@dataclass(frozen=True)
class Load:
    """Elements of ``array``, by the intrinsic ``how``.

    ``load`` reads one element. Of a vector's lanes, ``vload`` reads adjacent ones from ``at`` on,
    ``vload_strided`` those ``step`` elements apart, ``vload_shuffled`` those of a vector in another
    ``order``, ``vload_columns`` several vectors at once (lane ``l`` of vector ``k`` is at
    ``at + l*step + k``), and ``vgather`` those at a vector ``at`` of offsets. Lanes outside the
    ``mask`` are 0; they are not read. ``vload_if`` returns ``other`` unless the scalar ``mask``
    holds.
    """

    how: str
    array: Array
    at: Value
    type: Type
    step: int = 1
    mask: Optional[Value] = None
    order: Optional[Value] = None
    other: Optional[Value] = None
    columns: int = 0


@dataclass(frozen=True)
class Column:
    """Vector ``at`` of the several that ``vload_columns`` returned."""

    columns: Reg
    at: int

    @property
    def type(self) -> Type:
        return self.columns.type


Value = Union[Reg, Num, Order, Op, Neg, Cast, Splat, Iota, Fn, Both, Choice, Load, Column]


@dataclass(frozen=True, eq=False)
class Let:
    """The assignment ``reg = value``.

    ``stage`` is the stage of which it computes an element; it is empty for other values.
    """

    reg: Reg
    value: Value
    note: str = ""
    number: Optional[int] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class Store:
    """A store of ``value`` to ``array``, by the intrinsic ``how``; see :class:`Load`.

    ``vstore_stream`` bypasses the cache. ``stage`` is the stage of which it computes an element; it
    is empty if it stores a sum that registers held.
    """

    how: str
    array: Array
    at: Value
    value: Value
    step: int = 1
    mask: Optional[Value] = None
    number: Optional[int] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class For:
    """A loop over ``range(start, stop, step)``; its iterations may run in ``parallel``.

    ``label`` is a name for a function of the loop's body. The compiler keeps the loop ``rolled``,
    with that many vectors an iteration, or writes out all iterations of an ``unrolled`` one. A pass
    makes a ``function`` of the loop. ``stage`` and ``axis`` are the printed names of its stage and
    of its loop in the loop nest.
    """

    index: Reg
    stop: Value
    body: Body
    step: int = 1
    parallel: bool = False
    note: str = ""
    label: str = ""
    rolled: int = 0
    unrolled: bool = False
    function: bool = False
    stage: str = ""
    axis: str = ""
    number: Optional[int] = None
    start: Value = Num(0)

    @property
    def from_zero(self) -> bool:
        return isinstance(self.start, Num) and self.start.value == 0


@dataclass(frozen=True, eq=False)
class If:
    """A branch. ``result``, if given, is a register that both sides assign."""

    cond: Value
    body: Body
    orelse: Body = ()
    note: str = ""
    result: Optional[Reg] = None
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Alloc:
    """Storage of ``count`` elements in ``place``: ``stack``, ``heap``, ``shared`` or ``local``.

    A pass decides the place of a CPU's array. Shared storage whose size is given at the launch
    starts at element ``start`` of it.
    """

    array: Array
    count: Value
    place: Optional[str] = None
    start: Optional[int] = None
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class View:
    """The array of ``count`` elements that begins at byte ``start`` of ``whole``, which has bytes.

    A linked nest has arrays in an arena and in one array of all parameters. ``start`` is a multiple
    of the size of an element.
    """

    array: Array
    whole: Array
    start: Value
    count: Value
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Prefetch:
    """A prefetch of the cache line of one element."""

    array: Array
    at: Value
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Hint:
    """A hint to the compiler that arrays are ``apart``, or a ``stream_fence``."""

    name: str
    args: tuple[Array, ...] = ()
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier of a thread block."""

    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Thread:
    """The assignment of a thread or block index of a GPU, ``tag``, to a register."""

    reg: Reg
    tag: str
    note: str = ""
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Run:
    """A call of another function of the nest."""

    function: str
    args: tuple[Union[Array, Value], ...]
    number: Optional[int] = None
    note: str = ""


Stmt = Union[Let, Store, For, If, Alloc, View, Prefetch, Hint, Barrier, Thread, Run]
Body = tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Function:
    """One function of a machine nest; a ``parallel`` one holds a parallel loop."""

    name: str
    parameters: tuple[Union[Array, Reg], ...]
    body: Body
    parallel: bool = False
    number: Optional[int] = None


def wide(value: Value, lanes: int) -> Value:
    """Return ``value`` as a vector of ``lanes``, if there are any."""
    if value.type.lanes or not lanes:
        return value
    return Splat(value, Type(value.type.dtype, lanes))


def children(value: Value) -> tuple[Value, ...]:
    """Return the operands of ``value``."""
    operands = _OPERANDS.get(type(value))
    return () if operands is None else operands(value)


def _of_load(value: Load) -> tuple[Value, ...]:
    if value.mask is None and value.order is None and value.other is None:
        return (value.at,)
    return (value.at, *(v for v in (value.mask, value.order, value.other) if v is not None))


# the operands of each kind of value that has any
_OPERANDS: dict[type, Callable[[Any], tuple[Value, ...]]] = {
    Op: attrgetter("a", "b"),
    Both: attrgetter("a", "b"),
    Neg: lambda v: (v.a,),
    Cast: lambda v: (v.a,),
    Splat: lambda v: (v.a,),
    Fn: attrgetter("args"),
    Choice: attrgetter("cond", "a", "b"),
    Load: _of_load,
    Column: lambda v: (v.columns,),
}


def values(stmt: Stmt) -> tuple[Value, ...]:
    """Return the values that ``stmt`` evaluates itself, without those of its body."""
    if isinstance(stmt, Let):
        return (stmt.value,)
    if isinstance(stmt, Store):
        return (stmt.at, stmt.value, *([] if stmt.mask is None else [stmt.mask]))
    if isinstance(stmt, For):
        return (stmt.stop,) if stmt.from_zero else (stmt.start, stmt.stop)
    if isinstance(stmt, If):
        return (stmt.cond,)
    if isinstance(stmt, Alloc):
        return (stmt.count,)
    if isinstance(stmt, View):
        return (stmt.start, stmt.count)
    if isinstance(stmt, Prefetch):
        return (stmt.at,)
    return tuple(a for a in stmt.args if not isinstance(a, Array)) if isinstance(stmt, Run) else ()


# operations of a value that is walked as if none of them were repeated
MOST_AT_ONCE = 32


def operations(value: Value) -> Sequence[Value]:
    """Return the operations in ``value``, from left to right, operands first, each object once.

    They are no registers and no constants, and ``value`` is at the end. Those before it are kept
    with ``value``, which never changes, since several passes ask for them.
    """
    if isinstance(value, (Reg, Num)):
        return ()
    known: Optional[tuple[Value, ...]] = getattr(value, "_inside", None)
    if known is not None:
        return (*known, value)
    found: list[Value] = []
    stack: list[Value] = [value]
    while stack and len(found) <= MOST_AT_ONCE:
        node = stack.pop()
        operands = _OPERANDS.get(type(node))
        if operands is not None:
            found.append(node)
            stack += operands(node)
        elif not isinstance(node, (Reg, Num)):
            found.append(node)
    if stack or (len(found) > 2 and len(set(map(id, found))) < len(found)):
        found = _each_once(value)
    else:
        found.reverse()
    # an assignment in __dict__ would make a dict of each value
    object.__setattr__(value, "_inside", tuple(found[:-1]))
    return found


def _each_once(root: Value) -> list[Value]:
    """Return the operations in ``root``, where many or repeated ones are."""
    found: list[Value] = []
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            found.append(node)
        elif not isinstance(node, (Reg, Num)) and id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(c, False) for c in reversed(children(node))]
    return found


def parts(value: Value) -> list[Value]:
    """Return ``value`` and all values in it."""
    if isinstance(value, (Reg, Num)):
        return [value]
    found: list[Value] = []
    stack: list[Value] = [value]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, (Reg, Num)):
            stack += children(node)[::-1]
    return found


def walk(body: Body) -> list[tuple[Stmt, int]]:
    """Return every statement with its depth in loops and branches, in program order."""
    found: list[tuple[Stmt, int]] = []
    stack: list[tuple[Stmt, int]] = [(stmt, 0) for stmt in reversed(body)]
    while stack:
        entry = stack.pop()
        stmt, depth = entry
        found.append(entry)
        if isinstance(stmt, (For, If)):
            sides = (*stmt.body, *stmt.orelse) if isinstance(stmt, If) else stmt.body
            stack += [(s, depth + 1) for s in reversed(sides)]
    return found
