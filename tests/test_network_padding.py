"""Taps that meet padding alone: which are left out, and that results stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang import topi
from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.networks.padding import without_padding_taps

RNG = np.random.default_rng(0)


def convolved(
    x: np.ndarray, w: np.ndarray, stride: int, pad: int, dilation: int = 1, groups: int = 1
) -> np.ndarray:
    """Return a convolution by NumPy, one tap after the other."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    high, wide = w.shape[2:]
    rows = (x.shape[2] - dilation * (high - 1) - 1) // stride + 1
    cols = (x.shape[3] - dilation * (wide - 1) - 1) // stride + 1
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:])
    made = np.zeros((x.shape[0], groups, w.shape[1], rows, cols), x.dtype)
    for r in range(high):
        for c in range(wide):
            window = x[..., r * dilation :, c * dilation :][..., ::stride, ::stride]
            made += np.einsum("bgihw,goi->bgohw", window[..., :rows, :cols], w[..., r, c])
    return made.reshape(x.shape[0], -1, rows, cols)


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [RNG.integers(-4, 5, t.shape).astype(t.dtype) for t in tensors]


def taps_of(made: Tensor) -> tuple[int, ...]:
    """Return the taps of the convolution behind a tensor."""
    return tuple(a.extent for a in made.op.reduce_axis[1:])


@pytest.mark.parametrize(
    "edge, stride, pad, dilation, taps",
    [
        (1, 1, 1, 1, (1, 1)), (2, 2, 1, 1, (2, 2)), (2, 1, 1, 1, (3, 3)), (1, 1, 2, 2, (1, 1)),
        (3, 1, 4, 4, (1, 1)), (3, 3, 1, 1, (2, 2)), (3, 1, 0, 1, (3, 3)),
    ],
)  # fmt: skip
def test_which_taps_stay(
    edge: int, stride: int, pad: int, dilation: int, taps: tuple[int, int]
) -> None:
    X, W = sl.placeholder((1, 4, edge, edge), name="X"), sl.placeholder((2, 4, 3, 3), name="W")
    y = topi.nn.conv2d_nchw(X, W, stride, pad, dilation)
    (made,) = without_padding_taps(y, [W])
    assert taps_of(made) == taps and made.name == y.name
    assert (made is y) == (taps == (3, 3))
    # without padding, no stage pads
    assert (X in made.op.input_tensors) == (taps != (3, 3) or not pad)
    x, w = arrays(X, W)
    np.testing.assert_array_equal(
        reference(made)(x, w), convolved(x, w, stride, pad, dilation)
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3),
    st.integers(0, 4), st.integers(1, 3), st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_results_are_those_of_numpy(
    high: int, wide: int, kernel: int, stride: int, pad: int, dilation: int, dtype: str
) -> None:
    if min(high, wide) + 2 * pad < dilation * (kernel - 1) + 1:
        return
    X = sl.placeholder((2, 3, high, wide), dtype, name="X")
    W = sl.placeholder((4, 3, kernel, kernel), dtype, name="W")
    y = topi.nn.conv2d_nchw(X, W, stride, pad, dilation)
    (made,) = without_padding_taps(topi.nn.relu(y), [W])
    x, w = arrays(X, W)
    wanted = np.maximum(convolved(x, w, stride, pad, dilation), 0)
    np.testing.assert_array_equal(reference(made)(x, w), wanted)


@pytest.mark.parametrize("groups", [2, 8])
def test_groups(groups: int) -> None:
    X, W = sl.placeholder((1, 8, 1, 1), name="X"), sl.placeholder((8, 8 // groups, 3, 3), name="W")
    y = topi.nn.group_conv2d_nchw(X, W, 1, 1, 1, groups)
    (made,) = without_padding_taps(y, [W])
    assert taps_of(made) == (1, 1)
    x, w = arrays(X, W)
    np.testing.assert_array_equal(reference(made)(x, w), convolved(x, w, 1, 1, groups=groups))


def test_what_stays_as_it_is() -> None:
    X, W = sl.placeholder((1, 4, 1, 1), name="X"), sl.placeholder((2, 4, 3, 3), name="W")
    # weights of a call, which are not read ahead of it
    y = topi.nn.conv2d_nchw(X, W, 1, 1, 1)
    assert without_padding_taps(y) == (y,)
    # padding with another value
    padded = sl.pad(X, [0, 0, 1, 1], value=1.0)
    y = topi.nn.conv2d_nchw(padded, W, 1, 0, 1)
    assert without_padding_taps(y, [W]) == (y,)
    # sizes that are not known
    n = sl.var("n")
    Z = sl.placeholder((1, 4, n, n), name="Z")
    y = topi.nn.conv2d_nchw(Z, W, 1, 1, 1)
    assert without_padding_taps(y, [W]) == (y,)


def test_a_scatter_is_no_padding() -> None:
    """Its zeros stand where it writes them, not at its axes."""
    shape = (1, 4, 3, 3)
    X, W = sl.placeholder(shape, name="X"), sl.placeholder((2, 4, 3, 3), name="W")

    def update(b: Any, c: Any, y: Any, x: Any) -> tuple[Any, Any]:
        return (b, c, 2 - y, x), sl.if_then_else(y < 1, X[b, c, y, x], 0)

    turned = sl.scatter(shape, shape, update)
    (made,) = without_padding_taps(topi.nn.conv2d_nchw(turned, W, 1, 0, 1), [W])
    x, w = arrays(X, W)
    written = np.zeros_like(x)
    written[:, :, 2] = x[:, :, 0]
    np.testing.assert_array_equal(reference(made)(x, w), convolved(written, w, 1, 0))


def test_a_symbolic_batch() -> None:
    n = sl.var("n")
    X, W = sl.placeholder((n, 4, 1, 1), name="X"), sl.placeholder((2, 4, 3, 3), name="W")
    (made,) = without_padding_taps(topi.nn.conv2d_nchw(X, W, 1, 1, 1), [W])
    assert taps_of(made) == (1, 1)


@pytest.mark.parametrize("fold", [True, False])
def test_a_network_reads_no_weights_of_padding(fold: bool) -> None:
    X, V, W = (
        sl.placeholder(shape, name=name)
        for shape, name in (((1, 8, 2, 2), "X"), ((16, 8, 3, 3), "V"), ((16, 16, 3, 3), "W"))
    )
    y = topi.nn.relu(topi.nn.conv2d_nchw(X, V, 2, 1, 1))
    y = topi.nn.conv2d_nchw(y, W, 1, 1, 1)
    x, v, w = arrays(X, V, W)
    net = sl.network(y, {V: v, W: w}, fold=fold, target="python")
    read = sum(part.read_bytes for part in net.partition)
    taps = (4, 1) if fold else (9, 9)
    # the data, the weights, and the padded data if there are any
    least = 4 * (8 * 4 + 16 + taps[0] * 8 * 16 + taps[1] * 16 * 16)
    assert read == least if fold else read >= least
    hidden = np.maximum(convolved(x, v, 2, 1), 0)
    np.testing.assert_allclose(net(x), convolved(hidden, w, 1, 1), rtol=1e-5)
