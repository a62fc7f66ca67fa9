"""Expression nodes: immutable, compared by identity, built by Python's operators.

Every node has a ``dtype`` (the name of a NumPy dtype) and a flag ``weak``. A weak node takes the
dtype of the tensor expression that it is combined with. Nodes form a graph, which may be deep and
may share parts, so traversals (see :mod:`schedlang.expr.visit`) do not recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.number_refusals import number_function, refuse_number

ExprLike = Union["Expr", int, float, complex, bool, np.generic]

# the most characters of an expression that a message repeats
LONGEST_QUOTED = 60


class Expr:
    """Base class of expressions; :mod:`schedlang.language.operators` adds the operators."""

    __slots__ = ()
    dtype: str
    weak: bool
    # whether this is an operation on integers and weak numbers that NumPy's rule makes float64
    widened = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    if TYPE_CHECKING:
        # set by schedlang.language.operators, since an operator makes nodes of every kind
        def astype(self, dtype: object) -> Expr: ...
        def equal(self, other: ExprLike) -> Expr: ...
        def conj(self) -> Expr: ...
        def conjugate(self) -> Expr: ...
        @property
        def real(self) -> Expr: ...
        @property
        def imag(self) -> Expr: ...
        def __add__(self, other: ExprLike) -> Expr: ...
        def __radd__(self, other: ExprLike) -> Expr: ...
        def __sub__(self, other: ExprLike) -> Expr: ...
        def __rsub__(self, other: ExprLike) -> Expr: ...
        def __mul__(self, other: ExprLike) -> Expr: ...
        def __rmul__(self, other: ExprLike) -> Expr: ...
        def __truediv__(self, other: ExprLike) -> Expr: ...
        def __rtruediv__(self, other: ExprLike) -> Expr: ...
        def __floordiv__(self, other: ExprLike) -> Expr: ...
        def __rfloordiv__(self, other: ExprLike) -> Expr: ...
        def __mod__(self, other: ExprLike) -> Expr: ...
        def __rmod__(self, other: ExprLike) -> Expr: ...
        def __pow__(self, other: ExprLike) -> Expr: ...
        def __rpow__(self, other: ExprLike) -> Expr: ...
        def __and__(self, other: ExprLike) -> Expr: ...
        def __rand__(self, other: ExprLike) -> Expr: ...
        def __or__(self, other: ExprLike) -> Expr: ...
        def __ror__(self, other: ExprLike) -> Expr: ...
        def __xor__(self, other: ExprLike) -> Expr: ...
        def __rxor__(self, other: ExprLike) -> Expr: ...
        def __lshift__(self, other: ExprLike) -> Expr: ...
        def __rlshift__(self, other: ExprLike) -> Expr: ...
        def __rshift__(self, other: ExprLike) -> Expr: ...
        def __rrshift__(self, other: ExprLike) -> Expr: ...
        def __lt__(self, other: ExprLike) -> Expr: ...
        def __le__(self, other: ExprLike) -> Expr: ...
        def __gt__(self, other: ExprLike) -> Expr: ...
        def __ge__(self, other: ExprLike) -> Expr: ...
        def __eq__(self, other: object) -> Expr: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Expr: ...  # type: ignore[override]
        def __neg__(self) -> Expr: ...
        def __pos__(self) -> Expr: ...
        def __invert__(self) -> Expr: ...
        def __abs__(self) -> Expr: ...
        def __iter__(self) -> Any: ...

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if isinstance(self, Binary) and self.op in ("==", "!="):
            if isinstance(self.a, (Axis, Var)) and isinstance(self.b, (Axis, Var)):
                return (self.a is self.b) == (self.op == "==")
        if isinstance(self, Const):
            return bool(self.value)
        condition = str(self) if len(str(self)) <= LONGEST_QUOTED else "condition"
        hint = (
            f"Instead of if, write sl.select({condition}, a, b) or sl.if_then_else(...); instead "
            "of and, or, not and chained comparisons, use & | ~."
        )
        if isinstance(self, Binary) and self.op in ("<", ">"):
            pair = f"{self.a}, {self.b}"
            pair = pair if len(pair) <= LONGEST_QUOTED else "a, b"
            hint += f"\nInstead of Python's max and min, write sl.max({pair}) and sl.min({pair})."
        why = "an expression describes a computation and has no value yet"
        raise ComputeTypeError(explain(f"the truth value of {self}", why, hint))

    def __index__(self) -> int:
        if isinstance(self, Const) and dtypes.is_integer(self.dtype):
            return int(self.value)
        raise ComputeTypeError(
            explain(
                f"{number_function() or 'the integer value'} of {self}",
                f"{self} is an expression and has no value yet",
                f"To convert it, use sl.cast({self}, 'int64'); instead of range, use "
                "sl.reduce_axis; to index a list with it, make the list an input, declared by "
                "sl.placeholder.",
            )
        )

    def _refuse_number(self, *_: Any) -> NoReturn:
        refuse_number(str(self), "an expression has no value yet")

    __float__ = __complex__ = __trunc__ = __round__ = _refuse_number

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A constant."""

    value: Any
    dtype: str
    weak: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A named scalar: a symbolic size (``int64``, weak) or a scalar argument.

    A size is ``least`` or more, and ``most`` or less, if that is a number. Calls check both.
    """

    name: str
    dtype: str = dtypes.INDEX
    weak: bool = True
    least: int = 0
    most: int | None = None

    @property
    def is_size(self) -> bool:
        return self.weak


class KnownExtent(int):
    """An extent that is a number, with te's ``value``."""

    __slots__ = ()

    @property
    def value(self) -> int:
        return int(self)

    @staticmethod
    def of(extent: Union[int, Expr]) -> Union[int, Expr]:
        """Return a number as a known extent, and a symbolic size unchanged."""
        return KnownExtent(extent) if isinstance(extent, int) else extent


class Domain(tuple[Union[int, Expr], Union[int, Expr]]):
    """The half-open range ``(lo, hi)`` of an axis, with te's attributes ``min`` and ``extent``.

    >>> Axis("k", 12, "reduce", 4).dom, Axis("k", 12, "reduce", 4).dom.extent
    ((4, 16), 12)
    """

    min: Union[int, Expr]
    extent: Union[int, Expr]

    def __new__(cls, lo: Union[int, Expr], extent: Union[int, Expr]) -> Domain:
        hi = extent if isinstance(lo, int) and lo == 0 else lo + extent
        domain = super().__new__(cls, (lo, hi))
        domain.min, domain.extent = KnownExtent.of(lo), KnownExtent.of(extent)
        return domain


@dataclass(frozen=True, eq=False, repr=False)
class Axis(Expr):
    """An axis of an iteration, with ``extent`` points from ``lo`` on.

    ``kind`` is ``"data"``, ``"reduce"``, ``"scan"`` or ``"thread"``. ``tag`` is the index of
    a thread axis, such as ``threadIdx.x``. A *ragged* axis, whose range depends on other axes or on
    elements of tensors, has this range ``(lo, hi)`` as ``bounds``. Its points from ``lo`` on are
    then a box around all its ranges.
    """

    name: str
    extent: Union[int, Expr]
    kind: str = "data"
    lo: Union[int, Expr] = 0
    tag: str = ""
    bounds: Optional[tuple[Union[int, Expr], Union[int, Expr]]] = None
    dtype = dtypes.INDEX
    weak = True

    @property
    def var(self) -> Axis:
        """The axis itself, which is an expression (te's ``IterVar.var``)."""
        return self

    @property
    def is_reduce(self) -> bool:
        return self.kind == "reduce"

    @property
    def dom(self) -> Domain:
        """The half-open range ``(lo, hi)`` of the axis, with te's ``min`` and ``extent``."""
        if self.bounds is not None:
            lo, hi = self.bounds
            return Domain(lo, hi if isinstance(lo, int) and lo == 0 else hi - lo)
        return Domain(self.lo, self.extent)


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    """A binary operation."""

    op: str
    a: Expr
    b: Expr
    dtype: str
    weak: bool = False
    widened: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """A unary operation, ``-`` or ``~``."""

    op: str
    a: Expr
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """A conversion to ``dtype``."""

    a: Expr
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """A call of a math function in the table of :mod:`schedlang.expr.functions`."""

    fn: str
    args: tuple[Expr, ...]
    dtype: str
    weak: bool = False
    widened: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr):
    """A choice, ``a if cond else b``; if it is ``lazy``, only the chosen side is evaluated."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: str
    lazy: bool = False
    weak: bool = False
    widened: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.a, self.b)


class ArrayRead(Expr):
    """A read of one element of an array; packages above define of what: a tensor or a buffer."""

    __slots__ = ()
    indices: tuple[Expr, ...]

    @property
    def source(self) -> str:
        """The name of what is read."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """Return a read of the same array at other indices."""
        raise NotImplementedError
