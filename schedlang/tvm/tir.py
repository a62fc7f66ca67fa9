"""The names of tvm.tir for the expression language; :mod:`schedlang.tvm.te` has most of them too.

These functions have te's meaning where it differs from schedlang's: constants, axes and sizes
without a tensor are int32 or float32, ``"int"`` and ``"float"`` have 32 bits, and ``round`` and
division follow C.
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from importlib import import_module
from typing import Any

from schedlang.compute import custom_reducer, reduce, tensor
from schedlang.compute.math import (
    abs,
    acos,
    all,
    any,
    asin,
    atan,
    atan2,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    floor,
    if_then_else,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    rsqrt,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from schedlang.compute.math import pow as power
from schedlang.compute.math import round as nearbyint
from schedlang.compute.reduce import Reduction
from schedlang.errors import ComputeTypeError, explain, missing_name
from schedlang.expr import dtypes, nodes
from schedlang.expr.nodes import Axis, Const, Expr, ExprLike, KnownExtent
from schedlang.index.ranges import weak_range
from schedlang.language import composed, construct
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary
from schedlang.signatures import public
from schedlang.tvm.te_dtypes import te_dtype

pow = power  # noqa: A001
Select = select


def te_typed(value: ExprLike) -> Expr:
    """Return ``value``; if it has no dtype of its own, in te's dtype, int32 or float32."""
    expr = as_expr(value)
    if not expr.weak:
        return expr
    return construct.cast(expr, "float32" if dtypes.is_float(expr.dtype) else "int32")


@public
def const(value: Any, dtype: object = None) -> Const:
    """Return a constant; without ``dtype`` it adapts to the dtype of the other operand."""
    return construct.const(value, None if dtype is None else te_dtype(dtype))


class _Kind(type):
    """The type of a class whose instances are the nodes that its ``holds`` accepts."""

    holds: Callable[[Any], bool]

    def __instancecheck__(cls, value: object) -> bool:
        return cls.holds(value)


class IntImm(metaclass=_Kind):
    """An integer constant, which ``IntImm(dtype, value)`` returns; te's known extents are ones.

    >>> isinstance(IntImm("int32", 3), IntImm), isinstance(const(1.5), IntImm)
    (True, False)
    """

    holds = staticmethod(
        lambda v: isinstance(v, KnownExtent) or (type(v) is Const and not dtypes.is_float(v.dtype))
    )

    def __new__(cls, dtype: object, value: int) -> Any:
        return const(value, dtype)


class FloatImm(metaclass=_Kind):
    """A constant of floats, which ``FloatImm(dtype, value)`` returns."""

    holds = staticmethod(lambda v: type(v) is Const and dtypes.is_float(v.dtype))

    def __new__(cls, dtype: object, value: float) -> Any:
        return const(value, dtype)


class Var(metaclass=_Kind):
    """A size or a scalar argument, which ``Var(name, dtype)`` returns; an axis is one, too."""

    holds = staticmethod(lambda v: isinstance(v, (nodes.Var, Axis)))

    def __new__(cls, name: str = "tindex", dtype: object = "int32") -> Any:
        return tensor.var(name, te_dtype(dtype))


@public
def Cast(dtype: object, value: ExprLike) -> Expr:
    """Return ``value`` converted to ``dtype``."""
    return construct.cast(value, te_dtype(dtype))


@public
def min_value(dtype: object) -> Const:
    """Return the smallest finite value of ``dtype``."""
    return _limit(te_dtype(dtype), largest=False)


@public
def max_value(dtype: object) -> Const:
    """Return the largest finite value of ``dtype``."""
    return _limit(te_dtype(dtype), largest=True)


@public
def infinity(dtype: object = "float32") -> Const:
    """Return positive infinity."""
    return Const(_math.inf, te_dtype(dtype))


def _limit(dtype: str, largest: bool) -> Const:
    if dtypes.is_float(dtype):
        most = dtypes.largest(dtype)
        return Const(most if largest else -most, dtype)
    return reduce.extreme_value(dtype, largest)


@public
def round(x: ExprLike) -> Expr:  # noqa: A001
    """Return ``x`` rounded as by C's ``round``, with ties away from zero.

    :func:`nearbyint` rounds ties to even.
    """
    value = as_expr(x)
    if not dtypes.is_float(value.dtype):
        return value
    whole = trunc(value)
    # the difference is exact, while adding 0.5 first could round
    return select(abs(value - whole) >= 0.5, whole + select(value < 0, -1.0, 1.0), whole)


@public
def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a // b``, rounded down."""
    return binary("//", a, b)


@public
def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a % b`` with the sign of ``b``."""
    return binary("%", a, b)


@public
def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a / b`` of integers, rounded up.

    >>> int(ceildiv(const(7), 2))
    4
    """
    return binary("//", binary("+", a, binary("-", b, 1)), b)


indexdiv, indexmod = floordiv, floormod


@public
def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """Return the quotient of integers, rounded toward zero as in C."""
    x, y = _integers("truncdiv", a, b)
    down = x // y
    if _never_negative(x) and _never_negative(y):
        return down
    return select((x % y != 0) & ((x < 0) ^ (y < 0)), down + 1, down)


@public
def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """Return the remainder of integers with the sign of ``a``, as in C."""
    x, y = _integers("truncmod", a, b)
    if _never_negative(x) and _never_negative(y):
        return x % y
    return x - truncdiv(x, y) * y


@public
def div(a: ExprLike, b: ExprLike) -> Expr:
    """Return C's ``a / b``: integers are rounded toward zero."""
    x, y = as_expr(a), as_expr(b)
    return truncdiv(x, y) if _is_whole(x) and _is_whole(y) else x / y


def _is_whole(value: Expr) -> bool:
    return value.dtype == "bool" or dtypes.is_integer(value.dtype)


@public
def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """Return C's ``fmod``: the remainder with the sign of ``a``."""
    x, y = as_expr(a), as_expr(b)
    whole = dtypes.is_integer(x.dtype) and dtypes.is_integer(y.dtype)
    return truncmod(x, y) if whole else composed.fmod(x, y)


def _integers(name: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    x, y = as_expr(a), as_expr(b)
    for value in (x, y):
        if not dtypes.is_integer(value.dtype):
            raise ComputeTypeError(
                explain(
                    f"te.{name}({x}, {y})",
                    f"{value} is {value.dtype}, not an integer",
                    "Cast it first." if value.dtype == "bool" else "Use / or te.fmod.",
                )
            )
    return x, y


def _never_negative(value: Expr) -> bool:
    if not value.weak:
        return value.dtype.startswith("uint")
    low, _ = weak_range(value)
    return low is not None and low >= 0


@public
def likely(cond: ExprLike) -> Expr:
    """Return ``cond``; te's hint to the compiler has no effect here."""
    return as_expr(cond)


@public
def shift_left(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a << b``."""
    return binary("<<", a, b)


@public
def shift_right(a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a >> b``, which keeps the sign of ``a``."""
    return binary(">>", a, b)


@public
def reinterpret(dtype: object, x: ExprLike) -> Expr:
    """Return the bits of ``x`` as a ``dtype`` of the same size.

    Raise :class:`~schedlang.errors.ComputeTypeError` for another size, for bools, and for
    short floats, which are computed in float32.

    >>> reinterpret("int32", const(1, "float32")).dtype
    'int32'
    """
    value, kind = te_typed(x), te_dtype(dtype)
    asked = f'te.reinterpret("{kind}", {value})'
    bits = 8 * dtypes.itemsize(value.dtype)
    if 8 * dtypes.itemsize(kind) != bits:
        raise ComputeTypeError(f"{asked}: {value} is {value.dtype}, of {bits} bits; cast it first")
    if kind == value.dtype:
        return value
    for side in (kind, value.dtype):
        if side == "bool" or side in dtypes.SHORT_FLOATS:
            raise ComputeTypeError(
                explain(
                    asked,
                    f"reinterpreting the bits of a {side} is not supported in a kernel",
                    "Make the array an input of the other dtype: x.view(...) in NumPy.",
                )
            )
    if dtypes.is_float(value.dtype):
        return construct.cast(call(f"bits_int{bits}", value), kind)
    if dtypes.is_float(kind):
        return call(f"bits_{kind}", construct.cast(value, f"int{bits}"))
    return construct.cast(value, kind)


@public
def clz(x: ExprLike) -> Expr:
    """Return the number of leading zero bits of integer ``x``, as int32.

    >>> clz(const(1, "uint8")).dtype
    'int32'
    """
    value = te_typed(x)
    if not dtypes.is_integer(value.dtype):
        raise ComputeTypeError(
            f"te.clz({value}): {value} is {value.dtype}, not an integer; cast it first"
        )
    bits = 8 * dtypes.itemsize(value.dtype)
    n = construct.cast(value, f"uint{bits}")
    shift = 1
    while shift < bits:
        # set every bit below the highest one
        n = n | (n >> construct.const(shift, n.dtype))
        shift *= 2
    return construct.const(bits, "int32") - construct.cast(popcount(n), "int32")


@public
def popcount(x: ExprLike) -> Expr:
    """Return the number of bits set in integer ``x``, in its dtype."""
    value = te_typed(x)
    if not dtypes.is_integer(value.dtype):
        raise ComputeTypeError(
            f"te.popcount({value}): {value} is {value.dtype}, not an integer; cast it first"
        )
    size = dtypes.itemsize(value.dtype)
    unsigned = f"uint{8 * size}"

    def mask(byte: int) -> Const:
        return construct.const(int.from_bytes(bytes([byte] * size), "little"), unsigned)

    def shifted(bits: Expr, count: int) -> Expr:
        return bits >> construct.const(count, unsigned)

    # count the bits of each pair, of each four bits, of each byte; the product sums the bytes
    n = construct.cast(value, unsigned)
    n = n - (shifted(n, 1) & mask(0x55))
    n = (n & mask(0x33)) + (shifted(n, 2) & mask(0x33))
    n = (n + shifted(n, 4)) & mask(0x0F)
    return construct.cast(shifted(n * mask(0x01), 8 * (size - 1)), value.dtype)


def _reducer(
    name: str, over: Callable[..., Reduction], pair: Callable[[Any, Any], Any], doc: str
) -> Callable[..., Any]:
    def reducer(
        expr: Any, axis: Any = None, where: Any = None, init: Any = None, *more: Any
    ) -> Any:
        if axis is None:
            raise ComputeTypeError(
                explain(
                    f"te.{name}(...)",
                    "it needs a reduction axis, or a second operand",
                    "Make the axis and index with it:\n"
                    '    k = te.reduce_axis((0, n), name="k")\n'
                    f"    C = te.compute(shape, lambda i: te.{name}(A[i, k], axis=k))",
                )
            )
        axes = axis if isinstance(axis, (tuple, list)) else (axis,)
        if not isinstance(axis, (tuple, list)) and not (isinstance(axis, Axis) and axis.is_reduce):
            result = expr
            for operand in (axis, where, init, *more):
                result = result if operand is None else pair(result, operand)
            return result
        source = tuple(map(te_typed, expr)) if isinstance(expr, (tuple, list)) else te_typed(expr)
        return over(source, tuple(axes), where, init)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = doc
    return public(reducer)


sum = _reducer(  # noqa: A001
    "sum", reduce.sum, lambda a, b: a + b, "The sum over reduction axes, or of operands."
)
prod = _reducer(
    "prod", reduce.prod, lambda a, b: a * b, "The product over reduction axes, or of operands."
)
min = _reducer(  # noqa: A001
    "min", reduce.min, reduce.min, "The smallest over reduction axes, or of operands."
)
max = _reducer(  # noqa: A001
    "max", reduce.max, reduce.max, "The largest over reduction axes, or of operands."
)


@public
def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """Return a user-defined reduction; see :func:`schedlang.comm_reducer`."""
    over = custom_reducer.comm_reducer(fcombine, fidentity, name)
    return _reducer(name, over, fcombine, f"The reduction {name}.")


_CALL = (
    "an expression cannot call code that schedlang does not see",
    "Use the math functions of te (te.exp, te.erf, ...). For whole arrays, te.extern calls a "
    "packed function, and sl.extern a function of numba or of C.",
)
_STATEMENTS = (
    "Allocate", "AssertStmt", "AttrStmt", "Block", "BlockRealize", "BufferRealize", "BufferStore",
    "Evaluate", "For", "IfThenElse", "LetStmt", "SeqStmt", "Stmt", "Store", "While",
)  # fmt: skip
_OPERATIONS = (
    "Add", "And", "Call", "Div", "EQ", "FloorDiv", "FloorMod", "GE", "GT", "LE", "LT", "Max", "Min",
    "Mod", "Mul", "NE", "Not", "Or", "PrimExpr", "Reduce", "Sub",
)  # fmt: skip
REFUSED = {
    "call_tir": _CALL,
    **dict.fromkeys(("call_llvm_intrin", "call_llvm_pure_intrin"), (
        "an expression has no instructions of a processor",
        "Declare one by what it computes, sl.instruction(name, compute, emit=...), and call "
        "s[C].tensorize(axis, instruction).",
    )),
    **dict.fromkeys(_STATEMENTS, (
        "statements of a schedule cannot be written by hand",
        "Write the values with te.compute, or loops with tvm.tir.ir_builder in te.extern.",
    )),
    **dict.fromkeys(_OPERATIONS, (
        "expressions are written with operators and functions",
        "Write a + b, a // b, a < b, te.max(a, b), te.all(a, b), te.if_then_else(cond, a, b).",
    )),
    **dict.fromkeys(("Load", "BufferLoad", "ProducerLoad"), (
        "an element is read with brackets", "Write A[i, j] inside te.compute."
    )),
    **dict.fromkeys(("transform", "stmt_functor"), (
        "passes over TVM's IR are not part of schedlang",
        "Steps of the schedule change the loop nest; tvm.lower(s, args) shows it.",
    )),
    "analysis": (
        "analyses of TVM's IR are not part of schedlang",
        "sl.cost(C).flops counts operations, sl.cost(s) what the loop nest loads and stores.",
    ),
    "IterVar": ("axes are made by te", "Use te.reduce_axis((0, n)) or te.thread_axis(tag)."),
    "SizeVar": ("sizes are made by te", 'Use te.size_var("n").'),
    "Schedule": ("TensorIR is not part of schedlang", "Use te.create_schedule(C.op)."),
    "PrimFunc": ("TensorIR is not part of schedlang", "tvm.lower(s, args) gives the loop nest."),
}  # fmt: skip


# names of other modules of this folder, which most programs do not need
_MODULES = {
    "Buffer": "buffers",
    "call_extern": "extern_calls",
    "call_intrin": "intrinsic_calls",
    "call_pure_extern": "intrinsic_calls",
    "call_packed": "packed",
    "decl_buffer": "buffers",
}


def __getattr__(name: str) -> Any:
    if name == "ir_builder":
        return import_module(f"schedlang.tvm.{name}")
    if name in _MODULES:
        return getattr(import_module(f"schedlang.tvm.{_MODULES[name]}"), name)
    raise missing_name(__name__, name, REFUSED, "tvm.tir")


__all__ = [
    "Cast", "FloatImm", "IntImm", "Select", "Var", "abs", "acos", "all", "any", "asin", "atan",
    "atan2", "ceil", "ceildiv", "clz", "comm_reducer", "const", "cos", "cosh", "div",
    "erf", "exp", "exp2", "floor", "floordiv", "floormod", "fmod", "if_then_else",
    "indexdiv", "indexmod", "infinity",
    "isfinite", "isinf", "isnan", "likely", "log", "log1p", "log2", "log10", "max", "max_value",
    "min", "min_value", "nearbyint", "popcount", "pow", "power", "prod", "reinterpret", "round",
    "rsqrt", "shift_left", "shift_right", "sigmoid", "sin", "sinh", "sqrt", "sum", "tan", "tanh",
    "trunc", "truncdiv", "truncmod",
]  # fmt: skip
