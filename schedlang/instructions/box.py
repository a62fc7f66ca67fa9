"""The instructions that schedlang declares, which a schedule in a file may name."""

from __future__ import annotations

import re
from math import prod

from schedlang.instructions import amx
from schedlang.instructions.amx import tdpbf16ps, tdpbssd, tdpbsud, tdpbusd, tdpbuud
from schedlang.instructions.arm import sdot
from schedlang.instructions.avx2 import (
    vpmaddwd_256,
    vpmaddwd_rows_256,
    vpmaddwd_ss_256,
    vpmaddwd_ss_rows_256,
    vpmaddwd_su_256,
    vpmaddwd_su_rows_256,
    vpmaddwd_us_256,
    vpmaddwd_us_rows_256,
    vpmaddwd_uu_256,
    vpmaddwd_uu_rows_256,
)
from schedlang.instructions.declaration import Instruction
from schedlang.instructions.nvidia import (
    dp4a,
    dp4a_ss,
    dp4a_uu,
    ldmatrix_x1_bf16,
    ldmatrix_x1_f16,
    ldmatrix_x1_trans_bf16,
    ldmatrix_x1_trans_f16,
    ldmatrix_x2_bf16,
    ldmatrix_x2_f16,
    ldmatrix_x2_s8,
    ldmatrix_x2_tf32,
    ldmatrix_x2_trans_bf16,
    ldmatrix_x2_trans_f16,
    ldmatrix_x2_u8,
    ldmatrix_x4_bf16,
    ldmatrix_x4_f16,
    ldmatrix_x4_s8,
    ldmatrix_x4_tf32,
    ldmatrix_x4_trans_bf16,
    ldmatrix_x4_trans_f16,
    ldmatrix_x4_u8,
    mma_bf16,
    mma_f16,
    mma_rounded_tf32,
    mma_s8,
    mma_tf32,
    mma_u8,
)
from schedlang.instructions.x86 import (
    vdpbf16ps,
    vdpbf16ps_256,
    vdpbf16ps_rows,
    vdpbf16ps_rows_256,
    vpdpbusd,
    vpdpbusd_256,
    vpdpbusd_rows,
    vpdpbusd_rows_256,
    vpdpbusd_su,
    vpdpbusd_su_256,
    vpdpwssd,
    vpdpwssd_256,
    vpdpwssd_rows,
    vpdpwssd_rows_256,
)

# those that this processor has and a search takes first stand last
IN_THE_BOX = (
    vpmaddwd_256, vpmaddwd_rows_256, vpmaddwd_us_256, vpmaddwd_us_rows_256, vpmaddwd_su_256,
    vpmaddwd_su_rows_256, vpmaddwd_ss_256, vpmaddwd_ss_rows_256, vpmaddwd_uu_256,
    vpmaddwd_uu_rows_256,
    vpdpbusd, vpdpbusd_256, vpdpbusd_su, vpdpbusd_su_256, vpdpbusd_rows, vpdpbusd_rows_256,
    vpdpwssd, vpdpwssd_256, vpdpwssd_rows, vpdpwssd_rows_256, vdpbf16ps, vdpbf16ps_256,
    vdpbf16ps_rows, vdpbf16ps_rows_256, sdot, dp4a, dp4a_ss, dp4a_uu, mma_f16,
    mma_bf16, mma_tf32, mma_rounded_tf32, mma_s8, mma_u8,
    ldmatrix_x1_bf16, ldmatrix_x1_f16, ldmatrix_x1_trans_bf16, ldmatrix_x1_trans_f16,
    ldmatrix_x2_bf16, ldmatrix_x2_f16, ldmatrix_x2_s8, ldmatrix_x2_tf32, ldmatrix_x2_trans_bf16,
    ldmatrix_x2_trans_f16, ldmatrix_x2_u8, ldmatrix_x4_bf16, ldmatrix_x4_f16, ldmatrix_x4_s8,
    ldmatrix_x4_tf32, ldmatrix_x4_trans_bf16, ldmatrix_x4_trans_f16, ldmatrix_x4_u8,
    tdpbusd, tdpbssd, tdpbsud, tdpbuud, tdpbf16ps,
)  # fmt: skip

# the products of tiles, each of which may have more steps
TILES = (tdpbusd, tdpbssd, tdpbsud, tdpbuud, tdpbf16ps)
# a product of tiles with more steps than one tile has
_TILES = re.compile(r"(\w+)_([1-9][0-9]{0,6})", re.ASCII)


def named(name: str) -> Instruction | None:
    """Return the instruction of schedlang's that has a name, ``None`` if none has.

    >>> named("vpdpbusd") is vpdpbusd, named("tdpbusd_128"), named("tdpbusd_100")
    (True, <Instruction tdpbusd_128(a: uint8[16, 32, 4], b: int8[32, 16, 4]) -> c: int32[16, 16]>, \
None)
    """
    known = next((declared for declared in IN_THE_BOX if declared.name == name), None)
    match = _TILES.fullmatch(name) if known is None else None
    tile = next((d for d in TILES if match is not None and d.name == match[1]), None)
    if match is None or tile is None or int(match[2]) % steps_of(tile):
        return known
    longer = amx.with_steps(tile, int(match[2]))
    return longer if longer.name == name else None


def steps_of(declared: Instruction) -> int:
    """Return the steps that one use of an instruction takes."""
    return prod(int(axis.extent) for axis in declared.op.reduce_axis)


def spelling(declared: Instruction) -> str:
    """Return the expression for an instruction of schedlang's in a program, "" for another one.

    >>> spelling(vpdpbusd), spelling(named("tdpbf16ps_64"))
    ('sl.instructions.vpdpbusd', 'sl.instructions.amx.bf16_product(64)')
    """
    if named(declared.name) is not declared:
        return ""
    if declared in IN_THE_BOX:
        return f"sl.instructions.{declared.name}"
    return f"sl.instructions.amx.{amx.spelling(declared)}"
