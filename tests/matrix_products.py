"""Products of matrices by the matrix units of a GPU, whose tiles warps hold as fragments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import schedlang as sl
from schedlang.language.calls import call
from tests.special_values import nearest_tf32

NAMES = ("mma_f16", "mma_bf16", "mma_tf32", "mma_rounded_tf32", "mma_s8", "mma_u8")


def product(
    m: int,
    n: int,
    k: int,
    name: str = "mma_f16",
    tiles: tuple[int, int] = (1, 2),
    warps: tuple[int, int] = (2, 1),
    scope: str = "fragment",
    transposed: bool = False,
    prepare: Callable[[Any], object] = lambda tile: None,
) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Return a schedule of C = A B by ``warps`` of a block, each with ``tiles`` of an instruction.

    B has its columns in rows if ``transposed``. ``prepare`` schedules the tiles in shared memory,
    which zeros fill up to whole ones where sizes are not multiples.
    """
    declared = getattr(sl.instructions, name)
    a, result = declared.operands[0], declared.output.dtype
    step = int(a.shape[1])
    A = sl.placeholder((m, k), a.dtype, name="A")
    B = sl.placeholder((n, k) if transposed else (k, n), a.dtype, name="B")
    r = sl.reduce_axis(k, name="k")

    def element(i: Any, j: Any) -> Any:
        left, right = A[i, r].astype(result), (B[j, r] if transposed else B[r, j]).astype(result)
        if name == "mma_rounded_tf32":
            left, right = call("tf32", left), call("tf32", right)
        return sl.sum(left * right, axis=r)

    C = sl.compute((m, n), element, name="C")
    s = sl.schedule(C)
    whole = not (m % 16 or n % 8 or k % (2 * step))
    pads = [] if whole else s.pad_einsum(C, [16, 8, 2 * step])
    padded = {pad.op.input_tensors[0]: pad for pad in pads}
    L = s.cache_write(C, scope)
    shared = [padded[T] if T in padded else s.cache_read(T, "shared", [L]) for T in (A, B)]
    fragments = [s.cache_read(tile, scope, [L]) for tile in shared]
    (i, j), (ty, tx) = C.op.axis, (16 * tiles[0], 8 * tiles[1])
    by, bx, i, j = s[C].tile(i, j, ty * warps[0], tx * warps[1])
    wy, wx, i, j = s[C].tile(i, j, ty, tx)
    threads = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")
    for axis, thread in zip((by, bx, wy, wx), threads):
        s[C].bind(axis, thread)
    s[L].compute_at(s[C], wx)
    ko, ki = s[L].split(s[L].op.reduce_axis[0], factor=2 * step)
    km, ki = s[L].split(ki, factor=step)
    io, jo, ii, ji = s[L].tile(*s[L].op.axis, 16, 8)
    s[L].reorder(ko, km, io, jo, ii, ji, ki)
    s[L].unroll(io)
    s[L].unroll(jo)
    for tile, fragment in zip(shared, fragments):
        s[fragment].compute_at(s[L], km)
        s[tile].set_scope("shared")
        s[tile].compute_at(s[L], ko)
        rest, lane = s[tile].split(s[tile].fuse(*s[tile].op.axis), factor=32)
        rest, x = s[tile].split(rest, factor=warps[1])
        rest, y = s[tile].split(rest, factor=warps[0])
        for axis, thread in ((lane, "threadIdx.x"), (x, "threadIdx.y"), (y, "threadIdx.z")):
            s[tile].bind(axis, thread)
        prepare(s[tile])
    s[L].tensorize(ii, declared)
    return s, [A, B, C]


def by_matrix_loads(s: sl.Schedule, left: str, right: str = "") -> None:
    """Let ``ldmatrix`` load the fragments of a :func:`product`, by the names of instructions."""
    for name, chosen in (("A", left), ("B", right)):
        if chosen:
            declared = getattr(sl.instructions, chosen)
            copy = s[s.tensor(f"{name}.shared.fragment")]
            rows, columns = map(int, declared.operands[0].shape)
            _, _, inner, _ = copy.tile(*copy.op.axis, rows, columns)
            copy.tensorize(inner, declared)


def operands(args: list[sl.Tensor], transposed: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return random matrices, their exact product, and the sums of the magnitudes of its terms."""
    random = np.random.default_rng(0)
    dtype, arrays = args[0].dtype, []
    for tensor in args[:2]:
        shape = tuple(map(int, tensor.shape))
        if "int" in dtype:
            limits = np.iinfo(dtype)
            arrays.append(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        else:
            kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
            arrays.append(random.standard_normal(shape).astype(kind))
    wide = "int64" if "int" in dtype else "float64"
    rounded = "tf32" in str(args[2].op.body)
    left, right = ((nearest_tf32(x) if rounded else x).astype(wide) for x in arrays)
    right = right.T if transposed else right
    return arrays[0], arrays[1], left @ right, np.abs(left) @ np.abs(right)
