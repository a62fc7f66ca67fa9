"""The initial state: every stage at root, with its loops in the order of its axes."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.bounds import check_reads
from schedlang.compute.graph import first_computed_rows, operations
from schedlang.compute.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.state.state import Stage, State


def initial_state(outputs: Sequence[Tensor]) -> State:
    """Return the state with a stage for each operation that ``outputs`` depend on.

    Inputs have no stage, and no output may be an input.
    """
    ops = operations(outputs)
    names = stage_names(ops)
    stages: dict[str, Stage] = {}
    defined: dict[Tensor, str] = {}
    inputs: set[str] = set()
    _check_scans(ops)
    first = {
        op: {op.axis[0]: rows}
        for op, rows in first_computed_rows(ops, outputs).items()
        if isinstance(rows, int) and op.axis
    }
    for op in ops:
        if isinstance(op, PlaceholderOp):
            inputs.add(op.name)
            continue
        if isinstance(op, ComputeOp) and (op in first or _reads_input(op)):
            # what the check at the declaration left open: whether an input is the state of a scan
            check_reads(op, first.get(op), late=True)
        name = names[op]
        stages[name] = Stage(name, op, op.outputs, op.loops)
        defined.update((t, name) for t in op.outputs)
    return State(stages, tuple(outputs), defined)


def stage_names(ops: Sequence[Operation]) -> dict[Operation, str]:
    """Return the name of each operation's stage: its own, or one with a number if that is taken.

    Inputs have none. ``ops`` are all operations of a computation, in order.

    >>> import schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> C = sl.compute((4,), lambda i: B[i] * 2, name="B")
    >>> list(stage_names([A.op, B.op, C.op]).values())
    ['B', 'B_1']
    """
    names: dict[Operation, str] = {}
    counts: dict[str, int] = {}
    for op in ops:
        if isinstance(op, PlaceholderOp):
            continue
        name, count = op.name, counts.get(op.name, 0)
        while name in counts:
            count += 1
            name = f"{op.name}_{count}"
        counts[op.name] = count
        counts.setdefault(name, 0)
        names[op] = name
    return names


def _reads_input(op: ComputeOp) -> bool:
    return any(isinstance(tensor.op, PlaceholderOp) for tensor in op.input_tensors)


def _check_scans(ops: Sequence[Operation]) -> None:
    """Raise unless each state of a scan has an init of its own.

    The init is stored as the first rows of the scan's result.
    """
    held: dict[Tensor, ScanOp] = {}
    for scan in (op for op in ops if isinstance(op, ScanOp)):
        for tensor in (*scan.init, *scan.state):
            if tensor in held:
                twice = f"{tensor.name} belongs to two of its states"
                if held[tensor] is not scan:
                    twice = f"{tensor.name} already belongs to scan {held[tensor].name}"
                raise ComputeError(
                    explain(
                        f"scan {scan.name}",
                        twice,
                        "Give each state its own placeholder and its own first rows.",
                    )
                )
            held[tensor] = scan
    for op in ops:
        for tensor in op.input_tensors if isinstance(op, ComputeOp) else ():
            owner = held.get(tensor)
            if owner is not None and tensor in owner.init:
                raise ComputeError(
                    explain(
                        f"{op.name} reads {tensor.name}",
                        f"{tensor.name} holds the first rows of scan {owner.name}, which are "
                        "stored in the result of the scan",
                        f"Give the scan a copy: sl.compute({tensor.name}.shape, "
                        f"lambda *i: {tensor.name}[i]).",
                    )
                )
