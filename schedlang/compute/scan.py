"""Recurrences: ``scan`` computes each row of its states from earlier rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from schedlang.compute.bounds import check_reads
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import first_rows, operations
from schedlang.compute.recurrence import check_recurrence, independent_axes
from schedlang.compute.tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    shape_text,
)
from schedlang.compute.whole import refuse_traced
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.names import check_name
from schedlang.expr.nodes import Axis
from schedlang.index.linear import to_expr
from schedlang.index.simplify import to_lin
from schedlang.signatures import public


@public
def scan(
    init: Any,
    update: Any,
    state: Any,
    inputs: Any = (),
    name: str = "scan",
    *,
    tag: Any = "",
    attrs: Any = None,
) -> Any:
    """Return the recurrence whose first rows are ``init`` and whose later rows are ``update``.

    Each argument is a tensor, or a list with a tensor for each state. ``state`` are placeholders of
    shape ``(T, ...)`` that ``update`` reads at earlier rows (``state[t - 1, i]``). ``init`` are
    computed tensors of shape ``(k, ...)``. ``update`` are computed tensors of the state's shape;
    their rows from ``k`` on are used. A stage whose rows these updates alone read is computed from
    row ``k`` on too, so it may read an input at ``X[t - 1]``. Returns a tensor for one state, a
    list for several. te's ``tag`` and ``attrs`` have no effect.

    Raises :class:`~schedlang.errors.ComputeError` if the shapes or dtypes do not match, or if an
    update reads the row that it computes or a later one, and
    :class:`~schedlang.errors.BoundsError` if it reads a row before row 0. Warns with
    :class:`~schedlang.errors.UnprovenWarning` if the row that it reads depends on data.

    >>> import schedlang as sl
    >>> X = sl.placeholder((5, 4), name="X")
    >>> S = sl.placeholder((5, 4), name="S")
    >>> first = sl.compute((1, 4), lambda _, i: X[0, i], name="first")
    >>> step = sl.compute((5, 4), lambda t, i: S[t - 1, i] + X[t, i], name="step")
    >>> sl.scan(first, step, S, inputs=[X], name="cumsum")
    Tensor(cumsum: float32[5, 4])
    """
    check_name(name, "a scan")
    inits, updates, states = (
        _list(v, w) for v, w in ((init, "init"), (update, "update"), (state, "state"))
    )
    if not len(inits) == len(updates) == len(states):
        raise ComputeError(
            f"scan {name}: got {len(inits)} init, {len(updates)} update and {len(states)} state "
            "tensors; give one of each for every state"
        )
    for i, u, s in zip(inits, updates, states):
        _check(name, i, u, s)
    length = states[0].shape[0]
    for s in states[1:]:
        if to_lin(s.shape[0]) != to_lin(length):
            raise ComputeError(
                f"scan {name}: the states {states[0].name} and {s.name} differ in length; give "
                "all states the same first dimension"
            )
    rows = inits[0].shape[0]
    for i in inits[1:]:
        if to_lin(i.shape[0]) != to_lin(rows):
            raise ComputeError(
                f"scan {name}: the first dimension of init {inits[0].name} is {rows}, but {i.name} "
                f"has {i.shape[0]}; give all states the same number of first rows"
            )
    axis = Axis(f"{name}.t", _rows_after(length, rows), "scan", rows)
    spatial = tuple(Axis(a.name, a.extent) for a in updates[0].op.axis[1:])
    op = ScanOp(
        name,
        axis,
        spatial,
        tuple(inits),
        tuple(updates),
        tuple(states),
        tuple(_list(inputs, "inputs")),
    )
    reading = next((o for o in operations(updates) if _reads_state(o, states)), None)
    if reading is not None:
        raise ComputeError(
            explain(
                f"scan {name}",
                f"its step calls {reading.function.name}, which computes {reading.name} and cannot "
                "be called row by row",
                "Call it before the scan or after it, or write the step with sl.compute.",
            )
        )
    check_recurrence(op)
    op.independent = independent_axes(op)
    for part in (*(t.op for t in op.init), *first_rows([op])):
        if isinstance(part, ComputeOp) and part.destination is not None:
            raise ComputeError(
                explain(
                    f"scan {name}",
                    f"its part {part.name} is a scatter, which does not compute row after row",
                    "Scatter before the scan or after it, or copy a row in a stage of its own.",
                )
            )
    for step, first in first_rows([op]).items():
        if step.axis and isinstance(first, int):
            check_reads(step, {step.axis[0]: first}, late=True)
    several = isinstance(state, (tuple, list))
    names = [name] if len(states) == 1 else [f"{name}.v{k}" for k in range(len(states))]
    outputs = tuple(
        Tensor(n, s.shape, s.dtype, op, k) for k, (n, s) in enumerate(zip(names, states))
    )
    op.outputs = outputs
    return list(outputs) if several and len(outputs) > 1 else outputs[0]


def _reads_state(op: Operation, states: Sequence[Tensor]) -> TypeGuard[ExternOp]:
    """Return whether a user's function computes ``op`` from a state, also through other stages."""
    return isinstance(op, ExternOp) and any(
        s.op is behind for s in states for behind in operations(op.inputs)
    )


def _rows_after(length: Any, rows: Any) -> Any:
    """Return the extent ``length - rows``."""
    difference = to_lin(length) - to_lin(rows)
    return difference.const if difference.const is not None else to_expr(difference)


def _list(value: Any, what: str) -> list[Tensor]:
    items = (
        list(value) if isinstance(value, (tuple, list)) else [value] if value is not None else []
    )
    refuse_traced("sl.scan", *items)
    for item in items:
        if not isinstance(item, Tensor):
            raise ComputeTypeError(f"scan: {what} contains {item!r}, which is not a tensor")
    return items


def _check(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    if not isinstance(state.op, PlaceholderOp):
        raise ComputeError(
            f"scan {name}: the state {state.name} must be a placeholder; make it by sl.placeholder"
        )
    for what, tensor in (("init", init), ("update", update)):
        if not isinstance(tensor.op, ComputeOp):
            raise ComputeError(f"scan {name}: the {what} {tensor.name} must be made by sl.compute")
        if tensor.dtype != state.dtype:
            raise ComputeError(
                f"scan {name}: {what} {tensor.name} is {tensor.dtype}, but state {state.name} is "
                f"{state.dtype}; give both the same dtype"
            )
        if [to_lin(e) for e in tensor.shape[1:]] != [to_lin(e) for e in state.shape[1:]]:
            raise ComputeError(
                f"scan {name}: {what} {tensor.name} has shape {shape_text(tensor.shape)}, which "
                f"does not fit state {state.name} of shape {shape_text(state.shape)}"
            )
    if to_lin(update.shape[0]) != to_lin(state.shape[0]):
        raise ComputeError(
            f"scan {name}: update {update.name} has {update.shape[0]} rows, but state "
            f"{state.name} has {state.shape[0]}; give both the same first dimension"
        )
    first, length = to_lin(init.shape[0]).const, to_lin(state.shape[0]).const
    if first is None or first < 1:
        raise ComputeError(
            f"scan {name}: init {init.name} must have a constant number of rows, 1 or more"
        )
    if length is not None and first > length:
        raise ComputeError(
            f"scan {name}: init {init.name} has more rows ({first}) than state {state.name} "
            f"({length}): sl.scan computes the rows after init's; give the state {first} or "
            "more, or init fewer"
        )
