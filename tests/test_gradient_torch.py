"""Gradients, compared with those of PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from tests.gradient_cases import CASES
from tests.marks import slow_but
from tests.test_gradient import values, with_head

torch = pytest.importorskip("torch")


# one of each family
QUICK = ("gelu", "padded_by_reflection", "product_with_zeros", "variance_by_welford", "gram_matrix",
         "strided_convolution", "grouped_convolution", "max_pooling", "causal_attention",
         "cross_entropy", "lstm")  # fmt: skip


@pytest.mark.parametrize("name", slow_but(QUICK, CASES))
def test_gradients_are_those_of_autograd(name: str) -> None:
    case = CASES[name]()
    made, _ = with_head(case)
    arrays = case.arrays(2)
    head = np.random.default_rng(3).normal(size=case.y.shape)
    xs = [torch.tensor(arrays[x.name], requires_grad=True) for x in case.xs]
    others = [torch.tensor(arrays[x.name]) for x in case.others]
    y = case.torch(*xs, *others)
    np.testing.assert_allclose(values([case.y], arrays)[0], y.detach().numpy(), rtol=1e-6)
    y.backward(torch.tensor(head))
    found = values(made, {**arrays, "head": head})
    for x, got in zip(xs, found):
        np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-6, atol=1e-9)
    assert sl.schedule(made).outputs == tuple(made)


INFINITY = float("inf")
ORDERS = (1, 2, INFINITY, -INFINITY, 3, 4, 0.5, 1.5, -1)
# of arrays of two dimensions; both sides along the last one, if along one
OF_ARRAYS: dict[str, tuple[Any, Any]] = {
    **{f"norm {p}": (partial(np.linalg.norm, ord=p, axis=1),
                     partial(torch.linalg.vector_norm, ord=p, dim=1)) for p in ORDERS},
    **{f"norm {p} of columns": (partial(np.linalg.norm, ord=p, axis=0, keepdims=True),
                                partial(torch.linalg.vector_norm, ord=p, dim=0, keepdim=True))
       for p in (1, 2, 3)},
    **{f"matrix norm {p}": (partial(np.linalg.norm, ord=p),
                            partial(torch.linalg.matrix_norm, ord=p))
       for p in ("fro", 1, -1, INFINITY, -INFINITY)},
    "norm of all": (np.linalg.norm, torch.linalg.vector_norm),
    "vector_norm": (np.linalg.vector_norm, torch.linalg.vector_norm),
    "std": (partial(np.std, axis=1), partial(torch.std, dim=1, correction=0)),
    "std with ddof": (partial(np.std, axis=0, ddof=1), partial(torch.std, dim=0)),
    "std of all": (np.std, partial(torch.std, correction=0)),
    "var": (partial(np.var, axis=1), partial(torch.var, dim=1, correction=0)),
    "max": (partial(np.max, axis=1), partial(torch.amax, dim=1)),
    "ptp": (partial(np.ptp, axis=1), lambda x: x.amax(1) - x.amin(1)),
    "prod": (partial(np.prod, axis=1), partial(torch.prod, dim=1)),
    "cumprod": (partial(np.cumprod, axis=1), partial(torch.cumprod, dim=1)),
    "arctan2": (lambda x: np.arctan2(x, x), lambda x: torch.atan2(x, x)),
    "logaddexp": (lambda x: np.logaddexp(x, x), lambda x: torch.logaddexp(x, x)),
    "copysign": (lambda x: np.copysign(x, 2.0), lambda x: x.copysign(torch.tensor(2.0))),
    "power": (lambda x: x**x, lambda x: x**x),
    "sinc": (np.sinc, torch.sinc),
    "softmax": (partial(topi.nn.softmax, axis=1), partial(torch.softmax, dim=1)),
    "log_softmax": (partial(topi.nn.log_softmax, axis=1), partial(torch.log_softmax, dim=1)),
    "softplus": (topi.nn.softplus, torch.nn.functional.softplus),
    "log_sigmoid": (topi.nn.log_sigmoid, torch.nn.functional.logsigmoid),
    "mish": (topi.nn.mish, torch.nn.functional.mish),
    "elu": (topi.nn.elu, torch.nn.functional.elu),
    "leaky_relu": (partial(topi.nn.leaky_relu, alpha=0.1),
                   partial(torch.nn.functional.leaky_relu, negative_slope=0.1)),
    "normalized": (lambda x: topi.nn.l2_normalize(x, 1e-12, [1]),
                   partial(torch.nn.functional.normalize, dim=1, eps=1e-6)),
}  # fmt: skip
# zeros, rows of zeros, equal elements
POINTS = ([[0.0, 0, 0], [0, 0, 0]], [[0.0, 0, 0], [1, 2, 0]], [[1.0, 1, 3], [2, 2, 2]],
          [[3.0, 3, 3], [3, 3, 3]])  # fmt: skip


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_functions_of_zeros_and_of_equal_elements(name: str) -> None:
    ours, theirs = OF_ARRAYS[name]
    X = sl.placeholder((2, 3), "float64", name="X")
    y = ours(X)
    head = sl.placeholder(y.shape, "float64", name="head")
    by = sl.gradient(y, X, head)
    for point in map(np.array, POINTS):
        x = torch.tensor(point, requires_grad=True)
        result = theirs(x)
        weights = np.arange(1.0, result.numel() + 1).reshape(result.shape)
        result.backward(torch.tensor(weights))
        with np.errstate(all="ignore"):
            (found,) = values([by], {"X": point, "head": weights})
        np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-9, atol=1e-12, err_msg=str(point))
