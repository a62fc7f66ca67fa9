"""Instructions for tests, and products in the layouts that they read."""

from __future__ import annotations

from typing import Any

import numba

import schedlang as sl
from schedlang.instructions import (
    Assembly,
    CFunction,
    CSnippet,
    Intrinsic,
    MemoryFunction,
    PythonFunction,
)
from schedlang.intrinsics.cpu import broadcast, fma
from schedlang.runtime.processor import missing_features

# an instruction in the box: its lanes, its terms, and the dtypes of its operands and its result
FAMILIES = {
    "vpdpbusd": (16, 4, "uint8", "int8", "int32"),
    "vpdpwssd": (16, 2, "int16", "int16", "int32"),
    "vdpbf16ps": (16, 2, "bfloat16", "bfloat16", "float32"),
}


GEMV = """
int gemv(const float *a, const float *b, float *c, const int64_t *sizes) {
  const int64_t terms = sizes[0], as = sizes[1], rows = sizes[2], bs = sizes[4], bt = sizes[5];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t q = 0; q < terms; q++) c[i * sizes[7]] += a[q * as] * b[i * bs + q * bt];
  return 0;
}
"""


@numba.njit
def gemv_numba(a: Any, b: Any, c: Any) -> None:
    for i in range(b.shape[0]):
        for q in range(b.shape[1]):
            c[i] += a[q] * b[i, q]


def gemv(m: int, terms: int, call: Any = GEMV, **how: Any) -> sl.Instruction:
    """Declare ``c[i] += a[q] * b[i, q]`` over ``m`` rows."""
    a, b = sl.placeholder((terms,), name="a"), sl.placeholder((m, terms), name="b")
    q = sl.reduce_axis(terms, name="q")
    c = sl.compute((m,), lambda i: sl.sum(a[q] * b[i, q], axis=q), name="c")
    emit = {"memory": MemoryFunction(call, **how)}
    return sl.instruction("gemv", c, emit=emit, tolerance=2.0**-20)


def runs(declared: sl.Instruction) -> bool:
    """Return whether this processor has an instruction."""
    return not missing_features(declared.needs)


def fused() -> sl.Instruction:
    """Return ``y[i] = a[i] * b[i] + d[i]`` over eight lanes, rounded once."""
    a, b, d = (sl.placeholder((8,), name=name) for name in "abd")
    y = sl.compute((8,), lambda i: a[i] * b[i] + d[i], name="y")
    return sl.instruction(
        "fused", y, needs="fma", tolerance=2.0**-22,
        emit={
            "llvm": Intrinsic("llvm.fma.v8f32", ("f32x8",) * 3),
            "c": CFunction("_mm256_fmadd_ps", "immintrin.h", ("__m256",) * 3),
        },
    )  # fmt: skip


def multiply_add(y: Any, a: Any, b: Any) -> Any:
    return fma(broadcast(a, 8), b, y)


def scaled_row(name: str = "scaled_row") -> sl.Instruction:
    """Return ``y[i] += a[0] * b[i]`` over eight lanes, of which the factor is repeated in all.

    LLVM's function and C's take the earlier value last. ``"assembled_row"`` is AT&T's order, and
    ``"written_row"`` a function of Python and a snippet of C.
    """
    a, b = sl.placeholder((1,), name="a"), sl.placeholder((8,), name="b")
    q = sl.reduce_axis(1, name="q")
    y = sl.compute((8,), lambda i: sl.sum(a[q] * b[i], axis=q), name="y")
    types = ("f32x8",) * 3
    words = {"y": "__m256", "a": "__m256", "b": "__m256"}
    emit: dict[str, dict[str, Any]] = {
        "scaled_row": {
            "llvm": Intrinsic("llvm.fma.v8f32", types, order=(1, 2, 0)),
            "c": CFunction("_mm256_fmadd_ps", "immintrin.h", ("__m256",) * 3, order=(1, 2, 0)),
        },
        "assembled_row": {"llvm": Assembly("vfmadd231ps $3, $2, $0", "=x,0,x,x", types)},
        "written_row": {
            "llvm": PythonFunction(multiply_add),
            "c": CSnippet("y = _mm256_fmadd_ps(a, b, y);", words, "immintrin.h"),
        },
    }
    return sl.instruction(name, y, emit[name], needs="fma", tolerance=2.0**-22)


def packed(m: int, n: int, k: int, family: str) -> tuple[Any, ...]:
    """Return A, B and their product, where B has panels of a family's lanes and terms.

    The panels of an odd size are filled up.
    """
    lanes, terms, left, right, result = FAMILIES[family]
    A = sl.placeholder((m, -(-k // terms) * terms), left, name="A")
    B = sl.placeholder((-(-k // terms), -(-n // lanes), lanes, terms), right, name="B")
    r = sl.reduce_axis(k, name="k")

    def term(i: Any, j: Any) -> Any:
        b = B[r // terms, j // lanes, j % lanes, r % terms]
        return A[i, r].astype(result) * b.astype(result)

    C = sl.compute((m, n), lambda i, j: sl.sum(term(i, j), axis=r), name="C")
    return A, B, C


def tensorized(C: Any, declared: sl.Instruction, tail: str = "cut") -> Any:
    """Return a schedule of a packed product that uses an instruction."""
    lanes, terms = declared.lanes, int(declared.op.reduce_axis[0].extent)
    s = sl.schedule(C)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    jo, ji = s[C].split(j, factor=lanes, tail=tail)
    ko, ki = s[C].split(k, factor=terms, tail=tail)
    s[C].reorder(i, jo, ko, ji, ki)
    s[C].tensorize(ji, declared)
    return s


__all__ = [
    "FAMILIES", "GEMV", "fused", "gemv", "gemv_numba", "packed", "runs", "scaled_row", "tensorized",
]  # fmt: skip
