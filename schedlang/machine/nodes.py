"""The machine nest: functions of statements over flat arrays, with typed scalars and vectors.

A value has a :class:`Type`: a dtype and a number of lanes. Offsets count elements. The names in it
are the names of the emitted file. The ``number`` of a statement or a function is the number of the
statement of the loop nest that it was made from.

A value declares its ``OPERANDS``. A statement declares what its fields hold: ``BODIES`` the blocks
in it, ``VALUES`` what it evaluates itself, ``ARRAYS`` the arrays that it accesses, ``DEFINES`` the
register or array that the statements after it know, and ``BINDS`` the one that its blocks know.
Walks, rewriting and scopes derive from this. A declared field may be ``None``, or a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Optional, Union

from schedlang.compute.extern_op import ExternFunction
from schedlang.expr import dtypes
from schedlang.instructions.declaration import Instruction, ValueEmission
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


# the function that reads the operands, for each class of operations
READERS: dict[type, Callable[[Any], tuple[Value, ...]]] = {}


class Operation:
    """The base of values with operands, which are the fields ``OPERANDS``."""

    OPERANDS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        if cls.OPERANDS:
            READERS[cls] = _reader(cls)


def _reader(kind: type[Operation]) -> Callable[[Any], tuple[Value, ...]]:
    """Return the function that reads the operands of a kind of value."""
    types = {n: str(t) for base in kind.__mro__[::-1] for n, t in get_annotations(base).items()}
    first, *rest = kind.OPERANDS
    read: Callable[[Any], Any] = attrgetter(*kind.OPERANDS)
    if types[first].startswith("tuple"):
        return read
    if not rest:
        return lambda value: (read(value),)
    if not any(types[name].startswith("Optional") for name in rest):
        return read
    return lambda value: tuple([v for v in read(value) if v is not None])


@dataclass(frozen=True)
class Op(Operation):
    """A binary operation. A scalar operand of a vector operation stands for all lanes.

    ``index`` marks arithmetic on indices, which never overflows; other integers wrap around.
    """

    OPERANDS = ("a", "b")

    op: str
    a: Value
    b: Value
    type: Type = INDEX
    index: bool = False


@dataclass(frozen=True)
class Neg(Operation):
    """The operation ``-`` or ``~`` on one value."""

    OPERANDS = ("a",)

    op: str
    a: Value
    type: Type = INDEX


@dataclass(frozen=True)
class Cast(Operation):
    """A conversion to another dtype, with NumPy's rules."""

    OPERANDS = ("a",)

    a: Value
    type: Type


@dataclass(frozen=True)
class Splat(Operation):
    """A vector whose lanes are all ``a``."""

    OPERANDS = ("a",)

    a: Value
    type: Type


@dataclass(frozen=True)
class Iota:
    """The vector ``0, 1, 2, ...``."""

    type: Type


@dataclass(frozen=True)
class Fn(Operation):
    """A call of a function of the dialect. ``index`` marks ``min`` and ``max`` of indices."""

    OPERANDS = ("args",)

    name: str
    args: tuple[Value, ...]
    type: Type
    index: bool = False


@dataclass(frozen=True)
class Both(Operation):
    """The truth of ``a and b``; ``b`` is evaluated only if ``a`` holds."""

    OPERANDS = ("a", "b")

    a: Value
    b: Value
    type: Type = Type("bool")


@dataclass(frozen=True)
class Choice(Operation):
    """``a if cond else b``; only one of them is evaluated."""

    OPERANDS = ("cond", "a", "b")

    cond: Value
    a: Value
    b: Value
    type: Type


@dataclass(frozen=True)
class Load(Operation):
    """Elements of ``array``, by the intrinsic ``how``.

    ``load`` reads one element. The others read the lanes of a vector: ``vload`` adjacent elements
    from ``at`` on, ``vload_strided`` elements ``step`` apart, ``vload_shuffled`` the elements of a
    vector in another ``order``, ``vload_columns`` several vectors at once (lane ``l`` of vector
    ``k`` is at ``at + l*step + k``), and ``vgather`` the elements at a vector ``at`` of offsets.
    A ``raw`` load is one of the bits of short floats. Lanes outside the ``mask`` are 0; they are
    not read. ``vload_if`` returns ``other`` unless the scalar ``mask`` holds.
    """

    OPERANDS = ("at", "mask", "order", "other")

    how: str
    array: Array
    at: Value
    type: Type
    step: int = 1
    mask: Optional[Value] = None
    order: Optional[Value] = None
    other: Optional[Value] = None
    columns: int = 0
    raw: bool = False


@dataclass(frozen=True)
class Column(Operation):
    """Vector ``at`` of the several that ``vload_columns`` returned."""

    OPERANDS = ("columns",)

    columns: Reg
    at: int

    @property
    def type(self) -> Type:
        return self.columns.type


@dataclass(frozen=True)
class Instructed(Operation):
    """The result of a user's ``instruction``, which ``emission`` computes on the target.

    Its first operand is what it adds to, if anything.
    """

    OPERANDS = ("args",)

    instruction: Instruction
    emission: ValueEmission
    args: tuple[Value, ...]
    type: Type


Value = Union[
    Reg, Num, Order, Op, Neg, Cast, Splat, Iota, Fn, Both, Choice, Load, Column, Instructed
]


class Statement:
    """The base of statements, whose class says what its fields hold."""

    BODIES: ClassVar[tuple[str, ...]] = ()
    VALUES: ClassVar[tuple[str, ...]] = ()
    ARRAYS: ClassVar[tuple[str, ...]] = ()
    DEFINES: ClassVar[tuple[str, ...]] = ()
    BINDS: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True, eq=False)
class Let(Statement):
    """The assignment ``reg = value``.

    ``stage`` is the stage whose element it computes; it is empty for other values.
    """

    VALUES = ("value",)
    DEFINES = ("reg",)

    reg: Reg
    value: Value
    note: str = ""
    number: Optional[int] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class Store(Statement):
    """A store of ``value`` to ``array``, by the intrinsic ``how``; see :class:`Load`.

    ``vstore_stream`` bypasses the cache. ``stage`` is the stage whose element it computes; it is
    empty if it stores a sum that registers held.
    """

    VALUES = ("at", "value", "mask")
    ARRAYS = ("array",)

    how: str
    array: Array
    at: Value
    value: Value
    step: int = 1
    mask: Optional[Value] = None
    number: Optional[int] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class For(Statement):
    """A loop over ``range(start, stop, step)``; its iterations may run in ``parallel``.

    ``label`` is a name for a function of the loop's body. The compiler keeps the loop ``rolled``,
    with that many vectors an iteration, or writes out all iterations of an ``unrolled`` one. A pass
    makes a ``function`` of the loop. ``stage`` and ``axis`` are the printed names of its stage and
    of its loop in the loop nest. It ends where ``again``, a register or an element, is false.
    """

    BODIES = ("body",)
    VALUES = ("start", "stop", "again")
    BINDS = ("index",)

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
    again: Optional[Value] = None

    @property
    def from_zero(self) -> bool:
        return isinstance(self.start, Num) and self.start.value == 0


@dataclass(frozen=True, eq=False)
class If(Statement):
    """A branch. ``result``, if given, is a register that both sides assign."""

    BODIES = ("body", "orelse")
    VALUES = ("cond",)
    DEFINES = ("result",)

    cond: Value
    body: Body
    orelse: Body = ()
    note: str = ""
    result: Optional[Reg] = None
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Alloc(Statement):
    """Storage of ``count`` elements in ``place``: ``stack``, ``heap``, ``shared`` or ``local``.

    A pass decides it for a CPU. Shared storage sized at the launch starts at its ``start``.
    """

    VALUES = ("count",)
    DEFINES = ("array",)

    array: Array
    count: Value
    place: Optional[str] = None
    start: Optional[int] = None
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class View(Statement):
    """The array of ``count`` elements at byte ``start``, aligned to them, of an arena ``whole``."""

    VALUES = ("start", "count")
    ARRAYS = ("whole",)
    DEFINES = ("array",)

    array: Array
    whole: Array
    start: Value
    count: Value
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Prefetch(Statement):
    """A prefetch of the cache line of one element."""

    VALUES = ("at",)
    ARRAYS = ("array",)

    array: Array
    at: Value
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Hint(Statement):
    """A call without a value: arrays are ``apart``, a ``stream_fence``, or ``commit_copies``."""

    name: str
    args: tuple[Array, ...] = ()
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class SharedCopy(Statement):
    """A copy of ``count`` elements to or from shared memory, by the intrinsic ``how``."""

    VALUES = ("at", "start")
    ARRAYS = ("array", "source")

    how: str
    array: Array
    at: Value
    source: Array
    start: Value
    count: int = 1
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Barrier(Statement):
    """A barrier of a thread block; before it, a wait for all groups but the last ``pending``."""

    pending: Optional[int] = None
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Thread(Statement):
    """The assignment of a thread or block index of a GPU, ``tag``, to a register."""

    DEFINES = ("reg",)

    reg: Reg
    tag: str
    note: str = ""
    number: Optional[int] = None


@dataclass(frozen=True, eq=False)
class Invoke(Statement):
    """A call of a user's ``function`` for boxes of ``given``: of ``inputs``, then of outputs.

    Its address is element ``position`` of ``table``, whose element 0 is the position of the first
    function that failed; after that, no function is called. A box begins at one of ``starts``. The
    ``sizes`` are the extents of each box and its strides, in elements, for as many dimensions as
    ``ranks`` says. ``packed`` says which boxes have no gaps.
    """

    VALUES = ("starts", "sizes")
    ARRAYS = ("table", "given")

    function: ExternFunction
    table: Array
    position: int
    given: tuple[Array, ...]
    starts: tuple[Value, ...]
    sizes: tuple[Value, ...]
    packed: tuple[bool, ...]
    ranks: tuple[int, ...]
    inputs: int
    number: Optional[int] = None
    stage: str = ""


@dataclass(frozen=True, eq=False)
class Run(Statement):
    """A call of another function of the nest."""

    VALUES = ("args",)
    ARRAYS = ("args",)

    function: str
    args: tuple[Union[Array, Value], ...]
    number: Optional[int] = None
    note: str = ""


Stmt = Union[
    Let, Store, For, If, Alloc, View, Prefetch, Hint, SharedCopy, Barrier, Thread, Invoke, Run
]
Body = tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Function:
    """One function of a machine nest; a ``parallel`` one holds a parallel loop."""

    name: str
    parameters: tuple[Union[Array, Reg], ...]
    body: Body
    parallel: bool = False
    number: Optional[int] = None
