"""Expression nodes: immutable, compared by identity, built by Python's operators.

Every node has a ``dtype`` (a NumPy dtype's name) and ``weak``: whether it takes the dtype of
the tensor expression it meets. Nodes form a graph that may be deep and may share parts, so
traversals (see :mod:`schedlang.expr.visit`) never recurse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor

ExprLike = Union["Expr", int, float, bool, np.generic]

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class Expr:
    """Base of all expressions: holds the operators, no data."""

    __slots__ = ()
    dtype: str
    weak: bool

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()

    def astype(self, dtype: object) -> Expr:
        """This expression converted to ``dtype`` (NumPy's ``astype``)."""
        return cast(self, dtype)

    def equal(self, other: ExprLike) -> Expr:
        """te's spelling of ``==``."""
        return binary("==", self, other)

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("%", other, self)

    def __pow__(self, other: ExprLike) -> Expr:
        return binary("**", self, other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return binary("**", other, self)

    def __and__(self, other: ExprLike) -> Expr:
        return binary("&", self, other)

    def __rand__(self, other: ExprLike) -> Expr:
        return binary("&", other, self)

    def __or__(self, other: ExprLike) -> Expr:
        return binary("|", self, other)

    def __ror__(self, other: ExprLike) -> Expr:
        return binary("|", other, self)

    def __xor__(self, other: ExprLike) -> Expr:
        return binary("^", self, other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return binary("^", other, self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary("<<", self, other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return binary("<<", other, self)

    def __rshift__(self, other: ExprLike) -> Expr:
        return binary(">>", self, other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return binary(">>", other, self)

    def __neg__(self) -> Expr:
        return unary("-", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("~", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return binary("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return binary("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return binary(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return binary(">=", self, other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        if not isinstance(other, _OPERANDS) and getattr(other, "ndim", None) != 0:
            return NotImplemented
        return binary("==", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        if not isinstance(other, _OPERANDS) and getattr(other, "ndim", None) != 0:
            return NotImplemented
        return binary("!=", self, other)  # type: ignore[arg-type]

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if isinstance(self, Binary) and self.op in ("==", "!="):
            if isinstance(self.a, (Axis, Var)) and isinstance(self.b, (Axis, Var)):
                return (self.a is self.b) == (self.op == "==")
        if isinstance(self, Const):
            return bool(self.value)
        raise ComputeTypeError(
            explain(
                f"the truth value of {self}",
                "an expression has no value while the computation is described",
                "Use sl.select(cond, a, b) or sl.if_then_else(cond, a, b) in place of if, "
                "and & | ~ in place of and, or, not (chained comparisons too).",
            )
        )

    def __index__(self) -> int:
        if isinstance(self, Const) and dtypes.is_integer(self.dtype):
            return int(self.value)
        raise ComputeTypeError(
            explain(
                f"the integer value of {self}",
                f"{self} is an expression and has no integer value here",
                f"Use sl.cast({self}, 'int64') to convert it, sl.reduce_axis in place of range, "
                "and a tensor in place of a list that it indexes: pass the list as an input, "
                "declared by sl.placeholder.",
            )
        )

    def __float__(self) -> float:
        raise ComputeTypeError(
            f"float({self}): an expression has no value here; use .astype('float32'), and "
            "sl.exp or np.exp in place of math.exp"
        )

    def __iter__(self) -> Any:
        raise ComputeTypeError(f"{self} is a scalar expression and cannot be iterated over")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Expr:
        from schedlang.expr.ufuncs import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __str__(self) -> str:
        from schedlang.expr.printer import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)


_OPERANDS = (Expr, int, float, np.generic)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A number of known value."""

    value: Any
    dtype: str
    weak: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A named scalar: a symbolic size (``int64``, weak) or a scalar argument."""

    name: str
    dtype: str = dtypes.INDEX
    weak: bool = True

    @property
    def is_size(self) -> bool:
        return self.weak


@dataclass(frozen=True, eq=False, repr=False)
class Axis(Expr):
    """One axis of an iteration: ``extent`` points from ``lo`` on.

    ``kind`` is ``"data"``, ``"reduce"``, ``"scan"`` or ``"thread"``; ``tag`` names the thread.
    """

    name: str
    extent: Union[int, Expr]
    kind: str = "data"
    lo: Union[int, Expr] = 0
    tag: str = ""
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
    def dom(self) -> tuple[Union[int, Expr], Union[int, Expr]]:
        """``(lo, hi)``, half open."""
        return self.lo, self.lo + self.extent


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    op: str
    a: Expr
    b: Expr
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    op: str
    a: Expr
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    a: Expr
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """A math function of the table in :mod:`schedlang.expr.functions`."""

    fn: str
    args: tuple[Expr, ...]
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr):
    """``a if cond else b``; with ``lazy`` only the chosen side is evaluated."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: str
    lazy: bool = False
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.a, self.b)


@dataclass(frozen=True, eq=False, repr=False)
class Read(Expr):
    """One element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    dtype: str
    weak: bool = False

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices


def const(value: ExprLike, dtype: object = None) -> Const:
    """A constant; without ``dtype`` a Python number stays weak."""
    if dtype is not None:
        name = dtypes.canonical(dtype)
        if isinstance(value, Expr):
            raise ComputeTypeError(f"const({value}): a constant is made from a number")
        return Const(_checked(value, name), name)
    if isinstance(value, np.generic):
        return Const(value.item(), dtypes.canonical(value.dtype))
    if isinstance(value, bool):
        return Const(value, "bool")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ComputeTypeError(f"{value} fits no integer dtype: they end at 64 bits")
        return Const(value, dtypes.INDEX, weak=True)
    if isinstance(value, float):
        return Const(value, "float64", weak=True)
    raise ComputeTypeError(
        f"{type(value).__name__} {value!r} cannot stand in an expression: use a number, an axis, "
        "or an element of a tensor such as A[i, j]"
    )


def _checked(value: Any, dtype: str) -> Any:
    """``value`` as a Python number of ``dtype``; refuses integers out of range."""
    if dtype == "bool":
        return bool(value)
    if dtypes.is_float(dtype):
        return float(value)
    if isinstance(value, float) and not value.is_integer():
        raise ComputeTypeError(f"{value} is no {dtype}: cast it with sl.cast or round it first")
    low, high = dtypes.limits(dtype)
    if not low <= int(value) <= high:
        raise ComputeTypeError(f"{value} does not fit {dtype} ({low}..{high})")
    return int(value)


def as_expr(value: ExprLike) -> Expr:
    """``value`` as an expression; a 0-d tensor stands for its element."""
    if isinstance(value, Expr):
        return value
    read = getattr(value, "as_scalar", None)
    if read is not None:
        return read()
    return const(value)


def convert(value: Expr, dtype: str) -> Expr:
    """``value`` in ``dtype`` because an operation needs it there; checks weak ranges."""
    if value.dtype == dtype:
        if value.weak and isinstance(value, Const):
            return Const(value.value, dtype)
        return value
    if value.weak and isinstance(value, Const):
        return Const(_checked(value.value, dtype), dtype)
    if value.weak and dtypes.is_integer(dtype):
        from schedlang.expr.interval import weak_range

        low, high = weak_range(value)
        least, most = dtypes.limits(dtype)
        if (low is not None and low < least) or (high is not None and high > most):
            raise ComputeTypeError(
                explain(
                    f"{value} in {dtype} arithmetic",
                    f"it ranges over {low}..{high}, and {dtype} holds {least}..{most}",
                    f"Cast the tensor's element first, e.g. A[i].astype('int64'), or the axis "
                    f"with sl.cast({value}, '{dtype}') where wrapping is meant.",
                )
            )
    return Cast(value, dtype)


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """``left op right`` with operands brought to their common dtype."""
    a, b = as_expr(left), as_expr(right)
    dtype, weak = dtypes.promote(a.dtype, a.weak, b.dtype, b.weak)
    if op in ("<<", ">>", "&", "|", "^"):
        if dtypes.is_float(dtype):
            raise ComputeTypeError(
                f"{a} {op} {b}: bitwise operators need integers or bools, not {dtype}"
            )
        if dtype == "bool" and op in ("<<", ">>"):
            dtype = "int8"
    elif op == "/":
        if not dtypes.is_float(dtype):
            dtype = "float64"
    elif op == "**" and dtypes.is_integer(dtype) and isinstance(b, Const) and b.value < 0:
        raise ComputeTypeError(
            f"{a} ** {b.value}: integers to negative powers are refused, as NumPy does; "
            "cast the base to a float first"
        )
    elif dtype == "bool" and op in ("-",):
        raise ComputeTypeError(f"{a} - {b}: bools cannot be subtracted; use ^ or cast them first")
    elif dtype == "bool" and op in ("//", "%", "**"):
        dtype = "int8"
    if op in COMPARISONS:
        bare = isinstance(a, Var) and isinstance(b, Var)
        if not (a.weak and b.weak) and not (bare and a.dtype != b.dtype and op in ("==", "!=")):
            a, b = convert(a, dtype), convert(b, dtype)
        return Binary(op, a, b, "bool")
    if not weak:
        a, b = convert(a, dtype), convert(b, dtype)
    elif dtypes.is_float(dtype):
        a, b = _weak_float(a), _weak_float(b)
    folded = _fold(op, a, b)
    if folded is not None:
        return folded
    return Binary(op, a, b, dtype, weak)


def _weak_float(value: Expr) -> Expr:
    if value.dtype == "float64":
        return value
    if isinstance(value, Const):
        return Const(float(value.value), "float64", weak=True)
    return Cast(value, "float64", weak=True)


def _fold(op: str, a: Expr, b: Expr) -> Const | None:
    """The value of weak integer constants, and 0 and 1 as neutral elements of indices."""
    if not (isinstance(a, Const) and isinstance(b, Const) and a.weak and b.weak):
        return None
    x, y = a.value, b.value
    if isinstance(x, int) and isinstance(y, int) and op in ("+", "-", "*", "//", "%"):
        if op in ("//", "%") and y == 0:
            raise ComputeTypeError(f"{x} {op} 0: division by zero")
        result = {"+": x + y, "-": x - y, "*": x * y}.get(op)
        if result is None:
            result = x // y if op == "//" else x % y
        return Const(result, dtypes.INDEX, weak=True)
    return None


def unary(op: str, value: ExprLike) -> Expr:
    a = as_expr(value)
    if op == "~" and dtypes.is_float(a.dtype):
        raise ComputeTypeError(f"~{a}: needs an integer or a bool, not {a.dtype}")
    if op == "-":
        if a.dtype == "bool":
            raise ComputeTypeError(f"-{a}: a bool has no negative; use ~ or cast it first")
        if isinstance(a, Const):
            return Const(-a.value, a.dtype, a.weak) if a.weak else Unary(op, a, a.dtype)
    return Unary(op, a, a.dtype, a.weak)


def cast(value: ExprLike, dtype: object) -> Expr:
    """``value`` converted to ``dtype`` as NumPy's ``astype`` does.

    Integers wrap, floats truncate toward zero, anything but zero is ``True``.

    >>> cast(3, "float32").dtype
    'float32'
    """
    a, name = as_expr(value), dtypes.canonical(dtype)
    if a.dtype == name and not a.weak:
        return a
    if isinstance(a, Const) and dtypes.is_float(name):
        return Const(float(a.value), name)
    return Cast(a, name)


def call(fn: str, *values: ExprLike) -> Expr:
    from schedlang.expr.functions import build_call

    return build_call(fn, tuple(as_expr(v) for v in values))


def select(cond: ExprLike, a: ExprLike, b: ExprLike, lazy: bool = False) -> Expr:
    c, x, y = as_expr(cond), as_expr(a), as_expr(b)
    name = "if_then_else" if lazy else "select"
    if c.dtype != "bool":
        raise ComputeTypeError(
            f"{name}({c}, ...): the condition is {c.dtype}; compare it, e.g. {c} != 0"
        )
    dtype, weak = dtypes.promote(x.dtype, x.weak, y.dtype, y.weak)
    if not weak:
        x, y = convert(x, dtype), convert(y, dtype)
    elif dtypes.is_float(dtype):
        x, y = _weak_float(x), _weak_float(y)
    return Select(c, x, y, dtype, lazy, weak)
