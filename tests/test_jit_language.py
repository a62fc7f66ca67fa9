"""Functions of the language on arrays of a function under ``sl.jit``, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import structure
from tests.test_jit import same

X = np.array([[-1.5, 0.0, 2.5], [300, -4, 0.25]], "float32")

CASES = {
    "exp": (lambda x: sl.exp(x), lambda x: np.exp(x)),
    "sigmoid": (lambda x: sl.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
    "a scalar": (lambda x: sl.exp(x[0, 0]), lambda x: np.exp(x[0, 0])),
    "popcount": (lambda x: sl.popcount(x.astype("int64")),
                 lambda x: np.array([[1, 0, 1], [4, 1, 0]], "uint8")),
    "saturating_cast": (lambda x: sl.saturating_cast(sl.round(x), "uint8"),
                        lambda x: np.array([[0, 0, 2], [255, 0, 0]], "uint8")),
    "pow": (lambda x: sl.pow(x, 2), lambda x: x**2),
    "atan2": (lambda x: sl.atan2(y=x, x=2.0), lambda x: np.arctan2(x, np.float32(2))),
    "cast": (lambda x: sl.cast(x, "int32"), lambda x: x.astype("int32")),
    "select": (lambda x: sl.select(x > 0, x, 0), lambda x: np.maximum(x, 0)),
    "if_then_else": (lambda x: sl.if_then_else(x > 0, x, 0), lambda x: np.maximum(x, 0)),
    "all": (lambda x: sl.all(x > 0, x < 3), lambda x: (x > 0) & (x < 3)),
    "max": (lambda x: sl.max(x, 0, 1), lambda x: np.maximum(x, 1)),
    "einsum": (lambda x: sl.einsum("ij->j", x), lambda x: x.sum(axis=0)),
    "pad": (lambda x: sl.pad(x, 1, mode="edge"), lambda x: np.pad(x, 1, mode="edge")),
    "with an array": (lambda x: sl.max(x, np.arange(3, dtype="float32")),
                      lambda x: np.maximum(x, np.arange(3, dtype="float32"))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_the_language_in_a_traced_function(case):
    ours, theirs = CASES[case]
    same(sl.jit(ours, target="python")(X), theirs(X), 1e-6)


def test_equal_calls_share_a_stage_and_named_names_it():
    def f(x):
        return sl.named("e", sl.exp(x)) + sl.exp(x)

    y = sl.trace(f, sl.placeholder((4,), name="x"))
    assert list(sl.schedule(y).state.stages) == ["e", "add"]


def test_results_of_bfloat16_are_those_of_the_library():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.5, -2.0, 3.0]).bfloat16()

    def f(x, y):
        y += 1
        return x * 2, {"sum": x.sum(axis=0)}, x[:0]

    y = x.clone()
    double, total, empty = sl.jit(f, target="python")(x, y)
    assert torch.equal(double, torch.tensor([3.0, -4, 6]).bfloat16())
    assert float(total["sum"]) == 2.5 and empty.dtype == torch.bfloat16 and empty.shape == (0,)
    assert torch.equal(y, torch.tensor([2.5, -1, 4]).bfloat16())


def test_functions_of_pytorch():
    torch = pytest.importorskip("torch")
    A = sl.placeholder((2, 3), name="A")
    for call, text in (
        (lambda: torch.relu(A), r"torch\.relu of tensor A: .*\n.*np\.maximum\(A, 0\)"),
        (lambda: torch.cat([A, A], dim=0), r"torch\.cat of .*\n.*np\.concatenate, with axis="),
        (lambda: torch.sqrt(A), r"torch\.sqrt of .*\n.*np\.sqrt\."),
        (lambda: torch.nn.functional.softmax(A, dim=1), r"torch\.softmax of .*\n.*e / e\.sum\("),
        (lambda: torch.special.bessel_j0(A), r'\n.*the page "NumPy code" of python -m'),
        (lambda: torch.relu(A[0, 0]), r"of the expression A\[0, 0\]"),
        (lambda: torch.matmul(torch.ones(3, 2), A), r"and a tensor of PyTorch: .*\n.*placeholder"),
        (lambda: torch.ones(2, 3) * A, r"with a PyTorch tensor of shape \(2, 3\): .*\n.*'float32'"),
        (lambda: sl.jit(lambda x: torch.relu(x), target="python")(X),
         r"torch\.relu of an array of <lambda>: .*\n.*np\.maximum\(x, 0\)"),
    ):  # fmt: skip
        with pytest.raises(sl.errors.ComputeTypeError, match=text):
            call()


def test_a_schedule_that_was_tuned_for_the_trace_is_that_of_the_function():
    def f(x):
        h = sl.sigmoid(x) @ x.T
        return h.sum(axis=1), h.max()

    kernel = sl.jit(f, target="python").specialized(X)
    assert structure(kernel.schedule.outputs).key == structure(sl.trace(f, X)).key
