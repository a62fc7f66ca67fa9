"""Tests of stores that bypass the cache, and of the warning about too large register tiles."""

import shutil
import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError, SpillWarning
from tests.marks import slow_but

HAS_C = any(map(shutil.which, ("cc", "gcc", "clang")))


def doubled(n: int, dtype: str = "float32") -> tuple[sl.Tensor, sl.Tensor]:
    A = sl.placeholder((n,), dtype, name="A")
    return A, sl.compute((n,), lambda i: A[i] * 2, name="C")


@pytest.mark.parametrize("n", slow_but(["200", "1003"], [64, 200, 1003]))
@pytest.mark.parametrize(
    "dtype", slow_but(["float32", "int16"], ["float32", "float64", "int16", "float16"])
)
@pytest.mark.parametrize("shift", [0, 1])
def test_values_do_not_depend_on_alignment(n: int, dtype: str, shift: int):
    A, C = doubled(n, dtype)
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=32)
    s[C].vectorize(inner)
    s[C].pragma(outer, "nontemporal")
    s[C].parallel(outer)
    a = np.arange(n + shift).astype(dtype)[shift:]
    for target in ("python", "cpu", *(["c"] if HAS_C else [])):
        f = sl.build(s, [A, C], target=target)
        assert "vstore_stream" in f.source and "stream_fence()" in f.source
        out = np.zeros(n + shift, dtype)[shift:]
        np.testing.assert_array_equal(f(a, out), a * np.array(2, dtype))


def test_a_loop_without_vectors_is_refused():
    A, C = doubled(64)
    s = sl.schedule(C)
    s[C].pragma(C.op.axis[0], "nontemporal")
    with pytest.raises(BuildError, match="that loop stores no whole vectors of consecutive "
                                         "elements"):
        sl.build(s, [A, C])


def test_a_loop_that_runs_once_passes_its_pragma_on():
    A = sl.placeholder((1, 32), name="A")
    C = sl.compute((1, 32), lambda i, j: A[i, j] + 1, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].pragma(i, "nontemporal")
    s[C].vectorize(j)
    assert "vstore_stream" in sl.build(s, [A, C]).source


def test_only_stores_of_that_stage_bypass_the_cache():
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] + 1, name="B")
    C = sl.compute((64,), lambda i: B[i] * 2, name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[B].compute_at(s[C], outer)
    s[B].vectorize(B.op.axis[0])
    s[C].vectorize(inner)
    s[C].pragma(outer, "nontemporal")
    source = sl.build(s, [A, C]).source
    assert "vstore_stream(C," in source and "vstore_stream(B," not in source


def test_an_unrolled_reduction_adds_to_the_same_sums():
    A = sl.placeholder((64, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((64,), lambda i: sl.sum(A[k, i], axis=k), name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(k, factor=32)
    s[C].reorder(outer, inner, C.op.axis[0])
    s[C].unroll(inner)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=16)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SpillWarning)
        sl.build(s, [A, C], target=sl.Target("cpu", vector_bytes=32))


@pytest.mark.parametrize(
    ("rows", "columns", "bits", "needed"),
    [(6, 16, 256, None), (7, 16, 256, 17), (12, 32, 512, None), (15, 32, 512, 33), (4, 8, 128, 11)],
)
def test_a_tile_beyond_the_registers_warns(rows: int, columns: int, bits: int, needed: int | None):
    n = rows * columns
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, n), name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    _, jo, _, _ = s[C].tile(*C.op.axis, rows, columns)
    s[CL].compute_at(s[C], jo)
    y, x = s[CL].op.axis
    s[CL].reorder(*s[CL].op.reduce_axis, y, x)
    s[CL].unroll(y)
    s[CL].vectorize(x)
    target = sl.Target("cpu", vector_bytes=bits // 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl.build(s, [A, B, C], target=target)
    texts = [str(w.message) for w in caught if w.category is SpillWarning]
    if needed is None or needed <= target.vector_registers:
        assert not texts
    else:
        assert f"{rows} x {columns} float32 (i and j) needs {needed} vector registers" in texts[0]
