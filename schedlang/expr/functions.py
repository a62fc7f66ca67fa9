"""The math functions of the language: their names, their dtypes and their ufuncs."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.errors import ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.construct import as_expr, convert, mark_widened
from schedlang.expr.nodes import Call, Cast, Const, Expr, ExprLike


@dataclass(frozen=True)
class Function:
    """A math function.

    ``rule`` says which dtype the result has: ``"float"`` a float dtype, ``"same"`` that of the
    operand, ``"common"`` the promoted dtype of two operands, ``"test"`` bool, ``"bits"`` the dtype
    in the function's name.
    """

    name: str
    arity: int
    rule: str
    ufunc: str


FUNCTIONS = {
    f.name: f
    for f in (
        *(Function(n, 1, "float", n) for n in (
            "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan",
            "sinh", "cosh", "tanh")),
        Function("asin", 1, "float", "arcsin"),
        Function("acos", 1, "float", "arccos"),
        Function("atan", 1, "float", "arctan"),
        Function("rsqrt", 1, "float", ""),
        Function("sigmoid", 1, "float", ""),
        Function("erf", 1, "float", ""),
        Function("floor", 1, "same", "floor"),
        Function("ceil", 1, "same", "ceil"),
        Function("trunc", 1, "same", "trunc"),
        Function("round", 1, "same", "rint"),
        Function("abs", 1, "same", "absolute"),
        Function("isnan", 1, "test", "isnan"),
        Function("isinf", 1, "test", "isinf"),
        Function("isfinite", 1, "test", "isfinite"),
        # reinterpret the bits of an operand of the same size
        *(Function(f"bits_{t}", 1, "bits", "") for t in ("int32", "int64", "float32", "float64")),
        Function("min", 2, "common", "minimum"),
        Function("max", 2, "common", "maximum"),
        Function("atan2", 2, "float", "arctan2"),
    )
}  # fmt: skip


def call(fn: str, *values: ExprLike) -> Expr:
    """Return the call of ``fn``, a name in ``FUNCTIONS``, on ``values``."""
    return build_call(fn, tuple(as_expr(v) for v in values))


def build_call(fn: str, args: tuple[Expr, ...]) -> Expr:
    """Return the call of ``fn``, with operands converted to the dtype that it computes in."""
    spec = FUNCTIONS[fn]
    if len(args) != spec.arity:
        raise ComputeTypeError(
            f"sl.{fn} takes {spec.arity} operand{'s' * (spec.arity != 1)}, got {len(args)}"
        )
    dtype, weak = args[0].dtype, args[0].weak
    if spec.arity == 2:
        dtype, weak = dtypes.promote(dtype, weak, args[1].dtype, args[1].weak)
    if spec.rule == "float":
        if spec.arity == 2 and not (args[0].weak or args[1].weak):
            floats = [dtypes.float_of(a.dtype, False) for a in args]
            dtype, _ = dtypes.promote(floats[0], False, floats[1], False)
        dtype = dtypes.float_of(dtype, weak)
        operands = tuple(_float(a, dtype, weak) for a in args)
        return mark_widened(Call(fn, operands, dtype, weak), args)
    if spec.rule == "bits":
        result = fn.removeprefix("bits_")
        kind = "int" if dtypes.is_float(result) else "float"
        wanted = f"{kind}{8 * dtypes.itemsize(result)}"
        if weak or dtype != wanted:
            raise ComputeTypeError(f"{fn}({args[0]}): the operand must be {wanted}, not {dtype}")
        return Call(fn, args, result)
    if spec.rule == "test":
        if not dtypes.is_float(dtype):
            return Const(fn == "isfinite", "bool")
        return Call(fn, args, "bool")
    if spec.rule == "common":
        given = args
        if not weak:
            args = tuple(convert(a, dtype) for a in args)
        elif dtypes.is_float(dtype):
            args = tuple(_float(a, dtype, weak) for a in args)
        return mark_widened(Call(fn, args, dtype, weak), given)
    if not dtypes.is_float(dtype) and fn in ("floor", "ceil", "trunc", "round"):
        return args[0]
    if fn == "abs" and (dtype == "bool" or dtype.startswith("uint")):
        return args[0]
    return Call(fn, args, dtype, weak)


def _float(value: Expr, dtype: str, weak: bool) -> Expr:
    if isinstance(value, Const) and (value.dtype != dtype or value.weak != weak):
        return Const(float(value.value), dtype, weak)
    return value if value.dtype == dtype else Cast(value, dtype, weak)
