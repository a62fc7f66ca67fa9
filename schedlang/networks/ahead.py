"""Stages that depend on given parameters alone, so that they can be computed ahead of calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import step_operations
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import postorder


def known_tensors(ops: Sequence[Operation], params: Iterable[Tensor]) -> dict[Tensor, None]:
    """Return the tensors that depend on ``params`` and constants alone, in order.

    ``ops`` are all operations of a graph, producers first. What has symbolic sizes or scalar
    arguments is not known; of a scan, all is known or nothing.
    """
    known: dict[Tensor, None] = dict.fromkeys(
        t for t in params if all(isinstance(extent, int) for extent in t.shape)
    )
    states = {t for op in ops if isinstance(op, ScanOp) for t in op.state}
    known.update(dict.fromkeys(states))
    inside: dict[Operation, ScanOp] = {}
    for op in ops:
        if isinstance(op, ScanOp):
            inside.update(dict.fromkeys(_parts(op), op))
    for op in ops:
        if not isinstance(op, (PlaceholderOp, ExternOp)) and _is_known(op, known):
            known.update(dict.fromkeys(op.outputs))
    unknown = {op for op in ops if isinstance(op, ScanOp) and op.outputs[0] not in known}
    return {
        t: None
        for t in known
        if t not in states and t.op not in unknown and inside.get(t.op) not in unknown
    }


def in_scans(ops: Sequence[Operation]) -> frozenset[Operation]:
    """Return the operations of the first rows and of the steps of scans."""
    return frozenset(part for op in ops if isinstance(op, ScanOp) for part in _parts(op))


def in_order(
    outputs: Iterable[Tensor],
    changed: Mapping[Tensor, ComputeOp] | None = None,
    ends: Container[Tensor] = (),
) -> list[Operation]:
    """Return the operations behind ``outputs``, producers first.

    ``changed`` has operations that replace the operations of their outputs. What makes a tensor of
    ``ends`` is left out.
    """
    swap: Mapping[Any, Any] = {t.op: op for t, op in (changed or {}).items()}
    ordered: dict[Operation, None] = {}
    for output in outputs:
        stack: list[tuple[Operation, bool]] = [(swap.get(output.op, output.op), False)]
        while stack:
            op, ready = stack.pop()
            if ready:
                ordered.setdefault(op)
            elif op not in ordered:
                stack.append((op, True))
                needed = [t.op for t in op.input_tensors if t not in ends]
                stack += [(swap.get(producer, producer), False) for producer in reversed(needed)]
    return list(ordered)


def _parts(scan: ScanOp) -> list[Operation]:
    return [*(t.op for t in (*scan.init, *scan.update)), *step_operations(scan)]


def _is_known(op: ComputeOp | ScanOp, known: Container[Tensor]) -> bool:
    if not all(tensor in known for tensor in op.input_tensors):
        return False
    axes = (*op.axis, *op.reduce_axis, *((op.scan_axis,) if isinstance(op, ScanOp) else ()))
    roots = [e for axis in axes for e in (axis.lo, axis.extent) if isinstance(e, Expr)]
    roots += op.roots if isinstance(op, ComputeOp) else ()
    return not any(isinstance(node, Var) for node in postorder(roots))
