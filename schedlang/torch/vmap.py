"""``torch.vmap`` of an operator: by its function over a batch, or call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.errors import CallError, explain
from schedlang.torch.batches import BatchedFunction


def register_vmap(name: str, batched: BatchedFunction | None = None, operator: Any = None) -> None:
    """Register the rule of ``torch.vmap`` for the operator ``name``.

    ``operator`` belongs to ``batched``, its function over a batch. Without one, or for a
    computation that has no form over a batch, the rule calls the operator for one element of the
    batch after the other.
    """
    import torch

    from schedlang.torch.schemas import operator_named

    def rule(info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        moved, positions = [], []
        for k, (value, dim) in enumerate(zip(args, in_dims)):
            if isinstance(dim, int):
                positions.append(k)
                moved.append(value.movedim(dim, 0).contiguous())
            else:
                moved.append(value)
        if batched is not None and batched.graph_of(moved, positions) is not None:
            results = operator(*moved, positions)
            return results, 0 if isinstance(results, torch.Tensor) else (0,) * len(results)
        if not info.batch_size:
            raise CallError(
                explain(
                    f"torch.vmap of {name} over a batch of 0",
                    "it is called for each element, and without a call its results have no shapes",
                    "Give at least one element.",
                )
            )
        calls = [
            operator_named(name)(*(_element(v, d, k) for v, d in zip(args, in_dims)))
            for k in range(info.batch_size)
        ]
        return _stacked(calls)

    torch.library.register_vmap(name, rule)


def _element(value: Any, dim: Any, k: int) -> Any:
    """Return an argument of the call for element ``k`` of a batch."""
    if isinstance(dim, int):
        return value.select(dim, k)
    if isinstance(dim, (tuple, list)):
        return [_element(v, d, k) for v, d in zip(value, dim)]
    return value


def _stacked(calls: Sequence[Any]) -> tuple[Any, Any]:
    """Return the results of all calls in one batch, and where it is."""
    import torch

    if isinstance(calls[0], torch.Tensor):
        return torch.stack(list(calls)), 0
    kind = type(calls[0])
    stacked = [torch.stack(list(results)) for results in zip(*calls)]
    return kind(stacked), kind([0] * len(stacked))
