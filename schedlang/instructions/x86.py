"""Dot products of x86: AVX-512 VNNI and AVX-VNNI for integers, AVX-512 BF16 for bfloat16.

Source: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.define import compute
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.instructions.c_forms import CFunction
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import Assembly, Intrinsic


def dot(lanes: int, terms: int, left: str, right: str, result: str) -> Tensor:
    """Return ``c[i] += a[q] * b[i, q]`` over ``lanes`` and ``terms``, with the given dtypes."""
    a = placeholder((terms,), left, name="a")
    b = placeholder((lanes, terms), right, name="b")
    q = reduce_axis(terms, name="q")
    return compute(
        (lanes,),
        lambda i: sum_over(a[q].astype(result) * b[i, q].astype(result), axis=q),
        name="c",
    )


# AVX-VNNI has them with the encoding of AVX2, AVX-512 VNNI with its own
EITHER = "avxvnni or avx512vnni"


def _integers(name: str, declared: Tensor, bits: int, needs: Sequence[str]) -> Instruction:
    """Return a dot product of integers, in vectors of ``bits``."""
    mnemonic = name.split("_")[0]
    function = mnemonic.removeprefix("vp")
    word, prefix = f"i32x{bits // 32}", "_mm512" if bits == 512 else "_mm256"
    return instruction(
        name, declared, needs=needs,
        emit={
            "llvm": Intrinsic(f"llvm.x86.avx512.{mnemonic}.{bits}", (word,) * 3),
            "c": CFunction(f"{prefix}_{function}_epi32", "immintrin.h", (f"__m{bits}i",) * 3),
        },
    )  # fmt: skip


vpdpbusd = _integers("vpdpbusd", dot(16, 4, "uint8", "int8", "int32"), 512, ["avx512vnni"])
vpdpbusd_256 = _integers("vpdpbusd_256", dot(8, 4, "uint8", "int8", "int32"), 256, [EITHER])
vpdpwssd = _integers("vpdpwssd", dot(16, 2, "int16", "int16", "int32"), 512, ["avx512vnni"])
vpdpwssd_256 = _integers("vpdpwssd_256", dot(8, 2, "int16", "int16", "int32"), 256, [EITHER])
# it takes denormal operands and results as 0, and rounds each of its two additions to the nearest
vdpbf16ps = instruction(
    "vdpbf16ps", dot(16, 2, "bfloat16", "bfloat16", "float32"), needs=["avx512bf16"],
    emit={
        "llvm": Assembly("vdpbf16ps $3, $2, $0", "=v,0,v,v", ("f32x16", "i32x16", "i32x16")),
        "c": CFunction("_mm512_dpbf16_ps", "immintrin.h", ("__m512", "__m512bh", "__m512bh")),
    },
    # two roundings of half a unit in the last place, here and in the declaration
    tolerance=4 * 2.0**-24,
    note="denormal numbers are taken as 0",
)  # fmt: skip
