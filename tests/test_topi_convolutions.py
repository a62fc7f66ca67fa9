"""Convolutions of topi beside PyTorch: strides, paddings, dilations, groups, layouts, Winograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.errors import ComputeError
from schedlang.tvm.topi.nn.winograd import winograd_matrices
from tests.topi_cases import check, given, inputs_of, values

torch = pytest.importorskip("torch", reason="compares with PyTorch: the extra test-torch")
F = torch.nn.functional


def t(array: np.ndarray) -> Any:
    return torch.from_numpy(np.ascontiguousarray(array))


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation", "groups"),
    [
        ((2, 3, 7, 6), (4, 3, 3, 3), 1, 0, 1, 1),
        ((1, 4, 9, 7), (6, 2, 3, 2), (2, 1), (1, 0, 2, 1), (2, 1), 2),
        ((1, 3, 5, 5), (3, 1, 1, 5), (3, 2), (0, 2), 1, 3),
        ((1, 2, 8, 5), (2, 2, 4, 2), 3, 2, (1, 3), 1),
        ((0, 2, 4, 4), (2, 2, 3, 3), 1, 1, 1, 1),
    ],
)  # fmt: skip
def test_convolutions_of_two_dimensions(
    shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    A, W = given(A=shape, W=kernel)
    data = values(A, W)
    widths = (padding,) * 2 if isinstance(padding, int) else padding
    top, left, bottom, right = (*widths, *widths)[:4]
    padded = F.pad(t(data["A"]), (left, right, top, bottom))
    expected = F.conv2d(padded, t(data["W"]), None, stride, 0, dilation, groups).numpy()
    args = (stride, padding, dilation)
    check(topi.nn.group_conv2d_nchw(A, W, *args, groups), expected, **data)
    A, W = given(A=[shape[k] for k in (0, 2, 3, 1)], W=[kernel[k] for k in (2, 3, 1, 0)])
    data["A"] = data["A"].transpose(0, 2, 3, 1).copy()
    data["W"] = data["W"].transpose(2, 3, 1, 0).copy()
    check(topi.nn.group_conv2d_nhwc(A, W, *args, groups), expected.transpose(0, 2, 3, 1), **data)
    if groups == 1:
        A = given(A=[shape[k] for k in (2, 3, 1, 0)])[0]
        data["A"] = data["A"].transpose(1, 2, 3, 0).copy()
        check(topi.nn.conv2d_hwcn(A, W, *args), expected.transpose(2, 3, 1, 0), **data)


def test_convolutions_of_one_and_three_dimensions() -> None:
    A, W = given(A=(2, 4, 9), W=(6, 2, 4))
    data = values(A, W)
    expected = F.conv1d(t(data["A"]), t(data["W"]), None, 2, 3, 1, 2).numpy()
    check(topi.nn.group_conv1d_ncw(A, W, 2, 3, 1, 2), expected, **data)
    A, W = given(A=(2, 4, 5, 4, 6), W=(2, 4, 2, 3, 2))
    data = values(A, W)
    expected = F.conv3d(t(data["A"]), t(data["W"]), None, (1, 2, 1), (0, 1, 2), (2, 1, 1)).numpy()
    args = ((1, 2, 1), (0, 1, 2), (2, 1, 1))
    check(topi.nn.conv3d_ncdhw(A, W, *args, 1), expected, **data)
    check(topi.nn.conv3d(A, W, *args), expected, **data)


def test_convolutions_of_three_dimensions_in_groups_with_channels_last() -> None:
    A, W = given(A=(1, 3, 4, 5, 4), W=(2, 1, 3, 2, 6))
    data = values(A, W)
    x, w = data["A"].transpose(0, 4, 1, 2, 3), data["W"].transpose(4, 3, 0, 1, 2)
    expected = F.conv3d(t(x), t(w), None, 2, 1, 1, 2).numpy().transpose(0, 2, 3, 4, 1)
    check(topi.nn.conv3d(A, W, 2, 1, 1, "NDHWC", groups=2), expected, **data)
    check(topi.nn.conv3d_ndhwc(A, W, 2, 1, 1, 2), expected, **data)
    with pytest.raises(ComputeError, match="data_layout='NCHW' is not an order of the letters"):
        topi.nn.conv3d(A, W, 2, 1, 1, "NCHW")


def test_padding_by_name() -> None:
    A, W = given(A=(1, 2, 9), W=(3, 2, 4))
    data = values(A, W)
    padded = F.pad(t(data["A"]), (2, 1))
    check(topi.nn.conv1d_ncw(A, W, 1, "SAME"), F.conv1d(padded, t(data["W"])).numpy(), **data)
    check(topi.nn.conv1d(A, W), F.conv1d(t(data["A"]), t(data["W"])).numpy(), **data)


@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise_convolutions(multiplier: int) -> None:
    A, W = given(A=(2, 3, 7, 6), W=(3, multiplier, 3, 2))
    data = values(A, W)
    weight = t(data["W"]).reshape(3 * multiplier, 1, 3, 2)
    expected = F.conv2d(t(data["A"]), weight, None, (2, 1), (1, 0), (1, 2), 3).numpy()
    check(topi.nn.depthwise_conv2d_nchw(A, W, (2, 1), (1, 0), (1, 2)), expected, **data)
    A, W = given(A=(2, 7, 6, 3), W=(3, 2, 3, multiplier))
    data["A"] = data["A"].transpose(0, 2, 3, 1).copy()
    data["W"] = data["W"].transpose(2, 3, 0, 1).copy()
    made = topi.nn.depthwise_conv2d_nhwc(A, W, (2, 1), (1, 0), (1, 2))
    check(made, expected.transpose(0, 2, 3, 1), **data)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "extra", "groups"),
    [(5, 3, 2, 1, 1, 1), (4, 4, 2, 1, 0, 2), (3, 2, 3, 0, 2, 1), (5, 3, 1, 2, 0, 1),
     (4, 5, 3, 2, 1, 1), (4, 1, 2, 0, 1, 1)],
)  # fmt: skip
def test_transposed_convolutions(
    size: int, kernel: int, stride: int, padding: int, extra: int, groups: int
) -> None:
    A, W = given(A=(2, 4, size, size + 1), W=(4, 3, kernel, kernel))
    data = values(A, W)
    args = (stride, padding, extra, groups)
    expected = F.conv_transpose2d(t(data["A"]), t(data["W"]), None, *args).numpy()
    made = topi.nn.group_conv2d_transpose_nchw(A, W, stride, padding, None, extra, groups)
    check(made, expected, **data)


def test_transposed_convolutions_of_other_dimensions() -> None:
    A, W = given(A=(1, 3, 5), W=(3, 2, 4))
    data = values(A, W)
    expected = F.conv_transpose1d(t(data["A"]), t(data["W"]), None, 3, 1).numpy()
    check(topi.nn.conv1d_transpose_ncw(A, W, 3, 1), expected, **data)
    A, W = given(A=(2, 6, 5), W=(6, 2, 4))
    data = values(A, W)
    expected = F.conv_transpose1d(t(data["A"]), t(data["W"]), None, 3, 1, 2, groups=3).numpy()
    made = topi.nn.group_conv1d_transpose_ncw(A, W, 3, 1, None, 2, 3)
    assert made.name == "group_conv1d_transpose_ncw"
    check(made, expected, **data)
    A, W = given(A=(1, 2, 2, 3, 2), W=(2, 2, 2, 3, 1))
    data = values(A, W)
    expected = F.conv_transpose3d(t(data["A"]), t(data["W"]), None, (1, 2, 1), (0, 1, 0)).numpy()
    check(topi.nn.conv3d_transpose_ncdhw(A, W, (1, 2, 1), (0, 1, 0)), expected, **data)


def test_blocked_layouts_give_what_nchw_gives() -> None:
    A, W = given(A=(1, 8, 6, 5), W=(6, 8, 3, 3))
    expected = sl.reference(topi.nn.conv2d_nchw(A, W, 1, 1, 1))(**(data := values(A, W)))
    X = topi.layout_transform(A, "NCHW", "NCHW4c")
    K = topi.layout_transform(W, "OIHW", "OIHW4i3o")
    made = topi.nn.conv2d_NCHWc(X, K, 1, 1, 1, "NCHW4c", "NCHW3c")
    check(topi.layout_transform(made, "NCHW3c", "NCHW"), expected, **data)
    (D,) = given(D=(8, 1, 3, 3))
    expected = sl.reference(topi.nn.depthwise_conv2d_nchw(A, D, 2, 1, 1))(**(data := values(A, D)))
    K = topi.layout_transform(D, "OIHW", "OIHW1i4o")
    made = topi.nn.depthwise_conv2d_NCHWc(X, K, 2, 1, 1, "NCHW4c", "NCHW4c")
    check(topi.layout_transform(made, "NCHW4c", "NCHW"), expected, **data)


def test_factors_are_cast_to_the_dtype_of_the_result() -> None:
    A = sl.placeholder((1, 2, 5), "int8", name="A")
    W = sl.placeholder((3, 2, 3), "int8", name="W")
    rng = np.random.default_rng(0)
    data = {x.name: rng.integers(-128, 128, x.shape).astype("int8") for x in (A, W)}
    made = topi.nn.conv1d_ncw(A, W, out_dtype="int32")
    wide = {name: torch.from_numpy(a.astype("float64")) for name, a in data.items()}
    check(made, F.conv1d(wide["A"], wide["W"]).numpy().astype("int32"), **data)
    assert topi.nn.conv1d_ncw(A, W).dtype == "int8"


def test_symbolic_batch_and_size() -> None:
    n, h = sl.var("n"), sl.var("h")
    A, W = given(A=(n, 2, h, 6), W=(4, 1, 3, 3))
    made = topi.nn.group_conv2d_nchw(A, W, 2, 1, 1, 2)
    f = sl.build(sl.schedule(made), target="python")
    for sizes in ((1, 5), (2, 1), (0, 4)):
        A_, W_ = given(A=(sizes[0], 2, sizes[1], 6), W=(4, 1, 3, 3))
        data = values(A_, W_)
        expected = F.conv2d(t(data["A"]), t(data["W"]), None, 2, 1, 1, 2).numpy()
        np.testing.assert_allclose(f(**data), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd(tile: int) -> None:
    A, W = given(A=(2, 3, 7, 5), W=(4, 3, 3, 3))
    data = values(A, W)
    expected = F.conv2d(t(data["A"]), t(data["W"]), None, 1, (1, 2)).numpy()
    made = topi.nn.conv2d_winograd_nchw(A, W, 1, (1, 2), 1, tile_size=tile)
    check(made, expected, 1e-4, **data)
    ahead = topi.nn.conv2d_winograd_weight_transform(W, tile, "NCHW")
    U = sl.placeholder(ahead.shape, name="U")
    transformed = sl.reference(ahead)(data["W"])
    made = topi.nn.conv2d_winograd_nchw_without_weight_transform(A, U, 1, (1, 2), 1)
    check(made, expected, 1e-4, A=data["A"], U=transformed)


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_in_nhwc(tile: int) -> None:
    A, K = given(A=(1, 5, 6, 3), K=(4, 3, 3, 3))
    data = values(A, K)
    inner = t(data["A"].transpose(0, 3, 1, 2))
    expected = F.conv2d(inner, t(data["K"])).numpy().transpose(0, 2, 3, 1)
    U = topi.nn.conv2d_winograd_weight_transform(K, tile)
    check(topi.nn.conv2d_winograd_nhwc_without_weight_transform(A, U, 1, 0, 1), expected, 1e-4,
          **data)  # fmt: skip


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_matrices_are_those_of_the_paper(tile: int) -> None:
    """F(m, 3) of one dimension is exact: A.T @ ((B.T @ d) * (G @ g)) in rational numbers."""
    a, b, g = (np.array(m, dtype=object) for m in winograd_matrices(tile))
    rng = np.random.default_rng(0)
    d, w = rng.integers(-9, 9, tile + 2), rng.integers(-9, 9, 3)
    expected = [sum(d[i + k] * w[k] for k in range(3)) for i in range(tile)]
    assert (a.T @ ((b.T @ d) * (g @ w))).tolist() == expected


@pytest.mark.parametrize(("tile", "limit"), [(2, 4e-7), (4, 1.6e-6)])
def test_winograd_error_beside_float64(tile: int, limit: float) -> None:
    """The error relative to the largest output; docs/reference/topi.md states what is measured."""
    A, W = given(A=(1, 32, 12, 12), W=(8, 32, 3, 3))
    data = inputs_of(made := topi.nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=tile))
    exact = F.conv2d(t(data["A"]).double(), t(data["W"]).double(), padding=1).numpy()
    assert np.abs(sl.reference(made)(**data) - exact).max() < limit * np.abs(exact).max()
