"""The tail of a split with a parallel outer loop stays inside that loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.ir.interpret import interpret

ROWS, COLUMNS = 22, 19


def blurred() -> tuple[Any, Any]:
    A = sl.placeholder((ROWS, COLUMNS), name="A")
    B = sl.compute((ROWS, COLUMNS), lambda y, x: A[y, x] * 2, name="B")
    C = sl.compute(
        (ROWS, COLUMNS),
        lambda y, x: B[sl.max(y - 1, 0), x] + B[y, x] + B[sl.min(y + 1, ROWS - 1), x], name="C",
    )  # fmt: skip
    return B, C


def expected(a: np.ndarray) -> np.ndarray:
    b, y = a * 2, np.arange(ROWS)
    return b[np.maximum(y - 1, 0)] + b + b[np.minimum(y + 1, ROWS - 1)]


def lanes(s: Any, T: Any, strip: Any) -> None:
    _, inner = s[T].split(T.op.axis[1], factor=4)
    s[T].vectorize(inner)


def at_strips(s: Any, B: Any, C: Any, strip: Any, row: Any) -> None:
    s[B].compute_at(s[C], strip)
    lanes(s, B, strip)


def in_lines(s: Any, B: Any, C: Any, strip: Any, row: Any) -> None:
    s[B].compute_at(s[C], row)
    s[B].store_at(s[C], strip)


def at_root(s: Any, B: Any, C: Any, strip: Any, row: Any) -> None:
    pass


@pytest.mark.parametrize("factor", [8, 11, 21, 40])
@pytest.mark.parametrize("place", [at_strips, in_lines, at_root])
def test_a_parallel_loop_holds_its_tail(place: Any, factor: int) -> None:
    B, C = blurred()
    s = sl.schedule(C)
    strip, row = s[C].split(C.op.axis[0], factor=factor, tail="cut")
    lanes(s, C, strip)
    s[C].parallel(strip)
    place(s, B, C, strip, row)
    nest = sl.lower(s)
    a = np.random.default_rng(0).integers(-9, 9, (ROWS, COLUMNS)).astype("float32")
    for order in ("forward", "shuffle"):
        np.testing.assert_array_equal(interpret(nest, [a], order).outputs[0], expected(a))
    np.testing.assert_array_equal(sl.build(s, target="python")(a), expected(a))
    shared = [loop for loop in nest.loops if loop.kind == "parallel"]
    assert [loop.extent for loop in shared] == ([-(-ROWS // factor)] if factor < ROWS else [])
    rows = [loop.extent for loop in nest.loops if loop.axis is row]
    rest = ROWS % factor if factor < ROWS else 0
    assert rows == [min(factor, ROWS), *([rest] if rest > 1 else [])]


def test_the_storage_of_a_tail_is_no_larger_than_the_tail() -> None:
    B, C = blurred()
    s = sl.schedule(C)
    strip, row = s[C].split(C.op.axis[0], factor=8, tail="cut")
    s[C].parallel(strip)
    at_strips(s, B, C, strip, row)
    assert [b.shape for b in sl.lower(s).buffers if b.name == "B"] == [(10, 19), (7, 19)]
    assert "if y.outer == 2:   # rest of y split by 8" in str(s)


def test_the_storage_of_a_part_that_never_runs_is_no_array_of_the_kernel() -> None:
    """A tail whose condition never holds goes away with the storage of its producer."""
    A = sl.placeholder((9, 3), "int16", name="A")
    k = sl.reduce_axis(3, name="k")
    B = sl.compute((9,), lambda i: sl.min(A[k, 2], axis=k), name="B")
    C = sl.compute((6,), lambda i: (B[i] - B[i + 1]) ^ B[i + 3], name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], nparts=5)
    s[C].reorder(inner, outer)
    s[C].parallel(inner)
    _, rest = s[C].split(outer, nparts=2, tail="cut")
    rest_outer, lanes = s[C].split(rest, nparts=3, tail="cut")
    strip, _ = s[C].split(rest_outer, factor=1)
    s[C].vectorize(lanes)
    s[B].parallel(B.op.axis[0])
    s[B].compute_at(s[C], strip)
    a, c = np.arange(27, dtype="int16").reshape(9, 3), np.empty(6, "int16")
    for compiler in ("llvm", "numba"):
        sl.build(s, [A, C], compiler=compiler)(a, c)
        np.testing.assert_array_equal(c, a[:3, 2].min())


@pytest.mark.parametrize("rows", [0, 1, 3, 7])
def test_a_tile_of_a_size_that_each_call_chooses(rows: int) -> None:
    """Both parts use the variable of their loop, which may run further than the stage's axis."""
    A = sl.placeholder((sl.var("m"), COLUMNS), name="A")
    B = sl.compute(A.shape, lambda y, x: A[y, x] * 2, name="B")
    C = sl.compute(A.shape, lambda y, x: B[y, x] + 1, name="C")
    s = sl.schedule(C)
    strip, _ = s[C].split(C.op.axis[0], factor=3)
    s[B].compute_at(s[C], strip)
    outer, _ = s[B].split(B.op.axis[0], factor=2, tail="cut")
    s[B].parallel(outer)
    a = np.random.default_rng(0).integers(-9, 9, (rows, COLUMNS)).astype("float32")
    nest = sl.lower(s)
    assert "rest of y split by 2" in str(nest)
    for target in ("python", "cpu"):
        np.testing.assert_array_equal(sl.build(s, target=target)(a), a * 2 + 1)
