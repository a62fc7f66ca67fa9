"""The graph of operations behind a set of output tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.compute.extern_op import ExternFunction, ExternOp
from schedlang.compute.read import reads
from schedlang.compute.tensor import (
    ComputeOp,
    Extent,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
)
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Expr, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin


def operations(outputs: Sequence[Tensor]) -> list[Operation]:
    """Return all operations behind ``outputs``, producers first, in the order of the outputs."""
    order: list[Operation] = []
    visited: set[Operation] = set()
    active: set[Operation] = set()
    for output in outputs:
        stack: list[tuple[Operation, bool]] = [(output.op, False)]
        while stack:
            op, ready = stack.pop()
            if ready:
                active.discard(op)
                visited.add(op)
                order.append(op)
                continue
            if op in visited:
                continue
            if op in active:
                raise ComputeError(f"the computation is cyclic: {op.name} depends on itself")
            active.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in visited)
    return order


def placeholders(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the input tensors in order of first appearance.

    Outputs are visited in order, operands from left to right.
    """
    inputs: dict[Tensor, None] = {}
    visited: set[Operation] = set()
    states: set[Tensor] = set()
    stack: list[Tensor] = list(reversed(outputs))
    while stack:
        tensor = stack.pop()
        op = tensor.op
        if isinstance(op, PlaceholderOp):
            inputs.setdefault(tensor)
            continue
        if op in visited:
            continue
        visited.add(op)
        if isinstance(op, ScanOp):
            states.update(op.state)
        stack.extend(reversed(op.input_tensors))
    return [t for t in inputs if t not in states]


def functions_of(outputs: Sequence[Tensor]) -> list[ExternFunction]:
    """Return the functions of users that compute stages of a graph, each once, in order."""
    ops = operations(outputs)
    return [*dict.fromkeys(op.function for op in ops if isinstance(op, ExternOp))]


def variables(outputs: Sequence[Tensor]) -> list[Var]:
    """Return the sizes and scalars that the computation uses, in order of first appearance."""
    used: dict[Var, None] = {}
    for op in operations(outputs):
        if isinstance(op, (ComputeOp, ExternOp)):
            used.update(dict.fromkeys(op.variables))
            continue
        ends = postorder(e for e in _extents(op) if isinstance(e, Expr))
        used.update(dict.fromkeys(node for node in ends if isinstance(node, Var)))
    return list(used)


def _extents(op: Operation) -> list[object]:
    if isinstance(op, PlaceholderOp):
        ends = op.facts.within if op.facts is not None else None
        return [*op.shape, *(ends or ())]
    axes = (*op.axis, *op.reduce_axis)
    return [e for a in axes for e in (a.lo, a.extent)]


def first_rows(ops: Sequence[Operation]) -> dict[ComputeOp, Extent]:
    """Return the first row that each scan computes, for its updates and the stages before them."""
    rows_by_op: dict[ComputeOp, Extent] = {}
    for op in ops:
        if isinstance(op, ScanOp):
            rows = op.init[0].shape[0]
            rows_by_op.update((u.op, rows) for u in op.update if isinstance(u.op, ComputeOp))
            for inner in step_operations(op):
                rows_by_op.setdefault(inner, rows)
    return rows_by_op


def first_computed_rows(
    ops: Sequence[Operation], outputs: Sequence[Tensor]
) -> dict[ComputeOp, Extent]:
    """Return :func:`first_rows`, and the first rows of stages that only steps of scans read.

    A step reads no row before its own first one, so a stage beside a scan may read an input at
    ``X[t - 1]``, as in te: its rows before that are not computed.
    """
    first = first_rows(ops)
    if not first:
        return {}
    readers: dict[Operation, list[Operation]] = {}
    for op in ops:
        for producer in {t.op for t in op.input_tensors}:
            readers.setdefault(producer, []).append(op)
    kept = {tensor.op for tensor in outputs}
    for op in reversed(ops):
        if not isinstance(op, ComputeOp) or not op.axis or op in first or op in kept:
            continue
        row = min(_first_read(op, reader, first) for reader in readers[op])
        # the updates of a scatter may go to any row
        if row > 0 and op.destination is None:
            first[op] = row
    return first


def _first_read(op: ComputeOp, reader: Operation, first: Mapping[ComputeOp, Extent]) -> int:
    """Return a row of ``op`` before which ``reader`` certainly reads none."""
    row = first.get(reader, 0) if isinstance(reader, ComputeOp) else 0
    if not isinstance(reader, ComputeOp) or not isinstance(row, int):
        return 0
    rows = [to_lin(r.indices[0]) for r in reads(reader.roots) if r.tensor.op is op]
    offsets = [(index - Lin.of(reader.axis[0])).const for index in rows] if row else []
    return min((0 if o is None else row + o for o in offsets), default=0)


def step_operations(scan: ScanOp) -> list[ComputeOp]:
    """Return the operations between a scan's states and its updates, producers first."""
    states = set(scan.state)
    depends: dict[object, bool] = {}
    inner: list[ComputeOp] = []
    for op in operations(scan.update):
        direct = any(t in states for t in op.input_tensors)
        depends[op] = direct or any(depends.get(t.op, False) for t in op.input_tensors)
        if depends[op] and isinstance(op, ComputeOp) and op not in [u.op for u in scan.update]:
            inner.append(op)
    return inner
