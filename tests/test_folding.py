"""Folding of scales into weights, beside NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import schedlang as sl
from schedlang import topi
from schedlang.networks.affine import affine_parts
from schedlang.networks.folding import fold_scales

DTYPE = "float64"


def tensor(name: str, *shape: int, dtype: str = DTYPE) -> sl.Tensor:
    return sl.placeholder(shape, dtype, name=name)


def arrays(*tensors: sl.Tensor, seed: int = 0) -> dict[sl.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t: rng.standard_normal(t.shape).astype(t.dtype) for t in tensors}


def run(outputs: Any, values: dict[sl.Tensor, np.ndarray]) -> Any:
    oracle = sl.reference(list(outputs) if isinstance(outputs, tuple) else outputs)
    return oracle(*(values[t] for t in oracle.inputs))


def convolved(x: np.ndarray, w: np.ndarray, groups: int = 1) -> np.ndarray:
    """Return the convolution of ``x[n, c, h, w]`` with ``w[o, c / groups, kh, kw]``."""
    n, channels = x.shape[:2]
    windows = sliding_window_view(x, w.shape[2:], axis=(2, 3))
    cut = windows.reshape(n, groups, channels // groups, *windows.shape[2:])
    parts = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    found = np.einsum("ngchwyx,gocyx->ngohw", cut, parts)
    return found.reshape(n, w.shape[0], *found.shape[3:])


A, W = tensor("A", 2, 4, 6, 5), tensor("W", 6, 4, 3, 3)
B, V = tensor("B", 3, 5), tensor("V", 6, 5)
DEEP, MANY = tensor("D", 4, 2, 3, 3), tensor("G", 6, 2, 3, 3)
ROWS = tensor("R", 2, 6, 5, 4)
HWIO, OIHW1 = tensor("H", 3, 3, 4, 6), tensor("P", 6, 4, 1, 1)
BLOCKED, BLOCKS = tensor("Z", 2, 2, 6, 5, 2), tensor("Y", 3, 2, 3, 3, 2, 2)
BATCH, BATCHED = tensor("T", 2, 3, 5), tensor("U", 2, 6, 5)

# a sum, its input, its weights, the dimension of its channels, and NumPy's result
Case = tuple[Callable[[], Any], sl.Tensor, sl.Tensor, int, Callable[[Any, Any], np.ndarray]]
SUMS: dict[str, Case] = {
    "conv2d": (lambda: topi.nn.conv2d_nchw(A, W, 1, 0, 1), A, W, 1, convolved),
    "conv2d 1x1": (lambda: topi.nn.conv2d_nchw(A, OIHW1, 1, 0, 1), A, OIHW1, 1, convolved),
    "conv2d nhwc": (
        lambda: topi.nn.conv2d_nhwc(ROWS, HWIO, 1, 0, 1), ROWS, HWIO, 3,
        lambda x, w: convolved(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(
            0, 2, 3, 1)),
    "grouped": (lambda: topi.nn.group_conv2d_nchw(A, MANY, 1, 0, 1, 2), A, MANY, 1,
                lambda x, w: convolved(x, w, 2)),
    "depthwise of two": (
        lambda: topi.nn.depthwise_conv2d_nchw(A, DEEP, 1, 0, 1), A, DEEP, 1,
        lambda x, w: convolved(x, w.reshape(8, 1, 3, 3), 4)),
    "blocked": (
        lambda: topi.nn.conv2d_NCHWc(BLOCKED, BLOCKS, 1, 0, 1, "NCHW2c", "NCHW2c"),
        BLOCKED, BLOCKS, -1,
        lambda x, w: convolved(
            x.transpose(0, 1, 4, 2, 3).reshape(2, 4, 6, 5),
            w.transpose(0, 5, 1, 4, 2, 3).reshape(6, 4, 3, 3),
        ).reshape(2, 3, 2, 4, 3).transpose(0, 1, 3, 4, 2)),
    "dense": (lambda: topi.nn.dense(B, V), B, V, 1, lambda x, w: x @ w.T),
    "weights at the left": (lambda: topi.nn.matmul(V, B, transpose_b=True), B, V, 0,
                            lambda x, w: w @ x.T),
    "batched": (lambda: topi.nn.batch_matmul(BATCH, BATCHED), BATCH, BATCHED, 2,
                lambda x, w: x @ w.swapaxes(1, 2)),
}  # fmt: skip


def along(values: Any, made: Any, dim: int) -> Any:
    """Return a function of axes that reads the channel's element of ``values``."""
    if dim < 0:
        return lambda at: values[at[1] * 2 + at[4]]
    return lambda at: values[at[dim]]


def spread(values: np.ndarray, ndim: int, dim: int) -> np.ndarray:
    """Return values of channels in the shape in which they broadcast to the result."""
    if dim < 0:
        return values.reshape(1, 3, 1, 1, 2)
    return values.reshape([-1 if k == dim else 1 for k in range(ndim)])


@pytest.mark.parametrize("name", SUMS)
def test_a_chain_after_any_sum_folds_wholly(name: str) -> None:
    """A bias, a scale and a shift by channel, a number: one sum with other weights, one bias."""
    make, data, weights, dim, by_numpy = SUMS[name]
    made = make()
    channels = 6 if dim < 0 else made.shape[dim]
    b, s, t = (tensor(n, channels) for n in ("b", "s", "t"))
    at = [along(values, made, dim) for values in (b, s, t)]
    biased = sl.compute(made.shape, lambda *i: made[i] + at[0](i), name="biased")
    scaled = sl.compute(made.shape, lambda *i: (biased[i] - at[2](i)) / at[1](i), name="scaled")
    out = sl.compute(made.shape, lambda *i: sl.max(-scaled[i] * 3, 0), name="out")
    values = arrays(data, weights, b, s, t)
    values[s] += np.sign(values[s])
    (found,), notes = fold_scales([out], {v: values[v] for v in (weights, b, s, t)})
    assert [str(note) for note in notes] == [f"out into {weights.name} of {made.name}"]
    (total,) = [x for x in found.op.input_tensors if x.name == made.name]
    assert {x.name for x in found.op.input_tensors} == {made.name, "out_shift"}
    assert f"{weights.name}_scaled" in {x.name for x in total.op.input_tensors}
    one, two, three = (spread(values[v], made.ndim, dim) for v in (b, s, t))
    direct = by_numpy(values[data], values[weights])
    wanted = np.maximum(-((direct + one - three) / two) * 3, 0)
    np.testing.assert_allclose(run(found, values), wanted, rtol=1e-12, atol=1e-12)


def test_a_batch_norm_of_topi_leaves_a_sum_and_a_bias() -> None:
    parts = [tensor(n, 6) for n in ("gamma", "beta", "mean", "var")]
    conv = topi.nn.conv2d_nchw(A, W, 1, 0, 1)
    out = topi.nn.relu(topi.nn.batch_norm(conv, *parts)[0])
    values = arrays(A, W, *parts)
    values[parts[3]] = np.abs(values[parts[3]])
    (found,), _ = fold_scales([out], {t: v for t, v in values.items() if t is not A})
    (norm,) = found.op.input_tensors
    assert str(norm.op.body[0]) == "conv2d_nchw[i, j, k, l] + batch_norm_shift[j]"
    gamma, beta, mean, var = (spread(values[t], 4, 1) for t in parts)
    direct = convolved(values[A], values[W])
    wanted = np.maximum((direct - mean) / np.sqrt(var + 1e-5) * gamma + beta, 0)
    np.testing.assert_allclose(run(found, values), wanted, rtol=1e-12, atol=1e-12)


def test_a_residual_stays_beside_the_folded_bias() -> None:
    s, x = tensor("s", 6), tensor("X", 3, 6)
    made = topi.nn.dense(B, V)
    out = sl.compute((3, 6), lambda i, j: made[i, j] * s[j] + x[i, j] + s[j], name="out")
    values = arrays(B, V, s, x)
    (found,), notes = fold_scales([out], {V: values[V], s: values[s]})
    assert [str(note) for note in notes] == ["out into V of dense"]
    assert str(found.op.body[0]) == "dense[i, j] + s[j] + X[i, j]"
    wanted = (values[B] @ values[V].T) * values[s] + values[x] + values[s]
    np.testing.assert_allclose(run(found, values), wanted, rtol=1e-12)


def test_a_transposed_reader_and_a_value_read_twice() -> None:
    """A swish of a scaled sum in one stage: both of its reads have the same scale."""
    s = tensor("s", 6)
    made = topi.nn.dense(B, V)

    def swish(j: Any, i: Any) -> Any:
        value = made[i, j] * s[j]
        return value * sl.sigmoid(value)

    out = sl.compute((6, 3), swish, name="out")
    values = arrays(B, V, s)
    (found,), notes = fold_scales([out], {V: values[V], s: values[s]})
    assert len(notes) == 1
    assert str(found.op.body[0]) == "dense[i, j] * sigmoid(dense[i, j])"
    value = ((values[B] @ values[V].T) * values[s]).T
    np.testing.assert_allclose(run(found, values), value / (1 + np.exp(-value)), rtol=1e-12)


def test_a_shared_weight_is_scaled_twice() -> None:
    s, t = tensor("s", 6), tensor("t", 6)
    one, two = topi.nn.dense(B, V), topi.nn.dense(topi.nn.relu(B), V)
    outs = [sl.compute((3, 6), lambda i, j, m=m, f=f: m[i, j] * f[j], name="out")
            for m, f in ((one, s), (two, t))]  # fmt: skip
    values = arrays(B, V, s, t)
    found, notes = fold_scales(outs, {v: values[v] for v in (V, s, t)})
    assert [str(n) for n in notes] == ["out into V of dense", "out_1 into V of dense_1"]
    for got, x, f in zip(run(found, values), (values[B], np.maximum(values[B], 0)), (s, t)):
        np.testing.assert_allclose(got, (x @ values[V].T) * values[f], rtol=1e-12)


def scaled_dense(scale: Any, dtype: str = DTYPE, weights: Any = None) -> tuple[Any, Any, Any]:
    x, w = tensor("x", 3, 5, dtype=dtype), tensor("w", 6, 5, dtype=dtype)
    made = topi.nn.dense(x, w if weights is None else weights(w))
    return sl.compute((3, 6), lambda i, j: scale(made, i, j), name="out"), x, w


S = tensor("S", 6)
KEPT: dict[str, Any] = {
    "a bias alone": lambda m, i, j: m[i, j] + S[j],
    "a scale by rows": lambda m, i, j: m[i, j] * sl.cast(i, DTYPE),
    "a scale of 0": lambda m, i, j: m[i, j] * 0.0,
    "a square": lambda m, i, j: m[i, j] * m[i, j],
    "a divisor": lambda m, i, j: S[j] / m[i, j],
    "a function": lambda m, i, j: sl.exp(m[i, j]),
    "two places": lambda m, i, j: (m[i, j] + m[0, j]) * S[j],
    "two scales": lambda m, i, j: sl.select(m[i, j] > 0, m[i, j], m[i, j] * 0.1),
    "another dtype": lambda m, i, j: sl.cast(m[i, j], "float32") * 2,
    "a part of the channels": lambda m, i, j: m[i, sl.min(j, 2)] * S[j],
    "a scalar argument": lambda m, i, j: m[i, j] * sl.var("alpha", "float64"),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_not_folded(case: str) -> None:
    out, x, w = scaled_dense(KEPT[case])
    values = arrays(x, w, S)
    (found,), notes = fold_scales([out], {w: values[w], S: values[S]})
    assert notes == ()
    assert str(found.op.body[0]) == str(out.op.body[0])


@pytest.mark.parametrize("dtype", ["int32", "float16", "int8", "complex64", "bfloat16"])
def test_other_dtypes_are_not_folded(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    s = tensor("s", 6, dtype=dtype)
    out, x, w = scaled_dense(lambda m, i, j: m[i, j] * s[j], dtype)
    values = {t: np.ones(t.shape, "int32") for t in (w, s)}
    assert fold_scales([out], values)[1] == ()


def test_a_scale_that_is_an_input_is_not_folded() -> None:
    out, x, w = scaled_dense(lambda m, i, j: m[i, j] * S[j])
    assert fold_scales([out], arrays(w))[1] == ()


def test_a_sum_that_others_need_is_not_folded() -> None:
    values = arrays(B, V, S)
    params = {V: values[V], S: values[S]}
    made = topi.nn.dense(B, V)
    out = sl.compute((3, 6), lambda i, j: made[i, j] * S[j], name="out")
    other = sl.compute((3, 6), lambda i, j: out[i, j] + made[i, j], name="other")
    assert fold_scales([out, made], params)[1] == ()
    assert fold_scales([other], params)[1] == ()


def test_sums_without_weights_are_not_folded() -> None:
    pooled = topi.nn.global_pool(A, "avg")
    assert fold_scales([topi.multiply(pooled, 2.0)], {})[1] == ()
    gram = topi.nn.matmul(B, B, transpose_b=True)
    assert fold_scales([topi.multiply(gram, 2.0)], {})[1] == ()


def test_a_sum_from_another_start_or_of_another_kind_is_not_folded() -> None:
    k = sl.reduce_axis(5, name="k")
    values = arrays(B, V, S)
    for total in (
        lambda i, j: sl.sum(B[i, k] * V[j, k], axis=k, init=1.0),
        lambda i, j: sl.max(B[i, k] * V[j, k], axis=k),
        lambda i, j: sl.sum(B[i, k] * V[j, k] + 1, axis=k),
        lambda i, j: sl.sum(sl.exp(V[j, k]) * B[i, k] * V[j, k], axis=k),
    ):
        made = sl.compute((3, 6), total, name="made")
        out = sl.compute((3, 6), lambda i, j, made=made: made[i, j] * S[j], name="out")
        assert fold_scales([out], {V: values[V], S: values[S]})[1] == ()


@pytest.mark.parametrize(
    ("scale", "weight", "folds"),
    [(2.0, 1.0, True), (np.nan, 1.0, False), (np.inf, 1.0, False), (1e200, 1e200, False),
     (1e200, np.inf, True), (2.0, np.nan, True), (0.0, 1e308, True), (1e-300, 1e300, True)],
)  # fmt: skip
def test_special_values_stay_where_they_are(scale: float, weight: float, folds: bool) -> None:
    """A scale that is not finite, or overflows the weights, stays where it is."""
    out, x, w = scaled_dense(lambda m, i, j: m[i, j] * S[j])
    values = {x: np.eye(3, 5), w: np.ones((6, 5)), S: np.ones(6)}
    values[w][1, 2], values[S][1] = weight, scale
    (found,), notes = fold_scales([out], {w: values[w], S: values[S]})
    assert bool(notes) == folds
    with np.errstate(all="ignore"):
        # one term of each sum is not 0, as x is a unit matrix
        wanted = np.einsum("ik,jk->ijk", values[x], values[w])
        wanted = wanted.sum(2) * values[S]
        np.testing.assert_allclose(run(found, values), wanted, rtol=1e-12)


def test_a_weight_that_its_scale_makes_too_small_counts_as_0() -> None:
    out, x, w = scaled_dense(lambda m, i, j: m[i, j] * S[j])
    values = {x: np.full((3, 5), 1e300), w: np.full((6, 5), 1e-300), S: np.full(6, 1e-300)}
    (found,), notes = fold_scales([out], {w: values[w], S: values[S]})
    assert notes and not run(found, values).any()
    np.testing.assert_allclose(run(out, values), 5e-300)


def test_empty_weights_and_sums_of_nothing() -> None:
    x, w, s = tensor("x", 3, 0), tensor("w", 6, 0), tensor("s", 6)
    made = topi.nn.dense(x, w)
    out = sl.compute((3, 6), lambda i, j: made[i, j] * s[j] + s[j], name="out")
    values = arrays(x, w, s)
    (found,), notes = fold_scales([out], {w: values[w], s: values[s]})
    assert len(notes) == 1
    np.testing.assert_array_equal(run(found, values), np.broadcast_to(values[s], (3, 6)))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_affine_expressions(data: st.DataObject) -> None:
    """Any expression of a sum by + - * / and constants is as NumPy's, folded or not."""
    s, t = tensor("s", 6), tensor("t", 6)
    made = topi.nn.dense(B, V)
    values = arrays(B, V, s, t)
    for v in (s, t):
        values[v] += np.sign(values[v])
    known: Any = {s: values[s], t: values[t]}
    direct = values[B] @ values[V].T

    def grow(depth: int) -> tuple[Callable[[Any, Any], Any], np.ndarray, bool]:
        """Return an expression, its value, and whether it depends on the sum."""
        kind = data.draw(st.sampled_from(("sum", "s", "t", 2.0, -0.5)))
        if depth == 0 or kind != "sum":
            if kind == "sum":
                return lambda i, j: made[i, j], direct, True
            if isinstance(kind, float):
                number: float = kind
                return lambda i, j: sl.const(number, DTYPE), np.full((3, 6), number), False
            v = s if kind == "s" else t
            return lambda i, j: v[j], np.broadcast_to(values[v], (3, 6)), False
        op = data.draw(st.sampled_from("+-*/~"))
        a, x, deep = grow(depth - 1)
        if op == "~":
            return lambda i, j: -a(i, j), -x, deep
        b, y, deeper = grow(depth - 1)
        if deeper and (op == "/" or (deep and op == "*")):
            op = "-"
        functions = {
            "+": (lambda p, q: p + q), "-": (lambda p, q: p - q), "*": (lambda p, q: p * q),
            "/": (lambda p, q: p / q),
        }  # fmt: skip
        f = functions[op]
        return lambda i, j: f(a(i, j), b(i, j)), f(x, y), deep or deeper

    element, wanted, _ = grow(4)
    out = sl.compute((3, 6), lambda i, j: element(i, j) + made[i, j] * 3, name="out")
    (found,), notes = fold_scales([out], {V: values[V], **known})
    np.testing.assert_allclose(run(found, values), wanted + direct * 3, rtol=1e-9, atol=1e-9)


def test_the_parts_of_an_expression_that_are_affine() -> None:
    x, a = sl.var("x", "float32"), sl.var("a", "float32")
    parts = affine_parts(sl.exp(x * a + a) + (x - a), lambda node: node is x)
    assert parts is not None
    assert [(str(p), str(f.scale), list(map(str, f.shift))) for p, f in parts] == [
        ("x * a + a", "a", ["a"]), ("x - a", "1", ["-a"]),
    ]  # fmt: skip
    assert affine_parts(sl.cast(x, "float64") * 2, lambda node: node is x) is None
    assert affine_parts(a * 2, lambda node: node is x) == []
