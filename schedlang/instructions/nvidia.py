"""Dot products of NVIDIA's GPUs: ``dp4a``, which each thread computes by itself, as PTX.

Source: NVIDIA, "PTX ISA", "Integer Arithmetic Instructions: dp4a".
"""

from __future__ import annotations

from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import Assembly
from schedlang.instructions.x86 import dot


def _bytes(name: str, left: str, right: str) -> Instruction:
    """Return the sum of four products of bytes, and of an integer."""
    signs = {"int8": "s32", "uint8": "u32"}
    text = f"dp4a.{signs[left]}.{signs[right]} $0, $2, $3, $1;"
    return instruction(
        name, dot(1, 4, left, right, "int32"), needs=["sm_61"],
        emit={"cuda": Assembly(text, "=r,r,r,r", ("i32", "i32", "i32"))},
    )  # fmt: skip


# the bytes of b are signed, as in vpdpbusd
dp4a = _bytes("dp4a", "uint8", "int8")
dp4a_ss = _bytes("dp4a_ss", "int8", "int8")
# the sum is of integers without a sign, which have the same bits
dp4a_uu = _bytes("dp4a_uu", "uint8", "uint8")
