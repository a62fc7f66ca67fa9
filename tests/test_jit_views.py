"""Arguments that are strided, and views of the parts of complex arrays, in traced functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    CallError,
    ComputeError,
    ComputeTypeError,
    CopyWarning,
    SchedlangError,
)
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
    with pytest.warns(
        CopyWarning,
        match=r"\(x=...\) of 2 MiB: .*strides \(8, 4096\).*\n"
        r".*x = np\.ascontiguousarray\(x\)",
    ) as found:
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


def flat_elements(x):
    x.flat[3] = 7
    x.flat[::4] += 1
    y = x.flat[2:5]
    y[...] = 100
    x.T.flat[1] = -3
    x.flat[[0, 2]] = [8, 9]
    z = np.zeros_like(x[:2])
    z.flat = x[0, 1]
    z[:, ::2].flat = 5
    return y, len(x.flat), x.flat[-1], z, sum(x.flat), x.flat.copy()


def shaped(x):
    y = x * 2
    z = y.T
    y.shape = (2, -1)
    y[1] = 0
    w = np.zeros(12)
    w.shape = 3, 2, 2
    w[1, :, 0] = 4
    return y, z, w, y.shape


def whole(x):
    y, z = x[()], x[...]
    y += 1
    z[0] = 9
    s = x.sum()
    s2 = s[()]
    return y, s2, x[0, 0][()]


def rows_under_masks(x, m):
    x[m] = 0
    x[~m] *= 2
    x[x[:, 0] > 1] = [1, 2, 3]
    x[m] = x[0]
    total = x[m].sum()
    x[m, ...] = 5
    x[:, 1][m] += 2
    x[1:, x[0] > 4] = 6
    x[..., [True, False, True]] = -1
    x[None, 2:, :, None][..., x[2] < 0, :] = x[0, 1]
    x.T[1:, m] = 3
    return x[m].mean(), total


def diagonals(x):
    y = x[:, :3]
    d = np.einsum("ii->i", y)
    d += 10
    np.einsum("ij->ji", y)[0] = 3
    np.einsum("iji->ij", np.stack([y, y, y]))[...] = 0
    return d, np.diagonal(x)


def split_and_stacked(x):
    for k, row in enumerate(np.unstack(x)):
        row += k
    a, b = np.hsplit(x, [1])
    b[0] = a[1, 0]
    top, *_ = np.vsplit(x, 2)
    top *= 2
    np.array_split(x, 3, axis=1)[1][...] = -1
    np.atleast_3d(x)[0, 0, 0] = 50
    np.rollaxis(x, 1)[1, 1] = 60
    np.matrix_transpose(x)[2, 1] = 70
    x.astype(x.dtype, copy=False)[2, 2] = 80
    return a, b, top


def new_dimensions(x):
    x[None, 1, ..., None] = x[:1].T
    x[:, None, 0] = 3
    x[None][0, 2] += 1


def reshaped_views(x):
    rows, pairs = x.reshape(-1), x[1:].reshape(3, -1)
    kept = x.T.reshape(-1)
    rows[3] = 30
    pairs[0, 0] = 40
    x[0] = 5
    half = x[::2].reshape(2, 1, 3)
    half[1] = 60
    z = x.T.ravel()
    z[0] = 1000
    kept[1] = -1
    return rows, pairs, kept, half, z


SQUARE = [numbers(4, 3)]
VIEWS = {
    "flat": (flat_elements, SQUARE), "shape": (shaped, [numbers(4, 3)]), "whole": (whole, SQUARE),
    "masks": (rows_under_masks, [numbers(4, 3), np.array([True, False, False, True])]),
    "diagonals": (diagonals, [numbers(3, 4)]), "parts": (split_and_stacked, SQUARE),
    "new dimensions": (new_dimensions, [numbers(3, 3)]), "reshaped": (reshaped_views, SQUARE),
}  # fmt: skip


@pytest.mark.parametrize("case", VIEWS)
def test_views_and_writes(case):
    function, args = VIEWS[case]
    check(function, *args)


def test_interleaved_views_are_apart():
    def f(even, odd):
        even += odd
        odd[...] = even * 2
        return even.sum()

    ours, theirs = (np.arange(8.0) for _ in range(2))
    traced = sl.jit(f, target="python")
    for _ in range(2):
        same(traced(ours[::2], ours[1::2]), f(theirs[::2], theirs[1::2]), 1e-12)
        np.testing.assert_array_equal(ours, theirs)
    matrix = np.arange(24.0).reshape(4, 6)
    wanted = matrix.copy()
    traced(matrix[:, :3], matrix[:, 3:])
    f(wanted[:, :3], wanted[:, 3:])
    np.testing.assert_array_equal(matrix, wanted)
    for a, b in [(ours[::2], ours[:4]), (ours[::2], ours[2:6])]:
        with pytest.raises(CallError, match="share memory"):
            traced(a, b)


REFUSED = {
    "the shape of an argument": (lambda x: setattr(x, "shape", -1), r"y = x\.reshape\(-1\)"),
    "a shape that copies": (lambda x: setattr(x.T, "shape", (-1,)), r"would have to copy"),
    "unknown strides": (lambda x: setattr(x.T * 2, "shape", (-1,)), r"depends on the strides"),
    "a copy": (lambda x: np.reshape(x.T, -1, copy=False), r"Leave copy= out"),
    "values for other elements": (lambda x: x.flat.__setitem__(slice(3), [1, 2]), "x.flat"),
    "a mask of other rows": (lambda x: x[x[0] > 1], r"shape \(3,\), but must .*\(4, 3\), or of"),
    "a mask beside others": (lambda x: x.__setitem__((0, x[:, 0] > 1), 2), r"dimensions .*\(3,\)"),
    "values beside a mask": (lambda x: x.__setitem__((x[:, 0] > 1, 0), x[:, 0]), "Assign a number"),
    "broadcast arrays": (lambda x: np.broadcast_arrays(x, np.zeros((2, 4, 3)))[0].fill(1),
                         r"share memory"),
    "an iterator": (lambda x: np.asarray(x.flat), r"np\.ravel\(x\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_views_that_a_trace_refuses(case):
    function, words = REFUSED[case]
    with pytest.raises(SchedlangError, match=f"(?s){words}"):
        sl.jit(function, target="python")(numbers(4, 3))


def test_a_shape_in_place_holds_for_arguments_that_lie_row_by_row():
    def f(x):
        y = x[None]
        y.shape = (-1, 1)
        return y * 1

    traced = sl.jit(f, target="python")
    same(traced(numbers(3, 4)), f(numbers(3, 4)), 1e-6)
    with pytest.raises(
        ComputeError, match=r"x\.shape = \(-1, 1\) in f at line .*would have to copy"
    ):
        traced(np.asfortranarray(numbers(3, 4)))
