"""Lesson 15: bring an instruction of your processor: declare it, check it, put it into a schedule.

We declare a multiply-add of eight floats that is written in assembly, and compute the tiles of a
matrix product with it. LLVM finds this instruction by itself, so the plain schedule is as fast:
that makes it a good first one. `sl.instructions` has others that LLVM does not find.
"""

from __future__ import annotations

import numpy as np
from lesson import milliseconds

import schedlang as sl
from schedlang.instructions import Assembly

M, N, K = 384, 512, 256
ROWS, COLUMNS, LANES = 6, 16, 8


def multiply_add() -> sl.Instruction:
    """Declare `c[i] += a * b[i]`, and say how x86 does it."""
    a, b = sl.placeholder((1,), name="a"), sl.placeholder((LANES,), name="b")
    q = sl.reduce_axis(1, name="q")
    c = sl.compute((LANES,), lambda i: sl.sum(a[q] * b[i], axis=q), name="c")
    # $0 is the result, which begins as $1; $2 is `a` in all lanes, and $3 is `b`
    assembly = Assembly("vfmadd231ps $3, $2, $0", "=x,0,x,x", ("f32x8", "f32x8", "f32x8"))
    # the declaration rounds the product and the sum, the instruction only the sum
    return sl.instruction(
        "multiply_add", c, emit={"llvm": assembly}, needs="fma", tolerance=4 * 2.0**-24
    )


def product(instruction: sl.Instruction | None) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Schedule a product whose tiles stay in registers, by the instruction or by plain vectors."""
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    C = sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    i, j = s[C].op.axis
    strip, row = s[C].split(i, factor=ROWS)
    panel, column = s[C].split(j, factor=COLUMNS)
    vector, lane = s[C].split(column, factor=LANES)
    s[C].reorder(panel, strip, *s[C].op.reduce_axis, row, vector, lane)
    s[C].unroll(row)
    s[C].unroll(vector)
    s[C].parallel(panel)
    if instruction is None:
        s[C].vectorize(lane)
    else:
        s[C].tensorize(lane, instruction)
    return s, [A, B, C]


def main() -> None:
    instruction = multiply_add()
    print(f"{instruction!r}\n")
    s, tensors = product(instruction)
    print(f"{s}\n")
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((M, K), (K, N)))
    out = np.empty((M, N), np.float32)
    try:
        f = sl.build(s, tensors)
        print(f"{instruction.check()}\n")
    except (sl.errors.BuildError, sl.errors.InstructionError) as error:
        # another processor: the loops that the instruction declares run everywhere
        print(f"{error}\n")
        small = sl.build(s, tensors, target="python")
        np.testing.assert_allclose(small(a, b), a @ b, rtol=1e-4)
        return
    np.testing.assert_allclose(f(a, b, out), a @ b, rtol=1e-4)
    line = next(line.strip() for line in f.source.splitlines() if "assemble(" in line)
    print(f"A line of the file:\n    {line}\n")
    plain = sl.build(*product(None))
    for name, kernel in (("by the instruction", f), ("by plain vectors", plain)):
        print(f"{name:<20}{milliseconds(kernel, a, b, out):8.3f} ms")


if __name__ == "__main__":
    main()

# Exercise: declare `c[i] += a[i] * b[i]` with the same assembly, and use it for sums of products
# of rows: split the reduction by 8, make partial sums with rfactor, and tensorize their lanes.
