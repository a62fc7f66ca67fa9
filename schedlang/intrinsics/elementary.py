"""Elementary functions of scalars and vectors that LLVM computes itself: select to rsqrt.

Each `emit_*` function writes the code of one operation for a scalar or a vector type alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from schedlang.expr.functions import definitions
from schedlang.intrinsics.operators import (
    elementwise,
    emit_compare,
    emit_copysign,
    is_any,
    is_number,
)
from schedlang.intrinsics.simd import (
    Vec,
    call_llvm,
    common_type,
    constant,
    is_float,
    is_unsigned,
    with_element,
)


def intrinsic_of(name: str, operands: int, typed: Callable[..., Any], *what: Any) -> Any:
    """Return the intrinsic whose signature and code `typed(*what, x)` gives, or of two operands."""

    def of_one(typingctx: Any, x: Any) -> Any:
        return typed(*what, x)

    def of_two(typingctx: Any, x: Any, y: Any) -> Any:
        return typed(*what, x, y)

    function = of_one if operands == 1 else of_two
    function.__name__ = name
    function.__doc__ = f"Return {name} of scalars or of each lane."
    return intrinsic(prefer_literal=operands == 2)(function)


@intrinsic(prefer_literal=True)
def select(typingctx: Any, cond: Any, a: Any, b: Any) -> Any:
    """Return `a` where `cond` holds, else `b`; both are evaluated."""
    cond, ty = types.unliteral(cond), common_type(a, b)
    if ty is None or cond not in (types.boolean, with_element(cond, types.boolean)):
        raise TypingError(f"select({cond}, {a}, {b}): give a boolean and operands of one dtype")
    if isinstance(cond, Vec):
        ty = with_element(cond, ty.dtype if isinstance(ty, Vec) else ty)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.select(*args)

    return ty(cond, ty, ty), codegen


def emit_minimum(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit min(a, b), NaN if either is NaN."""
    return emit_extremum(builder, ty, "<", a, b)


def emit_maximum(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit max(a, b), NaN if either is NaN."""
    return emit_extremum(builder, ty, ">", a, b)


def emit_extremum(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit min(a, b) for `op` "<" or max(a, b) for ">"; NaN if either is NaN.

    Of 0.0 and -0.0 it is `a`, on a GPU either.
    """
    if is_float(ty):
        name = "minimum" if op == "<" else "maximum"
        # x86's instruction returns its second operand of two zeros; LLVM swaps the operands if `a`
        # alone is never NaN, for which the language gives it second
        return call_llvm(builder, name, a.type, [b, a], flags=("nsz",))
    return builder.select(emit_compare(builder, ty, op, a, b), a, b)


@intrinsic(prefer_literal=True)
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the smaller of `a` and `b`, the first of two zeros; NaN if either is NaN."""
    return elementwise(is_any, emit_minimum, a, b)


@intrinsic(prefer_literal=True)
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the larger of `a` and `b`, the first of two zeros; NaN if either is NaN."""
    return elementwise(is_any, emit_maximum, a, b)


def emit_fma(builder: ir.IRBuilder, ty: types.Type, a: Any, b: Any, c: Any) -> ir.Value:
    """Emit a*b + c, rounded once."""
    return call_llvm(builder, "fma", a.type, [a, b, c])


@intrinsic(prefer_literal=True)
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a*b + c, rounded once (floats)."""
    return elementwise(is_float, emit_fma, a, b, c)


def emit_absolute(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit |a|; the lowest integer stays as it is."""
    if is_float(ty):
        # NVVM, which compiles the same code for GPUs, has no fabs and no fneg
        return call_llvm(builder, "copysign", a.type, [a, constant(ty, 1.0)])
    if is_unsigned(ty):
        return a
    zero = constant(ty, 0)
    return builder.select(builder.icmp_signed("<", a, zero), builder.sub(zero, a), a)


@intrinsic
def absolute(typingctx: Any, x: Any) -> Any:
    """Return |x|; the lowest integer stays as it is."""
    return elementwise(is_any, emit_absolute, x)


@intrinsic(prefer_literal=True)
def copysign(typingctx: Any, a: Any, b: Any) -> Any:
    """Return |a| with the sign of `b` (floats)."""
    return elementwise(is_float, emit_copysign, a, b)


def rounding(name: str, x: types.Type) -> Any:
    """Return an intrinsic that rounds a float by an LLVM function; an integer stays as it is."""

    def emit(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
        return call_llvm(builder, name, a.type, [a]) if is_float(ty) else a

    return elementwise(is_number, emit, x)


def emit_sqrt(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit the square root of a."""
    return call_llvm(builder, "sqrt", a.type, [a])


def emit_rsqrt(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit 1 / sqrt(a)."""
    return builder.fdiv(constant(ty, 1), emit_sqrt(builder, ty, a))


def emit_integer_power(builder: ir.IRBuilder, ty: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    """Emit x**y by repeated squaring: a step for each bit of the largest exponent in any lane.

    A negative power is the inverse truncated toward zero: 0, unless x is 1 or -1.
    """
    zero, one = constant(ty, 0), constant(ty, 1)
    if not is_unsigned(ty):
        negative = builder.icmp_signed("<", y, zero)
        y = builder.select(negative, builder.and_(y, one), y)
    entry, loop = builder.block, builder.append_basic_block("power.loop")
    after = builder.append_basic_block("power.after")
    builder.branch(loop)
    builder.position_at_end(loop)
    base, rest, result = (builder.phi(x.type) for _ in range(3))
    odd = builder.icmp_unsigned("!=", builder.and_(rest, one), zero)
    product = builder.select(odd, builder.mul(result, base), result)
    square, fewer = builder.mul(base, base), builder.lshr(rest, one)
    for phi, first, following in (base, x, square), (rest, y, fewer), (result, one, product):
        phi.add_incoming(first, entry)
        phi.add_incoming(following, loop)
    more = builder.icmp_unsigned("!=", fewer, zero)
    if isinstance(ty, Vec):
        more = call_llvm(builder, "vector.reduce.or", ir.IntType(1), [more], more.type)
    builder.cbranch(more, loop, after)
    builder.position_at_end(after)
    if is_unsigned(ty):
        return product
    # x + 1 is 0, 1 or 2 for the three numbers from -1 on
    small = builder.icmp_unsigned("<", builder.add(x, one), constant(ty, 3))
    unit = builder.and_(small, builder.icmp_unsigned("!=", x, zero))
    return builder.select(builder.and_(negative, builder.not_(unit)), zero, product)


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("elementary").values()))
__all__ = [*definitions("elementary")]
