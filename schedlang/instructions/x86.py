"""Dot products of x86: AVX-512 VNNI and AVX-VNNI for integers, AVX-512 BF16 for bfloat16.

Source: Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.define import compute
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.tensor import Tensor, placeholder
from schedlang.expr.nodes import Axis
from schedlang.instructions.c_forms import CFunction
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import Assembly, Intrinsic


def dot(
    lanes: int, terms: int, left: str, right: str, result: str, rows: bool = False
) -> Tensor:
    """Return ``c[i] += a[q] * b[i, q]`` over ``lanes`` and ``terms``, with the given dtypes.

    With ``rows``, each lane has its own ``a[i, q]``.
    """
    a = placeholder((lanes, terms) if rows else (terms,), left, name="a")
    b = placeholder((lanes, terms), right, name="b")
    q = reduce_axis(terms, name="q")

    def element(i: Axis) -> Reduction:
        of_a = a[i, q] if rows else a[q]
        return sum_over(of_a.astype(result) * b[i, q].astype(result), axis=q)

    return compute((lanes,), element, name="c")


# AVX-VNNI has them with the encoding of AVX2, AVX-512 VNNI with its own
EITHER = "avxvnni or avx512vnni"


def _integers(
    name: str, declared: Tensor, bits: int, needs: Sequence[str], order: tuple[int, ...] = ()
) -> Instruction:
    """Return a dot product of integers, in vectors of ``bits``; ``order`` is as for Intrinsic."""
    mnemonic = name.split("_")[0]
    function = mnemonic.removeprefix("vp")
    word, prefix = f"i32x{bits // 32}", "_mm512" if bits == 512 else "_mm256"
    return instruction(
        name, declared, needs=needs,
        emit={
            "llvm": Intrinsic(f"llvm.x86.avx512.{mnemonic}.{bits}", (word,) * 3, order),
            "c": CFunction(
                f"{prefix}_{function}_epi32", "immintrin.h", (f"__m{bits}i",) * 3, order
            ),
        },
    )  # fmt: skip


vpdpbusd = _integers("vpdpbusd", dot(16, 4, "uint8", "int8", "int32"), 512, ["avx512vnni"])
vpdpbusd_256 = _integers("vpdpbusd_256", dot(8, 4, "uint8", "int8", "int32"), 256, [EITHER])
# the same instructions, whose unsigned operand has the lanes
vpdpbusd_su = _integers(
    "vpdpbusd_su", dot(16, 4, "int8", "uint8", "int32"), 512, ["avx512vnni"], (0, 2, 1)
)
vpdpbusd_su_256 = _integers(
    "vpdpbusd_su_256", dot(8, 4, "int8", "uint8", "int32"), 256, [EITHER], (0, 2, 1)
)
# the same instructions, whose two operands move along the lanes
vpdpbusd_rows = _integers(
    "vpdpbusd_rows", dot(16, 4, "uint8", "int8", "int32", True), 512, ["avx512vnni"]
)
vpdpbusd_rows_256 = _integers(
    "vpdpbusd_rows_256", dot(8, 4, "uint8", "int8", "int32", True), 256, [EITHER]
)
vpdpwssd = _integers("vpdpwssd", dot(16, 2, "int16", "int16", "int32"), 512, ["avx512vnni"])
vpdpwssd_256 = _integers("vpdpwssd_256", dot(8, 2, "int16", "int16", "int32"), 256, [EITHER])
vpdpwssd_rows = _integers(
    "vpdpwssd_rows", dot(16, 2, "int16", "int16", "int32", True), 512, ["avx512vnni"]
)
vpdpwssd_rows_256 = _integers(
    "vpdpwssd_rows_256", dot(8, 2, "int16", "int16", "int32", True), 256, [EITHER]
)


def _bfloats(name: str, bits: int, rows: bool = False) -> Instruction:
    """Return the dot product of bfloat16, in vectors of ``bits``; ``rows`` is as for :func:`dot`.

    It takes denormal operands and results as 0, and rounds each of its two additions to the
    nearest.
    """
    lanes, prefix = bits // 32, "_mm512" if bits == 512 else "_mm256"
    words = (f"f32x{lanes}", f"i32x{lanes}", f"i32x{lanes}")
    types = (f"__m{bits}", f"__m{bits}bh", f"__m{bits}bh")
    return instruction(
        name, dot(lanes, 2, "bfloat16", "bfloat16", "float32", rows), needs=["avx512bf16"],
        emit={
            "llvm": Assembly("vdpbf16ps $3, $2, $0", "=v,0,v,v", words),
            "c": CFunction(f"{prefix}_dpbf16_ps", "immintrin.h", types),
        },
        # two roundings of half a unit in the last place, here and in the declaration
        tolerance=4 * 2.0**-24,
        note="denormal numbers are taken as 0",
    )  # fmt: skip


vdpbf16ps = _bfloats("vdpbf16ps", 512)
vdpbf16ps_256 = _bfloats("vdpbf16ps_256", 256)
vdpbf16ps_rows = _bfloats("vdpbf16ps_rows", 512, rows=True)
vdpbf16ps_rows_256 = _bfloats("vdpbf16ps_rows_256", 256, rows=True)
