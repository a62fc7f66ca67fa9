"""Computations to differentiate: each with its inputs, the same in PyTorch, and sample values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import schedlang as sl

DTYPE = "float64"


@dataclass(frozen=True)
class Case:
    """A result ``y`` and the inputs ``xs`` to differentiate it by.

    ``torch`` is the same function of PyTorch's tensors in the order of ``xs`` and then ``others``,
    the inputs without a gradient. ``values`` makes sample values by name, where normally
    distributed ones will not do.
    """

    y: sl.Tensor
    xs: Sequence[sl.Tensor]
    torch: Callable[..., Any]
    others: Sequence[sl.Tensor] = ()
    values: dict[str, Callable[[Any, tuple[int, ...]], Any]] = field(default_factory=dict)

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return sample arrays by name."""
        rng = np.random.default_rng(seed)
        made = {}
        for tensor in (*self.xs, *self.others):
            draw = self.values.get(tensor.name, lambda r, shape: r.normal(size=shape))
            made[tensor.name] = np.asarray(draw(rng, tensor.shape), tensor.dtype)
        return made


CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


def inputs(**shapes: tuple[int, ...]) -> list[sl.Tensor]:
    return [sl.placeholder(shape, DTYPE, name=name) for name, shape in shapes.items()]


def positive(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.3, 2.0, shape)


def fraction(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.uniform(-0.9, 0.9, shape)


def reduced(shape: tuple[int, ...], body: Callable[..., Any], name: str) -> sl.Tensor:
    return sl.compute(shape, body, name=name)


def axis(extent: int, name: str = "k") -> sl.Axis:
    return sl.reduce_axis(extent, name=name)


# elementwise


@case
def trigonometric() -> Case:
    X, Y = inputs(X=(5,), Y=(5,))
    Z = sl.compute(
        (5,),
        lambda i: sl.sin(X[i]) * sl.cos(Y[i]) + sl.tan(X[i] * 0.5) + sl.asin(Y[i]) * sl.acos(X[i])
        + sl.atan(X[i]),
        name="Z",
    )  # fmt: skip
    return Case(
        Z, [X, Y],
        lambda x, y: x.sin() * y.cos() + (x * 0.5).tan() + y.asin() * x.acos() + x.atan(),
        values={"X": fraction, "Y": fraction},
    )  # fmt: skip


@case
def hyperbolic() -> Case:
    (X,) = inputs(X=(5,))
    Z = sl.compute((5,), lambda i: sl.sinh(X[i]) * sl.tanh(X[i]) + sl.cosh(X[i]), name="Z")
    return Case(Z, [X], lambda x: x.sinh() * x.tanh() + x.cosh())


@case
def logarithms() -> Case:
    (X,) = inputs(X=(5,))
    Z = sl.compute(
        (5,),
        lambda i: sl.log(X[i]) * sl.log2(X[i]) + sl.log10(X[i]) + sl.log1p(X[i]) * sl.expm1(X[i])
        + sl.exp2(X[i]),
        name="Z",
    )  # fmt: skip
    return Case(
        Z, [X], lambda x: x.log() * x.log2() + x.log10() + x.log1p() * x.expm1() + x.exp2(),
        values={"X": positive},
    )


@case
def roots() -> Case:
    (X,) = inputs(X=(5,))
    Z = sl.compute((5,), lambda i: sl.sqrt(X[i]) + sl.rsqrt(X[i]) * X[i] * X[i], name="Z")
    return Case(Z, [X], lambda x: x.sqrt() + x.rsqrt() * x * x, values={"X": positive})


@case
def gelu() -> Case:
    (X,) = inputs(X=(6,))
    Z = sl.compute((6,), lambda i: X[i] * 0.5 * (1 + sl.erf(X[i] * 0.5**0.5)), name="Z")
    return Case(Z, [X], lambda x: x * 0.5 * (1 + (x * 0.5**0.5).erf()))


@case
def silu() -> Case:
    (X,) = inputs(X=(6,))
    S = sl.compute((6,), lambda i: sl.sigmoid(X[i]), name="S")
    return Case(
        sl.compute((6,), lambda i: X[i] * S[i], name="Z"), [X], lambda x: x * x.sigmoid()
    )


@case
def powers() -> Case:
    X, Y = inputs(X=(5,), Y=(5,))
    Z = sl.compute((5,), lambda i: X[i] ** 3 + X[i] ** Y[i] + Y[i] ** 2 + X[i] ** -1.5, name="Z")
    return Case(
        Z, [X, Y], lambda x, y: x**3 + x**y + y**2 + x**-1.5, values={"X": positive}
    )


@case
def quotients() -> Case:
    X, Y = inputs(X=(5,), Y=(5,))
    Z = sl.compute((5,), lambda i: X[i] / Y[i] + 1 / (1 + Y[i] * Y[i]), name="Z")
    return Case(Z, [X, Y], lambda x, y: x / y + 1 / (1 + y * y), values={"Y": positive})


@case
def remainders() -> Case:
    X, Y = inputs(X=(5,), Y=(5,))
    Z = sl.compute((5,), lambda i: (X[i] * 3) % Y[i] + sl.floor(X[i]) * X[i], name="Z")
    return Case(
        Z, [X, Y], lambda x, y: (x * 3).remainder(y) + x.floor() * x, values={"Y": positive}
    )


@case
def angles() -> Case:
    X, Y = inputs(X=(5,), Y=(5,))
    Z = sl.compute((5,), lambda i: sl.atan2(X[i], Y[i]), name="Z")
    return Case(Z, [X, Y], lambda x, y: x.atan2(y))


@case
def extremes_of_two() -> Case:
    X, Y = inputs(X=(6,), Y=(6,))
    Z = sl.compute(
        (6,), lambda i: sl.max(X[i], Y[i]) * sl.min(X[i], Y[i] * 2) + sl.max(X[i], 0.0), name="Z"
    )
    return Case(
        Z, [X, Y], lambda x, y: x.maximum(y) * x.minimum(y * 2) + x.relu()
    )


@case
def choices() -> Case:
    X, Y = inputs(X=(6,), Y=(6,))
    Z = sl.compute(
        (6,),
        lambda i: sl.select(X[i] > 0, X[i] * Y[i], Y[i] * 0.1) + sl.abs(X[i])
        + sl.if_then_else(i < 3, X[i], Y[i] * Y[i]),
        name="Z",
    )  # fmt: skip

    def by_torch(x: Any, y: Any) -> Any:
        import torch

        last = torch.cat([x[:3], (y * y)[3:]])
        return torch.where(x > 0, x * y, y * 0.1) + x.abs() + last

    return Case(Z, [X, Y], by_torch)


@case
def half_precision_inside() -> Case:
    (X,) = inputs(X=(6,))
    H = sl.compute((6,), lambda i: X[i].astype("float32") * 3, name="H")
    Z = sl.compute((6,), lambda i: H[i].astype("float64") * X[i], name="Z")
    return Case(Z, [X], lambda x: (x.float() * 3).double() * x)


# shapes


@case
def broadcasts() -> Case:
    X, B, S = inputs(X=(4, 5), B=(5,), S=())
    Z = sl.compute((4, 5), lambda i, j: (X[i, j] + B[j]) * S[()], name="Z")
    return Case(Z, [X, B, S], lambda x, b, s: (x + b) * s)


@case
def outer_product() -> Case:
    X, Y = inputs(X=(4,), Y=(5,))
    Z = sl.compute((4, 5), lambda i, j: X[i] * Y[j], name="Z")
    return Case(Z, [X, Y], lambda x, y: x[:, None] * y)


@case
def transposed_and_reshaped() -> Case:
    (X,) = inputs(X=(4, 6))
    T = sl.compute((6, 4), lambda i, j: X[j, i], name="T")
    R = sl.compute((3, 8), lambda i, j: T[(i * 8 + j) // 4, (i * 8 + j) % 4], name="R")
    Z = sl.compute((3, 8), lambda i, j: R[i, j] * R[i, 7 - j], name="Z")
    return Case(Z, [X], lambda x: (r := x.T.reshape(3, 8)) * r.flip(1))


@case
def joined() -> Case:
    X, Y = inputs(X=(3, 2), Y=(4, 2))
    J = sl.compute((7, 2), lambda i, j: sl.if_then_else(i < 3, X[i, j], Y[i - 3, j]), name="J")
    Z = sl.compute((7, 2), lambda i, j: J[i, j] * J[6 - i, j], name="Z")

    def by_torch(x: Any, y: Any) -> Any:
        import torch

        both = torch.cat([x, y])
        return both * both.flip(0)

    return Case(Z, [X, Y], by_torch)


@case
def every_second() -> Case:
    (X,) = inputs(X=(9,))
    Z = sl.compute((4,), lambda i: X[i * 2 + 1] * X[i], name="Z")
    return Case(Z, [X], lambda x: x[1::2] * x[:4])


@case
def repeated() -> Case:
    (X,) = inputs(X=(3,))
    Z = sl.compute((12,), lambda i: X[i % 3] * X[i // 4], name="Z")
    return Case(Z, [X], lambda x: x.repeat(4) * x.repeat_interleave(4))


@case
def stencil() -> Case:
    (X,) = inputs(X=(7, 7))
    Z = sl.compute(
        (5, 5), lambda i, j: X[i, j + 1] + X[i + 2, j + 1] * X[i + 1, j] - X[i + 1, j + 2], name="Z"
    )
    return Case(
        Z, [X], lambda x: x[:-2, 1:-1] + x[2:, 1:-1] * x[1:-1, :-2] - x[1:-1, 2:]
    )


def _padded(mode: str, torch_mode: str) -> Case:
    (X,) = inputs(X=(5, 4))
    P = sl.pad(X, 2, mode=mode, name="P")
    Z = sl.compute((9, 8), lambda i, j: P[i, j] * P[i, j] * (i + j), name="Z")

    def by_torch(x: Any) -> Any:
        import torch

        padded = torch.nn.functional.pad(x[None], (2, 2, 2, 2), torch_mode)[0]
        return padded * padded * (torch.arange(9)[:, None] + torch.arange(8))

    return Case(Z, [X], by_torch)


@case
def padded_by_zeros() -> Case:
    return _padded("constant", "constant")


@case
def padded_by_edges() -> Case:
    return _padded("edge", "replicate")


@case
def padded_by_reflection() -> Case:
    return _padded("reflect", "reflect")


@case
def padded_around() -> Case:
    return _padded("wrap", "circular")


# reductions


@case
def sums() -> Case:
    (X,) = inputs(X=(4, 5))
    k = axis(5)
    M = reduced((4,), lambda i: sl.sum(X[i, k] * X[i, k], axis=k), "M")
    return Case(
        sl.compute((4,), lambda i: sl.sqrt(M[i] / 5), name="Z"), [X],
        lambda x: ((x * x).sum(1) / 5).sqrt(),
    )


@case
def sum_where() -> Case:
    X, B = inputs(X=(4, 5), B=(4,))
    k = axis(5)
    Z = reduced(
        (4,), lambda i: sl.sum(X[i, k] ** 2, axis=k, where=X[i, k] > 0, init=B[i] * 2), "Z"
    )
    return Case(Z, [X, B], lambda x, b: (x.clamp(min=0) ** 2).sum(1) + b * 2)


@case
def product_with_zeros() -> Case:
    (X,) = inputs(X=(4, 3))
    k = axis(3)
    Z = reduced((4,), lambda i: sl.prod(X[i, k] * 2, axis=k), "Z")

    def with_zeros(rng: Any, shape: tuple[int, ...]) -> Any:
        made = rng.normal(size=shape)
        made[1, 1] = made[2, 0] = made[2, 2] = 0
        return made

    return Case(Z, [X], lambda x: (x * 2).prod(1), values={"X": with_zeros})


@case
def extremes() -> Case:
    (X,) = inputs(X=(4, 5))
    k, m = axis(5), axis(5, "m")
    T = reduced((4,), lambda i: sl.max(X[i, k], axis=k), "T")
    L = reduced((4,), lambda i: sl.min(X[i, m] * X[i, 0] + 1, axis=m), "L")
    return Case(
        sl.compute((4,), lambda i: T[i] * L[i], name="Z"), [X],
        lambda x: x.amax(1) * (x * x[:, :1] + 1).amin(1),
    )


@case
def log_sum_exp() -> Case:
    (X,) = inputs(X=(3, 6))
    k, m = axis(6), axis(6, "m")
    T = reduced((3,), lambda i: sl.max(X[i, k], axis=k), "T")
    S = reduced((3,), lambda i: sl.sum(sl.exp(X[i, m] - T[i]), axis=m), "S")
    return Case(
        sl.compute((3,), lambda i: sl.log(S[i]) + T[i], name="Z"), [X], lambda x: x.logsumexp(1)
    )


@case
def log_sum_exp_in_one_pass() -> Case:
    (X,) = inputs(X=(3, 6))

    def combine(a: Any, b: Any) -> Any:
        top = sl.max(a[0], b[0])
        return top, a[1] * sl.exp(a[0] - top) + b[1] * sl.exp(b[0] - top)

    reduce = sl.comm_reducer(
        combine, lambda t, u: (-1e30, 0.0), name="online", gradient="fold", trusted=True
    )
    k = axis(6)
    top, total = sl.compute(
        (3,), lambda i: reduce((X[i, k], sl.const(1.0, DTYPE)), axis=k), name="R"
    )
    return Case(
        sl.compute((3,), lambda i: sl.log(total[i]) + top[i], name="Z"), [X],
        lambda x: x.logsumexp(1),
    )


@case
def variance_by_welford() -> Case:
    (X,) = inputs(X=(2, 3, 3))

    def combine(a: Any, b: Any) -> Any:
        n, d = a[0] + b[0], b[1] - a[1]
        share = sl.select(n > 0, b[0] / sl.max(n, 1.0), 0.0)
        return n, a[1] + d * share, a[2] + b[2] + d * d * a[0] * share

    reduce = sl.comm_reducer(
        combine, lambda *t: (0.0, 0.0, 0.0), name="welford", gradient="fold", trusted=True
    )
    k, m = axis(3), axis(3, "m")
    one, none = sl.const(1.0, DTYPE), sl.const(0.0, DTYPE)
    n, mean, squares = sl.compute(
        (2,), lambda i: reduce((one, X[i, k, m], none), axis=(k, m)), name="V"
    )
    return Case(
        sl.compute((2,), lambda i: squares[i] / n[i] + mean[i], name="Z"), [X],
        lambda x: x.var((1, 2), unbiased=False) + x.mean((1, 2)),
    )


# linear algebra


@case
def matrix_product() -> Case:
    A, B = inputs(A=(3, 4), B=(4, 5))
    k = axis(4)
    C = reduced((3, 5), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), "C")
    return Case(C, [A, B], lambda a, b: a @ b)


@case
def batched_product() -> Case:
    A, B = inputs(A=(2, 3, 4), B=(2, 5, 4))
    k = axis(4)
    C = reduced((2, 3, 5), lambda b, i, j: sl.sum(A[b, i, k] * B[b, j, k], axis=k), "C")
    return Case(C, [A, B], lambda a, b: a @ b.transpose(1, 2))


@case
def gram_matrix() -> Case:
    (A,) = inputs(A=(4, 3))
    k = axis(3)
    C = reduced((4, 4), lambda i, j: sl.sum(A[i, k] * A[j, k], axis=k), "C")
    return Case(C, [A], lambda a: a @ a.T)


@case
def bilinear_form() -> Case:
    X, A, Y = inputs(X=(3,), A=(3, 4), Y=(4,))
    i, j = axis(3, "i"), axis(4, "j")
    Z = reduced((), lambda: sl.sum(X[i] * A[i, j] * Y[j], axis=(i, j)), "Z")
    return Case(Z, [X, A, Y], lambda x, a, y: x @ a @ y)


@case
def diagonal() -> Case:
    (A,) = inputs(A=(4, 4))
    k = axis(4)
    T = reduced((), lambda: sl.sum(A[k, k], axis=k), "T")
    return Case(
        sl.compute((4,), lambda i: T[()] * A[i, i], name="Z"), [A],
        lambda a: a.trace() * a.diagonal(),
    )


@case
def function_of_a_diagonal() -> Case:
    """Read the diagonal of a matrix of more columns than rows, and two elements of a column."""
    X, Y = inputs(X=(4, 6), Y=(5,))
    k = axis(4)
    S = reduced((), lambda: sl.sum(sl.tanh(X[k, k]), axis=k), "S")
    late = sl.reduce_axis((2, 4), name="late")
    T = reduced((5,), lambda i: sl.sum(sl.exp(X[late, 5]) * Y[i], axis=late), "T")
    Z = sl.compute((4, 5), lambda i, j: X[i, j] * S() + T[j] + sl.sin(X[i, 1] * Y[j]), name="Z")
    return Case(
        Z,
        [X, Y],
        lambda x, y: (
            x[:, :5] * x.diagonal().tanh().sum()
            + x[2:, 5].exp().sum() * y
            + (x[:, 1:2] * y).sin()
        ),
    )


@case
def function_of_a_diagonal_under_a_condition() -> Case:
    """Read every second element of an antidiagonal, in bounds where a condition holds."""
    X, Y = inputs(X=(5, 5), Y=(7,))
    Z = sl.compute(
        (7,),
        lambda i: sl.if_then_else(i < 3, sl.exp(X[i * 2, 4 - i * 2]) * Y[i], Y[i]),
        name="Z",
    )

    def expected(x: Any, y: Any) -> Any:
        factor = 0 * y + 1
        factor[:3] = x.flip(1).diagonal()[::2].exp()
        return y * factor

    return Case(Z, [X, Y], expected)


@case
def khatri_rao() -> Case:
    A, B, C = inputs(A=(3, 4, 5), B=(4, 2), C=(5, 2))
    k, m = axis(4), axis(5, "m")
    Z = reduced((3, 2), lambda i, j: sl.sum(A[i, k, m] * B[k, j] * C[m, j], axis=(k, m)), "Z")

    def by_torch(a: Any, b: Any, c: Any) -> Any:
        import torch

        return torch.einsum("ikm,kj,mj->ij", a, b, c)

    return Case(Z, [A, B, C], by_torch)


# convolutions


def conv(
    size: int, k: int, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1,
    channels: tuple[int, int] = (4, 6), dims: int = 2,
) -> Case:  # fmt: skip
    ic, oc = channels[0] // groups, channels[1] // groups
    X, W = inputs(X=(2, channels[0], *(size,) * dims), W=(channels[1], ic, *(k,) * dims))
    P = sl.pad(X, (0, 0, *(pad,) * dims), name="P") if pad else X
    out = (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    rc, *taps = (axis(n, f"r{m}") for n, m in zip(W.shape[1:], "cdhw"))

    def body(n: Any, o: Any, *at: Any) -> Any:
        channel = o // oc * ic + rc if groups > 1 else rc
        where = (i * stride + t * dilation for i, t in zip(at, taps))
        return sl.sum(P[(n, channel, *where)] * W[(o, rc, *taps)], axis=(rc, *taps))

    Y = sl.compute((2, channels[1], *(out,) * dims), body, name="Y")

    def by_torch(x: Any, w: Any) -> Any:
        import torch

        apply = getattr(torch.nn.functional, f"conv{dims}d")
        return apply(x, w, None, stride, pad, dilation, groups)

    return Case(Y, [X, W], by_torch)


@case
def convolution() -> Case:
    return conv(6, 3, pad=1)


@case
def strided_convolution() -> Case:
    return conv(7, 3, stride=2, pad=1)


@case
def strided_convolution_of_an_even_size() -> Case:
    return conv(8, 5, stride=2, pad=2)


@case
def pointwise_strided_convolution() -> Case:
    return conv(7, 1, stride=2)


@case
def dilated_convolution() -> Case:
    return conv(9, 3, stride=2, pad=2, dilation=3)


@case
def even_dilation_and_stride() -> Case:
    return conv(9, 3, stride=2, pad=1, dilation=2)


@case
def stride_beyond_the_kernel() -> Case:
    return conv(9, 2, stride=3)


@case
def grouped_convolution() -> Case:
    return conv(7, 3, stride=2, pad=1, groups=2)


@case
def depthwise_convolution() -> Case:
    return conv(7, 3, stride=2, pad=1, groups=4, channels=(4, 4))


@case
def convolution_of_lines() -> Case:
    return conv(11, 4, stride=3, pad=2, dims=1)


@case
def convolution_of_volumes() -> Case:
    return conv(5, 3, stride=2, pad=1, dims=3, channels=(2, 2))


@case
def transposed_convolution() -> Case:
    X, W = inputs(X=(1, 2, 4, 4), W=(2, 3, 4, 4))
    around, extra, s, k = 1, 0, 2, 4
    P = sl.pad(X, (0, 0, around, around), name="P")
    rc, rh, rw = axis(2, "rc"), axis(k, "rh"), axis(k, "rw")

    def body(n: Any, o: Any, h: Any, w: Any) -> Any:
        y, x = h + rh + extra, w + rw + extra
        return sl.sum(
            P[n, rc, y // s, x // s] * W[rc, o, k - 1 - rh, k - 1 - rw], axis=(rc, rh, rw),
            where=sl.all(y % s == 0, x % s == 0),
        )

    Y = sl.compute((1, 3, 8, 8), body, name="Y")

    def by_torch(x: Any, w: Any) -> Any:
        import torch

        return torch.nn.functional.conv_transpose2d(x, w, None, 2, 1)

    return Case(Y, [X, W], by_torch)


@case
def max_pooling() -> Case:
    (X,) = inputs(X=(1, 2, 7, 7))
    P = sl.pad(X, (0, 0, 1, 1), value=float("-inf"), name="P")
    rh, rw = axis(3, "rh"), axis(3, "rw")
    Y = reduced(
        (1, 2, 4, 4),
        lambda n, c, h, w: sl.max(P[n, c, h * 2 + rh, w * 2 + rw], axis=(rh, rw)), "Y",
    )  # fmt: skip

    def by_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.max_pool2d(x, 3, 2, 1)

    return Case(Y, [X], by_torch)


@case
def mean_pooling() -> Case:
    (X,) = inputs(X=(1, 2, 7, 7))
    rh, rw = axis(3, "rh"), axis(3, "rw")
    S = reduced(
        (1, 2, 3, 3),
        lambda n, c, h, w: sl.sum(X[n, c, h * 2 + rh, w * 2 + rw], axis=(rh, rw)), "S",
    )  # fmt: skip
    Y = sl.compute((1, 2, 3, 3), lambda *i: S[i] / 9, name="Y")

    def by_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.avg_pool2d(x, 3, 2)

    return Case(Y, [X], by_torch)


# networks


def softmax_of(X: sl.Tensor, name: str = "P") -> sl.Tensor:
    """Return the softmax along the last axis."""
    *lead, n = X.shape
    k, m = axis(n, "k"), axis(n, "m")
    T = sl.compute(tuple(lead), lambda *i: sl.max(X[(*i, k)], axis=k), name=f"{name}_top")
    E = sl.compute(X.shape, lambda *i: sl.exp(X[i] - T[i[:-1]]), name=f"{name}_exp")
    S = sl.compute(tuple(lead), lambda *i: sl.sum(E[(*i, m)], axis=m), name=f"{name}_sum")
    return sl.compute(X.shape, lambda *i: E[i] / S[i[:-1]], name=name)


@case
def softmax() -> Case:
    (X,) = inputs(X=(3, 5))
    return Case(softmax_of(X), [X], lambda x: x.softmax(1))


@case
def layer_norm() -> Case:
    X, gain, bias = inputs(X=(3, 6), gain=(6,), bias=(6,))
    k, m = axis(6), axis(6, "m")
    total = reduced((3,), lambda i: sl.sum(X[i, k], axis=k), "total")
    d = sl.compute((3, 6), lambda i, j: X[i, j] - total[i] / 6, name="d")
    squares = reduced((3,), lambda i: sl.sum(d[i, m] * d[i, m], axis=m), "squares")
    scale = sl.compute((3,), lambda i: sl.rsqrt(squares[i] / 6 + 1e-5), name="scale")
    Y = sl.compute((3, 6), lambda i, j: d[i, j] * scale[i] * gain[j] + bias[j], name="Y")

    def by_torch(x: Any, g: Any, b: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x, (6,), g, b)

    return Case(Y, [X, gain, bias], by_torch)


@case
def batch_norm() -> Case:
    X, gain, bias = inputs(X=(5, 3), gain=(3,), bias=(3,))
    k, m = axis(5), axis(5, "m")
    total = reduced((3,), lambda j: sl.sum(X[k, j], axis=k), "total")
    squares = reduced((3,), lambda j: sl.sum((X[m, j] - total[j] / 5) ** 2, axis=m), "squares")
    Y = sl.compute(
        (5, 3),
        lambda i, j: (X[i, j] - total[j] / 5) / sl.sqrt(squares[j] / 5 + 1e-5) * gain[j] + bias[j],
        name="Y",
    )

    def by_torch(x: Any, g: Any, b: Any) -> Any:
        import torch

        return torch.nn.functional.batch_norm(x, None, None, g, b, training=True)

    return Case(Y, [X, gain, bias], by_torch)


def _attention(causal: bool) -> Case:
    H, N, D = 2, 4, 3
    Q, K, V = inputs(Q=(H, N, D), K=(H, N, D), V=(H, N, D))
    d, m, n, j = axis(D, "d"), axis(N, "m"), axis(N, "n"), axis(N, "j")
    S = reduced((H, N, N), lambda h, i, t: sl.sum(Q[h, i, d] * K[h, t, d], axis=d), "S")

    def kept(i: Any, t: Any) -> Any:
        return t <= i if causal else None

    T = reduced((H, N), lambda h, i: sl.max(S[h, i, m], axis=m, where=kept(i, m)), "T")
    E = sl.compute((H, N, N), lambda h, i, t: sl.exp((S[h, i, t] - T[h, i]) / D**0.5), name="E")
    L = reduced((H, N), lambda h, i: sl.sum(E[h, i, n], axis=n, where=kept(i, n)), "L")
    O = reduced(  # noqa: E741
        (H, N, D),
        lambda h, i, c: sl.sum(E[h, i, j] / L[h, i] * V[h, j, c], axis=j, where=kept(i, j)), "O",
    )

    def by_torch(q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Case(O, [Q, K, V], by_torch)


@case
def attention() -> Case:
    return _attention(causal=False)


@case
def causal_attention() -> Case:
    return _attention(causal=True)


def _labels(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.integers(0, 5, shape)


@case
def cross_entropy() -> Case:
    (Z,) = inputs(Z=(4, 5))
    label = sl.placeholder((4,), "int64", name="label")
    P = softmax_of(Z)
    i = axis(4, "i")
    L = reduced((), lambda: sl.sum(-sl.log(P[i, label[i]]) / 4, axis=i), "L")

    def by_torch(z: Any, label: Any) -> Any:
        import torch

        return torch.nn.functional.cross_entropy(z, label)

    return Case(L, [Z], by_torch, [label], {"label": _labels})


@case
def smooth_loss() -> Case:
    X, Y = inputs(X=(7,), Y=(7,))
    k = axis(7)
    E = sl.compute((7,), lambda i: sl.abs(X[i] - Y[i]), name="E")
    L = reduced((), lambda: sl.sum(sl.select(E[k] < 1, E[k] * E[k] / 2, E[k] - 0.5), axis=k), "L")

    def by_torch(x: Any, y: Any) -> Any:
        import torch

        return torch.nn.functional.smooth_l1_loss(x, y, reduction="sum")

    return Case(L, [X, Y], by_torch)


@case
def binary_cross_entropy() -> Case:
    X, Y = inputs(X=(6,), Y=(6,))
    k = axis(6)

    def term(x: Any, y: Any) -> Any:
        return sl.max(x, 0.0) - x * y + sl.log1p(sl.exp(-sl.abs(x)))

    L = reduced((), lambda: sl.sum(term(X[k], Y[k]) / 6, axis=k), "L")

    def by_torch(x: Any, y: Any) -> Any:
        import torch

        return torch.nn.functional.binary_cross_entropy_with_logits(x, y)

    return Case(L, [X, Y], by_torch)


@case
def two_layers() -> Case:
    X, W, b, V = inputs(X=(3, 4), W=(4, 5), b=(5,), V=(5, 2))
    k, m = axis(4), axis(5, "m")
    T = reduced((3, 5), lambda i, j: sl.sum(X[i, k] * W[k, j], axis=k), "T")
    H = sl.compute((3, 5), lambda i, j: sl.max(T[i, j] + b[j], 0.0), name="H")
    Y = reduced((3, 2), lambda i, j: sl.sum(H[i, m] * V[m, j], axis=m), "Y")
    return Case(Y, [X, W, b, V], lambda x, w, b, v: (x @ w + b).relu() @ v)


@case
def embedding() -> Case:
    """Differentiate what a gather multiplies, and not what it gathers from."""
    W, S = inputs(W=(5, 3), S=(4, 3))
    index = sl.placeholder((4,), "int64", name="label")
    Z = sl.compute((4, 3), lambda i, j: W[index[i], j] * S[i, j], name="Z")
    return Case(Z, [S], lambda s, w, i: w[i] * s, [W, index], {"label": _labels})


# recurrences


@case
def cumulative_sum() -> Case:
    (X,) = inputs(X=(6, 2))
    S = sl.placeholder((6, 2), DTYPE, name="S")
    first = sl.compute((1, 2), lambda t, i: X[0, i], name="first")
    step = sl.compute((6, 2), lambda t, i: S[t - 1, i] + X[t, i] * X[t, i], name="step")
    C = sl.scan(first, step, S, inputs=[X], name="C")

    def by_torch(x: Any) -> Any:
        import torch

        return torch.cat([x[:1], x[1:] ** 2]).cumsum(0)

    return Case(C, [X], by_torch)


@case
def second_order_recurrence() -> Case:
    X, a = inputs(X=(7, 2), a=(2,))
    S = sl.placeholder((7, 2), DTYPE, name="S")
    first = sl.compute((2, 2), lambda t, i: X[t, i] * 2, name="first")
    step = sl.compute(
        (7, 2), lambda t, i: S[t - 1, i] * a[i] + S[t - 2, 1 - i] * S[t - 1, i] + X[t, i],
        name="step",
    )
    C = sl.scan(first, step, S, inputs=[X, a], name="C")

    def by_torch(x: Any, a: Any) -> Any:
        import torch

        rows = [x[0] * 2, x[1] * 2]
        for t in range(2, 7):
            rows.append(rows[-1] * a + rows[-2].flip(0) * rows[-1] + x[t])
        return torch.stack(rows)

    return Case(C, [X, a], by_torch)


@case
def recurrence_with_a_window() -> Case:
    """Read several earlier rows of a state in a reduction."""
    X, w = inputs(X=(7, 2), w=(3,))
    S = sl.placeholder((7, 2), DTYPE, name="S")
    d = axis(3, "d")
    first = sl.compute((1, 2), lambda t, i: X[0, i], name="first")
    step = sl.compute(
        (7, 2),
        lambda t, i: sl.sum(S[sl.max(t - 1 - d, 0), i] * w[d], axis=d, init=X[t, i]), name="step",
    )  # fmt: skip
    C = sl.scan(first, step, S, name="C")

    def by_torch(x: Any, w: Any) -> Any:
        import torch

        rows = [x[0]]
        for t in range(1, 7):
            rows.append(sum(rows[max(t - 1 - d, 0)] * w[d] for d in range(3)) + x[t])
        return torch.stack(rows)

    return Case(C, [X, w], by_torch)


@case
def recurrent_network() -> Case:
    X, W, U, h0 = inputs(X=(5, 2, 3), W=(3, 4), U=(4, 4), h0=(2, 4))
    H = sl.placeholder((6, 2, 4), DTYPE, name="H")
    k, m = axis(3), axis(4, "m")
    A = reduced((5, 2, 4), lambda t, b, j: sl.sum(X[t, b, k] * W[k, j], axis=k), "A")
    first = sl.compute((1, 2, 4), lambda t, b, j: h0[b, j], name="first")
    R = reduced((6, 2, 4), lambda t, b, j: sl.sum(H[t - 1, b, m] * U[m, j], axis=m), "R")
    step = sl.compute(
        (6, 2, 4), lambda t, b, j: sl.tanh(R[t, b, j] + A[sl.max(t - 1, 0), b, j]), name="step"
    )
    states = sl.scan(first, step, H, name="states")
    Y = sl.compute((2, 4), lambda b, j: states[5, b, j] * states[2, b, j], name="Y")

    def by_torch(x: Any, w: Any, u: Any, h: Any) -> Any:
        rows = [h]
        for t in range(5):
            rows.append((x[t] @ w + rows[-1] @ u).tanh())
        return rows[5] * rows[2]

    return Case(Y, [X, W, U, h0], by_torch)


def _gates(t: Any) -> Any:
    """Return the four gates of an LSTM, of which the third is a tanh."""
    i, f, g, o = t.chunk(4, -1)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


@case
def lstm_step() -> Case:
    B, D = 2, 3
    X, h, c, W = inputs(X=(B, D), h=(B, D), c=(B, D), W=(2 * D, 4 * D))
    k, m = axis(D), axis(D, "m")
    A = reduced((B, 4 * D), lambda b, j: sl.sum(X[b, k] * W[k, j], axis=k), "A")
    R = reduced((B, 4 * D), lambda b, j: sl.sum(h[b, m] * W[m + D, j], axis=m, init=A[b, j]), "R")
    C = sl.compute(
        (B, D),
        lambda b, j: sl.sigmoid(R[b, j + D]) * c[b, j]
        + sl.sigmoid(R[b, j]) * sl.tanh(R[b, j + 2 * D]),
        name="C",
    )
    Y = sl.compute((B, D), lambda b, j: sl.sigmoid(R[b, j + 3 * D]) * sl.tanh(C[b, j]), name="Y")

    def by_torch(x: Any, h: Any, c: Any, w: Any) -> Any:
        i, f, g, o = _gates(x @ w[:D] + h @ w[D:])
        return o * (f * c + i * g).tanh()

    return Case(Y, [X, h, c, W], by_torch)


@case
def lstm() -> Case:
    T, B, D = 4, 2, 3
    X, W = inputs(X=(T, B, D), W=(2 * D, 4 * D))
    H, C = (sl.placeholder((T, B, D), DTYPE, name=n) for n in ("H", "C"))
    k, m = axis(D), axis(D, "m")
    zero = sl.const(0.0, DTYPE)
    h0, c0 = (sl.compute((1, B, D), lambda t, b, j: zero, name=n) for n in ("h0", "c0"))
    A = reduced((T, B, 4 * D), lambda t, b, j: sl.sum(X[t, b, k] * W[k, j], axis=k), "A")
    R = reduced(
        (T, B, 4 * D),
        lambda t, b, j: sl.sum(H[t - 1, b, m] * W[m + D, j], axis=m, init=A[t, b, j]), "R",
    )
    c1 = sl.compute(
        (T, B, D),
        lambda t, b, j: sl.sigmoid(R[t, b, j + D]) * C[t - 1, b, j]
        + sl.sigmoid(R[t, b, j]) * sl.tanh(R[t, b, j + 2 * D]),
        name="c1",
    )
    h1 = sl.compute(
        (T, B, D), lambda t, b, j: sl.sigmoid(R[t, b, j + 3 * D]) * sl.tanh(c1[t, b, j]), name="h1"
    )
    hidden, _ = sl.scan([h0, c0], [h1, c1], [H, C], name="lstm")

    def by_torch(x: Any, w: Any) -> Any:
        import torch

        h, c = x[0] * 0, x[0] * 0
        rows = [h]
        for t in range(1, T):
            i, f, g, o = _gates(x[t] @ w[:D] + h @ w[D:])
            c = f * c + i * g
            h = o * c.tanh()
            rows.append(h)
        return torch.stack(rows)

    return Case(hidden, [X, W], by_torch)
