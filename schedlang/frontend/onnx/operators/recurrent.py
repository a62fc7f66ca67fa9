"""Recurrent layers, as scans over the steps: LSTM, GRU and RNN, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.naming import name_prefix
from schedlang.arrays.rearranging import flip
from schedlang.arrays.shapes import same
from schedlang.arrays.shaping import swapaxes, transpose
from schedlang.compute.tensor import Extent, Tensor, shape_text
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.node_stages import is_zero
from schedlang.frontend.onnx.call import Call, Flag
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known, Value
from schedlang.language.calls import call as math
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.tvm.topi.stages import compute

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_LSTM, _GRU, _RNN = ("sigmoid", "tanh", "tanh"), ("sigmoid", "tanh"), ("tanh",)
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda v: math("sigmoid", v),
    "tanh": lambda v: math("tanh", v),
    "relu": lambda v: math("max", v, 0.0),
    "softsign": lambda v: v / (math("abs", v) + 1.0),
}


def lstm(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: Flag = 0,
    layout: Flag = 0,
) -> list[Tensor]:
    """Gates are in the order input, output, forget, cell; peepholes input, output, forget."""
    if input_forget:
        raise call.refused("with input_forget=1 it has no form here")
    ways = _ways(call, direction, activation_alpha, activation_beta, clip)
    functions = _functions(call, activations, _LSTM, len(ways))
    sequence, hidden = _sequence(call, x, w, r, b, hidden_size, 4, len(ways), layout)
    lengths = _lengths(call, sequence_lens, sequence)
    check_dtypes(call, *(v for v in (x, w, r, b, initial_h, initial_c, p) if v is not None))
    if p is not None and tuple(p.shape) != (len(ways), 3 * hidden):
        raise call.refused(
            f"its peepholes P have shape {shape_text(p.shape)}, but must have "
            f"{shape_text((len(ways), 3 * hidden))}"
        )
    batch = sequence.shape[1]
    states = (len(ways), batch, hidden)
    first = [_states(call, v, layout, states) for v in (initial_h, initial_c)]

    def layer(k: int, sequence: Tensor, back: bool) -> Sequence[Tensor]:
        peepholes: list[Any] = [None] * 3
        if p is not None:
            row = _part(call, p, k)
            peepholes = [
                topi.broadcast_to(row[n * hidden : (n + 1) * hidden], (batch, hidden))
                for n in range(3)
            ]
        input_peephole, output, forget = peepholes
        bi, bh = _biases(call, b, k, 4 * hidden)
        h, c = (None if v is None else v[k] for v in first)
        return topi.nn.lstm(
            sequence,
            _part(call, w, k),
            _part(call, r, k),
            bi,
            bh,
            h,
            c,
            None,
            input_peephole,
            forget,
            output,
            functions[k][0],
            functions[k][1],
            functions[k][2],
            back,
            "IOFG",
        )

    return _results(layer, sequence, lengths, ways, layout, 2)


def lstm_of_steps(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: Flag = 0,
) -> list[Tensor]:
    """Before opset 14, steps always come first."""
    return lstm(
        call,
        x,
        w,
        r,
        b,
        sequence_lens,
        initial_h,
        initial_c,
        p,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        input_forget=input_forget,
    )


def gru(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: Flag = 0,
    linear_before_reset: Flag = 0,
) -> list[Tensor]:
    """Gates are in the order update, reset, new."""
    ways = _ways(call, direction, activation_alpha, activation_beta, clip)
    if [v.lower() for v in activations or []] not in ([], [*_GRU] * len(ways)):
        raise call.refused(
            f"with the activations {activations} it has no form here",
            "A GRU has the activations Sigmoid and Tanh.",
        )
    sequence, hidden = _sequence(call, x, w, r, b, hidden_size, 3, len(ways), layout)
    lengths = _lengths(call, sequence_lens, sequence)
    check_dtypes(call, *(v for v in (x, w, r, b, initial_h) if v is not None))
    first = _states(call, initial_h, layout, (len(ways), sequence.shape[1], hidden))

    def layer(k: int, sequence: Tensor, back: bool) -> Sequence[Tensor]:
        bi, bh = _biases(call, b, k, 3 * hidden)
        states = topi.nn.gru(
            sequence,
            _part(call, w, k),
            _part(call, r, k),
            bi,
            bh,
            None if first is None else first[k],
            back,
            "ZRN",
            bool(linear_before_reset),
        )
        return [states]

    return _results(layer, sequence, lengths, ways, layout, 1)


def gru_of_steps(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    linear_before_reset: Flag = 0,
) -> list[Tensor]:
    return gru(
        call,
        x,
        w,
        r,
        b,
        sequence_lens,
        initial_h,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        linear_before_reset=linear_before_reset,
    )


def rnn(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: Flag = 0,
) -> list[Tensor]:
    ways = _ways(call, direction, activation_alpha, activation_beta, clip)
    functions = _functions(call, activations, _RNN, len(ways))
    sequence, hidden = _sequence(call, x, w, r, b, hidden_size, 1, len(ways), layout)
    lengths = _lengths(call, sequence_lens, sequence)
    check_dtypes(call, *(v for v in (x, w, r, b, initial_h) if v is not None))
    first = _states(call, initial_h, layout, (len(ways), sequence.shape[1], hidden))

    def layer(k: int, sequence: Tensor, back: bool) -> Sequence[Tensor]:
        bi, bh = _biases(call, b, k, hidden)
        state = None if first is None else first[k]
        weights = _part(call, w, k), _part(call, r, k)
        return [topi.nn.rnn(sequence, *weights, bi, bh, state, functions[k][0], back)]

    return _results(layer, sequence, lengths, ways, layout, 1)


def _ways(
    call: Call,
    direction: str,
    alpha: list[float] | None,
    beta: list[float] | None,
    clip: float | None,
) -> tuple[bool, ...]:
    """Return for each direction whether it is from the end."""
    if direction not in DIRECTIONS:
        raise call.refused(
            f"its attribute 'direction' is {direction!r:.40}, not one of {', '.join(DIRECTIONS)}"
        )
    if alpha or beta or clip:
        raise call.refused(
            "clip and activations with parameters have no form here",
            "Use Sigmoid, Tanh, Relu or Softsign, without clip.",
        )
    return DIRECTIONS[direction]


def _functions(
    call: Call, names: list[str] | None, default: Sequence[str], ways: int
) -> list[list[Callable[[Any], Any]]]:
    """Return the activations of each direction."""
    chosen = [v.lower() for v in names] if names else [*default] * ways
    unknown = [v for v in chosen if v not in _FUNCTIONS]
    if unknown or len(chosen) != len(default) * ways:
        raise call.refused(
            f"its activations are {names}, but must be {len(default)} for each direction",
            "Use Sigmoid, Tanh, Relu or Softsign.",
        )
    count = len(default)
    return [[_FUNCTIONS[v] for v in chosen[k * count : (k + 1) * count]] for k in range(ways)]


def _sequence(
    call: Call,
    x: Tensor,
    w: Value,
    r: Value,
    b: Value | None,
    hidden_size: int | None,
    gates: int,
    ways: int,
    layout: int,
) -> tuple[Tensor, int]:
    """Return the sequence with its steps first, and the hidden size that the weights have."""
    hidden = r.shape[-1] if r.ndim == 3 else None
    if x.ndim != 3 or not isinstance(hidden, int) or not hidden:
        raise call.refused(f"its input has {x.ndim} dimensions and its weights R {r.ndim}, not 3")
    inputs: Extent = x.shape[2]
    for weights, what, shape in (
        (w, "W", (ways, gates * hidden, inputs)),
        (r, "R", (ways, gates * hidden, hidden)),
        (b, "B", (ways, 2 * gates * hidden)),
    ):
        if weights is not None and tuple(weights.shape) != shape:
            raise call.refused(
                f"its weights {what} have shape {shape_text(weights.shape)}, but must "
                f"have {shape_text(shape)}"
            )
    if hidden_size not in (None, hidden):
        raise call.refused(f"hidden_size is {hidden_size}, but its weights have {hidden}")
    if layout not in (0, 1):
        raise call.refused(f"its attribute 'layout' is {layout}, not 0 or 1")
    return swapaxes(x, 0, 1) if layout else x, hidden


def _lengths(call: Call, given: Value | None, sequence: Tensor) -> Tensor | None:
    """Return the length of each sequence; ``None`` if all are as long as the input."""
    steps, batch = sequence.shape[:2]
    if given is None:
        return None
    if given.dtype != "int32" or given.ndim != 1 or not same(given.shape[0], batch):
        raise call.refused(
            f"its sequence_lens are {given.dtype} of shape {shape_text(given.shape)}, but must be "
            f"int32, one for each of the {batch} sequences"
        )
    if isinstance(given, Known) and isinstance(steps, int):
        items = given.items()
        if all(v == steps for v in items):
            return None
        if not all(isinstance(v, int) and 0 <= v <= steps for v in items):
            raise call.refused(f"one of its sequence_lens is not between 0 and {steps}")
    return call.tensor(given)


def _states(
    call: Call, given: Value | None, layout: int, wanted: tuple[int, Extent, int]
) -> list[Tensor] | None:
    """Return the first state of each direction; ``None`` if all elements are 0.

    ``wanted`` is the shape of the states if directions come first.
    """
    if given is None or (isinstance(given, Known) and not given.symbolic and not given.array.any()):
        return None
    states = call.tensor(given)
    if is_zero(states):
        return None
    shape = (wanted[1], wanted[0], wanted[2]) if layout else wanted
    if states.ndim != 3 or not all(map(same, states.shape, shape)):
        raise call.refused(
            f"an initial state has shape {shape_text(states.shape)}, but must have "
            f"{shape_text(shape)}"
        )
    rows = swapaxes(states, 0, 1) if layout else states
    return [rows[k] for k in range(wanted[0])]


def _part(call: Call, given: Value, k: int) -> Tensor:
    """Return the weights of direction ``k``."""
    return call.tensor(given)[k]


def _biases(call: Call, given: Value | None, k: int, rows: int) -> list[Tensor | None]:
    """Return the biases of the inputs and of the states, each for all gates."""
    if given is None:
        return [None, None]
    row = _part(call, given, k)
    return [row[:rows], row[rows:]]


def _results(
    layer: Callable[[int, Tensor, bool], Sequence[Tensor]],
    sequence: Tensor,
    lengths: Tensor | None,
    ways: Sequence[bool],
    layout: int,
    count: int,
) -> list[Tensor]:
    """Return the states of all steps, ``[steps, directions, batch, hidden]``, and the last ones.

    ``layer`` makes the states of a direction, whose elements are those after t + 1 steps.
    """
    all_states: list[Tensor] = []
    last: list[list[Tensor]] = [[] for _ in range(count)]
    for k, back in enumerate(ways):
        with name_prefix("reverse" if back else "forward"):
            if lengths is None:
                states = layer(k, sequence, back)
                in_order = flip(states[0], 0) if back else states[0]
                ends = [state[-1] for state in states]
            else:
                states = layer(k, _turned(sequence, lengths) if back else sequence, False)
                ends = [_end(state, lengths) for state in states]
                own = _turned(states[0], lengths) if back else states[0]
                in_order = _ended(own, lengths)
        all_states.append(in_order)
        for ends_of_state, end in zip(last, ends):
            ends_of_state.append(end)
    every = topi.stack(all_states, 1)
    final = [topi.stack(ends_of_state, 0) for ends_of_state in last]
    if not layout:
        return [every, *final]
    return [transpose(every, (2, 0, 1, 3)), *(swapaxes(v, 0, 1) for v in final)]


def _turned(steps: Tensor, lengths: Tensor) -> Tensor:
    """Return the steps of each sequence from its end, and those after its end as they are."""

    def element(t: Axis, b: Axis, j: Axis) -> Expr:
        place = cast(lengths[b], "int64") - 1 - t
        # whatever the lengths are, the steps that are read exist
        inside = math("min", select(place < 0, t, place), as_expr(steps.shape[0]) - 1)
        return steps[inside, b, j]

    return compute("turned", steps.shape, element, ["t", "b", "j"])


def _ended(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the states, with 0 after the end of each sequence."""

    def element(t: Axis, b: Axis, j: Axis) -> Expr:
        return select(t < cast(lengths[b], "int64"), states[t, b, j], const(0, states.dtype))

    return compute("ended", states.shape, element, ["t", "b", "j"])


def _end(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the state after the last step of each sequence; 0 without steps."""

    def element(b: Axis, j: Axis) -> Expr:
        length = cast(lengths[b], "int64")
        place = math("max", math("min", length, as_expr(states.shape[0])) - 1, 0)
        return select(length > 0, states[place, b, j], const(0, states.dtype))

    return compute("end", states.shape[1:], element, ["b", "j"])


OPERATORS: Table = {
    "LSTM": {7: lstm_of_steps, **since(lstm, 14, 22)},
    "GRU": {7: gru_of_steps, **since(gru, 14, 22)},
    "RNN": since(rnn, 7, 14, 22),
}
