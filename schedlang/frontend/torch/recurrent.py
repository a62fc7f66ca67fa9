"""Recurrent layers of ATen, as scans over the steps: of several layers, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from schedlang import topi
from schedlang.arrays.naming import name_prefix
from schedlang.arrays.rearranging import flip
from schedlang.arrays.shaping import swapaxes
from schedlang.compute import math
from schedlang.compute.tensor import Tensor
from schedlang.frontend.node_stages import is_zero
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.language.calls import call as call_of

# a layer in one direction: (sequence, weights, first states, reverse) to its states at each step
Layer = Callable[[Tensor, Sequence[Any], Sequence[Any], bool], Sequence[Tensor]]


def lstm(
    call: Call,
    input: Tensor,  # noqa: A002
    hx: Sequence[Any],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor | None, ...]:
    _check(call, dropout, train, num_layers)
    # weights of the projection of the hidden state, whose size then is another one
    extra = hx[0].shape[2] != hx[1].shape[2]

    def layer(x: Tensor, weights: Sequence[Any], first: Sequence[Any], back: bool) -> Any:
        own = weights[: -1 if extra else None]
        bi, bh = own[2:] or (None, None)
        return topi.nn.lstm(
            x,
            own[0],
            own[1],
            bi,
            bh,
            first[0],
            first[1],
            weights[-1] if extra else None,
            reverse=back,
        )

    return _layers(
        call,
        layer,
        input,
        hx,
        params,
        (4 if has_biases else 2) + extra,
        num_layers,
        bidirectional,
        batch_first,
    )


def _of_one_state(cells: Callable[..., Tensor]) -> Operator:
    """Return the operator of layers whose one state ``cells`` compute in one direction."""

    def operator(
        call: Call,
        input: Tensor,  # noqa: A002
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor | None, ...]:
        _check(call, dropout, train, num_layers)

        def layer(x: Tensor, weights: Sequence[Any], first: Sequence[Any], back: bool) -> Any:
            biases = weights[2:] or (None, None)
            return [cells(x, *weights[:2], *biases, first[0], reverse=back)]

        each = 4 if has_biases else 2
        return _layers(
            call, layer, input, [hx], params, each, num_layers, bidirectional, batch_first
        )

    return operator


def _check(call: Call, dropout: float, train: bool, num_layers: int) -> None:
    if train and dropout and num_layers > 1:
        raise call.refuse(
            f"dropout={dropout} between its layers draws at random in training mode",
            "Call module.eval() first.",
        )


def _layers(
    call: Call,
    layer: Layer,
    sequence: Tensor,
    first: Sequence[Tensor],
    params: Sequence[Tensor],
    each: int,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor | None, ...]:
    """Return the states of the last layer, and the last ones of every layer, stacked."""
    x = swapaxes(sequence, 0, 1) if batch_first else sequence
    ways = 2 if bidirectional else 1
    last: list[list[Any]] = [[] for _ in first]
    for number in range(num_layers):
        directions = []
        for way in range(ways):
            at = number * ways + way
            weights = params[at * each : (at + 1) * each]
            starts = [_state(state, at) for state in first]
            with name_prefix(f"l{number}{'r' * way}"):
                states = layer(x, weights, starts, bool(way))
            # of the reversed sequence, element t is the state after t + 1 steps from the end
            directions.append(flip(states[0], 0) if way else states[0])
            for ends_of_state, state in zip(last, states):
                ends_of_state.append(state[-1])
        with name_prefix(f"l{number}"):
            x = topi.concatenate(directions, 2) if ways > 1 else directions[0]
    ends = [
        topi.stack(ends_of_state, 0) if used else None
        for ends_of_state, used in zip(last, call.used[1:])
    ]
    return (swapaxes(x, 0, 1) if batch_first else x, *ends)


def _state(states: Tensor, number: int) -> Tensor | None:
    """Return the first state of one layer; ``None`` if all elements are 0."""
    if is_zero(states):
        return None
    return states[number]


OPERATORS: dict[str, Operator] = {
    "lstm.input": lstm, "gru.input": _of_one_state(topi.nn.gru),
    "rnn_tanh.input": _of_one_state(partial(topi.nn.rnn, act=math.tanh)),
    "rnn_relu.input": _of_one_state(
        partial(topi.nn.rnn, act=lambda v: call_of("max", v, 0.0))
    ),
}  # fmt: skip
