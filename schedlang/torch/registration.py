"""A function as an operator of ``torch.library``, with all that PyTorch may ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.torch.autograd import Rule, register_rule, rule_of
from schedlang.torch.batches import BatchedFunction
from schedlang.torch.functions import Function
from schedlang.torch.schemas import operator_named, schema_of
from schedlang.torch.vmap import register_vmap


def register(name: str, function: Function, gradient: Rule, over_batches: bool = True) -> Any:
    """Register ``function`` as the operator ``name``, and return it.

    A gradient by ``sl.gradient`` is the operator ``<name>_backward``, and the operator over a
    batch, which ``torch.vmap`` calls, is ``<name>_batched``. PyTorch may keep graphs that call
    these, so they are registered from the start.
    """
    import torch

    torch.library.define(name, schema_of(function))
    torch.library.impl(name, "default", lambda *args: _results(function(args)))
    torch.library.register_fake(name, lambda *args: _results(_empty(function, args)))
    register_rule(name, function, rule_of(name, function, gradient))
    if over_batches and isinstance(gradient, bool):
        batched = BatchedFunction(function)
        operator = register(f"{name}_batched", batched, gradient, over_batches=False)
        register_vmap(name, batched, operator)
    else:
        register_vmap(name)
    return operator_named(name)


def _results(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _empty(function: Function, args: Sequence[Any]) -> list[Any]:
    """Return results without values."""
    import torch

    device = next((a.device for a in args if isinstance(a, torch.Tensor)), torch.device("cpu"))
    return [
        torch.empty(shape, dtype=getattr(torch, dtype), device=device)
        for shape, dtype in function.forms(args)
    ]
