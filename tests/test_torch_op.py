"""Kernels and traced functions as operators of PyTorch, beside the same computation in PyTorch."""

from __future__ import annotations

import builtins
import re
import warnings
from itertools import count
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import (
    BuildError,
    CallError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    CopyWarning,
    MissingExtraError,
)
from schedlang.runtime.kernel import Kernel

torch = pytest.importorskip("torch", reason="makes operators of PyTorch: the extra torch")

_NUMBERS = count()


def unused() -> str:
    """Return the name of an operator that there is not yet: each stays until the process ends."""
    return f"schedlang_tests::op{next(_NUMBERS)}"


def scaled_exp(dtype: str = "float64", target: Any = "python") -> Kernel:
    """Return a kernel of two results, with two sizes and a scalar."""
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), dtype, name="A")
    alpha = sl.var("alpha", dtype=dtype)
    W = sl.placeholder((m,), dtype, name="W")
    B = sl.compute((n, m), lambda i, j: sl.exp(A[i, j] * alpha) * W[j], name="B")
    k = sl.reduce_axis(m, name="k")
    C = sl.compute((n,), lambda i: sl.sum(B[i, k] * A[i, k], axis=k), name="C")
    return sl.build(sl.schedule([B, C]), [A, alpha, W, B, C], target=target)


def in_torch(a: Any, alpha: float, w: Any) -> tuple[Any, Any]:
    b = (a * alpha).exp() * w
    return b, (b * a).sum(1)


def rows(*shape: int, grad: bool = False, dtype: Any = torch.float64) -> Any:
    values = np.random.default_rng(7).uniform(-1, 1, shape)
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def squares(**options: Any) -> Any:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * A[i], name="B")
    return sl.torch.op(sl.build(sl.schedule(B), target="python"), unused(), **options)


def test_results_of_a_kernel_with_sizes_and_a_scalar() -> None:
    op = sl.torch.op(scaled_exp(), unused())
    assert str(op._schema).endswith("(Tensor A, float alpha, Tensor W) -> (Tensor, Tensor)")
    for n in (1, 3, 5):
        a, w = rows(n, 4), rows(4)
        for ours, theirs in zip(op(a, 0.5, w), in_torch(a, 0.5, w)):
            torch.testing.assert_close(ours, theirs)
    assert op is getattr(torch.ops.schedlang_tests, op._opname).default


@pytest.mark.slow
def test_gradients_by_finite_differences() -> None:
    op = sl.torch.op(scaled_exp(), unused())
    a, w = rows(3, 4, grad=True), rows(4, grad=True)
    assert torch.autograd.gradcheck(lambda a, w: op(a, 0.5, w), (a, w))
    # by one of the two, and of one of the results
    assert torch.autograd.gradcheck(lambda w: op(a.detach(), 0.5, w)[1], (w,))


def test_a_gradient_by_finite_differences() -> None:
    A = sl.placeholder((3,), "float64", name="A")
    B = sl.compute((3,), lambda i: A[i] * A[2 - i], name="B")
    op = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused())
    assert torch.autograd.gradcheck(op, (rows(3, grad=True),))


def test_a_module_is_trained() -> None:
    op = squares()

    class Layer(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

        def forward(self, x: Any) -> Any:
            return op(self.weight * x)

    layer, x = Layer(), torch.tensor([2.0, 1.0, 0.5])
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, 2 * layer.weight.detach() * x * x)


def test_a_gradient_of_the_users() -> None:
    heads = []

    def straight(a: Any, head: Any) -> Any:
        heads.append(head)
        return head * 10

    op, x = squares(gradient=straight), torch.ones(3, requires_grad=True)
    op(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 10.0))
    assert len(heads) == 1


def test_a_second_derivative_by_operators_that_have_one() -> None:
    n = sl.var("n")
    A, H = (sl.placeholder((n,), "float64", name=name) for name in "AH")
    B = sl.compute((n,), lambda i: A[i] * A[i] * A[i], name="B")
    by_a = sl.compute((n,), lambda i: 3 * A[i] * A[i] * H[i], name="by_a")
    inner = sl.torch.op(sl.build(sl.schedule(by_a), [A, H, by_a], target="python"), unused())
    cube = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused(), gradient=inner)
    x = rows(4, grad=True)
    assert torch.autograd.gradcheck(cube, (x,)) and torch.autograd.gradgradcheck(cube, (x,))


def test_results_without_a_gradient() -> None:
    """The index of the largest element is an integer; the element itself has a gradient."""
    A, k = sl.placeholder((4, 3), name="A"), sl.reduce_axis(3, name="k")
    I = sl.compute((4,), lambda i: sl.argmax(A[i, k], axis=k), name="I")  # noqa: E741
    M = sl.compute((4,), lambda i: A[i, 0] * 2, name="M")
    op = sl.torch.op(sl.build(sl.schedule([I, M]), [A, I, M], target="python"), unused())
    x = rows(4, 3, grad=True, dtype=torch.float32)
    index, twice = op(x)
    assert torch.equal(index, x.argmax(1)) and not index.requires_grad
    twice.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[2.0, 0, 0]]).expand(4, 3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool", "uint8"])
def test_dtypes(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    A = sl.placeholder((5,), dtype, name="A")
    B = sl.compute((5,), lambda i: A[4 - i], name="B")
    op = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused())
    x = torch.tensor([1, 0, 1, 1, 0]).to(getattr(torch, dtype))
    assert torch.equal(op(x), x.flip(0)) and op(x).dtype == x.dtype


def test_strided_tensors_are_copied_and_large_ones_warn() -> None:
    op = sl.torch.op(scaled_exp(), unused(), gradient=None)
    a, w = rows(4, 6).t(), rows(8)[::2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = op(a, 0.5, w)
    for one, other in zip(ours, in_torch(a, 0.5, w)):
        torch.testing.assert_close(one, other)
    A = sl.placeholder((600, 600), name="A")
    ends = sl.compute((2,), lambda i: A[i, 599], name="ends")
    first = sl.torch.op(sl.build(sl.schedule(ends), target="python"), unused())
    x = torch.arange(360000.0).reshape(600, 600).t()
    with pytest.warns(CopyWarning, match=r"ends\(A=\.\.\.\) of 1 MiB: it is strided.*\n.*\bA\.con"):
        assert first(x).tolist() == [359400.0, 359401.0]


def test_shapes_of_tensors_without_memory() -> None:
    op = sl.torch.op(scaled_exp("float32"), unused())
    b, c = op(torch.empty(6, 4, device="meta"), 0.5, torch.empty(4, device="meta"))
    assert b.device.type == "meta" and b.shape == (6, 4) and c.shape == (6,)
    # a size that only a derived extent determines
    n = sl.var("n")
    A = sl.placeholder((2 * n + 1,), name="A")
    B = sl.compute((n,), lambda i: A[2 * i + 1], name="B")
    odd = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused())
    assert odd(torch.empty(9, device="meta")).shape == (4,)
    assert odd(torch.arange(9.0)).tolist() == [1, 3, 5, 7]


def test_a_size_that_is_an_argument() -> None:
    n = sl.var("n")
    A = sl.placeholder((4,), name="A")
    B = sl.compute((n, 4), lambda i, j: A[j] * i, name="B")
    op = sl.torch.op(sl.build(sl.schedule(B), [A, n, B], target="python"), unused())
    x = rows(4, dtype=torch.float32)
    torch.testing.assert_close(op(x, 3), torch.arange(3.0)[:, None] * x)
    assert op(x.to("meta"), 5).shape == (5, 4)
    # without a tensor among the arguments
    C = sl.compute((n,), lambda i: i * 2.0, name="C")
    even = sl.torch.op(sl.build(sl.schedule(C), [n, C], target="python"), unused())
    assert torch.equal(even(3), torch.tensor([0.0, 2, 4]))


def blurred() -> Any:
    def blur(x: Any, a: Any) -> Any:
        return (x[:-2] + x[1:-1] * a + x[2:]) / 3, x.max(axis=0)

    return sl.torch.op(
        sl.jit(blur, target="python"), unused(), example_inputs=(rows(5, 3), 0.5)
    )


def blurred_in_torch(x: Any, a: float) -> Any:
    return (x[:-2] + x[1:-1] * a + x[2:]) / 3, x.amax(0)


@pytest.mark.slow
def test_a_function_under_jit() -> None:
    op = blurred()
    assert str(op._schema).endswith("(Tensor x, float a) -> (Tensor, Tensor)")
    for shape in ((5, 3), (7, 2)):
        x = rows(*shape)
        for ours, theirs in zip(op(x, 0.25), blurred_in_torch(x, 0.25)):
            torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradcheck(lambda x: op(x, 0.5), (rows(4, 2, grad=True),))


def test_a_traced_result_that_is_an_argument_is_a_copy() -> None:
    op = sl.torch.op(sl.jit(lambda x: (x, x + 1), target="python"), unused(),
                     example_inputs=torch.ones(3))  # fmt: skip
    x = torch.ones(3)
    same, more = op(x)
    same += 5
    assert x.tolist() == [1, 1, 1] and same.tolist() == [6, 6, 6] and more.tolist() == [2, 2, 2]


def test_vmap() -> None:
    x = rows(2, 3, dtype=torch.float32)
    op = squares()
    torch.testing.assert_close(torch.vmap(op)(x), x * x)
    assert torch.vmap(op)(x[:0]).shape == (0, 3)
    with pytest.raises(CallError, match="over a batch of 0: it is called for each element"):
        torch.vmap(squares(gradient=lambda a, head: head))(x[:0])


@pytest.mark.slow
@pytest.mark.parametrize("in_dims", [(0, None), (1, None), (None, 0), (0, 0), (2, 1)], ids=str)
def test_vmap_runs_one_kernel_with_one_more_axis(in_dims: tuple[Any, Any]) -> None:
    op = sl.torch.op(scaled_exp(), unused())
    a = rows(3, 4) if in_dims[0] is None else rows(5, 3, 4).movedim(0, in_dims[0])
    w = rows(4) if in_dims[1] is None else rows(5, 4).movedim(0, in_dims[1])

    def called(a: Any, w: Any) -> Any:
        return op(a, 0.5, w)

    with torch.profiler.profile() as profile:
        ours = torch.vmap(called, in_dims=in_dims)(a, w)
    calls = [e.name for e in profile.events() if e.name.startswith("schedlang_tests::")]
    assert f"schedlang_tests::{op._opname}_batched" in calls
    # the rule itself makes the one call
    assert calls.count(f"schedlang_tests::{op._opname}") == 1
    theirs = torch.vmap(lambda a, w: in_torch(a, 0.5, w), in_dims=in_dims)(a, w)
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_gradients_through_vmap() -> None:
    op = sl.torch.op(scaled_exp(), unused())
    a, w = rows(2, 3, 4, grad=True), rows(4, grad=True)
    mapped = torch.vmap(lambda a, w: op(a, 0.5, w), in_dims=(0, None))
    assert torch.autograd.gradcheck(mapped, (a, w))


@pytest.mark.slow
def test_vmap_of_a_recurrence_goes_call_by_call() -> None:
    op = sl.torch.op(sl.jit(lambda x: np.cumsum(x, axis=0), target="python"), unused(),
                     example_inputs=rows(4, 2))  # fmt: skip
    n = sl.var("n")
    state = sl.placeholder((n, 2), "float64", name="state")
    X = sl.placeholder((n, 2), "float64", name="X")
    init = sl.compute((1, 2), lambda _, i: X[0, i], name="init")
    step = sl.compute((n, 2), lambda t, i: state[t - 1, i] * 0.5 + X[t, i], name="step")
    scan = sl.scan(init, step, state, [X])
    decayed = sl.torch.op(sl.build(sl.schedule(scan), target="python"), unused())
    x = rows(3, 4, 2)
    torch.testing.assert_close(torch.vmap(op)(x), x.cumsum(1))
    expected = x.clone()
    for t in range(1, 4):
        expected[:, t] += expected[:, t - 1] * 0.5
    torch.testing.assert_close(torch.vmap(decayed)(x), expected)


@pytest.mark.slow
def test_vmap_of_conditions_first_values_and_rows_of_a_table() -> None:
    T, P = sl.placeholder((6, 3), "float64", name="T"), sl.placeholder((4,), "int64", name="P")
    k = sl.reduce_axis(3, name="k")
    C = sl.compute((4,), lambda i: sl.sum(T[P[i], k], axis=k, where=T[P[i], k] > 0,
                                          init=T[P[i], 0]), name="C")  # fmt: skip
    op = sl.torch.op(sl.build(sl.schedule(C), [T, P, C], target="python"), unused())
    t, p = rows(5, 6, 3), torch.tensor([0, 5, 2, 2])
    picked = t[:, p]
    expected = picked.clamp(min=0).sum(2) + picked[:, :, 0]
    torch.testing.assert_close(torch.vmap(op, in_dims=(0, None))(t, p), expected)


@pytest.mark.slow
def test_on_the_emulator() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    op = sl.torch.op(sl.build(s, target="cuda-emulator"), unused())
    x = rows(70, grad=True, dtype=torch.float32)
    op(x).sum().backward()
    torch.testing.assert_close(op(x), 2 * x)
    torch.testing.assert_close(x.grad, torch.full((70,), 2.0))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["python", "cpu"])
def test_opcheck(target: str) -> None:
    op = sl.torch.op(scaled_exp(target=target), unused())
    for a in (rows(3, 4), rows(3, 4, grad=True), rows(4, 3).t(), rows(0, 4)):
        torch.library.opcheck(op, (a, 0.5, rows(4)))
    batched = getattr(torch.ops.schedlang_tests, f"{op._opname}_batched").default
    torch.library.opcheck(batched, (rows(2, 3, 4, grad=True), 0.5, rows(4), [0]))


@pytest.mark.slow
def test_opcheck_of_a_traced_function() -> None:
    op = blurred()
    for x in (rows(6, 4), rows(6, 4, grad=True), rows(4, 6).t()):
        torch.library.opcheck(op, (x, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_without_a_graph_break(backend: str) -> None:
    op = sl.torch.op(scaled_exp(target="cpu"), unused())
    graphs = []

    def counted(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    compiled = torch.compile(lambda a, w: op(a * 2, 0.5, w)[1].sum(), fullgraph=True,
                             backend=counted)  # fmt: skip
    w = rows(4, grad=True)
    for n in (3, 5, 7):
        ours, theirs = rows(n, 4, grad=True), rows(n, 4, grad=True)
        compiled(ours, w).backward()
        in_torch(theirs * 2, 0.5, w)[1].sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    # the third size comes with no graph of its own
    assert len(graphs) <= 2


@pytest.mark.slow
def test_compile_of_vmap() -> None:
    op, w = sl.torch.op(scaled_exp(), unused()), rows(4)
    mapped = torch.compile(lambda a: torch.vmap(lambda a: op(a, 0.5, w)[1])(a), fullgraph=True,
                           backend="aot_eager")  # fmt: skip
    a = rows(2, 3, 4)
    expected = torch.stack([in_torch(x, 0.5, w)[1] for x in a])
    torch.testing.assert_close(mapped(a), expected)


@pytest.mark.slow
@pytest.mark.parametrize("traced", [False, True], ids=["kernel", "jit"])
def test_export_keeps_sizes(traced: bool) -> None:
    op = blurred() if traced else sl.torch.op(scaled_exp(), unused())
    w = rows(4)

    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, a: Any) -> Any:
            return (op(a, 0.5) if traced else op(a, 0.5, w))[0] * 2

    n = torch.export.Dim("n", min=4)
    program = torch.export.export(Module(), (rows(6, 4),), dynamic_shapes={"a": {0: n}})
    assert any(node.target is op for node in program.graph.nodes)
    x = rows(9, 4)
    expected = blurred_in_torch(x, 0.5) if traced else in_torch(x, 0.5, w)
    torch.testing.assert_close(program.module()(x), expected[0] * 2)


def test_names_that_are_refused() -> None:
    kernel, name = scaled_exp(), unused()
    for wrong in ("blur", "a::b::c", "a::b-c", "a::", "a::b.c", 3, None):
        with pytest.raises(ComputeTypeError, match=r"a namespace and a name.*\n.*mylib::blur"):
            sl.torch.op(kernel, wrong)
    with pytest.raises(ComputeTypeError, match="aten is a namespace of PyTorch's own"):
        sl.torch.op(kernel, "aten::blur")
    sl.torch.op(kernel, name)
    with pytest.raises(ComputeTypeError, match=f"has the operator {name} already\n.*once"):
        sl.torch.op(kernel, name)
    torch.library.define(f"{name}x_backward", "(Tensor x) -> Tensor")
    with pytest.raises(ComputeTypeError, match=f"{name}x_backward already, which would come with"):
        sl.torch.op(kernel, f"{name}x")
    assert not hasattr(torch.ops.schedlang_tests, f"{name}x".partition("::")[2])


def test_a_kernel_for_another_machine_is_refused() -> None:
    Y = sl.compute((3,), lambda i: i, name="Y")
    kernel = sl.build(sl.schedule(Y), target=sl.Target("c", triple="aarch64-linux-musl"))
    with pytest.raises(BuildError, match="kernel Y for aarch64-linux-musl: it is called on this"):
        sl.torch.op(kernel, "tests::for_arm")


def test_what_is_no_function_of_tensors_is_refused() -> None:
    kernel = scaled_exp()
    jitted = sl.jit(lambda x: x + 1)

    def assigns(x: Any) -> Any:
        x[0] = 1
        return x * 2

    example = np.ones(3)
    for f, options, message in (
        (lambda x: x, {}, r"neither a kernel nor .*\n.*sl\.jit\(<lambda>\)"),
        (kernel.accepting_copies(), {}, r"neither a kernel.*\n.*the kernel itself"),
        (3, {}, r"sl\.torch\.op\(3\): it is neither a kernel"),
        (sl.placeholder((3,), name="Y"), {}, r"sl\.build\(sl\.schedule\(Y\)\)"),
        (kernel, {"example_inputs": (example,)}, "a kernel knows its arguments"),
        (jitted, {}, r"have types.*\n.*example_inputs=\("),
        (jitted, {"example_inputs": (example, 1.0)}, "example_inputs of 2.*takes 1 arguments: x"),
        (jitted, {"example_inputs": ("a",)}, "the example of x is 'a'"),
        (sl.jit(assigns), {"example_inputs": (example,)}, r"assigns to elements.*\n.*Copy"),
        (sl.jit(lambda x: {"y": x + 1}), {"example_inputs": (example,)}, "it returns a dict"),
    ):
        with pytest.raises(ComputeTypeError, match=message):
            sl.torch.op(f, unused(), **options)
    with pytest.raises(ComputeError, match=r"tells the shapes.*\n.*np\.unique"):
        sl.torch.op(sl.jit(lambda x: np.unique(x)), unused(), example_inputs=(example,))


def test_gradients_that_are_refused() -> None:
    kernel = scaled_exp()
    for gradient, message in ((kernel, "not an operator yet"), (3, "a gradient is a function")):
        with pytest.raises(ComputeTypeError, match=message):
            sl.torch.op(kernel, unused(), gradient=gradient)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(CallTypeError, match=r"requires grad: .*gradient=None\n.*A\.detach\(\)"):
        squares(gradient=None)(x)
    with torch.no_grad():
        assert squares(gradient=None)(x).tolist() == [1, 1, 1]
    for wrong, message in (
        (lambda a, head: (head, head), r"returns 2 gradients, and .* has 1 tensor"),
        (lambda a, head: None, "A requires grad, and the gradient by it is None"),
        (lambda a, head: 2.0, r"the gradient by A is not a tensor: 2\.0"),
        (lambda a, head: head[:2], r"by A is torch\.float32\[2\], but A is torch\.float32\[3\]"),
        (lambda a, head: head.double(), r"by A is torch\.float64\[3\], but"),
    ):
        y = squares(gradient=wrong)(x).sum()
        with pytest.raises(CallTypeError, match=message):
            y.backward()


def test_a_gradient_that_does_not_exist() -> None:
    A = sl.placeholder((3,), name="A")
    B = sl.compute((3,), lambda i: sl.cast(sl.cast(A[i], "int32"), "float32"), name="B")
    op = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused())
    assert op(torch.tensor([1.5, 2.5, 3.5])).tolist() == [1, 2, 3]
    with pytest.raises(ComputeError, match=r"grad \(A\): it has no gradient(.|\n)*of yours"):
        op(torch.ones(3, requires_grad=True))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_gradient_of_complex_numbers_is_refused(dtype: str) -> None:
    A = sl.placeholder((3,), dtype, name="A")
    B = sl.compute((3,), lambda i: A[i] * 2j, name="B")
    op = sl.torch.op(sl.build(sl.schedule(B), target="python"), unused())
    x = torch.ones(3, dtype=getattr(torch, dtype))
    assert torch.equal(op(x), x * 2j)
    with pytest.raises(ComputeTypeError, match=r"grad \(A\): it has no gradient(.|\n)*of yours"):
        op(x.requires_grad_())


def test_second_derivatives_are_refused() -> None:
    x = torch.ones(3, requires_grad=True)
    (by_x,) = torch.autograd.grad(squares()(x).sum(), x, create_graph=True)
    with pytest.raises(CallTypeError, match="the second derivative of schedlang_tests::op"):
        by_x.sum().backward()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_arguments_that_do_not_fit(device: str) -> None:
    op = sl.torch.op(scaled_exp(), unused())
    w = torch.ones(4, dtype=torch.float64, device=device)
    a = torch.ones(3, 4, dtype=torch.float64, device=device)
    with pytest.raises(CallTypeError, match=re.escape("A.to(torch.float64)")):
        op(a.float(), 0.5, w)
    with pytest.raises(CallError, match="has 1 dimension"):
        op(w, 0.5, w)
    if device == "cpu":
        with pytest.raises(CallError, match="m is 4 in dimension 1 of A and 3 in dimension 0 of W"):
            op(a, 0.5, w[:3])
        with pytest.raises(CallTypeError, match=r"sparse tensor: pass its \.to_dense"):
            op(a.to_sparse(), 0.5, w)
    else:
        with pytest.raises(RuntimeError, match="m is 4 in dimension 1 of A and 3 in"):
            op(a, 0.5, w[:3])


def test_without_pytorch_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_torch(name: str, *args: Any, **named: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return imported(name, *args, **named)

    kernel = scaled_exp()
    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(MissingExtraError, match=r"sl\.torch\.op needs PyTorch.*schedlang\[torch\]"):
        sl.torch.op(kernel, unused())


def test_an_operator_keeps_its_latest_traces() -> None:
    from schedlang.torch.functions import TracedFunction
    from schedlang.torch.recent import MOST

    function = TracedFunction(sl.jit(lambda a: a * 2), [torch.ones(1)])
    latest = [function.graph([torch.ones(k)]) for k in range(1, MOST + 3)][-1]
    assert len(function._graphs) == MOST
    assert function.graph([torch.ones(MOST + 2)]) is latest
