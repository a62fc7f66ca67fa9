"""PyTorch on the seven families of operators: those of ``torch_peer.py``, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as fn

from benchmarks.peers import Call, torch_peer
from benchmarks.works import Arrays, Work

start_worker = torch_peer.start_worker


def prepare(implementation: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    if work.kind not in FORMULAS:
        return torch_peer.prepare(implementation, work, arrays, outs)
    given = [torch.from_numpy(a) for a in arrays.values()]
    results = [torch.from_numpy(a) for a in outs.values()]
    if implementation == "torch eager":
        if work.kind in INTO:
            return lambda: INTO[work.kind](*given, results[0])
        return lambda: FORMULAS[work.kind](work.sizes, *given)
    call = torch_peer.compiled_formula(FORMULAS[work.kind], work, work.kind in RETURNED)
    return lambda: call(given, results)


def average_pool(sizes: Any, x: Any) -> Any:
    return fn.avg_pool2d(x, sizes["k"])


def lstm_sequence(sizes: Any, x: Any, *weights: Any) -> Any:
    state = x.new_zeros(1, sizes["batch"], sizes["hidden"])
    return torch.lstm(x, (state, state), weights, True, 1, 0.0, False, False, False)[0]


def gru_sequence(sizes: Any, x: Any, *weights: Any) -> Any:
    state = x.new_zeros(1, sizes["batch"], sizes["hidden"])
    return torch.gru(x, state, weights, True, 1, 0.0, False, False, False)[0]


FORMULAS: dict[str, Callable[..., Any]] = {
    "add": lambda _, a, b: a + b,
    "bias_relu": lambda _, x, b: torch.relu(x + b[:, None, None]),
    "relu": lambda _, x: torch.relu(x),
    "sigmoid": lambda _, x: torch.sigmoid(x),
    "silu": lambda _, x: fn.silu(x),
    "gelu": lambda _, x: fn.gelu(x),
    "dense": lambda _, x, w, b: fn.linear(x, w, b),
    "average_pool": average_pool,
    "global_pool": lambda _, x: x.mean((2, 3), keepdim=True),
    "lstm_sequence": lstm_sequence,
    "gru_sequence": gru_sequence,
}
# results of library operators, which torch.compile returns, since a copy would cost more
RETURNED = frozenset({"dense", "average_pool", "lstm_sequence", "gru_sequence"})


def _into(operator: Callable[..., Any]) -> Callable[..., None]:
    def call(*tensors: Any) -> None:
        operator(*tensors[:-1], out=tensors[-1])

    return call


def _bias_relu(x: Any, b: Any, y: Any) -> None:
    torch.add(x, b[:, None, None], out=y).relu_()


# eager calls that write the given output
INTO: dict[str, Callable[..., None]] = {
    "add": _into(torch.add),
    "bias_relu": _bias_relu,
    "relu": _into(lambda x, out: torch.clamp(x, min=0, out=out)),
    "sigmoid": _into(torch.sigmoid),
    "silu": _into(torch.ops.aten.silu.out),
    "gelu": _into(torch.ops.aten.gelu.out),
    "dense": _into(lambda x, w, b, out: torch.addmm(b, x, w.T, out=out)),
    "global_pool": _into(lambda x, out: torch.mean(x, (2, 3), keepdim=True, out=out)),
}
