"""Tests of PyTorch tensors as arguments: dense ones are read in place, others are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.conversions import as_contiguous, as_dtype
from schedlang.errors import CallError, CallTypeError
from schedlang.runtime.fast_call import fast_call
from schedlang.runtime.kernel import Kernel

torch = pytest.importorskip("torch")


def double(shape: tuple[Any, ...] = (2, 3), dtype: str = "float32") -> Kernel:
    A = sl.placeholder(shape, name="A", dtype=dtype)
    B = sl.compute(shape, lambda *i: A[i] * 2, name="B")
    return sl.build(sl.schedule(B), target="python")


def test_new_outputs_are_tensors() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    y = double()(x)
    assert type(y) is torch.Tensor and y.dtype == torch.float32 and y.device.type == "cpu"
    np.testing.assert_array_equal(y.numpy(), np.arange(6, dtype="float32").reshape(2, 3) * 2)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1, 4), (4, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_the_fast_path_accepts_any_shape_and_dtype(shape: tuple[int, ...], dtype: str) -> None:
    A = sl.placeholder(shape, name="A", dtype=dtype)
    B = sl.compute(shape, lambda *i: A[i], name="B")
    f = sl.build(sl.schedule(B), target="python")
    bind = fast_call(f.signature)
    x = torch.ones(shape, dtype=getattr(torch, dtype))
    assert bind is not None and bind((x,)) is not None and bind((x, x.clone())) is not None
    y = f(x)
    assert tuple(y.shape) == shape and torch.equal(y, x) and y.is_contiguous()


def test_a_given_output_is_written_and_returned() -> None:
    f, x, out = double(), torch.ones(2, 3), torch.zeros(2, 3)
    bind = fast_call(f.signature)
    assert bind is not None and bind((x, out)) is not None
    assert f(x, out) is out and bool((out == 2).all())
    # arguments of several libraries may be mixed
    other = np.zeros((2, 3), "float32")
    assert f(x, other) is other and bool((other == 2).all())
    assert type(f(other)) is np.ndarray


def test_several_outputs() -> None:
    A = sl.placeholder((4,), name="A")
    B, C = sl.compute((4,), lambda i: (A[i] + 1, A[i] * 3), name="B")
    f = sl.build(sl.schedule([B, C]), target="python")
    b, c = f(torch.ones(4))
    assert bool((b == 2).all()) and bool((c == 3).all())


def test_outputs_may_not_overlap_inputs_that_are_read_later() -> None:
    A = sl.placeholder((4,), name="A")
    B = sl.compute((4,), lambda i: A[3 - i], name="B")
    f, x = sl.build(sl.schedule(B), target="python"), torch.ones(8)
    for args in ((x[:4], x[:4]), (x[:4], x[2:6])):
        with pytest.raises(CallError, match="overlaps"):
            f(*args)
    f(x[:4], x[4:])


@pytest.mark.parametrize("sized", [False, True], ids=["fixed", "symbolic"])
def test_parameters_are_accepted_without_gradients(sized: bool) -> None:
    f = double((sl.var("n"), 3) if sized else (2, 3))
    p = torch.nn.Parameter(torch.ones(2, 3))
    for grad in (p, torch.ones(2, 3, requires_grad=True)):
        with pytest.raises(CallTypeError, match=r"requires grad.*\.detach\(\).*no_grad\(\)"):
            f(grad)
        for off in (torch.no_grad(), torch.inference_mode()):
            with off:
                y = f(grad)
                assert type(y) is torch.Tensor and not y.requires_grad and bool((y == 2).all())
                out = torch.zeros(2, 3)
                f(grad, out)
                assert bool((out == 2).all())
    module = torch.nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        np.testing.assert_allclose(f(module.weight).numpy(), module.weight.numpy() * 2)


def test_the_oracle_accepts_and_refuses_the_same() -> None:
    A = sl.placeholder((2, 3), name="A")
    oracle = sl.reference(sl.compute((2, 3), lambda i, j: A[i, j] * 2, name="B"))
    p = torch.nn.Parameter(torch.ones(2, 3))
    with torch.no_grad():
        np.testing.assert_array_equal(oracle(p), np.full((2, 3), 2, "float32"))
    for wrong in (p, torch.ones(2, 3, device="meta"), torch.ones(2, 3).to_sparse()):
        with pytest.raises(CallTypeError, match="^A "):
            oracle(wrong)


def test_transforms_and_traces_are_refused() -> None:
    f, x = double(), torch.ones(5, 2, 3)
    for transform in (torch.vmap, lambda g: torch.func.grad(lambda v: g(v).sum())):
        given = x if transform is torch.vmap else x[0]
        with pytest.raises(CallTypeError, match=r"torch\.vmap.*one more dimension"):
            transform(f)(given)
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode(), pytest.raises(CallTypeError, match=r"outside these"):
        f(torch.ones(2, 3))
    # a real tensor under a fake mode
    real = torch.ones(2, 3)
    with fake.FakeTensorMode(), pytest.raises(CallTypeError, match="does not expose its memory"):
        f(real)


def test_new_outputs_are_on_the_cpu_for_any_default_device() -> None:
    x = torch.ones(2, 3)
    with torch.device("meta"):
        y, z = double()(x), double((sl.var("n"), 3))(x)
    assert y.device.type == z.device.type == "cpu" and bool((y == 2).all() and (z == 2).all())


def neg_view() -> Any:
    return torch.ones(2, 3, dtype=torch.complex64).conj().imag


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: torch.ones(2, 3, device="meta"), r"meta tensor.*device='cpu'"),
        (lambda: torch.ones(2, 3).to_sparse(), r"sparse tensor: pass its \.to_dense\(\)"),
        (lambda: torch.ones(2, 3).to_sparse_csr(), r"\.to_dense\(\)"),
        (lambda: torch.ones(2, 3).to_sparse_csc(), r"\.to_dense\(\)"),
        (neg_view, r"negates.*\.resolve_neg\(\)"),
        (lambda: torch.ones(2, 3, dtype=torch.complex64).conj(), r"conjugates.*\.resolve_conj\(\)"),
        (lambda: torch.ones(2, 3, dtype=torch.bfloat16), r"bfloat16(: |.*\.float)"),
        (lambda: torch.ones(2, 3).to(torch.float8_e5m2), r"torch\.float8_e5m2.*\.float\(\)"),
        (lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8),
         r"quantized tensor: pass its \.dequantize\(\)"),
        (lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(3)]), "nested tensor"),
        (lambda: torch.ones(2, 3, dtype=torch.float64), r"got dtype float64"),
        (lambda: torch.ones(2, 6)[:, ::2], r"strided"),
        (lambda: torch.ones(3).expand(2, 3), r"strided"),
        (lambda: torch.ones(3, 2), r"shape \(3, 2\)"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_dense_memory_are_refused(make: Any, message: str) -> None:
    for f in (double(), double((sl.var("n"), 3))):
        for position in (0, 1):
            args = [torch.ones(2, 3), torch.ones(2, 3)]
            args[position] = make()
            with pytest.raises((CallError, CallTypeError), match=f"argument {position}.*{message}"):
                f(*args)


def test_subclasses_with_memory_are_tensors() -> None:
    class Image(torch.Tensor):
        """A subclass, like torchvision's tensors."""

    x = torch.ones(2, 3).as_subclass(Image)
    assert bool((double()(x) == 2).all())


@pytest.mark.parametrize(("make", "fix"), [
    (lambda: torch.ones(2, 3, dtype=torch.float64), "A.to(torch.float32)"),
    (lambda: torch.ones(3, 2).T, "A.contiguous()"),
    (lambda: np.ones((2, 3)), "A.astype('float32')"),
    (lambda: np.ones((3, 2), "float32").T, "np.ascontiguousarray(A)"),
    (lambda: memoryview(np.ones((2, 3))), "np.asarray(A, 'float32')"),
])  # fmt: skip
def test_errors_say_the_call_of_the_library(make: Any, fix: str) -> None:
    given = make()
    A = sl.placeholder((2, 3), name="A")
    net = sl.network(sl.named("B", A * 2), target="python")
    for f in (double(), double((sl.var("n"), 3)), net, sl.reference(A * 2)):
        if f.__class__.__name__ == "Reference" and "contiguous" in fix:
            # the oracle takes strided arrays
            continue
        with pytest.raises((CallError, CallTypeError), match=rf"(?m)(with|pass) {re.escape(fix)}$"):
            f(given)
        mended = eval(fix, {"A": given, "np": np, "torch": torch})
        np.testing.assert_array_equal(f(mended), np.full((2, 3), 2))


def test_the_dtype_of_a_tensor_for_a_gpu() -> None:
    A = sl.placeholder((2, 3), "int64", name="A")
    B = sl.compute((2, 3), lambda i, j: A[i, j] * 2, name="B")
    s = sl.schedule(B)
    s[B].bind(B.op.axis[0], "blockIdx.x")
    s[B].bind(B.op.axis[1], "threadIdx.x")
    f = sl.build(s, target="cuda-emulator")
    for call in (f, f.check):
        with pytest.raises(CallTypeError, match=r"convert it with A\.to\(torch\.int64\)$"):
            call(torch.ones(2, 3))


def test_an_array_of_cupy_is_copied_by_cupy() -> None:
    kind = type("ndarray", (), {"__module__": "cupy._core.core", "astype": None})
    assert as_contiguous(kind(), "A") == "cupy.ascontiguousarray(A)"
    assert as_dtype(kind(), "A", "int8") == "A.astype('int8')"
