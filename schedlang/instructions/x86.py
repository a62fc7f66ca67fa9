"""Dot products of x86: AVX-512 VNNI and AVX-VNNI for integers, AVX-512 BF16 for bfloat16.

Source: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from schedlang.compute.define import compute
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import CFunction, Intrinsic


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


# bits: 512 for AVX-512 VNNI, 256 for AVX-VNNI
vpdpbusd: Instruction = instruction(
    "vpdpbusd", dot(16, 4, "uint8", "int8", "int32"), needs="avx512vnni",
    emit={
        "llvm": Intrinsic("llvm.x86.avx512.vpdpbusd.512", ("i32x16",) * 3),
        "c": CFunction("_mm512_dpbusd_epi32", "immintrin.h", ("__m512i",) * 3),
    },
)  # fmt: skip
