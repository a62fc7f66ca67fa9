"""Copies of operations that read other operands, under the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedlang.compute.define import finish
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Operation, Tensor
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import rewrite


def with_operands(op: ComputeOp, substitutes: Mapping[Tensor, Tensor]) -> ComputeOp:
    """Return an operation that reads what stands for its operands; itself if nothing does.

    >>> from schedlang import placeholder
    >>> A, B = placeholder((4,), name="A"), placeholder((4,), name="B")
    >>> with_operands((A + 1).op, {A: B}).body
    (B[i] + 1,)
    """
    if not any(t in substitutes for t in op.input_tensors):
        return op
    memo: dict[int, Expr] = {}

    def changed(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.tensor in substitutes:
            return Read(substitutes[node.tensor], node.indices, node.dtype, node.weak)
        return None

    def copies(roots: Sequence[Expr] | None) -> tuple[Expr, ...] | None:
        return None if roots is None else tuple(rewrite(root, changed, memo) for root in roots)

    return with_fields(
        op,
        body=copies(op.body) or (),
        init=copies(op.init),
        destination=copies(op.destination),
        where=None if op.where is None else rewrite(op.where, changed, memo),
    )


def with_inputs(op: Operation, substitutes: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """Return new outputs of a call that takes what stands for its inputs, by the old ones.

    There are none if nothing stands for its inputs, and for what is not a call of a function of the
    user's.
    """
    if not isinstance(op, ExternOp) or not any(t in substitutes for t in op.inputs):
        return {}
    twin = op.reading(substitutes)
    twin.outputs = tuple(Tensor(t.name, t.shape, t.dtype, twin, t.value_index) for t in op.outputs)
    return dict(zip(op.outputs, twin.outputs))


def with_fields(op: ComputeOp, **fields: Any) -> ComputeOp:
    """Return an operation with other ``fields``, whose tensors keep their names."""
    twin = replace(op, **fields, outputs=())
    results = finish(twin, len(op.outputs), several=True)
    for old, new in zip(op.outputs, results):
        new.name = old.name
    return twin
