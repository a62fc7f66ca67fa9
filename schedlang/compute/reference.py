"""``reference``: a computation evaluated by NumPy, without a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from schedlang.compute.argument_order import fit_in_another_order
from schedlang.compute.arguments import bind
from schedlang.compute.chunks import Prepared, Span, execute, extent_of, prepare
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.facts import check_facts, facts_of
from schedlang.compute.graph import first_computed_rows, operations, placeholders, variables
from schedlang.compute.misfits import reference_refusal
from schedlang.compute.poison import run_in_poison
from schedlang.compute.ragged_chunks import execute_ragged, has_ranges
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor, shape_text
from schedlang.compute.whole import refuse_functions, refuse_traced
from schedlang.errors import (
    CallError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    SchedlangError,
    explain,
)
from schedlang.expr.bfloat import as_array, holding_dtype
from schedlang.expr.nodes import Var
from schedlang.index.simplify import to_lin
from schedlang.signatures import refuses


@dataclass(frozen=True)
class Reference:
    """A function of arrays that computes ``outputs`` with NumPy.

    ``inputs`` are its array arguments in order; ``variables`` are the sizes and scalars.
    """

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    variables: tuple[Var, ...]

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        try:
            inputs, sizes = bind(self.inputs, self.variables, arrays, named)
        except (CallError, CallTypeError) as error:
            if named or not fit_in_another_order(len(arrays), partial(self._fits, arrays)):
                raise
            raise type(error)(
                f"{error}\n  The arguments fit in another order: it takes "
                f"{self._taken}, in that order."
            ) from None
        for tensor, array in inputs.items():
            facts = facts_of(tensor)
            if facts is not None:
                check_facts(tensor.name, facts, array, partial(extent_of, sizes=sizes))
        results = _evaluate(self.outputs, inputs, sizes)
        return results[0] if len(results) == 1 else results

    def _fits(self, arrays: Sequence[Any], order: Sequence[int]) -> bool:
        try:
            bind(self.inputs, self.variables, [arrays[k] for k in order], {})
        except (SchedlangError, ValueError):
            return False
        return True

    @property
    def _taken(self) -> str:
        return ", ".join([*(t.name for t in self.inputs), *(v.name for v in self.variables)])

    def __repr__(self) -> str:
        return f"reference({', '.join(t.name for t in self.outputs)})({self._taken})"


@refuses(reference_refusal)
def reference(outputs: Tensor | Sequence[Tensor]) -> Reference:
    """Return a function that computes ``outputs`` with NumPy, as an oracle for every schedule.

    It takes one array per placeholder, in the order in which they first appear in the graph
    (outputs first, operands left to right), then the scalars and sizes that no shape determines.
    Each may be passed by name instead. Shapes and dtypes are checked. It returns a new array, or a
    tuple of arrays for several outputs.

    Each operation is evaluated in its declared dtype. Sums and products of float16 and float32
    accumulate in float64 and are rounded once; integers wrap. Temporaries stay under 64 MiB.

    Raises :class:`~schedlang.errors.CallError` for a shape that does not fit,
    :class:`~schedlang.errors.CallTypeError` for a wrong dtype or a missing argument,
    :class:`~schedlang.errors.BoundsError` for a read outside its tensor.

    >>> import schedlang as sl
    >>> A = sl.placeholder((2, 3), name="A")
    >>> k = sl.reduce_axis(3, name="k")
    >>> rows = sl.compute((2,), lambda i: sl.sum(A[i, k], axis=k), name="rows")
    >>> reference(rows)(np.ones((2, 3), "float32"))
    array([3., 3.], dtype=float32)
    """
    listed = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    refuse_traced("sl.reference", *listed)
    refuse_functions("sl.reference", *listed)
    tensors = tuple(t for t in listed if isinstance(t, Tensor))
    if not tensors or len(tensors) < len(listed):
        what = next((v for v in listed if not isinstance(v, Tensor)), "nothing")
        raise ComputeTypeError(
            explain(
                f"sl.reference({type(what).__name__ if listed else '[]'})",
                "it takes tensors made by sl.compute or sl.scan, and returns a function of arrays",
                "Write sl.reference(C)(*arrays); for several outputs sl.reference([C, D]). "
                "s.outputs are the outputs of a schedule s.",
            )
        )
    _scan_bodies(operations(tensors), tensors)
    return Reference(tensors, tuple(placeholders(tensors)), tuple(variables(tensors)))


def _evaluate(
    outputs: tuple[Tensor, ...], given: Mapping[Tensor, np.ndarray], sizes: Mapping[Var, Any]
) -> tuple[np.ndarray, ...]:
    order = operations(outputs)
    bodies = _scan_bodies(order, outputs)
    inside = {op for body in bodies.values() for op in body}
    output_ops = {t.op for t in outputs}
    last = {t.op: op for op in order for t in op.input_tensors}
    # every step of a scan reads its inputs again, so their arrays are kept
    lasting = {*output_ops, *(t.op for op in inside for t in op.input_tensors)}
    dead_after: dict[Operation, list[Operation]] = {}
    for producer, consumer in last.items():
        if producer not in lasting and not isinstance(producer, PlaceholderOp):
            dead_after.setdefault(consumer, []).append(producer)
    first = first_computed_rows(order, outputs)
    arrays = {t: a.astype(holding_dtype(t.dtype), copy=False) for t, a in given.items()}
    for op in order:
        if isinstance(op, ComputeOp) and op not in inside:
            stage = prepare(op, sizes)
            results = _empty(op, sizes)
            row = first.get(op, 0)
            rows = (row, len(results[0])) if row and isinstance(row, int) else None
            _execute(stage, arrays, results, rows)
            arrays.update(zip(op.outputs, results))
        elif isinstance(op, ExternOp):
            results = _empty(op, sizes)
            # ascontiguousarray would give an array of no dimensions one
            read = [np.asarray(arrays[t], order="C") for t in op.inputs]
            arrays.update(zip(op.outputs, _call(op, read, results)))
        elif isinstance(op, ScanOp):
            arrays.update(zip(op.outputs, _run_scan(op, bodies[op], arrays, sizes)))
        for producer in dead_after.get(op, ()):
            for tensor in getattr(producer, "outputs", ()):
                arrays.pop(tensor, None)
    return tuple(given[t].copy() if t in given else as_array(arrays[t], t.dtype) for t in outputs)


def _execute(
    stage: Prepared,
    arrays: Mapping[Tensor, np.ndarray],
    outs: Sequence[np.ndarray],
    first: Span | None = None,
) -> None:
    """Write the elements of ``stage`` into ``outs``; only the rows of ``first`` if it is given."""
    # the updates of a scatter go through the whole box, where the condition has the ranges
    if not has_ranges(stage.op) or stage.op.destination is not None:
        execute(stage, arrays, outs, first)
        return
    data = stage.spans[stage.folded :]
    if first is not None:
        data = (first, *data[1:])
    if all(stop > start for start, stop in data):
        with np.errstate(all="ignore"):
            execute_ragged(stage, arrays, outs, data)


def _call(
    op: ExternOp, read: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
    """Return the outputs of a function, which must keep to its arrays."""
    title = f"reference of {op.name}, which {op.function.name} computes"
    names = [tensor.name for tensor in (*op.inputs, *op.outputs)]
    packed = [True] * len(names)
    return run_in_poison(title, op.function, read, results, names, packed)


def _empty(op: ComputeOp | ScanOp | ExternOp, sizes: Mapping[Var, Any]) -> list[np.ndarray]:
    results = []
    for tensor in op.outputs:
        shape = [extent_of(e, sizes) for e in tensor.shape]
        if any(n < 0 for n in shape):
            negative = next(e for e, n in zip(tensor.shape, shape) if n < 0)
            raise CallError(
                f"{tensor.name} of shape {shape_text(tensor.shape)} would have the extents {shape} "
                "for these arguments, but an extent must be 0 or more; write it as "
                f"sl.max({negative}, 0) to get an empty array there"
            )
        results.append(np.empty(shape, holding_dtype(tensor.dtype)))
    return results


def _scan_bodies(
    order: Sequence[Operation], outputs: Sequence[Tensor]
) -> dict[ScanOp, list[ComputeOp]]:
    """Return the operations that each scan evaluates row by row, producers first.

    They are its updates and the operations between its states and the updates.
    """
    owner: dict[Any, ScanOp] = {}
    updates: dict[Operation, ScanOp] = {}
    for op in order:
        if isinstance(op, ScanOp):
            for state in op.state:
                if owner.setdefault(state, op) is not op:
                    why = f"state {state.name} already belongs to scan {owner[state].name}"
                    _refuse(f"scan {op.name}", why, "Give each scan its own placeholders.")
            updates.update({t.op: op for t in op.update})
    bodies: dict[ScanOp, list[ComputeOp]] = {op: [] for op in order if isinstance(op, ScanOp)}
    for op in order:
        scans = {owner.get(t) or owner.get(t.op) for t in op.input_tensors} - {None}
        if isinstance(op, ScanOp):
            if scans - {op} or any(t.op in owner for t in op.init):
                hint = "Put all states into one scan, or read the result of the other scan."
                _refuse(f"scan {op.name}", "it depends on the rows of another scan", hint)
            continue
        scans |= {updates[op]} if op in updates else set()
        if len(scans) > 1:
            _refuse(
                op.name,
                "it reads the states of several scans",
                "Read the result of a scan instead.",
            )
        if scans and isinstance(op, ExternOp):
            _refuse(
                op.name,
                "it reads the states of a scan, and a function of yours computes no step of a scan",
                "Call it before the scan or after it, or write the step with sl.compute.",
            )
        for scan in scans:
            assert scan is not None and isinstance(op, ComputeOp)
            owner[op] = scan
            bodies[scan].append(op)
            _check_step(scan, op, owner)
    for tensor in outputs:
        owning = owner.get(tensor) or owner.get(tensor.op)
        if owning is not None:
            _refuse(
                tensor.name,
                f"its rows exist only inside scan {owning.name}",
                f"Read {owning.outputs[0].name} instead.",
            )
    return bodies


def _check_step(scan: ScanOp, op: ComputeOp, owner: Mapping[Any, ScanOp]) -> None:
    length = to_lin(scan.state[0].shape[0])
    if not op.axis or to_lin(op.axis[0].extent) != length:
        _refuse(
            op.name,
            f"it reads a state of scan {scan.name}, but its first axis is not time",
            f"Make its first dimension {length}, as in the states.",
        )
    for read in reads(op.roots):
        if owner.get(read.tensor.op) is scan and not _same_row(read, op):
            why = f"a step of scan {scan.name} exists only for the row that is being computed"
            hint = f"Index it by {op.axis[0].name}, or make it a state."
            _refuse(f"{op.name} reads {read}", why, hint)


def _same_row(read: Read, op: ComputeOp) -> bool:
    return to_lin(read.indices[0]) == to_lin(op.axis[0])


def _refuse(asked: str, why: str, hint: str) -> None:
    raise ComputeError(explain(asked, why, hint))


def _run_scan(
    op: ScanOp,
    body: Sequence[ComputeOp],
    known: Mapping[Tensor, np.ndarray],
    sizes: Mapping[Var, Any],
) -> list[np.ndarray]:
    arrays = dict(known)
    results = _empty(op, sizes)
    start = extent_of(op.init[0].shape[0], sizes)
    for result, init in zip(results, op.init):
        result[:start] = arrays[init][: len(result)]
    stages: list[tuple[Prepared, list[np.ndarray]]] = []
    for step in body:
        rows = _empty(step, sizes)
        arrays.update(zip(step.outputs, rows))
        stages.append((prepare(step, sizes), rows))
    for t in range(start, start + extent_of(op.scan_axis.extent, sizes)):
        # a step may read only the rows before its own
        arrays.update((state, result[:t]) for state, result in zip(op.state, results))
        for stage, rows in stages:
            _execute(stage, arrays, rows, (t, t + 1))
        for result, update in zip(results, op.update):
            result[t] = arrays[update][t]
    return results
