"""Tests of the vector registers that register tiles need."""

import re
import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.diagnostics.spills import guarded_tiles, spills
from schedlang.errors import SpillWarning
from tests.test_sums import inside_loops


def product(rows: int, columns: int) -> sl.Schedule:
    """Return a product: all rows read the same vectors of B, and elements of A are broadcast."""
    A, B = sl.placeholder((rows, 64), name="A"), sl.placeholder((64, columns), name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((rows, columns), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tile(C)


def correlation(rows: int, columns: int) -> sl.Schedule:
    """Return a correlation: no two sums of a step share the vectors that they read."""
    X, W = sl.placeholder((rows + 4, columns + 4), name="X"), sl.placeholder((5, 5), name="W")
    y, x = sl.reduce_axis(5, name="y"), sl.reduce_axis(5, name="x")
    C = sl.compute(
        (rows, columns), lambda i, j: sl.sum(X[i + y, j + x] * W[y, x], axis=(y, x)), name="C"
    )
    return tile(C)


def tile(C: sl.Tensor) -> sl.Schedule:
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].reorder(*C.op.reduce_axis, i, j)
    s[C].unroll(i)
    s[C].vectorize(j)
    return s


def built(s: sl.Schedule, bits: int) -> tuple[sl.Kernel, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = sl.build(s, target=sl.Target("cpu", vector_bytes=bits // 8))
    return f, [str(w.message) for w in caught if w.category is SpillWarning]


@pytest.mark.parametrize(("make", "rows", "columns", "bits", "needed"), [
    (product, 14, 32, 512, None), (product, 15, 32, 512, 33),
    (product, 6, 64, 512, None), (product, 7, 64, 512, 33),
    (product, 31, 16, 512, None), (product, 32, 16, 512, 33),
    (product, 2, 160, 512, None), (product, 5, 128, 512, 49),
    (product, 4, 63, 512, 36), (product, 3, 63, 512, None),
    (product, 6, 16, 256, None), (product, 7, 16, 256, 17),
    (product, 14, 8, 256, None), (product, 15, 8, 256, 17),
    (correlation, 8, 32, 512, None), (correlation, 15, 32, 512, None),
    (correlation, 16, 32, 512, 33), (correlation, 7, 16, 256, None), (correlation, 8, 16, 256, 17),
])  # fmt: skip
def test_only_shared_operands_take_registers(make, rows, columns, bits, needed):
    _, texts = built(make(rows, columns), bits)
    wanted = f"its tile of {rows} x {columns} float32 (i and j) needs {needed} vector registers"
    assert [wanted in text for text in texts] == ([] if needed is None else [True])


def test_a_tile_with_unrolled_reductions_has_the_same_budget():
    s = correlation(16, 32)
    (C,) = s.outputs
    for axis in C.op.reduce_axis:
        s[C].unroll(axis)
    assert len(built(s, 512)[1]) == 1


@pytest.mark.parametrize(("rows", "columns", "advice"), [
    (15, 32, "14 along i would fit"), (5, 128, "2 along i would fit"),
    (1, 600, "496 along j would fit"),
])  # fmt: skip
def test_the_advised_tile_is_the_largest_that_fits(rows, columns, advice):
    _, (text,) = built(product(rows, columns), 512)
    assert text.endswith(f"Make the tile smaller: {advice}.")
    if rows > 1:
        fits = int(advice.split()[0])
        assert not built(product(fits, columns), 512)[1]
        assert built(product(fits + 1, columns), 512)[1]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("cpu", marks=pytest.mark.slow), "python",
        *(sl.Target("cpu", vector_bytes=n) for n in (32, 64)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("make", "rows", "columns"), [
    (product, 1, 77), (product, 1, 256), (product, 2, 160), (product, 3, 131), (product, 1, 601),
    (correlation, 2, 100), (correlation, 1, 257),
])  # fmt: skip
def test_rows_of_several_vectors_are_right(make, rows, columns, target):
    s = make(rows, columns)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpillWarning)
        f = sl.build(s, target=target)
    a, b = (rng.random([int(e) for e in t.shape]).astype("float32") for t in f.loop_nest.args[:2])
    windows = np.lib.stride_tricks.sliding_window_view
    if make is product and columns <= 256 and f.target.vector_bytes == 64:
        # sums are loaded before the loop and stay in names inside it
        assert "C_sum" in f.source and "store(C" not in inside_loops(f, "k")
    expected = a @ b if make is product else np.einsum("ijyx,yx->ij", windows(a, (5, 5)), b)
    np.testing.assert_allclose(f(a, b), expected, rtol=1e-5)


@pytest.mark.parametrize("tail", ["guard", "cut"])
def test_a_tail_that_keeps_sums_in_memory_is_named(tail):
    (C,) = product(20, 100).outputs
    s = sl.schedule(C)
    i, j = C.op.axis
    strip, row = s[C].split(i, factor=8, tail=tail)
    panel, lane = s[C].split(j, factor=32, tail=tail)
    s[C].reorder(strip, panel, *C.op.reduce_axis, row, lane)
    s[C].unroll(row)
    s[C].vectorize(lane)
    f, texts = built(s, 512)
    assert [("test j.outer*32 + j.inner < 100 (tail of j split by 32)" in t) for t in texts] == (
        [True] if tail == "guard" else []
    )
    a, b = np.random.default_rng(0).random((2, 6400)).astype("float32")
    a, b = a[: 20 * 64].reshape(20, 64), b.reshape(64, 100)
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


@pytest.mark.skipif(sl.Target().vector_bytes != 64, reason="these tiles are for 512-bit vectors")
@pytest.mark.parametrize(("make", "rows", "columns"), [
    (correlation, 8, 32), (correlation, 16, 32), (product, 14, 32), (product, 5, 128),
    (product, 3, 63),
    *(pytest.param(*tile, marks=pytest.mark.slow) for tile in (
        (correlation, 14, 32), (product, 15, 32), (product, 3, 96), (product, 1, 400),
        (product, 6, 63), (product, 2, 77),
    )),
])  # fmt: skip
def test_machine_code_spills_exactly_where_a_warning_says_so(make, rows, columns):
    s = make(rows, columns)
    f, texts = built(s, 512)
    names = {"__name__": "alone"}
    exec(f.source.replace("cache=True", "cache=False"), names)
    arrays = [np.ones([int(e) for e in t.shape], t.dtype) for t in f.loop_nest.args]
    kernel = names["C_kernel"]
    kernel(*(a.reshape(-1) for a in arrays))
    (text,) = kernel.inspect_asm().values()
    spilled = re.findall(r"vmovup?[sd].*\(%r[sb]p\).*%zmm|%zmm\d+, -?\d*\(%r[sb]p\)", text)
    assert bool(spilled) == bool(texts)


def test_the_vector_width_gives_the_number_of_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    for neon in (sl.Target("cpu"), sl.Target("cpu", vector_bytes=16)):
        assert (neon.vector_width("float32"), neon.vector_registers) == (4, 32)
    assert sl.Target("cpu", vector_bytes=32).vector_registers == 16
    assert sl.Target("cpu", vector_bytes=64).vector_registers == 32


def test_a_condition_that_no_split_made_gives_no_warning():
    A, B = sl.placeholder((8, 64), name="A"), sl.placeholder((64, 32), name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((8, 32), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k, where=k <= j), name="C")
    f, texts = built(tile(C), 512)
    assert texts == [] and "k <= j" in str(f.loop_nest)


def test_rows_of_symbolic_length_are_advised_to_cache_the_tile() -> None:
    """A cut would be refused, since its rest cannot be unrolled; the rest of j warns no more."""
    M, N = sl.var("M"), sl.var("N")
    A, B = sl.placeholder((M, 64), name="A"), sl.placeholder((64, N), name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    io, ii = s[C].split(C.op.axis[0], factor=4, tail="guard")
    jo, ji = s[C].split(C.op.axis[1], factor=8, tail="cut")
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    (warning,) = guarded_tiles(sl.lower(s), sl.Target("cpu", vector_bytes=32))
    assert "i.outer*4 + i.inner < M" in warning
    assert warning.endswith('Compute the tile with s.cache_write(C, "local").')


def test_a_large_tile_inside_of_an_unrolled_reduction_is_reported() -> None:
    A, B = sl.placeholder((200, 8), name="A"), sl.placeholder((8, 16), name="B")
    k = sl.reduce_axis(8, name="k")
    C = sl.compute((200, 16), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].reorder(k, i, j)
    for axis in (k, i):
        s[C].unroll(axis)
    s[C].vectorize(j)
    (text,) = spills(sl.lower(s), sl.Target("cpu"))
    assert "its tile of 200 x 16 float32" in text
