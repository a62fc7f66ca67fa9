"""Products of NVIDIA's GPUs, as PTX: ``dp4a`` of a thread, and ``mma`` of the 32 threads of a warp.

``ldmatrix`` loads the operands of ``mma``. Source: NVIDIA, "PTX ISA", "Integer Arithmetic
Instructions: dp4a" and "Warp Level Matrix Multiply-Accumulate Instructions: mma", "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from schedlang.compute.define import compute
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as sum_over
from schedlang.compute.tensor import placeholder
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Expr
from schedlang.instructions.declaration import Instruction, instruction
from schedlang.instructions.emission import Assembly
from schedlang.instructions.fragments import REGISTER, Digit, Fragment, MatrixLoad, WarpAssembly
from schedlang.instructions.x86 import dot
from schedlang.language.calls import call


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


# PTX's names of the dtypes of operands
_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8",
          "uint8": "u8"}  # fmt: skip


def _product(
    name: str,
    steps: int,
    dtype: str,
    total: str,
    tolerance: float = 0.0,
    factor: Callable[[Expr], Expr] | None = None,
) -> Instruction:
    """Return the product of 16 x ``steps`` and ``steps`` x 8 elements, which a warp adds to 16 x 8.

    ``factor`` returns what is multiplied for an element, the element itself by default. A thread
    holds adjacent steps in each register. Its lane is ``4*row + pair``.
    """
    rows, columns, each = 16, 8, REGISTER // itemsize(dtype)
    a = placeholder((rows, steps), dtype, name="a")
    b = placeholder((steps, columns), dtype, name="b")
    q = reduce_axis(steps, name="q")
    of = factor or (lambda element: element.astype(total))
    c = compute(
        (rows, columns),
        lambda i, j: sum_over(of(a[i, q]) * of(b[q, j]), axis=q),
        name="c",
    )
    row, half = Digit("lane", 4, 8, 0, 1), steps // 2

    def pairs(dim: int, step: int) -> tuple[Digit, ...]:
        """Return the digits of the steps of ``a`` or ``b``; ``step`` registers are before."""
        inside = Digit("register", 1, each, dim, 1)
        return inside, Digit("lane", 1, 4, dim, each), Digit("register", step, 2, dim, half)

    fragments = (
        Fragment(
            "c", (rows, columns),
            (row, Digit("register", 2, 2, 0, 8),
             Digit("lane", 1, 4, 1, 2), Digit("register", 1, 2, 1, 1)),
        ),
        Fragment(
            "a", (rows, steps),
            (row, Digit("register", each, 2, 0, 8), *pairs(1, 2 * each)),
        ),
        Fragment("b", (steps, columns), (*pairs(0, each), Digit("lane", 4, 8, 1, 1))),
    )  # fmt: skip
    own = _TYPES[dtype]
    held = {"float32": "f32", "int32": "s32"}[total]
    mnemonic = f"mma.sync.aligned.m16n8k{steps}.row.col.{held}.{own}.{own}.{held}"
    return instruction(
        name, c, needs=["sm_80"], tolerance=tolerance,
        emit={"cuda": WarpAssembly(mnemonic, fragments)},
    )  # fmt: skip


# a sum of 17 terms in any order, with steps that may round towards 0, as the units of NVIDIA do:
# each of 16 additions errs by at most 2**-23 of the sum of magnitudes
_ANY_ORDER = 17 * 2.0**-23
# each factor rounds to the nearest of 11 bits first, and the sum has 9 terms
_TF32 = 2 * 2.0**-11 + 2.0**-22 + 9 * 2.0**-23
mma_f16 = _product("mma_f16", 16, "float16", "float32", _ANY_ORDER)
mma_bf16 = _product("mma_bf16", 16, "bfloat16", "float32", _ANY_ORDER)
mma_tf32 = _product("mma_tf32", 8, "float32", "float32", _TF32)
# the factors of the declaration are rounded, so that only the sum errs, of 9 terms
mma_rounded_tf32 = _product(
    "mma_rounded_tf32", 8, "float32", "float32", 9 * 2.0**-23, partial(call, "tf32")
)
mma_s8 = _product("mma_s8", 32, "int8", "int32")
mma_u8 = _product("mma_u8", 32, "uint8", "int32")


def _load(count: int, dtype: str, transposed: bool = False) -> Instruction:
    """Return the load of ``count`` matrices: 1 and 2 of ``b`` of a product, 4 of its ``a``.

    Rows in shared memory run along the terms of the product; ``transposed`` ones along the rows of
    ``a``, or the columns of ``b``.
    """
    each = REGISTER // itemsize(dtype)
    inside, pair = Digit("register", 1, each, 0, 1), Digit("lane", 1, 4, 0, each)
    halves = (Digit("register", each, 2, 0, 4 * each),) * (count > 1)
    terms, own = (inside, pair, *halves), Digit("lane", 4, 8, 1, 1)
    shape = 4 * each * min(count, 2), 8
    if count == 4:
        # a has its terms along the last dimension, and two more matrices
        first, last = Digit("register", each, 2, 0, 8), halves[0]._replace(step=2 * each)
        terms = tuple(d._replace(dim=1) for d in (inside, pair, last))
        shape, own = (16, 8 * each), Digit("lane", 4, 8, 0, 1)
        terms = (first, *terms)
    rows_along = (1 if count == 4 else 0) ^ transposed
    s = placeholder(shape if rows_along else shape[::-1], dtype, name="s")
    c = compute(shape, lambda i, j: s[i, j] if rows_along else s[j, i], name="c")
    name = f"ldmatrix_x{count}{'_trans' * transposed}_{_TYPES[dtype]}"
    return instruction(
        name, c, needs=["sm_80"],
        emit={"cuda": MatrixLoad(Fragment("c", shape, (own, *terms)), transposed)},
    )  # fmt: skip


ldmatrix_x1_f16 = _load(1, "float16")
ldmatrix_x2_f16 = _load(2, "float16")
ldmatrix_x4_f16 = _load(4, "float16")
ldmatrix_x1_trans_f16 = _load(1, "float16", True)
ldmatrix_x2_trans_f16 = _load(2, "float16", True)
ldmatrix_x4_trans_f16 = _load(4, "float16", True)
ldmatrix_x1_bf16 = _load(1, "bfloat16")
ldmatrix_x2_bf16 = _load(2, "bfloat16")
ldmatrix_x4_bf16 = _load(4, "bfloat16")
ldmatrix_x1_trans_bf16 = _load(1, "bfloat16", True)
ldmatrix_x2_trans_bf16 = _load(2, "bfloat16", True)
ldmatrix_x4_trans_bf16 = _load(4, "bfloat16", True)
ldmatrix_x2_tf32 = _load(2, "float32")
ldmatrix_x4_tf32 = _load(4, "float32")
ldmatrix_x2_s8 = _load(2, "int8")
ldmatrix_x4_s8 = _load(4, "int8")
ldmatrix_x2_u8 = _load(2, "uint8")
ldmatrix_x4_u8 = _load(4, "uint8")
