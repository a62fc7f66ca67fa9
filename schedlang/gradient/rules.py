"""Derivatives that the user gives for a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from schedlang.compute.define import define
from schedlang.compute.tensor import Operation, PlaceholderOp, Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr.nodes import Axis
from schedlang.gradient.adjoint import Adjoint
from schedlang.gradient.site import Site
from schedlang.gradient.stage_sites import Found, Head
from schedlang.index.simplify import to_lin

Rule = Union[Callable[..., Mapping[Tensor, Tensor]], None]
Rules = Mapping[Tensor, Rule]


def rule_sites(rule: Rule, tensor: Tensor, op: Operation, heads: Sequence[Head]) -> Found:
    """Return what flows back from the outputs of ``op`` by the rule of ``tensor``, one of them.

    The rule gets a tensor for each output; one that nothing reads has a gradient of zeros. Raises
    for gradients that do not fit their tensors.
    """
    if rule is None:
        return []
    assert not isinstance(op, PlaceholderOp)
    adjoints = [_as_tensor(t, h) for t, h in zip(op.outputs, heads)]
    contributions = rule(*adjoints)
    asked = f"sl.gradient(..., rules={{{tensor.name}: ...}})"
    if not isinstance(contributions, Mapping):
        raise ComputeTypeError(
            f"{asked}: the rule returns {type(contributions).__name__}; return a dict from each "
            "tensor that "
            f"{tensor.name} reads to its gradient, such as {{X: dX}}"
        )
    flows: Found = []
    for source, by in contributions.items():
        _check(asked, tensor, source, by)
        axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(source.shape))
        site = Site(op.name, source.name, axes, axes, (), by[axes], by)
        flows.append((source, site))
    return flows


def _as_tensor(tensor: Tensor, head: Head) -> Tensor:
    """Return the adjoint of an output as a tensor of its shape."""
    if isinstance(head, Adjoint) and head.tensor is not None:
        return head.tensor
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(tensor.shape))
    adjoint = head if isinstance(head, Adjoint) else Adjoint.zero(tensor.dtype)
    return define(f"{tensor.name}_grad", axes, adjoint.at(axes))


def _check(asked: str, tensor: Tensor, source: Any, by: Any) -> None:
    if not isinstance(source, Tensor) or not isinstance(by, Tensor):
        raise ComputeTypeError(
            f"{asked}: the rule returns {{{source!r}: {by!r}}}; both must be tensors, the one that "
            f"{tensor.name} reads and its gradient"
        )
    if [to_lin(n) for n in by.shape] != [to_lin(n) for n in source.shape]:
        raise ComputeError(
            f"{asked}: the rule returns for {source.name} of shape {shape_text(source.shape)} a "
            f"gradient of shape {shape_text(by.shape)}; give it the shape of {source.name}"
        )
    if by.dtype != source.dtype:
        raise ComputeTypeError(
            f"{asked}: the rule returns a gradient of {by.dtype} for {source.name}, which is "
            f"{source.dtype}; cast it"
        )
