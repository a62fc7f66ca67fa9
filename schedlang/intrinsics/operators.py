"""The operators of scalars and vectors: arithmetic, bits, comparisons.

Each `emit_*` function writes the code of one operation for a scalar or a vector type alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic

from schedlang.expr.functions import definitions
from schedlang.intrinsics.simd import (
    Vec,
    call_llvm,
    common_type,
    constant,
    each_lane,
    is_float,
    is_integer,
    is_unsigned,
    llvm_type,
    with_element,
)

# a multiplication and an addition may fuse; nothing else is reassociated
CONTRACT = ("contract",)

Emit = Callable[..., ir.Value]


def vec_operator(op: Any, accepts: Callable[[types.Type], bool], mask: bool, emit: Emit) -> None:
    """Define the operator `op` on vectors of the accepted types.

    With `mask` the result is a vector of booleans, else a vector of the operands' type.
    """
    arity = emit.__code__.co_argcount - 2

    class Operator(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != arity or not any(isinstance(t, Vec) for t in args):
                return None
            ty = common_type(*args)
            if ty is None or not accepts(ty):
                return None
            return signature(with_element(ty, types.boolean) if mask else ty, *[ty] * arity)

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, sig.args[0], *args)

    infer_global(op)(Operator)
    lower_builtin(op, *[Vec] * arity)(lower)


def elementwise(accepts: Callable[[types.Type], bool], emit: Emit, *operands: types.Type) -> Any:
    """Return an intrinsic that converts its operands to one type; the result has that type."""
    ty = common_type(*operands)
    if ty is None or not accepts(ty):
        given = ", ".join(str(types.unliteral(t)) for t in operands)
        raise TypingError(f"operands ({given}) have no common dtype here; cast them to one")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, ty, *args)

    return ty(*[ty] * len(operands)), codegen


def is_number(ty: types.Type) -> bool:
    """Return whether a type is a number, which has arithmetic."""
    return is_float(ty) or is_integer(ty)


def is_bits(ty: types.Type) -> bool:
    """Return whether a type has bitwise operations: integers and masks have."""
    return not is_float(ty)


def is_any(ty: types.Type) -> bool:
    """Return True for every scalar and vector type."""
    return True


def emit_add(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a + b."""
    return builder.fadd(a, b, flags=CONTRACT) if is_float(ty) else builder.add(a, b)


def emit_sub(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a - b."""
    return builder.fsub(a, b, flags=CONTRACT) if is_float(ty) else builder.sub(a, b)


def emit_mul(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a * b."""
    return builder.fmul(a, b, flags=CONTRACT) if is_float(ty) else builder.mul(a, b)


def emit_div(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a / b."""
    return builder.fdiv(a, b, flags=CONTRACT)


def emit_neg(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit -a."""
    if is_float(ty):
        return builder.fsub(constant(ty, -0.0), a)
    return builder.sub(constant(ty, 0), a)


def emit_floordiv(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a // b as in NumPy: rounded down, and 0 for an integer divided by zero."""
    zero = constant(ty, 0)
    if is_float(ty):
        rem = emit_rem(builder, ty, a, b)
        quotient = builder.fdiv(builder.fsub(a, rem), b)
        down = builder.fsub(quotient, constant(ty, 1))
        quotient = builder.select(emit_signs_differ(builder, ty, rem, b), down, quotient)
        floor = call_llvm(builder, "floor", quotient.type, [quotient])
        half = builder.fcmp_ordered(">", builder.fsub(quotient, floor), constant(ty, 0.5))
        floor = builder.select(half, builder.fadd(floor, constant(ty, 1)), floor)
        ratio = builder.fdiv(a, b)
        signed_zero = emit_copysign(builder, ty, zero, ratio)
        floor = builder.select(builder.fcmp_ordered("==", quotient, zero), signed_zero, floor)
        return builder.select(builder.fcmp_ordered("==", b, zero), ratio, floor)
    by_zero = builder.icmp_unsigned("==", b, zero)
    divisor = emit_safe_divisor(builder, ty, a, b)
    if is_unsigned(ty):
        return builder.select(by_zero, zero, builder.udiv(a, divisor))
    quotient = builder.sdiv(a, divisor)
    rem = builder.sub(a, builder.mul(quotient, divisor))
    down = builder.sub(quotient, constant(ty, 1))
    quotient = builder.select(emit_signs_differ(builder, ty, rem, divisor), down, quotient)
    return builder.select(by_zero, zero, quotient)


def emit_rem(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit the exact remainder of the truncated quotient a / b, with the sign of a."""
    if not builder.module.triple.startswith("nvptx"):
        return builder.frem(a, b)

    def one(x: ir.Value, y: ir.Value) -> ir.Value:
        # NVPTX's own frem computes it from a rounded quotient
        name = "__nv_fmod" if isinstance(x.type, ir.DoubleType) else "__nv_fmodf"
        kind = ir.FunctionType(x.type, [x.type, x.type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y])

    return each_lane(builder, ty, one, [a, b])


def emit_mod(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a % b as in NumPy: with the sign of b, and 0 for an integer modulo zero."""
    zero = constant(ty, 0)
    if is_float(ty):
        rem = emit_rem(builder, ty, a, b)
        moved = builder.fadd(rem, b)
        signed_zero = emit_copysign(builder, ty, zero, b)
        result = builder.select(emit_signs_differ(builder, ty, rem, b), moved, rem)
        return builder.select(builder.fcmp_ordered("==", rem, zero), signed_zero, result)
    divisor = emit_safe_divisor(builder, ty, a, b)
    if is_unsigned(ty):
        rem = builder.urem(a, divisor)
    else:
        rem = builder.srem(a, divisor)
        moved = builder.add(rem, divisor)
        rem = builder.select(emit_signs_differ(builder, ty, rem, divisor), moved, rem)
    return builder.select(builder.icmp_unsigned("==", b, zero), zero, rem)


def emit_copysign(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit |a| with the sign of b."""
    return call_llvm(builder, "copysign", a.type, [a, b])


def emit_safe_divisor(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit `b`, or 1 where the machine's integer division a / b would trap."""
    traps = builder.icmp_unsigned("==", b, constant(ty, 0))
    if not is_unsigned(ty):
        lowest = builder.icmp_signed("==", a, constant(ty, -(1 << (bit_width(ty) - 1))))
        minus_one = builder.icmp_signed("==", b, constant(ty, -1))
        traps = builder.or_(traps, builder.and_(lowest, minus_one))
    return builder.select(traps, constant(ty, 1), b)


def emit_signs_differ(builder: ir.IRBuilder, ty: types.Type, rem: ir.Value, b: ir.Value) -> Any:
    """Emit whether a remainder is not zero and its sign is not the divisor's."""
    zero = constant(ty, 0)
    if is_float(ty):
        some = builder.fcmp_unordered("!=", rem, zero)
        low, low_b = builder.fcmp_ordered("<", rem, zero), builder.fcmp_ordered("<", b, zero)
    else:
        some = builder.icmp_signed("!=", rem, zero)
        low, low_b = builder.icmp_signed("<", rem, zero), builder.icmp_signed("<", b, zero)
    return builder.and_(some, builder.xor(low, low_b))


def emit_and(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a & b."""
    return builder.and_(a, b)


def emit_or(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a | b."""
    return builder.or_(a, b)


def emit_xor(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a ^ b."""
    return builder.xor(a, b)


def emit_invert(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit ~a."""
    return builder.not_(a)


def emit_lshift(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a << b; a count of at least the width gives 0."""
    zero, width = constant(ty, 0), constant(ty, bit_width(ty))
    fits = builder.icmp_unsigned("<", b, width)
    return builder.select(fits, builder.shl(a, builder.select(fits, b, zero)), zero)


def emit_rshift(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a >> b; a count of at least the width gives 0, or -1 for a negative a."""
    zero, width = constant(ty, 0), constant(ty, bit_width(ty))
    fits = builder.icmp_unsigned("<", b, width)
    if is_unsigned(ty):
        return builder.select(fits, builder.lshr(a, builder.select(fits, b, zero)), zero)
    return builder.ashr(a, builder.select(fits, b, constant(ty, bit_width(ty) - 1)))


def bit_width(ty: types.Type) -> int:
    """Return the number of bits in one element of an integer type, scalar or vector."""
    llt = llvm_type(ty)
    return llt.element.width if isinstance(llt, ir.VectorType) else llt.width


def emit_compare(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit the comparison a `op` b; a NaN is unequal to everything."""
    if is_float(ty):
        return (builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered)(op, a, b)
    return (builder.icmp_unsigned if is_unsigned(ty) else builder.icmp_signed)(op, a, b)


def comparing(op: str) -> Emit:
    """Return what emits the comparison `op`."""

    def emit(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
        return emit_compare(builder, ty, op, a, b)

    return emit


vec_operator(operator.neg, is_number, False, emit_neg)
vec_operator(operator.invert, is_bits, False, emit_invert)


@intrinsic(prefer_literal=True)
def add(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a + b of one dtype; integers wrap."""
    return elementwise(is_number, emit_add, a, b)


@intrinsic(prefer_literal=True)
def subtract(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a - b of one dtype; integers wrap."""
    return elementwise(is_number, emit_sub, a, b)


@intrinsic(prefer_literal=True)
def multiply(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a * b of one dtype; integers wrap."""
    return elementwise(is_number, emit_mul, a, b)


@intrinsic(prefer_literal=True)
def floordiv(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a // b of one dtype, rounded down; an integer divided by zero is 0."""
    return elementwise(is_number, emit_floordiv, a, b)


@intrinsic(prefer_literal=True)
def mod(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a % b of one dtype, with the sign of b; an integer modulo zero is 0."""
    return elementwise(is_number, emit_mod, a, b)


@intrinsic(prefer_literal=True)
def left_shift(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a << b of one dtype; a count of at least the width gives 0."""
    return elementwise(is_integer, emit_lshift, a, b)


@intrinsic(prefer_literal=True)
def right_shift(typingctx: Any, a: Any, b: Any) -> Any:
    """Return a >> b of one dtype; a count of at least the width gives 0, or -1 for a negative a."""
    return elementwise(is_integer, emit_rshift, a, b)


# one for each row of the table of binary operators
exec("\n".join(definitions("operators").values()))
