"""The table of the operators that have a form, and how a call's arguments are matched to it.

Operators of ATen stand there without its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from schedlang.frontend.torch import (
    activations,
    antialiasing,
    attention,
    convolutions,
    elementwise,
    indexing,
    losses,
    norms,
    ordering,
    poolings,
    products,
    quantized,
    recurrent,
    reductions,
    scattering,
    shapes,
)
from schedlang.frontend.torch.calls import Call, Operator

FAMILIES = (
    elementwise, activations, convolutions, products, poolings, antialiasing, norms, shapes,
    indexing, scattering, ordering, reductions, losses, recurrent, attention, quantized,
)  # fmt: skip
OPERATORS: Mapping[str, Operator] = {
    name: function for family in FAMILIES for name, function in family.OPERATORS.items()
}
# Operators with a form for evaluation alone, and the position of the argument that says ``train``.
EVALUATED = {"batch_norm.default": 5, "dropout.default": 2, "dropout_.default": 2}
# What PyTorch's decompositions keep whole: a dropout, which returns its operand, would be taken for
# a copy.
KEPT = OPERATORS.keys() - EVALUATED.keys()
# Arguments that say where and how PyTorch keeps a result, or what the result's shape and dtype say.
WITHOUT_EFFECT = frozenset({
    "layout", "device", "pin_memory", "memory_format", "non_blocking", "dtype", "output_size",
    "half_to_float", "copy", "out_int32",
    # of norms and embeddings: about training and gradients
    "momentum", "cudnn_enabled", "cudnn_enable", "training", "padding_idx", "scale_grad_by_freq",
    "sparse", "sparse_grad", "implicit",
    # of dequantized integers: the range that they are in
    "quant_min", "quant_max", "out_dtype",
})  # fmt: skip


def apply(call: Call, name: str, arguments: Mapping[str, tuple[Any, Any]]) -> Any:
    """Return the tensors that operator ``name`` makes of ``arguments``.

    Each argument is given with its default. Raises
    :class:`~schedlang.errors.FrontendError` for one that the function does not take, unless it has
    no effect on the result.
    """
    function = OPERATORS[name]
    parameters = _parameters(function)
    named: dict[str, Any] = {}
    for position, (argument, (value, default)) in enumerate(arguments.items()):
        # the first tensor is often called ``self`` or ``input``
        target = parameters[0] if not position else "x" if argument == "self" else argument
        if target in parameters:
            named[target] = value
        elif argument not in WITHOUT_EFFECT and value != default:
            raise call.refuse(
                f"its argument {argument}={value!r} has no form here", f"Leave {argument} out."
            )
    return function(call, **named)


@cache
def _parameters(function: Operator) -> list[str]:
    """Return the names of the parameters of an operator after the call."""
    return list(inspect.signature(function).parameters)[1:]
