"""Math functions of GPU kernels: NVIDIA's libdevice, on scalars or lane by lane.

A float32 uses libdevice's own float32 function if that is within 2 units in the last place. Others
are computed in float64 and rounded. Source: CUDA C++ Programming Guide 13.0, "Mathematical
Functions", table of maximum errors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from schedlang.expr.functions import FUNCTIONS, definitions
from schedlang.intrinsics.elementary import emit_integer_power, intrinsic_of  # noqa: F401
from schedlang.intrinsics.simd import (
    common_type,
    constant,
    convert,
    each_lane,
    element,
    is_float,
    is_integer,
    llvm_type,
)


def libdevice(name: str, close: bool, *operands: types.Type) -> Any:
    """Return the signature and code of a libdevice function of one or two floats.

    It is ``close`` if its float32 function is within 2 units in the last place.
    """
    ty = common_type(*operands)
    if ty is None or not is_float(ty):
        given = ", ".join(str(types.unliteral(t)) for t in operands)
        raise TypingError(f"{name} takes floats of one dtype, not ({given})")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit_lanes(builder, name, close, ty, args)

    return ty(*[ty] * len(operands)), codegen


def emit_lanes(
    builder: ir.IRBuilder, name: str, close: bool, ty: types.Type, args: Any
) -> ir.Value:
    """Emit calls of a function on a scalar or on each lane."""

    def one(*values: ir.Value) -> ir.Value:
        return _one(builder, name, close, element(ty), values)

    return each_lane(builder, ty, one, args)


def _one(builder: ir.IRBuilder, name: str, close: bool, ty: types.Type, args: Any) -> ir.Value:
    single = ty == types.float32 and close
    kind = types.float32 if single else types.float64
    llt = llvm_type(kind)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(llt, [llt] * len(args)),
        f"__nv_{name}{'f' if single else ''}",
    )
    values = [convert(builder, x, ty, kind) for x in args]
    return convert(builder, builder.call(function, values), kind, ty)


@intrinsic
def sigmoid(typingctx: Any, x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    ty = types.unliteral(x)
    if not is_float(ty):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        one = constant(ty, 1)
        power = emit_lanes(builder, "exp", True, ty, [builder.fsub(constant(ty, -0.0), args[0])])
        return builder.fdiv(one, builder.fadd(one, power))

    return ty(ty), codegen


@intrinsic(prefer_literal=True)
def power(typingctx: Any, x: Any, y: Any) -> Any:
    """Return ``x ** y`` of floats or of integers."""
    ty = common_type(x, y)
    if ty is None:
        return None
    if is_integer(element(ty)):

        def integers(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
            def one(*values: ir.Value) -> ir.Value:
                return emit_integer_power(builder, element(ty), *values)

            return each_lane(builder, ty, one, args)

        return ty(ty, ty), integers
    return libdevice("pow", False, x, y)


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("gpu/libdevice").values()))
# written above: what libdevice does not have
_BY_HAND = [f.called for f in FUNCTIONS.values() if f.own_cpu and not f.library]
__all__ = ["power", *_BY_HAND, *definitions("gpu/libdevice")]
