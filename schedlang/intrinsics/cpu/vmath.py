"""Math functions in float32, such as exp: polynomials over the primitives, no branches.

They are plain Python over scalars or vectors, and LLVM vectorizes loops over them.  Vectors in C
have the same functions, translated from this source (`codegen/c_math.py`).  The error is at most 2
units in the last place for every float32 (`tests/exhaustive_math.py` tests them all).  The
coefficients are minimax fits to the functions in the comments above them, computed for this file by
a linear program on Chebyshev nodes and rounded to float32.
"""

from __future__ import annotations

import math
from types import BuiltinFunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import compiler
from numba.extending import intrinsic

from schedlang.expr.functions import FUNCTIONS
from schedlang.intrinsics.cpu.libm import libm
from schedlang.intrinsics.cpu.scaling import scaled
from schedlang.intrinsics.cpu.tables import erf_table_single, has_tables, tanh_table_single
from schedlang.intrinsics.elementary import absolute, copysign, fma, select
from schedlang.intrinsics.operators import right_shift
from schedlang.intrinsics.simd import (
    element,
    float32,
    float64,
    int32,
    llvm_type,
    with_element,
)

# compiled as a kernel is, for scalars and for vectors
COMPILED = (
    "exp_single", "log_single", "tanh_single", "sigmoid_single", "sigmoid_double", "erf_single",
)  # fmt: skip
INF = np.float32(np.inf)
NAN = np.float32(np.nan)
ZERO = np.float32(0)
HALF = np.float32(0.5)
ONE = np.float32(1)
TWO = np.float32(2)

LOG2_E = np.float32(1.4426950408889634)
# log(2) as a sum: the first part ends in zero bits, so small multiples of it are exact
LN2_HIGH = np.float32(0.693359375)
LN2_LOW = np.float32(-2.1219444005469058e-4)
# adding it rounds a float32 to a whole number, which is then in its low bits
MAGIC = np.float32(12582912.0)
# above EXP_HIGH exp is infinite, below EXP_LOW it is 0
EXP_HIGH = np.float32(89)
EXP_LOW = np.float32(-104)

FRACTION_BITS = np.int32(23)
FRACTION_MASK = np.int32(0x7FFFFF)
SQRT_HALF_BITS = np.int32(0x3F3504F3)
SMALLEST_NORMAL = np.float32(2.0**-126)
SHIFT_23 = np.float32(23)
TWO_23 = np.float32(2.0**23)

TANH_SPLIT = np.float32(0.625)
# from here on erf is 1
ERF_ONE = np.float32(4)


@intrinsic
def float32_bits(typingctx: Any, x: Any) -> Any:
    """Return the 32 bits of a float32, as int32."""
    return reinterpret(x, types.float32, types.int32)


@intrinsic
def float32_from_bits(typingctx: Any, x: Any) -> Any:
    """Return the float32 of 32 bits, given as int32."""
    return reinterpret(x, types.int32, types.float32)


def reinterpret(x: types.Type, src: types.Type, dst: types.Type) -> Any:
    """Return an intrinsic that reinterprets bits as another dtype."""
    ty = types.unliteral(x)
    if element(ty) != src:
        return None
    ret = with_element(ty, dst)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], llvm_type(ret))

    return ret(ty), codegen


def emit_single(context: Any, builder: ir.IRBuilder, single: Any, sig: Any, args: Any) -> ir.Value:
    """Emit an inlined call of the Python function `single`, compiled."""
    flags = compiler.Flags()
    flags.forceinline = True
    flags.fastmath = {"contract"}
    flags.error_model = "numpy"
    compiled = context.compile_subroutine(builder, single, sig, flags=flags)
    return context.call_internal(builder, compiled.fndesc, sig, args)


def single_or_double(single: Any, double: Any, x: types.Type) -> Any:
    """Return an intrinsic that computes a float32 by `single` and a float64 by `double`.

    `single` is a Python function to compile. `double` is one too, or a function of Python's `math`.
    """
    sig, codegen = libm(double, x)
    if element(sig.return_type) == types.float64 and isinstance(double, BuiltinFunctionType):
        return sig, codegen
    source = single if element(sig.return_type) == types.float32 else double

    def compiled(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit_single(context, builder, source, sig, args)

    return sig, compiled


def exp_single(x: Any) -> Any:
    """Return exp(x) = 2**n * exp(r) with n = round(x / log(2)) and |r| <= log(2) / 2.

    Source: Cody and Waite, "Software Manual for the Elementary Functions" (1980), chapter 6.
    """
    x = select(x > EXP_HIGH, EXP_HIGH, x)
    x = select(x < EXP_LOW, EXP_LOW, x)
    shifted = fma(x, LOG2_E, MAGIC)
    n = shifted - MAGIC
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    # (exp(r) - 1 - r) / r**2
    p = fma(np.float32(0.0013814598), r, np.float32(0.008368717))
    p = fma(p, r, np.float32(0.04166839))
    p = fma(p, r, np.float32(0.16666521))
    p = fma(p, r, np.float32(0.49999994))
    p = fma(p, r * r, r) + ONE
    return scaled(p, shifted)


def log_single(x: Any) -> Any:
    """Return log(x) = e * log(2) + log(1 + f), where x = 2**e * (1 + f).

    1 + f is between sqrt(1/2) and sqrt(2). Source: Cody and Waite, "Software Manual for the
    Elementary Functions" (1980), chapter 5, with a polynomial in f as in Moshier's Cephes library.
    """
    tiny = x < SMALLEST_NORMAL
    bits = int32(float32_bits(select(tiny, x * TWO_23, x)) - SQRT_HALF_BITS)
    exponent = float32(right_shift(bits, FRACTION_BITS)) - select(tiny, SHIFT_23, ZERO)
    f = float32_from_bits(int32((bits & FRACTION_MASK) + SQRT_HALF_BITS)) - ONE
    # (log(1 + f) - f + f**2 / 2) / f**3
    p = fma(np.float32(0.06746627), f, np.float32(-0.11675634))
    p = fma(p, f, np.float32(0.11888159))
    p = fma(p, f, np.float32(-0.124055915))
    p = fma(p, f, np.float32(0.14219552))
    p = fma(p, f, np.float32(-0.16667996))
    p = fma(p, f, np.float32(0.20002119))
    p = fma(p, f, np.float32(-0.2500001))
    p = fma(p, f, np.float32(0.33333313))
    square = f * f
    tail = fma(p * f, square, exponent * LN2_LOW)
    tail = fma(-HALF, square, tail)
    result = fma(exponent, LN2_HIGH, f + tail)
    # infinity, NaN, negative numbers and zero
    result = select(x < INF, result, x)
    result = select(x > ZERO, result, NAN)
    return select(x == ZERO, -INF, result)


def tanh_single(x: Any) -> Any:
    """Return tanh(x) = 1 - 2 / (exp(2*x) + 1), or an odd polynomial if |x| < 0.625.

    Source: Cody and Waite, "Software Manual for the Elementary Functions" (1980), chapter 13.
    """
    size = absolute(x)
    large = ONE - TWO / (exp(size + size) + ONE)
    square = size * size
    # (tanh(x) / x - 1) / x**2 in x**2
    p = fma(np.float32(0.0021429653), square, np.float32(-0.0081774015))
    p = fma(p, square, np.float32(0.021700704))
    p = fma(p, square, np.float32(-0.053946763))
    p = fma(p, square, np.float32(0.13333206))
    p = fma(p, square, np.float32(-0.3333333))
    small = fma(p * square, size, size)
    return copysign(select(size < TANH_SPLIT, small, large), x)


def sigmoid_single(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)), or exp(x) / (1 + exp(x)) if x < 0, so that exp never overflows.

    The quotient is corrected by what is left of the division by 1 + exp before that sum is rounded.
    """
    e = exp(-absolute(x))
    top = select(x < ZERO, e, ONE)
    inverse = ONE / (ONE + e)
    quotient = top * inverse
    # the difference is exact, as the quotient is at least half of the top
    rest = fma(-quotient, e, top - quotient)
    return fma(rest, inverse, quotient)


def sigmoid_double(x: Any) -> Any:
    """Return `sigmoid_single` of a float64, without the correction of the quotient."""
    e = exp(-absolute(x))
    one = float64(1.0)
    return select(x < float64(0.0), e, one) / (one + e)


def erf_single(x: Any) -> Any:
    """Return erf(x) = 1 - exp(q(x)), or x + x * p(x**2) if |x| < 1.

    Both forms are standard: erf is odd, and log(1 - erf(x)) is smooth.
    """
    size = absolute(x)
    size = select(size > ERF_ONE, ERF_ONE, size)
    # -log(1 - erf(x)) / x - 1
    q = fma(np.float32(4.938042e-06), size, np.float32(-4.557927e-05))
    q = fma(q, size, np.float32(-4.9595666e-05))
    q = fma(q, size, np.float32(0.0029301802))
    q = fma(q, size, np.float32(-0.022674171))
    q = fma(q, size, np.float32(0.10526273))
    q = fma(q, size, np.float32(0.63562524))
    q = fma(q, size, np.float32(0.12855175))
    large = ONE - exp(fma(q, -size, -size))
    square = size * size
    # erf(x) / x - 1 in x**2
    p = fma(np.float32(7.853899e-05), square, np.float32(-0.0008010205))
    p = fma(p, square, np.float32(0.005188329))
    p = fma(p, square, np.float32(-0.026853813))
    p = fma(p, square, np.float32(0.112835854))
    p = fma(p, square, np.float32(-0.37612626))
    p = fma(p, square, np.float32(0.12837917))
    small = fma(p, size, size)
    return copysign(select(size < ONE, small, large), x)


@intrinsic
def exp(typingctx: Any, x: Any) -> Any:
    """Return e**x (floats)."""
    return single_or_double(exp_single, math.exp, x)


@intrinsic
def log(typingctx: Any, x: Any) -> Any:
    """Return the natural logarithm of `x` (floats)."""
    return single_or_double(log_single, math.log, x)


@intrinsic
def tanh(typingctx: Any, x: Any) -> Any:
    """Return the hyperbolic tangent of `x` (floats)."""
    return single_or_double(tanh_table_single if has_tables(x) else tanh_single, math.tanh, x)


@intrinsic
def sigmoid(typingctx: Any, x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) (floats)."""
    return single_or_double(sigmoid_single, sigmoid_double, x)


@intrinsic
def erf(typingctx: Any, x: Any) -> Any:
    """Return the error function of `x` (floats)."""
    return single_or_double(erf_table_single if has_tables(x) else erf_single, math.erf, x)


# each function of the table that is written by hand for CPUs
__all__ = [*(f.called for f in FUNCTIONS.values() if f.own_cpu)]
