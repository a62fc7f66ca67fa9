"""Calls of users' functions: the boxes that they write and read, as one statement without loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.extern_op import Ends, ExternOp
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.index.linear import ZERO, Lin, number_or_expr, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.relax import largest
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.ir.extern_call import Touch
from schedlang.ir.nodes import For, If
from schedlang.lowering.drafts import Draft, DraftExtern, DraftRead, DraftStore, block
from schedlang.lowering.nesting import Job
from schedlang.lowering.region import Box, Pending, add, realize
from schedlang.state.plan import Dim, whole
from schedlang.state.state import Stage

# the index of the first element in each dimension, and one past the last
Spans = tuple[tuple[Lin, Lin], ...]


def whole_box(tensor: Tensor) -> Box:
    """Return the box of all elements of ``tensor``."""
    sizes = [to_lin(e) for e in tensor.shape]
    return Box(tuple(ZERO for _ in sizes), tuple(size - 1 for size in sizes))


def dims_of_call(op: ExternOp, dims: Sequence[Dim], ranges: Ranges) -> tuple[Dim, ...]:
    """Return what one call writes so that it computes ``dims``."""
    if op.boxes is None:
        return whole(op.outputs[0].shape)
    spans = _spans(op.boxes.written, _values(op, [(d.lo, d.lo + d.extent) for d in dims]))
    box = Box(tuple(lo for lo, _ in spans), tuple(end - 1 for _, end in spans))
    return realize(box, [to_lin(e) for e in op.outputs[0].shape], ranges)


def call_of(
    job: Job, stage: Stage, op: ExternOp, dims: Sequence[Dim], ranges: Ranges
) -> tuple[list[Draft], Pending]:
    """Return the call that computes ``dims`` of ``stage``, and the boxes that it reads.

    The box is clipped to the tensor. The extents of a box may so depend on the loops around it. For
    a tile that lies outside of the tensor, the function is not called.
    """
    if any(d.extent.const == 0 for d in dims):
        return [], {}
    pending: Pending = {}
    tests: list[Expr] = []
    if op.boxes is None:
        read = tiles = [_whole(t) for t in op.inputs]
        written = [_whole(t) for t in op.outputs]
        computed = written
    else:
        spans, tile = tuple(_clipped(d, ranges) for d in dims), tuple(map(_unclipped, dims))
        read, tiles = (
            [_spans(ends, _values(op, given)) for ends in op.boxes.read] for given in (spans, tile)
        )
        written, computed = [spans] * len(op.outputs), [tile] * len(op.outputs)
        tests = [to_expr(lo) < to_expr(end) for d, (lo, end) in zip(dims, spans)
                 if _may_miss(d, ranges)]  # fmt: skip
    for tensor, span in zip(op.inputs, tiles):
        if job.needs_box(tensor) or tensor in job.prefetched:
            ends = tuple(end - 1 for _, end in span)
            add(pending, tensor, Box(tuple(lo for lo, _ in span), ends), ranges)
    boxes = tuple(
        (tuple(lo for lo, _ in span), tuple(end - lo for lo, end in span))
        for span in (*read, *written)
    )
    # reads come last, so that no analysis takes a call to read an element before it writes it
    writes = [*zip(op.outputs, written, computed)]
    body = [_described(stage, *one, ranges, writes=True) for one in writes]
    body += [_described(stage, *one, ranges, writes=False) for one in zip(op.inputs, read, tiles)]
    call: Draft = DraftExtern(op, boxes, block(body), stage.name)
    for test in tests:
        call = If(test, block([call]), f"elements of {stage.name}")
    return [call], pending


def _whole(tensor: Tensor) -> Spans:
    return tuple((ZERO, to_lin(e)) for e in tensor.shape)


def _unclipped(dim: Dim) -> tuple[Lin, Lin]:
    return dim.lo, dim.lo + dim.extent


def _clipped(dim: Dim, ranges: Ranges) -> tuple[Lin, Lin]:
    """Return the part of a dimension that lies in the tensor."""
    first, end = _unclipped(dim)
    if dim.low:
        first = extreme("max", (first, ZERO), ranges)
    if dim.high:
        end = extreme("min", (end, dim.size), ranges)
    return first, end


def _may_miss(dim: Dim, ranges: Ranges) -> bool:
    """Return whether a tile may have no element of the tensor in a dimension."""
    first, end = _unclipped(dim)
    before = dim.low and extreme("max", (end, ZERO), ranges) != end
    behind = dim.high and extreme("min", (first, dim.size), ranges) != first
    return before or behind


def _values(op: ExternOp, spans: Sequence[tuple[Lin, Lin]]) -> dict[Axis, Lin]:
    assert op.boxes is not None
    values: dict[Axis, Lin] = {}
    for (start, stop), (first, end) in zip(op.boxes.asked, spans):
        values[start], values[stop] = first, end
    return values


def _spans(ends: Ends, values: Mapping[Axis, Lin]) -> Spans:
    return tuple((to_lin(lo, values), to_lin(end, values)) for lo, end in ends)


def _described(
    stage: Stage, tensor: Tensor, span: Spans, tile: Spans, ranges: Ranges, writes: bool
) -> Any:
    """Return loops that access each element of ``span``, which is a part of ``tile``.

    The loops run over the tile, whose size does not depend on the loops around, and test the ends.
    """
    axes: list[Axis] = []
    tests: list[Expr] = []
    at: list[Lin] = []
    for k, ((lo, end), (first, last)) in enumerate(zip(tile, span)):
        extent = largest(end - lo, ranges) or to_lin(tensor.shape[k])
        axis = Axis(f"{stage.name}.{tensor.name}.{k}", number_or_expr(extent))
        index = lo + Lin.of(axis)
        if first != lo:
            tests.append(to_expr(index) >= to_expr(first))
        if lo + extent != last:
            tests.append(to_expr(index) < to_expr(last))
        axes.append(axis)
        at.append(index)
    inner: Any = Touch(DraftRead(tensor, tuple(at), tensor.dtype))
    if writes:
        # any value: nothing runs this store
        zero = Const(False if tensor.dtype == "bool" else 0, tensor.dtype)
        inner = DraftStore((tensor,), tuple(at), (zero,), None, stage.name)
    for test in tests:
        inner = If(test, block([inner]), "end of a box")
    for axis in reversed(axes):
        inner = For(axis, axis.extent, "serial", block([inner]), stage.name)
    return inner
