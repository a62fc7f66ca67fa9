"""Layers of topi beside PyTorch: pooling, products, activations, norms, recurrence, attention."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from schedlang.tvm.topi.nn.norms import channel_norm
from tests.topi_cases import check, given, inputs_of, values

torch = pytest.importorskip("torch", reason="compares with PyTorch: the extra test-torch")
F = torch.nn.functional
t = torch.from_numpy


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (3, 2), (2, 3)])
def test_pooling(kernel: int, stride: int, ceil_mode: bool) -> None:
    (A,) = given(A=(2, 3, 8, 7))
    data = values(A)
    for dilation, padding in product((1, 2), (0, 1)):
        made = topi.nn.pool2d(A, kernel, stride, dilation, padding, "max", ceil_mode)
        expected = F.max_pool2d(t(data["A"]), kernel, stride, padding, dilation, ceil_mode)
        assert made.shape == expected.shape
        np.testing.assert_array_equal(sl.reference(made)(**data), expected)
    for padding, counted in product((0, 1), (False, True)):
        made = topi.nn.pool2d(
            A, kernel, stride, 1, padding, "avg", ceil_mode, count_include_pad=counted
        )
        expected = F.avg_pool2d(t(data["A"]), kernel, stride, padding, ceil_mode, counted)
        np.testing.assert_allclose(sl.reference(made)(**data), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_pooling_window_larger_than_the_image_rounds_up(kind: str) -> None:
    (A,) = given(A=(1, 2, 1, 5))
    data = values(A)
    made = topi.nn.pool2d(A, (4, 3), 4, 1, 0, kind, True)
    pool = F.max_pool2d if kind == "max" else F.avg_pool2d
    check(made, pool(t(data["A"]), (4, 3), 4, 0, ceil_mode=True).numpy(), **data)


@pytest.mark.parametrize("dtype, smallest", [("float32", -np.inf), ("int8", -128)])
def test_windows_of_padding_alone(dtype: str, smallest: float) -> None:
    A = sl.placeholder((1, 1, 2, 2), dtype, name="A")
    expected = np.full((1, 1, 7, 7), smallest, dtype)
    expected[..., 2:5, 2:5] = 1
    ones = np.ones((1, 1, 2, 2), dtype)
    check(topi.nn.pool2d(A, 2, 1, 1, 3, "max"), expected, A=ones)
    means = topi.nn.pool2d(A, 2, 1, 1, 3, "avg", count_include_pad=False)
    check(means, (expected == 1).astype(dtype), A=ones)


def test_pooling_in_other_layouts_and_dimensions() -> None:
    (A,) = given(A=(1, 4, 5, 6, 7))
    data = values(A)
    expected = F.max_pool3d(t(data["A"]), (2, 3, 2), 2, (1, 1, 0)).numpy()
    check(topi.nn.pool3d(A, (2, 3, 2), 2, 1, (1, 1, 0), "max"), expected, **data)
    (A,) = given(A=(2, 3, 9))
    data = values(A)
    expected = F.avg_pool1d(t(data["A"]), 4, 3, 2).numpy()
    check(topi.nn.pool1d(A, 4, 3, 1, 2, "avg"), expected, **data)
    (A,) = given(A=(1, 5, 6, 4))
    data = values(A)
    rows = t(data["A"].transpose(0, 3, 1, 2).copy())
    expected = F.avg_pool2d(rows, 3, 2, 1).numpy().transpose(0, 2, 3, 1)
    made = topi.nn.pool2d(A, 3, 2, 1, (1, 1, 1, 1), "avg", layout="NHWC")
    check(made, expected, **data)
    blocked = topi.layout_transform(A, "NHWC", "NCHW2c")
    made = topi.nn.pool2d(blocked, 3, 2, 1, 1, "avg", layout="NCHW2c")
    check(topi.layout_transform(made, "NCHW2c", "NHWC"), expected, **data)


def test_means_of_integers_do_not_overflow() -> None:
    A = sl.placeholder((1, 1, 2, 3), "int8", name="A")
    data = {"A": np.array([100, 100, -100, 101, 100, -101], "int8").reshape(1, 1, 2, 3)}
    expected = np.array([401 // 4, 0], "int8").reshape(1, 1, 1, 2)
    check(topi.nn.pool2d(A, 2, 1, 1, 0, "avg"), expected, **data)


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (8, 7), (4, 7), (2, 10)])
def test_adaptive_pooling(size: tuple[int, int]) -> None:
    (A,) = given(A=(2, 3, 8, 7))
    data = values(A)
    expected = F.adaptive_avg_pool2d(t(data["A"]), size).numpy()
    check(topi.nn.adaptive_pool(A, size, "avg"), expected, **data)
    expected = F.adaptive_max_pool2d(t(data["A"]), size).numpy()
    check(topi.nn.adaptive_pool(A, size, "max"), expected, **data)


def test_global_pooling() -> None:
    (A,) = given(A=(2, 3, 4, 5))
    data = values(A)
    expected = data["A"].mean((2, 3), keepdims=True)
    check(topi.nn.global_pool(A, "avg"), expected, **data)
    n, h = sl.var("n"), sl.var("h")
    (B,) = given(A=(n, 3, h, h + 1))
    check(topi.nn.global_pool(B, "avg"), expected, **data)
    check(topi.nn.adaptive_pool(B, 1, "max"), data["A"].max((2, 3), keepdims=True), **data)


def test_products() -> None:
    A, W, b = given(A=(3, 5, 7), W=(4, 7), b=(4,))
    data = values(A, W, b)
    check(topi.nn.dense(A, W, b), F.linear(*map(t, data.values())).numpy(), **data)
    A, B = given(A=(3, 7, 5), B=(1, 4, 7))
    data = values(A, B)
    expected = data["A"].swapaxes(1, 2) @ data["B"].swapaxes(1, 2)
    check(topi.nn.batch_matmul(A, B, transpose_a=True), expected, **data)
    check(topi.nn.matmul(A, B, transpose_a=True, transpose_b=True), expected, **data)


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (topi.nn.relu, F.relu),
    "leaky_relu": (lambda x: topi.nn.leaky_relu(x, 0.1), lambda x: F.leaky_relu(x, 0.1)),
    "elu": (lambda x: topi.nn.elu(x, 0.5), lambda x: F.elu(x, 0.5)),
    "gelu": (topi.nn.gelu, F.gelu),
    "gelu_tanh": (topi.nn.gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
    "silu": (topi.nn.silu, F.silu),
    "mish": (topi.nn.mish, F.mish),
    "softplus": (topi.nn.softplus, F.softplus),
    "softplus of 2": (lambda x: topi.nn.softplus(x, 2, 1.5), lambda x: F.softplus(x, 2, 1.5)),
    "log_sigmoid": (topi.nn.log_sigmoid, F.logsigmoid),
    "hard_sigmoid": (topi.nn.hard_sigmoid, F.hardsigmoid),
    "hard_swish": (topi.nn.hard_swish, F.hardswish),
    "sigmoid": (topi.sigmoid, torch.sigmoid),
    "tanh": (topi.tanh, torch.tanh),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    ours, theirs = ACTIVATIONS[name]
    x = np.array([-np.inf, -9, -3, -1, -0.5, 0, 0.25, 1, 3, 50, np.inf, np.nan], "float32")
    (A,) = given(A=x.shape)
    if name in ("gelu", "gelu_tanh", "silu", "mish", "hard_swish"):
        # versions of PyTorch differ at infinities, where 0 times infinity is NaN
        x = x[np.isfinite(x) | np.isnan(x)]
        (A,) = given(A=x.shape)
    check(ours(A), theirs(t(x)).numpy(), 2e-6, A=x)


def test_prelu() -> None:
    A, p = given(A=(2, 3, 4), p=(3,))
    data = values(A, p)
    check(topi.nn.prelu(A, p), F.prelu(t(data["A"]), t(data["p"])).numpy(), **data)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    (A,) = given(A=(3, 4, 5))
    x = 50 * values(A)["A"]
    x[0, 0, 0] = -np.inf
    check(topi.nn.softmax(A, axis), F.softmax(t(x), axis).numpy(), A=x)
    check(topi.nn.log_softmax(A, axis), F.log_softmax(t(x), axis).numpy(), A=x)


def test_softmax_of_short_floats_is_summed_in_float32() -> None:
    A = sl.placeholder((1, 3000), "float16", name="A")
    x = np.zeros((1, 3000), "float16")
    got = sl.reference(topi.nn.softmax(A))(x)
    assert got.dtype == "float16"
    np.testing.assert_allclose(got, 1 / 3000, rtol=1e-3)


def test_norms() -> None:
    A, g, b, m, v = given(A=(3, 6, 5, 4), g=(6,), b=(6,), m=(6,), v=(6,))
    data = values(A, g, b, m, v)
    data["v"] = np.abs(data["v"])
    x, gamma, beta, mean, var = (t(a) for a in data.values())
    out, *statistics = topi.nn.batch_norm(A, g, b, m, v)
    kernel = sl.build(sl.schedule([out, *statistics]), [A, g, b, m, v, out, *statistics], "python")
    for result, expected in zip(kernel(**data)[1:], (data["m"], data["v"]), strict=True):
        np.testing.assert_array_equal(result, expected)
    check(out, F.batch_norm(x, mean, var, gamma, beta).numpy(), **data)
    two = {k: data[k] for k in "Agb"}
    check(topi.nn.group_norm(A, g, b, 3, 1, [2, 3]), F.group_norm(x, 3, gamma, beta), **two)
    expected = F.instance_norm(x, weight=gamma, bias=beta)
    check(channel_norm(A, g, b, 1, [2, 3]), expected, **two)
    G, B = given(G=(5, 4), B=(5, 4))
    more = {"A": data["A"], **values(G, B)}
    expected = F.layer_norm(x, (5, 4), t(more["G"]), t(more["B"]))
    check(topi.nn.layer_norm(A, G, B, [2, 3]), expected, **more)
    del more["B"]
    check(topi.nn.rms_norm(A, G, [-1, -2]), F.rms_norm(x, (5, 4), t(more["G"]), 1e-5), **more)
    one = {"A": data["A"]}
    check(topi.nn.lrn(A, 3, bias=1.0), F.local_response_norm(x, 3), **one)
    # the squares exceed the largest float16
    H, large = sl.placeholder((1, 4, 2), "float16", name="H"), np.full((1, 4, 2), 250, "float16")
    expected = F.local_response_norm(t(large.astype("float32")), 3, 1e-4, 0.75, 2.0)
    check(topi.nn.lrn(H, 3), expected.numpy().astype("float16"), 1e-3, H=large)
    check(topi.nn.l2_normalize(A, 1e-12, [1]), F.normalize(x, dim=1), **one)


def test_variance_of_large_numbers_does_not_cancel() -> None:
    (A,) = given(A=(2, 64))
    x = (4096 + np.random.default_rng(0).standard_normal((2, 64))).astype("float32")
    expected = F.layer_norm(t(x).double(), (64,)).numpy()
    got = sl.reference(topi.nn.layer_norm(A, None, None, -1))(x)
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-3)


def recurrent(kind: str, gates: int) -> tuple[list[sl.Tensor], dict[str, np.ndarray], Any]:
    """Return inputs of a layer, their values, and PyTorch's layer of the same weights."""
    shapes = {"X": (4, 2, 3), "Wi": (gates * 5, 3), "Wh": (gates * 5, 5), "Bi": (gates * 5,),
              "Bh": (gates * 5,), "h": (2, 5), "c": (2, 5)}  # fmt: skip
    tensors = given(**shapes)
    data = values(*tensors)
    layer = getattr(torch.nn, kind)(3, 5)
    with torch.no_grad():
        for name, key in (("weight_ih_l0", "Wi"), ("weight_hh_l0", "Wh"), ("bias_ih_l0", "Bi"),
                          ("bias_hh_l0", "Bh")):  # fmt: skip
            getattr(layer, name).copy_(t(data[key]))
    return tensors, data, layer


def test_lstm() -> None:
    (X, Wi, Wh, Bi, Bh, h, c), data, layer = recurrent("LSTM", 4)
    outputs = list(topi.nn.lstm(X, Wi, Wh, Bi, Bh, h, c))
    with torch.no_grad():
        expected, (_, cells) = layer(t(data["X"]), (t(data["h"])[None], t(data["c"])[None]))
    hidden, cell = sl.build(sl.schedule(outputs), target="python")(**data)
    np.testing.assert_allclose(hidden, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cell[-1], cells[0], rtol=1e-5, atol=1e-6)
    x = sl.placeholder((2, 3), name="x")
    step = topi.nn.lstm_cell(x, h, c, Wi, Wh, Bi, Bh)
    data["x"] = data.pop("X")[0]
    got = sl.reference(list(step))(**data)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], cell[0], rtol=1e-5, atol=1e-6)


def test_lstm_with_projection_peepholes_and_another_order_of_gates() -> None:
    X, Wi, Wh, P, p = given(X=(3, 2, 3), Wi=(8, 3), Wh=(8, 4), P=(4, 2), p=(2, 2))
    hidden, _ = topi.nn.lstm(X, Wi, Wh, proj=P, p_i=p, p_f=p, p_o=p, weight_layout="OFIG")
    data = values(X, Wi, Wh, P, p)
    h, c = np.zeros((2, 4), "float32"), np.zeros((2, 2), "float32")

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    expected = []
    for x in data["X"]:
        o, f, i, g = np.split(x @ data["Wi"].T + h @ data["Wh"].T, 4, axis=1)
        c_next = sigmoid(f + data["p"] * c) * c + sigmoid(i + data["p"] * c) * np.tanh(g)
        h = sigmoid(o + data["p"] * c_next) * np.tanh(c_next) @ data["P"].T
        c = c_next
        expected.append(h)
    check(hidden, np.stack(expected), **data)


@pytest.mark.parametrize("reverse", [False, True])
def test_gru(reverse: bool) -> None:
    (X, Wi, Wh, Bi, Bh, h, _), data, layer = recurrent("GRU", 3)
    del data["c"]
    xs = t(data["X"]).flip(0) if reverse else t(data["X"])
    with torch.no_grad():
        expected = layer(xs, t(data["h"])[None])[0].numpy()
    check(topi.nn.gru(X, Wi, Wh, Bi, Bh, h, reverse), expected, **data)
    steps, batch = sl.var("steps"), sl.var("batch")
    S, H = given(X=(steps, batch, 3), h=(batch, 5))
    check(topi.nn.gru(S, Wi, Wh, Bi, Bh, H, reverse), expected, **data)
    x = sl.placeholder((2, 3), name="x")
    data["x"] = xs[0].numpy()
    del data["X"]
    check(topi.nn.gru_cell(x, h, Wi, Wh, Bi, Bh), expected[0], **data)


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("mask", [None, "TopLeft", "BottomRight"])
def test_attention(mask: str | None, online: bool) -> None:
    q, k, v, b = given(q=(2, 5, 4, 3), k=(2, 6, 2, 3), v=(2, 6, 2, 7), b=(1, 4, 5, 6))
    data = values(q, k, v, b)
    made = topi.nn.attention(q, k, v, b, causal_mask=mask, online=online)
    query, key, value = (t(data[name]).transpose(1, 2) for name in "qkv")
    added = t(data["b"])
    if mask:
        seen = torch.ones(5, 6).tril(0 if mask == "TopLeft" else 1).bool()
        added = added + torch.where(seen, 0.0, -torch.inf)
    expected = F.scaled_dot_product_attention(
        query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1), added
    )
    check(made, expected.transpose(1, 2).numpy(), **data)


@pytest.mark.parametrize("online", [True, False])
def test_attention_of_large_and_of_hidden_scores(online: bool) -> None:
    q, k, v = given(q=(1, 3, 1, 2), k=(1, 2, 1, 2), v=(1, 2, 1, 1))
    made = topi.nn.attention(q, k, v, scale=1.0, causal_mask="BottomRight", online=online)
    data = {"q": np.full(q.shape, 200, "float32"), "k": np.ones(k.shape, "float32"),
            "v": np.array([1, 3], "float32").reshape(v.shape)}  # fmt: skip
    got = sl.reference(made)(**data)
    # row 0 sees no key, row 1 the first one, and row 2 both
    np.testing.assert_array_equal(got.ravel(), [np.nan, 1, 2])


def test_attention_to_nothing_divides_zero_by_zero() -> None:
    q, k, v = given(q=(1, 3, 1, 2), k=(1, 0, 1, 2), v=(1, 0, 1, 1))
    made = topi.nn.attention(q, k, v, online=False)
    got = sl.reference(made)(*(np.ones(x.shape, "float32") for x in (q, k, v)))
    assert got.shape == (1, 3, 1, 1) and np.isnan(got).all()


def test_a_layer_trains() -> None:
    """Gradients go through topi, as through any computation."""
    A, W, b = given(A=(2, 2, 5, 5), W=(3, 2, 3, 3), b=(3,))
    pooled = topi.nn.pool2d(topi.nn.relu(topi.nn.conv2d_nchw(A, W, 1, 1, 1)), 2, 2, 1, 0, "max")
    y = topi.sum(topi.nn.log_softmax(topi.nn.flatten(pooled)) * 0.5)
    data = inputs_of(y)
    (slope,) = sl.gradient(y, [W])
    w = t(data["W"]).requires_grad_()
    inner = F.max_pool2d(F.relu(F.conv2d(t(data["A"]), w, padding=1)), 2)
    (F.log_softmax(inner.flatten(1), -1) * 0.5).sum().backward()
    np.testing.assert_allclose(sl.reference(slope)(**data), w.grad, rtol=1e-4, atol=1e-5)
