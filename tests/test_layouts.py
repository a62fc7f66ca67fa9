"""Layouts of networks: channels in blocks, packed weights, and the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.compute.graph import operations, placeholders
from schedlang.networks.layouts import Layouts, blocked_layouts

WIDE = sl.Target("cpu", vector_bytes=64)


class Net:
    """A network under construction, with its weights."""

    def __init__(self) -> None:
        self.params: list[sl.Tensor] = []

    def weight(self, *shape: Any) -> sl.Tensor:
        made = sl.placeholder(shape, name=f"w{len(self.params)}")
        self.params.append(made)
        return made

    def conv(self, x: sl.Tensor, channels: int, kernel: int = 3, stride: int = 1) -> sl.Tensor:
        w = self.weight(channels, x.shape[1], kernel, kernel)
        y = topi.nn.conv2d_nchw(x, w, stride, kernel // 2, 1)
        return topi.add(y, topi.expand_dims(self.weight(channels), 1, 2))

    def relu(self, x: sl.Tensor, channels: int, kernel: int = 3, stride: int = 1) -> sl.Tensor:
        return topi.nn.relu(self.conv(x, channels, kernel, stride))


def image(channels: int = 3, edge: int = 6) -> sl.Tensor:
    return sl.placeholder((1, channels, edge, edge), name="x")


def checked(
    outputs: sl.Tensor | Sequence[sl.Tensor], params: Sequence[sl.Tensor], **sizes: int
) -> Layouts:
    """Return the network in blocks, after a comparison of its results on whole numbers."""
    before = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    found = blocked_layouts(outputs, params, WIDE)
    rng = np.random.default_rng(0)
    arrays = {}
    for t in placeholders(before):
        shape = tuple(n if isinstance(n, int) else sizes[str(n)] for n in t.shape)
        arrays[t.name] = rng.integers(-3, 4, shape).astype(t.dtype)
    expected, given = (sl.reference(list(x))(**arrays) for x in (before, found.outputs))
    for old, new, one, other in zip(before, found.outputs, expected, given):
        assert (new.shape, new.dtype, new.name) == (old.shape, old.dtype, old.name)
        np.testing.assert_allclose(one, other, rtol=1e-5)
    # packed weights depend on weights alone
    assert {t for made in found.packed for t in placeholders([made])} <= set(params)
    return found


def divided(found: Layouts) -> list[str]:
    """Return the lines of the loop nest with a division or a remainder."""
    return [line for line in str(sl.schedule(list(found.outputs))).splitlines()
            if "//" in line or "%" in line]  # fmt: skip


def residual_network(net: Net) -> sl.Tensor:
    y = net.relu(image(), 32, 3, 2)
    y = topi.nn.pool2d(y, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")
    z = net.relu(net.relu(y, 16, 1), 16)
    y = topi.nn.relu(topi.add(net.conv(z, 32, 1), y))
    y = topi.nn.global_pool(net.conv(y, 48, 1), "avg")
    return topi.nn.dense(topi.nn.flatten(y), net.weight(10, 48))


def test_a_residual_network_is_in_blocks() -> None:
    net = Net()
    found = checked(residual_network(net), net.params)
    assert {str(block) for block in found.blocks.values()} == {"1 in blocks of 16"}
    # all convolutions with their epilogues, poolings and paddings
    assert len(found.blocks) == 18
    shapes = {t.name: t.shape for t in found.packed}
    assert shapes["w0_packed"] == (2, 3, 3, 3, 16)
    assert shapes["w2_packed"] == (1, 2, 1, 1, 16, 16)
    # a vector of a pooling over the image reads one block
    (line,) = divided(found)
    assert line.strip() == "global_pool_sum[0, c, 0, 0] += add_5[0, c//16, ry, rx, c%16]"


def test_packed_weights_are_in_the_order_of_the_loops() -> None:
    net = Net()
    out = topi.nn.global_pool(net.conv(net.relu(image(16), 32), 16, 1), "max")
    found = checked(out, net.params)
    values = np.arange(32 * 16 * 9, dtype="float32").reshape(32, 16, 3, 3)
    first = next(t for t in found.packed if t.name == "w0_packed")
    packed = sl.reference(first)(values)
    # the input has no blocks, so that its channels are one loop
    assert packed.shape == (2, 16, 3, 3, 16)
    np.testing.assert_array_equal(
        packed, values.reshape(2, 16, 16, 3, 3).transpose(0, 2, 3, 4, 1)
    )


@pytest.mark.parametrize(("channels", "size"), [(16, 16), (48, 16), (24, 8), (20, 0), (7, 0)])
def test_odd_numbers_of_channels_stay(channels: int, size: int) -> None:
    net = Net()
    out = topi.nn.global_pool(net.relu(net.relu(image(), channels), 16), "avg")
    found = checked(out, net.params)
    first = next(op for op in operations(found.outputs) if op.name == "conv2d_nchw").outputs[0]
    assert first.shape == ((1, channels // size, 6, 6, size) if size else (1, channels, 6, 6))


def test_depthwise_convolutions_follow() -> None:
    net = Net()
    y = net.relu(image(), 32, 1)
    y = topi.nn.relu(topi.nn.depthwise_conv2d_nchw(y, net.weight(32, 1, 3, 3), 2, 1, 1))
    found = checked(topi.nn.global_pool(net.conv(y, 16, 1), "avg"), net.params)
    assert {t.name: t.shape for t in found.packed}["w2_packed"] == (2, 3, 3, 16)
    assert all("global_pool" in line for line in divided(found))


@pytest.mark.parametrize(("first", "clean"), [(16, True), (8, True), (12, False)])
def test_concatenations_of_whole_blocks_are_in_blocks(first: int, clean: bool) -> None:
    net = Net()
    x = net.relu(image(), 32, 1)
    joined = topi.concatenate([net.relu(x, first, 1), net.relu(x, 32 - first, 3)], 1)
    found = checked(topi.nn.global_pool(net.conv(joined, 16, 1), "avg"), net.params)
    assert ("concatenate" in " ".join(found.blocks)) == clean


def test_squeeze_and_excitation_scales_blocks() -> None:
    net = Net()
    y = net.relu(image(), 32)
    s = topi.sigmoid(net.conv(net.relu(topi.nn.global_pool(y, "avg"), 8, 1), 32, 1))
    found = checked(topi.nn.global_pool(net.conv(topi.multiply(y, s), 16, 1), "avg"), net.params)
    assert "multiply" in found.blocks


def test_readers_of_other_orders() -> None:
    """A flattened image, transposes, shuffles, gathers and softmax over channels are right."""
    net = Net()
    y = net.relu(net.relu(image(), 16), 32)
    flat = topi.nn.dense(topi.nn.flatten(y), net.weight(5, 32 * 36))
    shuffled = topi.nn.depth_to_space(y, 2)
    turned = topi.transpose(y, (0, 2, 3, 1))
    shares = topi.nn.softmax(y, axis=1)
    c = sl.reduce_axis(32, "c")
    strided = sl.compute((6, 6), lambda i, j: sl.sum(y[0, 31 - c, i, j], axis=c), name="strided")
    largest = topi.argmax(y, axis=1)
    found = checked([flat, shuffled, turned, shares, strided, largest], net.params)
    assert "conv2d_nchw" in found.blocks


def test_outputs_and_other_layouts_stay() -> None:
    net = Net()
    A, W = sl.placeholder((1, 6, 6, 16), name="A"), net.weight(3, 3, 16, 32)
    channels_last = topi.nn.relu(topi.nn.conv2d_nhwc(A, W, 1, 1, 1))
    assert not checked(channels_last, net.params).blocks
    net = Net()
    last = net.relu(image(), 32)
    assert not checked(last, net.params).blocks
    # a result that other stages read has blocks only for them
    both = [last, topi.nn.global_pool(net.conv(last, 16, 1), "avg")]
    assert "relu" not in checked(both, net.params).blocks


def test_weights_of_products_are_turned_so_that_results_are_lanes() -> None:
    net = Net()
    X = sl.placeholder((5, 12), name="x")
    found = checked(topi.nn.dense(X, net.weight(20, 12)), net.params)
    assert [t.shape for t in found.packed] == [(12, 20)] and not found.blocks
    # a single row reads each weight once, in any order
    net = Net()
    row = topi.nn.dense(sl.placeholder((1, 12), name="x"), net.weight(20, 12))
    assert not checked(row, net.params).packed


def test_symbolic_sizes_and_float64() -> None:
    n, h = sl.var("n"), sl.var("h")
    net = Net()
    x = sl.placeholder((n, 3, h, 8), name="x")
    y = topi.nn.relu(topi.nn.conv2d_nchw(x, net.weight(32, 3, 1, 1), 1, 0, 1))
    y = topi.nn.relu(topi.nn.conv2d_nchw(y, net.weight(16, 32, 1, 1), 1, 0, 1))
    found = checked(topi.sum(y, (2, 3)), net.params, n=2, h=4)
    assert found.blocks["conv2d_nchw"].size == 16
    A = sl.placeholder((1, 2, 4, 4), "float64", "A")
    W = sl.placeholder((8, 2, 1, 1), "float64", "W")
    y = topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 0, 1))
    assert checked(topi.nn.global_pool(y, "max"), [W]).blocks["relu"].size == 8


def test_groups_of_channels_read_without_blocks() -> None:
    net = Net()
    y = net.relu(image(), 32, 1)
    grouped = topi.nn.group_conv2d_nchw(y, net.weight(32, 16, 1, 1), 1, 0, 1, 2)
    other = net.conv(y, 16, 1)
    found = checked(topi.sum(topi.nn.relu(grouped), (2, 3)), net.params)
    assert not found.blocks
    # beside a reader of blocks, they read a copy
    outs = [topi.sum(grouped, (2, 3)), topi.nn.global_pool(other, "max")]
    found = checked(outs, net.params)
    assert "relu" in found.blocks
    assert "relu_plain" in [op.name for op in operations(found.outputs)]


def test_the_source_says_why_a_kernel_copies_blocks() -> None:
    net = Net()
    y = net.relu(image(), 32, 1)
    grouped = topi.nn.group_conv2d_nchw(y, net.weight(32, 16, 1, 1), 1, 0, 1, 2)
    outs = [topi.sum(grouped, (2, 3)), topi.nn.global_pool(net.conv(y, 16, 1), "max")]
    rng = np.random.default_rng(0)
    params = {t: rng.integers(-3, 4, t.shape).astype("float32") for t in net.params}
    made = sl.network(outs, params, sl.Target("python", vector_bytes=64))
    note = "# relu_plain copies relu to an order without blocks of channels, in which it is read"
    lines = made.source.splitlines()
    reader = next(part for part in made.partition if "relu_plain" in part.stages)
    assert lines.count(note) == 1
    assert lines[lines.index(note) - 1].startswith(f"# Kernel of {reader.name}: ")
    x = rng.integers(-3, 4, (1, 3, 6, 6)).astype("float32")
    for one, other in zip(made(x), sl.reference(outs)(x, *params.values())):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*ties")
@pytest.mark.parametrize("channels_last", [False, True])
def test_the_first_of_equal_values_stays_the_first(channels_last: bool) -> None:
    net = Net()
    conv = net.relu(image(3, 4), 32, 1)
    first = sl.comm_reducer(
        lambda x, y: (sl.select(x[1] >= y[1], x[0], y[0]), sl.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (sl.const(-1, t0), sl.te.min_value(t1)), name="first",
    )  # fmt: skip
    c, y, x = (sl.reduce_axis(k, name=name) for k, name in ((32, "c"), (4, "y"), (4, "x")))
    steps = [y, x, c] if channels_last else [c, y, x]
    place = sl.cast(_place(steps), "int32")
    value = sl.min(conv[0, c, y, x], 1)
    found = sl.compute((1,), lambda i: first((place, value), axis=steps), name="place")
    # most values are 1
    checked([found[0]], net.params)


def _place(steps: Sequence[Any]) -> Any:
    """Return the number of an iteration of loops over ``steps``."""
    at: Any = 0
    for axis in steps:
        at = at * axis.extent + axis
    return at


def test_nothing_changes_without_weights_or_with_a_scan() -> None:
    net = Net()
    out = topi.nn.global_pool(net.relu(image(), 32), "avg")
    assert blocked_layouts(out, (), WIDE).outputs == (out,)
    X = sl.placeholder((3, 2, 4), name="X")
    Wi, Wh = sl.placeholder((12, 4), name="Wi"), sl.placeholder((12, 4), name="Wh")
    hidden = topi.nn.gru(X, Wi, Wh)
    assert blocked_layouts(hidden, [Wi, Wh], WIDE).outputs == (hidden,)


def test_a_network_with_ragged_axes_stays() -> None:
    net = Net()
    starts = sl.placeholder((4,), "int32", name="starts")
    y = topi.nn.global_pool(net.conv(net.relu(image(), 32), 16, 1), "avg")

    def row(r: Any) -> Any:
        k = sl.reduce_axis((starts[r], starts[r + 1]), name="k")
        return sl.sum(y[0, k, 0, 0], axis=k)

    out = sl.compute((3,), row, name="rows")
    assert blocked_layouts(out, net.params, WIDE).outputs == (out,)


def test_an_empty_image() -> None:
    net = Net()
    x = sl.placeholder((0, 3, 6, 6), name="x")
    checked(topi.sum(net.relu(x, 16), (2, 3)), net.params)
