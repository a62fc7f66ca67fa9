"""The check of recurrences: a step of a scan reads only rows of its states before its own."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from schedlang.compute.bounds import exact_range, guards_of, unknown_nodes
from schedlang.compute.graph import operations, step_operations
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, ScanOp, Tensor
from schedlang.errors import ComputeError, UnprovenWarning, explain, warn_user
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.index.conditions import facts_of_extent
from schedlang.index.intervals import UNBOUNDED, Interval, plus, union
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.construct import binary


def check_recurrence(scan: ScanOp) -> None:
    """Check that each update of ``scan`` reads earlier rows, directly or through other operations.

    Raises :class:`ComputeError` for a read of the row that a step computes, or of a later one.
    Warns with :class:`UnprovenWarning` for a read of a row that is not proven to be earlier.
    """
    for op, read, certain in _steps(scan, operations(scan.update), {}):
        _report(scan, op, read, certain)


def rows_read(scan: ScanOp, ops: Iterable[Operation]) -> dict[Tensor, Interval]:
    """Return the range of the rows of the states that each tensor of a step reads, minus its own.

    ``ops`` are the operations of the step, producers first, and any others. An end of a range is
    ``None`` if it is not known.
    """
    reach: dict[Tensor, Interval] = {}
    for _ in _steps(scan, ops, reach):
        pass
    return reach


def independent_axes(scan: ScanOp) -> tuple[Axis, ...]:
    """Return the data axes of ``scan`` along which each element depends on no other element.

    Along them, each stage of a step reads the states, and what other stages compute from them, at
    its own place alone.
    """
    updates = [t.op for t in scan.update if isinstance(t.op, ComputeOp)]
    parts = dict.fromkeys((*updates, *step_operations(scan)))
    own = {*scan.state, *(t for op in parts for t in op.outputs)}
    sites = [(op, read) for op in parts for read in reads(op.roots) if read.tensor in own]
    if any(op.destination is not None for op in parts):
        return ()
    return tuple(
        axis
        for dim, axis in enumerate(scan.axis, 1)
        if all(s.ndim > dim and to_lin(s.shape[dim]) == to_lin(axis.extent) for s in scan.state)
        and all(_same_place(op, read, dim) for op, read in sites)
    )


def _same_place(op: ComputeOp, read: Read, dim: int) -> bool:
    """Return whether ``read`` is at the place of its reader along ``dim``."""
    if dim >= min(len(op.axis), len(read.indices)):
        return False
    return to_lin(read.indices[dim]) == Lin.of(op.axis[dim])


def _steps(
    scan: ScanOp, ops: Iterable[Operation], reach: dict[Tensor, Interval]
) -> Iterator[tuple[ComputeOp, Read, bool]]:
    """Yield the reads by updates of rows that may not be earlier, and whether some are not.

    Add the range of each tensor of a step to ``reach``.
    """
    reach.update(dict.fromkeys(scan.state, (0, 0)))
    for op in ops:
        if not isinstance(op, ComputeOp) or any(t in scan.init for t in op.outputs):
            continue
        own = any(t in scan.update for t in op.outputs)
        distances: list[Interval] = []
        for read, rows, reached in _distances(scan, op, reach):
            inner = reach[read.tensor]
            total = plus(rows, inner)
            if own and (total[1] is None or total[1] >= 0):
                always = total[0] is not None and total[0] >= 0
                yield op, read, always or (reached and inner[0] == inner[1])
                total = (None, -1)
            distances.append(total)
        if distances:
            reach.update(dict.fromkeys(op.outputs, union(distances)))


def _distances(
    scan: ScanOp, op: ComputeOp, tensors: Container[Tensor]
) -> Iterator[tuple[Read, Interval, bool]]:
    """Yield each read of ``tensors``, with the range of the row read minus the row of ``op``.

    Yield also whether both ends of the range are reached.
    """
    order = postorder(op.roots)
    ranges, unknown = _ranges(scan, op), unknown_nodes(order)
    guards = guards_of(op, order, ranges)
    for read in order:
        if not isinstance(read, Read) or read.tensor not in tensors:
            continue
        if not op.axis:
            yield read, UNBOUNDED, False
            continue
        _, facts, path = guards[id(read)]
        facts_there = ranges.assuming(facts)
        rows = to_lin(read.indices[0], ranges=facts_there) - Lin.of(op.axis[0])
        low, high = facts_there.interval(rows)
        if (high is None or high >= 0) and id(read.indices[0]) not in unknown:
            exact = exact_range(binary("-", read.indices[0], op.axis[0]), path, ranges, unknown)
            if exact is not None:
                yield read, exact, True
                continue
        if (high is None or high >= 0) and facts_there.nonneg(-rows - 1):
            high = -1
        if (low is None or low < 0) and facts_there.nonneg(rows):
            low = 0
        yield read, (low, high), False


def _ranges(scan: ScanOp, op: ComputeOp) -> Ranges:
    """Return the ranges of the axes of ``op`` in a step; each axis has an iteration."""
    ranges = Ranges()
    start = to_lin(scan.scan_axis.lo)
    if op.axis:
        ranges.known[op.axis[0]] = (start, to_lin(op.axis[0].extent) - 1)
    extents = [to_lin(a.extent) for a in (*op.axis[1:], *op.reduce_axis)]
    extents += [to_lin(a.extent) - start for a in op.axis[:1]]
    return ranges.assuming(tuple(fact for extent in extents for fact in facts_of_extent(extent)))


def _report(scan: ScanOp, op: ComputeOp, read: Read, certain: bool) -> None:
    """Raise for a read of a row that is not yet computed; warn if that is not ``certain``."""
    row = op.axis[0].name if op.axis else "its own"
    if not certain:
        warn_user(
            f"scan {scan.name}: it is not proven that {op.name} reads only rows before row {row}, "
            f"at {read}; compare the result with sl.reference",
            UnprovenWarning,
        )
        return
    earlier = ", ".join([f"{row} - 1", *map(str, read.indices[1:])])
    hint = f"Read an earlier row, such as {read.tensor.name}[{earlier}]."
    if len(scan.state) > 1 and read.tensor in scan.state:
        update = scan.update[scan.state.index(read.tensor)]
        if update.op is not op:
            same = ", ".join([row, *map(str, read.indices[1:])])
            hint += f" The row that the same step computes is {update.name}[{same}]."
    raise ComputeError(
        explain(
            f"scan {scan.name}",
            f"{op.name} reads {read}, but the rows from {row} on are not computed yet",
            hint,
        )
    )
