"""Dot products of Arm: the instruction SDOT of Armv8.2, as a function of C.

Source: Arm, "Arm C Language Extensions", "Dot product intrinsics".
"""

from __future__ import annotations

from schedlang.instructions.c_forms import CFunction
from schedlang.instructions.declaration import instruction
from schedlang.instructions.x86 import dot

sdot = instruction(
    "sdot", dot(4, 4, "int8", "int8", "int32"), needs=["dotprod"],
    emit={"c": CFunction("vdotq_s32", "arm_neon.h", ("int32x4_t", "int8x16_t", "int8x16_t"))},
)  # fmt: skip
