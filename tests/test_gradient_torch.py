"""Gradients, compared with those of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
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
