"""Recurrent layers stay whole while PyTorch exports them, for any number of steps.

PyTorch finds the shapes of their results by computing them step by step, for as many steps as the
example has. Their shapes do not need the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# operators of ATen, each in its form for one tensor
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@contextmanager
def recurrent_kept_whole() -> Iterator[None]:
    """Let PyTorch take recurrent layers whole in a ``with`` statement.

    There, they have results of the right shapes without values, since only graphs are made.
    """
    import torch

    keys = torch._C.DispatchKey
    operators = [getattr(torch.ops.aten, name).input for name in RECURRENT]
    known = [dict(operator.py_kernels) for operator in operators]
    try:
        for operator, name in zip(operators, RECURRENT):
            shapes = _results(two_states=name == "lstm")
            for key in (keys.CompositeImplicitAutograd, keys.Autograd):
                operator.py_kernels[key] = shapes
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, kernels in zip(operators, known):
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


def _results(two_states: bool) -> Callable[..., Any]:
    """Return the function of the results without values of a recurrent layer."""
    import torch

    def results(
        input: Any,  # noqa: A002
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        states = list(hx) if two_states else [hx]
        width = states[0].shape[2] * (2 if bidirectional else 1)
        return (
            input.new_empty((*input.shape[:-1], width)),
            *(torch.empty_like(state) for state in states),
        )

    return results
