"""Tests of tails behind a main loop that may be empty or have masked lanes."""

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).random(shape, dtype="float32")


def symbolic_product() -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n, 5), name="A"), sl.placeholder((5, m), name="B")
    k = sl.reduce_axis(5, name="k")
    return A, B, sl.compute((n, m), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


SIZES = [(0, 0), (1, 1), (2, 16), (3, 15), (4, 17), (5, 31), (0, 33), (8, 0)]


@pytest.mark.parametrize("tail", ["cut", "guard"])
@pytest.mark.parametrize("target", ["python", "cpu"])
def test_an_element_that_all_lanes_of_a_tail_share_is_read_once(tail: str, target: str):
    A, B, C = symbolic_product()
    s = sl.schedule(C)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=16, tail=tail)
    s[C].reorder(i, jo, *C.op.reduce_axis, ji)
    s[C].vectorize(ji)
    f = sl.build(s, [A, B, C], target=target)
    if tail == "cut":
        assert "if m//16*16 < m:  # rest of j split by 16" in f.source
        assert "vgather" not in f.source and "vload_masked(B" in f.source
    for n, m in SIZES:
        a, b = values(n, 5), values(5, m)
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_tails_inside_a_tail(target: str):
    A, B, C = symbolic_product()
    s = sl.schedule(C)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=6, tail="cut")
    im, ii = s[C].split(ii, factor=4, tail="cut")
    jo, ji = s[C].split(j, factor=16, tail="cut")
    s[C].reorder(io, im, jo, *C.op.reduce_axis, ii, ji)
    s[C].vectorize(ji)
    f = sl.build(s, [A, B, C], target=target)
    for n, m in [*SIZES, (6, 16), (7, 20), (11, 32)]:
        a, b = values(n, 5), values(5, m)
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("kind", ["unroll", "vectorize"])
def test_a_tail_of_symbolic_length_is_refused_with_advice(kind: str):
    A, B, C = symbolic_product()
    i, j = C.op.axis

    def tiled(tail: str, way: str) -> sl.Kernel:
        s = sl.schedule(C)
        T = s.cache_write(C, "local") if way == "private" else C
        io, ii = s[C].split(i, factor=8, tail=tail)
        im, ii = s[C].split(ii, factor=4, tail=tail)
        s[C].reorder(io, im, j, ii)
        if way == "private":
            s[T].compute_at(s[C], j)
            ii = s[T].op.axis[0]
            s[T].reorder(*s[T].op.reduce_axis, ii)
        getattr(s[T], kind)(ii)
        return sl.build(s, [A, B, C], target="python")

    # masked lanes are accepted
    if kind == "unroll":
        with pytest.raises(
            LoweringError, match=r"the loop has .*known only at run time"
        ) as caught:
            tiled("cut", "")
        assert "the tail of split(i, ..., tail='cut'). Use tail='guard'" in str(caught.value)
        assert "T = s.cache_write(C, 'local')" in str(caught.value)
    for f in (tiled("guard", ""), tiled("cut", "private")):
        for n, m in SIZES:
            a, b = values(n, 5), values(5, m)
            np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5)


def test_an_empty_tail_is_skipped():
    """A condition skips an empty tail, whose loops would run without any lane."""
    A, B, C = symbolic_product()
    s = sl.schedule(C)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=4, tail="cut")
    s[C].reorder(io, j, ii)
    nest = str(s)
    assert "if n//4*4 < n:   # rest of i split by 4\n  for j in 0..m:" in nest
    s = sl.schedule(C)
    s[C].split(i, factor=4, tail="cut")
    # a loop without iterations needs no condition
    assert "if " not in str(s) and "for i.inner in 0..n%4:" in str(s)


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_an_element_under_a_condition_on_lanes_is_read_under_it(target: str):
    X = sl.placeholder((9,), name="X")
    C = sl.compute(
        (9, 16), lambda i, j: sl.if_then_else(j + 4 < i, X[sl.max(i - 5, 0)] / X[i], 0), name="C"
    )
    D = sl.compute((9, 16), lambda i, j: sl.if_then_else(j > i + 8, X[i + 2], 0.0), name="D")
    for T in (C, D):
        s = sl.schedule(T)
        s[T].vectorize(T.op.axis[1])
        f = sl.build(s, target=target)
        assert "vgather_masked(X" in f.source
        x = values(9) + 1
        np.testing.assert_allclose(f(x), sl.reference(T)(x), rtol=1e-5)
