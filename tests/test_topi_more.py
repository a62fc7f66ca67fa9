"""Operators of topi beside NumPy and PyTorch: blocks, losses, points of images, set elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import ComputeError, ComputeTypeError
from tests.marks import slow_but
from tests.topi_cases import check, given, values

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(3)


def blocks_of(x: np.ndarray, block: tuple[int, ...], before: Any, after: Any) -> np.ndarray:
    """Return the elements of blocks as batches, by transposing in NumPy."""
    rest = x.ndim - 1 - len(block)
    x = np.pad(x, [(0, 0), *zip(before, after), *[(0, 0)] * rest], constant_values=1.5)
    shape = [x.shape[0]]
    for size, b in zip(x.shape[1:], block):
        shape += [size // b, b]
    inner = [2 + 2 * k for k in range(len(block))]
    outer = [1 + 2 * k for k in range(len(block))]
    split = x.reshape(*shape, *x.shape[1 + len(block) :])
    moved = split.transpose(*inner, 0, *outer, *range(len(shape), split.ndim))
    return moved.reshape(-1, *moved.shape[len(block) + 1 :])


@pytest.mark.parametrize(
    ("shape", "block", "before", "after"),
    [((2, 6, 7, 3), (2, 2), (0, 0), (0, 1)), ((1, 5), (3,), (1,), (0,)),
     ((2, 4, 3, 2), (2, 1, 2), (0, 0, 1), (0, 0, 1))],
)  # fmt: skip
def test_blocks_of_space_and_back(shape: Any, block: Any, before: Any, after: Any) -> None:
    (A,) = given(A=shape)
    x = RNG.standard_normal(shape).astype("float32")
    there = topi.nn.space_to_batch_nd(A, list(block), list(before), list(after), 1.5)
    expected = blocks_of(x, block, before, after)
    check(there, expected, A=x)
    (B,) = given(B=expected.shape)
    back = topi.nn.batch_to_space_nd(B, list(block), list(before), list(after))
    check(back, x, B=np.ascontiguousarray(expected))


def test_depth_to_space_has_both_names_of_an_order() -> None:
    (A,) = given(A=(2, 12, 3, 4))
    data = values(A)
    expected = F.pixel_shuffle(torch.from_numpy(data["A"]), 2)
    for mode in ("CDR", "CRD"):
        check(topi.nn.depth_to_space(A, 2, mode=mode), expected, **data)


def test_instance_norm_has_the_arguments_of_tvm() -> None:
    A, g, b = given(A=(2, 3, 4, 5), g=(4, 5), b=(4, 5))
    data = values(A, g, b)
    a, gamma, beta = (torch.from_numpy(data[n]) for n in "Agb")
    expected = F.layer_norm(a, (4, 5), gamma, beta, 1e-3)
    check(topi.nn.instance_norm(A, g, b, axis=[2, 3], epsilon=1e-3), expected, **data)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("more", [(), (3,), (2, 3)])
def test_nll_loss(reduction: str, more: tuple[int, ...]) -> None:
    P, W = given(P=(4, 5, *more), W=(5,))
    T = sl.placeholder((4, *more), "int32", name="T")
    data = {**values(P, W), "T": RNG.integers(0, 5, (4, *more)).astype("int32")}
    data["T"].flat[1] = 2
    wanted = F.nll_loss(
        torch.from_numpy(data["P"]), torch.from_numpy(data["T"]).long(),
        torch.from_numpy(data["W"]), ignore_index=2, reduction=reduction,
    )  # fmt: skip
    check(topi.nn.nll_loss(P, T, W, reduction, 2), wanted, **data)


def test_nll_loss_of_one_target() -> None:
    P, W = given(P=(5,), W=(5,))
    T = sl.placeholder((), "int32", name="T")
    data = {**values(P, W), "T": np.array(3, "int32")}
    check(topi.nn.nll_loss(P, T, W, "sum"), -data["P"][3] * data["W"][3], **data)
    check(topi.nn.nll_loss(P, T, W), -data["P"][3], **data)


def correlation(
    a: np.ndarray, b: np.ndarray, kernel: int, far: int, steps: tuple[int, int], product: bool
) -> np.ndarray:
    border, radius = far + kernel // 2, far // steps[1]
    rows, columns = ((size - 2 * border + steps[0] - 1) // steps[0] for size in a.shape[2:])
    moves = [d * steps[1] for d in range(-radius, radius + 1)]
    out = np.zeros((len(a), len(moves) ** 2, rows, columns))
    for i in range(rows):
        for j in range(columns):
            y, x = i * steps[0] + far, j * steps[0] + far
            one = a[:, :, y : y + kernel, x : x + kernel]
            for q, (dy, dx) in enumerate((dy, dx) for dy in moves for dx in moves):
                other = b[:, :, y + dy : y + dy + kernel, x + dx : x + dx + kernel]
                value = one * other if product else np.abs(one - other)
                out[:, q, i, j] = value.mean((1, 2, 3))
    return out


@pytest.mark.parametrize("case", [(1, 2, (1, 1), 2, True), (3, 2, (2, 2), 0, False)])
def test_correlation(case: Any) -> None:
    kernel, far, steps, padding, product = case
    A, B = given(A=(2, 3, 8, 9), B=(2, 3, 8, 9))
    data = values(A, B)
    result = topi.nn.correlation_nchw(A, B, kernel, far, *steps, padding, product)
    wide = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    padded = (np.pad(x, wide) for x in data.values())
    check(result, correlation(*padded, kernel, far, steps, product), **data)


@pytest.mark.parametrize("align", slow_but(["True"], [True, False]))
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_grid_sample(method: str, padding: str, align: bool) -> None:
    A, G = given(A=(2, 3, 5, 7), G=(2, 2, 4, 6))
    data = {**values(A), "G": RNG.uniform(-2.7, 2.7, G.shape).astype("float32")}
    grid = torch.from_numpy(data["G"]).permute(0, 2, 3, 1)
    expected = F.grid_sample(torch.from_numpy(data["A"]), grid, method, padding, align)
    check(topi.image.grid_sample(A, G, method, "NCHW", padding, align), expected, 1e-4, **data)


def test_affine_grid() -> None:
    (M,) = given(M=(3, 2, 3))
    data = values(M)
    grid = F.affine_grid(torch.from_numpy(data["M"]), [3, 1, 4, 6], align_corners=True)
    check(topi.image.affine_grid(M, (4, 6)), grid.permute(0, 3, 1, 2), **data)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crop_and_resize_is_a_sampled_grid(layout: str) -> None:
    A, B = given(A=(2, 3, 9, 11), B=(5, 4))
    chosen = sl.placeholder((5,), "int32", name="I")
    corners = np.sort(RNG.random((5, 2, 2)), axis=1).reshape(5, 4)
    data = {**values(A), "B": corners.astype("float32"), "I": np.array([0, 1, 1, 0, 1], "int32")}
    expected = np.zeros((5, 3, 4, 6), "float32")
    for n, (y1, x1, y2, x2) in enumerate(data["B"]):
        ys, xs = np.linspace(y1, y2, 4) * 2 - 1, np.linspace(x1, x2, 6) * 2 - 1
        grid = torch.from_numpy(np.stack(np.meshgrid(xs, ys), -1)[None].astype("float32"))
        image = torch.from_numpy(data["A"][data["I"][n]][None])
        expected[n] = F.grid_sample(image, grid, align_corners=True)[0]
    if layout == "NHWC":
        A = sl.placeholder((2, 9, 11, 3), name="A")
        data["A"] = np.ascontiguousarray(data["A"].transpose(0, 2, 3, 1))
        expected = expected.transpose(0, 2, 3, 1)
    result = topi.image.crop_and_resize(A, B, chosen, (4, 6), layout)
    check_indexed(result, expected, data)


def test_crop_outside_of_the_image() -> None:
    A, B = given(A=(1, 2, 5, 5), B=(1, 4))
    chosen = sl.placeholder((1,), "int32", name="I")
    data = {**values(A), "B": np.array([[-0.5, 0, 1, 1]], "float32"), "I": np.zeros(1, "int32")}
    result = topi.image.crop_and_resize(A, B, chosen, (4, 5), "NCHW", "nearest_neighbor", 7.0)
    expected = np.full((1, 2, 4, 5), 7.0)
    expected[0, :, 1:] = data["A"][0][:, [0, 2, 4]]
    check_indexed(result, expected, data)


def check_indexed(result: Any, expected: np.ndarray, data: dict[str, np.ndarray]) -> None:
    """Compare a kernel whose indices depend on data, which each call checks."""
    np.testing.assert_allclose(
        sl.build(sl.schedule(result), target="python")(**data), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("k", [0, 2, -1, (-1, 1), (0, 3), (-2, -1)])
@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT"])
def test_matrix_set_diag(k: Any, align: str) -> None:
    low, high = k if isinstance(k, tuple) else (k, k)
    most = max(min(5 - max(d, 0), 3 + min(d, 0)) for d in range(low, high + 1))
    rows = () if low == high else (high - low + 1,)
    A, D = given(A=(2, 3, 5), D=(2, *rows, most))
    data = values(A, D)
    expected = data["A"].copy()
    for d in range(low, high + 1):
        row = data["D"][:, high - d] if rows else data["D"]
        length = min(5 - max(d, 0), 3 + min(d, 0))
        row = row[:, -length:] if align.split("_")[d < 0] == "RIGHT" else row[:, :length]
        for n in range(length):
            expected[:, n - min(d, 0), n + max(d, 0)] = row[:, n]
    check(topi.matrix_set_diag(A, D, k, align), expected, **data)


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [((1, 0), (5, 4), None), ((5, 4), (-7, 0), (-2, -1)), ((-4, 1), (-1, 5), (2, 3)),
     ((2, 0), (2, 5), (1, 1))],
)  # fmt: skip
def test_strided_set(begin: Any, end: Any, strides: Any) -> None:
    steps = strides or (1, 1)
    places = tuple(slice(*part) for part in zip(begin, end, steps))
    x = RNG.random((6, 5)).astype("float32")
    A, V = given(A=x.shape, V=x[places].shape)
    data = {"A": x, **values(V)}
    expected = x.copy()
    expected[places] = data["V"]
    if not data["V"].size:
        # nothing reads it
        del data["V"]
    check(topi.strided_set(A, V, begin, end, strides), expected, **data)


@pytest.mark.parametrize("target", [(2, 3, 4), (3, 4), (3, 1), (1, 1, 1), (4,), ()])
def test_collapse_sum(target: tuple[int, ...]) -> None:
    (A,) = given(A=(2, 3, 4))
    data = values(A)
    extra = 3 - len(target)
    axes = tuple(k for k in range(3) if k < extra or target[k - extra] == 1)
    check(topi.collapse_sum(A, target), data["A"].sum(axes).reshape(target), **data)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("padding", [0, 1])
def test_pool_grad(kind: str, padding: int) -> None:
    (A,) = given(A=(1, 2, 6, 7))
    data = values(A)
    x = torch.from_numpy(data["A"]).requires_grad_()
    pooled = {"max": F.max_pool2d, "avg": F.avg_pool2d}[kind](x, 3, 2, padding)
    G = sl.placeholder(tuple(pooled.shape), name="G")
    data |= values(G, seed=1)
    pooled.backward(torch.from_numpy(data["G"]))
    assert x.grad is not None
    result = topi.nn.pool_grad(G, A, [3, 3], [2, 2], [padding] * 4, kind)
    if kind == "avg":
        # the gradient of a mean reads no elements
        del data["A"]
    check(result, x.grad, 1e-4, **data)


def test_upsampling3d() -> None:
    (A,) = given(A=(1, 2, 3, 4, 5))
    data = values(A)
    x = torch.from_numpy(data["A"])
    expected = F.interpolate(x, (6, 8, 10), mode="trilinear", align_corners=False)
    result = topi.nn.upsampling3d(A, 2, 2, 2, method="trilinear")
    check(result, expected, **data)


def test_a_broadcast_of_0d_tensors_is_a_tensor() -> None:
    A, B = given(A=(), B=())
    data = values(A, B)
    check(topi.add(A, B), data["A"] + data["B"], **data)
    check(topi.multiply(A, 2.5), data["A"] * np.float32(2.5), A=data["A"])
    C = sl.compute((3,), lambda i: topi.maximum(A, 1.0 * i), name="C")
    check(C, np.maximum(data["A"], np.arange(3, dtype="float32")), A=data["A"])


def ints(*shape: int) -> Any:
    return sl.placeholder(shape, "int32", name="V")


def match(kernel: int, far: int) -> Any:
    A, B = given(A=(1, 3, 4, 4), B=(1, 3, 4, 4))
    return topi.nn.correlation_nchw(A, B, kernel, far, 1, 1, 0, True)


REFUSALS = {
    "blocks": (lambda A: topi.nn.space_to_batch_nd(A, [4], [0], [0]), "does not .*divide"),
    "crops": (lambda A: topi.nn.batch_to_space_nd(A, [2], [3], [3]), "leaves none"),
    "many blocks": (lambda A: topi.nn.space_to_batch_nd(A, [1] * 3, [0] * 3, [0] * 3), "in all"),
    "diagonals": (lambda A: topi.matrix_set_diag(A, A, 9), "which are -1 to 2"),
    "no stride": (lambda A: topi.strided_set(A, A, [0, 0], [2, 3], [0, 1]), "stride .* is 0"),
    "tensors": (lambda A: topi.strided_set(A, A, A, [2, 3]), "must be known before a call"),
    "steps": (lambda A: topi.strided_set(A, A, [0, 0], [2, 3], A), "strides is the tensor"),
    "many diagonals": (lambda A: topi.matrix_set_diag(A, A, (0, 1, 2)), "k=.* has 3 numbers"),
    "dtype of a diagonal": (lambda A: topi.matrix_set_diag(A, ints(2)), "is int32, and A is float"),
    "dtype of a slice": (
        lambda A: topi.strided_set(A, ints(2, 3), [0, 0], [2, 3]),
        "is int32, and",
    ),
    "even kernel": (lambda A: match(2, 1), "kernel_size=2 is even"),
    "large kernel": (lambda A: match(9, 1), "leaves none; give more padding"),
    "target": (lambda A: topi.collapse_sum(A, (2, 2)), "does not broadcast"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    made, words = REFUSALS[case]
    with pytest.raises((ComputeError, ComputeTypeError), match=words):
        made(sl.placeholder((2, 3), name="A"))


def test_one_hot_stands_where_tvm_has_it() -> None:
    assert topi.transform.one_hot is topi.one_hot
