"""Array expressions with symbolic sizes, evaluated at many sizes, 0 and 1 among them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeError, ComputeTypeError, SchedlangError

RNG = np.random.default_rng(4)


def at_sizes(
    function: Callable[..., Any], *shapes: tuple[Any, ...], sizes: tuple[int, ...] = (0, 1, 2, 3,
    7),
    target: str | None = None, least: int = 0,
) -> sl.Tensor:  # fmt: skip
    """Assert that ``function`` agrees with NumPy for all ``sizes`` of the sizes in ``shapes``.

    A size is a letter. Return the tensor.
    """
    letters = sorted({e for s in shapes for e in s if isinstance(e, str)})
    known = {c: sl.var(c) for c in letters}
    given = [
        sl.placeholder([known.get(e, e) for e in s], name=f"T{k}") for k, s in enumerate(shapes)
    ]
    made = function(*given)
    made = made if isinstance(made, sl.Tensor) else sl.named("result", made)
    oracle = sl.reference(made)
    run = oracle if target is None else sl.build(sl.schedule(made), target=target)
    for values in itertools.product([s for s in sizes if s >= least], repeat=len(letters)):
        chosen = dict(zip(letters, values))
        arrays = [RNG.normal(size=[chosen.get(e, e) for e in s]).astype("float32") for s in shapes]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = function(*arrays)
        got = run(*(arrays[given.index(t)] for t in oracle.inputs))
        assert np.shape(got) == np.shape(want), (chosen, np.shape(got), np.shape(want))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return made


ENDS = (None, 0, 2, 9, -1, -3)


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_slices(step: int) -> None:
    for count, (start, stop) in enumerate(itertools.product(ENDS, ENDS)):
        if count % 3 == step % 3 or step == 1:
            at_sizes(lambda x, k=slice(start, stop, step): x[k], ("n",), sizes=(0, 1, 3, 10))


def test_slices_of_known_lengths() -> None:
    for start, stop, step in itertools.product(ENDS, ENDS[:4], (2, -1)):
        at_sizes(lambda x, k=slice(start, stop, step): x[k], (4,))


def test_a_slice_keeps_its_extent_simple() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 8), name="A")
    assert str(A[1:-1].shape[0]) == "max(n - 2, 0)" and A[:, 1:-1].shape[1] == 6
    assert str(A[1:].shape[0]) == "max(n - 1, 0)" and A[:].shape == A.shape
    assert str(A[::2].shape[0]) == "(n + 1)//2" and A[::-1].shape[0] is n
    assert str(A[:3].shape[0]) == "min(3, n)"
    B = sl.placeholder((n - 2, 8), name="B")
    assert str((A[1:-1] + B).shape[0]) == "n - 2"


def test_bounds_that_are_sizes() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n,), name="A"), sl.placeholder((m,), name="B")
    C = A[: n - 1] + A[1:n]
    f = sl.reference(C)
    np.testing.assert_array_equal(f(np.arange(4, dtype="float32")), [1, 3, 5])
    D = sl.named("D", A[:m] * B[:n])
    given = dict(A=np.arange(5, dtype="float32"), B=np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(sl.reference(D)(**given), [0, 1, 4])


EXPRESSIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {
    "broadcast": (lambda x, y: x * y[:, None] - 1, (("n", 3), ("n",))),
    "stencil": (lambda x: (x[1:-1] + x[:-2] + x[2:]) / 3, (("n",),)),
    "stencil of two": (lambda x: x[1:-1, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:], (("n", "m"),)),
    "sum": (lambda x: x.sum(axis=0), (("n", "m"),)),
    "mean of squares": (lambda x: (x * x).mean(axis=-1), (("m", "n"),)),
    "keepdims": (lambda x: x - x.sum(axis=1, keepdims=True), (("n", "m"),)),
    "matmul": (lambda x, y: x @ y, (("n", "k"), ("k", "m"))),
    "gram": (lambda x: x.T @ x, (("n", "m"),)),
    "ravel": (lambda x: x.ravel(), (("n", "m"),)),
    "split": (lambda x: x.reshape(-1, 4), (("n", 8),)),
    "merge": (lambda x: x.reshape(x.shape[0], -1), (("n", 2, "m"),)),
    "merge and split": (lambda x: x.reshape(-1, 6), (("n", 3, 4),)),
    "concatenate": (lambda x, y: np.concatenate([x, y, x[:1]]), (("n", 2), ("m", 2))),
    "stack": (lambda x: np.stack([x, 2 * x], axis=1), (("n",),)),
    "pad": (lambda x: np.pad(x, ((1, 2), (0, 1))), (("n", "m"),)),
    "tile": (lambda x: np.tile(x, 2), (("n",),)),
    "repeat": (lambda x: np.repeat(x, 2, axis=0), (("n", 2),)),
    "flip": (lambda x: np.flip(x), (("n", "m"),)),
    "roll": (lambda x: np.roll(x, 2), (("n",),)),
    "diff": (lambda x: np.diff(x, 2), (("n",),)),
    "tril": (lambda x: np.tril(x, 1), (("n", "m"),)),
    "diag": (lambda x: np.diag(x, -1), (("n",),)),
    "diagonal": (lambda x: np.diagonal(x, 1), (("n", "m"),)),
    "outer": (lambda x, y: np.outer(x, y), (("n",), ("m",))),
    "kron": (lambda x, y: np.kron(x, y), (("n", 2), (3, "m"))),
    "convolve": (lambda x, y: np.convolve(x, y), (("n",), (3,))),
    "last": (lambda x: x[-1:] + x[-3:], ((1, "n"),)),
    "norm": (lambda x: np.linalg.norm(x, axis=0), (("n", "m"),)),
    "rank": (lambda x: (x[:, None] > x[None, :]).sum(axis=1), (("n",),)),
    "where": (lambda x: np.where(x > 0, x, 0).sum(), (("n",),)),
    "einsum": (lambda x, y: np.einsum("ij,kj->ik", x, y), (("n", "k"), ("m", "k"))),
}  # fmt: skip
# NumPy refuses these where there is no element
NOT_EMPTY = {
    "max": (lambda x: x.max(axis=0), (("n", 3),)),
    "argmax": (lambda x: x.argmax(axis=1), ((3, "n"),)),
    "softmax": (lambda x: np.exp(x - x.max(1, keepdims=True)), (("m", "n"),)),
    "var": (lambda x: x.var(axis=0), (("n", 2),)),
    "cumsum": (lambda x: x.cumsum(axis=0), (("n", 2),)),
    "cumsum of columns": (lambda x: x.cumsum(axis=1), (("m", "n"),)),
    "last row": (lambda x: x[-1] - x[0], (("n", 3),)),
    "convolve": (lambda x, y: np.convolve(x, y), (("n",), ("m",))),
    "last element": (lambda x: x[-1] * x[0], (("n",),)),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str) -> None:
    function, shapes = EXPRESSIONS[name]
    at_sizes(function, *shapes, least=1 if name in ("convolve", "merge") else 0)


@pytest.mark.parametrize("name", NOT_EMPTY)
def test_expressions_of_one_element_or_more(name: str) -> None:
    function, shapes = NOT_EMPTY[name]
    at_sizes(function, *shapes, least=1)


@pytest.mark.parametrize("name", ["stencil", "merge and split", "concatenate", "pad", "matmul"])
def test_kernels(name: str) -> None:
    function, shapes = EXPRESSIONS[name]
    at_sizes(function, *shapes, target="python", sizes=(0, 1, 3))


def test_shapes_that_may_differ_are_refused() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B, C = (sl.placeholder(s, name=k) for k, s in (("A", (n,)), ("B", (m,)), ("C", (8,))))
    with pytest.raises(ComputeError, match=r"A \+ B of shapes \(n,\) and \(m,\): .*n and m are not "
                                           r"known to be equal\n.*sl\.var\(\"n\"\)"):
        A + B
    with pytest.raises(ComputeError, match=r"n and 8 are not known to be equal"):
        A * C
    with pytest.raises(ComputeError, match=r"not known to be equal"):
        A @ B
    with pytest.raises(ComputeError, match=r"not provably a multiple of 2"):
        A.reshape(-1, 2)
    with pytest.raises(ComputeError, match=r"n and 6 elements, which are not known to be equal"):
        A.reshape(2, 3)
    with pytest.raises(ComputeError, match="no known number of equal parts"):
        np.split(A, 2)
    with pytest.raises(ComputeTypeError, match=r"A\[:C\[0\]\].*\n|bound C\[0\]: the shape of the"):
        A[: C[0]]
    with pytest.raises(ComputeTypeError, match="would depend on data"):
        A[: sl.cast(C[0], "int64")]


@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
def test_a_running_sum_of_no_elements_is_refused(function):
    X = sl.placeholder((sl.var("n"),), name="X")
    made, empty = function(X), np.zeros(0, "float32")
    for call in (sl.build(sl.schedule(made), target="python"), sl.reference(made)):
        np.testing.assert_array_equal(call(np.array([2, 3], "float32")), function([2.0, 3.0]))
        with pytest.raises(SchedlangError, match="n is at least 1|extent 0"):
            call(empty)
