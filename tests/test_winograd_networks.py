"""Winograd's filtering in networks: which convolutions are replaced, and the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import operations, placeholders
from schedlang.errors import NetworkError
from schedlang.networks.layouts import blocked_layouts
from schedlang.networks.winograd import Convolution, Winograd, by_rule, forms, with_winograd


def tensor(name: str, *shape: Any, dtype: str = "float64") -> sl.Tensor:
    return sl.placeholder(shape, dtype, name=name)


def checked(outputs: sl.Tensor, params: list[sl.Tensor], tile: int = 4) -> Winograd:
    """Return the network with Winograd's filtering, after a comparison of its results."""
    found = with_winograd(outputs, params, lambda found: tile)
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.shape).astype(t.dtype) for t in placeholders([outputs])}
    (made,) = found.outputs
    assert (made.shape, made.dtype, made.name) == (outputs.shape, outputs.dtype, outputs.name)
    expected, given = sl.reference(outputs)(**arrays), sl.reference(made)(**arrays)
    np.testing.assert_allclose(given, expected, atol=1e-11 * max(1, np.abs(expected).max()))
    assert {t for made in found.weights for t in placeholders([made])} <= set(params)
    return found


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("edges", [(8, 8), (7, 5), (3, 1)])
def test_convolutions_of_any_size(tile: int, edges: tuple[int, int]) -> None:
    A, W = tensor("A", 2, 3, *edges), tensor("W", 5, 3, 3, 3)
    assert checked(topi.nn.conv2d_nchw(A, W, 1, 1, 1), [W], tile).replaced == ("conv2d_nchw",)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c", "no padding", "of a relu"])
def test_convolutions_of_any_layout(layout: str) -> None:
    A, W = tensor("A", 1, 4, 6, 7), tensor("W", 6, 4, 3, 3)
    if layout == "NHWC":
        A, W = tensor("A", 1, 6, 7, 4), tensor("W", 3, 3, 4, 6)
        out = topi.nn.conv2d_nhwc(A, W, 1, 1, 1)
    elif layout == "NCHW2c":
        A, W = tensor("A", 1, 2, 6, 7, 2), tensor("W", 3, 2, 3, 3, 2, 2)
        out = topi.nn.conv2d_NCHWc(A, W, 1, 1, 1, layout, layout)
    else:
        read = topi.nn.relu(A) if layout == "of a relu" else A
        out = topi.nn.conv2d_nchw(read, W, 1, int(layout != "no padding"), 1)
    found = checked(out, [W])
    assert len(found.weights) == 1 and found.weights[0].shape[:2] == (6, 6)


def test_weights_of_two_results_by_hand() -> None:
    """F(2, 3) of rows [1, 2, 3], as of columns: 1, (1 + 2 + 3)/2, (1 - 2 + 3)/2, 3."""
    A, W = tensor("A", 1, 1, 4, 4), tensor("W", 1, 1, 3, 3)
    found = checked(topi.nn.conv2d_nchw(A, W, 1, 0, 1), [W], 2)
    row = np.array([1.0, 2, 3])
    values = sl.reference(found.weights[0])(np.outer(row, row)[None, None])
    np.testing.assert_allclose(np.abs(values[:, :, 0, 0]), np.outer([1, 3, 1, 3], [1, 3, 1, 3]))


def test_other_sums_stay() -> None:
    A, W = tensor("A", 1, 4, 9, 9), tensor("W", 4, 4, 3, 3)
    wide, deep = tensor("W", 4, 4, 5, 5), tensor("W", 4, 1, 3, 3)
    whole = tensor("W", 4, 4, 3, 3, dtype="int32")
    others = {
        "strided": (topi.nn.conv2d_nchw(A, W, 2, 1, 1), W),
        "dilated": (topi.nn.conv2d_nchw(A, W, 1, 1, 2), W),
        "5 by 5": (topi.nn.conv2d_nchw(A, wide, 1, 2, 1), wide),
        "depthwise": (topi.nn.depthwise_conv2d_nchw(A, deep, 1, 1, 1), deep),
        "max": (topi.nn.pool2d(A, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "max"), W),
        "whole numbers": (
            topi.nn.conv2d_nchw(tensor("A", 1, 4, 9, 9, dtype="int32"), whole, 1, 1, 1), whole),
        "data times data": (topi.nn.conv2d_nchw(A, topi.nn.relu(tensor("B", 4, 4, 3, 3)), 1, 1, 1),
                            W),
    }  # fmt: skip
    for what, (out, weight) in others.items():
        found = with_winograd(out, [weight], lambda found: 4)
        assert found.outputs == (out,) and not found.replaced, what


def test_which_convolutions_gain() -> None:
    def replaced(channels: int, edge: int, images: int = 1) -> bool:
        A, W = tensor("A", images, channels, edge, edge), tensor("W", 32, channels, 3, 3)
        return bool(with_winograd(topi.nn.conv2d_nchw(A, W, 1, 1, 1), [W]).replaced)

    assert replaced(32, 14) and not replaced(3, 14) and not replaced(32, 7)
    # four tiles of each of several images
    assert replaced(32, 7, 3) and not replaced(32, 7, 2)
    A, W = tensor("A", 1, 32, 16, 16), tensor("W", 32, 32, 3, 3)
    named = sl.named("layer", topi.nn.conv2d_nchw(A, W, 1, 1, 1))
    asked: list[Convolution] = []

    def none(found: Convolution) -> int:
        asked.append(found)
        return 0

    assert with_winograd(named, [W], none).outputs == (named,)
    (found,) = asked
    assert (found.name, found.channels, found.tiles(4), found.all_tiles(2)) == (
        "layer", (32, 32), (4, 4), 64,
    )  # fmt: skip


def test_forms_that_may_be_the_fastest() -> None:
    def found(channels: int, edge: int, images: int = 1) -> tuple[int, tuple[int, ...]]:
        asked: list[tuple[int, tuple[int, ...]]] = []

        def direct(found: Convolution) -> int:
            asked.append((by_rule(found), forms(found)))
            return 0

        A, W = tensor("A", images, channels, edge, edge), tensor("W", 64, channels, 3, 3)
        with_winograd(topi.nn.conv2d_nchw(A, W, 1, 1, 1), [W], direct)
        return asked[0]

    # 196, 16 and 4 tiles of 4 by 4, and 4 of each of eight images
    assert found(64, 56) == (4, (0, 4)) and found(64, 14) == (4, (0, 4, 2))
    assert found(64, 7) == (0, (0, 2)) and found(64, 7, 8) == (4, (0, 4))
    assert found(8, 56) == (0, (0,)) and found(64, 3) == (0, (0,))
    # a tile of each image
    by_images = {n: found(64, 4, n) for n in (11, 12, 15, 16)}
    assert by_images == {n: (m, (0, 4, 2)) for n, m in zip(by_images, (0, 2, 2, 4))}
    assert found(31, 4, 16)[0] == 0


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_symbolic_number_of_images(layout: str) -> None:
    """Pixels and channels are known, and one image has enough tiles."""
    n, last = sl.var("n"), layout == "NHWC"
    A = tensor("A", n, 13, 15, 32) if last else tensor("A", n, 32, 13, 15)
    W = tensor("W", 3, 3, 32, 33) if last else tensor("W", 33, 32, 3, 3)
    out = (topi.nn.conv2d_nhwc if last else topi.nn.conv2d_nchw)(A, W, 1, 1, 1)
    found = with_winograd(out, [W])
    assert found.replaced == (f"conv2d_{layout.lower()}",)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(W.shape)
    for images in (1, 3):
        a = rng.standard_normal((images, *A.shape[1:]))
        np.testing.assert_allclose(
            sl.reference(found.outputs[0])(a, w), sl.reference(out)(a, w), atol=1e-10
        )


def test_symbolic_sizes_that_stay_direct() -> None:
    """The number of tiles is not known, or one image has too few."""
    n, high, W = sl.var("n"), sl.var("high"), tensor("W", 32, 32, 3, 3)
    for A in (tensor("A", 1, 32, high, 16), tensor("A", n, 32, 7, 7)):
        out = topi.nn.conv2d_nchw(A, W, 1, 1, 1)
        assert with_winograd(out, [W]).outputs == (out,)


@pytest.mark.slow
def test_a_network_of_a_symbolic_number_of_images() -> None:
    n, rng = sl.var("n"), np.random.default_rng(0)
    A, W = tensor("A", n, 32, 13, 15, dtype="float32"), tensor("W", 32, 32, 3, 3, dtype="float32")
    out = topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1))
    w = rng.standard_normal(W.shape).astype("float32")
    net = sl.network(out, {W: w})
    assert any(part.name.endswith("_products") for part in net.partition)
    for images in (1, 4, 32):
        a = rng.standard_normal((images, *A.shape[1:])).astype("float32")
        rows = np.lib.stride_tricks.sliding_window_view(
            np.pad(a.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
        )
        expected = np.maximum(np.einsum("nchwyx,ocyx->nohw", rows, w, optimize=True), 0)
        np.testing.assert_allclose(net(a), expected, atol=1e-5 * expected.max())


def test_tiles_of_other_sizes_are_refused() -> None:
    A, W = tensor("A", 1, 3, 6, 6), tensor("W", 3, 3, 3, 3)
    out = sl.named("layer", topi.nn.conv2d_nchw(A, W, 1, 1, 1))
    sizes: list[Any] = [3, True, None]
    while sizes:
        message = f"{sizes[-1]} for layer is not a size of tiles; return 2 or 4, or 0"
        with pytest.raises(NetworkError, match=message):
            with_winograd(out, [W], lambda found: sizes.pop())


def test_equal_names_of_convolutions() -> None:
    """The stages of each have names of their own, as those of two direct convolutions have."""
    A, U, V = tensor("A", 1, 3, 6, 6), tensor("U", 3, 3, 3, 3), tensor("V", 3, 3, 3, 3)
    out = topi.nn.conv2d_nchw(topi.nn.conv2d_nchw(A, U, 1, 1, 1), V, 1, 1, 1)
    found = with_winograd(out, [U, V], lambda found: 2)
    assert found.replaced == ("conv2d_nchw", "conv2d_nchw_1")
    names = [op.name for op in operations(found.outputs)]
    assert names.count("conv2d_nchw_products") == names.count("conv2d_nchw_1_products") == 1


def test_a_network_in_blocks() -> None:
    """Both passes together: vectors of channels in the transforms, and an epilogue."""
    x = tensor("x", 1, 3, 9, 8)
    params = [tensor("w0", 32, 3, 3, 3), tensor("w1", 16, 32, 3, 3), tensor("b", 16)]
    y = topi.nn.relu(topi.nn.conv2d_nchw(x, params[0], 1, 1, 1))
    y = topi.add(topi.nn.conv2d_nchw(y, params[1], 1, 1, 1), topi.expand_dims(params[2], 1, 2))
    out = topi.nn.global_pool(topi.nn.relu(y), "avg")
    (blocked,) = blocked_layouts(out, params, sl.Target("cpu", vector_bytes=64)).outputs
    found = checked(blocked, params)
    assert [t.shape for t in found.weights] == [(6, 6, 4, 3, 8), (6, 6, 2, 4, 8, 8)]
    rng = np.random.default_rng(1)
    arrays = {t.name: rng.standard_normal(t.shape) for t in [x, *params]}
    np.testing.assert_allclose(
        sl.reference(found.outputs[0])(**arrays), sl.reference(out)(**arrays), rtol=1e-9
    )


def test_all_stages_of_a_convolution_belong_to_its_layer() -> None:
    x, w, b = (sl.placeholder(shape, name=n) for n, shape in (
        ("x", (1, 32, 24, 24)), ("w", (32, 32, 3, 3)), ("b", (32, 1, 1))))  # fmt: skip
    conv = sl.named("conv", topi.nn.conv2d_nchw(x, w, 1, 1, 1))
    out = sl.named("relu", topi.nn.relu(topi.add(conv, b)))
    arrays = {t: np.random.default_rng(0).random(t.shape, "float32") for t in (w, b)}
    layers = {"pad_temp": "body.0", "conv": "body.0", "add": "body.0", "relu": "body.1"}
    model = sl.frontend.Imported((out,), (x,), arrays, layers)
    net = sl.network(model)
    assert {part.name: part.layers for part in net.partition} == {
        "conv_data": ("body.0",), "conv_products": ("body.0",), "relu": ("body.0", "body.1"),
    }  # fmt: skip
    (part,) = sl.network(model, fuse=["body.0"], target="python").partition
    assert part.layers == ("body.0", "body.1")
    cut = sl.network(model, cut=["body.0"]).partition
    assert [part.stages[-1] for part in cut][-2:] == ["add", "relu"]
