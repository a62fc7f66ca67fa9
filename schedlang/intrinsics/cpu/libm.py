"""Math functions of the C library, in double precision, on scalars or lane by lane.

A float32 is computed in float64 and rounded, so the error is at most one unit in the last place,
however accurate the library's float32 functions are.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from schedlang.expr.functions import definitions
from schedlang.intrinsics.elementary import emit_integer_power, intrinsic_of  # noqa: F401
from schedlang.intrinsics.simd import (
    Vec,
    common_type,
    constant,
    convert,
    element,
    is_float,
    is_integer,
    llvm_type,
)


def libm(function: Any, *operands: types.Type) -> Any:
    """Return the signature and code of a C function of one or two floats."""
    ty = common_type(*operands)
    if ty is None or not is_float(ty):
        given = ", ".join(str(types.unliteral(t)) for t in operands)
        raise TypingError(f"{function.__name__} takes floats of one dtype, not ({given})")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit_libm(context, builder, function, ty, args)

    return ty(*[ty] * len(operands)), codegen


def emit_libm(
    context: Any, builder: ir.IRBuilder, function: Any, ty: types.Type, args: Any
) -> ir.Value:
    """Emit calls of a function of Python's `math`, in float64, on a scalar or on each lane."""
    dtype, double = element(ty), types.float64
    call = context.get_function(function, signature(double, *[double] * len(args)))

    def one(*xs: ir.Value) -> ir.Value:
        wide = [convert(builder, x, dtype, double) for x in xs]
        return convert(builder, call(builder, wide), double, dtype)

    if not isinstance(ty, Vec):
        return one(*args)
    result = ir.Constant(llvm_type(ty), ir.Undefined)
    for i in range(ty.lanes):
        index = ir.IntType(32)(i)
        lanes = [builder.extract_element(x, index) for x in args]
        result = builder.insert_element(result, one(*lanes), index)
    return result


def power_of_two(x: types.Type) -> Any:
    """Return the signature and code of 2**x of a float."""
    sig = libm(math.exp, x)[0]
    ty = sig.return_type

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        # Python 3.10 has no math.exp2, and pow is exact for powers of two
        return emit_libm(context, builder, math.pow, ty, [constant(ty, 2.0), args[0]])

    return sig, codegen


@intrinsic(prefer_literal=True)
def power(typingctx: Any, x: Any, y: Any) -> Any:
    """Return x**y of one dtype; integers wrap, and are truncated toward zero for y < 0."""
    ty = common_type(x, y)
    if ty is None or not is_integer(ty):
        return libm(math.pow, x, y)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit_integer_power(builder, ty, *args)

    return ty(ty, ty), codegen


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("cpu/libm").values()))
__all__ = ["power", *definitions("cpu/libm")]
