"""Arrays of indices in traced functions: elements, assignments, and ``np.add.at``."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError
from tests.marks import slow_but
from tests.test_jit import check, numbers

I = np.array([0, -1, 2, 0, 1])  # noqa: E741
J = np.array([0, 1, 2, 1, 0], "int8")
V = np.array([10, 20, 30, 40, 50], "float32")


def test_elements_are_copies():
    def f(x, i, j):
        rows = x[i]
        rows += 1
        x[0] = 7
        return rows, x[i, j], x[:, j], x[np.array([2, 0, 3])], x[..., [0, 2, 1]]

    check(f, numbers(4, 3), I, J)


def test_of_several_values_the_last_one_remains():
    def f(x, y, i, v):
        x[i] = v[:, None]
        y[1, i] = v
        return x[0, 0]

    x, y = np.zeros((4, 3), "float32"), np.zeros((2, 4))
    check(f, x, y, I, V)
    sl.jit(f, target="python")(x, y, I, V)
    np.testing.assert_array_equal(x[:, 0], [40, 50, 30, 20])
    np.testing.assert_array_equal(y[1], [40, 50, 30, 20])


def test_lists_are_assigned_and_added():
    def f(x, i):
        x[0] = [1, 2, 3]
        x[i[:2], 1:] = [[4.5], [5.5]]
        np.add.at(x, ([1, 1], [2, 2]), [6, 7])

    check(f, numbers(4, 3), I)


def test_an_augmented_assignment_counts_once_for_each_element():
    def f(x, i):
        x[i] += 1

    x = np.zeros(4, "float32")
    check(f, x, I)
    sl.jit(f, target="python")(x, I)
    np.testing.assert_array_equal(x, [1, 1, 1, 1])


def test_the_method_at_counts_every_update():
    def f(x, i):
        np.add.at(x, i, 1)

    x = np.zeros(4, "float32")
    check(f, x, I)
    sl.jit(f, target="python")(x, I)
    np.testing.assert_array_equal(x, [2, 1, 1, 1])


@pytest.mark.parametrize("name", ["subtract", "multiply", "maximum", "minimum"])
def test_the_method_at_of_other_functions(name):
    ufunc = getattr(np, name)

    def f(x, i, j, v):
        ufunc.at(x, (i, j), v)
        ufunc.at(x, (slice(None), j), 2)
        ufunc.at(x, slice(1, 3), v[:3])
        ufunc.at(x, x > 20, 3)

    check(f, numbers(4, 3), I, J, V)


def test_a_zero_that_is_subtracted_keeps_the_sign_of_another():
    def f(x):
        np.subtract.at(x, I, np.float32(0))
        np.add.at(x, (MASK,), np.float32(-0.0))
        return x

    x = np.array([-0.0, 0.0, -0.0, 1.0], "float32")
    found = sl.jit(f, target="python")(x.copy())
    np.testing.assert_array_equal(np.signbit(found), np.signbit(f(x.copy())))
    assert np.signbit(found).tolist() == [True, False, True, False]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "complex64"])
def test_dtypes(dtype):
    def f(x, i):
        if dtype == "bool":
            np.logical_or.at(x, i[:3], True)
            np.multiply.at(x, i[:2], False)
        else:
            np.subtract.at(x, i, 3)
            np.add.at(x, i, 200 if dtype == "uint8" else 1)
        x[i[:1]] = 1
        return x[i]

    check(f, np.zeros((4, 2), dtype), I)


PLACES = {
    "two": lambda i, j: (i, j),
    "beside an integer": lambda i, j: (i, 1),
    "after an ellipsis": lambda i, j: (..., j),
    "parted by an empty ellipsis": lambda i, j: (i, ..., j, 1),
    "beside an empty ellipsis": lambda i, j: (None, ..., 1, i, j),
    "apart": lambda i, j: (None, i, slice(None), 0),
    "around a slice": lambda i, j: (i % 2, slice(None, None, 2), j[:, None]),
    "nowhere": lambda i, j: i[:0],
}


@pytest.mark.parametrize("case", PLACES)
def test_places(case):
    def f(x, i, j):
        at = PLACES[case](i, j)
        x[at] += x[at] * 2
        kept = x[at]
        x[at] = 1
        return kept

    check(f, numbers(4, 3, 3), I, J)


def test_rows_at_the_largest_element():
    def f(x):
        row = x[x[:, 0].argmax()]
        row += 1
        x[x[:, 1].argmin()] *= 2
        return row

    check(f, numbers(4, 3))


def test_a_0_d_array_copies_a_row_and_a_scalar_does_not():
    def f(x, k, n):
        copied, row = x[k], x[n]
        copied += 1
        row += 2
        x[k] *= 3
        return copied

    check(f, numbers(4, 3), np.array(1), np.int64(2))


@pytest.mark.parametrize("dtype", slow_but(["float32"], ["float32", "int64"]))
@pytest.mark.parametrize("mask", [V[:3] > 10, np.arange(12).reshape(3, 4) % 5 > 1], ids=np.ndim)
def test_masks_of_the_first_dimensions(dtype, mask):
    def f(x, m):
        y = x[m]
        doubled, count = y * 2, x[..., 0]
        total = y.sum(), y.mean(), y.sum(axis=0), y.mean(0), np.max(y, axis=-1), y + V[:2]
        x[m] = x[m][::-1]
        x[m] += count[m][..., None]
        return y, doubled, total, x[m].T, x

    check(f, (numbers(3, 4, 2) * 3).astype(dtype), mask)


def test_a_0_d_array_under_a_mask():
    def f(x, y):
        x[x > 0] = 5
        y[y > 0] = 5
        y[...] += 1
        z = np.zeros_like(x)
        z[x > 1] = 7
        return z

    check(f, np.array(2.0), np.array(-2.0))


def test_in_a_loop():
    def f(x, i):
        @sl.fori_loop(-3, 2)
        def step(t):
            x[t, i] += t
            np.add.at(x, (i, t), 1)

        return x

    check(f, np.zeros((5, 5)), I)


def test_compiled():
    def f(x, i, v):
        np.add.at(x, i, v)
        y = x[i]
        x[i[:2]] = 0
        return y

    i = np.random.default_rng(0).integers(-50, 50, 1000)
    x, v = numbers(50), numbers(1000, seed=1)
    theirs, ours = x.copy(), x.copy()
    np.testing.assert_allclose(sl.jit(f)(ours, i, v), f(theirs, i, v), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_the_python_target_finds_an_index_out_of_range():
    def f(x, i):
        x[i] = 1

    with pytest.raises(IndexError):
        sl.jit(f, target="python")(np.zeros(4), np.array([1, 4]))
    with pytest.raises(IndexError):
        sl.jit(f, target="python")(np.zeros(4), np.array([1, -5]))


def _assign(x, item, value):
    x[item] = value


MASK = np.array([True, False, True, True])
REFUSED = {
    "a mask beside others": (lambda x: x[MASK, 0], ComputeTypeError, "depend on data"),
    "an assignment to it": (lambda x: _assign(x, (MASK, 0), x[:, 0]), ComputeTypeError,
                            "a mask stands beside other indices"),
    "no combiner": (lambda x: np.hypot.at(x, I, 1), ComputeTypeError,
                    r"np\.hypot\.at.*It has one for add, subtract.*sl\.scatter"),
    "one operand": (lambda x: np.negative.at(x, I), ComputeTypeError, r"x\[idx\] = f\(x\[idx\]\)"),
    "a float into integers": (lambda x: np.add.at(x.astype("int8"), I, x[0, 0]), ComputeTypeError,
                              r"float32 into an array of int8; convert it with \.astype\('int8'\)"),
    "an array under a mask": (lambda x: np.add.at(x, x > 0, x), ComputeTypeError, "np.where"),
    "into a NumPy array": (lambda x: np.add.at(np.zeros(3), I, x[0]), ComputeTypeError,
                           "zeros_like"),
    "into a scalar": (lambda x: np.add.at(x.sum(), (), 1), ComputeTypeError, "never changes"),
    "a 0-d array": (lambda x: _assign(np.zeros((), like=x), 0, 1), BoundsError, "no dimension"),
    "shapes": (lambda x: _assign(x, I, np.ones((4, 3))), ComputeError,
               r"shape \(4, 3\) does not broadcast to \(5, 3\)"),
    "out of range": (lambda x: x[[4]], BoundsError, "index 4 is out of bounds for dimension 0"),
    "floats": (lambda x: x[x[:, 0]], ComputeTypeError, "indices must be integers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    function, kind, words = REFUSED[case]
    with pytest.raises(kind, match=f"(?s){words}"):
        sl.jit(function, target="python")(numbers(4, 3))
