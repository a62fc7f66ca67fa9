"""Calls of math functions, by the dtype rules of their table."""

from __future__ import annotations

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.functions import FUNCTIONS, SATURATED
from schedlang.expr.nodes import Call, Cast, Const, Expr, ExprLike
from schedlang.language.construct import as_expr, convert, mark_widened, settle


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
    if spec.rule == "part" or dtypes.is_complex(dtype):
        return _complex_call(fn, args, dtype, weak)
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
        needed = f"{kind}{8 * dtypes.itemsize(result)}"
        if weak or dtype != needed:
            raise ComputeTypeError(f"{fn}({args[0]}): the operand must be {needed}, not {dtype}")
        return Call(fn, args, result)
    if spec.rule == "single":
        if dtype != "float32":
            raise ComputeTypeError(f"{fn}({args[0]}): the operand must be float32, not {dtype}")
        return Call(fn, (settle(args[0]),), dtype)
    if spec.rule == "saturated":
        return Call(fn, (settle(args[0]),), fn.removeprefix(SATURATED))
    if spec.rule == "count":
        if dtypes.is_float(dtype):
            raise ComputeTypeError(
                f"sl.{fn}({args[0]}): only integers and bools have bits to count, not {dtype}; "
                "cast the operand first, or take its bits by te.reinterpret"
            )
        return Call(fn, (settle(args[0]),), "uint8")
    if spec.rule == "test":
        if not dtypes.is_float(dtype):
            return Const(fn == "isfinite", "bool")
        return Call(fn, args, "bool")
    if spec.rule == "common":
        sources = args
        if all(isinstance(a, Const) and a.value == 0 for a in args):
            # LLVM would fold it by the order of IEEE 754
            return convert(args[0], dtype) if not weak else args[0]
        if dtypes.is_float(dtype) and _never_nan(args[0]) and not _never_nan(args[1]):
            # of two zeros, min and max give the first, which is free if the second is never NaN
            args = args[::-1]
        if not weak:
            args = tuple(convert(a, dtype) for a in args)
        elif dtypes.is_float(dtype):
            args = tuple(_float(a, dtype, weak) for a in args)
        return mark_widened(Call(fn, args, dtype, weak), sources)
    if fn == "conj" or (spec.rule == "whole" and not dtypes.is_float(dtype)):
        return args[0]
    if fn == "abs" and (dtype == "bool" or dtype.startswith("uint")):
        return args[0]
    return Call(fn, args, dtype, weak)


def _never_nan(value: Expr) -> bool:
    """Return whether ``value`` is a constant or an integer, which is never NaN."""
    if isinstance(value, Const):
        return not dtypes.is_complex(value.dtype) and value.value == value.value
    inner = value.a if isinstance(value, Cast) else value
    return not dtypes.is_float(inner.dtype)


# the functions of complex numbers
_OF_COMPLEX = tuple(f.name for f in FUNCTIONS.values() if f.complex)


def _complex_call(fn: str, args: tuple[Expr, ...], dtype: str, weak: bool) -> Expr:
    """Return the call of a function of complex numbers, or of a part of a real one."""
    (first,) = args[:1]
    if not dtypes.is_complex(dtype):
        # the parts of a real number
        zero = 0.0 if dtypes.is_float(dtype) else False if dtype == "bool" else 0
        return first if fn == "real" else Const(zero, dtype, weak)
    if FUNCTIONS[fn].rule == "common":
        raise ComputeTypeError(
            explain(
                f"sl.{fn}({', '.join(map(str, args))})",
                "complex numbers have no order",
                "Compare parts or magnitudes: z.real, z.imag, sl.abs(z).",
            )
        )
    if fn not in _OF_COMPLEX:
        raise ComputeTypeError(
            f"sl.{fn}({', '.join(map(str, args))}): it takes no complex numbers; those that do are "
            f"{', '.join(_OF_COMPLEX)}, and of parts, z.real and z.imag, every function is known"
        )
    if FUNCTIONS[fn].rule == "test":
        return Call(fn, args, "bool")
    if fn in ("real", "imag", "abs"):
        return Call(fn, args, dtypes.part_of(dtype), weak)
    return Call(fn, args, dtype, weak)


def _float(value: Expr, dtype: str, weak: bool) -> Expr:
    if isinstance(value, Const) and (value.dtype != dtype or value.weak != weak):
        return Const(float(value.value), dtype, weak)
    return value if value.dtype == dtype else Cast(value, dtype, weak)
