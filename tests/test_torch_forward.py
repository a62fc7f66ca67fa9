"""Operators of ``sl.torch.op`` in forward mode, where PyTorch would take the derivative as 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import CallTypeError
from tests.marks import slow_but

torch = pytest.importorskip("torch", reason="makes operators of PyTorch: the extra torch")


@cache
def squares(gradient: Any) -> Any:
    """Return an operator that squares its second argument; each stays until the process ends."""
    n = sl.var("n")
    A, X = (sl.placeholder((n,), name=name) for name in "AX")
    B = sl.compute((n,), lambda i: A[i] + X[i] * X[i], name="B")
    name = f"schedlang_tests::forward_{'derived' if gradient is True else 'none'}"
    kernel = sl.build(sl.schedule(B), [A, X, B], target="python")
    return sl.torch.op(kernel, name, gradient=gradient)


def of_duals(f: Callable[[Any], Any], x: Any) -> Any:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


WAYS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x).sum(1),
    "forward_ad": of_duals,
    "forward_ad of a tensor that requires grad": lambda f, x: of_duals(f, x.requires_grad_()),
    "jvp of vmap": lambda f, x: torch.func.jvp(torch.vmap(f), (x[None],), (torch.ones(1, 3),))[1],
    "vmap of jvp": lambda f, x: torch.vmap(lambda t: torch.func.jvp(f, (x,), (t,))[1])(
        torch.ones(2, 3)
    ),
}


@pytest.mark.parametrize(
    "way", slow_but([w for w in WAYS if w == "jvp" or "forward_ad" in w], WAYS)
)
@pytest.mark.parametrize("gradient", [True, None])
def test_a_derivative_is_refused(way: str, gradient: Any) -> None:
    op, x = squares(gradient), torch.tensor([1.0, -2.0, 3.0])
    message = r"forward_\w+\(X=\.\.\.\) in forward mode, .*\n  Use loss\.backward\(\)"
    if gradient is None and "requires" in way:
        message = r"\(X=\.\.\.\), a tensor that requires grad: .* registered with gradient=None"
    with pytest.raises(CallTypeError, match=message):
        WAYS[way](lambda x: op(torch.zeros(3), x), x)


@pytest.mark.parametrize("way", ["grad", "vjp", "jacrev"])
def test_a_derivative_by_functions_of_pytorch_is_refused(way: str) -> None:
    op, x = squares(True), torch.tensor([1.0, -2.0, 3.0])
    ways = {
        "grad": lambda f: torch.func.grad(lambda v: f(v).sum())(x),
        "vjp": lambda f: torch.func.vjp(f, x)[1](torch.ones(3)),
        "jacrev": lambda f: torch.func.jacrev(f)(x),
    }
    message = r"forward_derived under torch\.func\.grad, .*\n  Use loss\.backward\(\)"
    with pytest.raises(CallTypeError, match=message):
        ways[way](lambda v: op(torch.zeros(3), v))


@pytest.mark.parametrize("way", slow_but(["forward_ad"], ["jvp", "forward_ad"]))
def test_a_function_that_calls_it_on_constants_is_derived(way: str) -> None:
    op, x, a = squares(True), torch.tensor([1.0, -2.0, 3.0]), torch.tensor([2.0, 3.0, 0.5])
    torch.testing.assert_close(WAYS[way](lambda x: op(a, a) * x, x), a + a * a)


def test_a_tangent_of_the_gradient_by_a_result_is_refused() -> None:
    """The backward pass is an operator, too: forward over reverse mode."""
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = squares(True)(torch.zeros(3), x)
    with pytest.raises(CallTypeError, match=r"forward_derived_backward\(heads=\.\.\.\) in forward"):
        of_duals(lambda head: torch.autograd.grad(y, x, head)[0], torch.ones(3))


def test_results_of_integers_have_no_derivative() -> None:
    A, k = sl.placeholder((4, 3), name="A"), sl.reduce_axis(3, name="k")
    I = sl.compute((4,), lambda i: sl.argmax(A[i, k], axis=k), name="I")  # noqa: E741
    op = sl.torch.op(
        sl.build(sl.schedule(I), target="python"), "schedlang_tests::forward_argmax", gradient=None
    )
    x = torch.tensor([[0.0, 2, 1], [3, 0, 0], [0, 0, 5], [1, 2, 3]])
    index, tangent = torch.func.jvp(op, (x,), (torch.ones_like(x),))
    assert torch.equal(index, x.argmax(1)) and not tangent.any()
    assert of_duals(op, x) is None


@pytest.mark.slow
def test_torch_compile_refuses_it() -> None:
    op = squares(True)

    @torch.compile(backend="eager", fullgraph=True)
    def derivative(x: Any) -> Any:
        return torch.func.jvp(lambda x: op(x, x), (x,), (torch.ones_like(x),))[1]

    with pytest.raises(Exception, match=r"forward_derived\(A=\.\.\.\) in forward mode"):
        derivative(torch.ones(3))
