"""Arrays of indices, ``A[idx, jdx]``, by NumPy's rules: compared with NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, CallError, ComputeError, ComputeTypeError
from tests.arrays import agree

X = np.arange(24, dtype="int32").reshape(4, 2, 3)
I = np.array([0, -1, 2, 0, -4])  # noqa: E741
J = np.array([[1], [-2]], "int8")
K = np.array([2, -3, 0, 1, 2], "int32")

CASES = {
    "one": (lambda x, i: x[i], I),
    "two dimensions of one": (lambda x, i: x[i], J),
    "after a slice": (lambda x, i: x[:, :, i], K),
    "after an ellipsis": (lambda x, i: x[..., i], K),
    "before an ellipsis": (lambda x, i: x[i, ...], I),
    "two": (lambda x, i, k: x[i, :, k], I, K),
    "two, adjacent": (lambda x, j, k: x[:, j, k], J, K),
    "two that broadcast": (lambda x, i, j: x[i, j], I, J),
    "three": (lambda x, i, j, k: x[i, j, k], I, J, K),
    "with an integer beside it": (lambda x, k: x[:, 1, k], K),
    "with an integer apart": (lambda x, k: x[-1, :, k], K),
    "with a slice of steps": (lambda x, i: x[i, ::-1, 1:], I),
    "with a new dimension between": (lambda x, i, j: x[i, None, j], I, J),
    "with a new dimension beside": (lambda x, i: x[None, :, None, :, i % 3], I),
    "a list": (lambda x: x[[3, 0, -1]],),
    "nested lists": (lambda x: x[:, [[0], [1]], [0, 2]],),
    "evenly spaced": (lambda x: x[[3, 2, 1]],),
    "no indices": (lambda x: x[[]],),
    "an empty array": (lambda x, i: x[i[:0]], I),
    "a known mask": (lambda x: x[np.array([True, False, True, True])],),
    "a known mask of two dimensions": (lambda x: x[..., np.eye(2, 3, dtype=bool)],),
    "a mask beside an array": (lambda x, j: x[j, :, [True, False, True]], J),
    "a 0-d array": (lambda x: x[np.array(-1)],),
    "of a view": (lambda x, i: x.T[1, :, i], I),
    "computed": (lambda x, i: x[i * 2 % 4] + x[i], I),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_numpys(case: str) -> None:
    function, *arrays = CASES[case]
    agree(function, X, *arrays)


@pytest.mark.parametrize("case", ["two", "with a slice of steps", "a known mask"])
def test_kernels(case: str) -> None:
    function, *arrays = CASES[case]
    agree(function, X, *arrays, target="python")


def test_a_compiled_kernel_counts_from_the_end() -> None:
    agree(lambda x, i, k: x[i, :, k], X, I, K, target="cpu")


def test_a_tensor_without_dimensions_is_an_index_from_either_end() -> None:
    t = sl.placeholder((), "int64", name="t")
    x = sl.placeholder((4, 2, 3), "int32", name="x")
    pairs = (x[t], X[-3]), (x[:, 0, t], X[:, 0, -3]), (x[t, 0, 0] + 1, X[-3, 0, 0] + 1)
    for made, wanted in pairs:
        tensor = made if isinstance(made, sl.Tensor) else sl.named("element", made)
        got = sl.reference(tensor)(**{"x": X, "t": np.int64(-3)})
        np.testing.assert_array_equal(got, wanted)


def test_sizes() -> None:
    n, k = sl.var("n"), sl.var("k")
    x, i = sl.placeholder((n, 3), name="x"), sl.placeholder((k,), "int64", name="i")
    made = x[i, 1:]
    assert str(made.shape) == "(k, 2)"
    kernel = sl.build(sl.schedule(made), target="python")
    values = np.arange(12, dtype="float32").reshape(4, 3)
    for at in ([3, -1, -4], [], [0]):
        index = np.array(at, "int64")
        np.testing.assert_array_equal(kernel(values, index), values[index, 1:])
    np.testing.assert_array_equal(sl.reference(x[[2, 0]])(values), values[[2, 0]])
    ends = x[[-1, 0], 0]
    np.testing.assert_array_equal(sl.reference(ends)(values), values[[-1, 0], 0])
    assert "take[i] = x[select(i == 0, n - 1, 0), 0]" in str(sl.lower(sl.schedule(ends)))


def test_an_index_that_is_declared_to_be_positive_is_read_as_it_is() -> None:
    x = sl.placeholder((4,), name="x")
    i = sl.assume(sl.placeholder((5,), "int32", name="i"), within=(0, 3))
    assert "select" not in str(x[i].op.body[0]) and "<" not in str(x[i].op.body[0])
    with pytest.raises(CallError, match="within"):
        sl.build(sl.schedule(x[i]), target="python")(
            np.ones(4, "float32"), np.array([0, 1, 2, 3, -1], "int32")
        )


@pytest.mark.parametrize("bad", [4, -5])
def test_the_python_target_finds_an_index_out_of_range(bad: int) -> None:
    x, i = sl.placeholder((4,), name="x"), sl.placeholder((2,), "int64", name="i")
    kernel = sl.build(sl.schedule(x[i]), target="python")
    with pytest.raises(IndexError):
        kernel(np.ones(4, "float32"), np.array([0, bad]))


def test_the_gradient_adds_what_several_places_read() -> None:
    x, i = sl.placeholder((4,), "float64", name="x"), sl.placeholder((5,), "int64", name="i")
    weights = np.array([1.0, 2, 4, 8, 16])
    w = sl.placeholder((5,), "float64", name="w")
    (adjoint,) = sl.gradient((x[i] * w).sum(), [x])
    got = sl.reference(adjoint)(**{"i": np.array([0, -1, 0, 3, 1]), "w": weights})
    np.testing.assert_array_equal(got, [5, 16, 0, 10])


A = sl.placeholder((4, 6), name="A")
U, F = sl.placeholder((6,), "int32", name="U"), sl.placeholder((6,), name="F")
M = sl.placeholder((4,), "bool", name="M")
a = sl.reduce_axis(4, name="a")
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "shapes": (lambda: A[U, U[:5]], ComputeError,
               r"the indices of A\[U, slice\] of shapes \(6,\) and \(5,\): they do not broadcast"),
    "too many": (lambda: A[U, U, 0], BoundsError, r"A has 2 dimensions, got 3"),
    "floats": (lambda: A[F], ComputeTypeError, r"A\[F\]: F holds float32, .*F\.astype\('int64'\)"),
    "known floats": (lambda: A[[0.5]], ComputeTypeError, "holds float64, but must hold integers"),
    "expressions": (lambda: A[[U[0], 1]], ComputeTypeError, r"holds expressions .*sl\.placeholder"),
    "out of range": (lambda: A[:, [0, 6]], BoundsError,
                     "index 6 is out of bounds for dimension 1 of A, which has 6 elements"),
    "from nothing": (lambda: A[4:][U], BoundsError, "dimension 0 of slice has no elements"),
    "a mask": (lambda: A[M, U], ComputeTypeError, r"A\[M, U\]: .*depend on data\n.*where=M"),
    "a known mask of another shape": (lambda: A[[True] * 3], BoundsError,
                                      r"mask has shape \(3,\), but these dimensions .*\(4,\)"),
    "an axis": (lambda: A[U, a], ComputeTypeError, r"a is an axis.*\n.*A\[idx\[k\], a\]"),
    "an ellipsis twice": (lambda: A[..., U, ...], ComputeTypeError, r"give \.\.\. once"),
    "many known": (lambda: A[[0, 2, 1] * 30], ComputeTypeError,
                   r"90 known indices of dimension 0 of A: more than 64 .*\n.*sl\.placeholder"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    function, kind, words = REFUSED[case]
    with pytest.raises(kind, match=f"(?s){words}"), warnings.catch_warnings():
        warnings.simplefilter("error")
        function()
