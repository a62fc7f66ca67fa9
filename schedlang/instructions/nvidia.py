"""Dot products of NVIDIA's GPUs: ``dp4a``, which each thread computes by itself, as PTX.

Source: NVIDIA, "PTX ISA", "Integer Arithmetic Instructions: dp4a".
"""

from __future__ import annotations

from schedlang.instructions.declaration import instruction
from schedlang.instructions.emission import Assembly
from schedlang.instructions.x86 import dot

# the bytes of b are signed, as in vpdpbusd
dp4a = instruction(
    "dp4a", dot(1, 4, "uint8", "int8", "int32"), needs=["sm_61"],
    emit={"cuda": Assembly("dp4a.u32.s32 $0, $2, $3, $1;", "=r,r,r,r", ("i32", "i32", "i32"))},
)  # fmt: skip
