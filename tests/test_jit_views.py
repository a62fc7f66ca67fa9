"""Arguments that are strided, and views of the parts of complex arrays, in traced functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, ComputeTypeError, CopyWarning
from tests.test_jit import check, numbers, same

STRIDED = {
    "Fortran order": lambda x: np.asfortranarray(x[:4, :3]),
    "transposed": lambda x: x[:3, :4].T,
    "negative strides": lambda x: x[::-2, ::-2],
    "columns": lambda x: x[:4, 1:4],
    "every second row": lambda x: x[::2, :3],
}


@pytest.mark.parametrize("first", STRIDED)
@pytest.mark.parametrize("second", ["negative strides", "broadcast"])
def test_strided_arguments(first, second):
    """Each result is NumPy's, and writes reach the caller's memory, and no other elements of it."""

    def f(x, y):
        x[1:] += y[:-1]
        x[0] = 5
        return x.sum(axis=0), y * 2

    bases = numbers(8, 6), numbers(8, 6)
    theirs, ours = (STRIDED[first](base) for base in bases)
    y = np.broadcast_to(np.float32(3), (4, 3))
    if second != "broadcast":
        y = STRIDED[second](numbers(8, 6, seed=1))
    same(sl.jit(f, target="python")(ours, y), f(theirs, y), 1e-5)
    same(ours, theirs, 1e-5)
    same(*bases, 1e-5)


def test_strided_arguments_that_are_returned_or_read_by_a_loop():
    def f(x, y):
        @sl.fori_loop(0, 3)
        def step(t):
            x[t] = x[t + 1] + y

        return x, x.T, y

    x, y = numbers(6, 4).T, numbers(6)[::-1]
    wanted, got = [sl.jit(f, target="python")(*a) if k else f(*a)
                   for k, a in enumerate([(x.copy(), y.copy()), (x, y)])]  # fmt: skip
    assert got[0] is x and got[2] is y
    same(got, wanted, 1e-5)


def test_a_read_only_strided_argument_is_not_written():
    x = np.broadcast_to(np.float32(1), (3,))
    with pytest.raises(CallError, match="x, but this array is read-only"):
        sl.jit(lambda x: x.fill(2), target="python")(x)


def test_a_large_copy_is_warned_of():
    f = sl.jit(lambda x: x[:2, :2] * 1, target="python")
    x = np.zeros((512, 512))
    with pytest.warns(CopyWarning, match=r"\(x=...\) of 2 MiB: .*strides \(8, 4096\).*\n"
                                         r".*x = np\.ascontiguousarray\(x\)") as found:
        f(x.T)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
        f(x[:256, :256].T)


def complexes(*shape):
    return (numbers(*shape) + 1j * numbers(*shape, seed=1)).astype("complex64")


def test_parts_are_views():
    def f(z, x):
        z.real[...] = x
        z.imag[1:] += 2
        np.real(z)[0] = 7
        kept = z.real
        z[1] = 5j
        np.imag(z)[:, ::2] = -1
        np.multiply(z.real, 2, out=z.real)
        z.T.real[0] -= 1
        z.imag[z.imag > 3] = 0
        return kept, z.T.imag[0]

    check(f, complexes(3, 4), numbers(3, 4))


def test_parts_may_be_assigned_to():
    def f(z):
        w = np.zeros_like(z)
        w.real, w.imag = z.imag, z.real
        w.real += 1
        w.imag *= w.real
        return w, z.conj(), z.sum().real, z[0].imag

    check(f, complexes(5))


def test_an_assignment_to_a_part_by_itself_is_one_stage():
    def f(z):
        z.real += 1

    def g(z):
        np.add(z.real, 1, out=z.real)

    counts = [len(check(h, complexes(5)).schedule.state.stages) for h in (f, g)]
    assert counts[0] == counts[1]


def test_parts_of_real_arrays():
    def f(x):
        x.real[0] = 3
        y = x.real
        y += 1
        x.real = x * 2
        return y, x.imag, x.conj()

    check(f, numbers(3))


def test_parts_of_a_single_element():
    def f(z):
        z.real = 2
        z.imag[...] += 1
        return abs(z)

    check(f, np.array(1 + 2j))


@pytest.mark.parametrize(
    ("function", "words"),
    [(lambda x: x.imag.fill(1), "imaginary part of an array of float32: it holds real numbers"),
     (lambda x: x.sum().real.fill(1), "never changes"),
     (lambda x: x.astype("complex64").real.fill(1j), r"drop the imaginary part")],
    ids=["the imaginary part of a real array", "a scalar", "a complex value"],
)  # fmt: skip
def test_refused_assignments_to_parts(function, words):
    with pytest.raises(ComputeTypeError, match=words):
        sl.jit(function, target="python")(numbers(3))
