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

from schedlang.intrinsics.elementary import emit_integer_power
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

# functions within 2 units in the last place in float32
CLOSE = {
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "erf",
    "sin",
    "cos",
    "atan",
}


def libdevice(name: str, *operands: types.Type) -> Any:
    """Return the signature and code of a libdevice function of one or two floats."""
    ty = common_type(*operands)
    if ty is None or not is_float(ty):
        given = ", ".join(str(types.unliteral(t)) for t in operands)
        raise TypingError(f"{name} takes floats of one dtype, not ({given})")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit_lanes(builder, name, ty, args)

    return ty(*[ty] * len(operands)), codegen


def emit_lanes(builder: ir.IRBuilder, name: str, ty: types.Type, args: Any) -> ir.Value:
    """Emit calls of a function on a scalar or on each lane."""

    def one(*values: ir.Value) -> ir.Value:
        return _one(builder, name, element(ty), values)

    return each_lane(builder, ty, one, args)


def _one(builder: ir.IRBuilder, name: str, ty: types.Type, args: Any) -> ir.Value:
    single = ty == types.float32 and name in CLOSE
    kind = types.float32 if single else types.float64
    llt = llvm_type(kind)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(llt, [llt] * len(args)),
        f"__nv_{name}{'f' if single else ''}",
    )
    values = [convert(builder, x, ty, kind) for x in args]
    return convert(builder, builder.call(function, values), kind, ty)


def _unary(name: str) -> Any:
    def function(typingctx: Any, x: Any) -> Any:
        return libdevice(name, x)

    function.__name__ = name
    function.__doc__ = f"Return {name} of a scalar or of each lane."
    return intrinsic(function)


acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
cos = _unary("cos")
cosh = _unary("cosh")
erf = _unary("erf")
exp = _unary("exp")
exp2 = _unary("exp2")
expm1 = _unary("expm1")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
sin = _unary("sin")
sinh = _unary("sinh")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")


@intrinsic
def round_even(typingctx: Any, x: Any) -> Any:
    """Return ``x`` rounded to the nearest whole number, ties to even."""
    return libdevice("rint", x)


@intrinsic(prefer_literal=True)
def atan2(typingctx: Any, y: Any, x: Any) -> Any:
    """Return the angle of the point (x, y)."""
    return libdevice("atan2", y, x)


@intrinsic
def sigmoid(typingctx: Any, x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    ty = types.unliteral(x)
    if not is_float(ty):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        one = constant(ty, 1)
        power = emit_lanes(builder, "exp", ty, [builder.fsub(constant(ty, -0.0), args[0])])
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
    return libdevice("pow", x, y)
