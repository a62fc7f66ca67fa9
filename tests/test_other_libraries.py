"""Arrays of other libraries and buffers as arguments, and kernels that copy strided arrays."""

from __future__ import annotations

import array
import warnings
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, CallTypeError, ComputeTypeError, CopyWarning
from schedlang.runtime.kernel import Kernel


def kernel(shape: tuple[Any, ...] = (3, 4), dtype: str = "float32") -> Kernel:
    A, B = (sl.placeholder(shape, dtype, name=name) for name in "AB")
    C = sl.compute(shape, lambda *i: A[i] * 2 + B[i], name="C")
    return sl.build(sl.schedule(C), [A, B, C], target="python")


X = np.arange(12, dtype="float32").reshape(3, 4)
STRIDED = {
    "columns": lambda: np.asfortranarray(X),
    "reversed": lambda: X[::-1, ::-1].copy()[::-1, ::-1],
    "every second": lambda: np.repeat(X, 2, 1)[:, ::2],
    "broadcast": lambda: np.broadcast_to(np.float32(3), (3, 4)),
    "byte order": lambda: X.astype(">f4"),
    "rows": lambda: X.copy(),
}


@pytest.mark.parametrize("first", STRIDED)
def test_a_kernel_that_accepts_copies(first: str) -> None:
    f = kernel()
    if first not in ("rows",):
        with pytest.raises((CallError, CallTypeError), match="argument 0"):
            f(STRIDED[first](), X)
    for second in STRIDED:
        a, b = STRIDED[first](), STRIDED[second]()
        np.testing.assert_array_equal(f.accepting_copies()(a, b), a * 2 + b)
        np.testing.assert_array_equal(f.accepting_copies()(B=b, A=a), a * 2 + b)


@pytest.mark.parametrize("order", STRIDED)
def test_outputs_are_copied_back(order: str) -> None:
    out = STRIDED[order]()
    if order == "broadcast":
        with pytest.raises((CallError, CallTypeError), match="read-only"):
            kernel().accepting_copies()(X, X, out)
        return
    base = out if out.base is None else out.base
    apart = base.copy()
    assert kernel().accepting_copies()(X, X, out) is out
    np.testing.assert_array_equal(out, X * 3)
    if order == "every second":
        np.testing.assert_array_equal(base.reshape(3, 8)[:, 1::2], apart.reshape(3, 8)[:, 1::2])


def test_the_refusal_of_a_kernel_names_it() -> None:
    f = kernel()
    with pytest.raises(CallError, match=r"strided .*\n.*f\.accepting_copies\(\)"):
        f(X.T.copy().T, X)
    with pytest.raises(CallError, match="(?s)^((?!accepting).)*$"):
        f(X[:2], X)
    # other checks stay
    with pytest.raises(CallError, match="shape"):
        f.accepting_copies()(X.T, X)
    with pytest.raises(CallTypeError, match="float64"):
        f.accepting_copies()(X.astype("float64").T.copy().T, X)
    assert repr(f.accepting_copies()) == repr(f)[:-1] + ", accepting copies>"


def test_a_large_copy_of_a_kernel_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlang.runtime.copies.LARGE_COPY", X.nbytes)
    f = kernel().accepting_copies()
    words = r"C\(B=\.\.\.\) of .* MiB: .*each call copies it(.|\n)*B = np\.ascontiguousarray\(B\)"
    with pytest.warns(CopyWarning, match=words) as found:
        f(X, np.asfortranarray(X))
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X, X)
        kernel((2, 4)).accepting_copies()(np.asfortranarray(X[:2]), X[:2])


def test_strided_tensors_are_copied() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(4, 3)
    y = kernel().accepting_copies()(x.T, x.T)
    assert type(y) is torch.Tensor
    np.testing.assert_array_equal(y, x.T * 3)


def test_an_expanded_tensor_is_accepted_as_head() -> None:
    """Autograd gives the gradient of a sum as one number that is expanded."""
    torch = pytest.importorskip("torch")
    A = sl.placeholder((3, 4), name="A")
    C = sl.compute((3, 4), lambda i, j: sl.exp(A[i, j]), name="C")
    f = sl.build(sl.schedule(sl.gradient(C, A, sl.placeholder((3, 4), name="head"))),
                 target="python")  # fmt: skip

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.exp(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert 0 in grad.stride()
            return f(A=ctx.saved_tensors[0].detach(), head=grad)

    for reduce in (torch.sum, lambda y: y.sum(1) @ torch.arange(3.0)):
        x = torch.from_numpy(X / 4).requires_grad_()
        reduce(Exp.apply(x)).backward()
        mine, x.grad = x.grad, None
        reduce(torch.exp(x)).backward()
        torch.testing.assert_close(mine, x.grad)
    with pytest.raises(CallError, match="strided"):
        f(A=torch.ones(1).expand(3, 4), head=torch.ones(3, 4))


BUFFERS = {
    "array": lambda: array.array("d", [1, 2, 3]),
    "array of ints": lambda: array.array("i", [1, -2, 3]),
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(array.array("f", [1, 2, 3])),
    "memoryview of two dimensions": lambda: memoryview(np.arange(6.0).reshape(2, 3)),
    "big endian": lambda: np.arange(3, dtype=">f4"),
    "big integers": lambda: np.arange(-1, 2, dtype=">i8"),
    "strided and big": lambda: np.arange(6, dtype=">f8")[::-2],
}


@pytest.mark.parametrize("case", BUFFERS)
def test_buffers_and_byte_orders_under_jit(case: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * 2 + y, x.sum(), x[::-1]

    for b in (1, BUFFERS["big endian"]()):
        found, wanted = (
            sl.jit(f, target="python")(BUFFERS[case](), b),
            f(np.asarray(BUFFERS[case]()), b),
        )
        for mine, theirs in zip(found, wanted):
            assert mine.dtype == theirs.dtype.newbyteorder("=")
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("case", BUFFERS)
def test_buffers_are_written(case: str) -> None:
    def f(x: Any) -> None:
        x += 1
        x[0] *= 2

    ours, theirs = BUFFERS[case](), np.asarray(BUFFERS[case]()).copy()
    assert sl.jit(f, target="python")(ours) is None
    f(theirs)
    np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_constants_of_another_byte_order() -> None:
    table = np.array([1.5, 2.5, -3], ">f8")
    found = sl.jit(lambda x: x * table, target="python")(np.arange(3.0))
    np.testing.assert_array_equal(found, np.arange(3) * [1.5, 2.5, -3])


NO_NUMBERS = {
    "structured": (
        np.zeros(3, [("mass", "f4"), ("b", "i4")]),
        r"structured array.*\n.*x\['mass'\]",
    ),
    "strings": (np.array(["a", "b"]), r"array of strings.*\n.*np\.unique"),
    "bytes": (np.array([b"a"]), r"array of bytes"),
    "objects": (np.array([1, None], object), r"Python objects.*\n.*astype"),
    "dates": (np.array(["2020-01-01"], "datetime64[D]"), r"array of dates.*\n.*int64"),
    "differences": (np.array([1], "timedelta64[s]"), r"time differences.*\n.*int64"),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_arrays_of_no_numbers_are_called_by_their_name(case: str) -> None:
    values, words = NO_NUMBERS[case]
    with pytest.raises(CallTypeError, match=rf"^<lambda>\(x=\.\.\.\) of dtype .*{words}"):
        sl.jit(lambda x: x, target="python")(values)
    with pytest.raises(ComputeTypeError, match=rf"in <lambda> at line.*{words}"):
        sl.jit(lambda x: np.add(x, values), target="python")(np.ones(len(values)))


def test_results_for_jax_are_of_jax() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0).reshape(2, 3)
    y, total, z = sl.jit(lambda x, a: (x * a, x.sum(), x.T), target="python")(x, 2.0)
    assert all(isinstance(v, jax.Array) for v in (y, z)) and total == 15
    np.testing.assert_array_equal(y, np.arange(6).reshape(2, 3) * 2)
    assert isinstance(kernel()(jax.numpy.asarray(X), jax.numpy.asarray(X)), jax.Array)
    with pytest.raises(CallError, match="read-only"):
        sl.jit(lambda x: x.fill(2), target="python")(x)
    # without 64-bit numbers, JAX would change the values
    wide = sl.jit(lambda x: x.astype("int64") + 2**40, target="python")(x)
    assert wide[0, 0] == 2**40
