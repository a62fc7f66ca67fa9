"""Tests of GPU kernels with sums across threads and virtual threads in unusual orders."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BuildError


def sums(rows: int, steps: int) -> tuple[sl.Tensor, sl.Tensor]:
    A, k = sl.placeholder((rows, steps), name="A"), sl.reduce_axis(steps, name="k")
    return A, sl.compute((rows,), lambda i: sl.sum(A[i, k], axis=k), name="B")


@pytest.mark.parametrize("steps", [32, 40, 64])
def test_reduction_threads_reordered_outside_the_data_axis(steps: int) -> None:
    A, B = sums(8, steps)
    s = sl.schedule(B)
    (i,), (k,) = B.op.axis, B.op.reduce_axis
    ko, ki = s[B].split(k, factor=32)
    s[B].reorder(ko, ki, i)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(ki, "threadIdx.x")
    a = np.random.default_rng(0).integers(-9, 9, (8, steps)).astype("float32")
    f = sl.build(s, [A, B], target="cuda-emulator")
    np.testing.assert_array_equal(f(a), a.sum(1))
    np.testing.assert_array_equal(f.check(a), a.sum(1))


def test_a_whole_reduction_bound_outside_its_block() -> None:
    A, B = sums(8, 32)
    s = sl.schedule(B)
    (i,), (k,) = B.op.axis, B.op.reduce_axis
    s[B].reorder(k, i)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(k, "threadIdx.x")
    a = np.random.default_rng(0).integers(-9, 9, (8, 32)).astype("float32")
    np.testing.assert_array_equal(sl.build(s, [A, B], target="cuda-emulator")(a), a.sum(1))


def columns(tail: str) -> sl.Schedule:
    """Return rows of 6 sums, split by 4 inside a reduction across threads."""
    A, k = sl.placeholder((8, 6, 64), name="A"), sl.reduce_axis(64, name="k")
    B = sl.compute((8, 6), lambda i, j: sl.sum(A[i, j, k], axis=k), name="B")
    C = sl.compute((8, 6), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    _, tx = s[C].split(j, factor=32)
    s[C].bind(i, "blockIdx.x")
    s[C].bind(tx, "threadIdx.x")
    s[B].compute_at(s[C], i)
    s[B].set_scope("shared")
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=32)
    jo, ji = s[B].split(B.op.axis[1], factor=4, tail=tail)
    s[B].reorder(ko, jo, ki, ji)
    s[B].unroll(ji)
    s[B].bind(ki, "threadIdx.x")
    return s


@pytest.mark.parametrize("tail", ["auto", "guard"])
def test_columns_inside_a_reduction_across_threads_are_all_stored(tail: str) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (8, 6, 64)).astype("float32")
    f = sl.build(columns(tail), target="cuda-emulator")
    np.testing.assert_array_equal(f(a), a.sum(2) + 1)


def test_cut_columns_inside_a_reduction_across_threads_are_refused() -> None:
    with pytest.raises(BuildError, match='has a cut tail\n.*tail="guard"'):
        sl.build(columns("cut"), target="cuda-emulator")


def test_partial_sums_of_symbolic_size_are_refused() -> None:
    n = sl.var("n")
    A, k = sl.placeholder((8, 64, n), name="A"), sl.reduce_axis(64, name="k")
    B = sl.compute((8, n), lambda i, j: sl.sum(A[i, k, j], axis=k), name="B")
    s = sl.schedule(B)
    i, j = B.op.axis
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=32)
    s[B].reorder(i, ko, ki, j)
    s[B].bind(i, "blockIdx.x")
    s[B].bind(ki, "threadIdx.x")
    with pytest.raises(BuildError, match="B.part is local storage whose size is known only at run "
                                         "time"):
        sl.build(s, target="cuda-emulator")


def test_symbolic_numbers_of_virtual_threads_are_refused() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    C = sl.compute((n,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    L = s.cache_write(C, "local")
    vo, t = s[C].split(C.op.axis[0], factor=32)
    s[C].bind(vo, "vthread")
    s[C].bind(t, "threadIdx.x")
    s[L].compute_at(s[C], t)
    with pytest.raises(BuildError, match=r'bind\(i.outer, "vthread"\) on stage C: it has '):
        sl.build(s, target="cuda-emulator")


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_remainder_is_not_taken_from_a_rounded_quotient(dtype: str) -> None:
    """The remainder is exact; by a rounded quotient, 1e9 % 3 would be -29."""
    A, B = (sl.placeholder((64,), dtype, name=name) for name in "AB")
    C = sl.compute((64,), lambda i: A[i] % B[i], name="C")
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    assert "div.rn" not in sl.build(s, target="cuda").ptx
