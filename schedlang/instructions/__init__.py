"""Instructions of processors, declared by what they compute, and some of them.

``declaration.py`` has the :class:`Instruction` and :func:`instruction`, which declares one.
``operand_reads.py`` checks what it reads, and ``needs.py`` compares what it needs with features.
``emission.py``, ``c_forms.py``, ``python_function.py`` and ``fragments.py`` have the forms in which
a target runs it.
Each of the files that ``box.py`` lists declares the instructions of one family of processors, as a
file of yours could.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from schedlang.callable_module import load_name
from schedlang.instructions.c_forms import CFunction, CSnippet
from schedlang.instructions.declaration import Emission, Instruction, instruction
from schedlang.instructions.emission import Assembly, Intrinsic, MemoryFunction
from schedlang.instructions.fragments import Digit, Fragment, MatrixLoad, WarpAssembly
from schedlang.instructions.python_function import PythonFunction

if TYPE_CHECKING:
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
    from schedlang.instructions.box import IN_THE_BOX
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

# the modules of declared instructions, which load when one is first used
_MODULES = {
    "IN_THE_BOX": "box",
    "dp4a": "nvidia",
    "dp4a_ss": "nvidia",
    "dp4a_uu": "nvidia",
    "ldmatrix_x1_bf16": "nvidia",
    "ldmatrix_x1_f16": "nvidia",
    "ldmatrix_x1_trans_bf16": "nvidia",
    "ldmatrix_x1_trans_f16": "nvidia",
    "ldmatrix_x2_bf16": "nvidia",
    "ldmatrix_x2_f16": "nvidia",
    "ldmatrix_x2_s8": "nvidia",
    "ldmatrix_x2_tf32": "nvidia",
    "ldmatrix_x2_trans_bf16": "nvidia",
    "ldmatrix_x2_trans_f16": "nvidia",
    "ldmatrix_x2_u8": "nvidia",
    "ldmatrix_x4_bf16": "nvidia",
    "ldmatrix_x4_f16": "nvidia",
    "ldmatrix_x4_s8": "nvidia",
    "ldmatrix_x4_tf32": "nvidia",
    "ldmatrix_x4_trans_bf16": "nvidia",
    "ldmatrix_x4_trans_f16": "nvidia",
    "ldmatrix_x4_u8": "nvidia",
    "mma_bf16": "nvidia",
    "mma_f16": "nvidia",
    "mma_rounded_tf32": "nvidia",
    "mma_s8": "nvidia",
    "mma_tf32": "nvidia",
    "mma_u8": "nvidia",
    "sdot": "arm",
    "tdpbf16ps": "amx",
    "tdpbssd": "amx",
    "tdpbsud": "amx",
    "tdpbusd": "amx",
    "tdpbuud": "amx",
    "vdpbf16ps": "x86",
    "vdpbf16ps_256": "x86",
    "vdpbf16ps_rows": "x86",
    "vdpbf16ps_rows_256": "x86",
    "vpdpbusd": "x86",
    "vpdpbusd_256": "x86",
    "vpdpbusd_rows": "x86",
    "vpdpbusd_rows_256": "x86",
    "vpdpbusd_su": "x86",
    "vpdpbusd_su_256": "x86",
    "vpdpwssd": "x86",
    "vpdpwssd_256": "x86",
    "vpdpwssd_rows": "x86",
    "vpdpwssd_rows_256": "x86",
    "vpmaddwd_256": "avx2",
    "vpmaddwd_rows_256": "avx2",
    "vpmaddwd_ss_256": "avx2",
    "vpmaddwd_ss_rows_256": "avx2",
    "vpmaddwd_su_256": "avx2",
    "vpmaddwd_su_rows_256": "avx2",
    "vpmaddwd_us_256": "avx2",
    "vpmaddwd_us_rows_256": "avx2",
    "vpmaddwd_uu_256": "avx2",
    "vpmaddwd_uu_rows_256": "avx2",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "amx":
            # its functions make instructions, which schedules in text name
            return import_module("schedlang.instructions.amx")
        return load_name(__name__, _MODULES, name)


__all__ = [
    "Assembly", "CFunction", "CSnippet", "Digit", "Emission", "Fragment", "IN_THE_BOX",
    "Instruction", "Intrinsic", "MatrixLoad", "MemoryFunction", "PythonFunction", "WarpAssembly",
    "dp4a", "dp4a_ss", "dp4a_uu", "instruction",
    "ldmatrix_x1_bf16", "ldmatrix_x1_f16", "ldmatrix_x1_trans_bf16", "ldmatrix_x1_trans_f16",
    "ldmatrix_x2_bf16", "ldmatrix_x2_f16", "ldmatrix_x2_s8", "ldmatrix_x2_tf32",
    "ldmatrix_x2_trans_bf16", "ldmatrix_x2_trans_f16", "ldmatrix_x2_u8", "ldmatrix_x4_bf16",
    "ldmatrix_x4_f16", "ldmatrix_x4_s8", "ldmatrix_x4_tf32", "ldmatrix_x4_trans_bf16",
    "ldmatrix_x4_trans_f16", "ldmatrix_x4_u8",
    "mma_bf16", "mma_f16", "mma_rounded_tf32", "mma_s8", "mma_tf32", "mma_u8", "sdot",
    "tdpbf16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "vdpbf16ps", "vdpbf16ps_256",
    "vdpbf16ps_rows", "vdpbf16ps_rows_256", "vpdpbusd", "vpdpbusd_256", "vpdpbusd_rows",
    "vpdpbusd_rows_256", "vpdpbusd_su", "vpdpbusd_su_256", "vpdpwssd", "vpdpwssd_256",
    "vpdpwssd_rows", "vpdpwssd_rows_256",
    "vpmaddwd_256", "vpmaddwd_rows_256", "vpmaddwd_ss_256", "vpmaddwd_ss_rows_256",
    "vpmaddwd_su_256", "vpmaddwd_su_rows_256", "vpmaddwd_us_256", "vpmaddwd_us_rows_256",
    "vpmaddwd_uu_256", "vpmaddwd_uu_rows_256",
]  # fmt: skip
