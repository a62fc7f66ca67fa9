"""Tiles of sums and the vector registers that they need."""

import re
import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import SpillWarning


def product(rows: int, columns: int) -> sl.Schedule:
    """All rows read the same vectors of B; each element of A is spread over the columns."""
    A, B = sl.placeholder((rows, 64), name="A"), sl.placeholder((64, columns), name="B")
    k = sl.reduce_axis(64, name="k")
    C = sl.compute((rows, columns), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tile(C)


def correlation(rows: int, columns: int) -> sl.Schedule:
    """Each row reads vectors of its own, which no other sum of a step needs."""
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
    (product, 6, 16, 256, None), (product, 7, 16, 256, 17),
    (product, 14, 8, 256, None), (product, 15, 8, 256, 17),
    (correlation, 8, 32, 512, None), (correlation, 15, 32, 512, None),
    (correlation, 16, 32, 512, 33), (correlation, 7, 16, 256, None), (correlation, 8, 16, 256, 17),
])  # fmt: skip
def test_only_operands_that_several_sums_read_take_registers(make, rows, columns, bits, needed):
    _, texts = built(make(rows, columns), bits)
    wanted = f"its tile of {rows} x {columns} float32 (i and j) needs {needed} vector registers"
    assert [wanted in text for text in texts] == ([] if needed is None else [True])


def test_a_tile_whose_reductions_are_all_unrolled_has_the_same_budget():
    s = correlation(16, 32)
    (C,) = s.outputs
    for axis in C.op.reduce_axis:
        s[C].unroll(axis)
    assert len(built(s, 512)[1]) == 1


@pytest.mark.skipif(sl.Target().vector_bytes != 64, reason="these tiles are for 512-bit vectors")
@pytest.mark.parametrize(("make", "rows"), [
    (correlation, 8), (correlation, 14), (correlation, 16), (product, 14), (product, 15),
])  # fmt: skip
def test_the_machine_code_of_what_warns_uses_the_stack(make, rows):
    s = make(rows, 32)
    f, texts = built(s, 512)
    names = {"__name__": "alone"}
    exec(f.source.replace("cache=True", "cache=False"), names)
    arrays = [np.ones([int(e) for e in t.shape], t.dtype) for t in f.loop_nest.args]
    kernel = names["C_kernel"]
    kernel(*(a.reshape(-1) for a in arrays))
    (text,) = kernel.inspect_asm().values()
    spilled = re.findall(r"vmovup?[sd].*\(%r[sb]p\).*%zmm|%zmm\d+, -?\d*\(%r[sb]p\)", text)
    assert bool(spilled) == bool(texts)


def test_registers_of_the_host_s_own_width_are_the_host_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    for neon in (sl.Target("cpu"), sl.Target("cpu", vector_bytes=16)):
        assert (neon.vector_width("float32"), neon.vector_registers) == (4, 32)
    assert sl.Target("cpu", vector_bytes=32).vector_registers == 16
    assert sl.Target("cpu", vector_bytes=64).vector_registers == 32
