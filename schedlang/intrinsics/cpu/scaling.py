"""Products with powers of two, by one instruction where the processor has AVX-512."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.simd import Vec, constant, element, llvm_type, with_element
from schedlang.intrinsics.transposed import joined, shuffled

# adding it rounds a float32 to a whole number, which is then in its low bits
WHOLE = 12582912.0
WHOLE_BITS = 0x4B400000
# the lanes of a float32 vector of AVX-512, and the rounding of the mode that is set
LANES = 16
ROUNDING = 4


@intrinsic
def scaled(typingctx: Any, x: Any, shifted: Any) -> Any:
    """Return ``x * 2**n``, for a whole number n from -252 to 254.

    `shifted` is n + 12582912. `x` and `shifted` are float32 scalars or vectors of equal type.
    """
    if element(x) != types.float32 or shifted != x:
        return None
    whole = with_element(x, types.int32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        value, sums = args
        features = context.codegen().magic_tuple()[2]
        if isinstance(x, Vec) and "+avx512f" in features.split(","):
            n = builder.fsub(sums, constant(x, WHOLE))
            return by_scalef(builder, value, n, x.lanes)
        # as two factors, so that large and small results overflow and underflow correctly
        bits = builder.bitcast(sums, llvm_type(whole))
        power = builder.sub(bits, constant(whole, WHOLE_BITS))
        low = builder.ashr(power, constant(whole, 1))
        for n in (low, builder.sub(power, low)):
            biased = builder.add(n, constant(whole, 127))
            factor = builder.bitcast(builder.shl(biased, constant(whole, 23)), llvm_type(x))
            value = builder.fmul(value, factor)
        return value

    return x(x, shifted), codegen


def by_scalef(builder: ir.IRBuilder, value: ir.Value, n: ir.Value, lanes: int) -> ir.Value:
    """Return the vector ``value * 2**n`` of `lanes` float32, by instructions of AVX-512."""
    wide = ir.VectorType(ir.FloatType(), LANES)
    mask, mode = ir.IntType(16), ir.IntType(32)
    name = "llvm.x86.avx512.mask.scalef.ps.512"
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(wide, [wide, wide, wide, mask, mode])
        function = ir.Function(builder.module, kind, name)
    every, rounding = ir.Constant(mask, (1 << LANES) - 1), ir.Constant(mode, ROUNDING)
    pieces = []
    for start in range(0, lanes, LANES):
        order = [min(start + k, lanes) for k in range(LANES)]
        undefined = ir.Constant(value.type, ir.Undefined)
        x, power = (shuffled(builder, v, undefined, order) for v in (value, n))
        pieces.append(builder.call(function, [x, power, x, every, rounding]))
    return joined(builder, pieces, lanes)
