"""Recurrent layers: cells, and whole sequences as scans over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.arrays.naming import automatic_name
from schedlang.arrays.shapes import extent
from schedlang.compute import math
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.scan import scan
from schedlang.compute.tensor import Extent, Tensor, placeholder
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, const
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_float, check_same, check_shape, check_tensor
from schedlang.tvm.topi.stages import compute

Activation = Callable[[Any], Any]


@public
def lstm(
    Xs: Any,
    Wi: Any,
    Wh: Any,
    Bi: Any = None,
    Bh: Any = None,
    h_init: Any = None,
    c_init: Any = None,
    proj: Any = None,
    p_i: Any = None,
    p_f: Any = None,
    p_o: Any = None,
    f_act: Activation = math.sigmoid,
    g_act: Activation = math.tanh,
    h_act: Activation = math.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Return the hidden and the cell states of an LSTM after each step of a sequence.

    ``Xs`` is ``[steps, batch, inputs]``. ``Wi[4 * hidden, inputs]`` and ``Wh[4 * hidden, outputs]``
    hold the weights of the gates in the order of ``weight_layout``: I input, F forget, G cell, O
    output. ``Bi`` and ``Bh`` are ``[4 * hidden]``, ``h_init[batch, outputs]`` and
    ``c_init[batch, hidden]`` the first states, by default 0. ``proj[outputs, hidden]`` projects the
    hidden state, whose ``outputs`` otherwise are ``hidden``; ``p_i``, ``p_f`` and ``p_o`` are
    peepholes, ``[batch, hidden]``. With ``reverse`` the sequence is processed from its end, and
    element t of the results is the state after t + 1 steps from there, as in TVM.

    The results are ``[steps, batch, outputs]`` and ``[steps, batch, hidden]``. The products with
    ``Wi`` are one stage for all steps, ``lstm_inputs``; a scan computes the rest. (Hochreiter and
    Schmidhuber, 1997; Gers et al., 2000.)

    >>> import schedlang as sl
    >>> X = sl.placeholder((5, 2, 3), name="X")
    >>> Wi, Wh = sl.placeholder((16, 3), name="Wi"), sl.placeholder((16, 4), name="Wh")
    >>> lstm(X, Wi, Wh)
    (Tensor(lstm_hidden: float32[5, 2, 4]), Tensor(lstm_cell: float32[5, 2, 4]))
    """
    asked = "topi.nn.lstm"
    _check_order(asked, weight_layout, "IFGO")
    steps, batch, inputs, hidden = _sizes(asked, Xs, Wi, 4)
    outputs = hidden
    if proj is not None:
        check_tensor(asked, proj, "proj", "outputs", "hidden")
        outputs = proj.shape[0]
        check_shape(asked, proj, "proj", (outputs, hidden))
    _check_weights(asked, 4, hidden, outputs, Wh, Bi, Bh)
    for state, what, shape in (
        (h_init, "h_init", (batch, outputs)), (c_init, "c_init", (batch, hidden)),
        (p_i, "p_i", (batch, hidden)), (p_f, "p_f", (batch, hidden)), (p_o, "p_o", (batch, hidden)),
    ):  # fmt: skip
        if state is not None:
            check_tensor(asked, state, what)
            check_shape(asked, state, what, shape)
    _check_dtypes(asked, Xs, Wi, Wh, Bi, Bh, h_init, c_init, proj, p_i, p_f, p_o)
    rows = extent(as_expr(steps) + 1)
    x = _inputs("lstm", Xs, Wi, Bi)
    h = placeholder((rows, batch, outputs), Xs.dtype, name=automatic_name("lstm_h"))
    c = placeholder((rows, batch, hidden), Xs.dtype, name=automatic_name("lstm_c"))
    products = _recurrent("lstm", h, Wh, Bh, rows, batch)

    def gate(letter: str, t: Axis, b: Axis, j: Axis, peephole: Any, cell: Any) -> Expr:
        row = weight_layout.index(letter) * hidden + j
        value = _read_step(x, t, reverse, b, row) + products[t, b, row]
        value = value if peephole is None else value + peephole[b, j] * cell
        return (g_act if letter == "G" else f_act)(value)

    def cell_at(t: Axis, b: Axis, j: Axis) -> Expr:
        before = c[t - 1, b, j]
        rest = gate("F", t, b, j, p_f, before) * before
        return rest + gate("I", t, b, j, p_i, before) * gate("G", t, b, j, None, None)

    names = ["t", "b", "j"]
    next_c = compute("lstm_next_c", (rows, batch, hidden), cell_at, names)
    next_h = compute(
        "lstm_next_h",
        (rows, batch, hidden),
        lambda t, b, j: gate("O", t, b, j, p_o, next_c[t, b, j]) * h_act(next_c[t, b, j]),
        names,
    )
    if proj is not None:
        k, wide = reduce_axis(hidden, "k"), next_h
        next_h = compute(
            "lstm_projected",
            (rows, batch, outputs),
            lambda t, b, j: total(wide[t, b, k] * proj[j, k], axis=k),
            names,
        )
    firsts = [
        _first(n, s, state)
        for n, s, state in (("lstm_first_h", h, h_init), ("lstm_first_c", c, c_init))
    ]
    states = scan(firsts, [next_h, next_c], [h, c], name=automatic_name("lstm"))
    return (
        _after_first("lstm_hidden", states[0], steps),
        _after_first("lstm_cell", states[1], steps),
    )


@public
def lstm_cell(
    x: Any,
    h: Any,
    c: Any,
    Wi: Any,
    Wh: Any,
    Bi: Any = None,
    Bh: Any = None,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Return the hidden and the cell state after one step of an LSTM.

    ``x`` is ``[batch, inputs]``, ``h`` and ``c`` are ``[batch, hidden]``; see :func:`lstm` for the
    weights.

    >>> import schedlang as sl
    >>> x, h = sl.placeholder((2, 3), name="x"), sl.placeholder((2, 4), name="h")
    >>> Wi, Wh = sl.placeholder((16, 3), name="Wi"), sl.placeholder((16, 4), name="Wh")
    >>> lstm_cell(x, h, sl.placeholder((2, 4), name="c"), Wi, Wh)
    (Tensor(lstm_cell_h: float32[2, 4]), Tensor(lstm_cell_c: float32[2, 4]))
    """
    asked = "topi.nn.lstm_cell"
    _check_order(asked, weight_layout, "IFGO")
    batch, hidden, products = _cell(asked, "lstm_cell", x, h, Wi, Wh, Bi, Bh, 4)
    check_tensor(asked, c, "c")
    check_shape(asked, c, "c", (batch, hidden))

    def gate(letter: str, b: Axis, j: Axis) -> Expr:
        row = weight_layout.index(letter) * hidden + j
        value = products[0][b, row] + products[1][b, row]
        return math.tanh(value) if letter == "G" else math.sigmoid(value)

    next_c = compute(
        "lstm_cell_c",
        (batch, hidden),
        lambda b, j: gate("F", b, j) * c[b, j] + gate("I", b, j) * gate("G", b, j),
        ["b", "j"],
    )
    next_h = compute(
        "lstm_cell_h",
        (batch, hidden),
        lambda b, j: gate("O", b, j) * math.tanh(next_c[b, j]),
        ["b", "j"],
    )
    return next_h, next_c


@public
def gru(
    Xs: Any,
    Wi: Any,
    Wh: Any,
    Bi: Any = None,
    Bh: Any = None,
    h_init: Any = None,
    reverse: bool = False,
    weight_layout: str = "RZN",
    reset_after: bool = True,
) -> Tensor:
    """Return the hidden states of a GRU after each step of a sequence, ``[steps, batch, hidden]``.

    ``Xs`` is ``[steps, batch, inputs]``. ``Wi[3 * hidden, inputs]`` and ``Wh[3 * hidden, hidden]``
    hold the weights of the gates in the order of ``weight_layout``: R reset, Z update, N new. The
    new value is ``tanh(Wi x + Bi + r * (Wh h + Bh))``, as in PyTorch and cuDNN, and the state
    ``(1 - z) * n + z * h``. Without ``reset_after`` the reset comes before the product,
    ``tanh(Wi x + Bi + Wh (r * h) + Bh)``, as by default in ONNX and in the first form of the
    layer. ``Bi`` and ``Bh`` are ``[3 * hidden]``, ``h_init`` is ``[batch, hidden]``, by default 0.
    ``reverse`` means the same as in :func:`lstm`. (Cho et al., 2014.)

    >>> import schedlang as sl
    >>> X = sl.placeholder((5, 2, 3), name="X")
    >>> Wi, Wh = sl.placeholder((12, 3), name="Wi"), sl.placeholder((12, 4), name="Wh")
    >>> gru(X, Wi, Wh)
    Tensor(gru_hidden: float32[5, 2, 4])
    """
    asked = "topi.nn.gru"
    _check_order(asked, weight_layout, "RZN")
    steps, batch, inputs, hidden = _sizes(asked, Xs, Wi, 3)
    _check_weights(asked, 3, hidden, hidden, Wh, Bi, Bh)
    if h_init is not None:
        check_tensor(asked, h_init, "h_init")
        check_shape(asked, h_init, "h_init", (batch, hidden))
    _check_dtypes(asked, Xs, Wi, Wh, Bi, Bh, h_init)
    rows = extent(as_expr(steps) + 1)
    x = _inputs("gru", Xs, Wi, Bi)
    h = placeholder((rows, batch, hidden), Xs.dtype, name=automatic_name("gru_h"))
    products = _recurrent("gru", h, Wh, Bh, rows, batch)

    def pair(gate: str, t: Axis, b: Axis, j: Axis) -> tuple[Expr, Expr]:
        row = weight_layout.index(gate) * hidden + j
        return _read_step(x, t, reverse, b, row), products[t, b, row]

    def reset(t: Axis, b: Axis, j: Axis) -> Expr:
        by_input, by_state = pair("R", t, b, j)
        return math.sigmoid(by_input + by_state) * h[t - 1, b, j]

    names = ["t", "b", "j"]
    reset_state = None if reset_after else compute("gru_reset", (rows, batch, hidden), reset, names)
    new = (
        None
        if reset_state is None
        else _new_products(reset_state, Wh, Bh, weight_layout.index("N") * hidden)
    )

    def state(t: Axis, b: Axis, j: Axis) -> Expr:
        r, z, n = (pair(gate, t, b, j) for gate in "RZN")
        if new is not None:
            update = math.sigmoid(z[0] + z[1])
            return (1 - update) * math.tanh(n[0] + new[t, b, j]) + update * h[t - 1, b, j]
        return _gru_state(r, z, n, h[t - 1, b, j])

    next_h = compute("gru_next_h", (rows, batch, hidden), state, names)
    first = _first("gru_first_h", h, h_init)
    return _after_first("gru_hidden", scan(first, next_h, h, name=automatic_name("gru")), steps)


@public
def gru_cell(
    x: Any, h: Any, Wi: Any, Wh: Any, Bi: Any = None, Bh: Any = None, weight_layout: str = "RZN"
) -> Tensor:
    """Return the hidden state after one step of a GRU.

    ``x`` is ``[batch, inputs]``, ``h`` is ``[batch, hidden]``; see :func:`gru` for the weights.

    >>> import schedlang as sl
    >>> x, h = sl.placeholder((2, 3), name="x"), sl.placeholder((2, 4), name="h")
    >>> Wi, Wh = sl.placeholder((12, 3), name="Wi"), sl.placeholder((12, 4), name="Wh")
    >>> gru_cell(x, h, Wi, Wh)
    Tensor(gru_cell: float32[2, 4])
    """
    asked = "topi.nn.gru_cell"
    _check_order(asked, weight_layout, "RZN")
    batch, hidden, (left, right) = _cell(asked, "gru_cell", x, h, Wi, Wh, Bi, Bh, 3)

    def state(b: Axis, j: Axis) -> Expr:
        row = {g: weight_layout.index(g) * hidden + j for g in weight_layout}
        r, z, n = ((left[b, row[g]], right[b, row[g]]) for g in "RZN")
        return _gru_state(r, z, n, h[b, j])

    return compute("gru_cell", (batch, hidden), state, ["b", "j"])


@public
def rnn(
    Xs: Any,
    Wi: Any,
    Wh: Any,
    Bi: Any = None,
    Bh: Any = None,
    h_init: Any = None,
    act: Activation = math.tanh,
    reverse: bool = False,
) -> Tensor:
    """Return the hidden states of a plain recurrent layer after each step of a sequence.

    ``Xs`` is ``[steps, batch, inputs]``, ``Wi[hidden, inputs]`` and ``Wh[hidden, hidden]`` are
    weights, ``Bi`` and ``Bh`` are ``[hidden]``, and ``h_init`` is ``[batch, hidden]``, by default
    0. The state is ``act(Wi x + Bi + Wh h + Bh)``, and the result ``[steps, batch, hidden]``.
    ``reverse`` means the same as in :func:`lstm`. (Elman, 1990.)

    >>> import schedlang as sl
    >>> X = sl.placeholder((5, 2, 3), name="X")
    >>> Wi, Wh = sl.placeholder((4, 3), name="Wi"), sl.placeholder((4, 4), name="Wh")
    >>> rnn(X, Wi, Wh)
    Tensor(rnn_hidden: float32[5, 2, 4])
    """
    asked = "topi.nn.rnn"
    steps, batch, inputs, hidden = _sizes(asked, Xs, Wi, 1)
    _check_weights(asked, 1, hidden, hidden, Wh, Bi, Bh)
    if h_init is not None:
        check_tensor(asked, h_init, "h_init")
        check_shape(asked, h_init, "h_init", (batch, hidden))
    _check_dtypes(asked, Xs, Wi, Wh, Bi, Bh, h_init)
    rows = extent(as_expr(steps) + 1)
    x = _inputs("rnn", Xs, Wi, Bi)
    h = placeholder((rows, batch, hidden), Xs.dtype, name=automatic_name("rnn_h"))
    products = _recurrent("rnn", h, Wh, Bh, rows, batch)
    next_h = compute(
        "rnn_next_h",
        (rows, batch, hidden),
        lambda t, b, j: act(_read_step(x, t, reverse, b, j) + products[t, b, j]),
        ["t", "b", "j"],
    )
    first = _first("rnn_first_h", h, h_init)
    return _after_first("rnn_hidden", scan(first, next_h, h, name=automatic_name("rnn")), steps)


def _gru_state(r: Any, z: Any, n: Any, before: Expr) -> Expr:
    """Return the next state from the pairs of products of each gate, by input and by state."""
    update = math.sigmoid(z[0] + z[1])
    new = math.tanh(n[0] + math.sigmoid(r[0] + r[1]) * n[1])
    return (1 - update) * new + update * before


def _check_order(asked: str, given: Any, letters: str) -> None:
    if not isinstance(given, str) or sorted(given) != sorted(letters):
        raise ComputeError(
            f"{asked}: weight_layout={given!r} is not an order of the letters {letters}"
        )


def _sizes(asked: str, xs: Any, wi: Any, gates: int) -> tuple[Extent, Extent, Extent, Extent]:
    """Return the steps, batch, inputs and hidden size of a sequence and its weights."""
    check_tensor(asked, xs, "Xs", "steps", "batch", "inputs")
    check_float(asked, xs)
    steps, batch, inputs = xs.shape
    return steps, batch, inputs, _hidden(asked, wi, inputs, f"Xs {xs.name}", gates)


def _hidden(asked: str, wi: Any, inputs: Extent, source: str, gates: int) -> Extent:
    check_tensor(asked, wi, "Wi", f"{gates} * hidden", "inputs")
    here, there = (f"the number of inputs of {x}" for x in (source, f"Wi {wi.name}"))
    check_same(asked, inputs, here, wi.shape[1], there)
    rows = wi.shape[0]
    if isinstance(rows, int) and (rows % gates or not rows):
        raise ComputeError(
            f"{asked}: Wi {wi.name} has {rows} rows, which do not divide into {gates} gates of "
            "equal size"
        )
    return extent(as_expr(rows) // gates)


def _check_dtypes(asked: str, first: Tensor, *others: Any) -> None:
    for other in others:
        if other is not None and other.dtype != first.dtype:
            raise ComputeTypeError(
                f"{asked}: {other.name} is {other.dtype}, but {first.name} is {first.dtype}; cast "
                "one of them by topi.cast, since a state has one dtype"
            )


def _check_weights(
    asked: str, gates: int, hidden: Extent, outputs: Extent, wh: Any, bi: Any, bh: Any
) -> None:
    rows = extent(as_expr(hidden) * gates)
    check_tensor(asked, wh, "Wh", f"{gates} * hidden", "hidden")
    check_shape(asked, wh, "Wh", (rows, outputs))
    for bias, what in ((bi, "Bi"), (bh, "Bh")):
        if bias is not None:
            check_tensor(asked, bias, what)
            check_shape(asked, bias, what, (rows,))


def _product(name: str, shape: tuple[Extent, ...], read: Any, inner: Extent, w: Any) -> Tensor:
    k = reduce_axis(inner, "k")
    names = ["t", "b", "j"][-len(shape) :]
    return compute(name, shape, lambda *at: total(read(*at[:-1], k) * w[at[-1], k], axis=k), names)


def _biased(name: str, made: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return made
    names = ["t", "b", "j"][-made.ndim :]
    return compute(name, made.shape, lambda *at: made[at] + bias[at[-1]], names)


def _inputs(name: str, xs: Tensor, wi: Tensor, bias: Any) -> Tensor:
    """Return the products of all steps with the weights of inputs."""
    products = _product(
        f"{name}_inputs", (*xs.shape[:2], wi.shape[0]), lambda t, b, k: xs[t, b, k], wi.shape[1], wi
    )
    return _biased(f"{name}_inputs_bias", products, bias)


def _recurrent(name: str, h: Tensor, wh: Tensor, bias: Any, rows: Extent, batch: Extent) -> Tensor:
    """Return the products of the state before each step with the weights of the state."""
    products = _product(
        f"{name}_recurrent",
        (rows, batch, wh.shape[0]),
        lambda t, b, k: h[t - 1, b, k],
        wh.shape[1],
        wh,
    )
    return _biased(f"{name}_recurrent_bias", products, bias)


def _new_products(reset_state: Tensor, wh: Any, bias: Any, first: Extent) -> Tensor:
    """Return the products of a state that is reset with rows ``first`` and on of the weights."""
    k, names = reduce_axis(reset_state.shape[2], "k"), ["t", "b", "j"]
    products: Tensor = compute(
        "gru_new",
        reset_state.shape,
        lambda t, b, j: total(reset_state[t, b, k] * wh[first + j, k], axis=k),
        names,
    )
    if bias is None:
        return products
    return compute(
        "gru_new_bias",
        reset_state.shape,
        lambda t, b, j: products[t, b, j] + bias[first + j],
        names,
    )


def _read_step(x: Tensor, t: Axis, reverse: bool, *rest: Any) -> Expr:
    """Return the element of ``x`` at the step that makes row ``t`` of the states.

    Row 0 is the first state, so that row t is made by step t - 1, or by step ``steps - t``.
    """
    step = as_expr(x.shape[0]) - t if reverse else t - 1
    # always true in a scan, which starts at row 1: it proves the read
    return math.if_then_else(t >= 1, x.element((step, *rest)), const(0, x.dtype))


def _first(name: str, state: Tensor, given: Any) -> Tensor:
    zero = const(0, state.dtype)
    return compute(
        name,
        (1, *state.shape[1:]),
        lambda t, b, j: zero if given is None else given[b, j],
        ["t", "b", "j"],
    )


def _after_first(name: str, states: Tensor, steps: Extent) -> Tensor:
    return compute(
        name, (steps, *states.shape[1:]), lambda t, b, j: states[t + 1, b, j], ["t", "b", "j"]
    )


def _cell(
    asked: str, name: str, x: Any, h: Any, wi: Any, wh: Any, bi: Any, bh: Any, gates: int
) -> tuple[Extent, Extent, tuple[Tensor, Tensor]]:
    """Return the batch, the hidden size, and the products of one step by input and by state."""
    check_tensor(asked, x, "x", "batch", "inputs")
    check_float(asked, x)
    batch = x.shape[0]
    hidden = _hidden(asked, wi, x.shape[1], f"x {x.name}", gates)
    _check_weights(asked, gates, hidden, hidden, wh, bi, bh)
    check_tensor(asked, h, "h")
    check_shape(asked, h, "h", (batch, hidden))
    _check_dtypes(asked, x, h, wi, wh, bi, bh)
    left = _product(f"{name}_inputs", (batch, wi.shape[0]), lambda b, k: x[b, k], wi.shape[1], wi)
    right = _product(f"{name}_recurrent", (batch, wi.shape[0]), lambda b, k: h[b, k], hidden, wh)
    return (
        batch,
        hidden,
        (_biased(f"{name}_inputs_bias", left, bi), _biased(f"{name}_recurrent_bias", right, bh)),
    )
