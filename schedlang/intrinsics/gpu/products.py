"""Products of fragments by the matrix units of a GPU.

Source: NVIDIA, "PTX ISA", "Warp Level Matrix Multiply-Accumulate Instructions: mma".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.simd import Vec

_I32 = ir.IntType(32)


def _rounded(builder: ir.IRBuilder, vector: ir.Value) -> list[ir.Value]:
    """Emit floats as the nearest of 11 bits, which units for tf32 take."""
    kind = ir.FunctionType(_I32, [ir.FloatType()])
    code = ir.InlineAsm(kind, "cvt.rna.tf32.f32 $0, $1;", "=r,f")
    floats = _words(builder, vector, ir.FloatType())
    return [builder.call(code, [x]) for x in floats]


def _words(builder: ir.IRBuilder, vector: ir.Value, word: ir.Type) -> list[ir.Value]:
    """Emit the registers of 32 bits that hold a vector, as values of the type ``word``."""
    bits = vector.type.count * {"float": 32}.get(str(vector.type.element), 0)
    count = (bits or vector.type.count * vector.type.element.width) // 32
    kind = ir.VectorType(word, count)
    whole = vector if vector.type == kind else builder.bitcast(vector, kind)
    return [builder.extract_element(whole, _I32(k)) for k in range(count)]


@intrinsic
def multiply_fragments(typingctx: Any, mnemonic: Any, operands: Any) -> Any:
    """Return the registers of ``c + a*b``, by PTX that all threads of the warp execute.

    The operands are the registers of ``c``, ``a`` and ``b`` in a tuple.
    """
    known = isinstance(mnemonic, types.StringLiteral) and isinstance(operands, types.BaseTuple)
    if not known or not all(isinstance(ty, Vec) for ty in operands):
        return None
    result = operands[0]

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        earlier, *factors = (builder.extract_value(args[1], k) for k in range(len(operands)))
        word = earlier.type.element
        letter = "f" if isinstance(word, ir.FloatType) else "r"
        sums = _words(builder, earlier, word)
        rounds = ".tf32." in mnemonic.literal_value
        given = [
            _rounded(builder, factor) if rounds else _words(builder, factor, _I32)
            for factor in factors
        ]
        # LLVM numbers the results, then the operands; the last operands are the earlier results
        groups, number = [], 0
        for group in (sums, *given):
            groups.append("{" + ", ".join(f"${number + k}" for k in range(len(group))) + "}")
            number += len(group)
        text = f"{mnemonic.literal_value} {', '.join(groups)}, {groups[0]};"
        values = [value for group in given for value in group] + sums
        constraints = [f"={letter}"] * len(sums) + ["r"] * (len(values) - len(sums))
        constraints += [str(k) for k in range(len(sums))]
        kind = ir.FunctionType(ir.LiteralStructType([word] * len(sums)), [v.type for v in values])
        # no branch may come between the threads of a warp
        code = ir.InlineAsm(kind, text, ",".join(constraints), side_effect=True)
        registers = builder.call(code, values)
        total = ir.Constant(earlier.type, ir.Undefined)
        for k in range(len(sums)):
            total = builder.insert_element(total, builder.extract_value(registers, k), _I32(k))
        return total

    return result(mnemonic, operands), codegen
