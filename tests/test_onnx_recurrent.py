"""LSTM, GRU and RNN of ONNX beside their equations in NumPy: directions, layouts, first states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import FrontendError
from tests.onnx_cases import Case, Known, f32, i64, model_of, results

pytest.importorskip("onnx", reason="imports ONNX models: the extra onnx")

STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
X = f32(STEPS, BATCH, INPUTS)
WAYS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
FUNCTIONS: dict[str, Any] = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0),
    "Softsign": lambda v: v / (1 + np.abs(v)),
}  # fmt: skip


def weights(gates: int, ways: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return W, R and B."""
    return (f32(ways, gates * HIDDEN, INPUTS, seed=1) / 2,
        f32(ways, gates * HIDDEN, HIDDEN, seed=2),
            f32(ways, 2 * gates * HIDDEN, seed=3))  # fmt: skip


def lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, p: Any = (0, 0, 0),
    names: Any = ()) -> Any:
    """Return the hidden states of one direction, and the last states, by ONNX's equations."""
    f, g, act = (FUNCTIONS[n] for n in names or ("Sigmoid", "Tanh", "Tanh"))
    found = []
    for row in x:
        i, o, fg, n = np.split(row @ w.T + h @ r.T + b[: 4 * HIDDEN] + b[4 * HIDDEN :], 4, axis=1)
        before = c
        c = f(fg + p[2] * before) * before + f(i + p[0] * before) * g(n)
        h = f(o + p[1] * c) * act(c)
        found.append(h)
    return np.stack(found), h, c


def gru(x: Any, w: Any, r: Any, b: Any, h: Any, after: int) -> Any:
    sig, found = FUNCTIONS["Sigmoid"], []
    wb, rb = b[: 3 * HIDDEN], b[3 * HIDDEN :]
    for row in x:
        (z, s, n), (hz, hs, hn) = (np.split(v, 3, axis=1) for v in (row @ w.T + wb, h @ r.T + rb))
        update, reset = sig(z + hz), sig(s + hs)
        if after:
            new = np.tanh(n + reset * hn)
        else:
            new = np.tanh(n + (reset * h) @ r[2 * HIDDEN :].T + rb[2 * HIDDEN :])
        h = (1 - update) * new + update * h
        found.append(h)
    return np.stack(found), h


def both(direction: str, layer: Any) -> list[np.ndarray]:
    """Return what a layer computes in each direction, as ONNX arranges it."""
    parts = []
    for k, back in enumerate(WAYS[direction]):
        states, *last = layer(k, X[::-1] if back else X)
        parts.append((states[::-1] if back else states, *last))
    return [np.stack(found, 1 if n == 0 else 0) for n, found in enumerate(zip(*parts))]


def close(found: list[Any], expected: list[Any]) -> None:
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype == "float32"
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", WAYS)
def test_lstm(direction: str) -> None:
    ways = len(WAYS[direction])
    w, r, b = weights(4, ways)
    h, c = f32(ways, BATCH, HIDDEN, seed=4), f32(ways, BATCH, HIDDEN, seed=5)
    case = Case("LSTM", (X, Known(w), Known(r), Known(b), None, h, Known(c)),
                {"direction": direction, "hidden_size": HIDDEN}, outputs=3)  # fmt: skip
    model, arrays = model_of(case)
    close(results(model, *arrays), both(direction, lambda k, x: lstm(x, w[k], r[k], b[k], h[k],
        c[k])))
    # the states of one direction are scans, which run as a kernel, too
    imported = sl.frontend.from_onnx(model)
    kernel = sl.build(sl.schedule(list(imported.outputs)), target="python")
    given = {t.name: a for t, a in zip(imported.inputs, arrays)}
    given.update((t.name, a) for t, a in imported.params.items())
    close(list(kernel(**given)), results(model, *arrays))


def test_lstm_of_batches_first_with_peepholes_and_other_functions() -> None:
    w, r, b = weights(4, 1)
    p, zero = f32(1, 3 * HIDDEN, seed=6), np.zeros((BATCH, HIDDEN), "float32")
    names = ["Softsign", "Tanh", "Relu"]
    case = Case("LSTM", (X.transpose(1, 0, 2).copy(), w, r, b, None, None, None, p),
                {"layout": 1, "activations": names}, outputs=3)  # fmt: skip
    model, arrays = model_of(case)
    y, h, c = lstm(X, w[0], r[0], b[0], zero, zero, np.split(p[0], 3), names)
    expected = [y.transpose(1, 0, 2)[:, :, None], h[:, None], c[:, None]]
    close(results(model, *arrays), expected)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("direction", WAYS)
def test_gru(direction: str, after: int) -> None:
    ways = len(WAYS[direction])
    w, r, b = weights(3, ways)
    h = f32(ways, BATCH, HIDDEN, seed=4)
    case = Case("GRU", (X, Known(w), Known(r), Known(b), None, h),
                {"direction": direction, "linear_before_reset": after}, outputs=2,
                opset=13)  # fmt: skip
    model, arrays = model_of(case)
    close(results(model, *arrays), both(direction, lambda k, x: gru(x, w[k], r[k], b[k], h[k],
        after)))


def test_without_bias_and_with_whole_sequences() -> None:
    w, r, _ = weights(3, 1)
    zero, none = np.zeros((BATCH, HIDDEN), "float32"), np.zeros(6 * HIDDEN, "float32")
    lengths = Known(np.full(BATCH, STEPS, "int32"))
    model, arrays = model_of(Case("GRU", (X, w, r, None, lengths), {}, outputs=2))
    y, h = gru(X, w[0], r[0], none, zero, 0)
    close(results(model, *arrays), [y[:, None], h[None]])


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("direction", WAYS)
def test_sequences_of_several_lengths(direction: str, known: bool) -> None:
    """After its end, a sequence has states of 0, and its last state is the one before."""
    ways, lengths = len(WAYS[direction]), np.array([5, 2, 0], "int32")
    x = f32(STEPS, 3, INPUTS)
    (w, r, b), (v, s, d) = weights(4, ways), weights(3, ways)
    given = Known(lengths) if known else lengths
    first = f32(ways, 3, HIDDEN, seed=4), f32(ways, 3, HIDDEN, seed=5)
    for case, layer in (
        (Case("LSTM", (x, w, r, b, given, *first), {"direction": direction}, outputs=3),
         lambda k, i, rows: lstm(
             rows, w[k], r[k], b[k], first[0][k, i : i + 1], first[1][k, i : i + 1])),
        (Case("GRU", (x, v, s, d, given, first[0]), {"direction": direction}, outputs=2),
         lambda k, i, rows: gru(rows, v[k], s[k], d[k], first[0][k, i : i + 1], 0)),
    ):  # fmt: skip
        expected = [np.zeros((STEPS, ways, 3, HIDDEN), "float32")]
        expected += [np.zeros((ways, 3, HIDDEN), "float32") for _ in range(case.outputs - 1)]
        for k, back in enumerate(WAYS[direction]):
            for i, length in enumerate(lengths.tolist()):
                if length:
                    rows = x[:length, i : i + 1]
                    states, *last = layer(k, i, rows[::-1] if back else rows)
                    expected[0][:length, k, i : i + 1] = states[::-1] if back else states
                    for whole, state in zip(expected[1:], last):
                        whole[k, i : i + 1] = state
        model, arrays = model_of(case)
        close(results(model, *arrays), expected)


@pytest.mark.parametrize(("operator", "kernel"), [
    ("RNN", False), ("LSTM", False), ("GRU", False),
    pytest.param("LSTM", True, marks=pytest.mark.slow),
])  # fmt: skip
def test_steps_and_batch_are_sizes_of_each_call(operator: str, kernel: bool) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    w, r, b = (Known(v) for v in weights(gates, 2))
    model, _ = model_of(Case(operator, (X, w, r, b), {"direction": "bidirectional"}, outputs=2))
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, ("steps", "batch")):
        dim.dim_param = name
    sizes = {"steps": sl.var("steps"), "batch": sl.var("batch")}
    imported = sl.frontend.from_onnx(model, sizes)
    run = sl.network(imported, database=None) if kernel else imported.reference
    for steps, batch in ((1, 3), (4, 1), (9, 2)):
        x = f32(steps, batch, INPUTS)
        wanted = results(model, x, shapes={"steps": steps, "batch": batch})
        close(list(run(x)), wanted)


@pytest.mark.parametrize(("attributes", "extra", "message"), [
    ({"direction": "sideways"}, (),
        "'direction' is 'sideways', not one of forward, reverse, bidirec"),
    ({"clip": 2.0}, (), "clip and activations with parameters have no form here"),
    ({"input_forget": 1}, (), "with input_forget=1 it has no form here"),
    ({"activations": ["Sigmoid", "Affine", "Tanh"]}, (), "but must be 3 for each direction"),
    ({"hidden_size": 7}, (), "hidden_size is 7, but its weights have 4"),
    ({"layout": 2}, (), "'layout' is 2, not one of 0, 1"),
    ({"direction": "bidirectional"}, (), r"W have shape \(1, 16, 3\), but must have \(2, 16, 3\)"),
    ({}, (None, i64(5, 3)), r"sequence_lens are int64 of shape \(2,\), but must be int32"),
    ({}, (None, np.array([5], "int32")), "int32, one for each of the 2 sequences"),
    ({}, (None, Known(np.array([5, 6], "int32"))), "is not between 0 and 5"),
    ({}, (None, None, f32(3, 2, 4)), r"state has shape \(3, 2, 4\), but must have \(1, 2, 4\)"),
    ({}, (None, None, Known(f32(1, 1, 4))), r"shape \(1, 1, 4\), but must have \(1, 2, 4\)"),
    ({}, (None, None, None, f32(1, 2, 5)), r"shape \(1, 2, 5\), but must have \(1, 2, 4\)"),
    ({}, (None,) * 4 + (f32(1, 16),), r"P have shape \(1, 16\), but must have \(1, 12\)"),
    ({"layout": 1}, (None, None, f32(1, 2, 4)), r"\(1, 2, 4\), but must have \(5, 1, 4\)"),
])  # fmt: skip
def test_refusals(attributes: dict[str, Any], extra: tuple[Any, ...], message: str) -> None:
    w, r, _ = weights(4, 1)
    model, _ = model_of(Case("LSTM", (X, w, r, *extra), attributes, outputs=3))
    with pytest.raises(FrontendError, match=f"LSTM node 'it': .*{message}"):
        sl.frontend.from_onnx(model)


def test_a_gru_takes_one_state_for_each_direction() -> None:
    w, r, _ = weights(3, 2)
    given = Case("GRU", (X, w, r, None, None, f32(1, 2, 4)), {"direction": "bidirectional"})
    with pytest.raises(FrontendError, match=r"shape \(1, 2, 4\), but must have \(2, 2, 4\)"):
        sl.frontend.from_onnx(model_of(given)[0])


def test_the_reset_of_a_gru_may_come_before_the_product() -> None:
    """As topi computes it, with weights in any order, and a sequence from its end."""
    from schedlang import topi

    w, r, b = (v[0] for v in weights(3, 1))
    order = [1, 2, 0]
    mixed = [np.concatenate([np.split(v, parts)[k + n] for n in range(0, parts, 3) for k in order])
             for v, parts in ((w, 3), (r, 3), (b, 6))]  # fmt: skip
    T = {n: sl.placeholder(v.shape, name=n) for n, v in zip("XWRBC", [
        X, mixed[0], mixed[1], mixed[2][: 3 * HIDDEN], mixed[2][3 * HIDDEN :]])}  # fmt: skip
    made = topi.nn.gru(T["X"], T["W"], T["R"], T["B"], T["C"], reverse=True, weight_layout="RNZ",
                       reset_after=False)  # fmt: skip
    arrays = {"X": X, "W": mixed[0], "R": mixed[1], "B": mixed[2][: 3 * HIDDEN],
              "C": mixed[2][3 * HIDDEN :]}  # fmt: skip
    zero = np.zeros((BATCH, HIDDEN), "float32")
    expected, _ = gru(X[::-1], w, r, b, zero, 0)
    found = sl.reference(made)(**arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    kernel = sl.build(sl.schedule(made), target="python")
    np.testing.assert_allclose(kernel(**arrays), expected, rtol=1e-4, atol=1e-5)


def rnn(x: Any, w: Any, r: Any, b: Any, h: Any, name: str) -> Any:
    states = []
    for row in x:
        h = FUNCTIONS[name](row @ w.T + h @ r.T + b[:HIDDEN] + b[HIDDEN:])
        states.append(h)
    return np.stack(states), h


@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("layout", [0, 1])
def test_rnn(direction: str, layout: int) -> None:
    ways = len(WAYS[direction])
    w, r, b = weights(1, ways)
    h, names = f32(ways, BATCH, HIDDEN, seed=4), ["Tanh", "Relu"][:ways]
    x, first = (v.swapaxes(0, 1).copy() if layout else v for v in (X, h))
    case = Case("RNN", (x, Known(w), Known(r), Known(b), None, first),
                {"direction": direction, "activations": names, "layout": layout},
                outputs=2)  # fmt: skip
    model, arrays = model_of(case)
    every, last = both(direction, lambda k, x: rnn(x, w[k], r[k], b[k], h[k], names[k]))
    if layout:
        every, last = every.transpose(2, 0, 1, 3), last.swapaxes(0, 1)
    close(results(model, *arrays), [every, last])
